"""What several experiments do: train some seeds in processes of their own, keep their numbers, draw them."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
KEPT = ("reward", "accuracy", "validation/", "test/", "policy/entropy", "length/", "groups/", "tokens/", "time/", "kl/")


def command(
    here: Path, about: str, overrides: Sequence[str], seeds: Sequence[int], jobs: int, title: str, k: int, test_k: int
) -> None:
    """The command line of an experiment in the folder `here`: train what is missing, keep its numbers, draw."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(seeds))
    parser.add_argument("--runs", type=Path, default=Path("runs") / here.name, help="folder of the run folders")
    parser.add_argument("--jobs", type=int, default=jobs, help="runs at a time; the cores are shared among them")
    parser.add_argument("--report-only", action="store_true", help="only the figure and the table, from results/")
    arguments = parser.parse_args()
    if not arguments.report_only:
        train(overrides, arguments.seeds, arguments.runs, jobs=arguments.jobs)
        for seed, folder in finished(arguments.runs).items():
            keep(folder, here / "results" / f"seed{seed}")
    report(here, title, k, test_k)


def train(overrides: Sequence[str], seeds: Sequence[int], runs: Path, *, jobs: int = 1) -> None:
    """`python -m grpo` once per seed, `jobs` at a time with the cores shared among them; resumes what is unfinished."""
    threads = str(max(1, (os.cpu_count() or 1) // jobs))
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    waiting, active = list(seeds), []
    while waiting or active:
        while waiting and len(active) < jobs:
            seed = waiting.pop(0)
            command = [sys.executable, "-m", "grpo", *overrides, f"seed={seed}", f"sweep={runs}", "resume=auto"]
            print(" ".join(command[1:]), flush=True)
            active.append(subprocess.Popen(command, cwd=REPOSITORY, env=environment))
        code = active.pop(0).wait()
        if code:
            raise SystemExit(f"a run ended with exit code {code}; its folder in {runs} says why")


def finished(runs: Path) -> dict[int, Path]:
    """Run folders that are done, by seed."""
    found = {}
    for status in sorted(runs.rglob("status.json")):
        if json.loads(status.read_text())["status"] == "done":
            found[json.loads((status.parent / "environment.json").read_text())["seed"]] = status.parent
    return dict(sorted(found.items()))


def keep(folder: Path, target: Path) -> None:
    """The numbers of a run that figures and tables read, without its weights and samples."""
    target.mkdir(parents=True, exist_ok=True)
    with (target / "metrics.jsonl").open("w", encoding="utf-8") as file:
        for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            small = {
                k: round(v, 6) if isinstance(v, float) else v
                for k, v in row.items()
                if k in ("v", "step") or k.startswith(KEPT)
            }
            file.write(json.dumps(small) + "\n")
    for name in ("config.yaml", "algorithm.txt"):
        shutil.copy(folder / name, target / name)
    environment = json.loads((folder / "environment.json").read_text())
    shown = {k: environment.get(k) for k in ("packages", "versions", "python", "cpu", "threads", "gpu")}
    (target / "environment.json").write_text(json.dumps({k: v for k, v in shown.items() if v}, indent=2) + "\n")


def steps(target: Path) -> dict[int, dict[str, Any]]:
    """metrics.jsonl by step, the lines of a step joined."""
    joined: dict[int, dict[str, Any]] = {}
    for line in (target / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        joined.setdefault(row["step"], {}).update(row)
    return dict(sorted(joined.items()))


def series(rows: dict[int, dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """Steps and values where the metric was recorded."""
    points = [(step, row[name]) for step, row in rows.items() if row.get(name) is not None]
    return [s for s, _ in points], [v for _, v in points]


def last(rows: dict[int, dict[str, Any]], name: str) -> float:
    """The last recorded value."""
    return series(rows, name)[1][-1]


def first(rows: dict[int, dict[str, Any]], name: str) -> float:
    """The first recorded value."""
    return series(rows, name)[1][0]


def draw(results: dict[int, dict[int, dict[str, Any]]], file: Path, title: str, k: int) -> None:
    """Held-out accuracy and training reward of every seed, with the untrained policy's greedy and maj@8 as lines."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.4), constrained_layout=True)
    for color, (seed, rows) in zip(("#1b6ca8", "#c8553d", "#3a7d44", "#7b5ea7"), results.items(), strict=False):
        left.plot(*series(rows, f"validation/avg@{k}"), marker="o", ms=3.5, color=color, label=f"seed {seed}")
        left.plot(*series(rows, "validation/greedy"), ls=":", color=color)
        at, values = series(rows, "reward")
        window = 5
        smooth = [fmean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]
        right.plot(at, values, color=color, alpha=0.25, lw=0.8)
        right.plot(at, smooth, color=color, label=f"seed {seed}, mean of {window} steps")
    untrained = next(iter(results.values()))[0]
    left.axhline(untrained["validation/greedy"], color="0.5", lw=0.9, ls="--")
    left.annotate(
        "untrained greedy (seed 0)", (1, untrained["validation/greedy"]), fontsize=7, color="0.35", va="bottom"
    )
    left.set(title=f"validation: avg@{k} (solid), greedy (dotted)", xlabel="step", ylabel="share right", ylim=(0, 1))
    right.set(title="training reward", xlabel="step", ylim=(0, 1))
    for axis in (left, right):
        axis.legend(fontsize=7, frameon=False, loc="lower right")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    figure.suptitle(title, fontsize=10)
    figure.savefig(file, dpi=140)
    plt.close(figure)


def table(results: dict[int, dict[int, dict[str, Any]]], k: int, test_k: int) -> str:
    """Markdown: before and after for every seed."""
    head = (
        f"| seed | validation avg@{k} before → after | greedy before → after | test avg@{test_k} | test greedy "
        "| mean length before → after | generated tokens |"
    )
    lines = [head, "|" + "---|" * 7]
    for seed, rows in results.items():
        name = f"validation/avg@{k}"
        lines.append(
            f"| {seed} | {first(rows, name):.2f} → {last(rows, name):.2f} "
            f"| {first(rows, 'validation/greedy'):.2f} → {last(rows, 'validation/greedy'):.2f} "
            f"| {last(rows, f'test/avg@{test_k}'):.2f} | {last(rows, 'test/greedy'):.2f} "
            f"| {first(rows, 'length/mean'):.1f} → {last(rows, 'length/mean'):.1f} "
            f"| {int(last(rows, 'tokens/generated')):,} |"
        )
    return "\n".join(lines) + "\n"


def report(here: Path, title: str, k: int, test_k: int) -> None:
    """Figure and table of the kept results, and the table on the screen."""
    results = {int(p.name.removeprefix("seed")): steps(p) for p in sorted((here / "results").glob("seed*"))}
    draw(results, here / "curve.png", title, k)
    text = table(results, k, test_k)
    (here / "table.md").write_text(text, encoding="utf-8")
    print(text)
