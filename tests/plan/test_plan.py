"""`python -m grpo.plan`: the arithmetic of each part, and the plan against what is really allocated."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.models.load import load_policy
from grpo.models.lora import AdapterOff
from grpo.plan.__main__ import main
from grpo.plan.memory import Plan, from_count, plan, shown
from tests.plan.measured import measured_peak

COMPOSER = Composer()
TINY = 452_224
ADAPTER = 40_960  # r = 8 in all linear layers, see tests/models/test_lora.py


def planned(*arguments: str) -> Plan:
    return plan(load(arguments, COMPOSER)[0])


def size(made: Plan, name: str) -> int:
    return {**made.kept, **made.rollout, **made.update}[name][0]


def test_70e9_parameters_in_bfloat16_are_140_gb(capsys: pytest.CaptureFixture[str]) -> None:
    """70e9 × 2 bytes; gradients as much, AdamW's moments twice as much, the reference once more: 5 × 140 = 700 GB."""
    made = from_count(load(["kl.coef=0.04"], COMPOSER)[0], 70e9, torch.bfloat16)
    assert [made.kept[name][0] for name in ("weights", "gradients", "optimizer", "reference")] == [
        140_000_000_000, 140_000_000_000, 280_000_000_000, 140_000_000_000,
    ]  # fmt: skip
    assert made.peak == 700_000_000_000
    assert main(["kl=none", "--parameters", "70e9", "--dtype", "bfloat16"]) == 0
    out = capsys.readouterr().out
    assert "weights                140 GB   70,000,000,000 × 2 bytes" in out
    assert "560 GB" in out.splitlines()[-1]


def test_full_weights_lora_and_bfloat16() -> None:
    """All: weights + copy + gradients + 2 moments. LoRA: no copy, the rest for its 40,960 float32 numbers only."""
    full, adapter = planned("kl.coef=0.04"), planned("kl.coef=0.04", "model.lora.r=8")
    assert sum(b for b, _ in full.kept.values()) == 5 * 4 * TINY
    assert sum(b for b, _ in adapter.kept.values()) == 4 * (TINY + ADAPTER) + 3 * 4 * ADAPTER
    narrow, both = planned("model.dtype=bfloat16", "kl=none"), planned("model.dtype=bfloat16", "model.lora.r=8")
    assert sum(b for b, _ in narrow.kept.values()) == 4 * 2 * TINY
    assert sum(b for b, _ in both.kept.values()) == 2 * TINY + 4 * 4 * ADAPTER  # the adapter stays float32
    assert size(both, "reference") == 0


def test_lag_keeps_copies_of_what_is_trained() -> None:
    """lag = 2: the engine's own weights and versions v − 2, v − 1, v."""
    assert size(planned("rollout.lag=2"), "lagged weights") == 4 * 4 * TINY
    assert size(planned("rollout.lag=2", "model.lora.r=8"), "lagged weights") == 4 * 4 * ADAPTER


def test_kv_cache_by_hand() -> None:
    """Tiny: 2 layers, 4 heads of 32, keys and values, 4 bytes: 2,048 bytes a token; half a layer once more (1.25 ×)."""
    made = planned("prompts_per_step=4", "group_size=4", "max_prompt_tokens=40", "max_completion_tokens=24")
    assert size(made, "KV cache") == 16 * 64 * 2048 * 5 // 4
    assert size(made, "logits") == 16 * 100 * (4 + 4 + 8 + 8)
    few = planned("prompts_per_step=4", "group_size=4", "max_prompt_tokens=40", "max_completion_tokens=24",
                  "rollout.max_rows=8")  # fmt: skip
    assert 2 * size(few, "KV cache") == size(made, "KV cache")


def test_several_devices_share_completions_and_nothing_else() -> None:
    """Two of 4 prompts each: half the cache, half the rows of an update; weights, moments and one more of gradients."""
    words = ("prompts_per_step=4", "group_size=4", "max_prompt_tokens=40", "max_completion_tokens=24", "kl=none")
    one, two = planned(*words), planned(*words, "trainer=ddp", "trainer.devices=2")
    assert 2 * size(two, "KV cache") == size(one, "KV cache")
    assert size(two, "activations") == pytest.approx(size(one, "activations") / 2, rel=0.01)
    assert sum(b for b, _ in two.kept.values()) == sum(b for b, _ in one.kept.values()) + 4 * TINY
    assert "each of 2 cpus" in two.title


def test_an_update_grows_with_the_token_budget_and_not_with_the_group() -> None:
    words = ("max_prompt_tokens=40", "max_completion_tokens=24", "prompts_per_step=4")
    small, large = (planned(*words, "group_size=32", f"tokens_per_microbatch={n}") for n in (1024, 2048))
    for name in ("activations", "log-probs, entropy"):
        assert size(large, name) == pytest.approx(2 * size(small, name), rel=0.01)
    more = planned(*words, "group_size=64", "tokens_per_microbatch=1024")
    assert more.update == small.update


