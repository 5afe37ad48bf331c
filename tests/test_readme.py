"""The README: its tables are those of the code, and its commands are accepted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from experiments.readme import tables

from grpo.config.check import load

REPOSITORY = Path(__file__).resolve().parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_generated_tables_are_up_to_date() -> None:
    assert tables.rendered(README) == README, "run make tables"


def commands() -> list[str]:
    """Every `python -m grpo …` line of the README that names one configuration."""
    found = re.findall(r"^    (?:\.venv/bin/)?python -m grpo(?![.\w])(.*?)(?: {2,}#.*)?$", README, flags=re.MULTILINE)
    return [line for line in found if "--" not in line and " -m" not in f" {line}"]


@pytest.mark.parametrize("line", commands())
def test_every_command_is_accepted(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my_rewards.py").write_text("def short(completions, answer, limit=20, **columns):\n    return [0.0]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    config, _ = load(shlex.split(line))
    assert config.group_size >= 2


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z0-9]+)\b", README)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_files_named_in_the_readme_exist() -> None:
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in path:
            assert (REPOSITORY / path).exists(), path
