"""Before step 1: is there anything to learn? Sample until one group's rewards differ, and say what was measured."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import TYPE_CHECKING, Literal

from grpo.errors import UserError
from grpo.evaluation.statistics import Counts, avg_at_k, cluster_interval, recommended_group_size
from grpo.runs.dead import DeadShare, expected_dead

if TYPE_CHECKING:
    from grpo.data import Prompt, Rollout, Scores

Mode = Literal["strict", "warn", "off"]
Sample = Callable[[int], "tuple[Sequence[Prompt], Sequence[Rollout], Scores]"]
SIZES = (2, 4, 8, 16, 32)


@dataclass
class Seen:
    """Everything the rounds have brought so far."""

    rounds: int = 0
    rewards: Counter[float] = field(default_factory=Counter)
    """Completions by total reward; those that no function scored are not in it."""
    completions: int = 0
    cut: int = 0
    groups: int = 0
    varied: int = 0
    """Groups with two different rewards."""
    counts: dict[str, list[int]] = field(default_factory=dict)
    """[n, c] by prompt id; a prompt that is sampled again adds to its own counts."""
    samples: dict[str, str] = field(default_factory=dict)
    """One completion as text for each of the first three prompts."""

    def add(self, prompts: Sequence[Prompt], rollouts: Sequence[Rollout], scores: Scores, right_at: float) -> None:
        """Take in one round: rollouts[i] has row i of scores."""
        texts = {prompt.id: prompt.text for prompt in prompts}
        groups: dict[int, list[float]] = {}
        rows = zip(rollouts, scores.total.tolist(), scores.groups.tolist(), scores.accuracy.tolist(), strict=True)
        for rollout, reward, group, accuracy in rows:
            self.completions += 1
            self.cut += rollout.truncated
            groups.setdefault(group, [])
            if not isnan(reward):
                self.rewards[reward] += 1
                groups[group].append(reward)
            if not isnan(accuracy):
                count = self.counts.setdefault(rollout.prompt_id, [0, 0])
                count[0] += 1
                count[1] += accuracy >= right_at
            if len(self.samples) < 3 and rollout.prompt_id not in self.samples:
                self.samples[rollout.prompt_id] = _describe(texts.get(rollout.prompt_id, ""), rollout, reward)
        self.rounds += 1
        self.groups += len(groups)
        self.varied += sum(_differ(rewards) for rewards in groups.values())


@dataclass(frozen=True)
class PreflightReport:
    """What was measured, and the sentences that follow from it."""

    seen: Seen
    seconds: float
    group_size: int
    max_completion_tokens: int
    pass_rate: float
    """avg@k: the mean over prompts of c/n; NaN if nothing says what is right."""
    interval: tuple[float, float]
    """95 %, clustered by prompt."""
    dead: dict[int, DeadShare]
    recommended: int | None
    """Group size of the chapter's table."""

    @property
    def reason(self) -> str | None:
        """Why nothing can be learned, as a sentence; None if some group's rewards differ."""
        return None if self.seen.varied else _reason(self)

    @property
    def warning(self) -> str | None:
        """Something can be learned, but most completions never end."""
        share = self.seen.cut / max(self.seen.completions, 1)
        if not self.seen.varied or share < 0.5:
            return None
        return (
            f"{100 * share:.0f} % of the completions were cut at {self.max_completion_tokens} tokens; {_longer(self)}"
        )

    def lines(self) -> list[str]:
        """For the start table, without the word preflight in front."""
        if isnan(self.pass_rate):
            vary = f"{self.seen.varied} of {self.seen.groups} groups vary"
            head = f"pass rate unknown (no reward says what is right) · {vary}"
        else:
            low, high = self.interval
            interval = "" if isnan(low) else f" [{low:.2f}, {high:.2f}]"
            sizes, shares = "/".join(map(str, self.dead)), "/".join(map(str, self.dead.values()))
            head = f"pass rate {self.pass_rate:.2f}{interval} · dead groups expected at G = {sizes}: {shares} %"
            head += f" · the chapter's table suggests {self.recommended}"
        hows = {share.how for share in self.dead.values()}
        notes = ["~ extrapolated by a beta-binomial"] * ("fitted" in hows) + ["≤ needs more samples"] * (
            "bound" in hows
        )
        return [head, *notes, *([self.warning] if self.warning else [])]

    def enforce(self, mode: Mode) -> list[str]:
        """The lines to print; in strict mode raises UserError where nothing can be learned."""
        if self.reason is None:
            return self.lines()
        samples = "".join(f"\n  {text}" for text in self.seen.samples.values())
        if mode == "strict":
            raise UserError(
                f"preflight   nothing can be learned: {self.reason} (preflight=warn goes on all the same){samples}"
            )
        return [f"warning: nothing can be learned: {self.reason}", *self.seen.samples.values(), *self.lines()]


