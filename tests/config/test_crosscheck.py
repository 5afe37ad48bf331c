"""Rules between fields: which default gives way to what was said, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.config.check import load, read
from grpo.config.compose import Composer
from grpo.config.crosscheck import warnings
from grpo.config.schema import RunConfig
from grpo.errors import ConfigError


def made(composer: Composer, *arguments: str) -> RunConfig:
    return load(arguments, composer)[0]


def said(composer: Composer, *arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(arguments, composer)
    return str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        ([], (16, 8, 128)),
        (["group_size=16"], (16, 16, 256)),
        (["completions_per_step=64"], (8, 8, 64)),
        (["completions_per_step=64", "group_size=32"], (2, 32, 64)),
        (["completions_per_step=64", "prompts_per_step=4"], (4, 16, 64)),
        (["prompts_per_step=4", "group_size=4", "completions_per_step=16"], (4, 4, 16)),
        (["prompts_per_step=3", "group_size=2", "completions_per_step=null"], (3, 2, 6)),
    ],
)
def test_any_two_sizes(composer: Composer, arguments: list[str], sizes: tuple[int, int, int]) -> None:
    config = made(composer, *arguments)
    assert (config.prompts_per_step, config.group_size, config.completions_per_step) == sizes


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["completions_per_step=7", "group_size=8"],
            "completions_per_step   7 completions are no whole number of groups of 8 completions; "
            "use 8 completions, or group_size 7",
        ),
        (
            ["completions_per_step=20"],
            "completions_per_step   20 completions are no whole number of groups of 8 completions; "
            "use 16 or 24 completions, or group_size 2, 4, 5, 10 or 20",
        ),
        (
            ["completions_per_step=64", "prompts_per_step=3"],
            "completions_per_step   64 completions cannot be shared equally by 3 prompts; "
            "use 63 or 66 completions, or prompts_per_step 1, 2, 4, 8, 16 or 32",
        ),
        (
            ["prompts_per_step=3", "group_size=8", "completions_per_step=20"],
            "completions_per_step   3 prompts × 8 completions are 24 completions, not 20; "
            "give any two of prompts_per_step, group_size and completions_per_step",
        ),
        (
            ["updates.minibatches=4", "prompts_per_step=6"],
            "updates.minibatches   4 minibatches do not divide the 6 prompts of a step "
            "(a minibatch is whole groups); use 1, 2, 3 or 6",
        ),
        (
            ["data.passes=2", "max_steps=10"],
            "data.passes   counts passes over the data, max_steps counts steps: give one of them",
        ),
        (
            ["max_steps=null"],
            "max_steps   nothing ends this run; give max_steps, data.passes or budget.generated_tokens",
        ),
        (
            ["eval.every=5", "eval.every_tokens=1000"],
            "eval.every_tokens   counts tokens between evaluations, eval.every steps: give one of them",
        ),
        (
            ["schedule=cosine", "budget.generated_tokens=1000"],
            "schedule.unit   a cosine schedule in steps needs max_steps or data.passes; use schedule.unit=tokens",
        ),
        (
            ["schedule=linear", "schedule.unit=tokens"],
            "schedule.unit   a linear schedule in tokens needs budget.generated_tokens",
        ),
        (
            ["schedule=linear", "schedule.warmup_steps=100"],
            "schedule.warmup_steps   100 steps of warm-up leave none of the 100 for the decay",
        ),
        (
            ["ratio.anchor=rollout", "sampling.top_p=0.9"],
            "sampling.top_p   0.9 makes log μ another distribution's than log π, and it is read by "
            "ratio.anchor=rollout (use ratio.anchor=old); or sample with sampling.top_p=1",
        ),
        (
            ["ratio.anchor=rollout", "sampling.top_k=20"],
            "sampling.top_k   20 makes log μ another distribution's than log π, and it is read by "
            "ratio.anchor=rollout (use ratio.anchor=old); or sample with sampling.top_k=0",
        ),
        (
            ["rollout=replay"],
            "rollout.path   say which run to replay: rollout.path=FOLDER, a run made with save_rollouts=true",
        ),
        (["rollout=replay", "rollout.path=no/where"], "rollout.path   there is no folder no/where"),
        (["rollout.path=runs"], "rollout.path   is read by rollout=replay only, not by rollout=transformers"),
        (["resume=no/where"], "resume   there is no run or checkpoint no/where; use never, auto or an existing folder"),
        (
            ["ratio.anchor=rollout", "correction=truncate"],
            "ratio.anchor   ratio.anchor=rollout already divides by the engine's μ: "
            "use correction=none or ratio.anchor=old",
        ),
        (
            ["trainer.devices=3", "prompts_per_step=2"],
            "trainer.devices   3 devices share whole groups, and a step has 2; use at most 2, or more prompts_per_step",
        ),
        (["model.chat_template=no.jinja"], "model.chat_template   there is no file no.jinja"),
        (
            ["model=hf"],
            "model.path   say which model: model.path=FOLDER, or a hub id such as "
            "model.path=Qwen/Qwen2.5-0.5B-Instruct",
        ),
        (
            ["model=hf", "model.path=/no/such/model"],
            "model.path   there is no folder /no/such/model; give a Hugging Face model folder or a hub id",
        ),
        (
            ["trainer=cpu", "model.attn_implementation=flash_attention_2"],
            "model.attn_implementation   flash_attention_2 runs on gpus only; use sdpa or auto with trainer=cpu",
        ),
    ],
)
def test_refused(composer: Composer, arguments: list[str], sentence: str) -> None:
    assert said(composer, *arguments) == sentence


def test_a_correction_refuses_truncated_sampling(composer: Composer) -> None:
    others = [name for name in composer.groups["correction"] if name != "none"]
    assert others
    for name in others:
        text = said(composer, f"correction={name}", "sampling.min_p=0.1")
        assert text == (
            "sampling.min_p   0.1 makes log μ another distribution's than log π, and it is read by "
            f"correction={name} (use correction=none); or sample with sampling.min_p=0"
        )


def test_truncated_sampling_alone_is_one_warning(composer: Composer) -> None:
    assert warnings(made(composer)) == []
    found = warnings(made(composer, "sampling.top_p=0.9", "sampling.top_k=50"))
    assert len(found) == 1
    assert found[0].startswith("sampling.top_p=0.9 and sampling.top_k=50: completions come from a truncated")


def test_ends_of_a_run(composer: Composer) -> None:
    assert made(composer).max_steps == 100
    assert made(composer, "data.passes=2").max_steps is None
    assert made(composer, "budget.generated_tokens=1000").max_steps is None
    assert made(composer, "budget.generated_tokens=1000", "max_steps=5").max_steps == 5
    assert made(composer, "schedule=cosine", "schedule.unit=tokens", "budget.generated_tokens=9").max_steps is None


def test_rhythms_of_evaluation(composer: Composer) -> None:
    config = made(composer, "eval.every_tokens=1000")
    assert (config.eval.every, config.eval.every_tokens) == (None, 1000)


def test_short_runs_are_only_warned_by_the_preflight(composer: Composer) -> None:
    assert made(composer, "max_steps=10").preflight_mode == "warn"
    assert made(composer, "max_steps=10", "preflight=off").preflight_mode == "off"
    assert made(composer).preflight_mode == "strict"


def test_two_grpo_has_groups_of_two(tmp_path: Path) -> None:
    # Its own small overlay: what is tested is the rule, whatever else the algorithm chooses.
    (tmp_path / "algo" / "chapter").mkdir(parents=True)
    for name in ("two_grpo", "chapter/two_grpo"):
        (tmp_path / "algo" / f"{name}.yaml").write_text(f"# @package _global_\nname: {name}\ngroup_size: 2\n")
        own = Composer(tmp_path)
        assert made(own, f"algo={name}").group_size == 2
        assert said(own, f"algo={name}", "group_size=8") == (
            f"group_size   {name} is GRPO with two completions per prompt; "
            f"drop group_size=8, or drop +algo={name} to train GRPO with 8"
        )


def test_output_dir_must_be_writable(composer: Composer, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    text = said(composer, f"output_dir={file}/runs")
    assert text == f"output_dir   cannot write to {file}/runs: {file} is a file; choose another folder"
    assert made(composer, f"output_dir={tmp_path}/new/runs").output_dir == f"{tmp_path}/new/runs"
    assert not (tmp_path / "new").exists()


def test_output_dir_without_permission(composer: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "grpo.config.crosscheck.os.access", lambda path, mode: path != tmp_path
    )  # root may write anywhere
    text = said(composer, f"output_dir={tmp_path}/runs")
    assert text == f"output_dir   cannot write to {tmp_path}/runs: no permission in {tmp_path}; choose another folder"


def test_model_folders(composer: Composer, tmp_path: Path) -> None:
    text = said(composer, "model=hf", f"model.path={tmp_path}")
    assert text == f"model.path   {tmp_path} has no config.json, so it is no Hugging Face model folder"
    (tmp_path / "config.json").write_text("{}")
    assert made(composer, "model=hf", f"model.path={tmp_path}").model.path == str(tmp_path)
    assert made(composer, "model=hf", "model.path=Qwen/Qwen2.5-7B-Instruct").model.path == "Qwen/Qwen2.5-7B-Instruct"


def test_a_bare_off_in_a_file_is_no_false(tmp_path: Path) -> None:
    from omegaconf import OmegaConf

    (tmp_path / "preset").mkdir()
    (tmp_path / "preset" / "quiet.yaml").write_text("# @package _global_\npreflight: off\n")
    config, resolved = load(["preset=quiet"], Composer(tmp_path))
    assert config.preflight == "off"
    OmegaConf.save(OmegaConf.create(resolved), tmp_path / "config.yaml")
    assert read(tmp_path / "config.yaml") == (config, resolved)


def test_pure_bfloat16_at_a_small_learning_rate_is_warned_of(composer: Composer) -> None:
    # bfloat16: 1 + 1/512 = 1, so AdamW's steps of about 1e-6 vanish in weights above 5e-4.
    (found,) = warnings(made(composer, "model.dtype=bfloat16", "optimizer.lr=1e-6"))
    assert found.startswith("model.dtype=bfloat16 loses updates smaller than 0.2 % of a weight")
    assert warnings(made(composer, "model.dtype=bfloat16", "optimizer.lr=1e-3")) == []


def test_no_more_devices_than_gpus(composer: Composer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    sentence = "trainer.devices   there are 2 GPUs here, not 3; use 2, or trainer=cpu"
    for trainer in ("auto", "gpu", "ddp"):
        assert said(composer, f"trainer={trainer}", "trainer.devices=3") == sentence
        assert made(composer, f"trainer={trainer}", "trainer.devices=2").trainer.devices == 2
    assert made(composer, "trainer=cpu", "trainer.devices=3").trainer.devices == 3
    # auto is all of them, of which each needs a group.
    sentence = (
        "trainer.devices   2 devices share whole groups, and a step has 1; use at most 1, or more prompts_per_step"
    )
    assert said(composer, "trainer=ddp", "prompts_per_step=1") == sentence
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert made(composer, "trainer=gpu", "trainer.devices=3").trainer.devices == 3  # a plan for another machine
