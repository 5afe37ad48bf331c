"""The head comments of conf/algo/ are pages: formula, paper, difference; and the README's tables are made of them."""

from __future__ import annotations

import pytest
import torch
from experiments.atlas import draw
from experiments.readme import algorithms

from grpo.config.compose import Composer, conf_dir
from grpo.pages import page

NAMES = algorithms.names()


@pytest.mark.parametrize("name", NAMES)
def test_every_page_has_title_and_formula(name: str) -> None:
    about = page(name)
    assert about.title
    assert about.formula
    text = (conf_dir() / "algo" / f"{name}.yaml").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 20
    if name.startswith("chapter/"):
        assert "chapter 7 of H. Roitman, The Hitchhiker's Guide to Agentic AI" in text


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("chapter/") and n != "chapter/grpo"])
def test_both_forms_say_how_the_other_differs(name: str) -> None:
    assert page(name).differs.startswith("published")
    assert page(name.removeprefix("chapter/")).differs.startswith("the chapter")


def test_tables_have_a_row_for_every_algorithm() -> None:
    assert algorithms.parts_table().count("\n") == 1 + len(NAMES)
    assert algorithms.table().count("\n") == 1 + sum("/" not in name for name in NAMES)
    assert algorithms.row("dapo")["surrogate"] == "clip(0.20, 0.28)"


def test_the_atlas_meets_at_one() -> None:
    """At ρ = 1 every published surrogate is REINFORCE, w = A; the chapter's SAPO ½ + ¼ = 0.75, its DPPO π_old = 0.2."""
    composer, one = Composer(), torch.ones(1, dtype=torch.float64)
    for panel in draw.PANELS:
        assert float(draw.weights(panel.published, one, 1.0, composer)) == pytest.approx(1.0)
        assert float(draw.weights(panel.published, one, -1.0, composer)) == pytest.approx(-1.0)
    assert float(draw.weights("chapter/sapo", one, 1.0, composer)) == pytest.approx(0.75)
    assert float(draw.weights("chapter/dppo", one, 1.0, composer)) == pytest.approx(0.2)
