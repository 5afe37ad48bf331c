"""summary.csv: one row per run, tuning runs included, for those who want to do their own statistics."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from grpo.report.records import RunRecord, SweepRecord
from grpo.report.table import state

_LAST = {
    "greedy": r"test/greedy",
    "pass_at_k": r"test/pass@\d+",
    "maj_at_k": r"test/maj@\d+",
    "length": r"test/length",
    "truncated": r"test/truncated",
    "validation": r"validation/avg@\d+",
    "generated_tokens": r"tokens/generated",
    "trained_tokens": r"tokens/trained",
    "seconds": r"time/elapsed",
}
_MEAN = {"zero_std_mean": "groups/zero_std", "clip_high_mean": "surrogate/clip_high", "entropy_mean": "policy/entropy"}
COLUMNS = (
    "arm", "phase", "seed", "point", "state", "counted", "score", "score_from", "steps", *_LAST, *_MEAN,
    "config_hash", "commit", "folder", "error",
)  # fmt: skip


def text(sweep: SweepRecord) -> str:
    """The file's content; an empty cell is a number that was not recorded."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for phase, runs in (("final", sweep.runs), ("tune", list(sweep.tuning))):
        writer.writerows(_row(run, phase, sweep) for run in runs)
    return buffer.getvalue()


def _row(run: RunRecord, phase: str, sweep: SweepRecord) -> dict[str, object]:
    numbers: dict[str, object] = {}
    for column, pattern in _LAST.items():
        name = run.find(pattern)
        numbers[column] = run.last(name) if name else None
    git = run.environment.get("git") or {}
    return {
        "arm": run.arm,
        "phase": phase,
        "seed": run.seed,
        "point": " ".join(f"{key}={value}" for key, value in run.point.items()),
        "state": state(run),
        "counted": int(run.counted and phase == "final"),
        "score": run.score,
        "score_from": run.score_from,
        "steps": run.step,
        **numbers,
        **{column: run.mean(name) for column, name in _MEAN.items()},
        "config_hash": run.environment.get("config_hash"),
        "commit": git.get("commit"),
        "folder": relative(run.folder, sweep.folder),
        "error": run.error,
    }


def relative(path: Path, root: Path) -> str:
    """The path below the sweep's folder, as it is where it lies elsewhere."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
