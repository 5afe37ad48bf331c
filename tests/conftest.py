"""Fixtures shared by all tests. A small random Llama stands in wherever the shipped policy's skill does not matter."""

from __future__ import annotations

import os

os.environ.setdefault("WANDB_MODE", "offline")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import pytest


def make_llama(vocabulary: int = 24, seed: int = 0):
    """A random float64 Llama with grouped-query attention; large weights, so that its distributions are uneven."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        initializer_range=0.4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config).double().eval()
    torch.set_rng_state(state)
    return model


@pytest.fixture
def llama():
    """A fresh random Llama."""
    return make_llama()
