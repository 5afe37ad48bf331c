"""The panels of a comparison, one list for the local report and for the W&B workspace.

To add a panel: one row below. Its metrics are names of recording/metrics.py; `<k>` stands for a whole number and
`<name>`, `<term>` for any word, and stay open until the runs say which there are (`Panel.recorded`). One metric per
panel wherever it can be: a panel has a line for every arm already.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from grpo.recording import metrics

Section = Literal["reward", "evaluation", "stability", "objective", "length", "speed"]
SECTIONS: tuple[Section, ...] = ("reward", "evaluation", "stability", "objective", "length", "speed")
Range = tuple[float | None, float | None]
FREE: Range = (None, None)
SHARE: Range = (0.0, 1.0)
FROM_0: Range = (0.0, None)


@dataclass(frozen=True)
class Panel:
    """One chart over training, a line per arm."""

    section: Section
    title: str
    metrics: tuple[str, ...]
    """Names or patterns of recording/metrics.py."""
    label: str
    """Of the y axis: what it is, with its unit."""
    range: Range = FREE
    """Of the y axis; None where the values decide."""
    note: str = ""
    """What to look for, in one sentence."""
    final: bool = False
    """One number per run, measured after the last step: bars over the arms, no curve."""

    def recorded(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that belong here, in the order of `metrics`; several where a pattern is open."""
        names = sorted(names)
        return [name for metric in self.metrics for name in names if metrics.regex(metric).fullmatch(name)]


PANELS: tuple[Panel, ...] = (
    Panel("reward", "Reward", ("reward",), "mean reward", note="shaping included"),
    Panel("reward", "Training accuracy", ("accuracy",), "share right", SHARE),
    Panel("reward", "Reward functions", ("rewards/<name>/mean",), "mean reward", note="each function by itself"),
    Panel("reward", "Spread within groups", ("reward_std",), "standard deviation", FROM_0, "0 means nothing to learn"),
    Panel("reward", "Groups without signal", ("groups/zero_std",), "share of groups", SHARE, "all rewards equal"),
    Panel("reward", "Groups all right", ("groups/all_right",), "share of groups", SHARE, "the questions are too easy"),
    Panel("reward", "Groups all wrong", ("groups/all_wrong",), "share of groups", SHARE, "the questions are too hard"),
    Panel("reward", "Size of the advantages", ("advantage/abs_mean",), "mean |A|", FROM_0),
    Panel("evaluation", "Validation, mean of samples", ("validation/avg@<k>",), "share right", SHARE),
    Panel("evaluation", "Validation, greedy", ("validation/greedy",), "share right", SHARE),
    Panel("evaluation", "Validation, any of k", ("validation/pass@<k>",), "pass@k", SHARE, "falls where RL narrows"),
    Panel("evaluation", "Validation, majority of k", ("validation/maj@<k>",), "maj@k", SHARE),
    Panel("evaluation", "Different right answers", ("validation/distinct@<k>",), "answers per question", FROM_0),
    Panel("evaluation", "Test, mean of samples", ("test/avg@<k>",), "share right", SHARE, final=True),
    Panel("stability", "Entropy", ("policy/entropy",), "nats per token", FROM_0, "a fall to 0 is a collapse"),
    Panel("stability", "−log μ of sampled tokens", ("sampling/nll",), "nats per token", FROM_0, "explodes first"),
    Panel("stability", "Gradient norm", ("grad_norm",), "L2 norm before clipping", FROM_0),
    Panel("stability", "Gradients clipped", ("grad_clipped",), "share of updates", SHARE),
    Panel("stability", "KL to the reference", ("kl/ref",), "nats per token", note="only where the objective has one"),
    Panel("stability", "Mismatch, mean", ("mismatch/abs_logp_mean",), "|log π − log μ|, nats", FROM_0, "same weights"),
    Panel("stability", "Mismatch, largest", ("mismatch/abs_logp_max",), "|log π − log μ|, nats", FROM_0),
    Panel("stability", "Mismatch, KL", ("mismatch/k3",), "nats per token", FROM_0, "trainer against engine"),
    Panel("stability", "Updates left out", ("updates/skipped",), "updates so far", FROM_0, "not finite"),
    Panel("stability", "Empty updates", ("updates/empty",), "minibatches so far", FROM_0, "every weight was 0"),
    Panel("objective", "Clipped from above", ("surrogate/clip_high",), "share of tokens", FROM_0),
    Panel("objective", "Clipped from below", ("surrogate/clip_low",), "share of tokens", FROM_0),
    Panel("objective", "Weight of a token", ("surrogate/weight_mean",), "mean |∂J/∂log π|", FROM_0, "pull on log π"),
    Panel("objective", "Largest weight", ("surrogate/weight_max",), "max |∂J/∂log π|", FROM_0),
    Panel("objective", "Tokens without gradient", ("surrogate/weight_zero",), "share of tokens", SHARE),
    Panel("objective", "Ratio, mean", ("policy/ratio_mean",), "mean ρ"),
    Panel("objective", "Ratio, largest", ("policy/ratio_max",), "max ρ", FROM_0),
    Panel("objective", "Ratio, smallest", ("policy/ratio_min",), "min ρ", FROM_0),
    Panel("objective", "Correction, mean", ("correction/mean",), "mean c", FROM_0, "1 where there is none"),
    Panel("objective", "Correction, masked", ("correction/masked",), "share of tokens", SHARE),
    Panel("objective", "Correction, effective sample", ("correction/ess",), "share of tokens", SHARE),
    Panel("objective", "Loss", ("loss",), "loss", note="its level says nothing about learning"),
    Panel("objective", "Terms of the loss", ("loss/<term>",), "loss"),
    Panel("objective", "Learning rate", ("lr",), "learning rate", FROM_0),
    Panel("length", "Completion length", ("length/mean",), "tokens", FROM_0),
    Panel("length", "Length of right answers", ("length/right",), "tokens", FROM_0),
    Panel("length", "Length of wrong answers", ("length/wrong",), "tokens", FROM_0, "grows alone: a bias of the loss"),
    Panel("length", "Longest completion", ("length/max",), "tokens", FROM_0),
    Panel("length", "Cut by the limit", ("length/truncated",), "share of completions", SHARE),
    Panel("length", "Validation length", ("validation/length",), "tokens", FROM_0),
    Panel("length", "Validation, cut by the limit", ("validation/truncated",), "share of completions", SHARE),
    Panel("speed", "Generated tokens", ("speed/generated_tokens_per_s",), "tokens/s", FROM_0),
    Panel("speed", "Trained tokens", ("speed/trained_tokens_per_s",), "tokens/s", FROM_0),
    Panel("speed", "Time of a step", ("time/step",), "s", FROM_0),
    Panel("speed", "Time of sampling", ("time/rollout",), "s", FROM_0),
    Panel("speed", "Time of the update", ("time/update",), "s", FROM_0),
    Panel("speed", "Rounds of sampling", ("sampling/rounds",), "rounds", FROM_0, "more than 1: a filter resamples"),
    Panel("speed", "Tokens thrown away", ("sampling/discarded_tokens",), "tokens", FROM_0, "by the filter"),
    Panel("speed", "Memory, peak", ("memory/peak",), "GB", FROM_0),
)
"""Every panel, in the order in which it is shown."""


def of_section(section: str) -> tuple[Panel, ...]:
    """The panels of one section."""
    return tuple(panel for panel in PANELS if panel.section == section)
