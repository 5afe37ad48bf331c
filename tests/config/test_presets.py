"""The GPU presets: each composes, passes the whole check, and fits its card. None of them was run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from grpo import start
from grpo.algorithm.form import build
from grpo.config.check import load
from grpo.config.compose import Composer, conf_dir
from grpo.config.schema import RunConfig
from grpo.config.sizes import sizes
from grpo.models import lora
from grpo.models.load import pick_dtype
from grpo.plan import architecture
from grpo.plan.memory import Plan, plan

COMPOSER = Composer()
H100, H200 = 80e9, 141e9  # bytes, as the cards are called; what they have is a little more


@dataclass(frozen=True)
class Shape:
    """What config.json of a Qwen2.5 says; both have 28 layers and heads of 128."""

    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    vocab: int
    tied: bool

    @property
    def parameters(self) -> int:
        """Embeddings, head, 28 layers (q and o; k and v; three of the MLP; biases of q, k, v; two norms), last norm."""
        h, kv = self.hidden, 128 * self.kv_heads
        layer = 2 * h * h + 2 * h * kv + 3 * h * self.intermediate + (h + 2 * kv) + 2 * h
        return (1 if self.tied else 2) * self.vocab * h + 28 * layer + h

    def adapter(self, r: int) -> int:
        """A [r, in] and B [out, r] of each of the seven matrices of a layer."""
        h, kv, i = self.hidden, 128 * self.kv_heads, self.intermediate
        return 28 * r * (2 * (h + h) + 2 * (h + kv) + 3 * (h + i))


SMALL = Shape(1536, 8960, 12, 2, 151_936, tied=True)
LARGE = Shape(3584, 18_944, 28, 4, 152_064, tied=False)
CARDS = {
    "qwen1.5b_gsm8k": (SMALL, H100),
    "qwen1.5b_math": (SMALL, H100),
    "qwen7b_gsm8k": (LARGE, H100),
    "qwen7b_math": (LARGE, H100),
    "dapo": (LARGE, H100),
    "chapter_listing": (LARGE, H200),
}


@pytest.fixture(autouse=True)
def _vllm_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo.rollout.vllm_version.installed", lambda: "0.32.0")


def folder(at: Path, shape: Shape) -> Path:
    """A folder that holds config.json and nothing else."""
    from transformers import Qwen2Config

    Qwen2Config(
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=28,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        vocab_size=shape.vocab,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=32_768,
    ).save_pretrained(at)
    return at


def preset(name: str, *overrides: str) -> RunConfig:
    return load([f"+preset={name}", *overrides], COMPOSER)[0]


def size(made: Plan, name: str) -> int:
    return {**made.kept, **made.update}[name][0]


def total(part: dict[str, tuple[int, str]]) -> int:
    return sum(number for number, _ in part.values())


def test_parameters_by_hand() -> None:
    """1.5B: 151,936 · 1536 = 233,373,696 once; a layer 2 · 1536² + 2 · 1536 · 256 + 3 · 1536 · 8960 + 2048 + 3072
    = 46,797,824, times 28 = 1,310,339,072; a norm of 1536. 7B: 2 · 152,064 · 3584 = 1,089,994,752; a layer 2 · 3584²
    + 2 · 3584 · 512 + 3 · 3584 · 18,944 + 4608 + 7168 = 233,057,792, times 28 = 6,525,618,176; a norm of 3584."""
    assert SMALL.parameters == 233_373_696 + 1_310_339_072 + 1536 == 1_543_714_304
    assert LARGE.parameters == 1_089_994_752 + 6_525_618_176 + 3584 == 7_615_616_512
    assert LARGE.adapter(32) == 28 * 32 * (4 * 3584 + 2 * 4096 + 3 * 22_528) == 80_740_352


def test_there_are_no_others() -> None:
    assert {name for name in COMPOSER.groups["preset"] if "/" not in name} == set(CARDS)
    for file in (conf_dir() / "preset").rglob("*.yaml"):
        text = file.read_text()
        assert len(text.splitlines()) <= 20, file
        assert text.startswith("# @package _global_\n# "), file


@pytest.mark.parametrize("name", CARDS)
def test_every_preset_is_checked_and_builds_its_objective(name: str) -> None:
    config = preset(name)
    assert config.choices["preset"] == name
    assert (config.rollout.kind, config.model.kind, config.name) == ("vllm", "hf", "dapo" if name == "dapo" else "grpo")
    assert config.choices["task"] == ("gsm8k" if "gsm8k" in name else "math")
    assert config.task.system == r"Please reason step by step, and put your final answer within \boxed{}."
    assert config.task.extract == "boxed"
    assert config.trainer.accelerator == "gpu"
    assert build(config).describe()
    assert config.completions_per_step == config.prompts_per_step * config.group_size
    short = preset(name, "max_steps=3", "kl=none", "seed=1")  # the command line still wins
    assert (short.max_steps, short.data.passes, short.choices["kl"]) == (3, None, "none")


@pytest.mark.parametrize("name", CARDS)
def test_every_preset_fits_its_card(name: str, tmp_path: Path) -> None:
    """vLLM and the trainer take turns: what is kept, and the larger of vLLM's share and of an update."""
    shape, card = CARDS[name]
    config = preset(name, f"model.path={folder(tmp_path, shape)}")
    made, share = plan(config), config.rollout.gpu_memory_utilization * card
    adapter = shape.adapter(config.model.lora.r) if config.model.lora.r else 0
    width = 4 if config.model.dtype == "auto" else 2
    assert size(made, "weights") == width * shape.parameters + 4 * adapter
    assert size(made, "optimizer") == 2 * (4 * adapter if adapter else width * shape.parameters)
    assert total(made.kept) + max(share, total(made.update)) < 0.95 * card
    # vLLM's share holds its own weights in bfloat16, and at least one completion of full length beside them.
    keys = 2 * 28 * shape.kv_heads * 128 * 2 * (config.max_prompt_tokens + config.max_completion_tokens)
    assert share > 2 * shape.parameters + keys
    # The weights are given to vLLM while no keys are kept; those of an adapter are summed for it in a second copy.
    copies = 2 if adapter else 1
    assert total(made.kept) + copies * 2 * shape.parameters < 0.95 * card


