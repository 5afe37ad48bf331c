"""Every option composes and passes the schema; a user's own folder and classes work; names and hashes are stable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo.config import overrides, trl_table
from grpo.config.check import check, load
from grpo.config.compose import Composer, conf_dir
from grpo.config.hashing import UNHASHED, algorithm_hash, config_hash
from grpo.config.keys import names_in, node_class
from grpo.config.naming import folder_name
from grpo.config.schema import AXES, COMPONENTS, RunConfig
from grpo.config.sizes import sizes
from grpo.errors import ConfigError
from grpo.rollout import vllm_version

COMPOSER = Composer()
OPTIONS = [(group, option) for group, options in COMPOSER.groups.items() for option in options]


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_every_option_is_a_valid_configuration(group: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_version, "installed", lambda: "0.32.0")  # rollout=vllm, and the presets that choose it
    tiny = conf_dir().parent / "src/grpo/models/tiny"
    needed = {
        "replay": [f"rollout.path={conf_dir()}"],
        "hf": ["model.path=org/name"],
        "smollm2": [f"model.path={tiny}"],
        "dataset": ["task.path=data.jsonl"],
        "own": ["reward.functions.own._target_=os.path.exists"],
        "model": [f"reward.functions.model.path={tiny}"],
        "code": ["reward.functions.code.allow_code_execution=true"],
        "parts/boxed": ["task=gsm8k"],
    }
    extra = ["ratio=token_rollout"] if "topk" in option else needed.get(option, [])
    config, resolved = load([f"{group}={option}", *extra], COMPOSER)
    assert config.choices[group] == option
    again, same = check(resolved)
    assert (again, same) == (config, resolved)  # what is saved is read back


def test_yaml_and_schema_agree() -> None:
    plain = COMPOSER.compose(())
    assert set(plain) == set(RunConfig.model_fields) - {"overrides"}
    for name in names_in(RunConfig):
        node = node_class(RunConfig, name)
        if node is not None:
            assert set(plain[name]) == set(names_in(node, f"{name}.")), name


def test_every_field_says_what_it_means() -> None:
    nodes = [RunConfig, *(n for name in RunConfig.model_fields if (n := node_class(RunConfig, name)))]
    for node in nodes:
        for name, field in node.model_fields.items():
            if node_class(node, name) is None and name not in AXES:
                assert field.description, f"{node.__name__}.{name}"


def test_no_key_that_yaml_reads_as_a_boolean() -> None:
    for file in conf_dir().rglob("*.yaml"):
        assert not re.search(r"(?m)^\s*['\"]?(n|y|on|off|yes|no)['\"]?\s*:", file.read_text()), file


def test_algorithms_only_choose() -> None:
    # A number written into a part's node would break `+algo=x surrogate=y`.
    for file in (conf_dir() / "algo").rglob("*.yaml"):
        text = file.read_text()
        keys = re.findall(r"(?m)^(\w+):", text)
        assert set(keys) <= {"defaults", "name", "source", "group_size", "model"}, file
        assert text.startswith("# @package _global_"), file


@pytest.mark.parametrize("written", ["algo=dapo", "+algo=dapo", "++algo=dapo"])
def test_three_spellings_of_an_overlay(written: str) -> None:
    words = overrides.read([written], COMPOSER)
    assert words.hydra_choices == ["+algo=dapo"]
    assert load([written], COMPOSER)[0].name == "dapo"


def test_what_hydra_is_given() -> None:
    arguments = ["+surrogate=clip", "++kl=none", "+group_size=4", "surrogate.high='0.3'"]
    words = overrides.read(arguments, COMPOSER)
    assert words.all == [
        "surrogate=clip",
        "kl=none",
        "++group_size=4",
        "++surrogate.high='0.3'",
    ]
    assert words.given == {"group_size", "surrogate.high"}


def test_subfolders_of_a_group_are_options(tmp_path: Path) -> None:
    (tmp_path / "algo" / "mine").mkdir(parents=True)
    (tmp_path / "algo" / "mine" / "a.yaml").write_text("# @package _global_\nname: mine/a\nsource: chapter\n")
    own = Composer(tmp_path)
    for written in ("algo=mine/a", "+algo=mine/a", "algo/mine=a", "+algo/mine=a"):
        config, _ = load([written], own)
        assert (config.name, config.source) == ("mine/a", "chapter")


def test_expand() -> None:
    jobs, mistakes = overrides.expand(["algo=grpo,dapo", "seed=range(2)", "group_size=4"], COMPOSER)
    assert mistakes == []
    assert jobs == [
        ["algo=grpo", "seed=0", "group_size=4"],
        ["algo=grpo", "seed=1", "group_size=4"],
        ["algo=dapo", "seed=0", "group_size=4"],
        ["algo=dapo", "seed=1", "group_size=4"],
    ]


OWN = """
from dataclasses import dataclass

