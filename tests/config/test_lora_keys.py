"""model.lora in the configuration: what it takes, what it refuses, its learning rate and its place in the hash."""

from __future__ import annotations

import pytest

from grpo.config.check import check, load
from grpo.config.compose import Composer
from grpo.config.hashing import config_hash
from grpo.errors import ConfigError
from grpo.help import text


def hash_of(composer: Composer, *arguments: str) -> str:
    return config_hash(load(arguments, composer)[1])


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("model.lora.dropout=0.1", "model.lora.dropout   0.1 makes log π differ from log μ"),
        ("model.lora.r=0", "model.lora.r   must be at least 1, not 0"),
        ("model.lora.alpha=0", "model.lora.alpha   must be greater than 0, not 0"),
        ("model.lora.rank=8", "model.lora.rank   model.lora has r, alpha, dropout, target_modules"),
        (
            "model.lora.target_modules=q_proj",
            "model.lora.target_modules   must be all-linear or a list of module names",
        ),
        ("model.lora.target_modules=[]", "model.lora.target_modules   must be all-linear or a list of module names"),
        ("lora_r=8", "lora_r   there is no such key; did you mean model.lora.r?"),
    ],
)
def test_mistakes(argument: str, sentence: str, composer: Composer) -> None:
    with pytest.raises(ConfigError) as caught:
        load([argument], composer)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "lr"),
    [
        ([], 3e-4),
        (["model.lora.r=8"], 3e-3),  # 10 × model.lr
        (["model.lora.r=8", "model.lr=1e-5"], 1e-4),
        (["model.lora.r=8", "optimizer.lr=2e-5"], 2e-5),
        (["model=hf", "model.path=x/y", "model.lora.r=8"], 1e-5),
    ],
)
def test_an_adapter_gets_ten_times_the_learning_rate(arguments: list[str], lr: float, composer: Composer) -> None:
    config, resolved = load(arguments, composer)
    assert config.optimizer.lr == lr
    assert check(resolved)[0].optimizer.lr == lr  # read back from a run's config.yaml


def test_lists_of_modules(composer: Composer) -> None:
    config, resolved = load(["model.lora.r=4", "model.lora.target_modules=[q_proj,v_proj]"], composer)
    assert config.model.lora.target_modules == ("q_proj", "v_proj")
    assert resolved["model"]["lora"]["target_modules"] == ["q_proj", "v_proj"]
    assert check(resolved)[0] == config


def test_the_hash_covers_the_adapter_and_only_when_there_is_one(composer: Composer) -> None:
    rank = [hash_of(composer, f"model.lora.r={r}", "optimizer.lr=1e-3") for r in (4, 8)]
    assert len({hash_of(composer, "optimizer.lr=1e-3"), *rank}) == 3
    assert hash_of(composer, "model.lora.r=4", "model.lora.alpha=32", "optimizer.lr=1e-3") != rank[0]
    # Without an adapter its scale changes no number, and runs older than the key keep their hash.
    assert hash_of(composer, "model.lora.alpha=32") == hash_of(composer)
    plain = load([], composer)[1]
    older = {**plain, "model": {k: v for k, v in plain["model"].items() if k != "lora"}}
    assert config_hash(older) == config_hash(plain)


def test_help_lists_the_inner_keys(composer: Composer) -> None:
    lines = text(composer).splitlines()
    assert any(line.startswith("  model.lora.r=null ") and "Rank" in line for line in lines)
    assert any(line.startswith("  model.lora.target_modules=all-linear ") for line in lines)
