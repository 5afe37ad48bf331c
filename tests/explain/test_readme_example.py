"""The README's section "An algorithm explains itself": its output is what the program prints, its commands work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from grpo.explain.__main__ import main

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
SECTION = README.split("## An algorithm explains itself\n", 1)[1].split("\n## ", 1)[0]


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_output_is_what_the_program_prints(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```\n\$ python -m grpo\.explain (.*?)\n(.*?)```", SECTION, flags=re.DOTALL)
    assert blocks
    for command, output in blocks:
        assert main(shlex.split(command)) == 0
        assert lines(capsys.readouterr().out) == lines(output)


@pytest.mark.parametrize("command", re.findall(r"^    python -m grpo\.explain (.*)$", SECTION, flags=re.MULTILINE))
def test_the_commands_work(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, _, said = command.partition("#")
    assert main(shlex.split(words.replace("mine.json", "figure_7_1"))) == 0
    assert said.strip() in capsys.readouterr().out
