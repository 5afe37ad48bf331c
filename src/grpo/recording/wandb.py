"""Weights & Biases through Lightning's WandbLogger.

The rest of the program only records; what W&B needs beyond numbers (modes, ids, tables, endings) is here.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo.errors import UserError
from grpo.recording.wandb_env import choose_mode, group_name, has_key, run_id, shorten, sweep_id

if TYPE_CHECKING:
    from lightning.pytorch.loggers import Logger, WandbLogger

log = logging.getLogger(__name__)

AXES = {"train/step": "step", "train/tokens": "tokens/generated", "train/seconds": "time/elapsed"}
"""Our x axes and what they repeat: W&B's own step may never decrease, so none of our charts uses it."""
TABLE_ROWS = 64  # completions per table; samples.jsonl has all of them


def make_logger(
    config: Any,
    folder: Path,
    *,
    name: str,
    group: str | None,
    job_type: str,
    tags: Sequence[str],
    resolved: Mapping[str, Any],
) -> WandbLogger | None:
    """The run's logger, already started, or None for logger=none.

    config is the `logger` node (kind, project, entity, mode, tags); group the sweep, job_type the arm, resolved the
    composed configuration as plain types. Under an agent of a W&B sweep that sweep is the group.
    """
    choices = {**resolved, "arm": job_type, "phase": _phase(folder, resolved.get("sweep"))}
    facts = [f"{key}={choices[key]}" for key in ("arm", "seed", "phase") if choices.get(key) is not None]
    if config.kind == "none":
        return None
    mode = choose_mode(config.mode)
    if os.environ.get("WANDB_MODE", mode) not in ("online", "offline", "disabled", "dryrun", "run"):
        del os.environ["WANDB_MODE"]  # empty or OFFLINE: W&B refuses what it does not know even where `mode` is given
    import wandb
    from lightning.pytorch.loggers import WandbLogger

    if wandb.run is not None:  # WandbLogger would silently write into it
        raise RuntimeError(f"W&B run {wandb.run.id} is still open in this process; finish it before starting another")
    logger = WandbLogger(
        name=name[:128],
        save_dir=folder,
        id=run_id(folder),
        project=config.project,
        entity=config.entity,
        group=group_name(group or sweep_id() or "") or None,
        job_type=shorten(job_type, 64),
        tags=[*dict.fromkeys(tag[:64] for tag in (*config.tags, *facts, *tags) if tag)],  # the most W&B takes
        config=_sendable(choices),
        mode=mode,  # not offline=True: that sets WANDB_MODE for every later run of this process
        settings=wandb.Settings(console="off", silent=True, init_timeout=30 if config.mode == "auto" else 90),
    )
    _start(logger, config.mode)
    return logger


def _start(logger: WandbLogger, wish: str) -> None:
    """Open the run; where online was only assumed (auto) and W&B cannot be used, go on offline."""
    import wandb

    logger._wandb_init.pop("anonymous", None)  # Lightning always passes it, and W&B warns that it has no effect
    try:
        run = logger.experiment
    except wandb.Error as error:
        if wish != "auto":
            raise UserError(f"logger.mode   W&B cannot be used ({error}); choose logger.mode=offline") from error
        log.warning("W&B cannot be used (%s); recording offline", error)
        wandb.teardown()  # its service still holds the id of the run that did not start
        logger._wandb_init["mode"] = "offline"
        run = logger.experiment
    for axis in AXES:
        run.define_metric(axis, hidden=True)  # an x axis of other charts, no chart of its own
    run.define_metric("*", step_metric="train/step", step_sync=True)
    log.info(describe(logger))


def _phase(folder: Path, sweep: str | None) -> str | None:
    """tune or final in a sweep, whose tuning runs lie in <sweep>/<arm>/tune/ and are no repetitions of their arm."""
    if not sweep or not folder.resolve().is_relative_to(Path(sweep).resolve()):
        return None
    inside = folder.resolve().relative_to(Path(sweep).resolve()).parts
    return "tune" if inside[1:2] == ("tune",) else "final"


