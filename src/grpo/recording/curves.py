"""curves.png of a run, drawn from its JSONL files alone: `python -m grpo.recording.curves <run folder>` draws it again.

To add a panel: a function `(ax, Run) -> None` and a place for it in PANELS. A panel whose metrics are missing says so.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo.recording.plotting import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    SKY,
    STYLE,
    Run,
    finish,
    line,
    marker,
    running_mean,
    second_axis,
    shares,
    stack,
)
from grpo.recording.recorder import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def reward(ax: Axes, run: Run) -> None:
    """Training reward and how far completions of one group differ."""
    ax.set_ylabel("reward")
    if line(ax, run, "reward", BLUE, "mean"):
        both = [(s, r["reward"], r.get("reward_std", math.nan)) for s, r in run.steps.items() if "reward" in r]
        steps, means, spreads = zip(*both, strict=True)
        low = [m - s for m, s in zip(means, spreads, strict=True)]
        high = [m + s for m, s in zip(means, spreads, strict=True)]
        ax.fill_between(steps, low, high, color=BLUE, alpha=0.12, linewidth=0, label="± std within groups")
    finish(ax, "Reward (training)")


def accuracy(ax: Axes, run: Run) -> None:
    """Held-out accuracy against the untrained policy's own best."""
    ax.set_ylabel("share right")
    drawn = 0
    for pattern, color, style in (
        (r"validation/pass@\d+", GREEN, {}),
        (r"validation/greedy", ORANGE, {}),
        (r"validation/avg@\d+", BLUE, {"linewidth": 2.0}),
    ):
        if name := run.find(pattern):
            drawn += line(ax, run, name, color, name.split("/")[1], **style)
    name = run.find(r"validation/avg@\d+")
    if name and (band := run.series(f"{name}/low")[0]):
        low, high = run.series(f"{name}/low")[1], run.series(f"{name}/high")[1]
        ax.fill_between(band, low, high, color=BLUE, alpha=0.12, linewidth=0)
    for pattern, color in (
        (r"validation/pass@\d+", GREEN),
        (r"validation/maj@\d+", PURPLE),
        (r"validation/greedy", ORANGE),
    ):
        if reference := run.first(pattern):
            label = f"untrained {reference[0].split('/')[1]}"
            ax.axhline(reference[1], color=color, linestyle=(0, (4, 3)), linewidth=0.9, label=label)
            drawn += 1
    if test := run.find(r"test/avg@\d+"):
        tested, values = run.series(test)
        step, value = tested[-1], values[-1]
        ends = [run.steps[step].get(f"{test}/{end}", math.nan) for end in ("low", "high")]
        bars = [[max(0.0, value - ends[0])], [max(0.0, ends[1] - value)]] if all(map(math.isfinite, ends)) else None
        ax.errorbar([step], [value], yerr=bars, fmt="*", color=RED, markersize=9, capsize=2, label=test, zorder=5)
        drawn += 1
    if drawn:
        ax.set_ylim(-0.02, 1.02)
    finish(ax, "Accuracy (held out)", columns=4)


def entropy(ax: Axes, run: Run) -> None:
    """How undecided the policy is."""
    ax.set_ylabel("nats per token")
    line(ax, run, "policy/entropy", BLUE, "entropy of π (trained tokens)")
    line(ax, run, "sampling/nll", ORANGE, "−log μ of sampled tokens")
    finish(ax, "Entropy")


def length(ax: Axes, run: Run) -> None:
    """Completion lengths, and the share the limit cut."""
    ax.set_ylabel("tokens")
    line(ax, run, "length/mean", BLUE, "mean")
    line(ax, run, "length/right", GREEN, "right")
    line(ax, run, "length/wrong", RED, "wrong")
    shares(ax, run, "length/truncated", "cut by the limit")
    finish(ax, "Completion length")


