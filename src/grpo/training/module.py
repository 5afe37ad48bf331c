"""The LightningModule that wraps the policy, the reference and the rollout engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor

from grpo.data import Tokens
from grpo.recording.meters import Meters, Timer, peak_memory, speeds
from grpo.rollout.base import Engine
from grpo.runs.nonfinite import NonFiniteGuard, save_evidence
from grpo.training.batch import (
    Batch,
    Together,
    microbatches,
    minibatches,
    pad_floats,
    sampled_mask,
    with_column,
)
from grpo.training.collect import Collector, Experience
from grpo.training.logprobs import completion_logps
from grpo.training.report import measure_rewards, measure_samples, measure_training_groups, sample_rows
from grpo.training.schedule import learning_rate
from grpo.training.update import UpdateResult, accumulate_gradients, mismatch


@dataclass
class Counters:
    """Cumulative counts of a run; a checkpoint carries them."""

    step: int = 0  # passes through the spine that are finished
    version: int = 0  # optimizer updates made
    generated_tokens: int = 0
    trained_tokens: int = 0
    updates_total: int = 0
    updates_empty: int = 0
    updates_skipped: int = 0


class GRPOModule(lightning.LightningModule):
    """`training_step` is the data flow: prompts → rollout → rewards → advantages → objective → update → log."""

    def __init__(
        self,
        *,
        config: Any,
        objective: Any,
        policy: Any,
        reference: Any | None,
        pad_id: int,
        make_engines: Callable[[GRPOModule], tuple[Engine, Engine]],
        make_collector: Callable[[GRPOModule], Collector],
        reward_names: list[str],
        guard: NonFiniteGuard,
        evidence_folder: Path,
        total_steps: int | None = None,
        autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.config, self.objective, self.policy, self.pad_id = config, objective, policy, pad_id
        # Kept in a tuple: a submodule would be moved, saved and counted as the policy's own weights.
        self._reference = (reference,)
        self._make_engines, self._make_collector = make_engines, make_collector
        self.reward_names, self.autocast, self.total_steps = reward_names, autocast, total_steps
        self.guard, self.evidence_folder = guard, evidence_folder
        self.counters, self.timer, self.meters = Counters(), Timer(), Meters()
        self._learning_rate = config.optimizer.lr
        self.metrics: dict[str, float] = {}
        self.samples: list[dict[str, object]] = []

    def setup(self, stage: str) -> None:
        """Engines are built here, never before: Lightning must own torch.distributed first.

        `engine` samples for training (it may lag or replay); `live_engine` samples from the weights as they are.
        """
        self.engine, self.live_engine = self._make_engines(self)
        self.collector = self._make_collector(self)

    def on_fit_start(self) -> None:
        """The reference follows the policy to its device."""
        if self._reference[0] is not None:
            self._reference[0].to(self.device)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW on the trainable weights."""
        settings = self.config.optimizer
        trainable = [p for p in self.policy.parameters() if p.requires_grad]
        return torch.optim.AdamW(
            trainable, lr=settings.lr, betas=tuple(settings.betas), eps=settings.eps, weight_decay=settings.weight_decay
        )

    def training_step(self, step: int, _: int) -> None:
        """One pass through the spine, whatever number of optimizer updates it makes."""
        self.meters, self.timer = Meters(), Timer()
        with self.timer("step"):
            experience = self.collect(step)
            batch = self.score(self.prepare(experience))
            results = self.update(batch, step)
        self.report(step, experience, batch, results)

    def collect(self, step: int) -> Experience:
        """prompts → rollout → rewards → (filter, resample)."""
        return self.collector.collect(step, self.timer)

    def prepare(self, experience: Experience) -> Batch:
        """Masks, advantages and which completions can carry a weight at all."""
        rollouts, scores = experience.rollouts, experience.scores
        truncated = torch.tensor([r.truncated for r in rollouts], dtype=torch.bool)
        in_loss = self.objective.rows(scores, truncated)
        mask = self.objective.loss_mask(sampled_mask(rollouts), truncated, in_loss)
        batch = Batch(
            prompts=tuple(experience.prompts),
            rollouts=tuple(rollouts),
            mask=mask,
            in_loss=in_loss,
            advantages=torch.zeros(len(rollouts), dtype=torch.float64),
            groups=scores.groups,
            rewards=scores.total,
            active=mask.any(dim=1),
            logp_rollout=pad_floats([r.logp_rollout for r in rollouts], mask.shape[1]),
        )
        if self.objective.bonus and rollouts:
            scores = experience.scores = with_column(scores, self.reward_bonus(batch))
        advantages = self.objective.advantages(scores)
        rewards = self.objective.pair_rewards(scores.total, scores.groups, in_loss)
        carries = torch.ones_like(truncated) if self.objective.needs_every_row else advantages != 0
        return replace(batch, advantages=advantages, rewards=rewards, active=batch.active & carries)

    def reward_bonus(self, batch: Batch) -> Tensor:
        """What a KL penalty or an entropy bonus placed in the reward adds to each completion, [B], detached."""
        rows = batch.active.nonzero().squeeze(-1)
        with self.timer("reward"):
            logp, entropy = self.logps(self.policy, batch, rows)
            ref = self.logps(self._reference[0], batch, rows)[0] if self.objective.needs_reference else None
        bonus = self.objective.reward_bonus(
            Tokens(
                logp=logp,
                mask=batch.mask,
                advantages=batch.advantages,
                groups=batch.groups,
                logp_ref=ref,
                entropy=entropy,
            )
        )
        self.meters.add_mean("rewards/bonus/mean", float(bonus.sum()), len(batch))
        return bonus

    def score(self, batch: Batch) -> Batch:
        """log π_old for the completions of later updates and log π_ref, each only where some part reads it.

        The first update needs no pass: there π_old is the detached log π itself.
        """
        with self.timer("update"):
            old = ref = None
            if self.updates_per_step > 1 and self.objective.ratio.anchor == "old" and len(batch):
                first = set(self._minibatches(batch, 0, 0)[0].tolist())
                later = [i for i in batch.active.nonzero().squeeze(-1).tolist() if i not in first]
                old, _ = self.logps(self.policy, batch, torch.tensor(later, dtype=torch.long))
                later_mask = batch.mask.clone()
                later_mask[[i for i in range(len(batch)) if i not in set(later)]] = False
                mismatch(self.meters, old, batch.logp_rollout, later_mask)
            if self.objective.needs_reference and len(batch):
                ref, _ = self.logps(self._reference[0], batch, batch.active.nonzero().squeeze(-1))
        return batch.with_logps(old=old, ref=ref)

    @torch.no_grad()
    def logps(self, model: Any, batch: Batch, rows: Tensor) -> tuple[Tensor, Tensor]:
        """log-probs and entropies [B, T] of some rows under a model, without gradient; 0 elsewhere."""
        logps = torch.zeros(batch.mask.shape, dtype=torch.float64)
        entropies = torch.zeros_like(logps)
        for part in microbatches(batch, self.config.tokens_per_microbatch, rows):
            logp, entropy = self._forward(model, batch.select(part), entropy_gradient=False)
            logps[part, : logp.shape[1]] = logp.double().cpu()
            entropies[part, : logp.shape[1]] = entropy.double().cpu()
        return logps, entropies

    def _forward(self, model: Any, micro: Batch, *, entropy_gradient: bool) -> tuple[Tensor, Tensor]:
        return completion_logps(
            model,
            micro.prompts,
            micro.rollouts,
            temperature=self.config.sampling.temperature,
            pad_id=self.pad_id,
            entropy_gradient=entropy_gradient,
            autocast=self.autocast,
        )

    @property
    def updates_per_step(self) -> int:
        """Optimizer updates that one rollout pays for."""
        return self.config.updates.epochs * self.config.updates.minibatches

    @property
    def together(self) -> Together:
        """What the objective needs to see in one forward pass."""
        if self.objective.needs_whole_update:
            return "update"
        return "groups" if self.objective.needs_rewards else "rows"

    def _minibatches(self, batch: Batch, epoch: int, step: int) -> list[Tensor]:
        return minibatches(batch.groups, self.config.updates.minibatches, epoch=epoch, seed=self.config.seed, step=step)

    def update(self, batch: Batch, step: int) -> list[UpdateResult]:
        """The step's optimizer updates, minibatch by minibatch, each followed by a weight sync."""
        results: list[UpdateResult] = []
        self._weights: dict[int, Tensor] = {}
        self._old: dict[int, Tensor] = {}
        for epoch in range(self.config.updates.epochs if len(batch) else 0):
            for rows in self._minibatches(batch, epoch, step):
                with self.timer("update"):
                    results.append(self._optimizer_step(batch, rows, step, first=not results))
                if results[-1].outcome == "updated":
                    with self.timer("sync"):
                        self.counters.version += 1
                        self.engine.sync(self.policy.state_dict(), self.counters.version)
                        self.live_engine.sync(self.policy.state_dict(), self.counters.version)
        return results

    def _optimizer_step(self, batch: Batch, rows: Tensor, step: int, *, first: bool) -> UpdateResult:
        """One update on one minibatch; a minibatch without weight makes no optimizer call."""
        minibatch = batch.select(rows)
        if first and minibatch.logp_old is not None:
            minibatch = minibatch.with_logps(old=None, ref=minibatch.logp_ref)
        parts = microbatches(minibatch, self.config.tokens_per_microbatch, together=self.together)
        if not parts:
            return UpdateResult("empty")
        optimizer: Any = self.optimizers()
        self._set_learning_rate(optimizer, step)
        optimizer.zero_grad(set_to_none=True)
        totals = self.objective.totals(
            minibatch.mask,
            minibatch.groups,
            self.config.max_completion_tokens,
            minibatch.in_loss,
            minibatch.rewards,
        )
        terms, logps, weights = accumulate_gradients(
            minibatch,
            parts,
            objective=self.objective,
            totals=totals,
            forward=lambda micro: self._forward(self.policy, micro, entropy_gradient=self.objective.trains_entropy),
            backward=self.manual_backward,
            meters=self.meters,
        )
        self._remember(batch, rows, logps, weights, first=first)
        return self._clip_and_step(optimizer, minibatch, terms, step)

    def _remember(
        self, batch: Batch, rows: Tensor, logps: Mapping[int, Tensor], weights: Mapping[int, Tensor], *, first: bool
    ) -> None:
        """Keep the first update's log π: it is π_old in later epochs, and what log μ is compared with."""
        for row, logp in logps.items():
            place, width = int(rows[row]), len(logp)
            self._weights.setdefault(place, weights[row])
            if first:
                self._old[place] = logp
                mismatch(self.meters, logp, batch.logp_rollout[place, :width], batch.mask[place, :width])
                if batch.logp_old is not None:
                    batch.logp_old[place, :width] = logp
            elif batch.logp_old is not None:
                self._old.setdefault(place, batch.logp_old[place])

    def _set_learning_rate(self, optimizer: Any, step: int) -> None:
        rate = learning_rate(
            self.config,
            step=step,
            generated_tokens=self.counters.generated_tokens,
            total_steps=self.total_steps,
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        self._learning_rate = rate

    def _clip_and_step(self, optimizer: Any, minibatch: Batch, terms: dict[str, float], step: int) -> UpdateResult:
        """Clip, refuse what is not finite, and let the optimizer step."""
        parameters = [p for p in self.policy.parameters() if p.grad is not None]
        limit = self.config.max_grad_norm
        norm = torch.nn.utils.clip_grad_norm_(parameters, float("inf") if limit is None else limit)
        loss = math.fsum(terms.values())
        evidence = partial(self.save_evidence, minibatch, step, {"loss": loss, "grad_norm": float(norm)})
        if self.guard.skip(step + 1, loss, float(norm), evidence):
            optimizer.zero_grad(set_to_none=True)
            return UpdateResult("skipped", loss, float(norm))
        self.meters.add_mean("grad_norm", float(norm), 1)
        self.meters.add_mean("grad_clipped", float(limit is not None and float(norm) > limit), 1)
        self.meters.add_mean("loss", loss, 1)
        for name, value in terms.items():
            self.meters.add_mean(f"loss/{name}", value, 1)
        optimizer.step()
        self.counters.trained_tokens += int(minibatch.mask[minibatch.active].sum())
        return UpdateResult("updated", loss, float(norm))

    def save_evidence(self, batch: Batch, step: int, numbers: dict[str, float]) -> Path:
        """The minibatch whose loss or gradient was not finite, beside the run, for whoever looks for the reason."""
        texts = [{"prompt_id": r.prompt_id, "sample": r.sample, "completion": r.text} for r in batch.rollouts]
        gradients = {n: float(p.grad.norm()) for n, p in self.policy.named_parameters() if p.grad is not None}
        ids = [torch.tensor(r.token_ids, dtype=torch.float64) for r in batch.rollouts]
        tensors = {
            "mask": batch.mask,
            "advantages": batch.advantages,
            "rewards": batch.rewards,
            "groups": batch.groups,
            "logp_rollout": batch.logp_rollout,
            "token_ids": torch.nn.utils.rnn.pad_sequence(ids, batch_first=True, padding_value=-1).long(),
        }
        content = {**numbers, "samples": texts, "gradient_norms": gradients}
        return save_evidence(self.evidence_folder, step + 1, content, tensors)

    def report(self, step: int, experience: Experience, batch: Batch, results: list[UpdateResult]) -> None:
        """Metrics of the step, for the recorder; sample rows where the step shows them."""
        counters, meters = self.counters, self.meters
        before = counters.version - sum(r.outcome == "updated" for r in results)
        measure_rewards(meters, experience.sampled_scores, self.reward_names)
        measure_samples(meters, experience)
        measure_training_groups(meters, batch)
        counters.step = step + 1
        counters.generated_tokens += experience.generated_tokens
        counters.updates_total += sum(r.outcome == "updated" for r in results)
        counters.updates_empty += sum(r.outcome == "empty" for r in results)
        counters.updates_skipped += sum(r.outcome == "skipped" for r in results)
        trained = int(batch.mask[batch.active].sum()) * self.config.updates.epochs
        self.metrics = {
            **with_ess(meters.compute()),
            **self.timer.compute(),
            "lr": self._learning_rate,
            "updates/total": counters.updates_total,
            "updates/empty": counters.updates_empty,
            "updates/skipped": counters.updates_skipped,
            "tokens/generated": counters.generated_tokens,
            "tokens/trained": counters.trained_tokens,
            **speeds(experience.generated_tokens, trained, self.timer),
            "memory/peak": peak_memory(),
            "sampling/lag": before - min(r.weight_version for r in experience.sampled),
        }
        self.samples = sample_rows(batch, experience.scores, self.reward_names, self._weights, self._old, groups=2)


def with_ess(metrics: dict[str, float]) -> dict[str, float]:
    """correction/ess = (Σw)² / (n Σw²), the effective share of the tokens, in place of the mean of squares."""
    square = metrics.pop("correction/square", None)
    if square is not None:
        metrics["correction/ess"] = metrics["correction/mean"] ** 2 / square if square else 0.0
    return metrics
