"""Hashes of a resolved configuration: one for what changes the numbers, one for the algorithm alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from grpo.config.schema import AXES

UNHASHED = frozenset(
    {
        "name",
        "source",
        "seed",  # stands beside the hash: runs/<name>/<hash>-s<seed>/<n>
        "output_dir",
        "sweep",
        "arm",
        "run_dir",
        "resume",
        "logger",
        "log_every",
        "samples_every",
        "checkpoint",
        "preflight",
        "save_rollouts",
        "choices",
        "overrides",
    }
)


def config_hash(resolved: Mapping[str, Any]) -> str:
    """8 hex digits over everything that changes the numbers of a run, except its seed."""
    return _digest({key: _used(key, value) for key, value in resolved.items() if key not in UNHASHED})


def _used(key: str, node: Any) -> Any:
    """The model node without model.lora where no adapter is trained: its other keys then change no number.

    The trainer node as on one device: several make the same run, and may go on with one that another number began.
    """
    if key == "trainer" and isinstance(node, Mapping):
        return {**node, "devices": 1}
    if key != "model" or not isinstance(node, Mapping) or (node.get("lora") or {}).get("r") is not None:
        return node
    return {name: value for name, value in node.items() if name != "lora"}


def algorithm_hash(resolved: Mapping[str, Any]) -> str:
    """8 hex digits over the resolved parts: equal for two runs of the same algorithm, whatever they are called."""
    return _digest({axis: resolved[axis] for axis in AXES})


def _digest(node: Mapping[str, Any]) -> str:
    text = json.dumps(_plain(node), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _plain(value: Any) -> Any:
    """1 and 1.0 are one number, a tuple is a list."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
