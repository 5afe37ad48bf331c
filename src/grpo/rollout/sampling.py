"""From logits to a token and its log μ."""

from __future__ import annotations

import torch
from torch import Tensor

from grpo.data import Sampling

_ROUNDING = 1e-6  # 0.6 + 0.3 is below 0.9 in binary: a nucleus of 0.9 must not need a third token for that


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """log softmax(logits / T) over the last axis, in float32 or better; T = 0 means the unscaled distribution.

    Trainer, reference and engine all use this definition: log-probs divided by T would be another distribution.
    """
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(wide / temperature if temperature > 0 else wide, dim=-1)


def processed(logits: Tensor, sampling: Sampling) -> Tensor:
    """[N, V] log-probs of the distribution really sampled from: temperature, then min_p, top_k, top_p, renormalised."""
    logp = tempered(logits, sampling.temperature)
    if not sampling.truncates:
        return logp
    if sampling.min_p > 0:
        floor = logp.amax(dim=-1, keepdim=True) + torch.log(torch.tensor(sampling.min_p, dtype=logp.dtype))
        logp = logp.masked_fill(logp < floor, float("-inf"))
    if 0 < sampling.top_k < logp.shape[-1]:
        kth = logp.topk(sampling.top_k, dim=-1).values[:, -1:]
        logp = logp.masked_fill(logp < kth, float("-inf"))
    if sampling.top_p < 1:
        ordered, index = logp.log_softmax(dim=-1).sort(dim=-1, descending=True)
        mass_before = ordered.exp().cumsum(dim=-1) - ordered.exp()
        outside = mass_before > max(sampling.top_p - _ROUNDING, 0.0)  # the likeliest has 0 before it and always stays
        drop = torch.zeros_like(logp, dtype=torch.bool).scatter(-1, index, outside)
        logp = logp.masked_fill(drop, float("-inf"))
    return logp.log_softmax(dim=-1)


def draw(logp: Tensor, u: Tensor, greedy: bool) -> Tensor:
    """[N] token ids: inverse CDF in float64, the first index whose cumulative probability exceeds u; or the mode."""
    if greedy:
        return logp.argmax(dim=-1)
    cdf = logp.double().exp().cumsum(dim=-1)
    target = u.to(cdf.device).unsqueeze(-1) * cdf[:, -1:]
    return torch.searchsorted(cdf, target, right=True).squeeze(-1).clamp(max=logp.shape[-1] - 1)
