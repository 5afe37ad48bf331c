"""Whole runs with rollout=vllm."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest
import torch

if util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (make setup-vllm)", allow_module_level=True)

from tests import helpers
from tests.rollout.test_vllm import gap, questions
from tests.rollout.vllm_worlds import made, running, sample
from tests.test_run import assert_same_end

from grpo.errors import UserError
from grpo.models.folders import smollm2_folder
from grpo.rollout.vllm_engine import VllmEngine

RUN = ("rollout=vllm", "max_steps=3", "eval.every=null", "samples_every=1")


@pytest.mark.parametrize("kind", [(), ("+algo=dapo", "rollout.lag=1", "updates.minibatches=2")])
def test_resumed_equals_uninterrupted(kind: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Three engines one after another in this process: none is left behind, none disturbs the next.
    overrides = (*RUN, *kind)
    code, straight = helpers.run(tmp_path / "straight", *overrides)
    assert code == 0
    assert not torch.distributed.is_initialized()
    monkeypatch.setenv("STOP_AT", "4")
    assert helpers.run(tmp_path / "stopped", *overrides)[0] == 143
    monkeypatch.delenv("STOP_AT")
    code, resumed = helpers.run(tmp_path / "stopped", *overrides, "resume=auto")
    assert code == 0
    assert_same_end(straight, resumed, 3)
    last = [row for row in helpers.lines(straight / "metrics.jsonl") if "sampling/lag" in row][-1]
    assert last["sampling/lag"] == (1 if kind else 0)
    assert last["sampling/resyncs"] == 0
    if not kind:
        assert last["mismatch/abs_logp_max"] < 1e-5


def test_two_ranks_with_an_engine_each_make_the_run_of_one(tmp_path: Path) -> None:
    words = ("rollout=vllm", "max_steps=2", "eval.every=null", "samples_every=1")
    _, alone = helpers.run(tmp_path / "alone", *words)
    command = [sys.executable, "-m", "grpo", *helpers.SMALL, *words, f"output_dir={tmp_path}/two", "trainer.devices=2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    two = helpers.newest(tmp_path / "two")
    mine, theirs = (helpers.lines(folder / "samples.jsonl") for folder in (alone, two))
    assert [row["completion"] for row in mine] == [row["completion"] for row in theirs]
    mine, theirs = (helpers.lines(folder / "metrics.jsonl") for folder in (alone, two))
    for row, other in zip(mine, theirs, strict=True):  # float32: sums in another order
        for name in ("loss", "grad_norm", "reward", "validation/avg@2", "test/avg@2"):
            assert row.get(name) == pytest.approx(other.get(name), abs=1e-5)


def losing(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The first `times` syncs of version 1, that of the first update, never reach vLLM."""
    sync, lost = VllmEngine.sync, []

    def forgetful(self: VllmEngine, weights: dict[str, torch.Tensor], version: int) -> None:
        if version == 1 and len(lost) < times:
            lost.append(version)
            self.version, self._unproven = version, True
            return
        sync(self, weights, version)

    monkeypatch.setattr(VllmEngine, "sync", forgetful)


def test_a_stale_engine_is_repaired_and_the_step_sampled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, straight = helpers.run(tmp_path / "straight", *RUN)
    losing(monkeypatch, 1)
    code, run = helpers.run(tmp_path / "broken", *RUN)
    assert code == 0
    assert "warning   vLLM does not have the weights it was given (version 1)" in capsys.readouterr().out
    rows, sound = (
        [row for row in helpers.lines(folder / "metrics.jsonl") if "sampling/resyncs" in row]
        for folder in (run, straight)
    )
    assert [row["sampling/resyncs"] for row in rows] == [0, 1, 1]
    # Step 2 was sampled again from the right weights, so that the run is the other one in every number but this.
    for mine, other in zip(rows, sound, strict=True):
        assert helpers.without_clock({**mine, "sampling/resyncs": 0}) == helpers.without_clock(other)


def test_an_engine_that_stays_stale_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losing(monkeypatch, 2)
    with pytest.raises(UserError, match="also after another sync"):
        helpers.run(tmp_path, *RUN)
    folder = helpers.newest(tmp_path)
    assert json.loads((folder / "status.json").read_text())["status"] == "failed"
    assert [row["step"] for row in helpers.lines(folder / "metrics.jsonl")] == [0, 1]
    assert not torch.distributed.is_initialized()


def test_a_sync_that_fails_at_start_is_told_and_leaves_no_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = VllmEngine.install
    monkeypatch.setattr(VllmEngine, "install", lambda self, pairs: whole(self, list(pairs)[1:]))  # without embed_tokens
    with pytest.raises(UserError, match=r"the weight sync to vLLM fails.*stayed old: model\.embed_tokens\.weight;"):
        helpers.run(tmp_path, *RUN)
    assert not torch.distributed.is_initialized()


@pytest.mark.smollm2
@pytest.mark.skipif(not (smollm2_folder() / "config.json").exists(), reason="make smollm2")
def test_smollm2_agrees_with_the_trainer() -> None:
    run = made("model=smollm2", "task=words", "max_completion_tokens=24")
    with running(run) as engine:
        for temperature in (1.0, 0.7):
            rollouts = sample(engine, questions(run), n=4, temperature=temperature, max_tokens=24)
            assert gap(run, questions(run), rollouts, temperature) <= 2e-4