def preflight(
    sample: Sample,
    group_size: int,
    *,
    max_completion_tokens: int,
    right_at: float = 1.0,
    limit_completions: int | None = None,
    limit_seconds: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
) -> PreflightReport:
    """Sample rounds until one group's rewards differ, 64·G completions or a minute are reached.

    sample(round)   prompts, their completions and scores of round 0, 1, ... (row i of the scores is completion i); an
                    error of a reward function passes through. A round without completions ends the sampling.
    right_at        accuracy from which a completion counts as right
    """
    limit = 64 * group_size if limit_completions is None else limit_completions
    seen, start = Seen(), clock()
    while True:
        prompts, rollouts, scores = sample(seen.rounds)
        seen.add(prompts, rollouts, scores, right_at)
        if seen.varied or not rollouts or seen.completions >= limit or clock() - start >= limit_seconds:
            break
    counts: list[Counts] = [(n, c) for n, c in seen.counts.values()]
    rate = avg_at_k(counts)
    return PreflightReport(
        seen=seen,
        seconds=clock() - start,
        group_size=group_size,
        max_completion_tokens=max_completion_tokens,
        pass_rate=rate,
        interval=cluster_interval([c / n for n, c in counts]),
        dead=expected_dead(counts, SIZES) if counts else {},
        recommended=recommended_group_size(rate)[0] if counts else None,
    )


def _differ(rewards: Sequence[float]) -> bool:
    """Two rewards of a group differ by more than rounding: the tolerance of the advantage."""
    if len(rewards) < 2:
        return False
    return max(rewards) - min(rewards) > 1e-8 * max(1.0, abs(sum(rewards) / len(rewards)))


def _reason(report: PreflightReport) -> str:
    seen = report.seen
    sampled = f"{seen.completions:,} completions ({seen.groups} groups of {report.group_size})"
    if not seen.completions:
        return "no completion was sampled; check the task's prompts and the rollout"
    if seen.cut == seen.completions:
        limit = f"the limit of {report.max_completion_tokens} tokens"
        return f"all {sampled} were cut at {limit} and no group's rewards differ; {_longer(report)}"
    if not seen.rewards:
        return f"none of {sampled} got a score (every reward function said None); check the reward and its columns"
    if len(seen.rewards) == 1:
        value = next(iter(seen.rewards))
        return f"all {sampled} got the reward {value:g}; {_advice(report.pass_rate)}"
    most = ", ".join(f"{count:,} × {value:g}" for value, count in seen.rewards.most_common(4))
    cure = "take sampling.temperature=1, a larger group_size or another task"
    return f"in none of {seen.groups} groups of {report.group_size} do two rewards differ (rewards {most}); {cure}"


def _longer(report: PreflightReport) -> str:
    return f"say max_completion_tokens={2 * report.max_completion_tokens}"


def _advice(pass_rate: float) -> str:
    if pass_rate >= 1.0:
        return "the policy solves the task already: take a harder one"
    if pass_rate == 0.0:
        return "take an easier task, a stronger model or a larger group_size, or check how the reward reads the answers"
    return "check the reward: it says the same of every completion"


def _describe(prompt: str, rollout: Rollout, reward: float) -> str:
    """ "37+5=" → "42" · 3 tokens, stop · reward 1."""
    score = "no reward" if isnan(reward) else f"reward {reward:g}"
    texts = f"{_short(prompt)} → {_short(rollout.text)}"
    return f"{texts} · {rollout.length} tokens, {'cut' if rollout.truncated else 'ended'} · {score}"


def _short(text: str, width: int = 120) -> str:
    """Quoted, on one line; the middle of a long text left out, because its end holds the answer."""
    if len(text) > width:
        text = f"{text[: width // 2]} … {text[-width // 2 :]}"
    return '"' + text.replace("\n", "\\n") + '"'
