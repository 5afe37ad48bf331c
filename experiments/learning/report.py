"""Tables and figure of the learning experiment, from results.csv alone."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import fmean

from experiments.learning.classes import classes
from experiments.learning.run import RATES, SEEDS, TUNING_SEEDS, Result, best

COLORS = {"published": "#1b6ca8", "chapter": "#c8553d"}


def load(file: Path) -> list[Result]:
    """The rows of results.csv, typed."""
    kinds = {"rate": float, "seed": int, "steps": int, "tokens": int}
    optional = {"validation", "test", "greedy", "length", "entropy"}
    rows = []
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            typed = {k: (float(v) if v else None) if k in optional else kinds.get(k, str)(v) for k, v in row.items()}
            rows.append(Result(**typed))  # pyright: ignore[reportArgumentType]
    return rows


def of(results: list[Result], regime: str, algorithm: str, phase: str) -> list[Result]:
    """The runs of one algorithm in one phase."""
    return [r for r in results if (r.regime, r.algorithm, r.phase) == (regime, algorithm, phase)]


def rates(tuned: list[Result]) -> str:
    """Mean validation accuracy at each rate, the chosen one in bold, a failed run as ×."""
    chosen, cells = best(tuned), []
    for rate in RATES:
        values = [r.validation for r in tuned if r.rate == rate]
        known = [v for v in values if v is not None]
        text = f"{fmean(known):.2f}" + "×" * (len(values) - len(known)) if known else "×"
        cells.append(f"**{text}**" if rate == chosen else text)
    return " ".join(cells)


def off_policy_table(results: list[Result]) -> str:
    """One row per distinct algorithm, in the order of the README's other tables; nothing is ranked."""
    shown = " ".join(f"{rate:g}" for rate in RATES)
    lines = [
        f"| `+algo=` | tuning: validation avg@4 at lr {shown} | test avg@8, seeds {', '.join(map(str, SEEDS))} "
        "| steps | mean length | entropy |",
        "|" + "---|" * 6,
    ]
    for members in classes(off_policy=True):
        name = members[0]
        final = of(results, "off", name, "final")
        if not final:
            continue
        names = " = ".join(f"`{member}`" for member in members)
        tests = " ".join("failed" if r.test is None else f"{r.test:.2f}" for r in final)
        lines.append(
            f"| {names} | {rates(of(results, 'off', name, 'tuning'))} | {tests} | {span([r.steps for r in final])} "
            f"| {mean([r.length for r in final]):.1f} | {mean([r.entropy for r in final]):.3f} |"
        )
    return "\n".join(lines) + "\n"


def on_policy_table(results: list[Result]) -> str:
    """One row per class of equal algorithms: one run, one seed."""
    lines = ["| `+algo=`, the same gradient on-policy | test avg@8, seed 0 | steps |", "|---|---|---|"]
    for members in classes(off_policy=False):
        for run in of(results, "on", members[0], "final"):
            test = "failed" if run.test is None else f"{run.test:.2f}"
            lines.append(f"| {' = '.join(f'`{member}`' for member in members)} | {test} | {run.steps} |")
    return "\n".join(lines) + "\n"


def span(numbers: list[int]) -> str:
    """`61–67`, or one number."""
    return f"{min(numbers)}–{max(numbers)}" if min(numbers) != max(numbers) else str(min(numbers))


def mean(values: list[float | None]) -> float:
    """Of what was measured; nan where nothing was."""
    known = [v for v in values if v is not None]
    return fmean(known) if known else float("nan")


def draw(results: list[Result], file: Path) -> None:
    """Every final run a point, in the order of the tables, which is not that of the values."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = [
        ("off", True, f"off-policy, 4 updates per rollout: tuned, {len(SEEDS)} seeds"),
        ("on", False, "on-policy: one run per class, default rate"),
    ]
    figure, axes = plt.subplots(1, 2, figsize=(11, 7.2), constrained_layout=True, sharex=True)
    for axis, (regime, off_policy, title) in zip(axes, panels, strict=True):
        names = [m for m in classes(off_policy) if of(results, regime, m[0], "final")]
        for place, members in enumerate(reversed(names)):
            runs = of(results, regime, members[0], "final")
            color = COLORS["chapter" if members[0].startswith("chapter/") else "published"]
            values = [r.test for r in runs if r.test is not None]
            axis.plot(values, [place] * len(values), "o", color=color, ms=5, alpha=0.75, mew=0)
            failed = len(runs) - len(values)
            if failed:
                axis.plot([0] * failed, [place] * failed, "x", color=color, ms=6)
        labels = [m[0] if len(m) == 1 else f"{m[0]} (= {len(m) - 1} more)" for m in reversed(names)]
        axis.set_yticks(range(len(names)), labels, fontsize=8.5)
        axis.set_ylim(-0.7, len(names) - 0.3)
        axis.set_xlim(0, 1)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xlabel("test avg@8")
        axis.grid(axis="both", alpha=0.25)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(length=0)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def report(here: Path) -> None:
    """off_policy.md, on_policy.md and learning.png beside results.csv, and the tables on the screen."""
    results = load(here / "results.csv")
    assert {r.seed for r in results if r.phase == "tuning"} <= set(TUNING_SEEDS)
    for name, text in (("off_policy.md", off_policy_table(results)), ("on_policy.md", on_policy_table(results))):
        (here / name).write_text(text, encoding="utf-8")
        print(text)
    draw(results, here / "learning.png")
