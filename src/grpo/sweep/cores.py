"""Cores and GPUs divided among jobs that run side by side, by environment variables.

A thread pool takes its size once, when its library is loaded: the variables have to stand before torch is imported.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache


def usable() -> int:
    """Cores that this process may use: a container's or taskset's share, not the machine's."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


@lru_cache
def machine_gpus() -> tuple[tuple[str, str], ...]:
    """(index, name) of each GPU, as nvidia-smi lists them; empty where there is no such program."""
    command = ["nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    rows = [line.partition(",") for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return tuple((index.strip(), name.strip()) for index, _, name in rows if index.strip().isdecimal())


def gpus(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The GPUs that this process may use, as words for CUDA_VISIBLE_DEVICES; that variable, where set, decides."""
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return [index for index, _ in machine_gpus()]
    words = [word.strip() for word in visible.split(",")]
    return words[: words.index("-1")] if "-1" in words else [word for word in words if word]


def at_once(environment: Mapping[str, str] = os.environ) -> int:
    """Jobs at a time if nobody says: one per GPU, without GPUs one per core."""
    return len(gpus(environment)) or usable()


def shares(
    jobs: int,
    *,
    cores: int | None = None,
    devices: Sequence[str] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> list[dict[str, str]]:
    """The variables of each of `jobs` places: an equal part of the cores, and the GPUs in turn.

    An OMP_NUM_THREADS that is set already is an upper limit.
    """
    devices = gpus(environment) if devices is None else devices
    threads = max(1, (cores or usable()) // jobs)
    if (given := environment.get("OMP_NUM_THREADS", "")).isdecimal() and int(given):
        threads = min(threads, int(given))
    common = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    if not devices:
        return [common] * jobs
    parts = [list(devices[place::jobs]) or [devices[place % len(devices)]] for place in range(jobs)]
    return [{**common, "CUDA_VISIBLE_DEVICES": ",".join(part)} for part in parts]
