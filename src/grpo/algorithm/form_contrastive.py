"""The contrastive form: pairs of a better and a worse completion of one prompt (axis form)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.distance import NgramJaccard, Said, diversity
from grpo.algorithm.form import assemble, estimates_kl, extras
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
    none, and a step without a pair has loss 0. Pairing diverse is DivPO's, Lanchantin et al., arXiv:2501.18101, with
    the group's mean reward as its threshold: of the completions above it the one least like its group, against the one
    most like it of those below. A group's completions must share a micro-batch; rewards are NaN for
    those not in the loss. Advantage, credit, ratio, surrogate and correction are not read. logp [B, T], rewards [B]
    -> scalar
    """

    beta: Annotated[float, Field(gt=0.0)] = 0.1
    """β, steepness: at h = 0 each token of a pair gets the gradient ∓β/2"""
    anchor: Literal["old", "ref"] = "ref"
    """what log π is compared with: the policy before this step's updates, or the reference"""
    pairing: Literal["all", "best_vs_worst", "diverse"] = "best_vs_worst"
    """all ordered pairs of a group, the first of its best against the first of its worst, or DivPO's"""
    distance: Any = NgramJaccard()
    """how unlike two completions are (pairing=diverse)"""

    needs_rewards = True

    @property
    def needs_completions(self) -> bool:
        """True if the pairs depend on what the completions say."""
        return self.pairing == "diverse"

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
        """Row numbers (better, worse) of each pair, [P, 2]; NaN rewards are in none.

        Of a diverse pair's group only its two are left by `selected`, and they are its best and its worst.
        """
        index = groups.new_ones(groups.shape).cumsum(0)
        together = groups[:, None] == groups
        higher = together & (rewards[:, None] > rewards)
        if self.pairing == "all":
            return higher.nonzero()
        twin = together & (rewards[:, None] == rewards) & (index[:, None] > index)
        best, worst = ~(higher.any(dim=0) | twin.any(dim=1)), ~(higher.any(dim=1) | twin.any(dim=1))
        return (higher & best[:, None] & worst).nonzero()

    def selected(self, rewards: Tensor, groups: Tensor, said: Sequence[Said] | None = None) -> Tensor:
        """Rewards of the completions that are in a pair, NaN for the others, [B].

        Ties are broken by row, so choose once, over the whole step: micro-batches sort their rows anew.
        """
        chosen = groups.new_zeros(groups.shape).bool()
        if self.needs_completions:
            if said is None:
                raise ValueError("form.pairing=diverse compares completions, which the caller did not hand over")
            chosen[self._diverse(rewards.tolist(), groups.tolist(), said)] = True
        else:
            chosen[self.pairs(rewards, groups).flatten()] = True
        return rewards.where(chosen, float("nan"))

    def _diverse(self, rewards: list[float], groups: list[int], said: Sequence[Said]) -> list[int]:
        """Rows of the pairs: above the group's mean reward the most diverse, below it the least; ties by row."""
        members: dict[int, list[int]] = {}
        for row, (reward, group) in enumerate(zip(rewards, groups, strict=True)):
            if reward == reward:  # not nan: the completion is in the loss
                members.setdefault(group, []).append(row)
        chosen: list[int] = []
        for rows in members.values():
            mean = sum(rewards[i] for i in rows) / len(rows)
            unlike = dict(zip(rows, diversity([said[i] for i in rows], self.distance), strict=True))
            better, worse = [i for i in rows if rewards[i] > mean], [i for i in rows if rewards[i] < mean]
            if better and worse:  # equal rewards may lie on one side of a rounded mean
                chosen += [max(better, key=unlike.__getitem__), min(worse, key=unlike.__getitem__)]
        return chosen

    def reads(self, parts: Objective, field: str) -> bool:
        """True if a part reads this field of Tokens."""
        if field == "logp_old":
            return self.anchor == "old"
        return field == "logp_ref" and (self.anchor == "ref" or estimates_kl(parts))

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
        pairing = f"{self.pairing} by {self.distance!r}" if self.needs_completions else self.pairing
        return f"contrastive(β = {number(self.beta)}, against {self.anchor}, {pairing})"
