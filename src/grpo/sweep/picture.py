"""The live table as text: an arm per row with a sign for each of its jobs, the running jobs, and how long it will take.

    clip_high-3f9c21ab · 2 at a time
      eps_0.20    .41   .38   37%    ·     ·     ·
      no_upper    .40   ✗      5%    ·     ·     ·

      eps_0.20/seed=2    step  37/100  reward 0.61  3.1k tok/s  0:41 left
      no_upper/seed=2    step   5/100  reward 0.40  2.9k tok/s  1:10 left

    done 3 · running 2 · waiting 6 · failed 1 · about 3:20 left

Pure: a board and what is known of its jobs in, text out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from rich.console import Group
from rich.text import Text

from grpo.recording.progress import duration, short
from grpo.sweep.board import Board, Entry
from grpo.sweep.facts import Facts

CELL = 6  # columns of one job's sign
LINES = 3  # of one arm; with more jobs their numbers are told instead
NAME = 28  # columns of a name, at most
SIGNS = {"waiting": "·", "failed": "✗", "diverged": "∞", "stopped": "‖"}
STYLES = {"waiting": "dim", "running": "cyan", "done": "green", "failed": "bold red", "diverged": "yellow"}
STATES = ("done", "running", "waiting", "failed", "diverged", "stopped")


def picture(
    board: Board,
    at_once: int,
    facts: Mapping[str, Facts],
    scores: Mapping[str, float],
    left: float | None,
    *,
    width: int = 80,
    height: int = 25,
) -> Group:
    """facts: folder → where a running job stands; scores: folder → its number; left: seconds for the whole."""
    rows = _rows(board)
    names = min(NAME, width // 3, max((len(name) for name in rows), default=0))
    ends = {folder: fact.left for folder, fact in facts.items() if fact.left is not None}
    active = sorted(board.of("running"), key=lambda entry: ends.get(entry.job.folder, float("inf")))
    # Head, total and the empty lines between take four; at most half of the rest tells single jobs.
    jobs = active[: max(1, (height - 4) // 2)]
    room = max(1, height - 5 - len(jobs))
    lines = [Text(f"{board.sweep.name} · {at_once} at a time", style="bold", no_wrap=True, overflow="ellipsis")]
    lines += _arms(rows, facts, scores, names, width, room)
    if jobs:
        lines.append(Text())
        wide = min(width // 2, max(len(entry.job.folder) for entry in jobs))
        lines += [_job(entry, facts.get(entry.job.folder, Facts()), wide, width) for entry in jobs]
    return Group(*lines, Text(), _total(board, left))


def _rows(board: Board) -> dict[str, list[Entry]]:
    """An arm's tuning runs stand in a row of their own."""
    rows: dict[str, list[Entry]] = {}
    for entry in board:
        name = entry.job.arm + (" tune" if entry.job.phase == "tune" else "")
        rows.setdefault(name, []).append(entry)
    return rows


def _arms(
    rows: Mapping[str, Sequence[Entry]],
    facts: Mapping[str, Facts],
    scores: Mapping[str, float],
    names: int,
    width: int,
    room: int,
) -> list[Text]:
    """The arms in their order; where the screen is short those with nothing under way are left out first."""
    blocks = {name: _arm(name, entries, facts, scores, names, width) for name, entries in rows.items()}
    taken, kept = 0, set()
    total = sum(map(len, blocks.values()))
    space = room if total <= room else room - 1  # the last line says what is missing
    for name in sorted(blocks, key=lambda name: _importance(rows[name])):
        if taken + len(blocks[name]) <= space:
            taken += len(blocks[name])
            kept.add(name)
    lines = [line for name, block in blocks.items() if name in kept for line in block]
    if hidden := [entries for name, entries in rows.items() if name not in kept]:
        jobs = [entry for entries in hidden for entry in entries]
        lines.append(Text(f"  and {len(hidden)} more: {_counts(jobs)}", style="dim"))
    return lines


def _importance(entries: Sequence[Entry]) -> int:
    """0 first: something runs; then something failed, something waits, all is done."""
    states = {entry.state for entry in entries}
    return 0 if "running" in states else 1 if "failed" in states else 2 if "waiting" in states else 3


def _arm(
    name: str,
    entries: Sequence[Entry],
    facts: Mapping[str, Facts],
    scores: Mapping[str, float],
    names: int,
    width: int,
) -> list[Text]:
    per_line = max(1, (width - names - 4) // CELL)
    head = f"  {_cut(name, names):<{names}}  "
    if len(entries) > LINES * per_line:
        known = [scores[e.job.folder] for e in entries if e.job.folder in scores]
        mean = f" · mean {fmean(known):.2f}" if known else ""
        return [Text(f"{head}{_counts(entries)}{mean}", no_wrap=True, overflow="ellipsis")]
    lines = []
    for first in range(0, len(entries), per_line):
        line = Text(head if first == 0 else " " * len(head), no_wrap=True)
        for entry in entries[first : first + per_line]:
            sign, style = _sign(entry, facts, scores)
            line.append(f"{sign:<{CELL}}", style)
        lines.append(line)
    return lines


def _sign(entry: Entry, facts: Mapping[str, Facts], scores: Mapping[str, float]) -> tuple[str, str]:
    style = STYLES.get(entry.state, "")
    if entry.state == "running":
        share = facts.get(entry.job.folder, Facts()).share
        return ("…" if share is None else f"{100 * share:.0f}%"), style
    if entry.state == "done":
        value = scores.get(entry.job.folder)
        return ("✓" if value is None else f"{value:.2f}"), style
    return SIGNS[entry.state], style


def _job(entry: Entry, fact: Facts, names: int, width: int) -> Text:
    """One running job; the words that matter least go first where the line is short."""
    if not fact.step:
        words = ["starting"]
    else:
        total = f"/{fact.total}" if fact.total else ""
        words = [f"step {fact.step:>{len(str(fact.total or fact.step))}}{total}"]
        words += [f"{duration(fact.left)} left"] if fact.left is not None else []
        words += [f"reward {fact.reward:.2f}"] if fact.reward is not None else []
        words += [f"{short(fact.speed)} tok/s"] if fact.speed is not None else []
    while len(words) > 1 and names + 4 + sum(len(word) + 2 for word in words) > width:
        words.pop()
    return Text(f"  {_cut(entry.job.folder, names):<{names}}  {'  '.join(words)}", no_wrap=True, overflow="ellipsis")


def _total(board: Board, left: float | None) -> Text:
    about = f" · about {duration(left)} left" if left else ""
    return Text(_counts(list(board)) + about, style="bold", no_wrap=True, overflow="ellipsis")


def _counts(entries: Sequence[Entry]) -> str:
    """done 3 · running 2 · waiting 6."""
    numbers = {state: sum(entry.state == state for entry in entries) for state in STATES}
    return " · ".join(f"{state} {number}" for state, number in numbers.items() if number)


def _cut(name: str, columns: int) -> str:
    """A long name loses its middle: the end tells seeds and values apart."""
    if len(name) <= columns:
        return name
    back = columns // 2
    return f"{name[: columns - back - 1]}…{name[-back:]}"
