"""Other causal language models of transformers: the cached decode and the trainer's padded forward pass agree."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from grpo.data import Prompt, Sampling
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.training.logprobs import completion_logps

PROMPTS = [Prompt("a", (1, 5, 6, 7), "a"), Prompt("b", (1, 9), "b"), Prompt("c", (1, 11, 12, 13, 14, 15), "c")]
SMALL: dict[str, Any] = {
    "vocab_size": 24,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Qwen2": {},
    "Qwen3": {},
    "Gemma2": {"sliding_window": 4, "query_pre_attn_scalar": 8},  # soft-capped logits, alternating windows
    "Mistral": {"sliding_window": 4},
    "Phi3": {},
    "GPTNeoX": {},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},  # learned positions
    "OPT": {"ffn_dim": 48, "word_embed_proj_dim": 32},  # positions from the attention mask
}


def build(name: str) -> Any:
    """A random float64 model of the architecture."""
    import transformers

    config = getattr(transformers, f"{name}Config")(**{**SMALL, **ARCHITECTURES[name]})
    torch.manual_seed(0)
    kind = f"{name}LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    model = getattr(transformers, kind)(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # uneven distributions, so that a wrong position shows
            parameter.mul_(4.0) if parameter.dim() > 1 else None
    return model


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_log_mu_equals_log_pi(name: str) -> None:
    model = build(name)
    engine = TransformersEngine(model, eos_ids=(2,), pad_id=0, decode=str)
    rollouts = engine.generate(PROMPTS, 3, Sampling(temperature=0.9, max_tokens=10), seed=0, stream="x", step=0)
    prompts = [PROMPTS[r.group] for r in rollouts]
    logp, *_ = completion_logps(model, prompts, rollouts, temperature=0.9, pad_id=0)
    for row, rollout in enumerate(rollouts):
        expected = torch.tensor(rollout.logp_rollout, dtype=torch.float64)
        # Norms of some architectures compute in float32 whatever the weights are.
        torch.testing.assert_close(logp[row, : rollout.length].double(), expected, rtol=0, atol=2e-5)
    alone = [
        engine.generate([p], 3, Sampling(temperature=0.9, max_tokens=10), seed=0, stream="x", step=0) for p in PROMPTS
    ]
    assert [r.token_ids for group in alone for r in group] == [r.token_ids for r in rollouts]
