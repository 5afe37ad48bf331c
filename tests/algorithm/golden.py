"""Golden vectors through the configuration: vector id -> overrides -> objective -> loss, gradient, advantages.

GRPO_GOLDEN replaces the vector file by another one with the same ids and batch layout.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from grpo.algorithm.form import build
from grpo.algorithm.objective import Objective
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.data import Loss, Scores, Tokens, Totals

DATA = Path(__file__).parent / "data"
FILE = json.loads(Path(os.environ.get("GRPO_GOLDEN") or DATA / "golden.json").read_text())
VECTORS: dict[str, dict[str, Any]] = {v["id"]: v for v in FILE["vectors"]}
LOSSES = [i for i, v in VECTORS.items() if v["kind"] == "loss"]
MAP = yaml.safe_load((DATA / "golden_map.yaml").read_text())


def overrides(vector: dict[str, Any]) -> tuple[str, ...]:
    """The map's first match, with the vector's own numbers filled in."""
    for pattern, text in MAP:
        if re.fullmatch(pattern, vector["id"]):
            return tuple(text.format(**vector["hparams"]).split())
    raise KeyError(f"golden_map.yaml has no pattern for {vector['id']}")


@cache
def composer() -> Composer:
    return Composer()


@cache
def objective_of(words: tuple[str, ...]) -> tuple[Objective, int]:
    """The objective of a command line, and its max_completion_tokens."""
    config, _ = load(list(words), composer())
    return build(config), config.max_completion_tokens


def column(rows: list[Any], dtype: torch.dtype) -> Tensor:
    return torch.tensor(rows, dtype=dtype)


def scores_of(batch: dict[str, Any], weights: list[float] | None = None) -> Scores:
    """Scores of a batch: the total reward as one function, or `rewards_per_func` with weights. null = NaN."""
    rewards = batch["rewards_per_func"] if weights else [[r] for r in batch["rewards"]]
    clean = [[float("nan") if r is None else float(r) for r in row] for row in rewards]
    table = column(clean, torch.float64)
    return Scores(
        rewards=table,
        weights=column(weights or [1.0], torch.float64),
        groups=torch.tensor(batch["group_ids"]),
        accuracy=table[:, 0],
    )


def poisoned(values: Tensor, mask: Tensor, poison: float | None) -> Tensor:
    return values if poison is None else values.where(mask, poison)


def top_tokens(batch: dict[str, Any], k: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """log-probs of the K likeliest tokens of μ under μ and π; −inf in the slot of the sampled token."""
    old, new = column(batch["vocab_old"], dtype), column(batch["vocab_new"], dtype)
    top = old.topk(k, dim=-1).indices
    sampled = top == torch.tensor(batch["token_ids"])[..., None]
    names = {"topk_rollout": old, "topk_logp": new}
    return {name: p.gather(-1, top).log().where(~sampled, -torch.inf) for name, p in names.items()}


@dataclass
class Result:
    loss: Loss
    gradient: Tensor
    advantages: Tensor  # [B], or [B, T] where the credit changes them


def run(vector: dict[str, Any], dtype: torch.dtype = torch.float64, poison: float | None = None) -> Result:
    """Loss and gradient of a loss vector."""
    objective, budget = objective_of(overrides(vector))
    return run_batch(objective, FILE["batches"][vector["batch"]], budget, vector["hparams"], dtype, poison)


def run_batch(
    objective: Objective,
    batch: dict[str, Any],
    budget: int,
    hparams: dict[str, Any] | None = None,
    dtype: torch.dtype = torch.float64,
    poison: float | None = None,
) -> Result:
    hparams = hparams or {}
    sampled = torch.tensor(batch["mask"]).bool()
    scores = scores_of(batch, hparams.get("reward_weights"))
    truncated = torch.tensor(batch["truncated"]) | hparams.get("force_all_truncated", False)
    rows = objective.rows(scores, truncated)
    mask = objective.loss_mask(sampled, truncated, rows)
    columns = {n: poisoned(column(batch[n], dtype), sampled, poison) for n in batch if n.startswith("logp_")}
    if objective.top_k:
        columns |= {
            name: poisoned(values, sampled[..., None], poison)
            for name, values in top_tokens(batch, objective.top_k, dtype).items()
        }
    logp = poisoned(column(batch["logp"], dtype), sampled, poison).requires_grad_()
    advantages = objective.advantages(scores)
    tokens = Tokens(
        logp=logp,
        mask=mask,
        advantages=advantages,
        groups=scores.groups,
        rewards=objective.pair_rewards(scores.total, scores.groups, rows),
        **columns,
    )
    totals: Totals = objective.totals(mask, scores.groups, budget, rows, tokens.rewards)
    loss = objective(tokens, totals)
    (gradient,) = torch.autograd.grad(loss.loss, logp)
    if hasattr(objective.credit, "needs_reference") and objective.credit.needs_reference:
        clean = tokens.replace(logp_ref=columns["logp_ref"].double().where(sampled, 0.0))
        advantages = objective.credit(advantages, clean).where(sampled, 0.0)
    return Result(loss, gradient, advantages)
