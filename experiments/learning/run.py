"""Does every algorithm learn? Each distinct one trains the tiny policy on arithmetic, tuned alike, at equal tokens.

python experiments/learning/run.py                    # about 300 short runs, two at a time; goes on where it stopped
python experiments/learning/run.py --only sapo dapo   # some of them
python experiments/learning/run.py --report-only      # tables and figure from results.csv

Off-policy (four updates per rollout, where the algorithms differ): three learning rates on two tuning seeds with half
the tokens; the rate with the best mean validation accuracy then trains three other seeds. On-policy (one update): one
run per class of equal algorithms at the default rate. Three seeds are no verdict: the tables rank nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from experiments import common  # noqa: E402
from experiments.learning.classes import classes  # noqa: E402

RATES = (1e-5, 3e-5, 1e-4)
DEFAULT_RATE = 3e-4
TUNING_SEEDS, SEEDS = (100, 101), (0, 1, 2)
TOKENS = 200_000  # generated tokens of a full run; tuning runs have half
MINIBATCHES = {"off": 4, "on": 1}
COMMON = ("max_steps=null", "eval.every=null", "logger=none", "checkpoint.export=false", "checkpoint.every=null")
TUNING = ("eval.test_questions=0", "eval.greedy=false")


@dataclass(frozen=True)
class Job:
    """One training run of the experiment."""

    regime: str  # on | off
    algorithm: str
    phase: str  # tuning | final
    rate: float
    seed: int

    @property
    def folder(self) -> str:
        return f"{self.regime}/{self.algorithm.replace('/', '-')}/{self.phase}-{self.rate:g}"

    @property
    def log(self) -> str:
        return f"seed{self.seed}.log"

    @property
    def overrides(self) -> list[str]:
        tokens = TOKENS // 2 if self.phase == "tuning" else TOKENS
        own = TUNING if self.phase == "tuning" else ()
        wide = ("prompts_per_step=64",) if self.algorithm.endswith("two_grpo") else ()
        sizes = (f"budget.generated_tokens={tokens}", f"updates.minibatches={MINIBATCHES[self.regime]}")
        return [f"+algo={self.algorithm}", f"optimizer.lr={self.rate:g}", f"seed={self.seed}", *sizes, *COMMON, *own,
                *wide]  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a run came to; accuracies are None where the run failed or did not measure them."""

    regime: str
    algorithm: str
    phase: str
    rate: float
    seed: int
    status: str
    validation: float | None
    test: float | None
    greedy: float | None
    steps: int
    tokens: int
    length: float | None
    entropy: float | None
    reason: str


def run(job: Job, runs: Path) -> Result:
    """Train unless its folder is done already, and read the folder."""
    place = runs / job.folder
    if job.seed not in common.finished(place):
        place.mkdir(parents=True, exist_ok=True)
        words = [*job.overrides, f"sweep={place}", "resume=auto"]
        process = multiprocessing.get_context("forkserver").Process(target=train, args=(words, place / job.log))
        process.start()
        process.join()
        said = "done" if process.exitcode == 0 else f"exit code {process.exitcode}"
        print(f"{said:13} {job.folder} seed {job.seed}", flush=True)
    return read(job, place)


def train(words: list[str], log: Path) -> None:
    """`python -m grpo` in a process forked from one that has only imported the libraries: 8 seconds less a run."""
    from grpo.cli import main

    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.exit(main(words))


def read(job: Job, place: Path) -> Result:
    """The run's last numbers, or why there are none."""
    folder = common.finished(place).get(job.seed)
    names = ("validation/avg@4", "test/avg@8", "test/greedy", "length/mean", "policy/entropy")
    if folder is None:
        said = (place / job.log).read_text(errors="replace").splitlines()
        reason = next((line.strip() for line in reversed(said) if line.strip()), "killed")
        return Result(**asdict(job), status="failed", validation=None, test=None, greedy=None, steps=0, tokens=0,
                      length=None, entropy=None, reason=reason)  # fmt: skip
    rows = common.steps(folder)
    validation, test, greedy, length, entropy = (
        round(common.last(rows, name), 6) if common.series(rows, name)[1] else None for name in names
    )
    return Result(
        **asdict(job), status="done", validation=validation, test=test, greedy=greedy, steps=max(rows),
        tokens=int(common.last(rows, "tokens/generated")), length=length, entropy=entropy,
        reason=json.loads((folder / "status.json").read_text())["reason"],
    )  # fmt: skip


def best(tuned: Iterable[Result]) -> float | None:
    """The rate with the highest mean validation accuracy over the tuning seeds; the lower one where two are equal."""
    by_rate: dict[float, list[float]] = {}
    for result in tuned:
        if result.phase == "tuning" and result.validation is not None:
            by_rate.setdefault(result.rate, []).append(result.validation)
    complete = {rate: fmean(values) for rate, values in sorted(by_rate.items()) if len(values) == len(TUNING_SEEDS)}
    return max(complete, key=lambda rate: complete[rate], default=None)


def arm(regime: str, algorithm: str, runs: Path) -> list[Result]:
    """All runs of one algorithm, one after another."""
    if regime == "on":
        return [run(Job(regime, algorithm, "final", DEFAULT_RATE, SEEDS[0]), runs)]
    tuned = [run(Job(regime, algorithm, "tuning", rate, seed), runs) for rate in RATES for seed in TUNING_SEEDS]
    rate = best(tuned)
    return tuned if rate is None else tuned + [run(Job(regime, algorithm, "final", rate, s), runs) for s in SEEDS]


def save(results: Iterable[Result], file: Path) -> None:
    """results.csv, in the order of the tables."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([field.name for field in fields(Result)])
        writer.writerows(["" if value is None else value for value in asdict(r).values()] for r in results)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs") / HERE.name, help="folder of the run folders")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="algorithms at a time, a core each")
    parser.add_argument("--only", nargs="+", help="these algorithms alone")
    parser.add_argument("--report-only", action="store_true", help="tables and figure from results.csv")
    arguments = parser.parse_args()
    if not arguments.report_only:
        arms = [(r, members[0]) for r in ("off", "on") for members in classes(r == "off")]
        chosen = [a for a in arms if not arguments.only or a[1] in arguments.only]
        runs = arguments.runs.resolve()
        os.environ["OMP_NUM_THREADS"] = "1"
        multiprocessing.set_forkserver_preload(["grpo.training.run"])
        with ThreadPoolExecutor(arguments.jobs) as pool:
            made = [r for results in pool.map(lambda a: arm(*a, runs), chosen) for r in results]
        save(made, (runs if arguments.only else HERE) / "results.csv")
    if not arguments.only:
        from experiments.learning.report import report

        report(HERE)


if __name__ == "__main__":
    main()
