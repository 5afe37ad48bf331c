"""Which rank this process is, and how many ranks a configuration wants. Imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo.errors import UserError
from grpo.sweep.cores import gpus


@dataclass(frozen=True)
class Place:
    """One of `world` ranks, as the environment of torchrun (and of launch.py) says it."""

    rank: int
    local_rank: int
    world: int


def place(environment: Mapping[str, str] = os.environ) -> Place | None:
    """None where this process is the only one. UserError for ranks on several machines."""
    if "RANK" not in environment or int(environment.get("WORLD_SIZE", "1")) == 1:
        return None
    world = int(environment["WORLD_SIZE"])
    if int(environment.get("LOCAL_WORLD_SIZE", world)) != world:
        raise UserError(
            f"trainer.devices   {environment['LOCAL_WORLD_SIZE']} of {world} processes are on this machine, and this "
            "version trains on the devices of one; start all of them on one machine"
        )
    return Place(int(environment["RANK"]), int(environment.get("LOCAL_RANK", environment["RANK"])), world)


def on_gpus(trainer: Any) -> bool:
    """Whether this machine's GPUs are used: asked without torch, which needs seconds."""
    return trainer.accelerator == "gpu" or (trainer.accelerator == "auto" and bool(gpus()))


def wanted(trainer: Any) -> int:
    """How many ranks a trainer node asks for; auto: as a launcher has started, else one per GPU, or one on the CPU."""
    if trainer.devices != "auto":
        return trainer.devices
    if (found := place()) is not None:
        return found.world
    return max(1, len(gpus())) if on_gpus(trainer) else 1


def joined(trainer: Any, environment: Mapping[str, str] = os.environ) -> Place | None:
    """This process's place in the run of a configuration; UserError where a launcher started another number."""
    found = place(environment)
    if found is not None and trainer.devices not in ("auto", found.world):
        raise UserError(
            f"trainer.devices   {found.world} processes were started (WORLD_SIZE) for trainer.devices="
            f"{trainer.devices}; say trainer.devices={found.world}"
        )
    return found
