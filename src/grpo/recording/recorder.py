"""One recorder per run: the JSONL files are the truth, the logger (W&B) is sent the same numbers.

Files, each line described by schemas/<file>.json:
    metrics.jsonl       {"v", "step", <metric>: number | null, …}   several lines may share a step: read them as one
    samples.jsonl       one completion of a logged step
    evaluations.jsonl   one question of one evaluation
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from grpo.recording import jsonl, metrics

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger

FILES = ("metrics", "samples", "evaluations")


class Recorder:
    """Writes a run's folder and tells its logger.

    strict: refuse metrics that recording/metrics.py does not define (tests run strictly).
    """

    def __init__(
        self,
        folder: Path | str,
        logger: Logger | None = None,
        *,
        strict: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = Path(folder)
        self.logger = logger
        self._strict = strict
        self._clock = clock
        self._files = {name: jsonl.open_append(self._path(name)) for name in FILES}
        self._summary: dict[str, Any] = {}
        self._axes: dict[str, float] = {"train/tokens": 0.0}  # where on each x axis the run is
        self._sent_up_to = -1.0  # the logger already has the steps up to here
        self._closed = False
        self._start_clock()

    def metrics(self, step: int, values: Mapping[str, Any]) -> None:
        """Record a step's metrics. `time/elapsed` is added here, so that it goes on over interruptions."""
        if self._strict:
            metrics.check(values)
        row = {"step": step, **values}
        row.setdefault("time/elapsed", self._before + self._clock() - self._began)
        self._write("metrics", [row])
        self._tell_metrics(row)

    def samples(self, step: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Record completions of a step (schemas/samples.json); W&B gets them as one table."""
        rows = [{"step": step, **row} for row in rows]
        self._write("samples", rows)
        self._tell_samples(step, rows)

    def evaluation(self, step: int, rows: Iterable[Mapping[str, Any]]) -> None:
        """Record the questions of an evaluation (schemas/evaluations.json). Its metrics go to `metrics`."""
        self._write("evaluations", [{"step": step, **row} for row in rows])

    def summary(self, values: Mapping[str, Any]) -> None:
        """What the run came to: the final test evaluation. Sent to the logger when the recorder closes."""
        self._summary |= values

    def cut_back(self, step: int) -> int:
        """Resume from the checkpoint of `step`: remove all later lines, each file atomically; how many were removed.

        A logger that lacks earlier steps (an offline part that is continued) is sent them again, and one that has
        seen removed steps (an online run) is not sent those a second time: they will be the same numbers.
        """
        for file in self._files.values():
            file.close()
        removed = sum(jsonl.rewrite(self._path(name), lambda row: row["step"] <= step) for name in FILES)
        self._files = {name: jsonl.open_append(self._path(name)) for name in FILES}
        self._start_clock()
        self._catch_up()
        return removed

    def sync(self) -> None:
        """Force the lines to the disk, before a checkpoint says that they are there."""
        for file in self._files.values():
            os.fsync(file.fileno())

    def close(self, status: str = "done") -> None:
        """Finish, also after a failure (call it in a `finally`): curves, summary, logger. Closing twice is allowed."""
        if self._closed:
            return
        self._closed = True
        for file in self._files.values():
            file.close()
        if self.logger is None:
            return
        from grpo.recording import wandb

        wandb.finish(self.logger, status, self._summary, self.folder / "curves.png")

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def _write(self, name: str, rows: list[dict[str, Any]]) -> None:
        file: IO[str] = self._files[name]
        for row in rows:
            file.write(jsonl.line(row))
            file.flush()

    def _start_clock(self) -> None:
        """Go on from the last recorded `time/elapsed`."""
        self._before = max((row.get("time/elapsed") or 0.0 for row in jsonl.read(self._path("metrics"))), default=0.0)
        self._began = self._clock()

    def _tell_metrics(self, row: Mapping[str, Any]) -> None:
        if self.logger is None:
            return
        from grpo.recording import wandb

        # Evaluations before the first and after the last step count no tokens: they stand where the run is.
        self._axes |= {axis: row[source] for axis, source in wandb.AXES.items() if row.get(source) is not None}
        if row["step"] <= self._sent_up_to:
            return
        numbers = {name: float(value) for name, value in row.items() if name not in ("v", "step") and value is not None}
        self.logger.log_metrics({**numbers, **self._axes}, step=row["step"])

    def _tell_samples(self, step: int, rows: list[dict[str, Any]]) -> None:
        if self.logger is None or step <= self._sent_up_to or not rows:
            return
        from grpo.recording import wandb

        wandb.log_samples(self.logger, step, rows)

    def _catch_up(self) -> None:
        """Send the logger what the files have and it has not."""
        if self.logger is None:
            return
        from grpo.recording import wandb

        self._axes = {"train/tokens": 0.0}
        self._sent_up_to = wandb.last_step(self.logger)
        for row in jsonl.read(self._path("metrics")):
            self._tell_metrics(row)
        tables: dict[int, list[dict[str, Any]]] = {}
        for row in jsonl.read(self._path("samples")):
            tables.setdefault(row["step"], []).append(row)
        for step, rows in tables.items():
            self._tell_samples(step, rows)


def read_metrics(folder: Path | str) -> dict[int, dict[str, float]]:
    """metrics.jsonl by step, lines of one step joined (the last word counts), null as NaN."""
    steps: dict[int, dict[str, float]] = {}
    for row in jsonl.read(Path(folder) / "metrics.jsonl"):
        values = {
            name: math.nan if value is None else value for name, value in row.items() if name not in ("v", "step")
        }
        steps.setdefault(row["step"], {}).update(values)
    return dict(sorted(steps.items()))


def read_evaluations(folder: Path | str) -> list[dict[str, Any]]:
    """evaluations.jsonl, each (step, split, question) once: of a repeated evaluation the last one counts."""
    rows = {(r["step"], r["split"], r["question_id"]): r for r in jsonl.read(Path(folder) / "evaluations.jsonl")}
    return list(rows.values())
