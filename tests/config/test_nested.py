"""Components inside components: reward.functions.<name>.of."""

from __future__ import annotations

import pytest

from grpo.config.check import check, load
from grpo.config.components import build
from grpo.config.compose import Composer
from grpo.errors import ConfigError
from grpo.rewards.distort import Distorted
from grpo.rewards.exact import Exact
from grpo.rewards.graded import Digits

OF = "reward.functions.distorted.of"
FILES = ("format", "format_chapter", "think", "multi", "length", "length_relative", "repetition", "cosine")
FILES += ("multi_math", "digits", "distance", "distorted")


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
        (f"{OF}.extract=boksed", f"{OF}.extract   must be boxed, "),
        (f"{OF}._target_=grpo.rewards.exact.Exat", f"{OF}._target_   grpo.rewards.exact has no Exat"),
        (f"{OF}=3", f"{OF}   input should be callable, not 3"),
    ],
)
def test_mistakes_name_the_inner_key(argument: str, sentence: str, composer: Composer) -> None:
    assert sentence in said(argument, composer=composer)


@pytest.mark.parametrize("name", FILES)
def test_reward_files_load_and_read_back(name: str, composer: Composer) -> None:
    config, resolved = load([f"reward={name}"], composer)
    assert check(resolved)[1] == resolved
    assert config.reward.accuracy in config.reward.functions
    assert set(config.reward.weights) == set(config.reward.functions)
