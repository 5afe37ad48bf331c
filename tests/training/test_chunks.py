"""Log-probs in chunks have the whole computation's values and gradients; tests/training/test_peak.py counts memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo.config.nodes import LoraConfig
from grpo.data import Prompt, Rollout
from grpo.models import lora
from grpo.models.head import compute_in_fp32
from grpo.models.tail import whole_logits
from grpo.training.logprobs import CHUNK, Scored, chunk_size, completion_logps, padded_inputs
from tests.conftest import make_llama
from tests.rollout.test_architectures import ARCHITECTURES, build
from tests.training import worlds

LENGTHS = (7, 1, 4, 6)  # 18 completion tokens
PROMPTS = [Prompt(f"p{i}", tuple(range(1, 3 + i)), "") for i in range(len(LENGTHS))]


def rollouts(lengths: tuple[int, ...] = LENGTHS) -> list[Rollout]:
    rows = [tuple(3 + (5 * i + 3 * t) % 20 for t in range(n)) for i, n in enumerate(lengths)]
    return [
        Rollout(f"p{i}", i, 0, ids, (0.0,) * len(ids), (True,) * len(ids), "stop", "", 0) for i, ids in enumerate(rows)
    ]


def top_ids(width: int = 7, count: int = 3) -> Tensor:
    return (torch.arange(len(LENGTHS) * width * count) * 7 % 24).reshape(len(LENGTHS), width, count)


def score(model: Any, reference: Any = None, **changes: Any) -> Scored:
    asked: dict[str, Any] = {"temperature": 0.7, "pad_id": 0, "entropy_gradient": True, "topk_ids": top_ids()}
    return completion_logps(model, PROMPTS, rollouts(), reference=reference, **{**asked, **changes})


def written(model: Any, reference: Any = None) -> Scored:
    """The same numbers from all logits at once, without our code: the model is called as anyone would call it."""
    ids, attention, right = padded_inputs(PROMPTS, rollouts(), 0)
    positions, valid = (attention.cumsum(1) - 1).clamp(min=0), attention[:, -right:]

    def distribution(which: Any) -> Tensor:
        logits = which(input_ids=ids, attention_mask=attention, position_ids=positions).logits[:, -right - 1 : -1]
        return (logits / 0.7).log_softmax(-1)

    logp = distribution(model)
    ref = logp if reference is None else distribution(reference).detach()
    chosen = logp.gather(-1, ids[:, -right:].unsqueeze(-1)).squeeze(-1)
    return Scored(
        chosen * valid,
        -(logp.exp() * logp).sum(-1) * valid,
        logp.detach().gather(-1, top_ids()) * valid.unsqueeze(-1),
        (logp.exp() * (logp - ref)).sum(-1) * valid if reference is not None else None,
    )


def gradient(model: Any, scored: Scored) -> Tensor:
    """Of uneven sums of everything that can be trained, so that a swapped token shows."""
    model.zero_grad()
    weight = torch.linspace(0.5, 1.5, scored.logp.numel(), dtype=scored.logp.dtype).reshape(scored.logp.shape)
    loss = (scored.logp * weight).sum() + (scored.entropy * weight.flip(0)).sum()
    (loss if scored.kl is None else loss + (scored.kl * weight.flip(1)).sum()).backward()
    return worlds.gradients(model)


def assert_same(one: Scored, other: Scored, tolerance: float = 1e-12) -> None:
    for mine, theirs in zip(one, other, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)


def float64_norms(model: Any) -> Any:
    """Llama's norms compute in float32 whatever the weights are: 1e-12 needs norms of plain torch."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child).__name__.endswith("RMSNorm"):
                norm = torch.nn.RMSNorm(child.weight.shape, eps=child.variance_epsilon, dtype=torch.float64)
                norm.weight = child.weight
                setattr(module, name, norm)
    return model


def tied() -> Any:
    model = make_llama()
    model.lm_head.weight = model.model.embed_tokens.weight
    return model


def adapted() -> Any:
    """An adapter on every linear layer and on the head, not at its start, where it would do nothing."""
    model = make_llama()
    names = ("q_proj", "v_proj", "down_proj", "lm_head")
    lora.add(model, LoraConfig(r=2, target_modules=names), 0)
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        if lora.is_adapter(name):
            parameter.data = 0.3 * torch.randn_like(parameter, dtype=torch.float64)
    return model


def wrapped() -> Any:
    """peft's own wrapper around the model."""
    import peft

    torch.manual_seed(4)
    found: Any = peft.get_peft_model(make_llama(), peft.LoraConfig(r=2, target_modules=["q_proj", "lm_head"]))
    return found.double().eval()


def fp32_head() -> Any:
    model = make_llama()
    compute_in_fp32(model)
    return model


POLICIES = {"untied": make_llama, "tied": tied, "adapter": adapted, "peft": wrapped, "fp32_head": fp32_head}


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("size", [1, 5, 17, 18, 1000])
def test_chunks_are_the_whole(name: str, size: int) -> None:
    """18 tokens: 5 cuts inside completions, 17 leaves one, 18 is all, 1000 ends beyond the last token."""
    model, reference = float64_norms(POLICIES[name]()), float64_norms(make_llama(seed=5))
    assert whole_logits(model) == whole_logits(reference) == ""
    ours = score(model, reference, tokens_per_chunk=size)
    expected = written(model, reference)
    assert_same(ours, expected)
    mine, theirs = gradient(model, ours), gradient(model, expected)
    assert float(theirs.abs().max()) > 0.1
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12 * float(theirs.abs().max()))


