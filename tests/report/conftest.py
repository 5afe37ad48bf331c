"""Two sweeps that most tests read; written once."""

from __future__ import annotations

import pytest

from grpo.report.findings import Findings, findings
from grpo.report.reading import load
from tests.report.synthetic import Run, Sweep

# 6 blocks in 64ths: differences 4/64 four times, 3/64, 5/64: mean 24/64/6 = 0.0625
BASE = {0: 32, 1: 34, 2: 30, 3: 33, 4: 31, 5: 35}
BETTER = {0: 36, 1: 38, 2: 34, 3: 37, 4: 34, 5: 40}


def sixty_fourths(scores: dict[int, int]) -> dict[int, float]:
    return {seed: score / 64 for seed, score in scores.items()}


@pytest.fixture(scope="session")
def clip_high(tmp_path_factory):
    """Three arms × 6 seeds, tuned; one arm diverged once (last validation 0.25) and collapsed once (0.125)."""
    sweep = Sweep(
        tmp_path_factory.mktemp("sweeps") / "clip_high-3f9c21ab",
        question={
            "active": "surrogate/clip_high >= 0.004",
            "tune": {"grid": {"optimizer.lr": [1e-4, 2e-4]}, "seeds": [100, 101], "budget": 0.5},
        },
    )
    sweep.arm("eps_0.20", sixty_fourths(BASE))
    sweep.arm("eps_0.28", sixty_fourths(BETTER), "surrogate.high=0.28")
    wild: dict[int, float | Run] = dict(sixty_fourths(BASE))
    wild[2], wild[4] = Run(0.25, state="failed", kind="diverged", steps=10), 0.125
    sweep.arm("no_upper", wild, "surrogate.high=inf")
    for arm in sweep.arms:
        sweep.tuned(arm, {1e-4: {100: 0.40, 101: 0.42}, 2e-4: {100: 0.50, 101: 0.46}}, best=2e-4)
    return sweep.write()


@pytest.fixture(scope="session")
def found(clip_high) -> Findings:
    """What clip_high shows."""
    return findings(load(clip_high))
