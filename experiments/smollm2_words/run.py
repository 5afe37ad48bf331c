"""SmolLM2-135M-Instruct on English word problems: GRPO, 60 steps of 4 prompts × 8, two seeds.

    make smollm2 && python experiments/smollm2_words/run.py      # trains (an hour or two), then reports
    python experiments/smollm2_words/run.py --report-only               # figure and table from results/

GRPO without the KL penalty (kl=none), so that no reference model is needed; everything else is the base configuration.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from experiments import common  # noqa: E402

OVERRIDES = [
    "model=smollm2",
    "task=words",
    "kl=none",
    "prompts_per_step=4",
    "group_size=8",
    "max_steps=60",
    "tokens_per_microbatch=1024",
    "optimizer.lr=2e-5",
    "eval.every=20",
    "eval.questions=64",
    "eval.samples=4",
    "eval.test_questions=128",
    "eval.test_samples=4",
    "checkpoint.every=20",
    "checkpoint.keep=1",
    "checkpoint.export=false",
    "logger=none",
]
K, TEST_K = 4, 4
TITLE = "SmolLM2-135M-Instruct on words (level 1), GRPO, 4 prompts × 8 completions"

if __name__ == "__main__":
    common.command(HERE, __doc__, OVERRIDES, seeds=(0, 1), jobs=2, title=TITLE, k=K, test_k=TEST_K)
