"""What a run says while it goes and when it ends: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SHARE_BETWEEN_LINES = 0.1  # of the run
SECONDS_BETWEEN_LINES = 600.0  # in a run whose tenth takes long


class Progress:
    """Shows each step; `eta` is the time left in seconds, None before it can be known.

    The end is `total` steps or `token_budget` generated tokens, whichever is given (both: whichever comes first);
    `start` steps were done before (resume).
    """

    def __init__(
        self,
        total: int | None,
        token_budget: int | None = None,
        *,
        start: int = 0,
        stream: TextIO | None = None,
        terminal: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total, self.token_budget, self._start = total, token_budget, start
        self.stream = stream or sys.stdout
        self.terminal = self.stream.isatty() if terminal is None else terminal
        self.eta: float | None = None
        self._clock = clock
        self._seen: dict[str, float] = {}
        self._done = self._share(start)
        self._began: tuple[float, float] | None = None  # clock and share when the first step was over
        self._line: tuple[float, float] | None = None  # clock and share of the last plain line
        self._bar: Bar | None = None

    def say(self, text: str) -> None:
        """A line of its own, above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self.stream, flush=True)

    def step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """A step is over."""
        self._seen |= {name: float(value) for name, value in metrics.items() if value is not None}
        self._done = self._share(step)
        self._estimate()
        if self.terminal:
            self._show(step)
        elif self._is_due(step, any(name.startswith("validation/") for name in metrics)):
            self.say(f"{self._counter(step)}  {'  '.join(self.words())}")

    def result(self, metrics: Mapping[str, float]) -> None:
        """The final evaluation, as a line."""
        self.say("test  " + " · ".join(test_words(metrics)))

    def close(self) -> None:
        """Leave the bar as it stands; closing twice is allowed."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def words(self, width: int | None = None) -> list[str]:
        """reward, val, entropy, len, dead, tok/s and time left; the least important go first where width is short."""
        seen, words = self._seen, []  # (importance, text); 1 stays longest
        validation = last_match(seen, r"validation/avg@\d+")
        for importance, label, name, digits in (
            (1, "reward", "reward", 2),
            (2, "val", validation, 2),
            (4, "entropy", "policy/entropy" if "policy/entropy" in seen else "sampling/nll", 2),
            (5, "len", "length/mean", 1),
        ):
            if name in seen:
                words.append((importance, f"{label} {seen[name]:.{digits}f}"))
        if "length/truncated" in seen and words[-1][1].startswith("len"):
            words[-1] = (5, f"{words[-1][1]} (cut {100 * seen['length/truncated']:.0f} %)")
        if "groups/zero_std" in seen:
            words.append((6, f"dead {100 * seen['groups/zero_std']:.0f} %"))
        if "speed/generated_tokens_per_s" in seen:
            words.append((7, f"{short(seen['speed/generated_tokens_per_s'])} tok/s"))
        if self.eta is not None:
            words.append((3, f"{duration(self.eta)} left"))
        while width is not None and words and sum(len(text) + 2 for _, text in words) > width:
            words.remove(max(words))
        return [text for _, text in words]

    def _share(self, step: int) -> float:
        """Done so far, from 0 to 1."""
        shares = [step / self.total] if self.total else []
        if self.token_budget:
            shares.append(self._seen.get("tokens/generated", 0.0) / self.token_budget)
        return min(1.0, max(shares, default=0.0))

    def _estimate(self) -> None:
        """Time left at the mean speed since the first step, which is left out: it pays for warming up."""
        now = self._clock()
        if self._began is None:
            self._began = (now, self._done)
            return
        gained = self._done - self._began[1]
        self.eta = (now - self._began[0]) / gained * (1.0 - self._done) if gained > 0 else None

    def _is_due(self, step: int, evaluated: bool) -> bool:
        now = self._clock()
        first = self._line is None
        since, share = self._line or (now, self._done)
        due = (
            first
            or evaluated
            or step == self.total
            or self._done - share >= SHARE_BETWEEN_LINES - 1e-9
            or now - since >= SECONDS_BETWEEN_LINES
        )
        if due:
            self._line = (now, self._done)
        return due

    def _counter(self, step: int) -> str:
        total = f"/{self.total}" if self.total else ""
        tokens = (
            f"  {short(self._seen.get('tokens/generated', 0))}/{short(self.token_budget)}" if self.token_budget else ""
        )
        return f"step {step:>{len(str(self.total or 9999))}}{total}{tokens}"

    def _show(self, step: int) -> None:
        """Move the bar; it starts with the first step, so that what is said before it stays above."""
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar

        if self._bar is None:
            console = Console(file=self.stream, force_terminal=True)
            columns = (TextColumn("{task.fields[counter]}"), BarColumn(24), TextColumn("{task.fields[words]}"))
            self._bar = Bar(*columns, console=console)
            self._bar.add_task("", total=1.0, counter="", words="")
            self._bar.start()
        counter = self._counter(step)
        words = "  ".join(self.words(self._bar.console.width - len(counter) - 24 - 4))
        self._bar.update(self._bar.task_ids[0], completed=self._done, counter=counter, words=words, refresh=True)


def end_lines(
    folder: Path | str,
    status: str = "done",
    *,
    seconds: float,
    command: str,
    step: int | None = None,
    tokens: float | None = None,
    policy: Path | None = None,
    compare: str | None = None,
) -> list[str]:
    """The last words of a run, from its metrics.jsonl.

    seconds: how long it ran; command: what repeats it; step, tokens: how far it came (by default the last recorded,
    which with log_every > 1 is behind); policy: where it was exported; compare: a command that compares.
    """
    from grpo.recording.recorder import read_metrics

    folder = Path(folder)
    steps = read_metrics(folder)
    last, untrained = max(steps, default=0) if step is None else step, steps.get(0, {})
    parts = [f"{status} in {duration(seconds)}", f"{last} step{'s' * (last != 1)}"]
    if tokens is None:
        tokens = max((row.get("tokens/generated", 0.0) for row in steps.values()), default=0.0)
    discarded = [row["sampling/discarded_tokens"] for row in steps.values() if "sampling/discarded_tokens" in row]
    share = f" ({100 * sum(discarded) / tokens:.0f} % discarded)" if len(discarded) == last and sum(discarded) else ""
    parts.append(f"{short(tokens)} tokens generated{share}")
    final = {name: value for name, value in steps.get(last, {}).items() if name.startswith("test/")}
    if name := last_match(final, r"test/avg@\d+"):
        before = last_match(untrained, r"validation/avg@\d+")
        was = [f"untrained on validation {untrained[before]:.2f}"] if before else []
        was += [f"its greedy {untrained['validation/greedy']:.2f}"] if "validation/greedy" in untrained else []
        parts.append(f"{_with_interval(final, name)}" + (f" ({', '.join(was)})" if was else ""))
    lines = [" · ".join(parts)]
    second = []
    if best := best_validation(steps):
        second.append(f"best validation {best[1]:.2f} at step {best[0]}")
    if policy is not None:
        second.append(f"policy saved as {policy} (loads in transformers and vLLM)")
    lines += [" · ".join(second)] if second else []
    if (folder / "curves.png").exists():
        lines.append(f"curves   {folder / 'curves.png'}")
    lines.append(f"again    {command}")
    return [*lines, f"compare  {compare}"] if compare else lines


def best_validation(steps: Mapping[int, Mapping[str, float]]) -> tuple[int, float] | None:
    """(step, value) of the highest validation avg@k, the earliest of equals; k as in the last evaluation."""
    names = [n for row in steps.values() for n in row if re.fullmatch(r"validation/avg@\d+", n)]
    found = [
        (step, row[names[-1]]) for step, row in steps.items() if names and isfinite(row.get(names[-1], float("nan")))
    ]
    return max(found, key=lambda item: (item[1], -item[0]), default=None)


def test_words(metrics: Mapping[str, float]) -> list[str]:
    """avg@8 0.71 [0.68, 0.74], greedy, maj and pass of the largest k."""
    names = [last_match(metrics, rf"test/{kind}") for kind in (r"avg@\d+", "greedy", r"maj@\d+", r"pass@\d+")]
    return [_with_interval(metrics, name).removeprefix("test ") for name in names if name]


def _with_interval(metrics: Mapping[str, float], name: str) -> str:
    ends = [metrics.get(f"{name}/{end}", float("nan")) for end in ("low", "high")]
    interval = f" [{ends[0]:.2f}, {ends[1]:.2f}]" if all(map(isfinite, ends)) else ""
    return f"{name.replace('/', ' ')} {metrics[name]:.2f}{interval}"


def last_match(names: Mapping[str, Any], pattern: str) -> str:
    """The name that fits, of several the one with the largest k; empty if none does."""
    found = [name for name in names if re.fullmatch(pattern, name)]
    return max(found, key=lambda name: int((re.findall(r"@(\d+)", name) or ["0"])[0]), default="")


def short(number: float) -> str:
    """999, 3.1k, 389k, 1.2M."""
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            scaled = number / factor
            return f"{scaled:.1f}{unit}" if scaled < 10 else f"{scaled:.0f}{unit}"
    return f"{number:.0f}"


def duration(seconds: float) -> str:
    """0:41, 1:12, 2:03:05."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
