"""Rollouts on disk come back as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.data import Prompt, Rollout, Sampling
from grpo.errors import UserError
from grpo.rollout import replay

PROMPT = Prompt("37+5", (1, 2), "37+5=")


def rollout(sample: int) -> Rollout:
    return Rollout(
        "37+5", 0, sample, (5, 6, 2), (-0.1, -1 / 3, -2e-9), (True, False, True), "stop", "42", weight_version=7
    )


class Live:
    version = 9

    def generate(self, prompts, n, sampling, *, seed, stream, step):
        return ["live", stream]


def test_round_trip_and_evaluation_stays_live(tmp_path: Path) -> None:
    recorded = [rollout(i) for i in range(3)]
    replay.save(tmp_path, 4, "train/0", recorded)
    engine = replay.ReplayEngine(tmp_path, Live())  # type: ignore[arg-type]
    played = engine.generate([PROMPT], 2, Sampling(), seed=0, stream="train/0", step=4)
    assert played == recorded[:2]  # floats too, to the last digit
    assert engine.generate([PROMPT], 2, Sampling(), seed=0, stream="validation", step=4) == ["live", "validation"]


def test_a_step_that_runs_again_replaces_its_file_and_a_prompt_that_comes_twice_has_two_groups(tmp_path: Path) -> None:
    for _ in range(2):
        replay.save(tmp_path, 4, "train/0", [rollout(0), rollout(1), rollout(2), rollout(3)])
        replay.save(tmp_path, 4, "train/1", [rollout(4)])
    assert len(replay.rollout_file(tmp_path, 4).read_text().splitlines()) == 5
    engine = replay.ReplayEngine(tmp_path, Live())  # type: ignore[arg-type]
    played = engine.generate([PROMPT, PROMPT], 2, Sampling(), seed=0, stream="train/0", step=4)
    assert [(r.group, r.sample) for r in played] == [(0, 0), (0, 1), (1, 2), (1, 3)]


def test_a_cut_file_is_a_sentence(tmp_path: Path) -> None:
    replay.save(tmp_path, 4, "train/0", [rollout(0)])
    file = replay.rollout_file(tmp_path, 4)
    file.write_text(file.read_text()[:60])
    with pytest.raises(UserError, match=r"rollout\.path   .* is damaged"):
        replay.load(tmp_path, 4)


def test_what_was_not_recorded_is_a_sentence(tmp_path: Path) -> None:
    engine = replay.ReplayEngine(tmp_path, Live())  # type: ignore[arg-type]
    with pytest.raises(UserError, match="record rollouts with save_rollouts=true first"):
        engine.generate([PROMPT], 2, Sampling(), seed=0, stream="train/0", step=4)
    replay.save(tmp_path, 4, "train/0", [rollout(0)])
    with pytest.raises(UserError, match="holds 1 completions of prompt '37\\+5', this run wants 2"):
        engine.generate([PROMPT], 2, Sampling(), seed=0, stream="train/0", step=4)