def _sendable(value: Any) -> Any:
    """Plain types; inf and nan as words, because JSON has none and the server would keep null."""
    if isinstance(value, Mapping):
        return {str(key): _sendable(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(content) for content in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def describe(logger: Logger | None) -> str:
    """One line for the start table: where the W&B run is, or how to upload it."""
    if logger is None or not is_wandb(logger):
        return "W&B off"
    run = logger.experiment  # pyright: ignore[reportAttributeAccessIssue]
    if run.disabled:
        return "W&B disabled (WANDB_MODE)"
    if run.offline:
        part = Path(run.dir).parent  # …/wandb/offline-run-<time>-<id>
        why = "" if has_key() else " (no key)"
        parts = len(list(part.parent.glob(f"offline-run-*-{run.id}*")))
        resumed = " (holds the whole run; its earlier parts need no upload)" if parts > 1 else ""
        deaf = f" · the agent of W&B sweep {sweep_id()} hears nothing of it" if sweep_id() else ""
        return f"W&B offline{why}: wandb sync {_relative(part)}{resumed}{deaf}"
    agent = f" (a run of the W&B sweep {sweep_id()}, under its agent's id)" if sweep_id() else ""
    return f"W&B online: {run.url}{agent}"


def _relative(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def is_wandb(logger: Logger) -> bool:
    """True for Lightning's WandbLogger."""
    return hasattr(logger, "log_table")


def last_step(logger: Logger) -> float:
    """The last step that a resumed online run holds; −1 for a new run, and for an offline part, which starts empty.

    Offline, the next part therefore holds the whole history: uploading it replaces the earlier part of the same id,
    and uploading only the last is enough.
    """
    if not is_wandb(logger):
        return -1.0
    run = logger.experiment  # pyright: ignore[reportAttributeAccessIssue]
    return float(run.summary.get("train/step", -1)) if run.resumed and not run.offline else -1.0


def log_samples(logger: Logger, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """A table of completions under a key of its own step, so that later ones do not hide it."""
    if not is_wandb(logger):
        return
    names = list(dict.fromkeys(name for row in rows for name in row["rewards"]))
    columns = ["prompt_id", "group", "sample", "prompt", "completion", "tokens", "finish", "advantage", "weight"]
    data = [
        [
            *(row[key] for key in ("prompt_id", "group", "sample")),
            _printable(row["prompt"]),
            _printable(row["completion"]),
            len(row["token_ids"]),
            row["finish"],
            _number(row["advantage"]),
            _mean(row["weight"]),
            *(_number(row["rewards"].get(name)) for name in names),
        ]
        for row in rows[:TABLE_ROWS]
    ]
    import wandb

    table = wandb.Table(columns=[*columns, *names], data=data)  # pyright: ignore[reportArgumentType]  # rows of values
    logger.log_metrics({f"samples/step_{step:05d}": table, "train/step": step}, step=step)  # pyright: ignore


def finish(logger: Logger, status: str, summary: Mapping[str, Any], curves: Path) -> None:
    """Upload the curves and the summary and end the run; any status but done and stopped marks it as failed."""
    if not is_wandb(logger):
        logger.finalize("success" if status in ("done", "stopped") else "failed")
        return
    import wandb

    run = logger.experiment  # pyright: ignore[reportAttributeAccessIssue]
    try:
        if curves.exists():
            run.log({"curves": wandb.Image(str(curves))})
            _log_curves(run, curves)
        run.summary.update({"status": status, **{name: _number(value) for name, value in summary.items()}})
    finally:  # or the next job of this process would write into this run
        run.finish(exit_code=0 if status in ("done", "stopped") else 1)


def _log_curves(run: Any, curves: Path) -> None:
    """The picture as an artifact, which keeps its versions. The copy beside the run's data cannot be redrawn before an
    offline run is uploaded, and spares W&B's staging folder in the home directory, which no upload empties."""
    import wandb

    if run.disabled:
        return
    copy = shutil.copyfile(curves, Path(run.dir).parent / curves.name)
    artifact = wandb.Artifact(f"curves-{run.id}", type="curves")
    artifact.add_file(str(copy), name=curves.name, policy="immutable")
    run.log_artifact(artifact)


def _printable(text: str) -> str:
    """Lone surrogates cannot be sent as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _number(value: Any) -> Any:
    """Scalars of numpy and torch as plain numbers."""
    return value.item() if hasattr(value, "item") else value


def _mean(weights: Any) -> float | None:
    """Mean of a completion's token weights."""
    numbers = [float(w) for w in weights if w is not None] if weights is not None else []
    return sum(numbers) / len(numbers) if numbers else None
