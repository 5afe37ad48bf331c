"""The W&B sweep file: what an agent would pass is accepted, in every form in which W&B passes it."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

import grpo.cli
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.config.schema import AXES, RunConfig
from grpo.errors import ConfigError

FILES = sorted((Path(__file__).parents[2] / "sweeps").glob("wandb_*.yaml"))


def choices(file: Path) -> dict[str, list[Any]]:
    """Parameter → its values."""
    parameters = yaml.safe_load(file.read_text(encoding="utf-8"))["parameters"]
    return {name: node.get("values", [node.get("value")]) for name, node in parameters.items()}


def words(point: dict[str, Any], form: str = "args_no_hyphens") -> list[str]:
    """The words that `wandb agent` puts in place of ${form}."""
    return create_sweep_command_args({"args": {name: {"value": value} for name, value in point.items()}})[form]


def at(resolved: Any, key: str) -> Any:
    for part in key.split("."):
        resolved = resolved[part]
    return resolved


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_every_combination_is_a_run(file: Path) -> None:
    given = choices(file)
    every = [dict(zip(given, values, strict=True)) for values in product(*given.values())]
    seen, composer = set(), Composer()
    for point in every:
        config, resolved = load(words(point), composer)
        assert config.name == point["algo"]
        assert {key: at(resolved, key) for key in point if key != "algo"} == {
            k: v for k, v in point.items() if k != "algo"
        }
        seen.add((config.name, config.optimizer.lr, config.seed))
    assert len(seen) == len(every)


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_file_is_what_wandb_reads(file: Path) -> None:
    sweep = yaml.safe_load(file.read_text(encoding="utf-8"))  # as W&B does
    assert sweep["command"] == ["${env}", "python", "-m", "grpo", "${args_no_hyphens}"]
    assert sweep["metric"]["goal"] in ("maximize", "minimize")
    samples = load([])[0].eval.samples
    assert sweep["metric"]["name"] == f"validation/avg@{samples}"
    numbers = [value for values in choices(file).values() for value in values]
    assert not [value for value in numbers if isinstance(value, str) and value[0].isdigit()]  # 1e-4 would be text
    assert not [name for name in sweep["parameters"] if name.startswith(("+", "-", "~"))]


@pytest.mark.parametrize(
    ("key", "value", "word", "read"),
    [
        ("optimizer.lr", 0.0001, "optimizer.lr=0.0001", 1e-4),
        ("optimizer.lr", 0.00001, "optimizer.lr=1e-05", 1e-5),
        ("optimizer.lr", "1e-6", "optimizer.lr=1e-6", 1e-6),  # what YAML 1.1 made of 1e-6
        ("eval.greedy", True, "eval.greedy=True", True),
        ("eval.greedy", False, "eval.greedy=False", False),
        ("eval.greedy", "false", "eval.greedy=false", False),
        ("max_steps", 7, "max_steps=7", 7),
        ("samples_every", "null", "samples_every=null", None),
        ("logger.tags", ["a", "b"], "logger.tags=['a', 'b']", ["a", "b"]),
    ],
)
def test_a_value_arrives_as_the_type_it_was(key: str, value: Any, word: str, read: Any) -> None:
    assert words({key: value}) == [word]
    found = at(load([word])[1], key)
    assert (found, type(found)) == (read, type(read))


def test_an_agent_that_resumes_writes_dashes_and_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    dashed = words({"algo": "dapo", "seed": 1}, "args")
    assert dashed == ["--algo=dapo", "--seed=1"]
    with pytest.raises(ConfigError) as told:
        grpo.cli._main(dashed)
    assert "--algo   there is no such option; keys are written without dashes: algo=dapo" in str(told.value)
    assert "keys are written without dashes: seed=1" in str(told.value)


def test_no_key_is_a_yaml_1_1_boolean() -> None:
    def keys(node: Any) -> set[str]:
        return {key for k, v in node.items() for key in (str(k), *keys(v))} if isinstance(node, dict) else set()

    names = keys(load([])[1]) | set(RunConfig.model_fields) | set(AXES)
    assert not {name for name in names if name.lower() in {"n", "y", "on", "off", "yes", "no", "true", "false"}}
