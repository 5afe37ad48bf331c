"""Reads W&B's offline files: a 7 byte header, then LevelDB log blocks of 32 KiB.

A block holds pieces "crc (4 bytes), length (2), type (1)" and payload; type 1 is a whole record, 2, 3 and 4 are the
first, a middle and the last piece of one. A record is a protocol buffer, wandb_internal_pb2.Record.
"""

import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = 32 * 1024


def payloads(data: bytes) -> Iterator[bytes]:
    """The records' bytes; a file that was cut by a kill ends early."""
    position, parts = 7, b""
    while position + 7 <= len(data):
        left = BLOCK - position % BLOCK
        if left < 7:  # too small for a header: padding
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        if (kind == 0 and length == 0) or position + 7 + length > len(data):
            return
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


@dataclass
class OfflineRun:
    """What one offline folder holds."""

    run: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    artifacts: list[Any] = field(default_factory=list)
    exit_code: int | None = None


def read_finished(folder: Path, patience: float = 60.0) -> OfflineRun:
    """`read`, once W&B's service has written the end: `finish` returns a moment before the last block is on disk."""
    until = time.monotonic() + patience
    while (run := read(folder)).exit_code is None and time.monotonic() < until:
        time.sleep(0.05)
    return run


def read(folder: Path) -> OfflineRun:
    """Decode the .wandb file of an offline-run-… folder."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("*.wandb")
    result = OfflineRun()
    for payload in payloads(file.read_bytes()):
        record = Record.FromString(payload)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            run = record.run
            result.run = {n: getattr(run, n) for n in ("run_id", "display_name", "run_group", "job_type", "project")}
            result.run["tags"] = list(run.tags)
            result.config |= _items(run.config.update)
        elif kind == "config":
            result.config |= _items(record.config.update)
        elif kind == "history":
            result.history.append(_items(record.history.item))
        elif kind == "summary":
            result.summary |= _items(record.summary.update)
        elif kind == "metric" and record.metric.step_metric:
            result.axes[record.metric.name or record.metric.glob_name] = record.metric.step_metric
        elif kind == "files":
            result.files += [f.path for f in record.files.files]
        elif kind == "request" and record.request.WhichOneof("request_type") == "log_artifact":
            result.artifacts.append(record.request.log_artifact.artifact)
        elif kind == "artifact":
            result.artifacts.append(record.artifact)
        elif kind == "exit":
            result.exit_code = record.exit.exit_code
    return result


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
