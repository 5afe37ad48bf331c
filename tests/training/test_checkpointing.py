"""model.gradient_checkpointing: the same gradients, less kept, layers computed twice, and a cache while sampling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from grpo.config.nodes import LoraConfig, ModelConfig
from grpo.data import Sampling
from grpo.models import load as models
from grpo.models.architecture import make_tokenizer
from grpo.models.load import load_policy, training_mode
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.training.logprobs import completion_logps
from tests import helpers
from tests.conftest import make_llama
from tests.training import worlds
from tests.training.memory import saved_bytes
from tests.training.test_chunks import PROMPTS, float64_norms, rollouts

KINDS = {"all": None, "adapter": ("q_proj", "down_proj"), "adapter and head": ("v_proj", "lm_head")}


def policy(targets: tuple[str, ...] | None, checkpointing: bool) -> Any:
    """As load_policy makes it: dropout off, eval(), base frozen under an adapter (the embedding too)."""
    model = float64_norms(make_llama())
    if targets is not None:
        models.lora.add(model, LoraConfig(r=2, target_modules=targets), 0)
        torch.manual_seed(1)
        for name, parameter in model.named_parameters():
            if models.lora.is_adapter(name):
                parameter.data = 0.3 * torch.randn_like(parameter, dtype=torch.float64)
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def counted(model: Any) -> list[int]:
    """[tokens] of each forward call of the first layer."""
    calls: list[int] = []
    model.model.layers[0].mlp.register_forward_pre_hook(lambda _, inputs: calls.append(inputs[0].shape[1]))
    return calls


@pytest.mark.parametrize("size", [5, 1000], ids=["chunks", "one"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_gradients_from_less_memory_and_twice_the_work(kind: str, size: int) -> None:
    found: dict[bool, tuple[torch.Tensor, torch.Tensor, int, int]] = {}
    for checkpointing in (False, True):
        model = policy(KINDS[kind], checkpointing)
        calls = counted(model)
        with training_mode(model), saved_bytes(model) as kept:
            scored = completion_logps(
                model, PROMPTS, rollouts(), temperature=0.7, pad_id=0, entropy_gradient=True, tokens_per_chunk=size
            )
        forward = len(calls)
        (scored.logp * torch.arange(scored.logp.numel()).reshape(scored.logp.shape) + scored.entropy).sum().backward()
        assert len(calls) - forward == int(checkpointing)  # recomputed once, in the backward pass
        found[checkpointing] = (scored.logp.detach(), worlds.gradients(model), kept[0], forward)
    plain, saving = found[False], found[True]
    scale = float(plain[1].abs().max())
    assert scale > 0.1
    torch.testing.assert_close(saving[0], plain[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(saving[1], plain[1], rtol=0, atol=1e-12 * scale)
    assert saving[2] < 0.5 * plain[2]


def test_dropout_stays_off_where_checkpointing_needs_train_mode(tmp_path: Path) -> None:
    """GPT-2 comes with rates of 0.1, and transformers checkpoints in train() only."""
    shape = GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=2, eos_token_id=2, bos_token_id=1)
    assert shape.resid_pdrop == 0.1
    models.export(GPT2LMHeadModel(shape), make_tokenizer(), tmp_path / "gpt2")
    found = []
    for checkpointing in (False, True, True):
        keys = ModelConfig(
            kind="hf", path=str(tmp_path / "gpt2"), gradient_checkpointing=checkpointing, dtype="float64"
        )
        model, _ = load_policy(keys, "cpu")
        with training_mode(model):
            assert model.training is checkpointing
            completion_logps(model, PROMPTS, rollouts(), temperature=0.7, pad_id=0).logp.sum().backward()
        found.append(worlds.gradients(model))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=1e-12 * float(found[0].abs().max()))
    assert torch.equal(found[1], found[2])


def test_sampling_reads_the_cache_and_gives_the_same_tokens() -> None:
    """In train() transformers would drop the cache without a word; the engine samples in eval(), one token a call."""
    sampled = []
    for checkpointing in (False, True):
        model = policy(None, checkpointing)
        calls = counted(model)
        engine = TransformersEngine(model, eos_ids=(-1,), pad_id=0, decode=str)
        with training_mode(model):  # a forward pass of the trainer comes before: it must leave eval() behind
            pass
        drawn = engine.generate(PROMPTS, 2, Sampling(max_tokens=5), seed=0, stream="train", step=0)
        sampled.append([r.token_ids for r in drawn])
        assert calls == [5, 1, 1, 1, 1]  # the longest prompt once, then four of five tokens
    assert sampled[0] == sampled[1]


def test_a_run_is_the_same_run(tmp_path: Path) -> None:
    """Through Lightning, which has modes of its own: every number of both runs agrees, sampled tokens first."""
    words = ("max_steps=3", "updates.minibatches=2", "optimizer.lr=1e-3")
    pages = []
    for checkpointing in ("false", "true"):
        code, folder = helpers.run(tmp_path / checkpointing, *words, f"model.gradient_checkpointing={checkpointing}")
        assert code == 0
        pages.append([helpers.without_clock(line) for line in helpers.lines(folder / "metrics.jsonl")])
    assert pages[0] == pages[1]
    assert any(line.get("grad_norm", 0) > 0 for line in pages[0])
