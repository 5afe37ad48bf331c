"""What a run is called: its algorithm's name, and what was changed about the algorithm.

The composed configuration does not know its algorithm, so each overlay sets `name`. A changed DAPO is called
dapo+surrogate=soft_gate and never reported as DAPO; seeds, sizes, task and model change no name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from grpo.config.schema import AXES
from grpo.config.sentences import shown


def effective_name(final: Mapping[str, Any], overlay: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    """`final`: the whole configuration; `overlay`: only its algorithm; `chosen`: all groups but no single values."""
    if final["name"] != overlay["name"]:
        return str(final["name"])  # named by hand
    edits: list[str] = []
    for axis in AXES:
        choice, before = final["choices"].get(axis), overlay["choices"].get(axis)
        if final[axis] == overlay[axis]:
            continue
        if choice != before:
            edits.append(f"{axis}={choice}")
        edits += _values(axis, final[axis], (chosen if choice != before else overlay)[axis])
    return "+".join([str(final["name"]), *edits])


def _values(axis: str, node: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    return [f"{axis}.{key}={shown(value)}" for key, value in node.items() if before.get(key, ...) != value]


def folder_name(name: str) -> str:
    """A name as one folder: chapter/dapo → chapter-dapo."""
    return re.sub(r"[^\w.+=,-]", "_", name.replace("/", "-"))[:120]
