"""How jobs are started: --jobs, --launcher, hydra/launcher=... and its resources. Nothing of it changes a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grpo.errors import ConfigError, Mistake
from grpo.sweep.launch import LAUNCHERS


@dataclass(frozen=True)
class Launching:
    """What the runner is told."""

    at_once: int | None = None
    launcher: str = "fork"
    resources: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Sequence[str], jobs: str | None, launcher: str | None) -> tuple[Launching, list[str]]:
        """From the options and the words of a command line; the words that are left."""
        from grpo.sweep.asked import read_value

        mistakes, left, resources = [], [], {}
        for text in words:
            key, _, value = text.partition("=")
            if key == "hydra/launcher":
                if launcher not in (None, value):
                    mistakes.append(Mistake(key, f"is given twice, {launcher} and {value}; give one"))
                launcher = value
            elif key.startswith("hydra.launcher."):
                _put(resources, key.removeprefix("hydra.launcher.").split("."), read_value(value))
            else:
                left.append(text)
        if launcher is not None and launcher not in LAUNCHERS:
            from grpo.config.sentences import any_of, meant

            text = f"there is no launcher {launcher}{meant(launcher, LAUNCHERS)} (all: {any_of(LAUNCHERS)})"
            mistakes.append(Mistake("hydra/launcher", text))
        if jobs is not None and (not jobs.isdecimal() or int(jobs) < 1):
            mistakes.append(Mistake("--jobs", f"is how many run at a time, a whole number from 1 on, not {jobs}"))
        if mistakes:
            raise ConfigError(mistakes)
        return cls(int(jobs) if jobs else None, launcher or "fork", resources), left

    @property
    def at_once_shown(self) -> int:
        """For the plan: what was said, or what the runner would take."""
        from grpo.sweep import cores

        return self.at_once or cores.at_once()

    def options(self, flags: Sequence[str]) -> dict[str, Any]:
        """Arguments of `runner.run`. flags: what stands before a job's overrides."""
        return {
            "at_once": self.at_once,
            "launcher": self.launcher,
            "resources": dict(self.resources),
            "flags": tuple(flags),
        }


def _put(node: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        node = node.setdefault(part, {})
    node[path[-1]] = value
