"""log π and the exact entropy of the policy at the tokens of recorded completions.

[tokens × vocabulary] is the largest tensor of a training step: 16,384 tokens of 150,000 are 10 GB in float32, and
log-softmax, entropy and their gradients are as large each. So it is never whole: the model gives hidden states
[N, H], and the output layer, the temperature and the log-softmax see some tokens at a time, once in the forward pass
and once more, recomputed, in the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from grpo.data import Prompt, Rollout
from grpo.models.tail import hidden_states, output_layer, vocabulary, whole_logits
from grpo.rollout.sampling import tempered

CHUNK = 2**26
"""Logits of one chunk: 256 MiB in float32, of which a handful are alive at once. 440 tokens of a vocabulary of
150,000, so that the product with the output layer still keeps a GPU busy; all tokens of a small vocabulary."""

Context = Callable[[], AbstractContextManager[Any]]


def chunk_size(words: int) -> int:
    """Tokens whose log-probs over `words` vocabulary entries are taken together."""
    return max(1, CHUNK // words)


class Scored(NamedTuple):
    """What one forward pass says about recorded completions; exactly 0 after a completion's end."""

    logp: Tensor  # [B, T] log π(o_t | q, o_<t)
    entropy: Tensor  # [B, T] H of softmax(logits / T)
    topk: Tensor | None = None  # [B, T, K] log π of other tokens, without gradient
    kl: Tensor | None = None  # [B, T] KL(π‖π_ref) over the vocabulary


class States(NamedTuple):
    """A model's last word on N tokens: values [N, H] and what makes logits [n, V] of some of them.

    Values are hidden states, or logits already where the model does more after its output layer.
    """

    values: Tensor
    to_logits: Callable[[Tensor], Tensor]


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


def states(model: Any, ids: Tensor, attention: Tensor, valid: Tensor, autocast: Context) -> States:
    """A forward pass [B, P+T] -> the states that predict the completion tokens, those of `valid` [B, T]."""
    inputs = {
        "input_ids": ids,
        "attention_mask": attention,
        "position_ids": (attention.cumsum(dim=1) - 1).clamp(min=0),
        "use_cache": False,
        "logits_to_keep": valid.shape[1] + 1,
    }
    with autocast():
        if whole_logits(model):
            return States(model(**inputs).logits[:, :-1][valid], lambda logits: logits)
        values = hidden_states(model, **inputs)[:, :-1][valid]
    layer = output_layer(model)

    def to_logits(hidden: Tensor) -> Tensor:
        # One context for each chunk: its cast of the weights would otherwise collect their gradient in bfloat16.
        with autocast():
            return layer(hidden)

    return States(values, to_logits)


def score_chunk(
    logp: Tensor, target: Tensor, asked: Tensor | None, ref: Tensor | None, entropy_gradient: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Whole distributions [n, V] -> log π of the targets [n], entropy [n], log π of the ids asked for [n, K], KL [n].

    What needs no gradient comes last: the backward pass recomputes only as far as it needs.
    """
    chosen = logp.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    kl = None
    if ref is not None:
        kl = (logp.exp() * (logp.clamp(min=-1e4) - ref.clamp(min=-1e4))).sum(dim=-1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        bounded = logp.clamp(min=-1e4)  # a masked vocabulary entry is -inf, and 0 * -inf is nan
        entropy = -(bounded.exp() * bounded).sum(dim=-1)
    return chosen, entropy, None if asked is None else logp.detach().gather(-1, asked), kl


def completion_logps(
    model: Any,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    *,
    temperature: float,
    pad_id: int,
    entropy_gradient: bool = False,
    autocast: Context = nullcontext,
    tokens_per_chunk: int | None = None,
    topk_ids: Tensor | None = None,
    reference: Any | None = None,
) -> Scored:
    """log π(o_t | q, o_<t) and entropy H_t of softmax(logits / T) at the tokens of recorded completions.

    With topk_ids [B, T, K] also log π of those tokens; with a reference model also the exact KL(π‖π_ref).

    tokens_per_chunk: tokens whose logits exist at once, by default as many as `CHUNK` allows; it changes no value.
    The entropy carries a gradient only where an entropy bonus trains it.
    """
    ids, attention, right = padded_inputs(prompts, rollouts, pad_id)
    ids, attention = ids.to(model.device), attention.to(model.device)
    valid = attention[:, -right:].bool()
    own = states(model, ids, attention, valid, autocast)
    with torch.no_grad():
        other = None if reference is None else states(reference, ids, attention, valid, autocast)
    targets = ids[:, -right:][valid]
    asked = None if topk_ids is None else topk_ids.to(model.device)[valid]
    size = tokens_per_chunk or chunk_size(vocabulary(model))

    def piece(values: Tensor, start: int) -> tuple[Any, ...]:
        at = slice(start, start + size)
        with torch.no_grad():
            ref = None if other is None else tempered(other.to_logits(other.values[at]), temperature)
        logp = tempered(own.to_logits(values), temperature)
        return score_chunk(logp, targets[at], None if asked is None else asked[at], ref, entropy_gradient)

    pieces = own.values.split(size)
    if len(pieces) > 1 and torch.is_grad_enabled():
        # There is no dropout whose random numbers a second pass would have to repeat.
        found = [
            checkpoint(piece, part, i * size, use_reentrant=False, preserve_rng_state=False)
            for i, part in enumerate(pieces)
        ]
    else:  # one chunk is all there is: nothing to save by a second pass
        found = [piece(part, i * size) for i, part in enumerate(pieces)]
    columns: list[Any] = [
        None if part[0] is None else spread(torch.cat(part), valid) for part in zip(*found, strict=True)
    ]
    return Scored(*columns)


def spread(values: Tensor, valid: Tensor) -> Tensor:
    """[N, ...] at the places of `valid` [B, T] -> [B, T, ...], 0 elsewhere."""
    blank = values.new_zeros((*valid.shape, *values.shape[1:]))
    return blank.masked_scatter(valid.reshape(*valid.shape, *[1] * (values.dim() - 1)).expand_as(blank), values)
