"""Where everything of a sweep lies, and the digest that names its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grpo.config.naming import folder_name
from grpo.config.sentences import shown
from grpo.sweep.question import Question


def arm_folders(names: Sequence[str]) -> dict[str, str]:
    """Arm → folder, each its own: a question refuses names that share one, a grid's long names get a number."""
    found: dict[str, str] = {}
    for name in names:
        folder, number = folder_name(name), 2
        while folder.lower() in {other.lower() for other in found.values()}:
            folder, number = f"{folder_name(name)[:116]}~{number}", number + 1
        found[name] = folder
    return found


def run_folder(arm: str, seed: int, point: Mapping[str, Any] | None = None) -> str:
    """<arm>/seed=0, or <arm>/tune/lr=0.0001/seed=100. arm: its folder."""
    if not point:
        return f"{arm}/seed={seed}"
    ends = [key.rsplit(".", 1)[-1] for key in point]
    names = ends if len(set(ends)) == len(ends) else list(point)
    values = [folder_name(f"{name}={shown(value)}") for name, value in zip(names, point.values(), strict=True)]
    return f"{arm}/tune/{','.join(values)}/seed={seed}"


def digest(question: Question, hashes: Mapping[str, Sequence[str]]) -> str:
    """8 hex digits over what is asked: all but the seeds, so that more of them go on in the same folder.

    hashes   arm → the configuration hashes of its jobs at one seed; they stand for the overrides, as far as these
             change numbers
    """
    left_out = {"claim", "common", "arms", "seeds", "allow_same"}
    node = {key: value for key, value in question.plain().items() if key not in left_out}
    text = json.dumps([node, {arm: list(codes) for arm, codes in hashes.items()}], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def sweep_folder(output_dir: str | Path, name: str, code: str) -> Path:
    """<output_dir>/sweeps/<name>-<digest>."""
    return Path(output_dir) / "sweeps" / f"{folder_name(name)}-{code}"