def test_all_of_7b_in_float32_fits_no_card(tmp_path: Path) -> None:
    """4 · 4 bytes · 7,615,616,512 = 122 GB without a reference, and 15 GB of weights in bfloat16 to compute with."""
    words = (f"model.path={folder(tmp_path, LARGE)}", "kl=none", "model.dtype=auto", "model.lora.r=null")
    made = plan(preset("qwen7b_math", *words))
    assert total(made.kept) == 16 * LARGE.parameters
    assert total(made.kept) + size(made, "autocast") == 18 * LARGE.parameters > 0.95 * H200
    assert 9.9e10 < 2 * size(made, "weights") + size(made, "optimizer") > H100


def test_the_share_of_the_listing_fits_no_card_of_today() -> None:
    """5 copies of 15.2 GB beside 0.7 of a card: (1 − 0.7) C ≥ 76 GB, C ≥ 254 GB."""
    assert 5 * 2 * LARGE.parameters / (1 - 0.7) == pytest.approx(254e9, rel=0.002)
    assert preset("chapter_listing").rollout.gpu_memory_utilization == 0.4


def test_dapo_as_published() -> None:
    config = preset("dapo")
    assert (config.completions_per_step, config.updates.per_step) == (512 * 16, 16)
    assert sizes(config).completions_per_update == 512
    assert config.max_completion_tokens == 16_384 + 4096
    assert config.shaping.interval * config.max_completion_tokens == 4096
    assert (config.surrogate.low, config.surrogate.high) == (0.2, 0.28)
    assert (config.choices["kl"], config.schedule.kind, config.schedule.warmup_steps) == ("none", "constant", 20)
    assert (config.sampling.temperature, config.sampling.top_p) == (1.0, 1.0)
    assert (config.eval.samples, config.eval.temperature, config.eval.top_p) == (32, 1.0, 0.7)
    # 28 layers · 2 · 4 heads · 128 · 2 bytes a token, and what half of 80 GB leaves beside the weights of the engine
    assert config.rollout.max_rows * 6000 * 28 * 2 * 4 * 128 * 2 < 0.5 * H100 - 2 * LARGE.parameters
    assert (config.model.lr, config.optimizer.lr) == (1e-6, 1e-5)  # the adapter's is ten times the paper's


def test_the_start_table_without_weights(tmp_path: Path) -> None:
    """From a model on the meta device: what a run would say before it began."""
    config = preset("qwen7b_math", f"model.path={folder(tmp_path, LARGE)}")
    model = architecture.build(architecture.read(config.model), config.model, pick_dtype(config.model.dtype))
    trained, every = lora.counts(model)
    objective = build(config)
    facts = start.Facts(parameters=every, trainable=trained, dtype="bfloat16", device="cuda:0",
                        reference="the base, adapter off", memory=plan(config).line())  # fmt: skip
    planned = sizes(config, objective.needs_reference, 11_400, needs_old=objective.needs_old, bonus=objective.bonus)
    text = "\n".join(start.table(config, planned, objective, facts))
    assert "128 prompts × 8 completions = 1,024 per step · 1 update · ≤ 2,048 new tokens" in text
    assert "178 steps" in text  # 2 · 11,400 // 128
    assert "80.74 M of 7.70 B trained, LoRA r = 32, bfloat16) on cuda:0" in text
    assert "lr 1e-05 constant · rollout vllm · reference the base, adapter off" in text
    assert "  memory      planned" in text
    assert "weights 16 GB" in text
