"""Every metric, defined once. The README's tables are rendered from here, and a strict recorder knows no other name.

To add a metric: one row below. `<…>` in a name stands for anything without a slash, `<k>` for a whole number.
Unless a row says otherwise, a metric covers one step, and a mean is over all completions ("mean_i") or over all
tokens that count ("mean_it") of the whole step, never a mean of means of micro-batches or ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache


@dataclass(frozen=True)
class Metric:
    """A name, what it is by formula, and its unit (empty = a pure number)."""

    name: str
    formula: str
    unit: str
    section: str


_SECTIONS: dict[str, list[tuple[str, str, str]]] = {
    "Rewards": [
        ("reward", "mean_i R_i, R_i = Σ_n w_n r_in, over scored completions, shaping included", ""),
        ("reward_std", "mean over groups of the standard deviation (ddof 0) of R within the group", ""),
        ("rewards/<name>/mean", "mean_i r_in of one reward function, over the completions it applies to", ""),
        ("rewards/<name>/<metric>", "what the function logs (log_metric: mean over its calls) or counts (sum)", ""),
        ("rewards/unscored", "share of completions to which no reward function applies", "share"),
        ("accuracy", "mean_i [accuracy reward ≥ right_at] over the training completions", "share"),
        ("advantage/abs_mean", "mean_i |A_i|", ""),
    ],
    "Groups and dynamic sampling": [
        ("groups/zero_std", "share of sampled groups whose completions all have the same reward", "share"),
        ("groups/all_right", "share of sampled groups with equal rewards and every completion right", "share"),
        ("groups/all_wrong", "share of sampled groups with equal rewards and no completion right", "share"),
        ("groups/informative", "number of groups in the update whose advantages are not all 0", "groups"),
        ("sampling/rounds", "rounds of sampling that filled the step (1 without a filter)", "rounds"),
        ("sampling/lag", "updates by which the weights that sampled were behind the trainer's", "updates"),
        ("sampling/resyncs", "times that the engine was found stale and given its weights again (of this process)", ""),
        ("sampling/exhausted", "1 where the rounds ran out before the step was full, else 0", ""),
        ("sampling/solved", "questions so far whose pass rate reached filter.solved_at: not asked again", "questions"),
        ("sampling/discarded_tokens", "tokens of this step's completions that the filter threw away", "tokens"),
        ("sampling/nll", "−mean log μ over all sampled tokens, discarded ones included", "nats/token"),
    ],
    "Policy and update": [
        ("loss", "the minimised number, summed over micro-batches, mean over the step's updates", ""),
        ("loss/<term>", "its terms: policy, kl, entropy", ""),
        (
            "policy/entropy",
            "mean_it H(π(·|o_<t)), exact, at the sampling temperature, trained tokens",
            "nats/token",
        ),
        ("policy/ratio_mean", "mean_it ρ_it, over all updates of the step", ""),
        ("policy/ratio_min", "min_it ρ_it", ""),
        ("policy/ratio_max", "max_it ρ_it", ""),
        ("surrogate/clip_low", "share of tokens whose gradient the lower bound removes", "share"),
        ("surrogate/clip_high", "share of tokens whose gradient the upper bound removes", "share"),
        (
            "surrogate/weight_mean",
            "mean_it |w_it|, w_it = ∂J/∂log π before aggregation: its pull on log π",
            "",
        ),
        ("surrogate/weight_max", "max_it |w_it|", ""),
        ("surrogate/weight_zero", "share of tokens with w_it = 0", "share"),
        ("kl/ref", "mean_it of the KL penalty against the reference policy, estimated or exact", "nats/token"),
        ("grad_norm", "mean over updates of the global L2 norm of the gradient before clipping", ""),
        ("grad_clipped", "share of updates whose gradient norm exceeded max_grad_norm", "share"),
        ("lr", "learning rate of the step's last update", ""),
        ("updates/total", "optimizer updates so far (cumulative)", "updates"),
        ("updates/empty", "minibatches so far whose every weight was 0: no update was made (cumulative)", "updates"),
        ("updates/skipped", "updates so far left out for a non-finite loss or gradient (cumulative)", "updates"),
    ],
    "Trainer against engine": [
        ("mismatch/abs_logp_mean", "mean_it |log π_it − log μ_it|, same weights", "nats"),
        ("mismatch/abs_logp_max", "max_it |log π_it − log μ_it|", "nats"),
        ("mismatch/k3", "mean_it (e^d − d − 1), d = log π_it − log μ_it", "nats/token"),
        ("correction/mean", "mean_it of the importance correction c_it", ""),
        ("correction/masked", "share of tokens with c_it = 0", "share"),
        ("correction/ess", "effective sample size (Σ c)² / (N Σ c²) over tokens", "share"),
    ],
    "Completions": [
        ("length/mean", "mean_i |o_i|, |o| = sampled tokens, end-of-sequence included", "tokens"),
        ("length/max", "max_i |o_i|", "tokens"),
        ("length/right", "mean_i |o_i| of the right completions", "tokens"),
        ("length/wrong", "mean_i |o_i| of the others", "tokens"),
        ("length/truncated", "share of completions that the length limit ended", "share"),
    ],
    "Evaluation (<split> = validation or test)": [
        ("<split>/avg@<k>", "mean over questions of c/n: c right of n sampled completions", "share"),
        ("<split>/avg@<k>/low", "its 95 % interval, clustered by question (t over question means)", "share"),
        ("<split>/avg@<k>/high", "upper end of the same interval", "share"),
        ("<split>/pass@<k>", "mean over questions of 1 − C(n−c, k)/C(n, k)", "share"),
        ("<split>/maj@<k>", "mean over questions of the accuracy of the most frequent answer; ties by lot", "share"),
        ("<split>/distinct@<k>", "mean over questions of the different right answers among k completions", "answers"),
        ("<split>/greedy", "share of questions whose greedy completion is right", "share"),
        ("<split>/length", "mean |o| of the sampled completions", "tokens"),
        ("<split>/truncated", "share of sampled completions that the length limit ended", "share"),
    ],
    "Cost": [
        ("tokens/generated", "sampled training tokens so far, discarded ones included (cumulative)", "tokens"),
        ("tokens/trained", "tokens that counted in an update so far (cumulative)", "tokens"),
        ("time/rollout", "sampling, all rounds", "s"),
        ("time/reward", "reward functions", "s"),
        ("time/update", "forward, backward and optimizer", "s"),
        ("time/sync", "weights to the engine", "s"),
        ("time/eval", "evaluations at this step", "s"),
        ("time/step", "one pass through the spine; evaluations and checkpoints come on top", "s"),
        ("time/elapsed", "seconds since the run began, interruptions left out (cumulative)", "s"),
        ("speed/generated_tokens_per_s", "generated tokens of the step / time/rollout", "tokens/s"),
        ("speed/trained_tokens_per_s", "trained tokens of the step / time/update", "tokens/s"),
        (
            "memory/peak",
            "GPU: most memory allocated in the run; CPU: largest resident set of the process; max over devices",
            "GB",
        ),
        ("memory/whole_logits", "1 where logits [tokens × vocabulary] exist at once, not in chunks; else absent", ""),
    ],
}

METRICS: tuple[Metric, ...] = tuple(
    Metric(name, formula, unit, section) for section, rows in _SECTIONS.items() for name, formula, unit in rows
)

# TRL 1.16's GRPOTrainer → ours. None = we log no such number, and the note says why.
TRL_NAMES: tuple[tuple[str, str | None, str], ...] = (
    ("num_tokens", "tokens/generated", "TRL counts prompt tokens too"),
    ("step_time", "time/step", ""),
    ("epoch", None, "a run counts steps; pass = prompts so far // size of the training split"),
    ("loss", "loss", ""),
    ("grad_norm", "grad_norm", ""),
    ("learning_rate", "lr", ""),
    ("reward", "reward", ""),
    ("reward_std", "reward_std", "TRL: sample standard deviation (ddof 1)"),
    ("rewards/<name>/mean", "rewards/<name>/mean", ""),
    ("rewards/<name>/std", None, "reward_std is over groups, where the signal is"),
    ("frac_reward_zero_std", "groups/zero_std", "split into groups/all_right and groups/all_wrong"),
    ("entropy", "policy/entropy", "TRL: mean of micro-batch means"),
    ("kl", "kl/ref", ""),
    ("clip_ratio/low_mean", "surrogate/clip_low", ""),
    ("clip_ratio/low_min", None, "a minimum over ranks says nothing about tokens"),
    ("clip_ratio/high_mean", "surrogate/clip_high", ""),
    ("clip_ratio/high_max", None, "a maximum over ranks says nothing about tokens"),
    ("clip_ratio/region_mean", "surrogate/weight_zero", "the tokens that give no gradient, in every variant"),
    ("cispo_clip_ratio", "surrogate/clip_high", ""),
    ("completions/mean_length", "length/mean", ""),
    ("completions/min_length", None, ""),
    ("completions/max_length", "length/max", ""),
    ("completions/clipped_ratio", "length/truncated", ""),
    ("completions/mean_terminated_length", None, "length/right and length/wrong tell more"),
    ("completions/min_terminated_length", None, ""),
    ("completions/max_terminated_length", None, ""),
    ("sampling/sampling_logp_difference/mean", "mismatch/abs_logp_mean", ""),
    ("sampling/sampling_logp_difference/max", "mismatch/abs_logp_max", ""),
    ("sampling/importance_sampling_ratio/mean", "correction/mean", ""),
    ("sampling/importance_sampling_ratio/min", None, "correction/masked and correction/ess tell more"),
    ("sampling/importance_sampling_ratio/max", None, "bounded by the correction's own cap"),
)


@cache
def regex(name: str) -> re.Pattern[str]:
    """A name as a regular expression; it fits whole names (`fullmatch`)."""
    parts = {"<split>": "(validation|test)", "<k>": "[1-9][0-9]*"}
    pieces = re.split(r"(<\w+>)", name)
    return re.compile("".join(parts.get(p, "[^/]+") if p.startswith("<") else re.escape(p) for p in pieces))


@cache
def find(name: str) -> Metric | None:
    """The definition of a metric, or None."""
    return next((metric for metric in METRICS if regex(metric.name).fullmatch(name)), None)


def check(names: Iterable[str]) -> None:
    """Refuse names that are not defined here, with the nearest one."""
    for name in names:
        if find(name) is None:
            near = get_close_matches(name, [m.name for m in METRICS], n=1, cutoff=0.0)[0]
            raise ValueError(f"{name}: no such metric is defined in recording/metrics.py; did you mean {near}?")


def readme_table() -> str:
    """The README's tables of all metrics, one per section (Markdown)."""
    lines: list[str] = []
    for section, rows in _SECTIONS.items():
        lines += [f"**{section}**", "", "| metric | definition | unit |", "|---|---|---|"]
        lines += [f"| `{name}` | {formula.replace('|', chr(92) + '|')} | {unit} |" for name, formula, unit in rows]
        lines.append("")
    return "\n".join(lines)


def trl_table() -> str:
    """The README's table "TRL's metric → ours" (Markdown)."""
    lines = ["| TRL | here | note |", "|---|---|---|"]
    lines += [f"| `{trl}` | {f'`{ours}`' if ours else '–'} | {note} |" for trl, ours, note in TRL_NAMES]
    return "\n".join(lines) + "\n"
