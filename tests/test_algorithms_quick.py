"""experiments/algorithms_quick: what stands there is what its records give."""

from __future__ import annotations

from pathlib import Path

from experiments.algorithms_quick.report import HERE, SWEEP, unpack

from grpo.report import latex, summary
from grpo.report.findings import findings
from grpo.report.reading import load


def test_table_and_numbers_are_those_of_the_records(tmp_path: Path) -> None:
    sweep = load(unpack(tmp_path))
    assert len(sweep.runs) == 16 * 3
    assert summary.text(sweep) == (HERE / "summary.csv").read_text(encoding="utf-8")
    assert latex.text(findings(sweep)) == (HERE / "table.tex").read_text(encoding="utf-8")


def test_the_commands_of_the_page_name_the_folder_of_the_sweep() -> None:
    assert f"python -m grpo.report {SWEEP} --only forest" in (HERE / "report.html").read_text(encoding="utf-8")
