"""Components inside components: reward.functions.<name>.of."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.config.check import check, load
from grpo.config.components import build
from grpo.config.compose import Composer, conf_dir
from grpo.errors import ConfigError
from grpo.rewards.distort import Distorted
from grpo.rewards.exact import Exact
from grpo.rewards.graded import Digits

OF = "reward.functions.distorted.of"
NEEDED = {
    "own": ["reward.functions.own._target_=tests.helpers.digits"],
    "model": ["reward.functions.model.path=somewhere/reward-model"],
    "code": ["reward.functions.code.allow_code_execution=true"],
}
"""What a file leaves to the user."""


def said(*arguments: str, composer: Composer) -> str:
    with pytest.raises(ConfigError) as caught:
        load(["reward=distorted", *arguments], composer)
    return str(caught.value)


def test_the_inner_component_is_built_and_saved_with_its_defaults(composer: Composer) -> None:
    config, resolved = load(["reward=distorted", f"{OF}.extract=last_number"], composer)
    made = config.reward.functions["distorted"]
    assert isinstance(made, Distorted)
    assert made.of == Digits(extract="last_number")
    inner = resolved["reward"]["functions"]["distorted"]["of"]
    assert inner == {"_target_": "grpo.rewards.graded.Digits", "extract": "last_number"}
    assert check(resolved)[1] == resolved


def test_a_plain_function_inside() -> None:
    node = {"_target_": "tests.helpers.constant", "value": 2.0}
    made, mistakes = build({"_target_": "grpo.rewards.distort.Distorted", "of": node, "shape": "cube"}, "key")
    assert mistakes == []
    assert made(["q"], ["o"]) == [8.0]
    assert node["value"] == 2.0
    _, mistakes = build({"_target_": "grpo.rewards.distort.Distorted", "of": {**node, "velue": 1}}, "key")
    assert [str(m.key) for m in mistakes] == ["key.of.velue"]


def test_another_component_on_the_command_line(composer: Composer) -> None:
    config, _ = load(["reward=distorted", f"{OF}._target_=grpo.rewards.exact.Exact"], composer)
    assert config.reward.functions["distorted"].of == Exact()


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        (f"{OF}.extrakt=boxed", f"{OF}.extrakt   digits has extract; did you mean extract?"),
        (f"+{OF}.extrakt=boxed", f"{OF}.extrakt   digits has extract; did you mean extract?"),
        (
            f"{OF}.extract=last",
            f"{OF}.extract   must be boxed, last_number or boxed_or_last_number, not last; did you mean last_number?",
        ),
        (f"{OF}._target_=grpo.rewards.exact.Exat", f"{OF}._target_   grpo.rewards.exact has no Exat"),
        (f"{OF}=3", f"{OF}   input should be callable, not 3"),
    ],
)
def test_mistakes_name_the_inner_key(argument: str, sentence: str, composer: Composer) -> None:
    assert sentence in said(argument, composer=composer)


def test_every_reward_file_loads_and_reads_back(composer: Composer) -> None:
    files = sorted(file.stem for file in Path(conf_dir(), "reward").glob("*.yaml"))
    assert {"multi", "format", "length", "cosine", "distorted"} <= set(files)
    for name in files:
        config, resolved = load([f"reward={name}", *NEEDED.get(name, [])], composer)
        assert check(resolved)[1] == resolved, name
        assert config.reward.accuracy in config.reward.functions, name
