"""From a checked configuration to the objects of a run; nothing is sampled or trained here."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from grpo.algorithm.form import build
from grpo.config.sizes import Sizes, sizes
from grpo.data import Rollout, Sampling
from grpo.errors import UserError
from grpo.models import load as models
from grpo.models.lora import AdapterOff
from grpo.ranks.ranks import ALONE, Ranks
from grpo.rewards.scoring import Scorer
from grpo.rewards.shared import shared as shared_scorer
from grpo.rollout import replay
from grpo.rollout.base import Engine
from grpo.rollout.lagged import LaggedEngine
from grpo.rollout.perturb import PerturbedEngine
from grpo.rollout.replay import ReplayEngine
from grpo.rollout.shared import shared as shared_engine
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.runs.nonfinite import NonFiniteGuard
from grpo.tasks.prompts import PromptBook
from grpo.training.collect import Collector
from grpo.training.module import GRPOModule
from grpo.training.vllm import vllm_engine


@dataclass
class Run:
    """What a run is made of."""

    config: Any
    sizes: Sizes
    objective: Any
    policy: Any
    reference: Any | None
    tokenizer: Any
    book: PromptBook
    scorer: Scorer  # or one that is shared and answers like it
    device: torch.device
    autocast: Callable[[], AbstractContextManager[Any]]
    say: Callable[[str], None] = print
    ranks: Ranks = ALONE

    @property
    def reward_names(self) -> list[str]:
        """Columns of the rewards: the functions, then the shaping, then a bonus placed in the reward."""
        names = list(self.scorer.names)
        if type(self.objective.shaping).__name__ != "NoShaping":
            names.append(self.objective.shaping.name)
        return [*names, "bonus"] if self.objective.bonus else names


def autocast_for(precision: str, device: torch.device, dtype: torch.dtype) -> Callable[[], AbstractContextManager[Any]]:
    """The context of every forward pass, the trainer's and the engine's alike, so that log μ and log π agree.

    auto: bfloat16 autocast around float32 weights on a GPU, none elsewhere.
    """
    if precision == "bf16-mixed" or (precision == "auto" and device.type == "cuda" and dtype == torch.float32):
        return partial(torch.autocast, device_type=device.type, dtype=torch.bfloat16)
    return nullcontext


def assemble(config: Any, ranks: Ranks = ALONE) -> Run:
    """Load the policy, its tokenizer and, only where some part reads it, the reference."""
    objective = build(config)
    config.task.size("train")  # a missing file or column is told before a large model is loaded
    device = models.pick_device(config.trainer.accelerator)
    policy, tokenizer = models.load_policy(config.model, device, config.seed)
    book = PromptBook(config.task, tokenizer, config.seed, prompt_limit(config, models.context_length(policy)))
    planned = sizes(
        config,
        objective.needs_reference,
        book.size("train"),
        needs_old=objective.needs_old,
        bonus=objective.bonus,
    )
    return Run(
        config=config,
        sizes=planned,
        objective=objective,
        policy=policy,
        reference=make_reference(config.model, policy, device) if objective.needs_reference else None,
        tokenizer=tokenizer,
        book=book,
        scorer=shared_scorer(Scorer(config.reward, planned.steps), ranks),
        device=device,
        autocast=autocast_for(config.trainer.precision, device, policy.dtype),
        ranks=ranks,
    )


def make_reference(config: Any, policy: Any, device: torch.device) -> Any:
    """π_ref: a second copy of the base, or the policy with its adapter off."""
    return models.load_reference(config, device) if config.lora.r is None else AdapterOff(policy)


def prompt_limit(config: Any, positions: int | None) -> int:
    """max_prompt_tokens, or less where the model's positions leave less beside a completion."""
    if positions is None:
        return config.max_prompt_tokens
    room = positions - config.max_completion_tokens
    if room < 1:
        raise UserError(
            f"max_completion_tokens   {config.max_completion_tokens} tokens and a prompt do not fit the model's "
            f"{positions} positions; say max_completion_tokens={max(1, positions // 2)} or less"
        )
    return min(config.max_prompt_tokens, room)


def transformers_engine(run: Run, model: Any) -> TransformersEngine:
    """An engine over some copy of the policy."""
    return TransformersEngine(
        model,
        eos_ids=models.eos_ids(run.policy, run.tokenizer),
        pad_id=run.tokenizer.pad_token_id,
        decode=partial(run.tokenizer.decode, skip_special_tokens=True),
        max_rows=run.config.rollout.max_rows,
        autocast=run.autocast,
    )


def engines(run: Run, module: GRPOModule) -> tuple[Engine, Engine]:
    """(engine for training, engine at the weights as they are): the same one unless training lags, replays or differs.

    An engine that lags or has perturbed weights samples from a private copy of the policy; evaluation then reads the
    policy itself, by transformers.
    """
    settings = run.config.rollout
    own = settings.lag or settings.perturb.weights

    def sampler(model: Any, kind: str = settings.kind) -> Engine:
        engine = vllm_engine(run, model) if kind == "vllm" else transformers_engine(run, model)
        return shared_engine(engine, run.ranks)

    live = sampler(module.policy, "transformers") if own else sampler(module.policy)
    if settings.kind == "replay":
        return ReplayEngine(settings.path, live), live
    model = LaggedEngine.private_copy(module.policy) if own else module.policy
    engine = sampler(model) if own else live
    if settings.perturbed:
        engine = PerturbedEngine(engine, model, module.policy, settings.perturb, run.config.seed)
    if settings.lag:  # remembers weights as they were: perturbed ones would be perturbed again
        engine = LaggedEngine(engine, model, settings.lag, module.policy.state_dict())
    return engine, live


def training_sampling(config: Any, top_logprobs: int = 0) -> Sampling:
    """How training completions are drawn; top_logprobs: likeliest tokens that the objective wants to see."""
    chosen = config.sampling
    return Sampling(
        chosen.temperature, chosen.top_p, chosen.top_k, chosen.min_p, config.max_completion_tokens, top_logprobs
    )


def collector(run: Run, folder: Path, module: GRPOModule) -> Collector:
    """The first half of the step."""

    def save(step: int, stream: str, rollouts: list[Rollout]) -> None:
        replay.save(folder, step, stream, rollouts)

    return Collector(
        book=run.book,
        scorer=run.scorer,
        engine=module.engine,
        objective=run.objective,
        sampling=training_sampling(run.config, run.objective.top_k),
        prompts_per_step=run.config.prompts_per_step,
        group_size=run.config.group_size,
        seed=run.config.seed,
        on_rollouts=save if run.config.save_rollouts and run.ranks.first else None,
    )


def make_module(run: Run, folder: Path) -> GRPOModule:
    """The LightningModule of the run; its engines are built in its `setup`."""
    return GRPOModule(
        config=run.config,
        objective=run.objective,
        policy=run.policy,
        reference=run.reference,
        pad_id=run.tokenizer.pad_token_id,
        make_engines=partial(engines, run),
        make_collector=partial(collector, run, folder),
        reward_names=run.reward_names,
        guard=NonFiniteGuard(),
        evidence_folder=folder,
        total_steps=run.sizes.steps,
        autocast=run.autocast,
        ranks=run.ranks,
    )


def cpu_threads() -> int:
    """Threads of one process, as torch sees them."""
    return int(os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads())
