"""Objective + numbers → what the algorithm does with them: advantages, ratios, weights, reasons, terms, gradient.

The same path as a training step: shaping and bonus columns join the rewards, then advantages, masks, totals, loss.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from grpo.algorithm.distance import Said
from grpo.algorithm.kl import NoKL
from grpo.algorithm.objective import sanitised
from grpo.data import Scores, Tokens
from grpo.errors import ConfigError, Mistake
from grpo.explain.reasons import left_out, token_reason
from grpo.training.batch import with_column
from grpo.training.update import differentiate

if TYPE_CHECKING:
    from grpo.algorithm.objective import Objective
    from grpo.explain.batch import Numbers


@dataclass(frozen=True)
class Account:
    """What one algorithm does with one batch. Columns are [B, T], 0 where a token is not in the loss.

    weight is w = ∂J/∂log π per token, before aggregation; policy_weight the same without the KL penalty; gradient is
    ∂loss/∂log π. advantages [B]; token_advantages only where the credit changes them; ratio and advantages are None
    for forms that do not read them.
    """

    rewards: Tensor
    group_statistics: dict[int, tuple[int, float, float]]  # group id -> completions scored, mean, population σ
    advantages: Tensor | None
    token_advantages: Tensor | None
    rows: Tensor
    left_out: list[str]
    mask: Tensor
    ratio: Tensor | None
    correction: Tensor | None
    weight: Tensor
    policy_weight: Tensor
    gradient: Tensor
    entropy_gradient: Tensor | None
    kl_gradient: Tensor | None
    reasons: list[list[str]]
    terms: dict[str, float]
    loss: float


def account(objective: Objective, numbers: Numbers, max_completion_tokens: int, name: str = "it") -> Account:
    """Everything the objective does with the batch, in float64."""
    _demand(objective, numbers, name)
    sampled = torch.tensor(numbers.mask)
    truncated = torch.tensor(numbers.truncated)
    columns = {key: _column(rows) for key, rows in numbers.columns.items()}
    scores = _scores(objective, numbers, sampled, truncated, max_completion_tokens)
    logp = columns.pop("logp")
    entropy = columns.pop("entropy", None)
    bare = Tokens(
        logp=logp, mask=sampled, advantages=scores.total, groups=scores.groups, entropy=entropy, **columns,
        **_top_tokens(objective, numbers),
    )  # fmt: skip
    if objective.bonus:
        bonus = objective.reward_bonus(bare.replace(logp=columns.get("logp_old", logp)))
        assert bonus is not None
        scores = with_column(scores, bonus)
    rows = objective.rows(scores, truncated)
    mask = objective.loss_mask(sampled, truncated, rows)
    tokens = bare.replace(
        mask=mask,
        advantages=objective.advantages(scores),
        rewards=objective.pair_rewards(scores.total, scores.groups, rows, _said(numbers)),
    )
    totals = objective.totals(mask, scores.groups, max_completion_tokens, rows, tokens.rewards)
    made = differentiate(objective, tokens, totals)
    policy = differentiate(replace(objective, kl=NoKL()), tokens, totals).weight
    seen = made.loss.diagnostics
    read = "ratio" in seen
    credit = objective.credit(tokens.advantages, sanitised(tokens)).where(mask, 0.0) if read else None
    changed = credit is not None and not torch.equal(credit, tokens.advantages[:, None].where(mask, 0.0))
    return Account(
        rewards=scores.total,
        group_statistics=_statistics(scores),
        advantages=tokens.advantages if read else None,
        token_advantages=credit if changed else None,
        rows=rows,
        left_out=left_out(objective, scores, truncated),
        mask=mask,
        ratio=seen.get("ratio"),
        correction=seen.get("correction"),
        weight=made.weight,
        policy_weight=policy,
        gradient=made.logp_gradient,
        entropy_gradient=made.entropy_gradient,
        kl_gradient=made.kl_gradient,
        reasons=[
            [token_reason(i, t, sampled, mask, credit, policy, made.weight, seen) for t in range(mask.shape[1])]
            for i in range(mask.shape[0])
        ],
        terms={key: float(value.detach()) for key, value in made.loss.terms.items()},
        loss=float(made.loss.loss.detach()),
    )


def _column(rows: Any) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def _demand(objective: Objective, numbers: Numbers, name: str) -> None:
    """Fields that the algorithm reads and the batch lacks, one sentence each."""
    missing = []

    def need(field: str, by: str, cure: str) -> None:
        if field not in numbers.columns and field not in numbers.vocabulary:
            missing.append(Mistake(field, f"is read by {name} ({by}) and missing in {numbers.name}; add it, or {cure}"))

    if objective.needs_exact_kl:
        need("kl_exact", repr(objective.kl), "choose kl=k3")
    if objective.needs_logp_ref:
        part, cure = objective.credit, "choose credit=uniform"
        if objective.needs_rewards:
            part, cure = objective.form, "say form.anchor=old"
        if objective.kl.coef and not objective.kl.exact:
            part, cure = objective.kl, "choose kl=none"
        need("logp_ref", repr(part), cure)
    if objective.needs_rollout_logp:
        ratio = objective.ratio.anchor == "rollout"
        part, cure = (objective.ratio, "ratio.anchor=old") if ratio else (objective.correction, "correction=none")
        need("logp_rollout", repr(part), f"say {cure}")
    if objective.entropy.coef > 0:
        need("entropy", repr(objective.entropy), "choose entropy=none")
    if objective.needs_completions and not any(map(any, numbers.tokens)):
        need("tokens", repr(objective.form), "choose form=contrastive")
    if objective.top_k:
        need("vocab_old", repr(objective.surrogate), "choose surrogate=divergence_mask")
    if missing:
        raise ConfigError(missing)


def _said(numbers: Numbers) -> list[Said]:
    """What the completions say; where only the tokens' texts are given, equal texts are equal tokens."""
    numbered = {text: i for i, text in enumerate(dict.fromkeys(t for row in numbers.tokens for t in row))}
    said = []
    for i, counts in enumerate(numbers.mask):
        texts = [t for t, c in zip(numbers.tokens[i], counts, strict=True) if c]
        given = numbers.vocabulary.get("token_ids", [[numbered[t] for t in row] for row in numbers.tokens])[i]
        said.append(Said("".join(texts), tuple(t for t, c in zip(given, counts, strict=True) if c)))
    return said


