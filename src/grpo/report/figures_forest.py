"""The forest plot: paired differences to the baseline, a point per block, the simultaneous interval, the margin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grpo.report.figures_style import MANY, canvas, looks, short
from grpo.report.findings import Findings
from grpo.report.formats import signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VERDICT_COLORS = {"better": "#00704F", "worse": "#A63A00", "equivalent": "#00507F"}


def forest(found: Findings) -> Figure:
    """One row per arm; x: difference of the endpoint. At least one arm has a pair."""
    contrasts, sweep = found.comparison.arms, found.sweep
    height = max(1.9, 0.95 + (0.56 if len(contrasts) <= MANY else 0.31) * len(contrasts))
    figure, (ax,) = canvas(9.2, height)
    margin, styles = found.comparison.margin, looks(sweep)
    if margin:
        ax.axvspan(-margin, margin, color="#000000", alpha=0.055, linewidth=0)
        for end in (-margin, margin):
            ax.axvline(end, color="#999999", linewidth=0.7, linestyle=(0, (3, 2)))
    ax.axvline(0, color="#222222", linewidth=1.0)
    for row, contrast in enumerate(contrasts):
        look = styles[contrast.arm]
        spread = _swarm(len(contrast.differences))
        ax.scatter(
            contrast.differences, [row + 0.24 + dy for dy in spread],
            s=17, color=look.color, alpha=0.55, linewidths=0, zorder=3,
        )  # fmt: skip
        if contrast.low is not None and contrast.high is not None:
            ax.plot([contrast.low, contrast.high], [row, row], color=look.color, linewidth=2.4, solid_capstyle="butt")
            for end in (contrast.low, contrast.high):
                ax.plot([end, end], [row - 0.13, row + 0.13], color=look.color, linewidth=1.6)
        if contrast.mean is not None:
            ax.plot([contrast.mean], [row], marker="D", markersize=7, color=look.color,
                    markeredgecolor="white", markeredgewidth=1.1, zorder=5)  # fmt: skip
    _axes(ax, found)
    return figure


def _swarm(count: int) -> list[float]:
    """Small, deterministic vertical offsets, so that equal differences stay apart."""
    return [0.16 * (((i * 0.618034) % 1.0) - 0.5) for i in range(count)]


def _axes(ax: Axes, found: Findings) -> None:
    contrasts, sweep = found.comparison.arms, found.sweep
    values = [v for c in contrasts for v in (*c.differences, c.low, c.high) if v is not None]
    values += [0.0, *((found.comparison.margin, -found.comparison.margin) if found.comparison.margin else ())]
    low, high = min(values), max(values)
    pad = 0.06 * (high - low) or 0.05
    ax.set_xlim(low - pad, high + pad)
    ax.set_ylim(len(contrasts) - 0.5, -0.5)
    ax.set_yticks(range(len(contrasts)), [short(c.arm) for c in contrasts], fontsize=10)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.spines.left.set_visible(False)
    ax.set_xlabel(f"difference of {sweep.endpoint} to {short(sweep.baseline)}, paired by block")
    for row, contrast in enumerate(contrasts):
        text = f"{signed(contrast.mean)}  {contrast.verdict}"
        color = VERDICT_COLORS.get(contrast.verdict, "#444444")
        ax.annotate(text, (1.01, row), xycoords=("axes fraction", "data"), va="center", fontsize=9.5, color=color)
    if found.comparison.margin:
        ax.annotate(f"margin ±{found.comparison.margin:g}", (0, 1.0), xycoords=("data", "axes fraction"),
                    xytext=(0, 3), textcoords="offset points", ha="center", fontsize=8, color="#777777")  # fmt: skip
