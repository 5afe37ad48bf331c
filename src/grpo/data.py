"""The nouns of the data flow: prompts → rollout → rewards → advantages → objective → update.

Nothing infers identity from position: group ids, lengths and finish reasons are data.
Masks are named by what True means: `mask`, True = counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # the types are read before torch is worth its import time
    from torch import Tensor

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True)
class Prompt:
    """One question as the policy sees it.

    `columns` holds everything else of the data set row; rewards receive it by name.
    """

    id: str
    token_ids: tuple[int, ...]
    text: str
    columns: dict[str, Any] = field(default_factory=dict)
    messages: tuple[dict[str, str], ...] | None = None


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn. Temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 64  # tokens per completion, end-of-sequence included
    top_logprobs: int = 0  # also report the likeliest K tokens of μ at each position (DPPO)

    @property
    def truncates(self) -> bool:
        """True where log μ belongs to another distribution than the trainer's softmax(logits / T)."""
        return self.top_p < 1.0 or self.top_k > 0 or self.min_p > 0.0


@dataclass(frozen=True)
class Rollout:
    """One sampled completion.

    `logp_rollout[t]` is log μ of the sampled token under the distribution really sampled from (temperature and
    truncation included). `sampled[t]` is True where the policy sampled the token, False where a template or an
    environment wrote it; it, not position, decides the mask. `topk_ids[t]` and `topk_logp[t]` are the likeliest K
    tokens of μ where they were asked for.
    """

    prompt_id: str
    group: int  # index of the prompt within the step
    sample: int  # index within the group
    token_ids: tuple[int, ...]
    logp_rollout: tuple[float, ...]
    sampled: tuple[bool, ...]
    finish_reason: FinishReason
    text: str
    weight_version: int
    topk_ids: tuple[tuple[int, ...], ...] = ()
    topk_logp: tuple[tuple[float, ...], ...] = ()

    @property
    def truncated(self) -> bool:
        """True if the length limit ended the completion."""
        return self.finish_reason == "length"

    @property
    def length(self) -> int:
        """Number of sampled tokens, |o|."""
        return sum(self.sampled)


@dataclass(frozen=True)
class Scores:
    """What the rewards said about B completions.

    rewards: [B, R] float64, NaN = this function does not apply to this sample
    weights: [R] float64
    groups:  [B] int64, equal for completions of one prompt (any integers)
    accuracy: [B] float64, 1 = right, 0 = wrong (the accuracy function is below reward.right_at), NaN = unknown
    """

    rewards: Tensor
    weights: Tensor
    groups: Tensor
    accuracy: Tensor

    @property
    def scored(self) -> Tensor:
        """[B] bool, True where at least one reward function applied."""
        return ~self.rewards.isnan().all(dim=1)

    @property
    def total(self) -> Tensor:
        """[B] Σ_n w_n r_n over the functions that applied; NaN where none did."""
        summed = (self.rewards.nan_to_num(nan=0.0) * self.weights).sum(dim=1)
        return summed.where(self.scored, summed.new_full((), float("nan")))


@dataclass(frozen=True)
class Totals:
    """Counts of the WHOLE optimizer step, over micro-batches and ranks, after every mask.

    A loss divides by these and never by what happens to be in its micro-batch.
    """

    tokens: int  # tokens that count
    sequences: int  # completions that are in the loss, empty ones included
    nonempty: int  # of these, with at least one token that counts
    groups: int  # groups with at least one token that counts
    group_tokens: dict[int, int]  # group id -> tokens that count
    max_completion_tokens: int  # generation budget per completion


@dataclass(frozen=True)
class Tokens:
    """What an objective sees of B completions, padded to T tokens.

    logp          [B, T] log π; only it, `entropy` and `kl_exact` carry a gradient
    logp_old      [B, T] log π_old;  logp_ref log π_ref;  logp_rollout log μ  (None = no part reads it)
    mask          [B, T] bool, True = counts (sampled, scored, not filtered). Padding may hold nan or ±1e30.
    advantages    [B] float
    groups        [B] int64
    rewards       [B] float64 total reward, for forms that pair or select
    entropy       [B, T] exact entropy of the policy's tempered next-token distribution
    kl_exact      [B, T] KL(π‖π_ref) of the tempered next-token distributions, over the whole vocabulary (kl=exact)
    topk_*        [B, T, K] log-probs of the engine's top-K tokens under μ and π (DPPO)
    """

    logp: Tensor
    mask: Tensor
    advantages: Tensor
    groups: Tensor
    logp_old: Tensor | None = None
    logp_ref: Tensor | None = None
    logp_rollout: Tensor | None = None
    rewards: Tensor | None = None
    entropy: Tensor | None = None
    kl_exact: Tensor | None = None
    topk_rollout: Tensor | None = None
    topk_logp: Tensor | None = None

    def replace(self, **changes: Any) -> Tokens:
        """A copy with some tensors exchanged."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Loss:
    """What an objective says about a micro-batch.

    loss         scalar, already divided by the step's totals: micro-batch losses add up
    objective    [B, T] J per token before aggregation (0 where the mask is False)
    terms        scalars that add up to `loss`: policy, kl, entropy
    diagnostics  [B, T] tensors by metric name, detached: ratio, clip_low, clip_high, kl, correction, ...
                 the recorder takes token-weighted means over the whole step
    """

    loss: Tensor
    objective: Tensor
    terms: dict[str, Tensor]
    diagnostics: dict[str, Tensor]
