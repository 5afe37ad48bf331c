"""Whole runs: what they leave behind, how they stop and how they go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from grpo.runs import checkpoint
from tests import helpers

KINDS = {
    "grpo": ("updates.minibatches=2", "updates.epochs=2"),
    "dapo": ("+algo=dapo", "rollout.lag=1", "optimizer.lr=1e-3", "updates.minibatches=2"),
}


def same_tensors(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def assert_same_end(one: Path, other: Path, step: int) -> None:
    """Weights, optimizer, counters and every recorded number but the clock's, bit for bit."""
    a, b = (checkpoint.load(run / "checkpoints" / checkpoint.step_name(step)) for run in (one, other))
    assert same_tensors(a.tensors, b.tensors)
    assert same_tensors(a.extra, b.extra)
    assert a.state == b.state
    for key, state in a.optimizer["state"].items():
        assert same_tensors(state, b.optimizer["state"][key])
    for name in ("metrics", "samples", "evaluations"):
        mine = [helpers.without_clock(row) for row in helpers.lines(one / f"{name}.jsonl")]
        theirs = [helpers.without_clock(row) for row in helpers.lines(other / f"{name}.jsonl")]
        assert mine == theirs


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_and_resumed_equals_uninterrupted(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = (*KINDS[kind], "max_steps=4", "samples_every=1")
    code, straight = helpers.run(tmp_path / "straight", *overrides)
    assert code == 0
    # The untrained evaluation scores twice, so call 4 is step 2 of plain GRPO; DAPO may stop a step earlier.
    monkeypatch.setenv("STOP_AT", "4")
    code, stopped = helpers.run(tmp_path / "stopped", *overrides)
    status = json.loads((stopped / "status.json").read_text())
    assert (code, status["status"], status["reason"]) == (143, "stopped", "SIGTERM")
    assert 0 < status["step"] < 4
    assert checkpoint.newest_complete(stopped / "checkpoints")[0] == stopped / "checkpoints" / checkpoint.step_name(
        status["step"]
    )
    monkeypatch.delenv("STOP_AT")
    code, resumed = helpers.run(tmp_path / "stopped", *overrides, "resume=auto")
    assert (code, resumed) == (0, stopped)
    assert json.loads((resumed / "status.json").read_text())["status"] == "done"
    assert_same_end(straight, resumed, 4)


def test_kill_9_loses_at_most_the_steps_since_the_last_checkpoint(tmp_path: Path) -> None:
    overrides = ("max_steps=6", "checkpoint.every=1", "samples_every=1")
    code, straight = helpers.run(tmp_path / "straight", *overrides)
    assert code == 0
    command = [sys.executable, "-m", "grpo", *helpers.SMALL, *overrides, f"output_dir={tmp_path / 'killed'}"]
    repository = Path(__file__).resolve().parents[1]
    # SIGKILL from inside, at the fifth scoring: in the middle of step 3 or 4.
    environment = {**os.environ, "STOP_AT": "5", "STOP_SIGNAL": "SIGKILL"}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == -9
    killed = helpers.newest(tmp_path / "killed")
    assert json.loads((killed / "status.json").read_text())["status"] == "running"
    code, resumed = helpers.run(tmp_path / "killed", *overrides, "resume=auto")
    assert (code, resumed) == (0, killed)
    assert_same_end(straight, resumed, 6)


@pytest.mark.parametrize("end", ["max_steps=2", "budget.generated_tokens=250"])
def test_stopped_after_the_last_step_only_the_test_is_left(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = (end, "eval.every=null", "checkpoint.every=1")
    assert helpers.run(tmp_path / "straight", *overrides)[0] == 0
    straight = helpers.newest(tmp_path / "straight")
    steps = json.loads((straight / "status.json").read_text())["step"]
    monkeypatch.setenv("STOP_AT", str(2 + steps))  # the untrained evaluation scores twice
    assert helpers.run(tmp_path / "stopped", *overrides)[0] == 143
    monkeypatch.delenv("STOP_AT")
    assert helpers.run(tmp_path / "stopped", *overrides, "resume=auto")[0] == 0
    stopped = helpers.newest(tmp_path / "stopped")
    one, other = (json.loads((run / "status.json").read_text()) for run in (straight, stopped))
    assert (other["status"], other["step"], other["reason"]) == ("done", steps, one["reason"])
    assert_same_end(straight, stopped, steps)
    assert (straight / "policy" / "model.safetensors").read_bytes() == (
        stopped / "policy" / "model.safetensors"
    ).read_bytes()


def test_what_a_run_leaves_behind(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    _, run = helpers.run(tmp_path, "max_steps=2", "checkpoint.every=1", "checkpoint.keep=1", "save_rollouts=true")
    for name in ("config.yaml", "algorithm.txt", "environment.json", "progress.json", "curves.png"):
        assert (run / name).stat().st_size > 0
    metrics = helpers.lines(run / "metrics.jsonl")
    assert [row["step"] for row in metrics] == [0, 1, 2, 2]
    assert {"reward", "grad_norm", "policy/entropy", "tokens/generated", "time/step", "kl/ref"} <= metrics[1].keys()
    assert "test/avg@2" in metrics[-1]
    assert "validation/avg@2" in metrics[2]
    model = AutoModelForCausalLM.from_pretrained(run / "policy")
    saved = checkpoint.load(run / "checkpoints" / "step-000002").tensors
    assert same_tensors(saved, dict(model.named_parameters()))
    tokenizer = AutoTokenizer.from_pretrained(run / "policy")
    assert tokenizer.decode(tokenizer.encode("37+5=", add_special_tokens=False)) == "37+5="

    # Played back, the same rollouts give the same weights without sampling for training.
    code, again = helpers.run(
        tmp_path / "replayed", "max_steps=2", "rollout=replay", f"rollout.path={run}", "checkpoint.every=1"
    )
    assert code == 0
    assert same_tensors(saved, checkpoint.load(again / "checkpoints" / "step-000002").tensors)


def test_log_every_and_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, run = helpers.run(tmp_path, "budget.generated_tokens=500", "log_every=10", "eval.every=100")
    assert code == 0
    assert " steps · 0 tokens" not in capsys.readouterr().out
    status = json.loads((run / "status.json").read_text())
    assert (status["status"], status["reason"]) == ("done", "token budget spent")
    metrics = [row for row in helpers.lines(run / "metrics.jsonl") if "tokens/generated" in row]
    # 16 completions of at most 12 tokens a step: at least 3 steps; the last one is always written.
    assert metrics[-1]["tokens/generated"] >= 500
    assert metrics[-1]["step"] == status["step"] >= 3
    assert all(row["step"] % 10 == 0 for row in metrics[:-1])


def test_without_kl_no_reference_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from grpo.models import load

    def forbidden(*_: object) -> None:
        raise AssertionError("a reference was loaded")

    monkeypatch.setattr(load, "load_reference", forbidden)
    assert helpers.run(tmp_path, "max_steps=1", "kl=none")[0] == 0
    with pytest.raises(AssertionError, match="a reference was loaded"):
        helpers.run(tmp_path, "max_steps=1")


def test_runs_in_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    _, one = helpers.run(tmp_path / "a", "max_steps=2")
    torch.rand(3)
    _, two = helpers.run(tmp_path / "b", "max_steps=2")
    assert_same_end(one, two, 2)


def reward(name: str, *more: str) -> tuple[str, ...]:
    return (f"reward.functions.own._target_=tests.helpers.{name}", *more)


def test_preflight_stops_where_nothing_can_be_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from grpo.errors import UserError

    hopeless = (*reward("constant"), "max_steps=11", "preflight=strict")
    with pytest.raises(UserError) as caught:
        helpers.run(tmp_path, *hopeless)
    first, *samples = str(caught.value).splitlines()
    # 64 · group_size = 256 completions in 64 groups of 4 were allowed, and all of them sampled
    assert first.startswith("preflight   nothing can be learned: all 256 completions (64 groups of 4)")
    assert first.endswith("(preflight=warn goes on all the same)")
    assert len(samples) == 3
    status = json.loads((helpers.newest(tmp_path) / "status.json").read_text())
    assert (status["status"], status["step"]) == ("failed", 0)
    assert status["error"] == str(caught.value)
    # Ten steps are a trial: only a warning.
    assert helpers.run(tmp_path, *reward("constant"), "max_steps=1", "preflight=strict")[0] == 0
    assert "warning: nothing can be learned" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("broken", "reward.functions.own   it raised ValueError: odd length on sample "),
        ("short_of_one", "reward.functions.own   it returned 15 scores for 16 completions; return one each"),
        ("infinite", "reward.functions.own   it returned inf for sample 0 (question "),
    ],
)
def test_a_failing_reward_is_named(name: str, sentence: str, tmp_path: Path) -> None:
    from grpo.errors import UserError

    with pytest.raises(UserError) as caught:
        helpers.run(tmp_path, *reward(name), "preflight=warn", "max_steps=1")
    assert str(caught.value).startswith(sentence)
    assert json.loads((helpers.newest(tmp_path) / "status.json").read_text())["status"] == "failed"


def test_completions_that_do_not_fit_the_model_are_refused(tmp_path: Path) -> None:
    from grpo.errors import UserError

    sentence = (
        r"max_completion_tokens   2048 tokens and a prompt do not fit the model's 2048 positions; say .*=1024 or less"
    )
    with pytest.raises(UserError, match=sentence):
        helpers.run(tmp_path, "max_completion_tokens=2048")
    assert not list(tmp_path.iterdir())


def test_resume_from_another_configuration_is_refused(tmp_path: Path) -> None:
    from grpo.errors import UserError

    _, run = helpers.run(tmp_path, "max_steps=1")
    with pytest.raises(UserError, match=r"was made by another configuration: .*optimizer\.lr"):
        helpers.run(tmp_path, "max_steps=1", "optimizer.lr=1e-3", f"resume={run}")


def test_a_mistake_about_wandb_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grpo.errors import UserError

    monkeypatch.setenv("WANDB_MODE", "of")
    with pytest.raises(UserError, match="WANDB_MODE   of is unknown"):
        helpers.run(tmp_path / "runs", "logger=wandb")
    assert not (tmp_path / "runs").exists()


def test_wandb_offline_holds_metrics_config_and_table(tmp_path: Path) -> None:
    from tests.recording.wandb_offline import read_finished

    _, run = helpers.run(tmp_path, "max_steps=2", "logger=wandb", "samples_every=1")
    found = read_finished(next((run / "wandb").glob("offline-run-*")))
    metrics = helpers.lines(run / "metrics.jsonl")
    assert [row["reward"] for row in found.history if "reward" in row] == [
        r["reward"] for r in metrics if "reward" in r
    ]
    assert found.config["group_size"] == 4
    assert found.config["surrogate"]["low"] == 0.2
    assert any(name.startswith("samples/") for row in found.history for name in row)
    assert found.summary["test/avg@2"] == metrics[-1]["test/avg@2"]
