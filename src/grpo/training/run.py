"""One run: a checked configuration in, a folder out."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from grpo.config.hashing import config_hash
from grpo.errors import UserError
from grpo.ranks import launch
from grpo.ranks.mute import Mute
from grpo.ranks.ranks import Elsewhere, Ranks, together
from grpo.recording import wandb
from grpo.runs import resume
from grpo.runs.folder import RunFolder
from grpo.runs.nonfinite import NonFinite
from grpo.runs.signals import GracefulStop
from grpo.training.assemble import assemble
from grpo.training.session import Session


def run(config: Any, resolved: Mapping[str, Any], flags: Sequence[str] = ()) -> int:
    """Train as `config` says; returns the exit code. The user's mistakes are UserErrors, all else propagates.

    flags: what the command line held besides overrides (--config-dir), for the command that repeats the run.
    """
    if launch.needed(config.trainer):
        return launch.supervise(config, flags)
    quieten()
    try:
        with together(config.trainer) as ranks:
            code = _run(config, resolved, flags, ranks)
    except Elsewhere:
        return 0
    return code if ranks.first else 0  # how it ended is rank 0's to tell


def _run(config: Any, resolved: Mapping[str, Any], flags: Sequence[str], ranks: Ranks) -> int:
    """The run, on one of its ranks."""
    if config.logger.kind == "wandb":
        ranks.once(lambda: wandb.choose_mode(config.logger.mode))  # a mistake is told before anything is written
    digest = config_hash(resolved)
    root = config.sweep or config.output_dir
    place: dict[str, Any] = {"root": root, "name": config.name, "config_hash": digest, "seed": config.seed}
    place["folder"] = config.run_dir  # exactly there, where a sweep says so
    plan = ranks.once(lambda: resume.plan(config.resume, **place, resolved=resolved))
    if plan.finished is not None and plan.folder is None and (config.sweep or config.run_dir):
        if ranks.first:
            print(f"resume=auto: {plan.finished} is done; there is nothing to do")
        return 0
    assembled = ranks.each(lambda: assemble(config, ranks))

    def enter() -> RunFolder:
        if plan.folder is not None:
            return RunFolder.reopen(plan.folder, step=plan.step)
        return RunFolder.create(resolved, assembled.objective.describe(), **place)

    folder: Any = ranks.once(enter)
    if not ranks.first:
        folder = Mute(path=folder.path, checkpoints=folder.checkpoints)
        launch.keep_log(folder.path, ranks.rank)
    with GracefulStop() as stop:
        try:
            return ranks.each(lambda: Session(assembled, resolved, folder, plan, stop, flags)).run()
        except BaseException as error:
            # Lightning turns a second Ctrl-C into SystemExit(1).
            if isinstance(error, KeyboardInterrupt | SystemExit):
                folder.status("stopped", reason=stop.requested or "SIGINT")
                raise KeyboardInterrupt from error
            sentence = str(error) if isinstance(error, UserError) else repr(error)
            folder.status("failed", error=sentence, kind="diverged" if isinstance(error, NonFinite) else None)
            raise


def quieten() -> None:
    """Nothing of the libraries' advice between our lines; real warnings and errors stay."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    for text in (
        ".*does not have many workers.*",
        ".*in eval mode at the start of training.*",
        ".*LeafSpec.*",
        ".*ranks is zero.*",
    ):
        warnings.filterwarnings("ignore", message=text)
