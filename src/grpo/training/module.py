"""The LightningModule that wraps the policy, the reference and the rollout engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import Tensor

from grpo.algorithm.distance import Said
from grpo.data import Tokens
from grpo.models.tail import whole_logits
from grpo.ranks.ranks import ALONE, Ranks
from grpo.recording.meters import Meters, Timer, peak_memory, speeds
from grpo.rollout.base import Engine
from grpo.runs.nonfinite import NonFiniteGuard
from grpo.training.batch import (
    Batch,
    minibatches,
    pad_floats,
    sampled_mask,
    with_column,
)
from grpo.training.collect import Collector, Experience
from grpo.training.counters import Counters
from grpo.training.passes import Passes
from grpo.training.report import measure_rewards, measure_samples, measure_training_groups, sample_rows, with_ess
from grpo.training.update import UpdateResult, mismatch
from grpo.training.updater import Updater


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
        ranks: Ranks = ALONE,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.config, self.objective, self.policy = config, objective, policy
        # The reference is in there: as a submodule it would be moved, saved and counted as the policy's own weights.
        self.passes = Passes(config, objective, reference, pad_id, autocast, ranks)
        self._make_engines, self._make_collector = make_engines, make_collector
        self.reward_names, self.ranks = reward_names, ranks
        self.counters, self.timer, self.meters = Counters(), Timer(), Meters()
        self.updater = Updater(
            config=config,
            objective=objective,
            policy=policy,
            forward=lambda micro: self.passes.forward(policy, micro, exact_kl=objective.trains_exact_kl),
            backward=lambda loss: self.manual_backward(loss),
            total_steps=total_steps,
            guard=guard,
            evidence_folder=evidence_folder,
            check=lambda mean: self.engine.check(mean),
            ranks=ranks,
            apart=self.apart,
        )
        self.metrics: dict[str, float] = {}
        self.samples: list[dict[str, object]] = []

    def setup(self, stage: str) -> None:
        """Engines are built here, never before: Lightning must own torch.distributed first.

        `engine` samples for training (it may lag or replay); `live_engine` samples from the weights as they are.
        """
        self.engine, self.live_engine = self._make_engines(self)
        self.collector = self._make_collector(self)

    def close(self) -> None:
        """Give back what the engines hold; later than `teardown`, since the test still samples."""
        for engine in self.both_engines():
            engine.close()

    def both_engines(self) -> list[Engine]:
        """For training, and at the weights as they are; often they are one."""
        made = (getattr(self, "engine", None), getattr(self, "live_engine", None))  # none before `setup`
        return [engine for engine in dict.fromkeys(made) if engine is not None]

    def apart(self) -> AbstractContextManager[Any]:
        """Backward passes in here stay this rank's own: ranks make different numbers of them, some make none."""
        strategy = None if self._trainer is None else self._trainer.strategy
        return getattr(strategy, "block_backward_sync", nullcontext)()

    def on_fit_start(self) -> None:
        """The reference follows the policy to its device."""
        if self.passes.reference is not None:
            self.passes.reference.to(self.device)

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
            experience, batch, results = self.attempt(step)
            while results and results[-1].outcome == "stale":  # the engine was repaired; a second time it raises
                self.meters = Meters()
                experience, batch, results = self.attempt(step)
        self.report(step, experience, batch, results)

    def attempt(self, step: int) -> tuple[Experience, Batch, list[UpdateResult]]:
        """The spine, once."""
        experience = self.collect(step)
        batch = self.score(self.prepare(experience))
        return experience, batch, self.update(batch, step)

    def collect(self, step: int) -> Experience:
        """prompts → rollout → rewards → (filter, resample)."""
        experience = self.collector.collect(step, self.timer)
        for engine in self.both_engines():
            engine.rest()
        return experience

    def prepare(self, experience: Experience) -> Batch:
        """Masks, advantages and which completions can carry a weight at all."""
        rollouts, scores = experience.rollouts, experience.scores
        truncated = torch.tensor([r.truncated for r in rollouts], dtype=torch.bool)
        in_loss = self.objective.rows(scores, truncated)
        sampled = sampled_mask(rollouts)
        mask = self.objective.loss_mask(sampled, truncated, in_loss)
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
            # Completions that the loss leaves out are in their group's baseline: they get the bonus too.
            bonus, ref = self.reward_bonus(replace(batch, mask=sampled & scores.scored[:, None], active=scores.scored))
            scores, batch = with_column(scores, bonus), replace(batch, logp_ref=ref)
            experience.scores = scores
        advantages = self.objective.advantages(scores)
        said = [Said(r.text, r.token_ids) for r in rollouts]
        rewards = self.objective.pair_rewards(scores.total, scores.groups, in_loss, said)
        carries = torch.ones_like(truncated) if self.objective.needs_every_row else advantages != 0
        return replace(batch, advantages=advantages, rewards=rewards, active=batch.active & carries)

    def reward_bonus(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """What KL or entropy placed in the reward adds to each completion, [B], detached; and log π_ref, if read."""
        rows = batch.active.nonzero().squeeze(-1)
        with self.timer("reward"):
            scored = self.passes.logps(self.policy, batch, rows, exact_kl=self.objective.needs_exact_kl)
            ref = self.passes.logps(self.passes.reference, batch, rows).logp if self.objective.needs_logp_ref else None
        bonus = self.objective.reward_bonus(
            Tokens(
                logp=scored.logp,
                mask=batch.mask,
                advantages=batch.advantages,
                groups=batch.groups,
                logp_ref=ref,
                entropy=scored.entropy,
                kl_exact=scored.kl,
            )
        )
        self.meters.add_mean("rewards/bonus/mean", float(bonus.sum()), len(batch))
        return bonus, ref

    def score(self, batch: Batch) -> Batch:
        """log π_old for the completions of later updates and log π_ref, each only where some part reads it.

        The first update needs no pass: there π_old is the detached log π itself.
        """
        with self.timer("update"):
            old, ref = None, batch.logp_ref
            if self.updates_per_step > 1 and self.objective.needs_old and len(batch):
                first = set(self.minibatches(batch, 0, 0)[0].tolist())
                later = [i for i in batch.active.nonzero().squeeze(-1).tolist() if i not in first]
                rows = torch.tensor(later, dtype=torch.long)
                old = self.passes.logps(self.policy, batch, rows).logp
                mismatch(self.meters, old[rows], batch.logp_rollout[rows], batch.mask[rows])
            if self.objective.needs_logp_ref and ref is None and len(batch):
                ref = self.passes.logps(self.passes.reference, batch, batch.active.nonzero().squeeze(-1)).logp
        return batch.with_logps(old=old, ref=ref)

    @property
    def updates_per_step(self) -> int:
        """Optimizer updates that one rollout pays for."""
        return self.config.updates.per_step

    def minibatches(self, batch: Batch, epoch: int, step: int) -> list[Tensor]:
        """Rows of the minibatches of one epoch."""
        return minibatches(batch.groups, self.config.updates.minibatches, epoch=epoch, seed=self.config.seed, step=step)

    def update(self, batch: Batch, step: int) -> list[UpdateResult]:
        """The step's optimizer updates, minibatch by minibatch, each followed by a weight sync."""
        results: list[UpdateResult] = []
        self.updater.begin(step, self.optimizers(), self.counters.generated_tokens, self.meters)
        for epoch in range(self.config.updates.epochs if len(batch) else 0):
            for rows in self.minibatches(batch, epoch, step):
                with self.timer("update"):
                    results.append(self.updater(batch, rows, first=not results))
                if results[-1].outcome == "stale":
                    return results
                if results[-1].outcome == "updated":
                    with self.timer("sync"):
                        self.sync()
        with self.timer("sync"):
            for engine in self.both_engines():
                engine.catch_up()
        return results

    def sync(self) -> None:
        """The engines learn of the new weights; one that has a copy of its own copies them when the step is over."""
        self.counters.version += 1
        for engine in self.both_engines():
            engine.sync(self.policy.state_dict(), self.counters.version)

    def report(self, step: int, experience: Experience, batch: Batch, results: list[UpdateResult]) -> None:
        """Metrics of the step, for the recorder; sample rows where the step shows them."""
        counters, meters = self.counters, self.meters
        before = counters.version - sum(r.outcome == "updated" for r in results)
        measure_rewards(meters, experience.sampled_scores, self.reward_names)
        measure_samples(meters, experience)
        measure_training_groups(meters, batch)
        counters.finish(step, experience.generated_tokens, results)
        trained = sum(r.tokens for r in results)
        self.metrics = {
            **with_ess(meters.compute()),
            **self.timer.compute(),
            **experience.log.metrics(),
            "lr": self.updater.learning_rate,
            **counters.metrics(),
            **speeds(experience.generated_tokens, trained, self.timer),
            "memory/peak": max(self.ranks.all(peak_memory)),
            "sampling/resyncs": self.engine.repairs,
            **({"memory/whole_logits": 1} if whole_logits(self.policy) else {}),
            "sampling/lag": before - min(r.weight_version for r in experience.sampled),
        }
        self.samples = sample_rows(
            batch,
            experience.scores,
            self.reward_names,
            self.updater.weights,
            self.updater.old,
            groups=2,
            columns=experience.log.columns,
        )
