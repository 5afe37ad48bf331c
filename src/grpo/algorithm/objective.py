"""The objective: one part per axis, put together. What a form leaves open is answered here.

objective = build(config)
advantages = objective.advantages(scores)                     # [B], whole step
mask = objective.loss_mask(mask, truncated, rows)             # [B, T]
totals = objective.totals(mask, groups, budget, rows)         # whole optimizer step
loss = objective(tokens, totals)                              # any micro-batch; losses add up
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo.algorithm.form import count_pairs
from grpo.algorithm.part import sequence_mean, sequence_sum
from grpo.data import Tokens, Totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from grpo.algorithm.distance import Said
    from grpo.data import Loss, Scores


@dataclass(frozen=True)
class PairTotals(Totals):
    """Totals with the number of pairs, the contrastive form's denominator."""

    pairs: int = 0


def sanitised(tokens: Tokens) -> Tokens:
    """Tokens in float32 or better, with 0 wherever the mask is False.

    Done once, on the inputs: where() on outputs alone lets nan·0 = nan into the gradient. Only logp, entropy and
    kl_exact keep theirs. Without logp_old this is the first update of a step: log π_old = log π.detach(), ρ exactly 1.
    """
    mask = tokens.mask.bool()

    def clean(values: Tensor | None) -> Tensor | None:
        if values is None:
            return None
        wide = values.float() if values.element_size() < 4 else values
        return wide.where(mask if wide.dim() == 2 else mask[..., None], 0.0)

    constants = {
        name: clean(None if value is None else value.detach())
        for name in ("logp_old", "logp_ref", "logp_rollout", "topk_rollout", "topk_logp")
        for value in [getattr(tokens, name)]
    }
    logp = clean(tokens.logp)
    assert logp is not None
    if constants["logp_old"] is None:
        constants["logp_old"] = logp.detach()
    advantages = tokens.advantages.detach().to(logp.dtype)
    carrying = {"entropy": clean(tokens.entropy), "kl_exact": clean(tokens.kl_exact)}
    return tokens.replace(logp=logp, mask=mask, advantages=advantages, **carrying, **constants)


