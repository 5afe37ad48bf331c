"""Never a tensor of tokens × vocabulary, and a peak that knows only the micro-batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from grpo.data import Prompt, Rollout
from grpo.training import logprobs
from grpo.training.logprobs import completion_logps
from tests.training import worlds
from tests.training.memory import Live

VOCABULARY, CHUNKS = 50_000, 16  # a chunk of 16 tokens: 800,000 numbers, more than the embedding's 50,000 × 8


def large() -> Any:
    """50,000 words over 8 hidden numbers, so that nothing but logits can be large."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
            max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        )
    ).eval()  # fmt: skip


def long_rollouts(count: int, length: int = 24) -> tuple[list[Prompt], list[Rollout]]:
    prompts = [Prompt("p", (1, 5, 6), "") for _ in range(count)]
    ids = [tuple(3 + (7 * i + t) % 1000 for t in range(length)) for i in range(count)]
    return prompts, [
        Rollout("p", 0, i, row, (-1.0,) * length, (True,) * length, "stop", "", 0) for i, row in enumerate(ids)
    ]


@pytest.mark.parametrize("exact_kl", [False, True], ids=["logp", "kl"])
def test_no_tensor_of_tokens_times_vocabulary_is_ever_made(exact_kl: bool) -> None:
    """8 completions of 24 tokens: 192 · 50,000 = 9.6 M numbers whole; the largest tensor is one chunk, 0.8 M."""
    model, reference = large(), large() if exact_kl else None
    prompts, answers = long_rollouts(8)
    live = Live()
    for which in (model, reference):
        for parameter in [] if which is None else which.parameters():
            live.add(parameter)
    before = live.now
    with live:
        made = completion_logps(
            model, prompts, answers, temperature=0.9, pad_id=0, entropy_gradient=True, tokens_per_chunk=CHUNKS,
            reference=reference,
        )  # fmt: skip
        kept = live.now - before
        (made.logp.sum() + made.entropy.sum() + (made.kl.sum() if made.kl is not None else 0)).backward()
    assert live.largest == CHUNKS * VOCABULARY
    chunk = 4 * CHUNKS * VOCABULARY
    assert kept < chunk / 10  # the backward pass finds hidden states and results, no logits
    # Counted: 5.6 chunks with a gradient for the entropy, 7.6 with the KL; the head's gradient is half a chunk, twice.
    assert live.peak - before < (8 if exact_kl else 6) * chunk


def test_the_peak_of_an_update_does_not_grow_with_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 prompts × 2, × 8 and × 32 at 96 tokens a micro-batch: only numbers [B, T] grow, 64 · 24 float64 of each."""
    monkeypatch.setattr(logprobs, "CHUNK", CHUNKS * VOCABULARY)

    def peak(group: int) -> int:
        policy = large()
        made = worlds.module(policy, worlds.config(tokens_per_microbatch=96), prompts=2, group_size=group)
        experience = worlds.sampled(made)
        prompts, answers = long_rollouts(2 * group)
        experience.prompts = prompts
        experience.rollouts = [replace(r, group=i // group) for i, r in enumerate(answers)]
        batch = made.prepare(experience)
        batch = replace(batch, advantages=torch.linspace(-1, 1, len(batch)).double(), active=batch.mask.any(dim=1))
        with Live() as live:
            results = made.update(made.score(batch), 0)
        assert [r.outcome for r in results] == ["updated"]
        return live.peak

    two, eight, many = peak(2), peak(8), peak(32)
    numbers = 64 * 24 * 8  # bytes of one float64 [B, T]
    assert abs(eight - two) < 8 * numbers
    assert abs(many - two) < 8 * numbers < 0.006 * two
