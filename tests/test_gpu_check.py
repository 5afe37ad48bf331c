"""experiments/gpu_check works on a CPU, records and tells a failing phase, and its table is that of its results."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from experiments.common import REPOSITORY
from experiments.gpu_check import __main__ as program
from experiments.gpu_check import model, report, runs
from experiments.gpu_check.check import Context, Failed, Numbers, Skipped, guarded, require

from grpo.config.check import load
from grpo.plan.memory import plan

HERE = Path(report.__file__).parent


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context("cpu", True, tmp_path, time.monotonic() + 60)


def test_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    file = tmp_path / "cpu.json"
    words = ["--cpu", "--out", str(file), "--phases", "kernels", "precision", "transformers", "sleeping"]
    assert program.main(words) == 0
    made = json.loads(file.read_text())
    status = {phase["name"]: phase["status"] for phase in made["phases"]}
    assert status == {"kernels": "ok", "precision": "ok", "transformers": "ok", "sleeping": "skipped"}
    numbers = {phase["name"]: phase.get("numbers", {}) for phase in made["phases"]}
    assert numbers["precision"]["tokens"] == 2 * 4 * 8
    assert numbers["precision"]["float32_engine_mean"] < 1e-5 < numbers["precision"]["bf16_autocast_mean"]
    assert numbers["transformers"]["mismatch_mean"] < 1e-5
    assert {"rollout_s", "update_s", "sync_s", "generated_tokens_per_s"} <= numbers["transformers"].keys()
    assert made["small"] is True
    assert made["packages"]["torch"] == torch.__version__
    assert {"git", "command", "device", "seconds"} <= made.keys()
    assert "| transformers | ok |" in capsys.readouterr().out


def test_the_size_of_the_policy() -> None:
    """Embeddings, tied; 24 layers of q and o, k and v, three of the MLP and two norms; the last norm."""
    from transformers import LlamaForCausalLM

    with torch.device("meta"):
        made = LlamaForCausalLM(model.settings(small=False))
    layer = 2 * 1024**2 + 2 * 1024 * 256 + 3 * 1024 * 4096 + 2 * 1024
    assert made.num_parameters() == 151_936 * 1024 + 24 * layer + 1024 == 520_537_088


def breaks(context: Context) -> Numbers:
    raise RuntimeError("CUDA error:\n  no kernel image")


def lacks(context: Context) -> Numbers:
    raise Skipped("two GPUs are needed")


def measures(context: Context) -> Numbers:
    return require({"reward": 0.3}, (True, "fine"), (False, "the reward did not rise"), (False, "nor did it fall"))


def hangs(context: Context) -> Numbers:
    time.sleep(30)
    return {}


def test_what_becomes_of_a_phase(context: Context) -> None:
    made = guarded("a", breaks, context)
    assert (made.status, made.reason) == ("failed", "CUDA error: no kernel image")
    assert "in breaks" in made.trace
    assert str(REPOSITORY) not in made.trace  # results are kept and shown
    made = guarded("b", measures, context)
    assert (made.status, made.numbers) == ("failed", {"reward": 0.3})
    assert made.reason == "the reward did not rise; nor did it fall"
    made = guarded("c", lacks, context)
    assert (made.status, made.reason, made.trace) == ("skipped", "two GPUs are needed", "")
    soon = Context("cpu", True, context.work, time.monotonic() + 1.2)
    assert guarded("d", hangs, soon).reason.startswith("it was not done after")
    late = Context("cpu", True, context.work, time.monotonic())
    assert guarded("e", lambda _: {}, late).reason == "no time was left for it"
    assert guarded("f", lambda _: {"x": 1}, context).status == "ok"


def test_a_failing_phase_does_not_stop_the_others_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "PHASES", {"bad": breaks, "lacking": lacks, "good": lambda _: {"x": 0.5}})
    words = ["--cpu", "--out", str(tmp_path / "r.json"), "--phases"]
    assert program.main([*words, "bad", "lacking", "good"]) == 1
    assert program.main([*words, "lacking", "good"]) == 0
    assert "| good | ok | 0 | x 0.5 |" in capsys.readouterr().out


def metrics(folder: Path, rows: list[dict[str, float]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def step(**changed: float) -> dict[str, float]:
    row = {"time/rollout": 2.0, "time/update": 1.0, "time/sync": 0.1, "speed/generated_tokens_per_s": 100.0}
    row |= {"speed/trained_tokens_per_s": 200.0, "mismatch/abs_logp_mean": 0.01, "mismatch/abs_logp_max": 0.3}
    return {**row, "memory/peak": 10.0, "reward": 0.5, **{k.replace("__", "/"): v for k, v in changed.items()}}


def faked(monkeypatch: pytest.MonkeyPatch, context: Context, rows: list[dict[str, float]]) -> None:
    monkeypatch.setattr(runs, "train", lambda *words, **named: metrics(context.work / "run", rows))


def test_the_speed_is_the_median_of_the_last_two_steps(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, context, [step(time__rollout=9.0), step(), step(time__rollout=4.0)])
    numbers = runs.transformers_speed(context)
    assert (numbers["rollout_s"], numbers["update_s"], numbers["mismatch_mean"]) == (3.0, 1.0, 0.01)  # (2 + 4) / 2
    assert "planned_gb" not in numbers  # a CPU's resident set is no torch allocator


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([step(), step()], "2 of 3 steps had an update"),
        ([step(), step(mismatch__abs_logp_mean=0.11), step()], "above 0.1"),
    ],
)
def test_a_run_that_is_not_as_it_must_be(
    context: Context, monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, float]], reason: str
) -> None:
    faked(monkeypatch, context, rows)
    with pytest.raises(Failed, match=reason):
        runs.transformers_speed(context)


def test_memory_is_held_against_the_plan(context: Context) -> None:
    asked = runs.words(context)
    planned = runs.memory(asked, 1.0)["planned_gb"]
    assert planned == pytest.approx(0.0, abs=0.05)  # tiny
    peak = plan(load([*asked, "trainer=gpu"])[0]).peak / 1e9
    assert runs.memory(asked, 1.1 * peak)["measured_over_planned"] == 1.1


def test_a_reward_that_falls_is_no_success(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    rising = [step(reward=0.3 + 0.01 * i) for i in range(15)]
    faked(monkeypatch, context, rising)
    assert runs.smoke(context) == {"steps": 15, "reward_first_3": 0.31, "reward_last_3": 0.43}
    faked(monkeypatch, context, rising[::-1])
    with pytest.raises(Failed, match="the reward did not rise"):
        runs.smoke(context)


def test_one_gpu_is_not_enough_for_two(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(Skipped, match="two GPUs are needed, here is 1"):
        runs.ddp(replace(context, device="cuda"))


def test_a_child_that_fails_or_hangs_is_a_sentence() -> None:
    with pytest.raises(Failed, match=r"exit code 3: one \| two"):
        runs.child([sys.executable, "-c", "import sys; print('one\\ntwo', file=sys.stderr); sys.exit(3)"], 20)
    with pytest.raises(Failed, match="it was not done after 1 s"):
        runs.child([sys.executable, "-c", "import time; time.sleep(20)"], 1)


def test_the_table_is_that_of_the_results() -> None:
    results = [report.read(file) for file in sorted((HERE / "results").glob("*.json"))]
    assert results
    assert (HERE / "table.md").read_text(encoding="utf-8").endswith(report.table(results))
    if all(made["device"] == "CPU" for made in results):
        assert (HERE / "table.md").read_text(encoding="utf-8").startswith("Not run on a GPU yet")
        assert "Not run on a GPU yet." in (HERE / "README.md").read_text(encoding="utf-8")
