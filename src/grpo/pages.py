"""What an algorithm's file says of itself in its head comment: the page of conf/algo/<name>.yaml.

# CISPO, MiniMax-M1, arXiv:2506.13585 (2025), eq. 4–5.     the title: name, source, paper
#   J = 1/Σ|o| Σ_it sg[min(ρ, cap)] · A · log π            indented: the formula
# Differs: the chapter clips the objective ...             how the other form of the same name differs
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from grpo.config.compose import conf_dir

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Page:
    """The arXiv id of the title line, how the other form differs, the title line, its formula's lines; or empty."""

    paper: str = ""
    differs: str = ""
    title: str = ""
    formula: tuple[str, ...] = ()


def page(algorithm: str, folder: Path | None = None) -> Page:
    """The page of conf/algo/<algorithm>.yaml, read from `folder` or from the package's conf/."""
    file = (folder or conf_dir()) / "algo" / f"{algorithm}.yaml"
    if not file.is_file():
        return Page()
    lines = file.read_text(encoding="utf-8").splitlines()
    head = [line[1:] for line in lines if line.startswith("#") and "@package" not in line]
    title = head[0].strip() if head else ""
    paper = re.search(r"arXiv:\d{4}\.\d{4,5}", title)
    differs = next((line.split(":", 1)[1].strip() for line in head if line.startswith(" Differs:")), "")
    formula = tuple(part for line in head if line.startswith("   ") for part in re.split(r" {6,}", line.strip()))
    return Page(paper.group() if paper else "", differs, title, formula)
