"""Whole runs with rollout=vllm."""

from __future__ import annotations

import json
from importlib import util
from pathlib import Path

import pytest
import torch

if util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed (make setup-vllm)", allow_module_level=True)

from grpo.errors import UserError
from grpo.models.folders import smollm2_folder
from grpo.rollout.vllm_engine import VllmEngine
from tests import helpers
from tests.rollout.test_vllm import gap, questions
from tests.rollout.vllm_worlds import made, running, sample
from tests.test_run import assert_same_end

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


def test_a_stale_engine_is_repaired_and_the_step_sampled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, straight = helpers.run(tmp_path / "straight", *RUN)
    install, broken = VllmEngine.install, []

    def once(self: VllmEngine, pairs: list) -> None:
        if self.version == 0 and self._unproven is False and getattr(self, "trained", False) and not broken:
            broken.append(1)  # the first sync after an update is lost
            return
        install(self, pairs)

    monkeypatch.setattr(VllmEngine, "install", once)
    check = VllmEngine.check

    def noted(self: VllmEngine, mismatch: float) -> bool:
        fine = check(self, mismatch)
        self.trained = True  # type: ignore[attr-defined]
        return fine

    monkeypatch.setattr(VllmEngine, "check", noted)
    code, run = helpers.run(tmp_path / "broken", *RUN)
    assert (code, broken) == (0, [1])
    assert "warning   vLLM does not have the weights it was given (version 1)" in capsys.readouterr().out
    rows = [row for row in helpers.lines(run / "metrics.jsonl") if "sampling/resyncs" in row]
    assert [row["sampling/resyncs"] for row in rows] == [0, 1, 1]
    # the step was sampled again from the right weights, so that the run ends where the other one did
    sound = [row for row in helpers.lines(straight / "metrics.jsonl") if "sampling/resyncs" in row]
    assert [row["reward"] for row in rows] == [row["reward"] for row in sound]
    assert rows[-1]["grad_norm"] == sound[-1]["grad_norm"]


def test_an_engine_that_stays_stale_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install = VllmEngine.install

    def never_again(self: VllmEngine, pairs: list) -> None:
        if self.guard.usual == 1e-6 or self.version == 0:
            install(self, pairs)

    self_test_done = VllmEngine.check

    def then_deaf(self: VllmEngine, mismatch: float) -> bool:
        fine = self_test_done(self, mismatch)
        monkeypatch.setattr(VllmEngine, "install", lambda self, pairs: None)
        return fine

    monkeypatch.setattr(VllmEngine, "install", never_again)
    monkeypatch.setattr(VllmEngine, "check", then_deaf)
    with pytest.raises(UserError, match="also after another sync"):
        helpers.run(tmp_path, *RUN)
    status = json.loads((helpers.newest(tmp_path) / "status.json").read_text())
    assert (status["status"], status["step"]) == ("failed", 1)


@pytest.mark.smollm2
@pytest.mark.skipif(not (smollm2_folder() / "config.json").exists(), reason="make smollm2")
def test_smollm2_agrees_with_the_trainer() -> None:
    run = made("model=smollm2", "task=words", "max_completion_tokens=24")
    with running(run) as engine:
        for temperature in (1.0, 0.7):
            rollouts = sample(engine, questions(run), n=4, temperature=temperature, max_tokens=24)
            assert gap(run, questions(run), rollouts, temperature) <= 2e-4
