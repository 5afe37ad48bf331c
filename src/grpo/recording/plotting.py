"""How every panel of curves.png is drawn: palette, lines, stacks, legends that cannot cover a curve."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette: told apart by colour-blind readers and in print
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#CC79A7",
    "#56B4E9",
    "#7F7F7F",
)
STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.1,
    "legend.borderpad": 0.0,
    "legend.borderaxespad": 0.4,
}


@dataclass(frozen=True)
class Run:
    """Metrics by step."""

    steps: dict[int, dict[str, float]]

    def series(self, name: str) -> tuple[list[int], list[float]]:
        """Steps and values of a metric where it was recorded, gaps (NaN) included; empty if it never was finite."""
        pairs = [(step, row[name]) for step, row in self.steps.items() if name in row]
        if not any(math.isfinite(value) for _, value in pairs):
            return [], []
        return [step for step, _ in pairs], [value for _, value in pairs]

    def percent(self, name: str) -> Run:
        """The same run with a share as percent."""
        return Run({step: {name: 100 * row[name]} for step, row in self.steps.items() if name in row})

    def binned(self, names: Sequence[str], at_most: int = 120) -> Run:
        """Means over neighbouring steps, so that the stacks of a long run stay readable; what is missing counts 0."""
        steps = [step for step, row in self.steps.items() if any(name in row for name in names)]
        size = max(1, math.ceil(len(steps) / at_most))
        chunks = [steps[start : start + size] for start in range(0, len(steps), size)]
        return Run(
            {
                chunk[len(chunk) // 2]: {
                    n: sum(_finite(self.steps[s].get(n, 0.0)) for s in chunk) / len(chunk) for n in names
                }
                for chunk in chunks
            }
        )

    def find(self, pattern: str) -> str | None:
        """The metric that fits a pattern and was recorded most often (avg@4 rather than the untrained avg@8)."""
        counts: dict[str, int] = {}
        for row in self.steps.values():
            for name in row:
                if re.fullmatch(pattern, name):
                    counts[name] = counts.get(name, 0) + 1
        return max(counts, key=lambda name: (counts[name], _k(name)), default=None)

    def first(self, pattern: str) -> tuple[str, float] | None:
        """Name and value, in the untrained policy's evaluation (step 0), of the metric with the largest k."""
        found = [(n, v) for n, v in self.steps.get(0, {}).items() if re.fullmatch(pattern, n) and math.isfinite(v)]
        return max(found, key=lambda item: _k(item[0]), default=None)


def line(ax: Axes, run: Run, name: str | None, color: str, label: str, **style: Any) -> bool:
    """Draw a metric: faint as it is, and on top its running mean where there are many steps. False if there is none."""
    steps, values = run.series(name) if name else ([], [])
    if not steps:
        return False
    window = max(1, len(steps) // 25)
    if window > 1 and "linestyle" not in style:
        ax.plot(steps, values, color=color, alpha=0.25, linewidth=0.7)
        values = running_mean(values, window)
    ax.plot(steps, values, **{"color": color, "label": label, "marker": marker(steps), "markersize": 2.5} | style)
    return True


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """Centred mean over `window` neighbours on each side, NaN left out."""
    means = []
    for index in range(len(values)):
        near = [v for v in values[max(0, index - window) : index + window + 1] if math.isfinite(v)]
        means.append(sum(near) / len(near) if near else math.nan)
    return means


def finish(ax: Axes, title: str, columns: int = 6) -> None:
    """The title, and between it and the axes, where no curve can be, the legend; or a word that there is nothing."""
    handles, labels = ax.get_legend_handles_labels()
    rows = math.ceil(len(handles) / columns) if len(handles) > 1 else 0
    if rows:
        ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=min(columns, len(handles)))
    elif not ax.has_data():
        ax.text(0.5, 0.5, "not recorded", ha="center", va="center", color=GREY, transform=ax.transAxes)
        ax.set_yticks([])
    ax.set_title(title, pad=6 + 11 * rows)


def shares(ax: Axes, run: Run, name: str, label: str) -> None:
    """A share in percent on an axis of its own at the right."""
    steps, values = run.series(name)
    if not steps:
        return
    right = second_axis(ax, f"{label}, % (dotted)", GREY)
    percent = [100 * v for v in running_mean(values, max(1, len(values) // 25))]
    right.plot(steps, percent, color=GREY, linewidth=1.2, linestyle=(0, (1, 1)), marker=marker(steps), markersize=2)
    right.set_ylim(0, max(5.0, 1.05 * max(v for v in percent if math.isfinite(v))))


def second_axis(ax: Axes, label: str, color: str) -> Axes:
    """An axis at the right in the colour of its curve."""
    right = ax.twinx()
    right.set_ylabel(label, color=color)
    right.tick_params(axis="y", colors=color)
    right.spines.right.set(visible=True, color=color)
    right.grid(visible=False)
    return right  # pyright: ignore[reportReturnType]


def marker(steps: Sequence[int]) -> str | None:
    """Few points are marked, or a run of one step would show nothing."""
    return "o" if len(steps) <= 25 else None


def stack(ax: Axes, run: Run, names: Sequence[tuple[str, str, str]], scale: float = 1.0) -> None:
    """Metrics on top of each other; where one is missing it counts 0."""
    binned = run.binned([name for name, _, _ in names])
    steps = list(binned.steps)
    present = [item for item in names if run.series(item[0])[0]]
    if not present:
        return
    rows = [[scale * binned.steps[s][name] for s in steps] for name, _, _ in present]
    colors, labels = [c for _, c, _ in present], [label for _, _, label in present]
    if len(steps) == 1:  # an area of one point cannot be seen
        base = 0.0
        for (value,), color, label in zip(rows, colors, labels, strict=True):
            ax.bar(steps, [value], bottom=base, width=0.5, color=color, alpha=0.75, label=label)
            base += value
    else:
        ax.stackplot(steps, rows, colors=colors, labels=labels, alpha=0.75, linewidth=0, step="mid")


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _k(name: str) -> int:
    """8 of test/avg@8."""
    return int((re.findall(r"@(\d+)", name) or ["0"])[0])
