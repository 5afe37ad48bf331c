"""The README's outputs of `python -m grpo.probe` are what the program prints."""

from __future__ import annotations

import pytest
from experiments.readme import examples, pages

README = (pages.REPOSITORY / "README.md").read_text(encoding="utf-8")
BLOCKS = [(b[2], b[3]) for b in examples.blocks(README) if b[1] == "grpo.probe"]


@pytest.mark.parametrize(("command", "printed"), BLOCKS, ids=[command for command, _ in BLOCKS])
def test_the_output_is_what_the_program_prints(command: str, printed: str) -> None:
    if "reasoning_gym" in command:
        pytest.importorskip("reasoning_gym")
    assert examples.output("grpo.probe", command) == printed, "run python -m experiments.readme.examples --write"
