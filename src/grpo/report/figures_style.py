"""One colour per arm in all figures: Okabe and Ito's palette, the baseline black, from the eighth arm on dashes too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grpo.recording.plotting import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, STYLE
from grpo.report.records import RunRecord, SweepRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BASELINE = "#222222"
BROWN = "#8C6D1F"  # Okabe and Ito's yellow cannot be seen on white
COLORS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, BROWN)
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)))
MARKERS = ("o", "s", "^")
MANY = 6
"""More arms than this share no axes: each gets a small panel with the baseline behind it."""
RC = {**STYLE, "font.size": 9, "axes.titlesize": 10, "legend.fontsize": 8.5, "svg.fonttype": "path", "pdf.fonttype": 42,
      "axes.edgecolor": "#888888", "text.color": "#222222", "axes.labelcolor": "#333333", "xtick.color": "#555555",
      "ytick.color": "#555555", "figure.facecolor": "white", "text.parse_math": False,
      "svg.hashsalt": "grpo"}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How an arm is drawn."""

    color: str
    dash: Any = "-"
    marker: str = "o"


def looks(sweep: SweepRecord) -> dict[str, Look]:
    """Arm → its look, the same in every figure and on the page."""
    others = [arm for arm in sweep.arms if arm != sweep.baseline]
    count = len(COLORS)
    made = {
        arm: Look(COLORS[i % count], DASHES[i // count % len(DASHES)], MARKERS[i // count % len(MARKERS)])
        for i, arm in enumerate(others)
    }
    return {arm: made.get(arm, Look(BASELINE)) for arm in sweep.arms}


def canvas(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure outside of pyplot (which would look for a screen and keep it) and its axes, row by row."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def legend(figure: Figure, sweep: SweepRecord, arms: Sequence[str] | None = None) -> None:
    """The arms above all axes, where no curve can be."""
    from matplotlib.lines import Line2D

    every, styles = list(arms or sweep.arms), looks(sweep)
    handles = [Line2D([], [], color=styles[a].color, linestyle=styles[a].dash, linewidth=2.2) for a in every]
    labels = [short(arm) + (" (baseline)" if arm == sweep.baseline and len(sweep.arms) > 1 else "") for arm in every]
    widest = max(map(len, labels), default=1) + 7
    columns = max(1, min(len(labels), int(figure.get_figwidth() * 13.5 // widest)))
    figure.legend(handles, labels, loc="outside upper left", ncols=columns, frameon=False, handlelength=2.4)


def short(name: str, at_most: int = 34) -> str:
    """A name that fits beside an axis."""
    return name if len(name) <= at_most else f"{name[: at_most - 1]}…"


def mean_line(runs: Sequence[RunRecord], metric: str, axis: str) -> tuple[list[float], list[float]]:
    """Mean over runs, as far as every run goes, a diverged one with its last value; between points interpolated."""
    import numpy as np

    drawn = [(run, line) for run in runs if len((line := run.series(metric, axis))[0]) > 1]
    lines = [line for _, line in drawn]
    if not lines:
        return [], []
    ended = [line[0][-1] for run, line in drawn if run.kind != "diverged"]
    start, end = max(x[0] for x, _ in lines), min(ended or [x[-1] for x, _ in lines])
    if end <= start:
        return [], []
    points = sorted({x for xs, _ in lines for x in xs if start <= x <= end})
    grid = np.asarray(points) if len(points) <= 160 else np.linspace(start, end, 121)
    return grid.tolist(), np.mean([np.interp(grid, xs, ys) for xs, ys in lines], axis=0).tolist()


def smooth(values: Sequence[float]) -> list[float]:
    """Centred running mean over about a twelfth of the line; short lines stay as they are."""
    half = len(values) // 25
    return [sum(v := values[max(0, i - half) : i + half + 1]) / len(v) for i in range(len(values))]


def draw_arm(ax: Axes, runs: Sequence[RunRecord], metric: str, axis: str, look: Look, *, faint: float = 0.28) -> bool:
    """Every seed as a thin line, the mean thick. False if there is nothing."""
    drawn = False
    for run in runs:
        xs, ys = run.series(metric, axis)
        if xs:
            drawn = True
            few = "." if len(xs) == 1 else None
            ax.plot(xs, smooth(ys), color=look.color, alpha=faint, linewidth=0.7, marker=few, linestyle=look.dash)
            if run.kind == "diverged":
                ax.plot(xs[-1:], ys[-1:], marker="x", color=look.color, markersize=6, markeredgewidth=1.6)
    xs, ys = mean_line(runs, metric, axis)
    if xs:
        ax.plot(xs, smooth(ys), color=look.color, linestyle=look.dash, linewidth=2.0)
    return drawn


def nothing(ax: Axes, why: str) -> None:
    """An empty panel says why."""
    ax.text(0.5, 0.5, why, ha="center", va="center", color="#777777", transform=ax.transAxes, wrap=True)
    ax.set_xticks([])
    ax.set_yticks([])


def token_axis(ax: Axes, axis: str) -> None:
    """Label of the x axis, and 400k instead of 400000."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    from grpo.report.formats import seconds, tokens

    names = {"tokens/generated": "generated tokens", "time/elapsed": "time, min:s", "step": "step"}
    ax.set_xlabel(names.get(axis, axis))
    formats = {"tokens/generated": tokens, "time/elapsed": seconds}
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=axis == "step"))
    if axis in formats:
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formats[axis](value)))
