"""Learning curves, every seed thin and the mean thick, and the diagnostics of `panels`, in the same hand."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from grpo.report import panels
from grpo.report.figures_style import MANY, Look, canvas, draw_arm, legend, looks, nothing, short, token_axis
from grpo.report.formats import number
from grpo.report.records import RunRecord, SweepRecord, usual
from grpo.report.run_folder import VALIDATION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AXES = {"tokens": "tokens/generated", "steps": "step", "seconds": "time/elapsed"}
_REFERENCES = (r"validation/greedy", r"validation/maj@\d+", r"validation/pass@\d+")


def started(sweep: SweepRecord, arm: str) -> list[RunRecord]:
    """The arm's runs that have something to draw."""
    return [run for run in sweep.arms[arm] if run.rows]


def validation_metric(sweep: SweepRecord) -> str | None:
    """validation/avg@k as most runs recorded it."""
    return usual([name for run in sweep.started if (name := run.find(VALIDATION))])


def references(sweep: SweepRecord) -> list[tuple[str, float]]:
    """The untrained policy's greedy, maj@k and pass@k, mean over runs: what training has to beat."""
    found = []
    for pattern in _REFERENCES:
        names = [name for run in sweep.started for name in run.untrained if re.fullmatch(pattern, name)]
        if (name := usual(names)) is not None:
            values = [run.untrained[name] for run in sweep.started if name in run.untrained]
            found.append((f"untrained {name.split('/')[1]}", fmean(values)))
    return found


def curves(sweep: SweepRecord, x: str) -> Figure:
    """Held-out accuracy and training reward; x: tokens | steps | seconds."""
    metric, axis = validation_metric(sweep), AXES[x]
    if len(sweep.arms) > MANY:
        return _small_multiples(sweep, metric or "reward", axis)
    figure, (left, right) = canvas(9.2, 4.0, 1, 2)
    for ax, name, title in ((left, metric, "Held-out accuracy"), (right, "reward", "Training reward")):
        drawn = False
        for arm, look in looks(sweep).items():
            drawn |= bool(name) and draw_arm(ax, started(sweep, arm), name or "", axis, look)
        ax.set_title(title)
        token_axis(ax, axis)
        ax.set_ylabel(name or "")
        if not drawn:
            nothing(ax, f"{name or 'validation'} was not recorded")
    if metric:
        _reference_lines(left, references(sweep))
    legend(figure, sweep)
    return figure


def _reference_lines(ax: Axes, lines: Sequence[tuple[str, float]], *, labels: bool = True) -> None:
    """Dashed, named beside the axes, where no curve can be."""
    for _, value in lines:
        ax.axhline(value, color="#888888", linewidth=0.9, linestyle=(0, (5, 3)), zorder=1)
    if not labels:
        return
    low, high = ax.get_ylim()
    place = -1.0
    for label, value in sorted(lines, key=lambda line: line[1]):
        place = max((value - low) / (high - low), place + 0.055)  # lines of equal height keep their names apart
        ax.annotate(label, (1.0, place), xycoords="axes fraction", xytext=(4, 0), textcoords="offset points",
                    ha="left", va="center", fontsize=7.5, color="#666666")  # fmt: skip


def _small_multiples(sweep: SweepRecord, metric: str, axis: str) -> Figure:
    """One panel per arm, the baseline's mean behind it, all on the same axes."""
    from grpo.report.figures_style import BASELINE, mean_line, smooth

    arms, columns, styles, lines = list(sweep.arms), 4, looks(sweep), references(sweep)
    rows = math.ceil(len(arms) / columns)
    figure, axes = canvas(9.2, 0.5 + 1.85 * rows, rows, columns, sharex=True, sharey=True)
    base = mean_line(started(sweep, sweep.baseline), metric, axis)
    for ax, arm in zip(axes, arms, strict=False):
        ax.plot(base[0], smooth(base[1]), color=BASELINE, alpha=0.45, linewidth=1.2, linestyle=(0, (1, 1)))
        look = styles[arm]
        if not draw_arm(ax, started(sweep, arm), metric, axis, Look(look.color)):
            ax.text(0.5, 0.5, "nothing yet", ha="center", color="#777777", transform=ax.transAxes)
        _reference_lines(ax, lines, labels=False)
        ax.set_title(short(arm, 26), fontsize=9, color=look.color)
        token_axis(ax, axis)
    for index, ax in enumerate(axes):
        ax.set_visible(index < len(arms))
        lowest = index + columns >= len(arms)  # of its column: below it is nothing, or an empty place
        ax.tick_params(labelbottom=lowest)
        ax.xaxis.label.set_visible(lowest)
    for ax in axes[::columns]:
        ax.set_ylabel(metric)
    return figure


def diagnostics(sweep: SweepRecord, section: str) -> Figure | None:
    """The panels of one section; None where nothing of it varies."""
    axis = _diagnostic_axis(sweep)
    shown = varying(sweep, section)
    if not shown:
        return None
    columns = 3
    rows = math.ceil(len(shown) / columns)
    figure, axes = canvas(9.2, 0.45 + 2.15 * rows, rows, columns)
    many = len(sweep.arms) > MANY
    for ax, (panel, metric, title) in zip(axes, shown, strict=False):
        for arm, look in looks(sweep).items():
            draw_arm(ax, started(sweep, arm), metric, axis, look, faint=0.0 if many else 0.22)
        ax.set_title(title, fontsize=9)
        ax.set_ylabel(panel.label, fontsize=8)
        ax.tick_params(labelsize=8)
        _limits(ax, panel.range)
        token_axis(ax, axis)
        ax.xaxis.label.set_fontsize(8)
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    legend(figure, sweep)
    return figure


def _limits(ax: Axes, limits: tuple[float | None, float | None]) -> None:
    """A share that stays below 0.3 is not drawn up to 1."""
    low, high = limits
    top = max((float(max(line.get_ydata(), default=0)) for line in ax.lines), default=0.0)  # type: ignore[arg-type]
    whole = high is not None and top > 0.3 * high
    if low is not None:
        ax.set_ylim(bottom=low - 0.02 * (high if high is not None and whole else top))
    if high is not None and whole:
        ax.set_ylim(top=high * 1.02)


def _diagnostic_axis(sweep: SweepRecord) -> str:
    return AXES["tokens"] if any(run.last(AXES["tokens"]) for run in sweep.started) else "step"


def recorded(sweep: SweepRecord, section: str) -> list[tuple[panels.Panel, str, str]]:
    """Panel, metric, title of all that the runs recorded over training, in the order of `panels`."""
    found = []
    for panel in panels.of_section(section):
        if panel.final:
            continue
        metrics = panel.recorded(sweep.metrics)
        if len(metrics) > 1 and "<k>" in panel.metrics[0]:  # the untrained policy is asked with a larger k, once
            metrics = [max(metrics, key=lambda name: sweep.metrics[name][0])]
        titles = [panel.title if len(metrics) == 1 else f"{panel.title}: {name}" for name in metrics]
        found += [(panel, metric, title) for metric, title in zip(metrics, titles, strict=True)]
    return found


def varying(sweep: SweepRecord, section: str) -> list[tuple[panels.Panel, str, str]]:
    """The recorded panels whose metric is not one constant in all runs."""
    return [each for each in recorded(sweep, section) if sweep.metrics[each[1]][1] is None]


def constants(sweep: SweepRecord, section: str) -> list[str]:
    """`metric = value` of those that are, so that they need no picture."""
    every = [(metric, sweep.metrics[metric][1]) for _, metric, _ in recorded(sweep, section)]
    return [f"{metric} = {number(value)}" for metric, value in every if value is not None]
