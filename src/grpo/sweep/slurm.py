"""launcher=submitit_slurm, submitit_local: submitit hands the jobs to a cluster; the runner waits for them.

The resources are those of hydra-submitit-launcher, hydra.launcher.timeout_min=120 and so on. On a cluster all jobs are
one array of which so many run at a time; submitit's local executor would start all of them at once, so there the runner
counts. `<sweep>/logs/.submitit/` holds what submitit writes itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo.config import sentences
from grpo.errors import UserError
from grpo.sweep.launch import Running, Start, command, deaf_to_interrupts, prepare


class Submitted:
    """The launcher. cluster: local or slurm."""

    def __init__(self, cluster: str, sweep: Path, resources: Mapping[str, Any], at_once: int | None) -> None:
        self.cluster = cluster
        settings = _settings(cluster, sweep, resources)
        self.queue = (at_once or settings["array_parallelism"]) if cluster == "slurm" else None
        if self.queue:
            settings["array_parallelism"] = self.queue
        self.cores = settings.get("cpus_per_task")
        self.executor = _executor(cluster, settings)

    def start(self, jobs: Sequence[Start]) -> list[Running]:
        """One array of jobs on a cluster, single jobs here."""
        commands = [Command(tuple(command(job.words)), str(job.log), os.getcwd(), self._variables(job)) for job in jobs]
        with deaf_to_interrupts():  # submitit's local processes would take Ctrl-C for theirs, and kill the job
            if self.cluster != "slurm":
                return [_Job(self.executor.submit(each)) for each in commands]
            with self.executor.batch():
                made = [self.executor.submit(each) for each in commands]
            return [_Job(job, cluster=True) for job in made]

    def adopt(self, id: str) -> Running | None:
        """A job that an earlier runner has handed to the cluster, if it is still there."""
        if self.cluster != "slurm":
            return None
        from submitit import SlurmJob

        job: Any = SlurmJob(folder=self.executor.folder, job_id=id)
        return None if job.done(force_check=True) else _Job(job, cluster=True)

    def _variables(self, job: Start) -> dict[str, str]:
        """A node's cores and GPUs are dealt out by the cluster, not by this machine's share."""
        if self.cluster != "slurm":
            return dict(job.environment)
        return {"OMP_NUM_THREADS": str(self.cores), "MKL_NUM_THREADS": str(self.cores)} if self.cores else {}


@dataclass
class Command:
    """What submitit pickles: runs in its process on the node, and runs the job as a process of its own."""

    words: tuple[str, ...]
    log: str
    folder: str
    environment: dict[str, str] = field(default_factory=dict)

    def __call__(self) -> int:
        """The job's exit code. SIGTERM is passed on, which submitit by itself would pass over."""
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                self.words,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
                preexec_fn=_prepare,
            )
        self.__dict__["process"] = process
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        return process.wait()

    def checkpoint(self) -> Any:
        """The cluster takes the node away (time is up, preemption): save, and go on when it gives one again."""
        from submitit.helpers import DelayedSubmission

        if process := self.__dict__.pop("process", None):
            process.terminate()
            process.wait()
        return DelayedSubmission(self)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "process"}


def _prepare() -> None:
    """Slurm sends its warning (SIGUSR1, SIGUSR2) to every process of a job; it is meant for submitit's."""
    for name in ("SIGUSR1", "SIGUSR2"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    prepare()


class _Job:
    def __init__(self, job: Any, cluster: bool = False) -> None:
        self.job, self.cluster = job, cluster

    @property
    def id(self) -> str | None:
        """The cluster's number of the job, by which a later runner finds it."""
        return str(self.job.job_id) if self.cluster else None

    def poll(self) -> int | None:
        if not self.job.done():
            return None
        error = self.job.exception()
        if error is None:
            return int(self.job.result())
        lines = [line for line in str(error).splitlines() if line.strip("- ")]
        self.said = f"{type(error).__name__}: {lines[0] if lines else ''}"
        return 1

    said = ""
    """What submitit says of a job that left no exit code: cancelled, out of memory, a node that failed."""

    def stop(self) -> None:
        if not self.cluster:
            self.job._process.terminate()  # LocalJob.cancel interrupts, and kills a second later
            return
        # Not cancel(): that kills after the cluster's KillWait, in the middle of a long step.
        for how in ("--signal=TERM", "--state=PENDING"):
            subprocess.run(["scancel", how, str(self.job.job_id)], check=False, capture_output=True)

    def kill(self) -> None:
        if self.cluster:
            self.job.cancel(check=False)
        else:
            self.job._process.kill()


def _settings(cluster: str, sweep: Path, resources: Mapping[str, Any]) -> dict[str, Any]:
    """hydra.launcher.* with its defaults, checked and typed by the launcher's own config class."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        from hydra_plugins.hydra_submitit_launcher import config
    except ImportError as error:
        what = "is not installed with grpo-lab; pip install 'grpo-lab[slurm]'"
        raise UserError(f"hydra/launcher   submitit_{cluster} {what}") from error
    schema = OmegaConf.structured(config.SlurmQueueConf if cluster == "slurm" else config.LocalQueueConf)
    if unknown := [key for key in resources if key not in schema]:
        near = sentences.meant(unknown[0], [str(key) for key in schema])
        raise UserError(f"hydra.launcher.{unknown[0]}   submitit_{cluster} has no such setting{near}")
    ours = {"submitit_folder": str(sweep.resolve() / "logs" / ".submitit" / "%j"), "name": sweep.name}
    try:
        merged = OmegaConf.merge(schema, ours, dict(resources))
        plain = OmegaConf.to_container(merged, resolve=True)
    except OmegaConfBaseException as error:
        text = str(error).splitlines()[0]
        raise UserError(f"hydra.launcher.{error.full_key or ''}   {text}") from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items() if key != "_target_"}


def _executor(cluster: str, settings: dict[str, Any]) -> Any:
    """As hydra-submitit-launcher builds it: shared parameters as they are, the others with the cluster's prefix."""
    import submitit
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf

    settings = dict(settings)
    folder, retries = settings.pop("submitit_folder"), settings.pop("max_num_timeout", None)
    first = {} if retries is None else {f"{cluster}_max_num_timeout": retries}
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster=cluster, **first)
    except RuntimeError as error:
        raise UserError(f"hydra/launcher   submitit_{cluster} found no cluster here: {error}") from error
    shared = set(BaseQueueConf.__dataclass_fields__)
    executor.update_parameters(**{k if k in shared else f"{cluster}_{k}": v for k, v in settings.items()})
    return executor
