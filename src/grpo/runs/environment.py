"""environment.json: which code, which versions, which machine. Never environment variables: they hold keys."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from grpo.runs.status import now

PACKAGES = ("grpo-lab", "torch", "transformers", "lightning", "hydra-core", "omegaconf", "pydantic", "numpy", "scipy")
PACKAGES += ("safetensors", "tokenizers", "wandb", "vllm", "peft", "datasets", "math-verify")


def environment() -> dict[str, Any]:
    """Everything that has to agree before two runs are compared, and how this one was started."""
    return {
        "v": 1,
        "started": now(),
        "command": [sys.executable, *sys.argv],
        "folder": os.getcwd(),
        "git": git_state(Path(__file__).parent),
        "git_here": git_state(Path.cwd()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions(),
        "cpu": cpu(),
        "gpu": gpus(),
    }


def versions() -> dict[str, str]:
    """Versions of the installed packages that can change a number; absent ones are left out."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit and dirty flag of the repository that holds `folder`; None outside of one.

    A folder that git ignores (a virtual environment inside somebody's project) does not belong to that project.
    """
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit or _git(folder, "check-ignore", "-q", ".") is not None:
        return None
    changes = _git(folder, "status", "--porcelain")
    return {"commit": commit, "dirty": changes is None or bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of a git command, None if it failed. No optional locks: a parallel commit must not trip over us."""
    variables = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, env=variables, capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def cpu() -> dict[str, Any]:
    """Model, cores that this process may use, torch's threads (None before torch is loaded), memory in GB."""
    torch = sys.modules.get("torch")
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "model": _cpu_model(),
        "cores": os.cpu_count(),
        "usable": len(affinity(0)) if affinity else os.cpu_count(),
        "threads": torch.get_num_threads() if torch else None,
        "memory_gb": _memory_gb(),
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):
        return None


def gpus() -> list[dict[str, Any]]:
    """Name and memory of each GPU; empty before torch is loaded, which is not loaded for this."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    every = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    return [{"name": each.name, "memory_gb": round(each.total_memory / 1e9, 1)} for each in every]
