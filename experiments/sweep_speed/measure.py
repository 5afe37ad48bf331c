"""Many tiny runs: fresh processes one after another with all cores, against a sweep's forked jobs side by side.

    python experiments/sweep_speed/measure.py                # 6 runs of 10 and of 50 steps each way
    python experiments/sweep_speed/measure.py --steps 100 --runs 4

The sweep is started as a program of its own, so that its imports count. Half of the fresh runs come before it and half
after it: a machine that changes its speed meanwhile does so to both. Prints a table and writes it to table.md.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZES = ("eval.questions=64", "eval.samples=2", "eval.test_questions=128", "eval.test_samples=2")
COMMON = (*SIZES, "logger=none", "checkpoint.export=false", "checkpoint.every=null", "eval.every=null", "preflight=off")


def words(steps: int, seed: int) -> list[str]:
    """Overrides of one run."""
    return [*COMMON, f"max_steps={steps}", f"seed={seed}"]


def fresh(steps: int, seeds: Sequence[int], folder: Path) -> float:
    """Seconds that `python -m grpo` takes for the seeds, one after another, torch taking all cores."""
    variables = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    begun = time.monotonic()
    for seed in seeds:
        command = [sys.executable, "-m", "grpo", *words(steps, seed), f"output_dir={folder}"]
        subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun


def swept(steps: int, runs: int, at_once: int, folder: Path) -> float:
    """Seconds that a sweep of the same runs takes."""
    command = [sys.executable, str(HERE / "measure.py"), "--sweep", str(folder), "--steps", str(steps)]
    variables = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    begun = time.monotonic()
    numbers = ["--runs", str(runs), "--at-once", str(at_once)]
    subprocess.run([*command, *numbers], env=variables, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun


def sweep(steps: int, runs: int, at_once: int, folder: Path) -> int:
    """The program that `swept` starts."""
    from grpo.config.check import load
    from grpo.config.compose import Composer
    from grpo.config.hashing import config_hash
    from grpo.sweep import runner
    from grpo.sweep.manifest import Job

    digest = config_hash(load(words(steps, 0), Composer())[1])
    jobs = [Job("grpo", "final", s, f"grpo/seed={s}", tuple(words(steps, s)), digest) for s in range(runs)]
    return runner.report(runner.run(jobs, folder, at_once=at_once, launcher="fork"))


def row(steps: int, runs: int, at_once: int) -> str:
    """One row of the table."""
    seeds = range(runs)
    with tempfile.TemporaryDirectory() as name:
        one = fresh(steps, seeds[: runs // 2], Path(name) / "before")
        side = swept(steps, runs, at_once, Path(name) / "sweep")
        one += fresh(steps, seeds[runs // 2 :], Path(name) / "after")
    hour = 3600 * runs
    return f"| {steps} | {runs} | {hour / one:.0f} | {hour / side:.0f} | {one / side:.2f} |"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6, help="runs each way")
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 50], help="steps of a run; several: a row each")
    parser.add_argument("--at-once", type=int, default=2, help="jobs of the sweep at a time")
    parser.add_argument("--to", type=Path, default=HERE / "table.md", help="where the table goes")
    parser.add_argument("--sweep", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sweep:
        return sweep(arguments.steps[0], arguments.runs, arguments.at_once, arguments.sweep)
    cores, load = os.cpu_count(), os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    ways = f"fresh, one after another | sweep, {arguments.at_once} at once"
    lines = [f"| steps | runs | runs an hour: {ways} | ratio |", "|" + "---|" * 5]
    for steps in arguments.steps:
        lines.append(row(steps, arguments.runs, arguments.at_once))
        print(lines[-1], flush=True)
    lines += ["", f"{cores} cores, load average {load:.1f} before. Each run: `{shlex.join(SIZES)}`."]
    arguments.to.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