def surrogate(ax: Axes, run: Run) -> None:
    """What the objective does to tokens: which it stops, and how hard it pulls on the others."""
    ax.set_ylabel("% of tokens")
    for name, color, label in (("clip_low", SKY, "clipped low"), ("clip_high", BLUE, "clipped high")):
        line(ax, run.percent(f"surrogate/{name}"), f"surrogate/{name}", color, label)
    if ax.has_data():
        ax.set_ylim(bottom=0)
    steps, values = run.series("surrogate/weight_mean")
    if steps:
        right = second_axis(ax, "mean |∂J/∂log π|", ORANGE)
        smooth = running_mean(values, max(1, len(values) // 25))
        right.plot(steps, smooth, color=ORANGE, marker=marker(steps), markersize=2)
        right.set_ylim(0, 1.15 * max(v for v in smooth if math.isfinite(v)) or 1.0)
        ax.plot([], [], color=ORANGE, label="mean weight (right)")
    finish(ax, "Clipped tokens and weight of a token")


def groups(ax: Axes, run: Run) -> None:
    """Groups that teach nothing."""
    ax.set_ylabel("% of groups")
    names = [("groups/all_right", GREEN, "all right"), ("groups/all_wrong", RED, "all wrong")]
    stack(ax, run, names, scale=100)
    if run.series("groups/zero_std")[0]:
        line(ax, run.percent("groups/zero_std"), "groups/zero_std", "black", "all rewards equal", linewidth=0.9)
    if ax.has_data():
        ax.set_ylim(0, 100)
    finish(ax, "Groups without signal")


def gradient(ax: Axes, run: Run) -> None:
    """Size of the updates."""
    ax.set_ylabel("L2 norm before clipping")
    line(ax, run, "grad_norm", BLUE, "gradient norm")
    shares(ax, run, "grad_clipped", "updates clipped")
    positive = [v for v in run.series("grad_norm")[1] if v > 0 and math.isfinite(v)]
    if positive and max(positive) > 50 * min(positive):
        ax.set_yscale("log")
    finish(ax, "Gradient norm")


def seconds(ax: Axes, run: Run) -> None:
    """Where the time of a step goes."""
    ax.set_ylabel("seconds")
    phases = zip(("rollout", "reward", "update", "sync", "eval"), (BLUE, PURPLE, ORANGE, GREY, GREEN), strict=True)
    stack(ax, run, [(f"time/{phase}", color, phase) for phase, color in phases])
    steps, values = run.binned(["time/step"]).series("time/step")
    if any(values):
        ax.plot(steps, values, color="black", linewidth=0.7, label="whole step", drawstyle="steps-mid")
        # evaluations would flatten everything else
        usual = sorted(v for v in values if math.isfinite(v))
        top = 1.15 * min(usual[-1], 2.5 * usual[len(usual) // 2])
        ax.set_ylim(0, top)
        if usual[-1] > top:
            ax.set_ylabel(f"seconds (peaks cut, up to {usual[-1]:.3g})")
    finish(ax, "Time per step")


PANELS: tuple[Callable[[Any, Run], None], ...] = (
    reward,
    accuracy,
    entropy,
    length,
    surrogate,
    groups,
    gradient,
    seconds,
)


def draw(folder: Path | str, title: str | None = None) -> Path:
    """Write <folder>/curves.png (title: the folder's name) and return its path."""
    path = Path(folder) / "curves.png"
    new = path.with_name("curves.tmp.png")
    figure(folder, title).savefig(new, dpi=150)
    new.replace(path)
    return path


def figure(folder: Path | str, title: str | None = None) -> Figure:
    """The picture of a run."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    folder = Path(folder)
    run = Run(read_metrics(folder))
    with rc_context(STYLE):  # pyright: ignore[reportArgumentType]
        picture = Figure(figsize=(10, 11), layout="constrained")
        FigureCanvasAgg(picture)  # never pyplot: it would look for a screen and keep the figure
        axes = picture.subplots(4, 2)
        for ax, panel in zip(axes.flat, PANELS, strict=True):
            panel(ax, run)
            ax.set_xlabel("step")
            if run.steps:
                last = max(run.steps)
                ax.set_xlim(min(run.steps) - 0.02 * last - 0.2, last + 0.02 * last + 0.2)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 2.5, 5, 10]))
        picture.suptitle(title or _title(folder, run), fontsize=12, fontweight="bold", x=0.01, ha="left")
        picture.draw_without_rendering()  # lays it out while the style still holds
    return picture


def _title(folder: Path, run: Run) -> str:
    """dapo/3f9c21ab-s0/1 · 100 steps · 389k tokens."""
    name, last = "/".join(folder.resolve().parts[-3:]), max(run.steps, default=0)
    tokens = run.series("tokens/generated")[1]
    words = [name, f"{last} step{'s' * (last != 1)}"]
    return " · ".join([*words, f"{tokens[-1]:,.0f} tokens generated"] if tokens else words)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "metrics.jsonl").exists():
        sys.exit("usage: python -m grpo.recording.curves <run folder>   (one that holds metrics.jsonl)")
    print(draw(sys.argv[1]))
