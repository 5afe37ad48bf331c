"""SmolLM2-135M-Instruct on English word problems: GRPO, 60 steps of 4 prompts × 8, two seeds.

    make smollm2 && python experiments/smollm2_words/run.py      # trains (an hour or two), then reports
    python experiments/smollm2_words/run.py --report-only               # figure and table from results/

GRPO without the KL penalty (kl=none), so that no reference model is needed; everything else is the base configuration.
"""

from __future__ import annotations

import argparse
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


def main() -> None:
    """Train what is missing, keep its numbers, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--runs", type=Path, default=Path("runs/smollm2_words"), help="folder of the run folders")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time; the cores are shared among them")
    parser.add_argument("--report-only", action="store_true")
    arguments = parser.parse_args()
    if not arguments.report_only:
        common.train(OVERRIDES, arguments.seeds, arguments.runs, jobs=arguments.jobs)
        for seed, folder in common.finished(arguments.runs).items():
            common.keep(folder, HERE / "results" / f"seed{seed}")
    common.report(HERE, "SmolLM2-135M-Instruct on words (level 1), GRPO, 4 prompts × 8 completions", K, TEST_K)


if __name__ == "__main__":
    main()