def _scores(objective: Objective, numbers: Numbers, sampled: Tensor, truncated: Tensor, budget: int) -> Scores:
    """Rewards of the batch, the shaping's column last."""
    scores = Scores(
        rewards=_column(numbers.rewards),
        weights=_column(numbers.weights),
        groups=torch.tensor(numbers.groups),
        accuracy=_column(numbers.accuracy),
    )
    column = objective.shaping(sampled.sum(dim=1), budget, truncated)
    return scores if column is None else with_column(scores, column, objective.shaping.weight)


def _statistics(scores: Scores) -> dict[int, tuple[int, float, float]]:
    found = {}
    for group in dict.fromkeys(scores.groups.tolist()):
        values = scores.total[(scores.groups == group) & scores.scored]
        spread = float(values.std(unbiased=False)) if len(values) else torch.nan
        found[group] = (len(values), float(values.mean()), spread)
    return found


def _top_tokens(objective: Objective, numbers: Numbers) -> dict[str, Tensor]:
    """log-probs of the K likeliest tokens of μ under μ and π, [B, T, K]; −inf in the slot of the sampled token."""
    if not objective.top_k:
        return {}
    old, new = _column(numbers.vocabulary["vocab_old"]), _column(numbers.vocabulary["vocab_new"])
    top = old.topk(min(objective.top_k, old.shape[-1]), dim=-1).indices
    sampled = top == torch.tensor(numbers.vocabulary["token_ids"])[..., None]
    return {
        name: p.gather(-1, top).log().where(~sampled, -torch.inf)
        for name, p in (("topk_rollout", old), ("topk_logp", new))
    }
