"""Where a run goes on: resume=never | auto | <run folder or checkpoint folder>."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo.errors import UserError
from grpo.runs import checkpoint
from grpo.runs.differences import differences
from grpo.runs.folder import CONFIG_FILE, base_folder, load_config, numbered
from grpo.runs.status import Status, read_status

Hasher = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class ResumePlan:
    """What to do at start."""

    folder: Path | None = None
    """Go on in this folder (`RunFolder.reopen`); None: make a new one (`RunFolder.create`)."""
    checkpoint: Path | None = None
    """Load this whole checkpoint; None: begin at step 0."""
    message: str | None = None
    """What was restored and what was passed over, for the start table; None: nothing to say."""
    finished: Path | None = None
    """resume=auto met this finished run of the same configuration and seed: a sweep has nothing to do."""

    @property
    def step(self) -> int:
        """The last step that need not run again."""
        return (checkpoint.step_of(self.checkpoint) or 0) if self.checkpoint else 0


def plan(
    resume: str,
    *,
    root: str | Path,
    name: str,
    config_hash: str,
    seed: int,
    resolved: Mapping[str, Any],
    folder: str | Path | None = None,
    hasher: Hasher | None = None,
) -> ResumePlan:
    """Find the folder and the checkpoint to go on from; everything that forbids it is a UserError.

    root      output_dir or the sweep's folder;  folder  the exact run folder where one is given
    resolved  this run's configuration as plain types;  hasher  config → hash, `grpo.config.hashing.config_hash`
    """
    if resume == "never":
        return ResumePlan()
    if hasher is None:
        from grpo.config.hashing import config_hash as hasher
    if resume != "auto":
        return _explicit(Path(resume), resolved, hasher)
    if folder is not None:
        folder = Path(folder)
        if not (folder / CONFIG_FILE).exists():
            return ResumePlan(message=f"resume=auto: no run in {folder} yet; starting at step 1")
        _same_configuration(folder, resolved, hasher)
        return _automatic([folder], folder, restart=True)
    base = base_folder(root, name, config_hash, seed)
    return _automatic(numbered(base), base, restart=False)


def _automatic(runs: list[Path], where: Path, *, restart: bool) -> ResumePlan:
    """The newest unfinished run with a whole checkpoint; `restart` begins again in the folder if it has none."""
    finished, passed = None, []
    for run in runs:
        status = read_status(run)
        if status is not None and status.status == "done":
            finished = finished or run
            continue
        _not_alive(run, status)
        checkpoint.tidy(run / "checkpoints")
        newest, skipped = checkpoint.newest_complete(run / "checkpoints")
        if newest is not None:
            return ResumePlan(run, newest, _restored(run, newest, skipped, status), finished)
        passed.append(f"{run} has no complete checkpoint{_reasons(skipped)}")
    if restart and not finished:
        return ResumePlan(where, None, f"resume=auto: {passed[0]}; starting again at step 1")
    why = f"{finished} is done" if finished else "; ".join(passed) or f"no run of this configuration in {where}"
    return ResumePlan(None, None, f"resume=auto: {why}; starting at step 1", finished)


def _explicit(path: Path, resolved: Mapping[str, Any], hasher: Hasher) -> ResumePlan:
    """A run folder, or one of its checkpoints."""
    if not path.is_dir():
        raise UserError(f"resume   there is no folder {path}; give a run folder, one of its checkpoints, or say auto")
    is_checkpoint = checkpoint.step_of(path) is not None
    run = (path if len(path.parts) > 2 else path.resolve()).parent.parent if is_checkpoint else path
    if not (run / CONFIG_FILE).is_file():
        what = "belongs to no run folder" if is_checkpoint else "is no run folder"
        where = f"{run / CONFIG_FILE} is missing; give a folder such as runs/<name>/<hash>-s0/1"
        raise UserError(f"resume   {path} {what}: {where}")
    _same_configuration(run, resolved, hasher)
    status = read_status(run)
    _not_alive(run, status)
    if not is_checkpoint and status is not None and status.status == "done":
        raise UserError(
            f"resume   {run} is done (step {status.step}); say resume=never to run the same again elsewhere"
        )
    checkpoint.tidy(run / "checkpoints")
    if is_checkpoint:
        _whole(path)
        return ResumePlan(run, path, _restored(run, path, [], status))
    newest, skipped = checkpoint.newest_complete(run / "checkpoints")
    if newest is None:
        raise UserError(f"resume   {run} has no complete checkpoint{_reasons(skipped)}; say resume=never to start anew")
    return ResumePlan(run, newest, _restored(run, newest, skipped, status))


def _whole(path: Path) -> None:
    """Refuse a damaged checkpoint and name the newest whole one that is older."""
    reason = checkpoint.damage(path)
    if reason is None:
        return
    step = checkpoint.step_of(path) or 0
    others = [other for other in checkpoint.every(path.parent) if (checkpoint.step_of(other) or 0) < step]
    older = next((other for other in others if checkpoint.complete(other)), None)
    what = f"{older.name} is complete: say resume={older}" if older else "no older one is complete: say resume=never"
    raise UserError(f"resume   {path} is damaged: {reason}; {what}")


def _not_alive(run: Path, status: Status | None) -> None:
    if status is not None and status.alive:
        raise UserError(f"resume   process {status.pid} is writing to {run}; wait for it, stop it, or say resume=never")


def _same_configuration(run: Path, resolved: Mapping[str, Any], hasher: Hasher) -> None:
    """Refuse a run of another configuration, naming the keys that make it another one."""
    found = differences(load_config(run), dict(resolved), hasher)
    if not found:
        return
    listed = "; ".join(found[:6]) + (f"; and {len(found) - 6} more" if len(found) > 6 else "")
    raise UserError(f"resume   {run} was made by another configuration: {listed}; say the same or resume=never")


def _restored(run: Path, path: Path, skipped: list[tuple[Path, str]], status: Status | None) -> str:
    """ "going on from step 50 of runs/…; newest checkpoint step-000060 is incomplete (…)"."""
    step = checkpoint.step_of(path) or 0
    parts = [f"going on from step {step} of {run}"]
    parts += [f"newest checkpoint {bad.name} is incomplete ({reason})" for bad, reason in skipped[:1]]
    if status is not None and status.step > step:
        parts.append(f"steps {step + 1} to {status.step} run again")
    return "; ".join(parts)


def _reasons(skipped: list[tuple[Path, str]]) -> str:
    return f" ({skipped[0][0].name}: {skipped[0][1]})" if skipped else ""
