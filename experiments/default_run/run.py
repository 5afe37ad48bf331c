"""The default run, `python -m grpo`, for three seeds: held-out accuracy before and after.

python experiments/default_run/run.py                   # trains (some minutes), then reports
python experiments/default_run/run.py --report-only     # figure and table from results/
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from experiments import common  # noqa: E402

OVERRIDES = ["logger=none", "checkpoint.export=false"]
K, TEST_K = 4, 8


def main() -> None:
    """Train what is missing, keep its numbers, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("runs/default_run"), help="folder of the run folders")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time; the cores are shared among them")
    parser.add_argument("--report-only", action="store_true")
    arguments = parser.parse_args()
    if not arguments.report_only:
        common.train(OVERRIDES, arguments.seeds, arguments.runs, jobs=arguments.jobs)
        for seed, folder in common.finished(arguments.runs).items():
            common.keep(folder, HERE / "results" / f"seed{seed}")
    common.report(
        HERE, "python -m grpo: the tiny policy on two-digit addition, GRPO, 16 prompts × 8 completions", K, TEST_K
    )


if __name__ == "__main__":
    main()
