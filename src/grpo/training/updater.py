"""The optimizer updates of a step: gradient of one minibatch, clipping, and refusal of what is not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy import ndarray
from torch import Tensor

from grpo.ranks.ranks import ALONE, Ranks
from grpo.recording.meters import Meters
from grpo.runs.nonfinite import NonFiniteGuard, save_evidence
from grpo.training.batch import Batch, Together, microbatches, padded_ids, shares
from grpo.training.logprobs import Scored
from grpo.training.schedule import learning_rate
from grpo.training.update import Accumulated, UpdateResult, accumulate_gradients, mismatch


class Updater:
    """Makes updates, and remembers of the step what the sample table and later epochs need.

    weights  row of the step's batch -> w = ∂J/∂log π [T] at its first update
    old      row of the step's batch -> log π before the first update [T]
    """

    def __init__(
        self,
        *,
        config: Any,
        objective: Any,
        policy: Any,
        forward: Callable[[Batch], Scored],
        backward: Callable[[Tensor], None],
        total_steps: int | None,
        guard: NonFiniteGuard,
        evidence_folder: Path,
        check: Callable[[float], bool] = lambda mismatch: True,
        ranks: Ranks = ALONE,
        apart: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """apart: the context in which a backward pass leaves the other ranks' gradients alone."""
        self.config, self.objective, self.policy = config, objective, policy
        self.forward, self.backward, self.total_steps = forward, backward, total_steps
        self.guard, self.evidence_folder, self.check = guard, evidence_folder, check
        self.ranks, self.apart = ranks, apart
        self.learning_rate: float = config.optimizer.lr
        self.weights: dict[int, Tensor] = {}
        self.old: dict[int, Tensor] = {}

    def begin(self, step: int, optimizer: Any, generated_tokens: int, meters: Meters) -> None:
        """A new step: its learning rate, and nothing remembered yet."""
        self.step, self.optimizer, self.meters = step, optimizer, meters
        self.weights, self.old = {}, {}
        self.learning_rate = learning_rate(
            self.config, step=step, generated_tokens=generated_tokens, total_steps=self.total_steps
        )
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate

    @property
    def together(self) -> Together:
        """What the objective needs to see in one forward pass."""
        if self.objective.needs_whole_update:
            return "update"
        return "groups" if self.objective.needs_rewards else "rows"

    def __call__(self, batch: Batch, rows: Tensor, *, first: bool) -> UpdateResult:
        """One update on the minibatch `rows`; a minibatch without weight makes no optimizer call.

        first: nothing was updated in this step yet, so that log π_old is log π itself.
        """
        minibatch = batch.select(rows)
        if first:
            minibatch = minibatch.with_logps(old=None, ref=minibatch.logp_ref)
        if not bool(minibatch.active.any()):  # of the whole minibatch: a rank's share may be empty beside others
            return UpdateResult("empty")
        self.optimizer.zero_grad(set_to_none=True)
        found = self._gradient(minibatch)
        self.meters.merge(found.meters)
        self._remember(batch, rows, found.rows, first=first)
        mismatch_mean = self.meters.compute().get("mismatch/abs_logp_mean")
        if first and mismatch_mean is not None and not self.check(mismatch_mean):
            self.optimizer.zero_grad(set_to_none=True)
            return UpdateResult("stale")
        return self._clip_and_step(minibatch, found.terms)

    def _gradient(self, minibatch: Batch) -> Accumulated:
        """The minibatch's gradient, on every rank; each goes over its own share of the rows, which may be none."""
        limit, parameters = self.config.max_completion_tokens, [p for p in self.policy.parameters() if p.requires_grad]
        totals = self.objective.totals(minibatch.mask, minibatch.groups, limit, minibatch.in_loss, minibatch.rewards)
        share = shares(minibatch, self.ranks.world, together=self.together)[self.ranks.rank]
        parts = microbatches(minibatch, self.config.tokens_per_microbatch, share, together=self.together)

        def work() -> tuple[Accumulated, list[bool]]:
            found = accumulate_gradients(
                minibatch,
                parts,
                objective=self.objective,
                totals=totals,
                forward=self.forward,
                backward=self.backward,
            )
            return found, [p.grad is not None for p in parameters]

        with self.apart():
            heard = self.ranks.all(work)
        # A parameter without gradient anywhere has none afterwards either: AdamW decays and moves one whose is zero.
        reached = [any(has) for has in zip(*(has for _, has in heard), strict=True)]
        parameters = [p for p, is_reached in zip(parameters, reached, strict=True) if is_reached]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.ranks.sum_([p.grad for p in parameters if p.grad is not None])
        return Accumulated.joined(found for found, _ in heard)

    def _remember(
        self, batch: Batch, rows: Tensor, found: Mapping[int, tuple[ndarray, ndarray]], *, first: bool
    ) -> None:
        """Keep the first update's log π: it is π_old in later epochs, and what log μ is compared with."""
        for row, arrays in found.items():
            logp, weight = map(torch.from_numpy, arrays)
            place, width = int(rows[row]), len(logp)
            self.weights.setdefault(place, weight)
            if first:
                self.old[place] = logp
                mismatch(self.meters, logp, batch.logp_rollout[place, :width], batch.mask[place, :width])
                if batch.logp_old is not None:
                    batch.logp_old[place, :width] = logp
            elif batch.logp_old is not None:
                self.old.setdefault(place, batch.logp_old[place])

    def _clip_and_step(self, minibatch: Batch, terms: dict[str, float]) -> UpdateResult:
        """Clip, refuse what is not finite, and let the optimizer step."""
        parameters = [p for p in self.policy.parameters() if p.grad is not None]
        limit = self.config.max_grad_norm
        norm = float(torch.nn.utils.clip_grad_norm_(parameters, limit))
        loss = math.fsum(terms.values())
        evidence = partial(self.save_evidence, minibatch, {"loss": loss, "grad_norm": norm})
        evidence = evidence if self.ranks.first else None
        if self.guard.skip(self.step + 1, loss, norm, evidence):
            self.optimizer.zero_grad(set_to_none=True)
            return UpdateResult("skipped")
        self.meters.add_mean("grad_norm", norm, 1)
        self.meters.add_mean("grad_clipped", float(norm > limit), 1)
        self.meters.add_mean("loss", loss, 1)
        for name, value in terms.items():
            self.meters.add_mean(f"loss/{name}", value, 1)
        self.optimizer.step()
        return UpdateResult("updated", int(minibatch.mask[minibatch.active].sum()))

    def save_evidence(self, batch: Batch, numbers: dict[str, float]) -> Path:
        """The minibatch whose loss or gradient was not finite, beside the run, for whoever looks for the reason."""
        texts = [{"prompt_id": r.prompt_id, "sample": r.sample, "completion": r.text} for r in batch.rollouts]
        gradients = {n: float(p.grad.norm()) for n, p in self.policy.named_parameters() if p.grad is not None}
        tensors = {
            "mask": batch.mask,
            "advantages": batch.advantages,
            "rewards": batch.rewards,
            "groups": batch.groups,
            "logp_rollout": batch.logp_rollout,
            "token_ids": padded_ids(batch.rollouts, batch.mask.shape[1]),
        }
        content = {**numbers, "samples": texts, "gradient_norms": gradients}
        return save_evidence(self.evidence_folder, self.step + 1, content, tensors)
