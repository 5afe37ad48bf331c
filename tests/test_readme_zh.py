"""README.zh.md: its tables are those of the code, its commands are the English page's, its example is real."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from experiments.readme import algorithms, chinese, tables

from grpo.config.check import load
from grpo.explain.__main__ import main
from grpo.recording.metrics import METRICS

REPOSITORY = Path(__file__).resolve().parents[1]
CHINESE = (REPOSITORY / "README.zh.md").read_text(encoding="utf-8")
ENGLISH = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_generated_tables_are_up_to_date() -> None:
    assert tables.rendered(CHINESE) == CHINESE, "run make tables"


def test_chinese_texts_belong_to_something() -> None:
    texts = chinese.texts()
    assert set(texts["algorithms"]) <= set(algorithms.names())
    assert set(texts["metrics"]) <= {metric.name for metric in METRICS}
    assert set(texts["sections"]) <= {metric.section for metric in METRICS}


def test_the_commands_are_those_of_the_english_page() -> None:
    """The same words in the same order, whatever is said about them."""

    def words(text: str) -> list[str]:
        table = text.split("| `+algo=dapo`", 1)[1] if "| `+algo=dapo`" in text else text
        return [re.sub("<.*?>", "<>", word) for word in re.findall(r"`([^`]+)`", table.split("\n\n", 1)[0])]

    assert words(CHINESE) == words(ENGLISH)


@pytest.mark.parametrize("line", re.findall(r"^    python -m grpo(?![.\w])(.*?)(?: {2,}#.*)?$", CHINESE, re.MULTILINE))
def test_every_command_is_accepted(line: str) -> None:
    load(shlex.split(line))


def test_the_example_is_what_the_program_prints(capsys: pytest.CaptureFixture[str]) -> None:
    ((command, output),) = re.findall(r"```\n\$ python -m grpo\.explain (.*?)\n(.*?)```", CHINESE, flags=re.DOTALL)
    assert main(shlex.split(command)) == 0
    shown = [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]
    assert shown == [line.rstrip() for line in output.strip().splitlines()]


def test_files_named_in_it_exist() -> None:
    for path in re.findall(r"\]\(([^)#]+)\)", CHINESE):
        assert "://" in path or (REPOSITORY / path).exists(), path