def shouting(completions, loud=2.0, **columns):
    return [loud * text.isupper() for text in completions]

@dataclass(frozen=True)
class Gentle:
    slope: float = 1.0
    def __post_init__(self):
        if self.slope < 0:
            raise ValueError("slope must not be negative")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Composer:
    (tmp_path / "my_parts.py").write_text(OWN)
    (tmp_path / "conf" / "surrogate").mkdir(parents=True)
    (tmp_path / "conf" / "surrogate" / "gentle.yaml").write_text("_target_: my_parts.Gentle\nslope: 0.5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return Composer(tmp_path / "conf")


def test_a_part_of_ones_own(own: Composer) -> None:
    config, resolved = load(["surrogate=gentle", "surrogate.slope=0.25"], own)
    assert (config.name, config.surrogate.slope) == ("grpo+surrogate=gentle+surrogate.slope=0.25", 0.25)
    assert resolved["surrogate"] == {"_target_": "my_parts.Gentle", "slope": 0.25}
    assert check(resolved)[1] == resolved
    with pytest.raises(ConfigError, match=r"^surrogate   gentle says: slope must not be negative$"):
        load(["surrogate=gentle", "surrogate.slope=-1"], own)
    with pytest.raises(ConfigError, match=r"^surrogate.slop   gentle has slope; did you mean slope\?$"):
        load(["surrogate=gentle", "surrogate.slop=1"], own)


def test_a_reward_of_ones_own(own: Composer) -> None:
    added = "+reward.functions.loud={_target_: my_parts.shouting, weight: 0.5, loud: 3.0}"
    config, resolved = load([added], own)
    assert config.reward.weights == {"exact": 1.0, "loud": 0.5}
    assert config.reward.functions["loud"](completions=["A", "b"]) == [3.0, 0.0]
    assert check(resolved)[1] == resolved
    with pytest.raises(ConfigError, match=r"^reward.functions.loud.lod   shouting"):
        load([added.replace("loud: 3.0", "lod: 3.0")], own)


def test_conf_of_a_wheel_and_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo.config.compose.__file__", str(tmp_path / "src" / "grpo" / "config" / "compose.py"))
    with pytest.raises(ConfigError, match=r"^conf   is neither in .*grpo nor in .*; reinstall grpo-lab$"):
        conf_dir()
    for folder in (tmp_path / "conf", tmp_path / "src" / "grpo" / "conf"):  # the package's own comes first
        folder.mkdir(parents=True)
        (folder / "config.yaml").touch()
        assert conf_dir() == folder


def test_a_folder_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"^--config-dir   there is no folder no/where$"):
        Composer("no/where")


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([], "grpo"),
        (["seed=3", "group_size=4", "kl.coef=0.04", "surrogate=clip", "model.lr=1e-4", "task.digits=3"], "grpo"),
        (["surrogate.high=0.28"], "grpo+surrogate.high=0.28"),
        (["surrogate={high: 0.28}"], "grpo+surrogate.high=0.28"),
        (["surrogate=clip_higher"], "grpo+surrogate=clip_higher"),
        (["surrogate=clip_higher", "surrogate.low=0.1"], "grpo+surrogate=clip_higher+surrogate.low=0.1"),
        (["+algo=dapo"], "dapo"),
        (["+algo=dapo", "surrogate=clip_higher"], "dapo"),
        (["+algo=dapo", "surrogate=clip", "kl=k3"], "dapo+surrogate=clip+kl=k3"),
        (["+algo=dapo", "filter.by=reward"], "dapo+filter.by=reward"),
        (["+algo=dapo", "name=mine", "filter=none"], "mine"),
        (["surrogate.dual_c=3"], "grpo+surrogate.dual_c=3"),
    ],
)
def test_names(arguments: list[str], name: str) -> None:
    assert load(arguments, COMPOSER)[0].name == name


