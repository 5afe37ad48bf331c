"""`python -m grpo.sweep clip_high`: a question that was written down before, all its runs, and where its report is.

    python -m grpo.sweep --list                                   the questions there are
    python -m grpo.sweep clip_high --plan                         what would run; nothing is written
    python -m grpo.sweep clip_high profile=quick                  three seeds, no tuning, no verdict
    python -m grpo.sweep clip_high seeds=range(20) margin=0.02    keys of the question are edited
    python -m grpo.sweep clip_high task=words --jobs 4            every other word is an override of all arms
    python -m grpo.sweep mine.yaml hydra/launcher=submitit_slurm hydra.launcher.timeout_min=120

The same command again runs only what is missing or unfinished. Exit code 1 where a job failed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grpo.cli import guarded, see_own_modules, side_parser
from grpo.config.compose import Composer
from grpo.errors import ConfigError, Mistake
from grpo.sweep import files
from grpo.sweep.launching import Launching


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return guarded(_main, argv)


def _main(argv: list[str]) -> int:
    see_own_modules()
    args = _arguments(argv)
    if args.list:
        print(files.listed())
        return 0
    if args.sweep is None:
        known = ", ".join(sorted(files.known()))
        raise ConfigError([Mistake("grpo.sweep", f"which question? a file of your own, or one of {known}")])
    launching, words = Launching.of(args.words, args.jobs, args.launcher)
    path = files.find(args.sweep)
    composer = Composer(args.config_dir)
    from grpo.sweep import arms, drive
    from grpo.sweep.asked import asked
    from grpo.sweep.plan import planned, table

    planner = arms.Planner(asked(files.read(path), words, composer), composer)
    right, wrong = planner.check()
    if wrong:
        raise arms.told(wrong, list(planner.question.arms))
    plan = planned(path.stem, "question", planner.question, planner, (right, {}), args.folder)
    print(table(plan, launching.at_once_shown), flush=True)
    drive.refuse_same(plan)
    if args.plan:
        return 0
    flags = ["--config-dir", args.config_dir] if args.config_dir else []
    print(flush=True)
    return drive.Drive(plan, ("python", "-m", "grpo.sweep", *argv), launching.options(flags)).run()


def _arguments(argv: list[str]) -> argparse.Namespace:
    """Options anywhere between the words."""
    parser = side_parser("grpo.sweep", __doc__)
    add: Any = parser.add_argument
    add("sweep", nargs="?", metavar="NAME|FILE", help="a sweep file, by name or by path")
    add("words", nargs="*", metavar="WORD", help="keys of the question (seeds=...), and overrides of all arms")
    add("--plan", action="store_true", help="say what would run, and stop")
    add("--list", action="store_true", help="the sweep files there are, with their claims")
    add("--jobs", metavar="N", help="jobs at a time (default: one per GPU, without GPUs one per core)")
    add("--launcher", metavar="NAME", help="fork (default), process, submitit_local or submitit_slurm")
    add("--folder", type=Path, help="the sweep's folder (default: runs/sweeps/NAME-DIGEST)")
    add("--config-dir", "-cd", help="a configuration folder of your own")
    args = parser.parse_intermixed_args(argv)
    if args.sweep and "=" in args.sweep and not Path(args.sweep).exists():
        raise ConfigError([Mistake("grpo.sweep", f"the question comes first, then its words such as {args.sweep}")])
    return args


if __name__ == "__main__":
    sys.exit(main())
