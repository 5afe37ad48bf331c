"""The default run, `python -m grpo`, for three seeds: held-out accuracy before and after.

python experiments/default_run/run.py                   # trains (some minutes), then reports
python experiments/default_run/run.py --report-only     # figure and table from results/
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from experiments import common  # noqa: E402

OVERRIDES = ["logger=none", "checkpoint.export=false"]
K, TEST_K = 4, 8
TITLE = "python -m grpo: the tiny policy on two-digit addition, GRPO, 16 prompts × 8 completions"

if __name__ == "__main__":
    common.command(HERE, __doc__, OVERRIDES, seeds=(0, 1, 2), jobs=1, title=TITLE, k=K, test_k=TEST_K)
