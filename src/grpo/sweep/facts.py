"""How far a job is, and what came out: read from its run folder, where the run itself writes it after every step."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import Any

from grpo.recording.progress import last_match
from grpo.recording.recorder import read_metrics
from grpo.runs.atomic import read_json
from grpo.sweep.board import Board, Entry

TAIL = 1 << 16  # bytes; a line of metrics has about 4 kB


@dataclass(frozen=True)
class Facts:
    """Where a running job stands; None where it has not said yet."""

    step: int = 0
    total: int | None = None
    share: float | None = None
    """Done so far, 0 to 1."""
    reward: float | None = None
    speed: float | None = None
    """Generated tokens per second."""
    left: float | None = None
    """Seconds."""


def running(entry: Entry) -> Facts:
    """Of a running job, from progress.json and the last line of metrics.jsonl."""
    progress = read_json(entry.folder / "progress.json") or {}
    step, total = int(progress.get("step") or 0), progress.get("total")
    shares = [step / total] if total else []
    if budget := _budget(entry.job.overrides):
        shares.append((progress.get("generated_tokens") or 0) / budget)
    return Facts(
        step,
        total,
        min(1.0, max(shares)) if shares else None,
        progress.get("reward"),
        last_row(entry.folder / "metrics.jsonl").get("speed/generated_tokens_per_s"),
        progress.get("eta_seconds"),
    )


def _budget(overrides: Sequence[str]) -> float | None:
    """Generated tokens that end the job; progress.json knows the steps alone."""
    said = [re.fullmatch(r"budget\.generated_tokens=([\d_.e+]+)", word) for word in overrides]
    try:
        return next((float(match[1]) for match in reversed(said) if match), None)
    except ValueError:
        return None


def last_row(path: Path) -> dict[str, Any]:
    """The last whole line of a JSONL file; empty where there is none yet."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            lines = file.read().split(b"\n")[:-1]
        row = json.loads(lines[-1]) if lines else {}
    except (OSError, ValueError):
        return {}
    return row if isinstance(row, dict) else {}


def score(folder: Path, endpoint: str | None = None) -> tuple[str, float] | None:
    """(metric, value) of the endpoint, without one of test/avg@k, else validation/avg@k; the last row that has it."""
    try:
        rows = list(read_metrics(folder).values())
    except (ValueError, KeyError):  # a damaged line; the report names it
        return None
    names = {name: 0 for row in rows for name in row}
    name = endpoint or last_match(names, r"test/avg@\d+") or last_match(names, r"validation/avg@\d+")
    found = [row[name] for row in rows if isfinite(row.get(name, float("nan")))]
    return (name, found[-1]) if found else None


def time_left(board: Board, at_once: int, facts: dict[str, Facts], now: float) -> float | None:
    """Seconds until all jobs are done, from what the finished ones took and the running ones say; None: unknown yet.

    (Σ left of the running + number of the waiting × mean length) / jobs at a time, but no less than the longest left.
    """
    lengths = [entry.seconds for entry in board.of("done") if entry.seconds]
    ends = {folder: fact.left for folder, fact in facts.items() if fact.left is not None}
    lengths += [now - board.entries[folder].began + left for folder, left in ends.items()]
    waiting = [entry for entry in board.of("waiting") if entry.twin is None]
    active = board.of("running")
    if not lengths:
        return None if waiting or active else 0.0
    mean = fmean(lengths)
    left = [ends.get(e.job.folder, max(0.0, mean - (now - e.began))) for e in active]
    return max([(sum(left) + len(waiting) * mean) / at_once, *left])
