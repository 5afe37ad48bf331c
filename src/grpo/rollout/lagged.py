"""`rollout.lag=k`: an engine whose weights stay k optimizer updates behind, staleness as a knob on one machine."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from grpo.data import Prompt, Rollout, Sampling
from grpo.models.lora import is_adapter
from grpo.rollout.base import Engine, Wrapping


def _changing(model: Any) -> set[str]:
    """Names of the weights that updates change: those of the adapter if there is one, else all."""
    names = set(model.state_dict())
    return {name for name in names if is_adapter(name)} or names


class LaggedEngine(Wrapping):
    """Wraps an engine that samples from a private copy of the model.

    Until k updates were made the oldest weights known, those of version 0, are sampled from. weights: version 0, where
    the engine's copy of the model no longer has it (a perturbed one).
    """

    def __init__(self, engine: Engine, model: Any, lag: int, weights: Mapping[str, Tensor] | None = None) -> None:
        self.engine, self.model, self.lag = engine, model, lag
        self.changing = _changing(model)
        self.history: deque[tuple[int, dict[str, Tensor]]] = deque(maxlen=lag + 1)
        self.history.append((0, self._remembered(model.state_dict() if weights is None else weights)))

    @staticmethod
    def private_copy(model: Any) -> Any:
        """A frozen copy of the policy that only the engine reads; what no update changes is shared and not copied."""
        memo = {id(p): p for p in model.parameters() if not p.requires_grad}
        return copy.deepcopy(model, memo).requires_grad_(False)

    def _remembered(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A copy of the weights that updates change."""
        return {name: value.detach().clone() for name, value in weights.items() if name in self.changing}

    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """See `Engine.generate`."""
        return self.engine.generate(prompts, n, sampling, seed=seed, stream=stream, step=step)

    def sync(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Remember the new weights, and move the engine to those of `version − lag`."""
        self.history.append((version, self._remembered(weights)))
        self._install()

    def _install(self) -> None:
        version, weights = self.history[0]
        self.model.load_state_dict(weights, strict=False)
        self.engine.sync(weights, version)

    def state(self) -> dict[str, Tensor]:
        """The remembered weights, by '<version>/<name>'."""
        return {f"{version}/{name}": value for version, weights in self.history for name, value in weights.items()}

    def load_state(self, tensors: Mapping[str, Tensor], version: int) -> None:
        """Restore the remembered weights and the version sampled from."""
        by_version: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            number, name = key.split("/", 1)
            by_version.setdefault(int(number), {})[name] = value
        self.history.clear()
        self.history.extend(sorted(by_version.items()))
        self._install()