@dataclass(frozen=True)
class Objective:
    """An algorithm: a form and the parts it is made of, each a frozen dataclass of its axis."""

    form: Any
    advantage: Any
    credit: Any
    ratio: Any
    surrogate: Any
    correction: Any
    aggregation: Any
    kl: Any
    entropy: Any
    filter: Any
    overlong: Any
    shaping: Any

    def __call__(self, tokens: Tokens, totals: Totals) -> Loss:
        """Loss of a micro-batch, already divided by the totals of the step."""
        return self.form(self, sanitised(tokens), totals)

    def advantages(self, scores: Scores) -> Tensor:
        """A per completion, [B] float64, over the whole step. Infinite rewards are an error."""
        if scores.rewards.isinf().any():
            raise ValueError("a reward is infinite: rewards must be finite numbers, or None where they do not apply")
        return self.advantage(scores)

    def rows(self, scores: Scores, truncated: Tensor) -> Tensor:
        """[B] bool, completions in the loss: scored, not filtered, not dropped as overlong."""
        return scores.scored & self.filter.rows(scores) & self.overlong.rows(truncated)

    def loss_mask(self, mask: Tensor, truncated: Tensor, scored: Tensor) -> Tensor:
        """[B, T] bool, tokens in the loss. scored [B]: any further reason to leave completions out."""
        return self.overlong(mask, truncated) & scored[:, None]

    def totals(
        self,
        mask: Tensor,
        groups: Tensor,
        max_completion_tokens: int,
        rows: Tensor | None = None,
        rewards: Tensor | None = None,
    ) -> Totals:
        """Denominators of an optimizer step from its final mask [B, T].

        rows [B] bool: completions in the loss (`self.rows`); without it all are, so that one whose tokens are all
        masked counts as an empty completion. rewards [B]: `pair_rewards`, read by the contrastive form, which
        counts pairs.
        """
        present = mask.new_ones(mask.shape[0]) if rows is None else rows
        lengths = (mask & present[:, None]).sum(dim=1)
        group_tokens: dict[int, int] = {}
        for group, length in zip(groups.tolist(), lengths.tolist(), strict=True):
            group_tokens[group] = group_tokens.get(group, 0) + length
        return PairTotals(
            pairs=count_pairs(self, groups, rewards),
            tokens=int(lengths.sum()),
            sequences=int(present.sum()),
            nonempty=int((lengths > 0).sum()),
            groups=sum(count > 0 for count in group_tokens.values()),
            group_tokens=group_tokens,
            max_completion_tokens=max_completion_tokens,
        )

    def pair_rewards(self, rewards: Tensor, groups: Tensor, rows: Tensor, said: Sequence[Said] | None = None) -> Tensor:
        """Tokens.rewards of a whole step, [B]: NaN for completions out of the loss, or in none of the form's pairs.

        said [B]: the completions, for pairs that depend on what they say.
        """
        inside = rewards.where(rows, float("nan"))
        return self.form.selected(inside, groups, said) if self.form.needs_rewards else inside

    def reward_bonus(self, tokens: Tokens) -> Tensor | None:
        """What KL and entropy add to each reward before the advantages, detached [B]; None if neither is placed there.

        −β Σ_t k(log π_old, log π_ref) + α mean_t H. tokens.logp is log π_old here.
        """
        if not self.bonus:
            return None
        clean = sanitised(tokens)
        bonus = clean.logp.new_zeros(clean.logp.shape[0], 1).double()
        if self.kl.place == "reward" and self.kl.coef:
            bonus = bonus - self.kl.coef * sequence_sum(self.kl(clean).double(), clean.mask)
        if self.entropy.place == "reward" and self.entropy.coef:
            if clean.entropy is None:
                raise ValueError("entropy=reward_bonus reads Tokens.entropy, which the trainer did not fill")
            bonus = bonus + self.entropy.coef * sequence_mean(clean.entropy.double(), clean.mask)
        return bonus.squeeze(1).detach()

    @property
    def bonus(self) -> bool:
        """True if KL or entropy change the reward, so that the trainer scores the samples before the advantages."""
        return any(part.place == "reward" and part.coef > 0 for part in (self.kl, self.entropy))

    @property
    def needs_reference(self) -> bool:
        """True if any part compares with the reference policy."""
        return self.needs_logp_ref or self.needs_exact_kl

    @property
    def needs_logp_ref(self) -> bool:
        """True if any part reads log π_ref of the sampled tokens."""
        return self.form.reads(self, "logp_ref")

    @property
    def needs_exact_kl(self) -> bool:
        """True if Tokens.kl_exact is read: the forward pass then needs the reference beside the policy."""
        return self.kl.exact and self.kl.coef > 0

    @property
    def trains_exact_kl(self) -> bool:
        """True if kl_exact has a gradient in the loss."""
        return self.needs_exact_kl and self.kl.place == "loss"

    @property
    def needs_old(self) -> bool:
        """True if any part reads log π_old, which later updates of a step must then be told."""
        return self.form.reads(self, "logp_old")

    @property
    def needs_rollout_logp(self) -> bool:
        """True if any part reads the engine's log μ."""
        return self.form.reads(self, "logp_rollout")

    @property
    def trains_entropy(self) -> bool:
        """True if the entropy has a gradient in the loss."""
        return self.entropy.place == "loss" and self.entropy.coef > 0

    @property
    def needs_every_row(self) -> bool:
        """True if completions with A = 0 still have a gradient, so that no row may be skipped."""
        return self.trains_entropy or self.form.every_row(self)

    @property
    def needs_rewards(self) -> bool:
        """True if the form reads Tokens.rewards, and a group's completions must share a micro-batch."""
        return self.form.needs_rewards

    @property
    def needs_completions(self) -> bool:
        """True if `pair_rewards` must be told what the completions say."""
        return self.form.needs_rewards and self.form.needs_completions

    @property
    def needs_whole_update(self) -> bool:
        """True if an update may not be split into micro-batches, because a part ranks tokens over all of it."""
        return getattr(self.surrogate, "needs_whole_update", False)

    @property
    def top_k(self) -> int:
        """Top tokens per position that the engine reports and the trainer scores for Tokens.topk_*; 0: none."""
        return getattr(self.surrogate, "top_k", 0)

    @property
    def unsafe(self) -> list[str]:
        """What to say at start about formulas that run at one's own risk."""
        return [text for text in [getattr(self.surrogate, "unsafe", "")] if text]

    def conflicts(self) -> list[str]:
        """Combinations without meaning, one sentence each with what to use instead; the start refuses them."""
        return self.form.conflicts(self)

    def describe(self) -> str:
        """The algorithm in one line."""
        return self.form.describe(self)

    def inert(self, updates_per_step: int) -> list[str]:
        """Parts that change nothing in this run, one sentence each."""
        return self.form.inert(self, updates_per_step)

    def __repr__(self) -> str:
        return self.describe()
