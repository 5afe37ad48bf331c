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


def entropy_term(parts: Objective, tokens: Tokens, totals: Totals) -> Tensor:
    """−coef · mean over the tokens of the step of H; a graph-connected 0 without a bonus."""
    if not parts.trains_entropy:
        return tokens.logp.new_zeros(())
    entropy = needed(tokens.entropy, "entropy", "entropy=loss_bonus")
    return -parts.entropy.coef * (entropy * tokens.mask).sum() / max(totals.tokens, 1)


@dataclass(frozen=True, config=STRICT)
class PolicyGradient:
    """loss = −Σ weight · [w · J(log ρ, A) − β · KL] − entropy bonus

    w is the correction (detached, 1 without one), J the surrogate, weight the aggregation's. The KL penalty sits inside
    the same aggregation and is never multiplied by w.
    """

    def __call__(self, parts: Objective, tokens: Tokens, totals: Totals) -> Loss:
        """Loss of a micro-batch. tokens: sanitised, 0 where the mask is False."""
        mask = tokens.mask
        advantages = parts.credit(tokens.advantages, tokens)
        log_ratio = parts.ratio(tokens)
        objective = parts.surrogate(log_ratio, advantages, tokens)
        correction = parts.correction(tokens)
        if correction is not None:
            objective = correction * objective
        weights = parts.aggregation.weights(mask, tokens.groups, totals, objective)
        terms = {"policy": -(objective * weights).sum()}
        diagnostics = {"ratio": log_ratio.exp(), **parts.surrogate.diagnostics(log_ratio, advantages, tokens)}
        masked = diagnostics.pop("masked", ~mask & mask)
        if correction is not None:
            diagnostics["correction"] = correction
            masked = masked | (correction == 0)
        diagnostics["masked"] = masked
        if parts.kl.coef > 0 and parts.kl.place == "loss":
            kl = parts.kl(tokens)
            diagnostics["kl"] = kl
            objective = objective - parts.kl.coef * kl
            terms["kl"] = parts.kl.coef * (kl * weights).sum()
        terms["entropy"] = entropy_term(parts, tokens, totals)
        return Loss(
            loss=sum(terms.values(), start=terms["policy"].new_zeros(())),
            objective=objective.where(mask, 0.0),
            terms=terms,
            diagnostics={k: v.detach().to(objective.dtype).where(mask, 0.0) for k, v in diagnostics.items()},
        )

    def reads(self, parts: Objective, field: str) -> bool:
        """True if a part reads this field of Tokens."""
        if field == "logp_ref":
            return parts.kl.coef > 0 or parts.credit.needs_reference
        return parts.correction.needs_rollout_logp or parts.ratio.anchor == "rollout"

    def every_row(self, parts: Objective) -> bool:
        """True if a completion with A = 0 has a gradient."""
        return parts.kl.coef > 0 and parts.kl.place == "loss"

    def describe(self, parts: Objective) -> str:
        """The flow, then what is added to it: `a -> b -> c · d · e`."""
        flow = [parts.shaping, parts.advantage, parts.credit, parts.ratio, parts.surrogate, parts.correction]
        flow = [repr(part) for part in (*flow, parts.aggregation)]
        flow = [text for text in flow if text not in ("no shaping", "uniform", "no correction")]
        rest = [repr(part) for part in (parts.kl, parts.entropy, parts.filter, parts.overlong)]
        return " · ".join([" -> ".join(flow), *rest])

    def inert(self, parts: Objective, updates_per_step: int) -> list[str]:
        """Parts without effect, one sentence each."""
        sentences = []
        if updates_per_step == 1 and parts.ratio.anchor == "old":
            cure = "no effect with one update per rollout (updates.minibatches=4 makes it matter)"
            sentences += [f"{part.inert}: {cure}" for part in (parts.ratio, parts.surrogate) if part.inert]
        return sentences

    def __repr__(self) -> str:
        return "policy_gradient"
