"""`rollout.perturb`: an engine that is wrong on purpose, so that trainer-engine mismatch can be studied on one machine.

    temperature   the engine samples at T · temperature, while the trainer scores at T
    noise         every weight tensor W becomes W + noise · RMS(W) · ε, ε ~ N(0, 1), drawn anew with each version
    bits          then every weight is rounded to so many explicit mantissa bits (bfloat16 has 7, float8 e4m3 has 3)

log μ stays honest: it is the log-probability under which the token was really drawn, which is what TIS and MIS need.
Evaluation is never perturbed, it uses another engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from grpo.data import Prompt, Rollout, Sampling
from grpo.rollout.base import Engine, Wrapping
from grpo.rollout.randomness import stable_hash

if TYPE_CHECKING:
    from grpo.config.nodes import Perturb


def rounded(values: Tensor, bits: int) -> Tensor:
    """Values with `bits` explicit bits of mantissa, to the nearest, ties to even; the exponent's range stays.

    7 bits give what a cast to bfloat16 and back gives.
    """
    mantissa, exponent = torch.frexp(values)  # |mantissa| in [1/2, 1): its first bit is the implicit one
    return torch.ldexp(torch.round(mantissa * 2.0 ** (bits + 1)) * 2.0 ** -(bits + 1), exponent)


def noise(values: Tensor, amount: float, seed: int, version: int, name: str) -> Tensor:
    """amount · RMS(values) · ε, of the same shape; a function of (seed, version, name), so a resumed run has it."""
    generator = torch.Generator().manual_seed(stable_hash("perturb", seed, version, name) & ((1 << 63) - 1))
    drawn = torch.randn(values.shape, generator=generator, dtype=torch.float64).to(values)
    return amount * values.square().mean().sqrt() * drawn


class PerturbedEngine(Wrapping):
    """Wraps an engine; where weights are perturbed, that engine must sample from a private copy of the policy.

    model    what the wrapped engine samples from
    policy   the trainer's model, read when a run is resumed; with `rollout.lag` the lagging engine syncs instead
    """

    def __init__(self, engine: Engine, model: Any, policy: Any, perturb: Perturb, seed: int) -> None:
        self.engine, self.model, self.policy, self.perturb, self.seed = engine, model, policy, perturb, seed
        self._names = _first_names(model)
        if perturb.weights:
            self._install(policy.state_dict(), engine.version)
            engine.sync(model.state_dict(), engine.version)

    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """See `Engine.generate`; greedy sampling stays greedy."""
        hot = replace(sampling, temperature=sampling.temperature * self.perturb.temperature)
        return self.engine.generate(prompts, n, hot, seed=seed, stream=stream, step=step)

    def sync(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Perturb the new weights and give them to the engine."""
        if self.perturb.weights:
            self._install(weights, version)
            weights = self.model.state_dict()
        self.engine.sync(weights, version)

    def state(self) -> dict[str, Tensor]:
        """What the wrapped engine has to remember; perturbed weights are made again from the policy's."""
        return self.engine.state()

    def load_state(self, tensors: Mapping[str, Tensor], version: int) -> None:
        """The policy already has its weights of `version`."""
        self.engine.load_state(tensors, version)
        self.sync(self.policy.state_dict(), version)

    def perturbed(self, weights: Mapping[str, Tensor], version: int) -> dict[str, Tensor]:
        """The weights that are sampled from; names that share a tensor (a tied head) get the same one."""
        made: dict[str, Tensor] = {}
        for name, value in weights.items():
            first = self._names.get(name, name)
            if first not in made:
                made[first] = self._one(weights.get(first, value), first, version)
            made[name] = made[first]
        return made

    def _one(self, value: Tensor, name: str, version: int) -> Tensor:
        if not value.is_floating_point():
            return value
        if self.perturb.noise:
            value = value + noise(value, self.perturb.noise, self.seed, version, name)
        return value if self.perturb.bits is None else rounded(value, self.perturb.bits)

    def _install(self, weights: Mapping[str, Tensor], version: int) -> None:
        with torch.no_grad():
            self.model.load_state_dict(self.perturbed({k: v.detach() for k, v in weights.items()}, version))


def _first_names(model: Any) -> dict[str, str]:
    """Name → the first name of the tensor that it shares; remembered copies of weights no longer show that."""
    seen: dict[int, str] = {}
    return {name: seen.setdefault(value.data_ptr(), name) for name, value in model.state_dict().items()}
