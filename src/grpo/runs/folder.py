"""The folder of one run: runs/<name>/<config hash>-s<seed>/<n>/ and the small files in it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from grpo.errors import UserError
from grpo.runs.atomic import read_json, sync_folder, unwritable, write_json, write_text
from grpo.runs.checkpoint import drop_after
from grpo.runs.environment import environment
from grpo.runs.lock import lock
from grpo.runs.status import State, Status, read_status, write_status

CONFIG_FILE = "config.yaml"
_HELD: dict[Path, int] = {}  # run folders that this process writes, each with the descriptor that locks it


def base_folder(root: str | Path, name: str, config_hash: str, seed: int) -> Path:
    """Where all runs of one configuration and seed lie; found again by content, never by time or job id."""
    return Path(root) / name.replace("/", "-") / f"{config_hash}-s{seed}"


def numbered(base: Path) -> list[Path]:
    """The runs in a base folder, newest (highest number) first."""
    runs = [path for path in base.iterdir() if path.name.isdecimal() and path.is_dir()] if base.is_dir() else []
    return sorted(runs, key=lambda path: int(path.name), reverse=True)


class RunFolder:
    """A run folder that this process writes. `create` makes a new one, `reopen` goes on in an old one."""

    def __init__(self, path: Path, status: Status) -> None:
        self.path = path
        self.current = status

    @classmethod
    def create(
        cls,
        resolved: Mapping[str, Any],
        algorithm: str,
        *,
        root: str | Path,
        name: str,
        config_hash: str,
        seed: int,
        folder: str | Path | None = None,
    ) -> RunFolder:
        """Make the folder and write config.yaml, algorithm.txt, environment.json, progress.json and status.json.

        resolved     the composed configuration as plain types
        algorithm    the repr of the parts
        folder       exactly this folder instead of <root>/<name>/<hash>-s<seed>/<n>; it must not hold a run yet
        """
        path = _claim(Path(folder)) if folder else _next_number(base_folder(root, name, config_hash, seed))
        _hold(path)
        # The status first: from here on the folder says whose it is, whatever happens next.
        status = Status.of_this_process("running")
        write_status(path, status)
        write_text(path / CONFIG_FILE, dump_yaml(resolved))
        write_text(path / "algorithm.txt", algorithm.rstrip("\n") + "\n")
        write_json(path / "environment.json", {**environment(), "config_hash": config_hash, "name": name, "seed": seed})
        write_json(path / "progress.json", {"v": 1, "step": 0})
        return cls(path, status)

    @classmethod
    def reopen(cls, path: str | Path, *, step: int = 0) -> RunFolder:
        """Go on in `path` from `step`: status running under this process; environment.json gains a `resumed` entry.

        Checkpoints beyond `step` go away; the JSONL files are cut back by the recorder.
        """
        path = Path(path)
        _hold(path)
        before = read_status(path)
        if before is not None and before.alive:  # since `plan` looked, which was before the model was loaded
            raise _busy(path, f"process {before.pid}")
        for leftover in path.glob("*.tmp-*"):  # of a process killed between write and rename
            if leftover.is_file():
                leftover.unlink(missing_ok=True)
        status = Status.of_this_process("running", step=step, started=before.started if before else None)
        write_status(path, status)
        drop_after(path / "checkpoints", step)
        record = read_json(path / "environment.json") or {"v": 1}
        again = [*record.get("resumed", []), {"step": step, **environment()}]
        write_json(path / "environment.json", {**record, "resumed": again})
        return cls(path, status)

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints (made when the first one is saved)."""
        return self.path / "checkpoints"

    def status(
        self,
        status: State,
        *,
        step: int | None = None,
        error: str | None = None,
        reason: str | None = None,
        kind: str | None = None,
    ) -> None:
        """Write status.json; any status but running gives the folder free."""
        self.current = self.current.now(status, step=step, error=error, reason=reason, kind=kind)
        write_status(self.path, self.current)
        if status != "running":
            _release(self.path)

    def progress(self, step: int, **numbers: Any) -> None:
        """Write progress.json, once per step and without fsync: the next step writes it again."""
        write_json(self.path / "progress.json", {"v": 1, "step": step, **numbers}, durable=False)


def _hold(path: Path) -> None:
    """Lock the folder for this process. Two that resume at once both found it free; the kernel lets one through.

    The lock is on the folder itself, leaves no file behind, and ends with the process however that ends.
    """
    if path.resolve() in _HELD:
        return
    try:
        descriptor = lock(path)
    except BlockingIOError as error:
        raise _busy(path, "another process") from error
    if descriptor is not None:
        _HELD[path.resolve()] = descriptor


def _release(path: Path) -> None:
    with contextlib.suppress(KeyError):
        os.close(_HELD.pop(path.resolve()))


def _busy(path: Path, who: str) -> UserError:
    return UserError(f"resume   {who} is writing to {path}; wait for it, stop it, or say resume=never")


def dump_yaml(value: Mapping[str, Any]) -> str:
    """Plain YAML in the order of the configuration, readable by `yaml.safe_load` alone."""
    return yaml.safe_dump(_plain(value), sort_keys=False, allow_unicode=True, width=120)


def load_config(folder: Path) -> dict[str, Any]:
    """The resolved configuration that a run was started with."""
    path = folder / CONFIG_FILE
    try:
        value = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise UserError(f"resume   {path} cannot be read; is {folder} the folder of a run?") from error
    if not isinstance(value, dict):
        raise UserError(f"resume   {path} is damaged: it holds no configuration")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(content) for content in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    return str(value)


def _next_number(base: Path) -> Path:
    """The first free number, by exclusive mkdir: of two jobs started in the same moment one takes the next."""
    try:
        base.mkdir(parents=True, exist_ok=True)
        number = max((int(path.name) for path in numbered(base)), default=0) + 1
        while True:
            try:
                os.mkdir(base / str(number))
                break
            except FileExistsError:
                number += 1
        sync_folder(base)
    except OSError as error:
        raise unwritable(base, error) from error
    return base / str(number)


def _claim(folder: Path) -> Path:
    """A folder given by name; refused if a run is in it already."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    status = read_status(folder)
    if status is not None:
        what = "say resume=auto to go on, or give another folder"
        raise UserError(f"run_dir   {folder} already holds a run ({status.status} at step {status.step}); {what}")
    return folder
