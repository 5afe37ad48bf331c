"""seeds=auto: Stein's two stages. The first ten blocks give the spread, and the spread says how many there must be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from grpo.sweep.question import FIRST_STAGE


def more_blocks(folder: Path, say: Callable[[str], None] = print) -> int:
    """Blocks of the sweep in total, at least the first stage; that alone while one of its runs is missing."""
    from grpo.report.reading import load
    from grpo.report.stein import MOST, second_stage

    record = load(folder)
    scores = record.scores()
    missing = sum(seed not in scores[arm] for arm in scores for seed in FIRST_STAGE)
    margin = record.margin
    total = None
    if not missing and margin is not None:
        total = second_stage(record.distinct_scores(), record.baseline, FIRST_STAGE, margin)
    if total is None or margin is None:
        say(f"seeds=auto waits for {missing} runs of its first stage")
        return len(FIRST_STAGE)
    if total > MOST:
        say(f"seeds=auto: ±{margin:g} would need {total} blocks; it stops at {MOST}, so a verdict may stay open")
    say(f"seeds=auto: the spread of {len(FIRST_STAGE)} blocks asks for {min(total, MOST)} in all")
    return min(total, MOST)
