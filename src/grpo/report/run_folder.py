"""One run folder → its record."""

from __future__ import annotations

import math
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from grpo.recording.recorder import read_evaluations, read_metrics
from grpo.report.records import DIVERGED, Rows, RunRecord
from grpo.runs.atomic import read_json
from grpo.runs.status import read_status

VALIDATION = r"validation/avg@\d+"


def read_run(folder: Path, arm: str, seed: int) -> RunRecord:
    """Everything of one folder but its score."""
    status = read_status(folder)
    raw = read_json(folder / "status.json") or {}
    if status is None and not (folder / "metrics.jsonl").exists():
        return RunRecord(arm, seed, folder)
    # without a status (a committed result that kept only its records) a test evaluation is the end of a run
    rows = _finite(read_metrics(folder))
    state = status.status if status else ("done" if _ended(rows) else "stopped")
    if status and status.status == "running" and status.host == socket.gethostname() and not status.alive:
        state = "stopped"  # killed; whether a job on another machine lives nobody can see from here
    error = raw.get("error")
    diverged = raw.get("kind") == "diverged" or (state == "failed" and DIVERGED in (error or ""))
    config = _yaml(folder / "config.yaml")
    return RunRecord(
        arm=arm,
        seed=seed,
        folder=folder,
        state=state,
        kind="diverged" if diverged else raw.get("kind"),
        step=status.step if status else max(rows, default=0),
        error=error or (raw.get("reason") if state in ("failed", "stopped") else None),
        rows=rows,
        test=_right(folder, float((config.get("reward") or {}).get("right_at", 1.0))),
        config=config,
        environment=read_json(folder / "environment.json") or {},
        algorithm=_text(folder / "algorithm.txt"),
        overrides=tuple(config.get("overrides") or ()),
    )


def _ended(rows: Rows) -> bool:
    return any(name.startswith("test/") for row in rows.values() for name in row)


def _finite(rows: Rows) -> Rows:
    def number(value: Any) -> bool:
        return isinstance(value, int | float) and math.isfinite(value)

    return {step: {n: float(v) for n, v in row.items() if number(v)} for step, row in rows.items()}


def _yaml(path: Path) -> dict[str, Any]:
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def _right(folder: Path, right_at: float) -> dict[str, tuple[bool, ...]]:
    """The last test evaluation; a question that the reward does not apply to (null) is left out."""
    rows = [row for row in read_evaluations(folder) if row["split"] == "test"]
    last = max((row["step"] for row in rows), default=0)
    return {
        row["question_id"]: tuple(reward >= right_at for reward in row["rewards"])
        for row in rows
        if row["step"] == last and None not in row["rewards"]
    }


def with_score(run: RunRecord, endpoint: str | None) -> RunRecord:
    """endpoint None: tuning, which is by validation."""
    validation = run.find(VALIDATION)
    name = endpoint if endpoint and run.last(endpoint) is not None else None
    if name is None and (endpoint is None or run.kind == "diverged"):
        name = validation
    return replace(run, score=run.last(name), score_from=name) if name else run
