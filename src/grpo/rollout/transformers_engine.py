"""The default engine: any causal language model of transformers, sampled in the trainer's process.

Each prompt is prefilled once and its key-value cache repeated for the group; finished rows leave the batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from grpo.data import Prompt, Rollout, Sampling
from grpo.rollout.base import Faithful, earlier
from grpo.rollout.randomness import stable_hash, uniform
from grpo.rollout.sampling import draw, processed


def cache_argument(model: Any) -> str:
    """Name of the cache argument of `model.forward`: transformers 5.24 renames past_key_values to cache."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def nested(rows: Tensor) -> tuple[tuple[Any, ...], ...]:
    """[T, K] as tuples; none for K = 0."""
    return tuple(map(tuple, rows.tolist())) if rows.shape[-1] else ()


@dataclass
class _Rows:
    """Completions that are being decoded; row r of every tensor is completion `index[r]` of the chunk."""

    index: Tensor  # [N] position in the chunk's output
    keys: Tensor  # [N] int64
    logits: Tensor  # [N, V] of the next token
    attention: Tensor  # [N, seen tokens]
    done: Tensor  # [N] bool

    def select(self, keep: Tensor) -> _Rows:
        return _Rows(self.index[keep], self.keys[keep], self.logits[keep], self.attention[keep], self.done[keep])


@dataclass
class _Drawn:
    """What a chunk of N completions came to: token ids and log μ [N, T], lengths and stopped [N] (True: an
    end-of-sequence id ended it), the likeliest tokens of μ [N, T, K]."""

    tokens: Tensor
    logps: Tensor
    lengths: Tensor
    stopped: Tensor
    topk_ids: Tensor
    topk_logps: Tensor

    @classmethod
    def blank(cls, count: int, length: int, top: int, pad_id: int, device: torch.device) -> _Drawn:
        return cls(
            tokens=torch.full((count, length), pad_id, device=device),
            logps=torch.zeros((count, length), dtype=torch.float64, device=device),
            lengths=torch.zeros(count, dtype=torch.long, device=device),
            stopped=torch.zeros(count, dtype=torch.bool, device=device),
            topk_ids=torch.zeros((count, length, top), dtype=torch.long, device=device),
            topk_logps=torch.zeros((count, length, top), dtype=torch.float64, device=device),
        )

    def write(self, target: Tensor, position: int, token: Tensor, logp: Tensor) -> None:
        """One more token for the completions `target`: token [n], log μ over the vocabulary [n, V]."""
        self.tokens[target, position] = token
        self.logps[target, position] = logp.gather(-1, token.unsqueeze(-1)).squeeze(-1).double()
        self.lengths[target] += 1
        if self.topk_ids.shape[-1]:
            values, ids = logp.topk(self.topk_ids.shape[-1], dim=-1)
            self.topk_ids[target, position], self.topk_logps[target, position] = ids, values.double()

    def cpu(self) -> _Drawn:
        return _Drawn(*(value.cpu() for value in vars(self).values()))


