"""The start table is text made of a configuration and facts, nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grpo import start
from grpo.algorithm.form import build
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.config.sizes import sizes

COMPOSER = Composer()
FACTS = start.Facts(
    folder="runs/dapo/3f9c21ab-s0/1",
    parameters=460_000,
    dtype="float32",
    device="cpu",
    threads=2,
    train_questions=4000,
    validation_questions=512,
    test_questions=512,
    first_prompt="37+5=",
    first_prompt_ids=(1, 22, 26, 16, 24, 34),
    logger="W&B offline (no key): wandb sync runs/dapo/3f9c21ab-s0/1/wandb",
)


def made(*arguments: str, facts: start.Facts = FACTS) -> str:
    config, _ = load(arguments, COMPOSER)
    objective = build(config)
    size = sizes(config, objective.needs_reference, facts.train_questions)
    return "\n".join(start.table(config, size, objective, facts))


def test_table_of_dapo() -> None:
    lines = made("+algo=dapo", "group_size=16", "max_completion_tokens=48").splitlines()
    assert lines[0] == "grpo 0.1.0 · dapo (published, arXiv:2503.14476) · runs/dapo/3f9c21ab-s0/1"
    assert lines[2].startswith("  objective   ")
    assert "→ token ratio → clip(0.20, 0.28) → token mean" in lines[2].replace("_", " ")
    assert any(line.startswith("  inert       clip: no effect with one update per rollout") for line in lines)
    assert (
        "  sizes       16 prompts × 16 completions = 256 per step · 1 update · ≤ 48 new tokens · "
        "1 forward, 1 backward per completion" in lines
    )
    assert "  length      100 steps · 0.4 passes over the data · seed 0" in lines
    assert (
        "  model       tiny (0.46 M, float32) on cpu, 2 threads · lr 0.0003 constant · rollout transformers · "
        "reference none" in lines
    )
    assert "  data        arithmetic: 4,000 train / 512 validation / 512 test problems, disjoint" in lines
    assert '  prompt      "37+5=" · 6 tokens: 1 22 26 16 24 34' in lines


def test_off_policy_sizes_and_warnings() -> None:
    text = made("updates={epochs: 2, minibatches: 4}", "sampling.top_p=0.9", "budget.generated_tokens=400000")
    assert "8 updates (2 epochs × 4 minibatches, 32 completions each)" in text
    assert "4 forwards, 2 backwards per completion" in text
    assert "  warning     sampling.top_p=0.9: completions come from a truncated distribution" in text
    assert "at most 400,000 generated tokens" in text
    assert "inert" not in text


def test_a_long_prompt_is_shown_from_both_ends() -> None:
    text = "<|im_start|>system\nIt's brief." + 100 * "x" + "<|im_end|>\n<|im_start|>assistant\n"
    facts = start.Facts(first_prompt=text, first_prompt_ids=tuple(range(40)), data_notes=("3 prompts dropped",))
    line = next(line for line in made(facts=facts).splitlines() if line.startswith("  prompt"))
    assert line.startswith("  prompt      \"<|im_start|>system\\nIt's brief.xxx")
    assert line.endswith('<|im_end|>\\n<|im_start|>assistant\\n" · 40 tokens: 0 1 2 3 4 5 … 35 36 37 38 39')
    assert "\n              3 prompts dropped\n" in made(facts=facts)


def test_what_is_not_known_is_left_out() -> None:
    text = made(facts=start.Facts())
    assert "None" not in text
    assert "output" not in text
    assert "data        arithmetic" in text


def test_an_algorithm_says_how_the_other_form_differs(tmp_path: Path) -> None:
    (tmp_path / "algo").mkdir()
    head = "# @package _global_\n# Toy, arXiv:2401.00001 and arXiv:2402.00002\n# Differs: its gate rises\nname: toy\n"
    (tmp_path / "algo" / "toy.yaml").write_text(head)
    found = start.page("toy", tmp_path)
    assert (found.paper, found.differs) == ("arXiv:2401.00001", "its gate rises")
    assert start.page("nothing", tmp_path) == start.Page()


def test_whole_logits_are_said_where_the_model_needs_them() -> None:
    text = made(facts=start.Facts(memory="planned 1 GB", whole_logits="the model scales its logits"))
    assert (
        "  memory      planned 1 GB\n              logits whole, tokens × vocabulary at once and not in chunks: "
        in text
    )
    assert "the model scales its logits; lower tokens_per_microbatch when memory runs out" in text
    assert "logits whole" not in made()


def test_several_devices_say_what_is_shared_out() -> None:
    two = start.Facts(device="cpu", threads=1, devices=2, backend="gloo")
    text = made(facts=two)
    assert "tiny on cpu, 1 thread each" in text
    assert (
        "  devices     2 × cpu (gloo) · whole groups are sampled, completions trained in shares · rewards on the first"
        in text
    )
    whole = start.device_lines(replace(two, whole=True))
    assert whole[1] == "groups are sampled in shares; this objective looks at the whole update, so one device trains"
    assert "devices" not in made()
