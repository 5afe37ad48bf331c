"""Does an engine with weights of its own have those of the trainer? Asked at start, by making it fail first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from grpo.data import Prompt, Rollout, Sampling
from grpo.errors import UserError

ALARM = 20  # times the mismatch at start
SAME = 4  # times the mismatch at start: what the self-test calls agreement
FLOOR = 1e-6  # nats; a mismatch measured at start below this is luck
CEILING = {torch.float32: 1e-3, torch.bfloat16: 0.3, torch.float16: 0.3}  # nats; above, it is another model
SAMPLES, TOKENS = 2, 8  # of a probe, per prompt


class SyncGuard:
    """Compares log μ of a few completions with log π of the model whose weights the engine is meant to have.

    engine: has `sample` and `sync`. logps(prompts, rollouts) -> [B, T] log π of the model, 0 after the end.
    """

    def __init__(
        self,
        engine: Any,
        model: Any,
        prompts: Sequence[Prompt],
        logps: Callable[[Sequence[Prompt], Sequence[Rollout]], Tensor],
        *,
        temperature: float,
        dtype: torch.dtype,
    ) -> None:
        self.engine, self.model, self.prompts, self.logps = engine, model, prompts, logps
        self.sampling = Sampling(temperature=temperature, max_tokens=TOKENS)
        self.ceiling = CEILING[dtype]
        self.usual = FLOOR

    @property
    def alarm(self) -> float:
        """Mean |log π − log μ| from which on the engine counts as stale, in nats."""
        return ALARM * self.usual

    def probe(self) -> list[Rollout]:
        """Completions of the engine's weights as they are."""
        drawn = self.engine.sample(self.prompts, SAMPLES, self.sampling, seed=0, stream="guard", step=0)
        return [replace(rollout, text="") for rollout in drawn]

    def distance(self, rollouts: Sequence[Rollout]) -> float:
        """Mean |log π − log μ| over the tokens of completions, with the model's weights as they are."""
        groups: dict[int, list[Rollout]] = {}
        for rollout in rollouts:
            groups.setdefault(rollout.group, []).append(rollout)
        gaps = []
        for group, drawn in groups.items():  # prompt by prompt: beside the long one the others would be padding
            with torch.no_grad():
                logp = self.logps([self.prompts[group]] * len(drawn), drawn).double().cpu()
            gaps += [(logp[i, : r.length] - torch.tensor(r.logp_rollout).double()).abs() for i, r in enumerate(drawn)]
        return float(torch.cat(gaps).mean())

    def gap(self) -> float:
        """`distance` of a fresh probe."""
        return self.distance(self.probe())

    def self_test(self) -> None:
        """Perturb every tensor, sync, compare; back, sync, compare. Sets `usual`; UserError names what stayed old."""
        before = self.probe()
        first = self.distance(before)
        if not first <= self.ceiling:
            raise UserError(
                f"rollout.kind   vLLM computes another model than the trainer: mean |log π − log μ| is {first:.2g} "
                f"with the same weights, at most {self.ceiling:g} is rounding; use rollout=transformers"
            )
        self.usual = max(first, FLOOR)
        with self.perturbed() as kept:
            if self.distance(before) <= SAME * self.usual:
                raise UserError(
                    f"rollout.kind   the self-test of the weight sync sees nothing: 2 % noise on every tensor changes "
                    f"log π by no more than rounding ({first:.2g}); use rollout=transformers"
                )
            noisy = {name: value.detach().clone().cpu() for name, value in self.model.named_parameters()}
            self._given(kept)
        self._given(noisy)

    def _given(self, old: Mapping[str, Tensor]) -> None:
        """Sync the model's weights to the engine; it must agree afterwards. old: what it may have kept."""
        self.engine.sync(self.model.state_dict(), self.engine.version)
        after = self.probe()
        gap = self.distance(after)
        if gap > SAME * self.usual:
            names = self.stale(after, old)
            raise UserError(
                f"rollout.kind   the weight sync to vLLM fails: mean |log π − log μ| is {gap:.2g} after it, "
                f"{self.usual:.2g} at start; these tensors stayed old: {', '.join(names) or 'not found out'}; "
                "use rollout=transformers"
            )

    def stale(self, rollouts: Sequence[Rollout], old: Mapping[str, Tensor]) -> list[str]:
        """Names of the tensors that the engine kept: putting them back in the model brings both together.

        In the order of their effect each is put back, and stays back if that brings the two nearer.
        """
        parameters = dict(self.model.named_parameters())
        new = {name: value.detach().clone().cpu() for name, value in parameters.items()}

        def put(name: str, values: Mapping[str, Tensor]) -> None:
            with torch.no_grad():
                parameters[name].copy_(values[name])

        alone = {}
        for name in parameters:
            put(name, old)
            alone[name] = self.distance(rollouts)
            put(name, new)
        found, gap = [], self.distance(rollouts)
        for name in sorted(alone, key=alone.__getitem__):
            put(name, old)
            nearer = self.distance(rollouts)
            if nearer < gap - self.usual:
                found.append(name)
                gap = nearer
            else:
                put(name, new)
            if gap <= SAME * self.usual:
                break
        for name in found:
            put(name, new)
        return found

    @contextmanager
    def perturbed(self, size: float = 0.02) -> Iterator[dict[str, Tensor]]:
        """Every parameter with noise of `size` times its root mean square; yields the exact values, put back after."""
        kept = {name: value.detach().clone().cpu() for name, value in self.model.named_parameters()}
        generator = torch.Generator().manual_seed(0)
        try:
            with torch.no_grad():
                for parameter in self.model.parameters():
                    noise = torch.randn(parameter.shape, generator=generator).to(parameter)
                    scale = float(parameter.float().square().mean().sqrt()) or 1.0  # a bias may be all zeros
                    parameter.add_(noise * (size * scale))
            yield kept
        finally:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(kept[name])
