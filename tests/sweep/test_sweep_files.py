"""Every sweep file of the repository is a question whose arms compose, differ and are planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.config.compose import Composer
from grpo.sweep import files
from grpo.sweep.arms import Planner, told
from grpo.sweep.drive import refuse_same
from grpo.sweep.plan import planned, table
from grpo.sweep.question import check

COMPOSER = Composer()
SWEEPS = Path(__file__).resolve().parents[2] / "sweeps"
NAMES = sorted(path.stem for path in SWEEPS.glob("*.yaml") if not path.stem.startswith("wandb_"))


def test_the_questions_that_are_promised() -> None:
    assert set(NAMES) >= {
        "algorithms", "dapo_ladder", "group_size", "clip_high", "off_policy", "mismatch", "reward_scale",
        "distorted_reward", "temperature",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_file_plans_and_composes(name: str, tmp_path: Path) -> None:
    full = check(files.read(SWEEPS / f"{name}.yaml"))
    assert full.tune is not None
    assert full.blocks == tuple(range(10))
    question = full.model_copy(update={"tune": None, "seeds": (0,)})  # a grid of rates composes as its first point does
    planner = Planner(question, COMPOSER)
    right, wrong = planner.check()
    assert not wrong, told(wrong, list(question.arms))
    plan = planned(name, "question", question, planner, (right, wrong), tmp_path)
    refuse_same(plan)
    assert plan.same == ()
    assert question.claim is not None
    assert question.claim.source
    assert 200_000 <= (question.at.generated_tokens or 0) <= 400_000
    assert question.claim.text in table(plan, 2)
    assert max(map(len, table(plan, 2).splitlines())) < 260
    folders = [job.folder for arm in question.arms for job in planner.final(arm, question.blocks)]
    assert len(set(folders)) == len(question.arms) * len(question.blocks)
