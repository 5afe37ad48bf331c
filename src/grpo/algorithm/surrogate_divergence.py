"""Surrogates that mask by a divergence between the old and the new next-token distribution (axis surrogate). [B, T]

The old policy is the ratio's anchor: the form hands it over as tokens.logp_old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grpo.algorithm.part import STRICT, needed, number, sequence_sum

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.data import Tokens

Divergence = Literal["binary_tv", "binary_kl", "topk_tv", "topk_kl"]
TINY = 1e-12  # smallest mass of "every other token"


def categories(tokens: Tokens, top: bool) -> tuple[Tensor, Tensor]:
    """Probabilities (μ, π) of the sampled token, of the other top-K tokens, and of all the rest, [B, T, 2 or K + 2].

    tokens.topk_* hold −inf in the slot of the sampled token and in unused ones, so that no token counts twice.
    """
    columns = []
    old = needed(tokens.logp_old, "logp_old", "surrogate=divergence_mask")
    for sampled, others in ((old, tokens.topk_rollout), (tokens.logp.detach(), tokens.topk_logp)):
        known = sampled.exp()[..., None]
        if top:
            others = needed(others, "topk_rollout and topk_logp", "surrogate=divergence_mask")
            wide = known.new_zeros(*known.shape[:2], others.shape[-1] + 1)
            wide[..., :1], wide[..., 1:] = known, others.exp()
            known = wide
        rest = (1.0 - known.sum(dim=-1, keepdim=True)).clamp(min=TINY)
        full = known.new_zeros(*known.shape[:2], known.shape[-1] + 1)
        full[..., :-1], full[..., -1:] = known, rest
        columns.append(full)
    return columns[0], columns[1]


def divergence(kind: Divergence, tokens: Tokens) -> Tensor:
    """TV(μ, π) = ½ Σ |μ − π| or KL(μ‖π) = Σ μ log(μ/π) over the categories, detached, [B, T]."""
    mu, pi = categories(tokens, kind.startswith("topk"))
    if kind.endswith("tv"):
        return 0.5 * (mu - pi).abs().sum(dim=-1)
    return (mu * (mu.clamp(min=TINY).log() - pi.clamp(min=TINY).log())).sum(dim=-1)


@dataclass(frozen=True, config=STRICT)
class DivergenceMask:
    """J = M · sg[min(ρ, C)] · A log π,   M = 0 where (A > 0, π > μ, D > δ) or (A ≤ 0, π < μ, D > δ)

    DPPO, Qi et al., arXiv:2602.04879 eq. 12–16: the trust region is a divergence, not a ratio, so that rare tokens
    may move far. A token that moves back towards μ is never masked. binary: the sampled token against all others;
    topk: on TopK(μ, K) ∪ {sampled} ∪ {rest}. log ρ, A, log π [B, T] -> J [B, T]
    """

    kind: Divergence = "binary_tv"
    """D: total variation or KL(μ‖π), binary or over the engine's top-K tokens"""
    delta_low: Annotated[float, Field(ge=0.0)] = 0.15
    """δ for A ≤ 0; the paper: 0.15 for TV, 0.05 for KL"""
    delta_high: Annotated[float, Field(ge=0.0)] = 0.15
    """δ for A > 0"""
    cap: Annotated[float, Field(gt=0.0)] = 20.0
    """C, largest weight (verl and TRL 20, the paper's scaling runs 5)"""
    tokens_of_mu: Annotated[int, Field(ge=1)] = 20
    """K of the topk kinds: vocabulary entries that the engine reports"""

    inert = "divergence mask"

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        low, high = self.outside(advantages, tokens)
        return (log_ratio.detach().exp().clamp(max=self.cap) * advantages * tokens.logp).where(~(low | high), 0.0)

    def outside(self, advantages: Tensor, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """Tokens masked on their way down, and on their way up, [B, T] bool each."""
        gap = tokens.logp.detach() - needed(tokens.logp_old, "logp_old", "surrogate=divergence_mask")
        d = divergence(self.kind, tokens)
        return (advantages <= 0) & (gap < 0) & (d > self.delta_low), (advantages > 0) & (gap > 0) & (
            d > self.delta_high
        )

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Masked tokens by direction, [B, T] bool."""
        low, high = self.outside(advantages, tokens)
        return {"clip_low": low, "clip_high": high, "masked": low | high}

    @property
    def top_k(self) -> int:
        """Top tokens per position that the engine must report and the trainer score; 0: none."""
        return self.tokens_of_mu if self.kind.startswith("topk") else 0

    def __repr__(self) -> str:
        return f"divergence_mask({self.kind}, {number(self.delta_low)}, {number(self.delta_high)})"


@dataclass(frozen=True, config=STRICT)
class DivergenceMaskChapter:
    """J = A · π(o) · 1[D ≤ δ], D = |π − π_old| or π log(π/π_old); top-k: only the k tokens of the batch with the
    largest D

    The chapter's DPPO to the letter: the probability itself, not the ratio, so that a token's weight shrinks by π_old;
    moves back towards π_old are masked too; its one-term KL is negative where π < π_old and never masks a crushed
    token; its top-k keeps the *most* off-policy tokens. log π, A [B, T] -> J [B, T]
    """

    kind: Divergence = "binary_tv"
    """D, and whether it masks by δ (binary) or keeps the k largest (topk)"""
    delta: Annotated[float, Field(ge=0.0)] = 0.15
    """δ of the binary kinds; the chapter names no value"""
    keep: Annotated[int, Field(ge=1)] = 20
    """k of the topk kinds: tokens of the whole batch that stay in the loss"""
    level: Literal["token", "sequence"] = "token"
    """π of the token, or of the completion: a product over its tokens, e^−111 for 500 tokens at 0.8"""

    inert = ""

    def __call__(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> Tensor:
        logp, _ = self.logps(tokens)
        share = 1 if self.level == "token" else tokens.mask.sum(dim=1, keepdim=True).clamp(min=1)
        return (advantages * logp.exp() / share).where(self.inside(tokens), 0.0)

    def logps(self, tokens: Tokens) -> tuple[Tensor, Tensor]:
        """log π and log π_old at the level, [B, T] each."""
        pair = (tokens.logp, needed(tokens.logp_old, "logp_old", "surrogate=divergence_mask_chapter"))
        if self.level == "token":
            return pair
        return tuple(sequence_sum(x, tokens.mask).expand_as(x) for x in pair)  # type: ignore[return-value]

    def inside(self, tokens: Tokens) -> Tensor:
        """1[D ≤ δ], or the k largest D of the batch by (sequence, position), [B, T] bool, detached."""
        new, old = (x.detach() for x in self.logps(tokens))
        d = (new.exp() - old.exp()).abs() if self.kind.endswith("tv") else new.exp() * (new - old)
        if self.kind.startswith("binary"):
            return d <= self.delta
        order = d.where(tokens.mask, float("-inf")).flatten().argsort(descending=True, stable=True)[: self.keep]
        kept = tokens.mask.new_zeros(tokens.mask.numel())
        kept[order] = True
        return kept.view(tokens.mask.shape) & tokens.mask

    def diagnostics(self, log_ratio: Tensor, advantages: Tensor, tokens: Tokens) -> dict[str, Tensor]:
        """Masked tokens by the direction in which A pushes them, [B, T] bool."""
        out = ~self.inside(tokens)
        return {"clip_low": out & (advantages < 0), "clip_high": out & (advantages > 0), "masked": out}

    @property
    def needs_whole_update(self) -> bool:
        """True where "of the batch" forbids splitting an update into micro-batches."""
        return self.kind.startswith("topk")

    @property
    def unsafe(self) -> str:
        """Why this runs at one's own risk."""
        what = "π of a whole completion underflows" if self.level == "sequence" else "a token's weight is π, not ρ"
        return f"divergence_mask_chapter: {what}; surrogate=divergence_mask is the published"

    def __repr__(self) -> str:
        bound = f"{self.keep} tokens" if self.kind.startswith("topk") else number(self.delta)
        return f"divergence_mask_chapter({self.kind}, {bound}{', sequence' * (self.level == 'sequence')})"
