"""Random batches with unequal groups, empty and truncated completions, and what an algorithm makes of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from golden import composer, objective_of
from torch import Tensor

from grpo.algorithm.distance import Said
from grpo.algorithm.objective import Objective
from grpo.data import Loss, Scores, Tokens, Totals

BUDGET = 6
ALGORITHMS = composer().groups["algo"]  # a new overlay inherits every test that runs over all of them


def algorithm(name: str, *words: str) -> Objective:
    return objective_of((f"+algo={name}", *words))[0]


@dataclass(frozen=True)
class Batch:
    """B completions before an algorithm sees them; every column [B, T] is nan where nothing was sampled."""

    logp: Tensor
    sampled: Tensor
    scores: Scores
    truncated: Tensor
    columns: dict[str, Tensor]

    @property
    def said(self) -> list[Said]:
        """Completions of three kinds of tokens, the same for the same log-probs."""
        pairs = [
            zip(row, counts, strict=True) for row, counts in zip(self.logp.tolist(), self.sampled.tolist(), strict=True)
        ]
        rows = [[int(-x * 10) % 3 for x, counts in row if counts] for row in pairs]
        return [Said("".join(map(str, row)), tuple(row)) for row in rows]

    def with_rewards(self, rewards: Tensor) -> Batch:
        table = rewards if rewards.dim() == 2 else rewards[:, None]
        weights = table.new_ones(table.shape[1])
        return replace(self, scores=Scores(table, weights, self.scores.groups, table[:, 0]))

    def with_columns(self, **columns: Tensor) -> Batch:
        return replace(self, columns={**self.columns, **columns})

    def on_policy(self) -> Batch:
        """log π_old = log π, and an engine that agrees with the trainer."""
        return self.with_columns(logp_old=self.logp, logp_rollout=self.logp)

    def to(self, dtype: torch.dtype) -> Batch:
        columns = {name: values.to(dtype) for name, values in self.columns.items()}
        return replace(self, logp=self.logp.to(dtype), columns=columns)


def random_batch(seed: int, sizes: tuple[int, ...] = (4, 3, 2, 1), functions: int = 1, empty: bool = True) -> Batch:
    """Groups of these sizes in shuffled rows with ids like 17, 20, …; lengths 0 or 1 … 5; rewards 0, ½, 1."""
    generator = torch.Generator().manual_seed(seed)

    def rand(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    rows, width = sum(sizes), 5
    groups = torch.tensor([17 + 3 * g for g, size in enumerate(sizes) for _ in range(size)])
    groups = groups[torch.randperm(rows, generator=generator)]
    lengths = torch.randint(0 if empty else 1, width + 1, (rows,), generator=generator)
    sampled = torch.arange(width) < lengths[:, None]
    logp = -0.02 - 2.5 * rand(rows, width)

    def near(spread: float) -> Tensor:
        return (logp + spread * (2 * rand(rows, width) - 1)).clamp(max=-0.01)

    columns = {"logp_old": near(0.6), "logp_ref": near(0.6)}
    columns["logp_rollout"] = (columns["logp_old"] + 0.2 * (2 * rand(rows, width) - 1)).clamp(max=-0.01)
    for name, sampled_logp in (("topk_rollout", columns["logp_rollout"]), ("topk_logp", logp)):
        shares = rand(rows, width, 4)
        others = (1 - sampled_logp.exp())[..., None] * (shares / shares.sum(-1, keepdim=True))[..., :3]
        columns[name] = others.log()
    columns["entropy"] = 0.1 + rand(rows, width)
    columns["kl_exact"] = 0.1 * (columns["logp_ref"] - logp).square()  # its own draw would change every later number
    nan = float("nan")
    columns = {n: x.where(sampled if x.dim() == 2 else sampled[..., None], nan) for n, x in columns.items()}
    rewards = torch.randint(0, 3, (rows, functions), generator=generator).double() / 2
    scores = Scores(rewards, torch.ones(functions, dtype=torch.float64), groups, rewards[:, 0])
    truncated = rand(rows) < 0.2
    return Batch(logp.where(sampled, nan), sampled, scores, truncated, columns)


@dataclass(frozen=True)
class Prepared:
    """A batch with what an algorithm computes over the whole step: mask, totals, advantages."""

    tokens: Tokens
    totals: Totals


def prepare(objective: Objective, batch: Batch) -> Prepared:
    rows = objective.rows(batch.scores, batch.truncated)
    mask = objective.loss_mask(batch.sampled, batch.truncated, rows)
    tokens = Tokens(
        logp=batch.logp,
        mask=mask,
        advantages=objective.advantages(batch.scores),
        groups=batch.scores.groups,
        rewards=objective.pair_rewards(batch.scores.total, batch.scores.groups, rows, batch.said),
        **batch.columns,
    )
    totals = objective.totals(mask, tokens.groups, BUDGET, rows, tokens.rewards)
    return Prepared(tokens, totals)


def take(tokens: Tokens, rows: Tensor, width: int | None = None) -> Tokens:
    """Some rows, trimmed or padded with nan to a width."""

    def cut(x: Tensor | None) -> Tensor | None:
        if x is None or x.dim() == 1 or width is None:
            return x if x is None else x[rows]
        x = x[rows][:, :width]
        missing = width - x.shape[1]
        fill = False if x.dtype == torch.bool else float("nan")
        return torch.cat([x, x.new_full((x.shape[0], missing, *x.shape[2:]), fill)], dim=1) if missing else x

    return Tokens(**{name: cut(value) for name, value in vars(tokens).items()})


def gradient(objective: Objective, tokens: Tokens, totals: Totals) -> tuple[Loss, Tensor]:
    """The loss and ∂loss/∂log π, 0 where the loss does not depend on it."""
    logp = tokens.logp.detach().clone().requires_grad_()
    loss = objective(tokens.replace(logp=logp), totals)
    return loss, torch.autograd.grad(loss.loss, logp)[0]


def solve(objective: Objective, batch: Batch) -> tuple[Loss, Tensor]:
    """Loss and gradient of a whole batch in one piece."""
    prepared = prepare(objective, batch)
    return gradient(objective, prepared.tokens, prepared.totals)


def weights(objective: Objective, batch: Batch) -> Tensor:
    """w = ∂J/∂log π per token, [B, T]: the objective before aggregation."""
    tokens = prepare(objective, batch).tokens
    logp = tokens.logp.detach().clone().requires_grad_()
    value = objective(tokens.replace(logp=logp), prepare(objective, batch).totals).objective.sum()
    return torch.autograd.grad(value, logp)[0]
