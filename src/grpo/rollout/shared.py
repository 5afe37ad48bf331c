"""Sampling on several ranks: each samples whole groups, and every rank gets all of them.

Random numbers are functions of (seed, stream, step, prompt, sample, position), so who samples a group changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from grpo.data import Prompt, Rollout, Sampling
from grpo.ranks.ranks import Ranks
from grpo.rollout.base import Engine, Wrapping


def dealt(prompts: Sequence[Prompt], count: int) -> list[list[int]]:
    """Places of the prompts that each of `count` ranks samples, in order; equal prompts go to one rank.

    Equal ones count each other (`base.earlier`), or two groups of a question would hold the same completions.
    """
    places: dict[str, list[int]] = {}
    for place, prompt in enumerate(prompts):
        places.setdefault(prompt.id, []).append(place)
    shares: list[list[int]] = [[] for _ in range(count)]
    for same in places.values():
        min(shares, key=len).extend(same)
    return [sorted(share) for share in shares]


class SharedEngine(Wrapping):
    """Wraps the engine that samples on this rank."""

    def __init__(self, engine: Engine, ranks: Ranks) -> None:
        self.engine, self.ranks = engine, ranks
        self._repairs = engine.repairs

    @property
    def repairs(self) -> int:
        """Those of all ranks' engines together, as of the last `generate` or `check`."""
        return self._repairs

    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """See `Engine.generate`; a rank without a prompt does not ask its engine."""
        shares = dealt(prompts, self.ranks.world)
        mine = [prompts[place] for place in shares[self.ranks.rank]]

        def sample() -> tuple[list[Rollout], int]:
            drawn = self.engine.generate(mine, n, sampling, seed=seed, stream=stream, step=step) if mine else []
            return drawn, self.engine.repairs

        heard = self.ranks.all(sample)
        self._repairs = sum(repairs for _, repairs in heard)
        found: dict[tuple[int, int], Rollout] = {}
        for share, (drawn, _) in zip(shares, heard, strict=True):
            found |= {(share[r.group], r.sample): replace(r, group=share[r.group]) for r in drawn}
        return [found[place, sample] for place in range(len(prompts)) for sample in range(n)]

    def sync(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Each rank's engine gets that rank's weights, which are everyone's."""
        self.engine.sync(weights, version)

    def check(self, mismatch: float) -> bool:
        """See `Engine.check`; one engine that had to be repaired is enough for all to sample again."""
        heard = self.ranks.all(lambda: (self.engine.check(mismatch), self.engine.repairs))
        self._repairs = sum(repairs for _, repairs in heard)
        return all(fine for fine, _ in heard)

    def state(self) -> dict[str, Tensor]:
        """This rank's, which is everyone's."""
        return self.engine.state()

    def load_state(self, tensors: Mapping[str, Tensor], version: int) -> None:
        """See `Engine.load_state`."""
        self.engine.load_state(tensors, version)


def shared(engine: Engine, ranks: Ranks) -> Engine:
    """The engine itself where there is one rank."""
    return engine if ranks.world == 1 else SharedEngine(engine, ranks)
