"""The atlas: the weight w = ∂J/∂log π that each surrogate gives a token, against its ratio ρ.

    python experiments/atlas/draw.py            # writes atlas.png here, in a few seconds

One token per completion, A = ±1, no KL penalty, π_old = μ = 0.2 (only DPPO looks at it). Every curve is the derivative
of the composed algorithm, `+algo=<name>`, by the same function as in training.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from grpo.algorithm.form import build
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.data import Tokens
from grpo.training.update import differentiate

HERE = Path(__file__).resolve().parent
P_OLD = 0.2
UP, DOWN, GREY = "#1b6ca8", "#c8553d", "0.55"  # A > 0, A < 0


@dataclass(frozen=True)
class Panel:
    """A published algorithm, the chapter's form of it, title, what w is, and a remark with its place."""

    published: str
    chapter: str
    title: str
    formula: str
    remark: str = ""
    place: tuple[float, float] = (0.5, 2.2)


PANELS = (
    Panel("grpo", "chapter/grpo", "GRPO · clip", "w = ρA, 0 beyond 1 ± 0.2 where A pushes outwards",
          "the chapter agrees"),
    Panel("dapo", "chapter/dapo", "DAPO · clip_higher", "the same, upper bound at 1.28", "the chapter agrees"),
    Panel("cispo", "chapter/cispo", "CISPO · detached_cap", "w = min(ρ, 5)·A, beyond the clip too",
          "chapter: DAPO's clip,\nclipped tokens learn nothing", (0.56, 2.2)),
    Panel("sapo", "chapter/sapo", "SAPO · soft_gate", "w = 4σ(1 − σ)·ρA, σ = σ(τ(ρ − 1))",
          "chapter: raises bad tokens\nbeyond ρ ≈ 1.63", (0.56, -2.2)),
    Panel("vespo", "chapter/vespo", "VESPO · kernel", "w = Wᵏ exp(λ(1 − W))·A, W = ρ here",
          "chapter: one kernel\nfor both signs of A", (0.5, -2.2)),
    Panel("dppo", "chapter/dppo", "DPPO · divergence_mask", "w = ρA, 0 where |π − μ| > 0.15 outwards; μ = 0.2",
          "chapter: weighs π, not ρ,\nand masks both directions", (0.54, 2.2)),
    Panel("reinforce", "", "REINFORCE · reinforce", "w = A, whatever ρ is"),
)  # fmt: skip


def weights(algorithm: str, ratios: Tensor, advantage: float, composer: Composer) -> Tensor:
    """w of a token at each ratio, [N]."""
    config, _ = load([f"+algo={algorithm}", "kl=none"], composer)
    objective = build(config)
    count = len(ratios)
    old = torch.full((count, 1), P_OLD, dtype=torch.float64).log()
    mask, groups = torch.ones(count, 1, dtype=torch.bool), torch.arange(count)
    tokens = Tokens(
        logp=old + ratios.log()[:, None],
        mask=mask,
        advantages=torch.full((count,), advantage, dtype=torch.float64),
        groups=groups,
        logp_old=old,
        logp_rollout=old,
    )
    return differentiate(objective, tokens, objective.totals(mask, groups, 1)).weight[:, 0]


def draw(file: Path = HERE / "atlas.png") -> None:
    """Seven panels and a key."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    composer = Composer()
    ratios = torch.logspace(-2, 2, 1601, base=2.0, dtype=torch.float64)
    figure, axes = plt.subplots(2, 4, figsize=(14.5, 7.2), sharex=True, sharey=True, constrained_layout=True)
    for axis, panel in zip(axes.flat, PANELS, strict=False):
        axis.axhline(0, color="0.8", lw=0.8, zorder=0)
        axis.axvline(1, color="0.8", lw=0.8, zorder=0)
        for sign, color in ((1.0, UP), (-1.0, DOWN)):
            axis.plot(ratios, sign * ratios, color=GREY, lw=0.9, ls=(0, (1, 2)), zorder=1)
            axis.plot(ratios, weights(panel.published, ratios, sign, composer), color=color, lw=2.2, zorder=3)
            if panel.chapter:
                theirs = weights(panel.chapter, ratios, sign, composer)
                axis.plot(ratios, theirs, color=color, lw=1.5, ls=(0, (4, 2)), zorder=4)
                axis.fill_between(ratios, 0, theirs, where=theirs * sign < 0, color=color, alpha=0.18, lw=0)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axis.text(
            *panel.place, panel.remark, fontsize=9, color="0.3", ha="center", va="center", style="italic", bbox=box
        )
        axis.set_title(panel.title, fontsize=10.5, loc="left", fontweight="bold", pad=20)
        axis.text(0, 1.025, panel.formula, transform=axis.transAxes, fontsize=9, color="0.3")
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xscale("log", base=2)
        axis.set(xlim=(0.25, 4), ylim=(-3.1, 3.1))
        axis.set_xticks([0.25, 0.5, 1, 2, 4], ["¼", "½", "1", "2", "4"])
        axis.minorticks_off()
        axis.tick_params(labelbottom=True, labelsize=9)
    for axis in axes[1, :3]:
        axis.set_xlabel("ratio ρ = π/π_old", fontsize=9.5)
    axes[0, 3].set_xlabel("ratio ρ = π/π_old", fontsize=9.5)
    for axis in axes[:, 0]:
        axis.set_ylabel("weight w = ∂J/∂log π", fontsize=9.5)
    key(axes.flat[-1])
    figure.savefig(file, dpi=130)
    plt.close(figure)


def key(axis) -> None:
    """The legend, in the place of the eighth panel."""
    from matplotlib.lines import Line2D

    axis.axis("off")
    lines = [
        Line2D([], [], color=UP, lw=2.2, label="published, A = +1"),
        Line2D([], [], color=DOWN, lw=2.2, label="published, A = −1"),
        Line2D([], [], color="0.3", lw=1.5, ls=(0, (4, 2)), label="the chapter's form (same colours)"),
        Line2D([], [], color=GREY, lw=0.9, ls=(0, (1, 2)), label="w = ρ A, nothing held back"),
        Line2D([], [], color=DOWN, lw=8, alpha=0.18, label="wrong sign: against A"),
    ]
    axis.legend(handles=lines, loc="upper left", fontsize=9.5, frameon=False, bbox_to_anchor=(0.02, 1.0))
    words = [
        "w > 0 raises the token's probability, w < 0 lowers it.",
        "ρ > 1: it has risen since it was sampled.",
        "At ρ = 1 all published forms are REINFORCE: w = A.",
        "Curves that are one line agree.",
    ]
    place = {"transform": axis.transAxes, "va": "top", "in_layout": False}
    axis.text(0.03, 0.44, "\n".join(words), fontsize=8.5, color="0.25", linespacing=1.6, **place)


if __name__ == "__main__":
    draw()
