"""A small world for the trainer's tests: a random policy, prompts of ids, and rewards made of token ids."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from grpo.algorithm import (
    advantage,
    aggregation,
    correction,
    credit,
    entropy,
    filter,
    form,
    kl,
    overlong,
    ratio,
    shaping,
    surrogate,
)
from grpo.algorithm.objective import Objective
from grpo.config.nodes import Updates
from grpo.data import Prompt, Rollout, Sampling, Scores
from grpo.ranks.ranks import ALONE, Ranks
from grpo.recording.meters import Meters
from grpo.rewards.shared import shared as shared_scorer
from grpo.rollout.shared import shared as shared_engine
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.runs.nonfinite import NonFiniteGuard
from grpo.training.collect import Collector, Experience
from grpo.training.module import GRPOModule

TOKENS = 8


class Book:
    """Prompts of different lengths; refills come from elsewhere."""

    def size(self, split: str) -> int:
        return 12

    def train(self, step: int, n: int) -> list[Prompt]:
        return [self._prompt(f"s{step}p{i}", i + step) for i in range(n)]

    def refill(self, step: int, round_: int, n: int) -> list[Prompt]:
        return [self._prompt(f"s{step}r{round_}p{i}", 3 * round_ + i) for i in range(n)]

    def _prompt(self, name: str, number: int) -> Prompt:
        return Prompt(name, (1, *(3 + (number + j) % 20 for j in range(1 + number % 4))), name)


class EvenSum:
    """1 if the sum of the sampled ids is even, else 0; None where it is a multiple of 11."""

    names = ("even",)

    def score(self, prompts: list[Prompt], rollouts: list[Rollout], **_: Any) -> Scores:
        sums = torch.tensor([sum(r.token_ids) for r in rollouts])
        values = (sums % 2 == 0).double().where(sums % 11 != 0, float("nan"))
        groups = torch.tensor([r.group for r in rollouts])
        return Scores(values.unsqueeze(1), torch.ones(1, dtype=torch.float64), groups, values)


def objective(**parts: Any) -> Objective:
    """Plain GRPO without KL, some parts exchanged."""
    chosen: dict[str, Any] = {
        "form": form.PolicyGradient(),
        "advantage": advantage.GroupZScore(),
        "credit": credit.Uniform(),
        "ratio": ratio.TokenRatio(),
        "surrogate": surrogate.Clip(low=0.2, high=0.2),
        "correction": correction.NoCorrection(),
        "aggregation": aggregation.SequenceMean(),
        "kl": kl.NoKL(),
        "entropy": entropy.NoEntropy(),
        "filter": filter.NoFilter(),
        "overlong": overlong.NoOverlong(),
        "shaping": shaping.NoShaping(),
    }
    return Objective(**{**chosen, **parts})


def config(**changes: Any) -> SimpleNamespace:
    """The keys that the module reads."""
    values: dict[str, Any] = {
        "seed": 0,
        "sampling": SimpleNamespace(temperature=0.9),
        "tokens_per_microbatch": 60,
        "max_completion_tokens": TOKENS,
        "updates": updates(),
        "max_grad_norm": 1.0,
        "reward": SimpleNamespace(right_at=1.0),
        "optimizer": adam(1e-2),
        "schedule": SimpleNamespace(kind="constant", warmup_steps=0),
        "budget": SimpleNamespace(generated_tokens=None),
    }
    return SimpleNamespace(**{**values, **changes})


def adam(lr: float) -> SimpleNamespace:
    return SimpleNamespace(lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)


def updates(epochs: int = 1, minibatches: int = 1) -> Updates:
    return Updates(epochs=epochs, minibatches=minibatches)


def module(
    policy: Any,
    settings: SimpleNamespace | None = None,
    parts: Objective | None = None,
    *,
    reference: Any = None,
    folder: Path = Path("unused"),
    prompts: int = 6,
    group_size: int = 4,
    scorer: Any = None,
    ranks: Ranks = ALONE,
) -> GRPOModule:
    """A GRPOModule that works without a Lightning Trainer."""
    settings, parts = settings or config(), parts or objective()

    def engines(made: GRPOModule) -> Any:
        engine = shared_engine(
            TransformersEngine(policy, eos_ids=(2,), pad_id=0, decode=lambda ids: " ".join(map(str, ids))), ranks
        )
        return engine, engine

    def collector(made: GRPOModule) -> Collector:
        return Collector(
            book=Book(),
            scorer=shared_scorer(scorer or EvenSum(), ranks),
            engine=made.engine,
            objective=parts,
            sampling=Sampling(temperature=settings.sampling.temperature, max_tokens=TOKENS, top_logprobs=parts.top_k),
            prompts_per_step=prompts,
            group_size=group_size,
            seed=settings.seed,
        )

    made = GRPOModule(
        config=settings,
        objective=parts,
        policy=policy,
        reference=reference,
        pad_id=0,
        make_engines=engines,
        make_collector=collector,
        reward_names=["even"],
        guard=NonFiniteGuard(),
        evidence_folder=folder,
        ranks=ranks,
    )
    made.setup("fit")
    optimizer = made.configure_optimizers()
    made.optimizers = lambda *_: optimizer  # type: ignore[method-assign]
    made.manual_backward = lambda loss: loss.backward()  # type: ignore[method-assign]
    return made


def sampled(made: GRPOModule, step: int = 0) -> Experience:
    """A step's experience, with fresh meters."""
    made.meters = Meters()
    return made.collect(step)


def gradients(policy: Any) -> torch.Tensor:
    """All gradients as one vector; 0 where there is none."""
    return torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in policy.parameters()])


def freeze_optimizer(made: GRPOModule) -> None:
    """Updates compute and clip their gradient and then leave the weights alone."""
    made.optimizers().step = lambda: None  # type: ignore[union-attr, method-assign]
