"""Forms: how the parts meet in a loss. `build` puts the parts of a configuration together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, needed
from grpo.data import Loss

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.algorithm.objective import Objective
    from grpo.data import Tokens, Totals

AXES = (
    "form", "advantage", "credit", "ratio", "surrogate", "correction", "aggregation",
    "kl", "entropy", "filter", "overlong", "shaping",
)  # fmt: skip


def build(config: Any) -> Objective:
    """The objective of a configuration whose nodes are already parts."""
    from grpo.algorithm.objective import Objective

    return Objective(**{axis: getattr(config, axis) for axis in AXES})


def assemble(
    parts: Objective, tokens: Tokens, totals: Totals, policy: Tensor, objective: Tensor, diagnostics: dict[str, Tensor]
) -> Loss:
    """Loss from its policy term (scalar) and J [B, T], with the KL penalty and the entropy bonus that any form may
    have.

    terms are −Σ weight·J, β Σ weight·KL (same aggregation, never corrected) and −coef·mean H over the step's tokens.
    """
    terms = {"policy": policy}
    if parts.kl.coef > 0 and parts.kl.place == "loss":
        diagnostics["kl"] = kl = parts.kl(tokens)
        objective = objective - parts.kl.coef * kl
        weights = parts.aggregation.weights(tokens.mask, tokens.groups, totals, kl)
        terms["kl"] = parts.kl.coef * (kl * weights).sum()
    if parts.trains_entropy:
        entropy = needed(tokens.entropy, "entropy", "entropy=loss_bonus")
        terms["entropy"] = -parts.entropy.coef * (entropy * tokens.mask).sum() / max(totals.tokens, 1)
    return Loss(
        loss=sum(terms.values(), start=policy.new_zeros(())),
        objective=objective.where(tokens.mask, 0.0),
        terms=terms,
        diagnostics={k: v.detach().to(objective.dtype).where(tokens.mask, 0.0) for k, v in diagnostics.items()},
    )


def estimates_kl(parts: Objective) -> bool:
    """True if a KL penalty reads log π_ref of the sampled tokens; the exact one reads whole distributions."""
    return parts.kl.coef > 0 and not parts.kl.exact


def extras(parts: Objective) -> list[str]:
    """The parts that every form has, as text."""
    return [repr(part) for part in (parts.kl, parts.entropy, parts.filter, parts.overlong)]


@dataclass(frozen=True, config=STRICT)
class PolicyGradient:
    """loss = −Σ weight · [w · J(log ρ, A) − β · KL] − entropy bonus

    w is the correction (detached, 1 without one), J the surrogate, weight the aggregation's.
    """

    needs_rewards = False

    def __call__(self, parts: Objective, tokens: Tokens, totals: Totals) -> Loss:
        """Loss of a micro-batch. tokens: sanitised, 0 where the mask is False."""
        log_ratio = parts.ratio(tokens)
        seen = tokens.replace(logp_old=parts.ratio.base(tokens))  # a surrogate's π_old is what its ratio divides by
        advantages = parts.credit(tokens.advantages, tokens)
        objective = parts.surrogate(log_ratio, advantages, seen)
        nothing = tokens.mask.new_zeros(tokens.mask.shape)
        diagnostics = {"ratio": log_ratio.exp(), "clip_low": nothing, "clip_high": nothing, "masked": nothing}
        diagnostics |= parts.surrogate.diagnostics(log_ratio, advantages, seen)
        correction = parts.correction(tokens)
        if correction is not None:
            objective = correction * objective
            diagnostics |= {"correction": correction, "masked": diagnostics["masked"] | (correction == 0)}
        weights = parts.aggregation.weights(tokens.mask, tokens.groups, totals, objective)
        return assemble(parts, tokens, totals, -(objective * weights).sum(), objective, diagnostics)

    def reads(self, parts: Objective, field: str) -> bool:
        """True if a part reads this field of Tokens."""
        if field == "logp_ref":
            return estimates_kl(parts) or parts.credit.needs_reference
        if field == "logp_old":
            return parts.ratio.anchor == "old"
        return parts.correction.needs_rollout_logp or parts.ratio.anchor == "rollout"

    def every_row(self, parts: Objective) -> bool:
        """True if a completion with A = 0 has a gradient."""
        return parts.kl.coef > 0 and parts.kl.place == "loss"

    def describe(self, parts: Objective) -> str:
        """The flow, then what is added to it: `a -> b -> c · d · e`."""
        flow = [parts.shaping, parts.advantage, parts.credit, parts.ratio, parts.surrogate, parts.correction]
        names = [repr(part) for part in (*flow, parts.aggregation)]
        names = [name for name in names if name not in ("no shaping", "uniform", "no correction")]
        return " · ".join([" -> ".join(names), *extras(parts)])

    def inert(self, parts: Objective, updates_per_step: int) -> list[str]:
        """Parts without effect, one sentence each."""
        if updates_per_step > 1 or parts.ratio.anchor == "rollout":
            return []
        cure = "no effect with one update per rollout (updates.minibatches=4 makes it matter)"
        return [f"{part.inert}: {cure}" for part in (parts.ratio, parts.surrogate) if part.inert]

    def conflicts(self, parts: Objective) -> list[str]:
        """Combinations without meaning, each with what to use instead."""
        found = []
        if parts.ratio.anchor == "rollout" and parts.correction.needs_rollout_logp:
            found.append(
                "ratio.anchor=rollout already divides by the engine's μ: use correction=none or ratio.anchor=old"
            )
        if parts.top_k and parts.ratio.anchor != "rollout":
            found.append(f"surrogate.kind={parts.surrogate.kind} compares with the engine's top tokens: use "
                         "ratio.anchor=rollout or surrogate.kind=binary_tv")  # fmt: skip
        return found

    def __repr__(self) -> str:
        return "policy_gradient"


@dataclass(frozen=True, config=STRICT)
class Likelihood:
    """loss = −Σ weight · log π over the completions that the filter keeps: supervised learning on one's own best
    samples

    RAFT, Dong et al., arXiv:2304.06767 (filter=top_k); rejection sampling of the chapter's table 7.1. Advantage,
    credit, ratio, surrogate and correction are not read. logp [B, T] -> scalar
    """

    needs_rewards = False

    def __call__(self, parts: Objective, tokens: Tokens, totals: Totals) -> Loss:
        """Loss of a micro-batch. tokens: sanitised, 0 where the mask is False."""
        weights = parts.aggregation.weights(tokens.mask, tokens.groups, totals, tokens.logp)
        return assemble(parts, tokens, totals, -(tokens.logp * weights).sum(), tokens.logp, {})

    def reads(self, parts: Objective, field: str) -> bool:
        """True if a part reads this field of Tokens."""
        return field == "logp_ref" and estimates_kl(parts)

    def every_row(self, parts: Objective) -> bool:
        """True: the likelihood does not look at A."""
        return True

    def describe(self, parts: Objective) -> str:
        """`likelihood -> aggregation · extras`."""
        return " · ".join([f"likelihood -> {parts.aggregation!r}", *extras(parts)])

    def inert(self, parts: Objective, updates_per_step: int) -> list[str]:
        """Parts without effect, one sentence each."""
        return ["advantage, credit, ratio, surrogate, correction: not read by form=likelihood"]

    def conflicts(self, parts: Objective) -> list[str]:
        """Combinations without meaning: none."""
        return []

    def __repr__(self) -> str:
        return "likelihood"


def count_pairs(parts: Objective, groups: Tensor, rewards: Tensor | None) -> int:
    """Pairs of the whole update; 0 for forms without pairs."""
    if not parts.form.needs_rewards:
        return 0
    return len(parts.form.pairs(needed(rewards, "rewards", "totals() of a contrastive form"), groups))