def test_checkpointing_keeps_inputs_and_one_layer_after_the_log_probs() -> None:
    """The input of both layers: 2 · 16 rows · 64 tokens · 128 · 4 bytes; half of what both keep less the log-probs."""
    words = ("max_prompt_tokens=40", "max_completion_tokens=24", "tokens_per_microbatch=1024")
    plain, saving = planned(*words), planned(*words, "model.gradient_checkpointing=true")
    assert size(saving, "activations") == 2 * 1024 * 128 * 4
    assert size(saving, "log-probs, entropy") == 4 * 16 * 24 * 100 * 4
    assert size(saving, "one layer") == size(plain, "activations") // 2 - 4 * 16 * 24 * 100 * 4


@pytest.mark.parametrize(
    "extra", [(), ("model.lora.r=8",), ("model.dtype=bfloat16",), ("model.gradient_checkpointing=true",)]
)
def test_planned_against_measured_on_tiny(extra: tuple[str, ...]) -> None:
    words = ("max_prompt_tokens=96", "max_completion_tokens=32", "prompts_per_step=4", "group_size=8",
             "tokens_per_microbatch=2048", "kl.coef=0.04")  # fmt: skip
    config, _ = load([*words, *extra], COMPOSER)
    assert plan(config).peak == pytest.approx(measured_peak(config), rel=0.2)


@pytest.mark.smollm2
@pytest.mark.parametrize("extra", [(), ("model.lora.r=8",)], ids=["all", "lora"])
def test_planned_against_measured_on_smollm2(extra: tuple[str, ...]) -> None:
    from grpo.models.folders import smollm2_folder

    if not (smollm2_folder() / "config.json").is_file():
        pytest.skip("make smollm2 first")
    words = ("model=smollm2", "max_prompt_tokens=48", "max_completion_tokens=16", "prompts_per_step=1", "group_size=8",
             "tokens_per_microbatch=256", "kl.coef=0.04")  # fmt: skip
    config, _ = load([*words, *extra], COMPOSER)
    assert plan(config).peak == pytest.approx(measured_peak(config), rel=0.2)


def test_parameters_are_those_of_the_loaded_model() -> None:
    config, _ = load(["model.lora.r=8"], COMPOSER)
    policy, _ = load_policy(config.model, "cpu")
    assert size(plan(config), "weights") == sum(p.nbytes for p in policy.parameters())
    assert AdapterOff(policy).dtype == torch.float32


def test_a_live_policy_computes_the_same_after_a_plan() -> None:
    """The start table plans from the loaded policy's own configuration, which must stay as it is."""
    config, _ = load([], COMPOSER)
    policy, _ = load_policy(config.model, "cpu")
    ids = torch.tensor([[1, 5, 9, 7]])
    attention, before = policy.config._attn_implementation, policy(input_ids=ids).logits
    plan(config, policy.config)
    assert policy.config._attn_implementation == attention
    assert torch.equal(policy(input_ids=ids).logits, before)


def test_a_folder_with_config_json_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Llama 3 70B's shapes: 80 layers · (2·8192² + 2·8192·1024 + 3·8192·28672 + 2·8192) + 2·128256·8192 + 8192."""
    from transformers import LlamaConfig

    LlamaConfig(
        vocab_size=128_256, hidden_size=8192, intermediate_size=28_672, num_hidden_layers=80, num_attention_heads=64,
        num_key_value_heads=8, max_position_embeddings=8192, tie_word_embeddings=False,
    ).save_pretrained(tmp_path)  # fmt: skip
    code = main(["model=hf", f"model.path={tmp_path}", "model.dtype=bfloat16", "model.lora.r=8", "kl=none"])
    assert code == 0
    number = 80 * (2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28_672 + 2 * 8192) + 2 * 128_256 * 8192 + 8192
    assert f"{number:,} × 2 bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--parameters", "many"], "grpo.plan   argument --parameters: invalid float value: 'many'"),
        (["--parameters", "0"], "grpo.plan   --parameters must be a number of at least 1, not 0"),
        (["--dtype", "bfloat16"], "grpo.plan   --dtype goes with --parameters"),
        (["--parameters", "7e9", "model.lora.r=8"], "grpo.plan   an adapter's size follows from the model's shapes"),
        (["model=hf", "model.path=no-one/nothing"], "or --parameters 7e9 --dtype bfloat16"),
    ],
)
def test_mistakes(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 1
    assert sentence in capsys.readouterr().err


def test_shown() -> None:
    assert [shown(n) for n in (140e9, 1.94e9, 36e6, 1.81e6, 0)] == ["140 GB", "1.9 GB", "36 MB", "1.8 MB", "0 MB"]