def test_folder_names() -> None:
    assert folder_name("chapter/dapo+surrogate.high=0.28") == "chapter-dapo+surrogate.high=0.28"
    assert folder_name("a b/../c") == "a_b-..-c"


def hashed(*arguments: str) -> str:
    return config_hash(load(arguments, COMPOSER)[1])


def test_hash_covers_what_changes_the_numbers() -> None:
    base = hashed()
    assert re.fullmatch(r"[0-9a-f]{8}", base)
    same = ["seed=7", "output_dir=elsewhere", "logger=none", "resume=auto", "log_every=5", "checkpoint.every=3"]
    same += ["samples_every=2", "preflight=off", "save_rollouts=true", "name=other", "sampling.temperature=1"]
    same += ["completions_per_step=128", "optimizer.lr=0.0003", "algo=grpo", "trainer.devices=2"]
    assert hashed(*same) == base
    other = ["max_steps=99", "group_size=4", "surrogate.high=0.3", "kl=none", "optimizer.lr=1e-4", "eval.samples=2"]
    other += ["task.digits=3", "sampling.temperature=0.9", "updates.minibatches=2", "model.dtype=float64"]
    assert len({base, *map(hashed, other)}) == len(other) + 1
    assert set(RunConfig.model_fields) >= UNHASHED


def test_hash_does_not_change_between_versions_unseen() -> None:
    # A changed hash here means that no old run can be resumed or found: say so in the CHANGELOG.
    node = {"group_size": 8, "sampling": {"temperature": 1.0}, "betas": (0.9, 0.999), "seed": 3, "cap": float("inf")}
    assert config_hash(node) == config_hash({**node, "seed": 4}) == "8c489f78"


def test_the_same_algorithm_by_another_name() -> None:
    def of(*arguments: str) -> str:
        return algorithm_hash(load(arguments, COMPOSER)[1])

    assert of() == of("algo=grpo", "group_size=4", "model.lr=1") == of("surrogate=clip_higher", "surrogate.high=0.2")
    assert of() != of("algo=dapo")


def test_sizes() -> None:
    config = load(["updates={epochs: 2, minibatches: 4}", "data.passes=1.5"], COMPOSER)[0]
    # (16 prompts × 8) in 4 minibatches, twice: 8 updates of 32; 2 training passes + log π_old + reference = 4 forwards
    got = sizes(config, needs_reference=True, train_questions=800)
    assert (got.updates_per_step, got.completions_per_update, got.prompts_per_minibatch) == (8, 32, 4)
    assert (got.forwards, got.backwards) == (4, 2)
    assert sizes(config, needs_reference=True, needs_old=False, bonus=True).forwards == 4
    assert (got.steps, got.passes) == (75, 1.5)  # 1.5 · 800 / 16
    assert sizes(load([], COMPOSER)[0], train_questions=800).passes == 2.0  # 100 · 16 / 800
    assert sizes(load([], COMPOSER)[0]).forwards == 1


def test_the_preset_is_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_version, "installed", lambda: "0.32.0")
    config, resolved = load(["+preset=chapter_listing"], COMPOSER)
    for row in trl_table.rows():
        if row["key"] is None or row["value"] is None:
            continue
        node = resolved
        for part in row["key"].split("."):
            node = node[part]
        assert node == row["value"], row["trl"]
    assert (config.completions_per_step, config.max_steps, config.choices["kl"]) == (128, None, "k3")
    assert config.reward.weights == {"math": 1.0, "boxed": 0.5}  # reward_fn, format_reward_fn
    assert load(["+preset=chapter_listing", "max_steps=3"], COMPOSER)[0].data.passes is None


def test_the_table_of_trl_keys() -> None:
    lines = trl_table.markdown().splitlines()
    assert len(lines) == len(trl_table.rows()) + 2
    assert "| `num_generations` | `8` | `group_size` | `8` | completions per prompt |" in lines
    known = {*names_in(RunConfig)}
    assert {key.split(".")[0] for key in trl_table.ours().values()} <= known | set(COMPONENTS)
