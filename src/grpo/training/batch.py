"""Rollouts as tensors, and how a step's completions are divided for its updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from grpo.data import Prompt, Rollout, Scores
from grpo.rollout.randomness import stable_hash

Together = Literal["rows", "groups", "update"]
"""What a micro-batch may not split."""


@dataclass(frozen=True)
class Batch:
    """B completions of one step, on the CPU.

    prompts [B] (repeated for the group) and rollouts [B]; T is the longest completion of the batch
    mask       [B, T] bool, True = the objective counts this token
    in_loss    [B] bool, completions in the loss: scored and not filtered (one of them may still be empty)
    advantages [B] float64         groups [B] int64       rewards [B] float64 weighted sum; NaN = in no pair
    active     [B] bool, False = no weight of this completion can differ from zero: no forward, no backward pass
    logp_old   [B, T] log π before the first update (None: on-policy, log π itself), logp_ref, logp_rollout
    """

    prompts: tuple[Prompt, ...]
    rollouts: tuple[Rollout, ...]
    mask: Tensor
    in_loss: Tensor
    advantages: Tensor
    groups: Tensor
    rewards: Tensor
    active: Tensor
    logp_rollout: Tensor
    logp_old: Tensor | None = None
    logp_ref: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rollouts)

    def with_logps(self, *, old: Tensor | None, ref: Tensor | None) -> Batch:
        """The same batch with the log-probs that the objective's parts read."""
        return replace(self, logp_old=old, logp_ref=ref)

    def select(self, rows: Tensor) -> Batch:
        """The rows of one minibatch."""
        picked = rows.tolist()
        return Batch(
            prompts=tuple(self.prompts[i] for i in picked),
            rollouts=tuple(self.rollouts[i] for i in picked),
            mask=self.mask[rows],
            in_loss=self.in_loss[rows],
            advantages=self.advantages[rows],
            groups=self.groups[rows],
            rewards=self.rewards[rows],
            active=self.active[rows],
            logp_rollout=self.logp_rollout[rows],
            logp_old=None if self.logp_old is None else self.logp_old[rows],
            logp_ref=None if self.logp_ref is None else self.logp_ref[rows],
        )


def sampled_mask(rollouts: Sequence[Rollout]) -> Tensor:
    """[B, T] bool, True where the policy sampled the token; from the rollout's own record, never from token ids."""
    width = max([1, *(len(r.token_ids) for r in rollouts)])
    mask = torch.zeros((len(rollouts), width), dtype=torch.bool)
    for row, rollout in enumerate(rollouts):
        mask[row, : len(rollout.sampled)] = torch.tensor(rollout.sampled, dtype=torch.bool)
    return mask


def pad_floats(rows: Sequence[Sequence[float]], width: int) -> Tensor:
    """[B, width] float64, zeros after each row's end."""
    padded = torch.zeros((len(rows), width), dtype=torch.float64)
    for row, values in enumerate(rows):
        padded[row, : len(values)] = torch.tensor(values, dtype=torch.float64)
    return padded


def padded_ids(rollouts: Sequence[Rollout], width: int) -> Tensor:
    """Token ids [B, width], −1 after each completion's end."""
    ids = torch.full((len(rollouts), width), -1)
    for row, rollout in enumerate(rollouts):
        ids[row, : len(rollout.token_ids)] = torch.tensor(rollout.token_ids, dtype=torch.long)
    return ids


def topk_of(rollouts: Sequence[Rollout], width: int) -> tuple[Tensor, Tensor] | None:
    """Ids [B, width, K] and log μ [B, width, K] of the engine's likeliest tokens; None where it reported none."""
    if not any(r.topk_ids for r in rollouts):
        return None
    count = max(len(row) for r in rollouts for row in r.topk_ids)
    ids = torch.zeros((len(rollouts), width, count), dtype=torch.long)
    logps = torch.zeros((len(rollouts), width, count), dtype=torch.float64)
    for row, rollout in enumerate(rollouts):
        length = len(rollout.topk_ids)
        ids[row, :length] = torch.tensor(rollout.topk_ids, dtype=torch.long).reshape(length, count)
        logps[row, :length] = torch.tensor(rollout.topk_logp, dtype=torch.float64).reshape(length, count)
    return ids, logps


