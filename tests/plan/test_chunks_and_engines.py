"""The plan's chunk of log-probs against what is allocated, models that need whole logits, and vLLM's share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from grpo.config.check import load
from grpo.plan import architecture, engines
from grpo.plan.engines import Setting
from grpo.plan.memory import plan
from grpo.rollout import vllm_version
from grpo.training import logprobs
from tests.plan.measured import measured_peak
from tests.plan.test_plan import COMPOSER, size


def folder_of(kind: str, tmp_path: Path, **changes: object) -> str:
    """A small random model of the given architecture with 20,000 words, as a folder."""
    import transformers

    from grpo.models.architecture import make_tokenizer
    from grpo.models.load import export

    shape = {
        "vocab_size": 20_000, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 256,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **changes,
    }  # fmt: skip
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**shape))
    return str(export(model, make_tokenizer(), tmp_path / kind))


@pytest.mark.parametrize(
    ("kind", "extra"),
    [
        ("Llama", ()),
        ("Llama", ("model.lora.r=4",)),
        ("Llama", ("model.dtype=bfloat16",)),
        ("Llama", ("model.gradient_checkpointing=true",)),
        ("Gemma2", ()),
    ],
)
def test_planned_against_measured_where_the_vocabulary_is_large(
    kind: str, extra: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 × 32 tokens in chunks of 100; Gemma caps its logits, so that they are there whole."""
    monkeypatch.setattr(logprobs, "CHUNK", 100 * 20_000)
    words = ("model=hf", f"model.path={folder_of(kind, tmp_path)}", "max_prompt_tokens=32", "max_completion_tokens=32",
             "prompts_per_step=2", "group_size=8", "tokens_per_microbatch=1024", "kl.coef=0.04")  # fmt: skip
    config, _ = load([*words, *extra], COMPOSER)
    made = plan(config)
    assert ("whole logits" in made.update) == (kind == "Gemma2")
    assert made.peak == pytest.approx(measured_peak(config), rel=0.2)


def test_log_probs_count_a_chunk_and_not_the_tokens() -> None:
    """SmolLM2's 49,152 words: 1,365 tokens a chunk, 4 float32 numbers each, whatever tokens_per_microbatch says."""
    words = ("model=hf", "max_prompt_tokens=40", "max_completion_tokens=24", "group_size=512")

    def bytes_of(*arguments: str) -> int:
        config, _ = load([*words, "model.path=unread", *arguments], COMPOSER)
        made = plan(config, LlamaConfig(vocab_size=49_152, hidden_size=64, num_hidden_layers=1, num_attention_heads=2))
        return size(made, "log-probs, entropy")

    chunk = 2**26 // 49_152 * 49_152 * 4
    assert bytes_of("tokens_per_microbatch=8192") == bytes_of("tokens_per_microbatch=16384") == 4 * chunk
    assert bytes_of("tokens_per_microbatch=8192", "entropy=loss_bonus") == 5 * chunk
    assert bytes_of("tokens_per_microbatch=8192", "kl=exact") == 6 * chunk
    assert bytes_of("tokens_per_microbatch=640") == 4 * 10 * 24 * 49_152 * 4  # ten completions are less than a chunk


def test_vllm_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """7B shapes: a token of KV is 2 · 28 layers · 4 heads · 128 · 2 bytes = 57,344; rows 16 × 8, prompts 16."""
    settings = LlamaConfig(
        vocab_size=1000, hidden_size=512, intermediate_size=512, num_hidden_layers=28, num_attention_heads=4,
        num_key_value_heads=4, head_dim=128, max_position_embeddings=4096,
    )  # fmt: skip
    words = ("model=hf", "model.path=unread", "rollout=vllm", "prompts_per_step=16", "group_size=8", "kl=none",
             "max_prompt_tokens=100", "max_completion_tokens=200", "trainer.accelerator=gpu")  # fmt: skip
    monkeypatch.setattr(vllm_version, "installed", lambda: "0.32.0")
    config, _ = load(words, COMPOSER)
    made = plan(config, settings)
    weights = sum(p.numel() for p in LlamaForCausalLM(settings).parameters()) * 2
    assert made.rollout["vLLM"][0] == weights + (128 * 200 + 16 * 100) * 57_344
    assert "it will take 0.4 of the card; asleep during the update" in made.rollout["vLLM"][1]
    assert "vLLM" not in made.kept
    where = Setting(limit=100, compute=torch.bfloat16, mixed=True, gpu=True)
    model = architecture.build(settings, config.model, torch.float32)
    _, rollout = engines.with_vllm(config, settings, where, model, {}, card=10**10)
    room = (4 * 10**9 - weights) // 57_344
    assert rollout["vLLM"][0] == 4 * 10**9
    words_of_it = (
        f"0.4 of a card of 10 GB, its weights {weights / 1e9:.1f} GB of it: room for {room:,} of 27,200 tokens"
    )
    assert words_of_it in rollout["vLLM"][1]
    _, none = engines.with_vllm(config, settings, where, model, {}, card=10**8)
    assert "no room for a KV cache" in none["vLLM"][1]
    config, _ = load([*words[:-1], "trainer.accelerator=cpu", "model.lora.r=2"], COMPOSER)
    cpu = plan(config, settings)
    assert cpu.kept["vLLM"][0] == 2 * weights + 2**30  # float32 there, and awake during the update
    assert cpu.rollout["merged weights"][0] == 2 * 4 * 512 * 512  # of one layer, twice, in float32
