"""The contrastive form: pairs of a better and a worse completion of one prompt (axis form)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.form import assemble, extras
from grpo.algorithm.part import STRICT, needed, number, sequence_sum

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.algorithm.objective import Objective
    from grpo.data import Loss, Tokens, Totals


@dataclass(frozen=True, config=STRICT)
class Contrastive:
    """loss = mean over pairs of −log σ(β h),  h = Σ_t log(π/π_anchor)(o⁺) − Σ_t log(π/π_anchor)(o⁻)

    Anchor ref: DPO, Rafailov et al., arXiv:2305.18290 eq. 7. Anchor old: the chapter's 2-GRPO, which for G > 2 leaves
    the pairs open. Log-ratios are summed, not averaged. Pairs are strictly ordered by reward; equal rewards make
    none, and a step without a pair has loss 0. A group's completions must share a micro-batch; rewards are NaN for
    those not in the loss. Advantage, credit, ratio, surrogate and correction are not read. logp [B, T], rewards [B]
    -> scalar
    """

    beta: Annotated[float, Field(gt=0.0)] = 0.1
    """β, steepness: at h = 0 each token of a pair gets the gradient ∓β/2"""
    anchor: Literal["old", "ref"] = "ref"
    """what log π is compared with: the policy before this step's updates, or the reference"""
    pairing: Literal["all", "best_vs_worst"] = "best_vs_worst"
    """all ordered pairs of a group, or the first of its best against the first of its worst"""

    needs_rewards = True

    def __call__(self, parts: Objective, tokens: Tokens, totals: Totals) -> Loss:
        """Loss of a micro-batch. tokens: sanitised, 0 where the mask is False."""
        anchor = needed(getattr(tokens, f"logp_{self.anchor}"), f"logp_{self.anchor}", "form=contrastive")
        better, worse = self.pairs(needed(tokens.rewards, "rewards", "form=contrastive"), tokens.groups).unbind(1)
        gain = sequence_sum(tokens.logp - anchor, tokens.mask).squeeze(1)
        margin = self.beta * (gain[better] - gain[worse])
        count = max(getattr(totals, "pairs"), 1)  # noqa: B009 - PairTotals, from Objective.totals
        policy = (-margin).logaddexp(margin.new_zeros(())).sum() / count  # softplus, with slope ½ at 0
        push = self.beta * (-margin.detach()).sigmoid() / count
        weight = gain.new_zeros(gain.shape).index_add(0, better, push).index_add(0, worse, -push)
        return assemble(parts, tokens, totals, policy, weight[:, None] * tokens.logp, {})

    def pairs(self, rewards: Tensor, groups: Tensor) -> Tensor:
        """Row numbers (better, worse) of each pair, [P, 2]; NaN rewards are in none."""
        index = groups.new_ones(groups.shape).cumsum(0)
        together = groups[:, None] == groups
        higher = together & (rewards[:, None] > rewards)
        if self.pairing == "all":
            return higher.nonzero()
        twin = together & (rewards[:, None] == rewards) & (index[:, None] > index)
        best, worst = ~(higher.any(dim=0) | twin.any(dim=1)), ~(higher.any(dim=1) | twin.any(dim=1))
        return (higher & best[:, None] & worst).nonzero()

    def selected(self, rewards: Tensor, groups: Tensor) -> Tensor:
        """Rewards of the completions that are in a pair, NaN for the others, [B].

        Ties are broken by row, so choose once, over the whole step: micro-batches sort their rows anew.
        """
        chosen = groups.new_zeros(groups.shape).bool()
        chosen[self.pairs(rewards, groups).flatten()] = True
        return rewards.where(chosen, float("nan"))

    def reads(self, parts: Objective, field: str) -> bool:
        """True if a part reads this field of Tokens."""
        if field == "logp_old":
            return self.anchor == "old"
        return field == "logp_ref" and (self.anchor == "ref" or parts.kl.coef > 0)

    def every_row(self, parts: Objective) -> bool:
        """True: pairs do not look at A."""
        return True

    def describe(self, parts: Objective) -> str:
        """`contrastive(β, anchor, pairing) · extras`."""
        return " · ".join([repr(self), *extras(parts)])

    def inert(self, parts: Objective, updates_per_step: int) -> list[str]:
        """Parts without effect, one sentence each."""
        unread = "advantage, credit, ratio, surrogate, correction"
        return [f"{unread}{'' if parts.kl.coef else ', aggregation'}: not read by form=contrastive"]

    def conflicts(self, parts: Objective) -> list[str]:
        """Combinations without meaning: none."""
        return []

    def __repr__(self) -> str:
        return f"contrastive(β = {number(self.beta)}, against {self.anchor}, {self.pairing})"
