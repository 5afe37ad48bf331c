"""The example of CONTRIBUTING.md, run as it stands there."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch

from grpo.algorithm.form import build
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.data import Tokens
from grpo.errors import ConfigError

PAGE = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture
def composer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Composer:
    """The page's files, written word for word where the line before each says."""
    for name, text in re.findall(r"`(\S+)`:\n\n```(?:python|yaml)\n(.*?)```", PAGE, flags=re.DOTALL):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return Composer(tmp_path / "my_conf")


def test_the_variant_computes_its_equation(composer: Composer) -> None:
    config, _ = load(["+algo=tanh_grpo", "updates.minibatches=4", "surrogate.c=3"], composer)
    assert config.name.startswith("tanh_grpo")
    objective = build(config)
    assert "tanh_cap(3)" in objective.describe()
    # One group of two completions of one token, A = ±1, ρ = 2 and 1:
    # J = 3 tanh(2/3) and −3 tanh(1/3); the loss is minus their mean
    tokens = Tokens(
        logp=torch.tensor([[math.log(0.8)], [math.log(0.5)]], dtype=torch.float64),
        logp_old=torch.tensor([[math.log(0.4)], [math.log(0.5)]], dtype=torch.float64),
        mask=torch.tensor([[True], [True]]),
        advantages=torch.tensor([1.0, -1.0], dtype=torch.float64),
        groups=torch.tensor([0, 0]),
    )
    loss = objective(tokens, objective.totals(tokens.mask, tokens.groups, 1)).loss
    assert float(loss) == pytest.approx(-(3 * math.tanh(2 / 3) - 3 * math.tanh(1 / 3)) / 2, rel=1e-12)


def test_a_misspelt_number_of_it_is_refused(composer: Composer) -> None:
    with pytest.raises(ConfigError, match="tanh_cap has c; did you mean c\\?"):
        load(["+algo=tanh_grpo", "surrogate.cc=3"], composer)
    with pytest.raises(ConfigError, match=r"surrogate\.c   must be"):
        load(["+algo=tanh_grpo", "surrogate.c=-1"], composer)
