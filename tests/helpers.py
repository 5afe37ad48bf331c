"""A reward of one's own, found by import path, and runs small enough for a test."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SMALL = (
    "prompts_per_step=4",
    "group_size=4",
    "max_completion_tokens=12",
    "eval.questions=4",
    "eval.samples=2",
    "eval.test_questions=4",
    "eval.test_samples=2",
    "eval.every=2",
    "preflight=off",
    "logger=none",
    "reward=own",
    "reward.functions.own._target_=tests.helpers.digits",
)
"""Overrides of a run of about a second, whose reward varies whatever the policy is worth."""

calls = 0


def digits(completions: Sequence[str], **columns: Any) -> list[float]:
    """1 if an odd number of characters are digits. The call number $STOP_AT sends this process $STOP_SIGNAL."""
    global calls
    calls += 1
    if os.environ.get("STOP_AT") == str(calls):
        os.kill(os.getpid(), getattr(signal, os.environ.get("STOP_SIGNAL", "SIGTERM")))
    return [float(sum(c.isdigit() for c in text) % 2) for text in completions]


def run(folder: Path, *overrides: str, without: Sequence[str] = ()) -> tuple[int, Path]:
    """Train in this process; exit code and the newest run folder. `without`: keys of SMALL that are left out."""
    global calls
    calls = 0
    from grpo.config.check import load
    from grpo.training.run import run as train

    said = {*without, *(word.split("=")[0] for word in overrides)}
    config, resolved = load([*(w for w in SMALL if w.split("=")[0] not in said), f"output_dir={folder}", *overrides])
    code = train(config, resolved)
    return code, newest(folder)


def newest(folder: Path) -> Path:
    """The run folder that was written last."""
    return max((p.parent for p in folder.rglob("status.json")), key=lambda p: (p / "status.json").stat().st_mtime_ns)


def lines(path: Path) -> list[dict[str, Any]]:
    """A JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def without_clock(row: dict[str, Any]) -> dict[str, Any]:
    """A metrics line without what the machine's speed and memory decide."""
    return {k: v for k, v in row.items() if not k.startswith(("time/", "speed/", "memory/"))}


def constant(completions: Sequence[str], value: float = 0.0, **columns: Any) -> list[float]:
    """The same for everyone."""
    return [value] * len(completions)


def broken(completions: Sequence[str], **columns: Any) -> list[float]:
    """Fails on every completion with an odd length."""
    if any(len(text) % 2 for text in completions):
        raise ValueError("odd length")
    return [0.0] * len(completions)


def short_of_one(completions: Sequence[str], **columns: Any) -> list[float]:
    """One score too few."""
    return [0.0] * (len(completions) - 1)


def infinite(completions: Sequence[str], **columns: Any) -> list[float]:
    """Not finite."""
    return [float("inf")] * len(completions)