@pytest.mark.parametrize("size", [5, 1000])
def test_the_reference_of_an_adapter_is_the_same_model_without_it(size: int) -> None:
    """Also in the backward pass, which computes both heads again: on for the policy, off for the reference."""
    model = float64_norms(adapted())
    reference = lora.AdapterOff(model)
    ours, expected = score(model, reference, tokens_per_chunk=size), written(model, reference)
    assert float(expected.kl.detach().max()) > 0.1  # type: ignore[union-attr]
    assert_same(ours, expected)
    mine, theirs = gradient(model, ours), gradient(model, expected)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12 * float(theirs.abs().max()))
    assert all(not layer._disable_adapters for layer in lora.layers(model).values())


def test_the_entropy_has_a_gradient_only_where_it_is_trained() -> None:
    model = make_llama()
    assert not score(model, tokens_per_chunk=5, entropy_gradient=False).entropy.requires_grad
    assert score(model, tokens_per_chunk=5).entropy.requires_grad
    top = score(model, tokens_per_chunk=5).topk
    assert top is not None
    assert not top.requires_grad


def test_no_completion_token_at_all() -> None:
    empty = completion_logps(make_llama(), PROMPTS, rollouts((0, 0, 0, 0)), temperature=1.0, pad_id=0)
    assert empty.logp.tolist() == empty.entropy.tolist() == [[0.0]] * 4
    empty.logp.sum().backward()


@pytest.mark.parametrize("name", [*ARCHITECTURES, "Cohere", "Granite", "GPTNeoX"])
def test_other_architectures_and_which_of_them_need_whole_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gemma 2 caps its logits, Cohere and Granite scale them: no cut before the output layer may forget that."""
    changes = {
        "Gemma2": {"final_logit_softcapping": 3.0},
        "Cohere": {"logit_scale": 0.25},
        "Granite": {"logits_scaling": 8.0},
    }
    monkeypatch.setitem(ARCHITECTURES, name, {**ARCHITECTURES.get(name, {}), **changes.get(name, {})})
    model = build(name)
    assert bool(whole_logits(model)) == (name in changes)
    ours, expected = score(model, tokens_per_chunk=5), written(model)
    assert_same(ours, expected, 1e-6)  # norms in float32
    mine, theirs = gradient(model, ours), gradient(model, expected)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-5 * float(theirs.abs().max()))


def test_the_probe_does_not_trust_small_logits() -> None:
    """A new model's logits near 0 pass a soft cap of 30 almost unchanged; zero logits pass it exactly."""
    capped = build("Gemma2")
    capped.lm_head.weight.data.zero_()
    assert "changes what its output layer returns" in whole_logits(capped)


def test_whole_logits_are_said_in_the_metrics_of_every_step() -> None:
    for model, expected in ((build("Gemma2"), 1), (make_llama(), None)):
        made = worlds.module(model)
        made.training_step(0, 0)
        assert made.metrics.get("memory/whole_logits") == expected


class Twice(torch.nn.Module):
    """A model that asks its output layer twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = make_llama()
        self.device, self.config = self.inner.device, self.inner.config

    def get_output_embeddings(self) -> Any:
        return self.inner.get_output_embeddings()

    def forward(self, **inputs: Any) -> Any:
        self.inner(**inputs)
        return SimpleNamespace(logits=self.inner(**inputs).logits)


class Nameless(Twice):
    """A model without a named output layer."""

    def get_output_embeddings(self) -> Any:
        return None


@pytest.mark.parametrize(
    ("kind", "reason"), [(Twice, "calls its output layer 2 times"), (Nameless, "names no output layer")]
)
def test_what_cannot_be_cut_is_computed_whole(kind: type, reason: str) -> None:
    model = kind()
    assert reason in whole_logits(model)
    assert_same(score(model, tokens_per_chunk=5), score(model.inner, tokens_per_chunk=5))


def test_autocast_and_the_gradient_of_the_head() -> None:
    """Under autocast the chunks' gradients of the float32 head are summed in float32: as near as the whole's."""
    model = make_llama().float()
    autocast = lambda: torch.autocast("cpu", dtype=torch.bfloat16)  # noqa: E731
    exact = gradient(model, score(model, topk_ids=None)).double()
    parts = gradient(model, score(model, topk_ids=None, autocast=autocast, tokens_per_chunk=2)).double()
    whole = gradient(model, score(model, topk_ids=None, autocast=autocast)).double()
    assert score(model, autocast=autocast, tokens_per_chunk=2).logp.dtype == torch.float32
    assert float((parts - exact).norm()) < 1.2 * float((whole - exact).norm())


def test_the_default_chunk_bounds_elements_and_not_tokens() -> None:
    """2^26 numbers: 441 tokens of 152,064, 671,088 tokens of 100."""
    assert (chunk_size(152_064), chunk_size(100), chunk_size(2 * CHUNK)) == (441, 671_088, 1)
