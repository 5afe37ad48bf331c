"""A launcher whose jobs do as they are told: they end after so many looks, and leave a run folder behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo.runs.status import Status, write_status
from grpo.sweep import runner
from grpo.sweep.launch import Start
from grpo.sweep.manifest import Job
from grpo.sweep.outcomes import Outcome


@dataclass
class End:
    """How a job ends."""

    code: int = 0
    status: str | None = "done"
    """None: the status stays as it was (killed, or refused before it wrote anything)."""
    error: str | None = None
    kind: str | None = None
    said: str = ""
    """Its last line in the log."""
    looks: int = 2
    """How often the runner asks before it has ended."""


def job(arm: str, seed: int = 0, config_hash: str | None = None) -> Job:
    """A job; by default every arm has a configuration of its own."""
    return Job(arm, "final", seed, f"{arm}/seed={seed}", (f"algo={arm}", f"seed={seed}"), config_hash or f"hash-{arm}")


def make_run(folder: Path, made: Job, status: str = "done", **more: Any) -> Path:
    """The small files of a run, as `RunFolder` writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {"v": 1, "config_hash": made.config_hash, "seed": made.seed}
    (folder / "environment.json").write_text(json.dumps(record))
    (folder / "config.yaml").write_text("name: grpo\n")
    write_status(folder, Status(status, **more))  # type: ignore[arg-type]
    return folder


@dataclass
class Child:
    """A job that was started."""

    launcher: Fake
    made: Job
    end: End
    log: Path
    id: str | None = None
    said: str = ""
    looks: int = 0
    over: int | None = None

    def poll(self) -> int | None:
        if self.over is None:
            self.looks += 1
            self.launcher.on_look(self)
            if self.looks >= self.end.looks:
                self._finish(self.end.code, self.end.status, error=self.end.error, kind=self.end.kind)
        return self.over

    def _finish(self, code: int, status: str | None, **more: Any) -> None:
        folder = self.launcher.sweep / self.made.folder
        if status is not None:
            make_run(folder, self.made, status, step=9, **more)
        if self.end.said:
            with self.log.open("a") as file:
                file.write(self.end.said + "\n")
        self.over = code
        self.launcher.active -= 1

    def stop(self) -> None:
        self.launcher.stopped.append(self.made.folder)
        self._finish(143, "stopped", reason="SIGTERM")

    def kill(self) -> None:
        self.launcher.killed.append(self.made.folder)


@dataclass
class Fake:
    """The launcher. ends: folder → how its starts end, one after another; the last one stays."""

    sweep: Path
    jobs: Sequence[Job]
    ends: Mapping[str, Sequence[End]] = field(default_factory=dict)
    queue: int | None = None
    on_look: Callable[[Child], None] = lambda child: None
    started: list[str] = field(default_factory=list)
    starts: list[Start] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    killed: list[str] = field(default_factory=list)
    active: int = 0
    most: int = 0

    def start(self, jobs: Sequence[Start]) -> list[Child]:
        return [self._start(each) for each in jobs]

    def _start(self, start: Start) -> Child:
        folder = str(start.log.relative_to(self.sweep / "logs").with_suffix(""))
        made = next(job for job in self.jobs if job.folder == folder)
        ends = self.ends.get(folder, [End()])
        end = ends[min(self.started.count(folder), len(ends) - 1)]
        self.started.append(folder)
        self.starts.append(start)
        self.active += 1
        self.most = max(self.most, self.active)
        return Child(self, made, end, start.log)

    def adopt(self, id: str) -> Child | None:
        return None


def run(fake: Fake, at_once: int = 2, **more: Any) -> list[Outcome]:
    """The runner with the fake launcher."""
    more = {"say": lambda text: None, "live": False, **more}
    return runner.run(fake.jobs, fake.sweep, at_once=at_once, launcher=fake, **more)
