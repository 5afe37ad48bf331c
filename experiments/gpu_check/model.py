"""A Llama with random weights and the embedded tokenizer: the size of a real small model, and no download."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

from grpo.models.folders import TINY

SPREAD = 4.0  # factor on the logits: with it their spread is about 2.5, as a trained model's, instead of 0.6


def settings(*, small: bool) -> LlamaConfig:
    """151,936 · 1024 + 24 · (2 · 1024² + 2 · 1024 · 256 + 3 · 1024 · 4096 + 2 · 1024) + 1024 = 520,537,088 parameters.

    The vocabulary is that of Qwen2.5, since logits are most of the memory; the tokenizer's ids are the first hundred.
    """
    hidden, layers, heads, vocab = (64, 2, 2, 512) if small else (1024, 24, 16, 151_936)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    return LlamaConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=2 if small else 4,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def write(folder: Path, *, small: bool, device: str = "cpu") -> Path:
    """A folder that transformers and vLLM load, in float32; written once."""
    if (folder / "config.json").is_file():
        return folder
    config = settings(small=small)
    torch.manual_seed(0)
    with torch.device(device):  # two gigabytes of random numbers are slow on one core
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.norm.weight.fill_(SPREAD)
    model.generation_config = GenerationConfig(eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id)
    part = folder.with_name(f"{folder.name}.part")  # a phase that is ended while it writes leaves no half of a model
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(TINY).save_pretrained(part)
    return part.rename(folder)
