"""Accuracy against the tuned key, and where the variance comes from."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from grpo.recording.plotting import BLUE, ORANGE, SKY
from grpo.report.figures_style import canvas, legend, looks, nothing
from grpo.report.findings import Findings
from grpo.report.formats import setting
from grpo.report.records import RunRecord, SweepRecord, usual

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = (("seed", BLUE), ("question", ORANGE), ("sampling", SKY))


def tuned_keys(sweep: SweepRecord) -> list[str]:
    """The keys of the tuning grid."""
    return list(dict.fromkeys(key for run in sweep.tuning for key in run.point))


def tuning(sweep: SweepRecord) -> Figure:
    """Every tuning run a point, the mean over its seeds a line, the chosen value a ring; one panel per tuned key."""
    keys = tuned_keys(sweep)
    figure, axes = canvas(9.2, 3.6, 1, max(1, len(keys)), sharey=True)
    if not keys:
        nothing(axes[0], "no tuning")
    for ax, key in zip(axes, keys, strict=False):
        values = sorted({run.point[key] for run in sweep.tuning if key in run.point}, key=_order)
        numeric = all(isinstance(value, int | float) and value > 0 for value in values)
        places = {value: float(value) if numeric else float(i) for i, value in enumerate(values)}
        for index, arm in enumerate(sweep.arms):
            nudge = (index - (len(sweep.arms) - 1) / 2) / max(4, len(sweep.arms)) * 0.22
            runs = [run for run in sweep.tuning if run.arm == arm and key in run.point and run.score is not None]
            _tuned_arm(ax, sweep, arm, key, runs, {v: _moved(x, nudge, numeric) for v, x in places.items()})
        if numeric:
            ax.set_xscale("log")
            ax.minorticks_off()
        ax.set_xticks(list(places.values()), [setting(value) for value in values])
        ax.set_xlabel(key)
    axes[0].set_ylabel(_label(sweep))
    legend(figure, sweep)
    return figure


def _label(sweep: SweepRecord) -> str:
    name = usual([run.score_from for run in sweep.tuning if run.score_from])
    return f"{name}, tuning seeds" if name else "validation"


def _moved(x: float, nudge: float, numeric: bool) -> float:
    """Beside each other, not on top: a factor on a logarithmic axis."""
    return x * (1 + nudge) if numeric else x + nudge


def _order(value: object) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return (not number, float(value) if isinstance(value, int | float) else 0.0, str(value))


def _tuned_arm(ax: Axes, sweep: SweepRecord, arm: str, key: str, runs: list[RunRecord], places: dict) -> None:
    look = looks(sweep)[arm]
    at = {value: [r.score for r in runs if r.point[key] == value and r.score is not None] for value in places}
    for value, scores in at.items():
        ax.scatter([places[value]] * len(scores), scores, s=16, color=look.color, alpha=0.5, linewidths=0)
    line = [(places[value], fmean(scores)) for value, scores in at.items() if scores]
    ax.plot([x for x, _ in line], [y for _, y in line], color=look.color, linestyle=look.dash, linewidth=1.5)
    chosen = sweep.chosen.get(arm, {}).get(key)
    scores = at.get(chosen)
    if scores:
        ax.plot([places[chosen]], [fmean(scores)], marker="o", markersize=12, markerfacecolor="none",
                markeredgecolor=look.color, markeredgewidth=1.8)  # fmt: skip


def variance(found: Findings) -> Figure:
    """One bar: seed, question, sampling."""
    figure, (ax,) = canvas(9.2, 1.35)
    split = found.split
    total = split.seed + split.question + split.sampling if split else 0.0
    if split is None or total <= 0:
        nothing(ax, found.split_note if split is None else "all finished runs have the same score: nothing to split")
        return figure
    left = 0.0
    for name, color in PARTS:
        width = getattr(split, name) / total
        ax.barh([0], [width], left=left, color=color, height=0.7, edgecolor="white", linewidth=1.5)
        if width > 0.07:
            dark = "white" if color == BLUE else "#222222"
            ax.text(left + width / 2, 0, f"{name}s\n{100 * width:.0f} %".replace("samplings", "sampling"),
                    ha="center", va="center", color=dark, fontsize=9)  # fmt: skip
        left += width
    ax.set_xlim(0, 1)
    ax.set_yticks([])
    ax.grid(visible=False)
    ax.spines.left.set_visible(False)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25 %", "50 %", "75 %", "100 %"])
    ax.set_xlabel(f"share of the variance of a run's {found.sweep.endpoint}")
    return figure
