"""seeds=auto: Stein's two stages. The first ten blocks give the spread, and the spread says how many there must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from grpo.sweep.question import FIRST_STAGE

if TYPE_CHECKING:
    from grpo.sweep.manifest import Manifest
    from grpo.sweep.plan import Planned


def more_blocks(plan: Planned, manifest: Manifest, say: Callable[[str], None] = print) -> int:
    """Blocks in total, at least the first stage; the first stage alone while one of its runs is missing."""
    from grpo.report.reading import load
    from grpo.report.stein import MOST, stein

    record = load(plan.folder)
    scores = {arm: {run.seed: run.score for run in runs} for arm, runs in record.arms.items()}
    missing = [f"{arm}/seed={seed}" for arm in scores for seed in FIRST_STAGE if scores[arm].get(seed) is None]
    margin = plan.question.margin
    if missing or margin is None or len(scores) < 2:
        say(f"seeds=auto waits for {len(missing)} runs of its first stage")
        return len(FIRST_STAGE)
    base = scores[plan.question.baseline]
    differences = {
        arm: [_known(own[seed]) - _known(base[seed]) for seed in FIRST_STAGE]
        for arm, own in scores.items()
        if arm != plan.question.baseline and not any(pair.second == arm for pair in plan.same)
    }
    total = stein(differences, margin)
    if total > MOST:
        say(f"seeds=auto: ±{margin:g} would need {total} blocks; it stops at {MOST}, so a verdict may stay open")
    say(f"seeds=auto: the spread of {len(FIRST_STAGE)} blocks asks for {min(total, MOST)} in all")
    return min(total, MOST)


def _known(score: float | None) -> float:
    assert score is not None
    return score