class TransformersEngine(Faithful):
    """Samples from `model` itself (no copy): it is always at the trainer's weights."""

    def __init__(
        self,
        model: Any,
        *,
        eos_ids: Sequence[int],
        pad_id: int,
        decode: Callable[[Sequence[int]], str],
        max_rows: int = 256,
        autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.model = model
        self.eos_ids = torch.tensor(sorted(eos_ids))
        self.pad_id = pad_id
        self.decode = decode
        self.max_rows = max_rows
        self.autocast = autocast
        self.version = 0
        self._cache_name = cache_argument(model)

    def sync(self, weights: Mapping[str, Tensor], version: int) -> None:
        """The weights are shared with the trainer; only the version moves."""
        self.version = version

    def state(self) -> dict[str, Tensor]:
        """Nothing beside the policy."""
        return {}

    def load_state(self, tensors: Mapping[str, Tensor], version: int) -> None:
        """The weights are the policy's; only the version is restored."""
        self.version = version

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """See `Engine.generate`."""
        rollouts: dict[tuple[int, int], Rollout] = {}
        before = earlier(prompts)
        for chunk, samples in self._chunks(prompts, n):
            keys = torch.tensor(
                [stable_hash(seed, stream, step, prompts[p].id, before[p] * n + i) for p in chunk for i in samples],
                dtype=torch.int64,
            )
            drawn = self._decode_chunk([prompts[p] for p in chunk], keys, sampling)
            for row, (p, i) in enumerate((p, i) for p in chunk for i in samples):
                length = int(drawn.lengths[row])
                ids = tuple(drawn.tokens[row, :length].tolist())
                rollouts[p, i] = Rollout(
                    prompt_id=prompts[p].id,
                    group=p,
                    sample=i,
                    token_ids=ids,
                    logp_rollout=tuple(drawn.logps[row, :length].tolist()),
                    sampled=(True,) * length,
                    finish_reason="stop" if drawn.stopped[row] else "length",
                    text=self.decode(ids),
                    weight_version=self.version,
                    topk_ids=nested(drawn.topk_ids[row, :length]),
                    topk_logp=tuple(map(tuple, drawn.topk_logps[row, :length].tolist()))
                    if sampling.top_logprobs
                    else (),
                )
        return [rollouts[p, i] for p in range(len(prompts)) for i in range(n)]

    def _chunks(self, prompts: Sequence[Prompt], n: int) -> Iterator[tuple[list[int], range]]:
        """Prompts of similar length together, at most `max_rows` completions at a time."""
        order = sorted(range(len(prompts)), key=lambda p: len(prompts[p].token_ids))
        if n >= self.max_rows:
            for p in order:
                for start in range(0, n, self.max_rows):
                    yield [p], range(start, min(n, start + self.max_rows))
            return
        per_chunk = self.max_rows // n
        for start in range(0, len(order), per_chunk):
            yield order[start : start + per_chunk], range(n)

    def _prefill(self, prompts: Sequence[Prompt], n: int) -> tuple[Tensor, Tensor, Any]:
        """Left-padded prompts, each once -> next-token logits [P·n, V], attention mask [P·n, L], cache of P·n rows."""
        device = self.model.device
        width = max(len(p.token_ids) for p in prompts)
        ids = torch.full((len(prompts), width), self.pad_id)
        attention = torch.zeros((len(prompts), width), dtype=torch.long)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt.token_ids) :] = torch.tensor(prompt.token_ids)
            attention[row, width - len(prompt.token_ids) :] = 1
        ids, attention = ids.to(device), attention.to(device)
        with self.autocast():
            out = self.model(
                input_ids=ids,
                attention_mask=attention,
                position_ids=(attention.cumsum(dim=1) - 1).clamp(min=0),
                use_cache=True,
                logits_to_keep=1,
            )
        cache = out.past_key_values if hasattr(out, "past_key_values") else out.cache
        if n > 1:
            cache.batch_repeat_interleave(n)
        return out.logits[:, -1].repeat_interleave(n, dim=0), attention.repeat_interleave(n, dim=0), cache

    def _decode_chunk(self, prompts: Sequence[Prompt], keys: Tensor, sampling: Sampling) -> _Drawn:
        """One completion for each key, `len(keys) // len(prompts)` in a row for each prompt."""
        device, count = self.model.device, len(keys)
        logits, attention, cache = self._prefill(prompts, count // len(prompts))
        top = min(sampling.top_logprobs, logits.shape[-1])
        drawn = _Drawn.blank(count, sampling.max_tokens, top, self.pad_id, device)
        eos = self.eos_ids.to(device)
        index = torch.arange(count, device=device)
        rows = _Rows(index, keys.to(device), logits, attention, torch.zeros_like(drawn.stopped))
        for position in range(sampling.max_tokens):
            logp = processed(rows.logits, sampling)
            token = draw(logp, uniform(rows.keys, position), greedy=sampling.temperature == 0)
            live = ~rows.done
            drawn.write(rows.index[live], position, token[live], logp[live])
            ended = torch.isin(token, eos) & live
            drawn.stopped[rows.index[ended]] = True
            rows.done = rows.done | ended
            if position + 1 == sampling.max_tokens or bool(rows.done.all()):
                break
            # Leaving costs a copy of the cache, so rows leave together, when an eighth of the batch is done.
            if int(rows.done.sum()) * 8 >= len(rows.done):
                keep = (~rows.done).nonzero().squeeze(-1)
                cache.batch_select_indices(keep)
                rows, token = rows.select(keep), token[keep]
            rows.attention = torch.cat([rows.attention, rows.attention.new_ones(len(token), 1)], dim=1)
            rows.logits = self._next_logits(token, rows.attention, cache)
        return drawn.cpu()

    def _next_logits(self, token: Tensor, attention: Tensor, cache: Any) -> Tensor:
        """[N, V] after one more token per row; the cache grows in place."""
        with self.autocast():
            out = self.model(
                input_ids=token.unsqueeze(-1),
                attention_mask=attention,
                position_ids=attention.sum(dim=1, keepdim=True) - 1,
                use_cache=True,
                **{self._cache_name: cache},
            )
        return out.logits[:, -1]
