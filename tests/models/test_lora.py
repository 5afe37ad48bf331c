"""model.lora: what trains, what the base says, what merged weights say, and that nothing drifts."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.conftest import make_llama
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

from grpo.config.nodes import LoraConfig
from grpo.config.schema import ModelConfig
from grpo.errors import UserError
from grpo.models import lora
from grpo.models.architecture import make_tokenizer
from grpo.models.load import export, load_policy, load_reference, training_mode

IDS = torch.tensor([[1, 5, 9, 7, 3], [1, 20, 4, 11, 6]])
TINY = ModelConfig(kind="tiny", lora=LoraConfig(r=8))


def adapted(seed: int = 0, **keys: object):
    """The random float64 Llama with an adapter that is not the zero it starts at."""
    model = make_llama(seed=seed)
    lora.add(model, LoraConfig(**{"r": 4, **keys}), seed=7)  # type: ignore[arg-type]
    return stirred(model)


def stirred(model):
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if lora.is_adapter(name):
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits


def base_bytes(model) -> list[torch.Tensor]:
    return [p.detach().clone() for n, p in model.named_parameters() if not lora.is_adapter(n)]


def test_only_the_adapter_trains() -> None:
    """Of each linear layer in → out: r · (in + out). Tiny: q, k, v, o 128 → 128, gate, up 128 → 384, down 384 → 128."""
    policy, _ = load_policy(TINY, "cpu")
    per_layer = 4 * 8 * (128 + 128) + 3 * 8 * (128 + 384)
    assert lora.counts(policy) == (2 * per_layer, 452_224 + 2 * per_layer) == (40_960, 493_184)
    assert {n for n, p in policy.named_parameters() if p.requires_grad} == {
        n for n, _ in policy.named_parameters() if lora.is_adapter(n)
    }
    assert lora.counts(load_policy(ModelConfig(kind="tiny"), "cpu")[0]) == (452_224, 452_224)


def test_it_begins_as_the_base_and_follows_the_seed_alone() -> None:
    base = load_reference(TINY, "cpu")
    one, _ = load_policy(TINY, "cpu", seed=1)
    torch.rand(5)
    state = torch.get_rng_state()
    again, _ = load_policy(TINY, "cpu", seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    other, _ = load_policy(TINY, "cpu", seed=2)
    assert torch.equal(logits(one), logits(base))
    name = "model.layers.0.self_attn.q_proj.lora_A.default.weight"
    assert torch.equal(one.state_dict()[name], again.state_dict()[name])
    assert not torch.equal(one.state_dict()[name], other.state_dict()[name])


def test_the_reference_is_the_base_with_the_adapter_off() -> None:
    model, base = adapted(), make_llama()
    assert (logits(model) - logits(base)).abs().max() > 0.1
    reference = lora.AdapterOff(model)
    assert torch.equal(logits(reference), logits(base))
    assert (logits(model) - logits(base)).abs().max() > 0.1  # on again
    assert reference.device == model.device
    with training_mode(reference):
        assert torch.equal(logits(reference), logits(base))


def test_reading_the_reference_between_forward_and_backward_changes_no_gradient() -> None:
    """The exact KL does so. Turning requires_grad off and on in between would be felt here."""
    gradients = []
    for disturbed in (False, True):
        model = adapted()
        loss = model(input_ids=IDS).logits.logsumexp(-1).sum()
        if disturbed:
            logits(lora.AdapterOff(model))
        loss.backward()
        gradients.append([p.grad for p in model.parameters() if p.requires_grad])
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))


def make_gpt2():
    """Float64 throughout (a Llama's norms compute in float32), with Conv1D layers [in, out] and a tied head."""
    config = GPT2Config(vocab_size=24, n_positions=16, n_embd=16, n_layer=1, n_head=2, initializer_range=0.3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT2LMHeadModel(config).double().eval()


def test_gradient_is_the_finite_difference_and_the_base_gets_none() -> None:
    """(f(x + h) − f(x − h)) / 2h = f′ + O(h²): with h = 1e-5 in float64 about nine digits."""
    model, step = make_gpt2(), 1e-5
    lora.add(model, LoraConfig(r=3, target_modules=("c_attn", "c_fc")), 0)
    stirred(model)

    def value() -> torch.Tensor:
        logp = model(input_ids=IDS).logits[:, :-1].log_softmax(-1)
        return logp.gather(-1, IDS[:, 1:, None]).sum()

    value().backward()
    checked = 0
    for name, parameter in model.named_parameters():
        if not lora.is_adapter(name):
            assert parameter.grad is None
            continue
        at = (parameter.shape[0] // 2, parameter.shape[1] // 3)
        with torch.no_grad():
            parameter[at] += step
            above = value()
            parameter[at] -= 2 * step
            below = value()
            parameter[at] += step
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad[at], (above - below) / (2 * step), rtol=1e-6, atol=1e-8)
        checked += 1
    assert checked == 4  # A and B of two layers


def test_merged_weights_of_transposed_layers() -> None:
    model = make_gpt2()
    lora.add(model, LoraConfig(r=3), 0)
    said, merged, plain = logits(stirred(model)), lora.merged_state_dict(model), make_gpt2()
    assert (logits(plain) - said).abs().max() > 0.01
    plain.load_state_dict(merged)
    torch.testing.assert_close(logits(plain), said, rtol=1e-12, atol=1e-12)


def test_merged_weights_by_hand() -> None:
    """W + (alpha / r) B A, with alpha = 6 and r = 4: 1.5 B A."""
    model, base = adapted(alpha=6.0), make_llama()
    merged = lora.merged_state_dict(model)
    assert list(merged) == list(base.state_dict())
    own = dict(model.named_parameters())
    stem = "model.layers.1.mlp.up_proj"
    product = own[f"{stem}.lora_B.default.weight"] @ own[f"{stem}.lora_A.default.weight"]
    torch.testing.assert_close(merged[f"{stem}.weight"], base.state_dict()[f"{stem}.weight"] + 1.5 * product)
    # What carries no adapter is the model's own tensor, not a copy.
    assert merged["lm_head.weight"].data_ptr() == model.lm_head.weight.data_ptr()


def test_merged_says_what_unmerged_says_in_float32() -> None:
    model = adapted().float()
    plain = make_llama().float()
    plain.load_state_dict(lora.merged_state_dict(model))
    assert (logits(plain) - logits(model)).abs().max() <= 1e-5 * max(1.0, float(logits(model).abs().max()))


def test_the_base_is_bit_identical_after_1000_merges_and_passes_without_the_adapter() -> None:
    model = adapted().to(torch.bfloat16)
    before = base_bytes(model)
    first = lora.merged_state_dict(model)
    for _ in range(1000):
        last = lora.merged_state_dict(model)
    for _ in range(10):
        logits(lora.AdapterOff(model))
    assert all(torch.equal(one, other) for one, other in zip(before, base_bytes(model), strict=True))
    assert all(torch.equal(first[name], last[name]) for name in first)


def test_without_an_adapter_merged_is_the_state_dict() -> None:
    model = make_llama()
    merged = lora.merged_state_dict(model)
    assert merged.keys() == model.state_dict().keys()
    assert all(merged[n].data_ptr() == v.data_ptr() for n, v in model.state_dict().items())


def test_a_16_bit_base_has_a_float32_adapter(tmp_path: Path) -> None:
    """An update of 1e-4 on 1.0: bfloat16 has 8 bits of mantissa, 1.0001 would be 1.0 again."""
    policy, _ = load_policy(ModelConfig(kind="tiny", dtype="bfloat16", lora=LoraConfig(r=2)), "cpu")
    kinds = {(lora.is_adapter(n), p.dtype) for n, p in policy.named_parameters()}
    assert kinds == {(True, torch.float32), (False, torch.bfloat16)}
    assert logits(policy).dtype == torch.bfloat16
    assert {v.dtype for v in lora.merged_state_dict(policy).values()} == {torch.bfloat16}


def test_export_merged_and_adapter(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    policy = stirred(load_policy(TINY, "cpu")[0])
    before, said = base_bytes(policy), logits(policy)
    export(policy, make_tokenizer(), tmp_path / "policy")
    lora.export_adapter(policy, tmp_path / "policy_adapter")
    assert all(torch.equal(a, b) for a, b in zip(before, base_bytes(policy), strict=True))
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "policy", attn_implementation="sdpa")
    assert not lora.layers(plain)
    assert not list((tmp_path / "policy").glob("adapter*"))
    scale = max(1.0, float(said.abs().max()))
    assert (logits(plain) - said).abs().max() <= 1e-5 * scale
    on_top = peft.PeftModel.from_pretrained(load_reference(TINY, "cpu"), tmp_path / "policy_adapter").eval()
    assert (logits(on_top) - said).abs().max() <= 1e-6 * scale
    names = sorted(file.name for file in (tmp_path / "policy_adapter").iterdir())
    assert names == ["adapter_config.json", "adapter_model.safetensors"]
    # 40,960 numbers of 4 bytes and a header
    assert 0 <= (tmp_path / "policy_adapter" / "adapter_model.safetensors").stat().st_size - 4 * 40_960 < 8_000


def test_fp32_head_and_checkpointing_with_an_adapter() -> None:
    keys = ModelConfig(kind="tiny", dtype="bfloat16", fp32_head=True, gradient_checkpointing=True, lora=LoraConfig(r=2))
    policy, _ = load_policy(keys, "cpu")
    assert logits(policy).dtype == torch.float32
    with training_mode(policy):
        policy(input_ids=IDS, use_cache=False).logits.logsumexp(-1).sum().backward()
    # B starts at 0, so that only B has a gradient different from 0 at first.
    assert all(p.grad is not None for p in policy.parameters() if p.requires_grad)
    assert any(bool(p.grad.any()) for n, p in policy.named_parameters() if "lora_B" in n and p.grad is not None)


@pytest.mark.parametrize("name", ["embed_tokens", "lm_head"])
def test_ends_may_be_targets_unless_they_are_tied(name: str) -> None:
    model, base = adapted(target_modules=[name]), make_llama()
    merged = lora.merged_state_dict(model)
    base.load_state_dict(merged)
    torch.testing.assert_close(logits(base), logits(model))
    tied = make_llama()
    tied.lm_head.weight = tied.model.embed_tokens.weight
    with pytest.raises(UserError, match=f"model.lora.target_modules   {name} shares its weight with the other end"):
        lora.add(tied, LoraConfig(r=2, target_modules=(name,)), 0)


def test_a_tied_head_stays_tied_in_the_merged_weights() -> None:
    tied = make_llama()
    tied.lm_head.weight = tied.model.embed_tokens.weight
    lora.add(tied, LoraConfig(r=2), 0)
    merged = lora.merged_state_dict(tied)
    assert merged["lm_head.weight"].data_ptr() == merged["model.embed_tokens.weight"].data_ptr()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("q_prok", "the model has no module q_prok; did you mean q_proj?"),
        ("self_attn", "peft cannot put an adapter there: Target module LlamaAttention"),
    ],
)
def test_modules_that_cannot_have_one(name: str, sentence: str) -> None:
    with pytest.raises(UserError, match=r"model\.lora\.target_modules") as caught:
        lora.add(make_llama(), LoraConfig(r=2, target_modules=("v_proj", name)), 0)
    assert sentence in str(caught.value)
