"""`python -m grpo.probe reward=… task=…`: what a reward pays on real prompts, before anything is trained.

    python -m grpo.probe                                              the default reward on the default task
    python -m grpo.probe task=words reward.functions.exact.extract=boxed
    python -m grpo.probe reward=own reward.functions.own._target_=my_rewards.short --questions 64 --json

Free arguments are overrides, as for python -m grpo. Exit code 1 where something is flagged: a reward that pays a wrong
answer, an empty one, an echo or a list of guesses, that never varies, or that does not pay a right answer of the data.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from grpo.cli import guarded, see_own_modules, side_parser
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.errors import UserError

if TYPE_CHECKING:
    from grpo.probe.golds import GoldCheck, Golds


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return guarded(_main, argv)


def _main(argv: list[str]) -> int:
    see_own_modules()
    args = _arguments(argv)
    config, _ = load(args.overrides, Composer(args.config_dir))
    from grpo.probe import plain, show, verdict
    from grpo.probe.completions import cases
    from grpo.probe.golds import GoldCheck
    from grpo.probe.measure import encoder, measure, only_accuracy, questions, strict
    from grpo.rewards.scoring import Scorer  # torch: seconds, hence after the check

    chosen = questions(config, args.questions)
    if not chosen:
        raise UserError("task   its train split is empty, so there is nothing to probe")
    with closing(Scorer(config.reward)) as scorer, closing(Scorer(only_accuracy(config.reward))) as judge:
        tried = cases(config.task, chosen, strict(config))
        measured = measure(config, scorer, tried, encoder(config, scorer.functions))
        gold = GoldCheck(config.task, scorer.functions, judge, encoder(config, judge.functions), args.golds)
        golds = _with_bar(gold) if measured.of("right answer") and args.golds != 0 else []
    flags, notes = verdict.flags(measured, golds), verdict.notes(measured)
    if args.json:
        print(plain.as_json(config, measured, golds, flags, notes))
    else:
        show.show(config, measured, golds, flags, notes)
    return 1 if flags else 0


def _with_bar(check: GoldCheck) -> list[Golds]:
    """The check of every right answer, with a bar on a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    from grpo.tasks.base import SPLITS

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("right answers", total=sum(check.count(split) for split in SPLITS))
        return check.run(lambda done: bar.advance(task, done))


def _arguments(argv: list[str]) -> argparse.Namespace:
    """Options anywhere between the overrides."""
    parser = side_parser("grpo.probe", __doc__)
    add: Any = parser.add_argument
    add("overrides", nargs="*", metavar="OVERRIDE", help="reward=..., task=..., key=value: as for python -m grpo")
    add("--questions", type=_count(1), default=16, metavar="N", help="training questions to probe (default: 16)")
    add("--golds", type=_count(0), metavar="N", help="right answers of a split to check (default: all; 0: none)")
    add("--json", action="store_true", help="every completion and reward, for programs")
    add("--config-dir", "-cd", help="a configuration folder of your own")
    return parser.parse_intermixed_args(argv)


def _count(least: int) -> Any:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} on, not {text}")
        return int(text)

    return count


if __name__ == "__main__":
    sys.exit(main())
