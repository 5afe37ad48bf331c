"""Batches of numbers in which algorithms can be told apart: what an update of a given run may see, drawn at random."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from grpo.explain.batch import Numbers, check

LONGEST = 12
"""The length limit of a synthetic completion; shapings speak of fractions of it."""
GROUPS = 6


@dataclass(frozen=True)
class Scene:
    """How an update of a run looks."""

    group_size: int
    moved: bool = False
    """log π ≠ log π_old: an update after the first of a rollout."""
    apart: bool = False
    """log μ ≠ log π_old: the engine's weights or numbers are not the trainer's."""
    wild: bool = False
    """Some ratios are large, for caps that lie far out."""
    weights: tuple[float, ...] = (1.0,)
    """Of the reward functions."""
    accuracy: int = 0
    """The reward function that tells right from wrong."""
    graded: bool = False
    """Rewards are any number, not only 0 and 1; where there are several, some do not apply."""


def numbers(seed: int, scene: Scene) -> Numbers:
    """Six prompts, the first all right, the second all wrong, the others mixed; lengths 1 to 12, some cut.

    Even seeds have a third one without spread: how many there are changes from step to step, so a filter that leaves
    them out scales each step by a factor of its own.
    """
    draw = random.Random(seed)
    uniform = {0: scene.group_size, 1: 0} | ({2: 0} if seed % 2 == 0 else {})
    names = ("logp", "logp_old", "logp_ref", "logp_rollout", "entropy", "kl_exact", "tokens")
    data: dict[str, Any] = {name: [] for name in names}
    data |= {"rewards_per_func": [], "reward_weights": list(scene.weights), "accuracy": []}
    data |= {"group_ids": [], "truncated": []}
    for group in range(GROUPS):
        right = uniform.get(group, draw.randint(1, scene.group_size - 1))
        for sample in range(scene.group_size):
            length = draw.choice((LONGEST, draw.randint(1, LONGEST)))
            for name, row in _tokens(draw, length, scene).items():
                data[name].append(row)
            data["rewards_per_func"].append(_rewards(draw, sample < right, scene))
            data["accuracy"].append(float(sample < right))
            data["group_ids"].append(group)
            data["truncated"].append(length == LONGEST)
    return check(data, f"batch {seed}")


def _tokens(draw: random.Random, length: int, scene: Scene) -> dict[str, list[Any]]:
    rate = 0.3 if scene.wild else 1.0

    def near(row: list[float], spread: float) -> list[float]:
        """The row of another policy; probabilities stay below 1."""
        widths = [2.0 if scene.wild and draw.random() < 0.3 else spread for _ in row]
        return [min(x + draw.gauss(0, width), -1e-3) for x, width in zip(row, widths, strict=True)]

    old = [-draw.expovariate(rate) - 0.01 for _ in range(length)]
    return {
        "logp_old": old,
        "logp_rollout": near(old, 0.3) if scene.apart else old,
        "logp": near(old, 0.3) if scene.moved else old,
        "logp_ref": near(old, 0.2),
        "entropy": [draw.random() for _ in old],
        "kl_exact": [draw.random() for _ in old],
        "tokens": [str(int(-10 * x) % 3) for x in old],
    }


def _rewards(draw: random.Random, right: bool, scene: Scene) -> list[float | None]:
    row: list[float | None] = []
    for place in range(len(scene.weights)):
        mine = float(right) if place == scene.accuracy else float(draw.random() < 0.5)
        if scene.graded:
            mine += draw.gauss(0, 0.3)
        absent = scene.graded and place != scene.accuracy and draw.random() < 0.2
        row.append(None if absent else mine)
    return row
