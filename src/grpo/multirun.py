"""-m: a sweep whose arms are the combinations of comma-separated values. Layout, runner and report are grpo.sweep's.

A job with a mistake in its configuration is not started; the others run, and it is told again at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grpo.config.compose import Composer
from grpo.errors import ConfigError
from grpo.sweep import arms, drive, grid
from grpo.sweep.launching import Launching
from grpo.sweep.plan import planned, table


def run(
    arguments: Sequence[str],
    composer: Composer,
    flags: Sequence[str] = (),
    *,
    jobs: str | None = None,
    folder: str | Path | None = None,
    command: Sequence[str] = (),
    runner: Callable[..., list[Any]] | None = None,
) -> int:
    """Run all jobs; 0 if every one of them succeeded.

    flags     what stands before the overrides of every job (--config-dir);  jobs  so many at a time
    command   the words that started it, for sweep.json;  runner  instead of grpo.sweep.runner.run, in tests
    """
    launching, words = Launching.of(arguments, jobs, None)
    name, question = grid.question(words, composer)
    planner = arms.Planner(question, composer, kind="grid")
    right, wrong = planner.check()
    if not right:
        raise ConfigError([m for error in wrong.values() for m in error.mistakes])
    plan = planned(name, "grid", question, planner, (right, wrong), folder)
    print(table(plan, launching.at_once_shown), flush=True)
    words = command or ("python", "-m", "grpo", *flags, "-m", *arguments)
    print(flush=True)
    return drive.Drive(plan, words, launching.options(flags), runner).run()
