"""Forward passes over a batch: log-probs, entropies and KL of any model, micro-batch by micro-batch, shared out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grpo.models.load import training_mode
from grpo.ranks.ranks import Ranks
from grpo.training.batch import Batch, microbatches, shares, topk_of
from grpo.training.logprobs import Scored, completion_logps


@dataclass
class Passes:
    """How this run's models are asked; reference: π_ref, where some part reads it."""

    config: Any
    objective: Any
    reference: Any | None
    pad_id: int
    autocast: Callable[[], AbstractContextManager[Any]]
    ranks: Ranks

    @torch.no_grad()
    def logps(self, model: Any, batch: Batch, rows: Tensor, *, exact_kl: bool = False) -> Scored:
        """log-probs, entropies and, if asked for, exact KL [B, T] of some rows, without gradient; 0 elsewhere."""
        logps, entropies, kls = (torch.zeros(batch.mask.shape, dtype=torch.float64) for _ in range(3))
        share = shares(batch, self.ranks.world, rows)[self.ranks.rank]

        def work() -> None:
            for part in microbatches(batch, self.config.tokens_per_microbatch, share):
                scored = self.forward(model, batch.select(part), exact_kl=exact_kl)
                for whole, values in ((logps, scored.logp), (entropies, scored.entropy), (kls, scored.kl)):
                    if values is not None:
                        whole[part, : values.shape[1]] = values.double().cpu()

        self.ranks.each(work)
        self.ranks.sum_([logps, entropies, kls])  # a row that another rank went over is 0 here
        return Scored(logps, entropies, kl=kls if exact_kl else None)

    def forward(self, model: Any, micro: Batch, *, exact_kl: bool = False) -> Scored:
        """A micro-batch under a model, with top tokens where a part reads them; exact_kl: and KL(model‖reference)."""
        top = topk_of(micro.rollouts, max(len(r.token_ids) for r in micro.rollouts)) if self.objective.top_k else None
        with training_mode(model):
            return completion_logps(
                model,
                micro.prompts,
                micro.rollouts,
                temperature=self.config.sampling.temperature,
                pad_id=self.pad_id,
                entropy_gradient=self.objective.trains_entropy,
                autocast=self.autocast,
                topk_ids=None if top is None else top[0],
                reference=self.reference if exact_kl else None,
            )
