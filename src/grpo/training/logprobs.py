"""log π and the exact entropy of the policy at the tokens of recorded completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor

from grpo.data import Prompt, Rollout
from grpo.rollout.sampling import tempered


class Scored(NamedTuple):
    """What one forward pass says about recorded completions; exactly 0 after a completion's end."""

    logp: Tensor  # [B, T] log π(o_t | q, o_<t)
    entropy: Tensor  # [B, T] H of softmax(logits / T)
    topk: Tensor | None = None  # [B, T, K] log π of other tokens, without gradient
    kl: Tensor | None = None  # [B, T] KL(π‖π_ref) over the vocabulary


def padded_inputs(prompts: Sequence[Prompt], rollouts: Sequence[Rollout], pad_id: int) -> tuple[Tensor, Tensor, int]:
    """Token ids [B, P+T], attention mask [B, P+T] and T: prompts padded on the left, completions on the right.

    Completions of all rows start at column P, so that one slice of the logits serves them all.
    """
    left = max(len(p.token_ids) for p in prompts)
    right = max(1, max(len(r.token_ids) for r in rollouts))
    ids = torch.full((len(prompts), left + right), pad_id)
    attention = torch.zeros((len(prompts), left + right), dtype=torch.long)
    for row, (prompt, rollout) in enumerate(zip(prompts, rollouts, strict=True)):
        start, end = left - len(prompt.token_ids), left + len(rollout.token_ids)
        ids[row, start:end] = torch.tensor([*prompt.token_ids, *rollout.token_ids])
        attention[row, start:end] = 1
    return ids, attention, right


def completion_logps(
    model: Any,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    *,
    temperature: float,
    pad_id: int,
    entropy_gradient: bool = False,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    tokens_per_chunk: int = 4096,
    topk_ids: Tensor | None = None,
    reference: Any | None = None,
) -> Scored:
    """log π(o_t | q, o_<t) and entropy H_t of softmax(logits / T) at the tokens of recorded completions.

    With topk_ids [B, T, K] also log π of those tokens; with a reference model also the exact KL(π‖π_ref).

    Logits are asked for at completion positions only, and log-probs are taken `tokens_per_chunk` tokens at a time.
    The entropy carries a gradient only where an entropy bonus trains it.
    """
    ids, attention, right = padded_inputs(prompts, rollouts, pad_id)
    device = model.device
    ids, attention = ids.to(device), attention.to(device)
    valid = attention[:, -right:].bool()

    def logits_of(which: Any) -> Tensor:
        with autocast():
            return which(
                input_ids=ids,
                attention_mask=attention,
                position_ids=(attention.cumsum(dim=1) - 1).clamp(min=0),
                use_cache=False,
                logits_to_keep=right + 1,
            ).logits[:, :-1][valid]

    targets, flat = ids[:, -right:][valid], logits_of(model)
    with torch.no_grad():
        other = None if reference is None else logits_of(reference).split(tokens_per_chunk)
    asked = None if topk_ids is None else topk_ids.to(device)[valid].split(tokens_per_chunk)
    logps, entropies, tops, kls = [], [], [], []
    for i, (piece, target) in enumerate(
        zip(flat.split(tokens_per_chunk), targets.split(tokens_per_chunk), strict=True)
    ):
        logp = tempered(piece, temperature)
        if asked is not None:
            tops.append(logp.detach().gather(-1, asked[i]))
        logps.append(logp.gather(-1, target.unsqueeze(-1)).squeeze(-1))
        with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
            bounded = logp.clamp(min=-1e4)  # a masked vocabulary entry is -inf, and 0 * -inf is nan
            entropies.append(-(bounded.exp() * bounded).sum(dim=-1))
        if other is not None:
            gap = logp.clamp(min=-1e4) - tempered(other[i], temperature).clamp(min=-1e4)
            kls.append((logp.exp() * gap).sum(dim=-1))
    blank = logps[0].new_zeros(valid.shape)
    top = None
    if topk_ids is not None:
        top = blank.detach().unsqueeze(-1).expand(*blank.shape, topk_ids.shape[-1]).clone()
        top[valid] = torch.cat(tops)
    return Scored(
        blank.masked_scatter(valid, torch.cat(logps)),
        blank.masked_scatter(valid, torch.cat(entropies)),
        top,
        blank.masked_scatter(valid, torch.cat(kls)) if kls else None,
    )
