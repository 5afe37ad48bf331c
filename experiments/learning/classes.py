"""Which algorithms are the same gradient in a run: the same objective on batches as that run will see them.

    python experiments/learning/classes.py      # the classes, on-policy and off-policy

Two algorithms share a class if ∂loss/∂log π agrees to 1e-9 on random batches with the reward 0 or 1 and log μ =
log π_old (the engine samples from the weights that the trainer scores), and if they collect the same groups. On-policy
means one update per rollout, log π = log π_old; off-policy, later updates have moved log π. A sweep asks the same
before it starts, up to a constant factor: grpo.sweep.sameness, whose batches these are.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from experiments.readme.algorithms import names  # noqa: E402

from grpo.config.check import load  # noqa: E402
from grpo.config.compose import Composer  # noqa: E402
from grpo.explain.compare import TOLERANCE  # noqa: E402
from grpo.sweep.sameness import Signature, factor, signature  # noqa: E402

MINIBATCHES = {False: 1, True: 4}
"""Updates per rollout, on-policy and off-policy."""


def signed(name: str, off_policy: bool, composer: Composer) -> tuple[int, Signature]:
    """Group size, and what the objective does in such a run."""
    config, _ = load([f"+algo={name}", f"updates.minibatches={MINIBATCHES[off_policy]}"], composer)
    return config.group_size, signature(config, name)


def same(first: tuple[int, Signature], second: tuple[int, Signature]) -> bool:
    """Equal group size and collection, and equal gradients, not only proportional ones."""
    scale = factor(first[1], second[1]) if first[0] == second[0] else None
    return scale is not None and abs(scale - 1.0) <= TOLERANCE


def classes(off_policy: bool) -> list[list[str]]:
    """Algorithms by class, in the order of the README's table; the first of each class stands for it."""
    composer = Composer()
    found: list[tuple[tuple[int, Signature], list[str]]] = []
    for name in names():
        mine = signed(name, off_policy, composer)
        assert mine[1].gradients is not None, name
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