def subset(scores: Scores, rows: Tensor) -> Scores:
    """The scores of some completions."""
    return Scores(scores.rewards[rows], scores.weights, scores.groups[rows], scores.accuracy[rows])


def with_column(scores: Scores, column: Tensor, weight: float = 1.0) -> Scores:
    """One more reward function's values [B]; a sample that nothing else could score stays unscored."""
    column = column.double().where(scores.scored, float("nan"))
    return replace(
        scores,
        rewards=torch.cat([scores.rewards, column.unsqueeze(1)], dim=1),
        weights=torch.cat([scores.weights, scores.weights.new_tensor([weight])]),
    )


def minibatches(groups: Tensor, count: int, *, epoch: int, seed: int, step: int) -> list[Tensor]:
    """Rows of `count` minibatches of whole groups, as equal as the number of groups allows.

    The first epoch keeps the order of the step; later ones permute the groups by a hash of (seed, step, epoch, group).
    """
    ids = list(dict.fromkeys(groups.tolist()))
    if epoch > 0:
        ids.sort(key=lambda group: stable_hash(seed, "minibatches", step, epoch, group))
    cuts = [round(i * len(ids) / count) for i in range(count + 1)]
    parts = [set(ids[a:b]) for a, b in pairwise(cuts)]
    order = {group: place for place, group in enumerate(ids)}
    rows = sorted(range(len(groups)), key=lambda i: (order[int(groups[i])], i))
    return [torch.tensor([i for i in rows if int(groups[i]) in part], dtype=torch.long) for part in parts]


def microbatches(
    batch: Batch, tokens_per_microbatch: int, rows: Tensor | None = None, *, together: Together = "rows"
) -> list[Tensor]:
    """Rows of forward passes of at most `tokens_per_microbatch` padded tokens, sorted by length; one unit at least.

    Only active rows (or the given ones). A unit is a row, a group where the objective compares completions of one
    prompt, or the whole update where it ranks tokens over all of it. The split changes no loss and no gradient:
    denominators are the step's.
    """
    units = _units(batch, rows, together)
    sizes = _sizes(batch, units)
    widths = {key: max(sum(sizes[i]) for i in unit) for key, unit in units.items()}
    parts: list[list[int]] = []
    for key in sorted(units, key=lambda key: (-widths[key], units[key][0])):
        grown = [*(parts[-1] if parts else []), *units[key]]
        width = max(sizes[i][0] for i in grown) + max(sizes[i][1] for i in grown)
        if parts and len(grown) * width <= tokens_per_microbatch:
            parts[-1] = grown
        else:
            parts.append(units[key])
    return [torch.tensor(part, dtype=torch.long) for part in parts]


def shares(batch: Batch, count: int, rows: Tensor | None = None, *, together: Together = "rows") -> list[Tensor]:
    """Rows of each of `count` ranks: whole units, the longest first, each to the rank that has the fewest tokens yet.

    rows, together: as in `microbatches`. Where the whole update is one unit, one rank has all of it.
    """
    units = _units(batch, rows, together)
    sizes = _sizes(batch, units)
    tokens = {key: sum(sum(sizes[i]) for i in unit) for key, unit in units.items()}
    parts: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for key in sorted(units, key=lambda key: (-tokens[key], units[key][0])):
        rank = loads.index(min(loads))
        parts[rank] += units[key]
        loads[rank] += tokens[key]
    return [torch.tensor(sorted(part), dtype=torch.long) for part in parts]


def _units(batch: Batch, rows: Tensor | None, together: Together) -> dict[int, list[int]]:
    """Rows that no forward pass may part, by the number of their row, group or update; only active rows, or `rows`."""
    unit_of = {"rows": lambda i: i, "groups": lambda i: int(batch.groups[i]), "update": lambda i: 0}[together]
    units: dict[int, list[int]] = {}
    for i in (batch.active.nonzero().squeeze(-1) if rows is None else rows).tolist():
        units.setdefault(unit_of(i), []).append(i)
    return units


def _sizes(batch: Batch, units: dict[int, list[int]]) -> dict[int, tuple[int, int]]:
    """Tokens of prompt and completion of each row."""
    rows = [i for unit in units.values() for i in unit]
    return {i: (len(batch.prompts[i].token_ids), len(batch.rollouts[i].token_ids)) for i in rows}
