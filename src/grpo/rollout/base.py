"""The protocol every rollout engine implements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from grpo.data import Prompt, Rollout, Sampling

if TYPE_CHECKING:
    from torch import Tensor


def earlier(prompts: Sequence[Prompt]) -> list[int]:
    """How often each prompt stands further up in the list: where two passes over few questions meet in one step.

    Its samples are then n, n + 1, … of the question, or both groups would hold the same completions.
    """
    seen: Counter[str] = Counter()
    places = []
    for prompt in prompts:
        places.append(seen[prompt.id])
        seen[prompt.id] += 1
    return places


class Faithful:
    """Part of an engine that reads the trainer's own tensors, or none at all: it cannot be stale, and holds nothing."""

    repairs = 0

    def catch_up(self) -> None:
        """Nothing to copy."""

    def rest(self) -> None:
        """Nothing to set aside."""

    def check(self, mismatch: float) -> bool:
        """See `Engine.check`."""
        return True

    def close(self) -> None:
        """Nothing to give back."""


class Wrapping:
    """What an engine that samples from other weights on purpose asks of the one inside it, `engine`."""

    engine: Engine

    @property
    def version(self) -> int:
        """Version of the weights really sampled from."""
        return self.engine.version

    @property
    def repairs(self) -> int:
        """Those of the engine inside."""
        return self.engine.repairs

    def check(self, mismatch: float) -> bool:
        """A mismatch on purpose says nothing about the engine, which looks for itself."""
        return True

    def catch_up(self) -> None:
        """See `Engine.catch_up`."""
        self.engine.catch_up()

    def rest(self) -> None:
        """See `Engine.rest`."""
        self.engine.rest()

    def close(self) -> None:
        """See `Engine.close`."""
        self.engine.close()


class Engine(Protocol):
    """Samples completions from some version of the policy's weights.

    Token ids go in and token ids come out; sampled ids are never decoded and encoded again.
    """

    @property
    def version(self) -> int:
        """Number of optimizer updates behind the weights that the next completion is sampled from."""
        ...

    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """`n` completions of each prompt, prompt by prompt: rollout p·n + i is sample i of prompts[p] (group p).

        Every random number is a function of (seed, stream, step, prompt id, sample, position), so that batching,
        order and interruptions change nothing.
        """
        ...

    def sync(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Tell the engine that the policy now has these weights after `version` updates."""
        ...

    def catch_up(self) -> None:
        """Copy the weights of the last `sync`, where the engine has its own; `generate` does it where nobody did."""
        ...

    def rest(self) -> None:
        """No completion is wanted until after the update: leave the memory to it."""
        ...

    @property
    def repairs(self) -> int:
        """How often the engine was found at other weights than it was given, and was given them again."""
        ...

    def check(self, mismatch: float) -> bool:
        """Told before each step's first update: mean |log π − log μ| of what `generate` sampled for it, in nats.

        False: the engine had not the weights that it was given; it has them now, and the step must be sampled again.
        An engine that cannot be repaired raises UserError. One that samples from other weights on purpose says True.
        """
        ...

    def close(self) -> None:
        """Give back memory and processes; called once, when the run is over."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Tensors a checkpoint must hold beside the policy (lagged weights); usually none."""
        ...

    def load_state(self, tensors: Mapping[str, Tensor], version: int) -> None:
        """Restore what `state` returned, when the policy already has its weights of `version`."""
        ...
