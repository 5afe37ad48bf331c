"""Which algorithms are the same gradient in a run: the same objective on batches as that run will see them.

    python experiments/learning/classes.py      # the classes, on-policy and off-policy

Two algorithms share a class if ∂loss/∂log π agrees to 1e-9 on random batches with the reward 0 or 1 and log μ =
log π_old (the engine samples from the weights that the trainer scores), and if they collect the same groups. On-policy
means one update per rollout, log π = log π_old; off-policy, later updates have moved log π.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from experiments.readme.algorithms import names  # noqa: E402

from grpo.algorithm.form import build  # noqa: E402
from grpo.config.check import load  # noqa: E402
from grpo.config.compose import Composer  # noqa: E402
from grpo.explain.account import account  # noqa: E402
from grpo.explain.batch import Numbers, check  # noqa: E402
from grpo.explain.compare import TOLERANCE, flat  # noqa: E402

LONGEST = 12
VOCABULARY = 5


def numbers(seed: int, group_size: int, off_policy: bool, groups: int = 6) -> Numbers:
    """A batch of `groups` prompts, the first all right and the second all wrong, the others mixed; lengths 1 to 12."""
    draw = random.Random(seed)
    data: dict[str, Any] = {key: [] for key in ("logp", "logp_old", "logp_ref", "logp_rollout", "entropy", "tokens")}
    data |= {"rewards": [], "group_ids": [], "truncated": []}
    for group in range(groups):
        right = {0: group_size, 1: 0}.get(group, draw.randint(1, group_size - 1))
        for sample in range(group_size):
            length = draw.choice((LONGEST, draw.randint(1, LONGEST)))
            old = [-draw.expovariate(1.0) - 0.01 for _ in range(length)]
            moved = [min(x + draw.gauss(0, 0.3), -1e-3) for x in old]
            data["logp_old"].append(old)
            data["logp_rollout"].append(old)
            data["logp"].append(moved if off_policy else old)
            data["logp_ref"].append([min(x + draw.gauss(0, 0.2), -1e-3) for x in old])
            data["entropy"].append([draw.random() for _ in old])
            data["tokens"].append([str(int(-10 * x) % 3) for x in old])
            data["rewards"].append(float(sample < right))
            data["group_ids"].append(group)
            data["truncated"].append(length == LONGEST)
    return check(data, f"batch {seed}")


def signature(name: str, off_policy: bool, composer: Composer) -> tuple[Any, ...]:
    """What tells two algorithms apart: group size, how groups are collected, and the gradient on two batches."""
    config, _ = load([f"+algo={name}"], composer)
    objective = build(config)
    rule = objective.filter
    again = repr(rule) if rule.resamples and rule.max_rounds > 1 else ""
    gradients = []
    for seed in (1, 2):
        batch = numbers(seed, config.group_size, off_policy)
        gradients += flat(account(objective, batch, LONGEST, name)).tolist()
    return config.group_size, again, gradients


def same(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Equal group size and collection, and gradients equal to 1e-9 of the largest entry."""
    if first[:2] != second[:2]:
        return False
    a, b = first[2], second[2]
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b, strict=True)) <= TOLERANCE * max(map(abs, b))


def classes(off_policy: bool) -> list[list[str]]:
    """Algorithms by class, in the order of the README's table; the first of each class stands for it."""
    composer = Composer()
    found: list[tuple[tuple[Any, ...], list[str]]] = []
    for name in names():
        mine = signature(name, off_policy, composer)
        assert all(math.isfinite(x) for x in mine[2]), name
        for other, members in found:
            if same(other, mine):
                members.append(name)
                break
        else:
            found.append((mine, [name]))
    return [members for _, members in found]


if __name__ == "__main__":
    for off_policy in (False, True):
        made = classes(off_policy)
        print(f"{'off' if off_policy else 'on'}-policy: {len(made)} classes of {len(names())} algorithms")
        for members in made:
            print("  ", " = ".join(members))
