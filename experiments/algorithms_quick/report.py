"""The report of the quick sweep over all algorithms, from the records of its 48 runs.

    python -m grpo.sweep algorithms profile=quick        # the runs: about 25 minutes on 2 cores
    python experiments/algorithms_quick/report.py        # the report again, from records.tar.xz beside this file

records.tar.xz holds sweep.json and, of each run, everything the report reads (samples of seed 0 only). Three seeds, no
tuning: points and intervals, no verdict.
"""

from __future__ import annotations

import contextlib
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SWEEP = Path("runs/sweeps/algorithms-566e23ab")
"""Where the runs were; the page's commands name this folder."""


def unpack(folder: Path) -> Path:
    """The sweep below `folder` as it was, without weights."""
    with tarfile.open(HERE / "records.tar.xz") as archive:
        archive.extractall(folder / SWEEP, filter="data")
    return folder / SWEEP


def main() -> int:
    """Write report.html, report.md, table.tex, summary.csv and the figures (as PNG) beside this file."""
    from grpo.report.__main__ import main as report

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        unpack(Path(folder))
        code = report([str(SWEEP), "--out", str(HERE)])
    for vector in (HERE / "figures").glob("*.pdf"):  # a paper's; 2 MB that the pages here do not show
        vector.unlink()
    return code


if __name__ == "__main__":
    sys.exit(main())
