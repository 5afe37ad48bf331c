"""Why a completion or a token counts less than it might, in a few words. An empty string: nothing to say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.algorithm.objective import Objective
    from grpo.data import Scores


def left_out(objective: Objective, scores: Scores, truncated: Tensor) -> list[str]:
    """Why each completion is not in the loss."""
    inside = objective.overlong.rows(truncated).tolist()
    kept, scored = objective.filter.rows(scores).tolist(), scores.scored.tolist()
    rule = repr(objective.filter).split("(", 1)[0]
    again = ": its group would be drawn again" if objective.filter.resamples else ""
    return [
        "no reward applies" if not s else "cut by the length limit" if not i else f"{rule}{again}" if not k else ""
        for s, i, k in zip(scored, inside, kept, strict=True)
    ]


def token_reason(
    i: int,
    t: int,
    sampled: Tensor,
    mask: Tensor,
    advantages: Tensor | None,
    policy: Tensor,
    weight: Tensor,
    seen: dict[str, Tensor],
) -> str:
    """What happens to one token. advantages: those of the tokens; policy: the weight without the KL penalty."""
    if not mask[i, t]:
        return "" if sampled[i, t] else "not sampled"
    if advantages is None:
        return ""
    text = _policy_reason(i, t, float(advantages[i, t]), float(policy[i, t]), seen)
    return text + "; KL alone pulls" if text and policy[i, t] == 0 and weight[i, t] != 0 else text


def _policy_reason(i: int, t: int, a: float, w: float, seen: dict[str, Tensor]) -> str:
    if a == 0:
        return "A = 0"
    if "correction" in seen and seen["correction"][i, t] == 0:
        return "masked by the correction: π_old/μ out of bounds"
    low, high = bool(seen["clip_low"][i, t]), bool(seen["clip_high"][i, t])
    if low or high:
        return _bounded("low" if low else "high", a, w, bool(seen["masked"][i, t]))
    if w == 0:
        return "weight 0"
    return "pushed against A" if w * a < 0 else ""


def _bounded(side: str, advantage: float, weight: float, masked: bool) -> str:
    if masked:
        return "masked: π has moved too far"
    if weight != 0:
        return "capped, and still learns"
    return f"clipped: ρ too {side} for A {'>' if advantage > 0 else '<'} 0"
