"""`python -m experiments.gpu_check.report`: table.md from the results that are kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.gpu_check.check import Numbers, Result

HERE = Path(__file__).resolve().parent
NOT_YET = "Not run on a GPU yet: the CPU's tiny sizes show that the script works, and nothing about speed or memory.\n"


def read(file: Path) -> Numbers:
    """A kept result."""
    return json.loads(file.read_text(encoding="utf-8"))


def line(result: Result) -> str:
    """One phase, for the screen."""
    return f"  {result.name}: {result.status} in {result.seconds:g} s{f', {result.reason}' if result.reason else ''}"


def table(results: Sequence[Numbers]) -> str:
    """Markdown: a row per phase of each device, GPUs first."""
    lines = []
    for made in sorted(results, key=lambda made: (made["device"] == "CPU", made["device"])):
        packages = made["packages"]
        versions = ", ".join(
            f"{name} {packages[name]}" for name in ("torch", "transformers", "vllm") if name in packages
        )
        commit = ((made.get("git") or {}).get("commit") or "unknown")[:8]
        size = "tiny sizes" if made["small"] else "0.52 B parameters"
        lines += [f"**{made['device']}**, {size}, {versions}, commit {commit}, {made['seconds']:.0f} s:", ""]
        lines += ["| phase | | s | measured |", "|---|---|---|---|"]
        lines += [row(phase) for phase in made["phases"]]
        lines.append("")
    return "\n".join(lines)


def row(phase: Numbers) -> str:
    numbers = " · ".join(f"{key} {shown(value)}" for key, value in phase.get("numbers", {}).items())
    words = " — ".join(text for text in (phase.get("reason", ""), numbers) if text).replace("|", "\\|")
    return f"| {phase['name']} | {phase['status']} | {phase['seconds']:.0f} | {words} |"


def shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}" if isinstance(value, float) else str(value)


def main() -> None:
    """Write the table, and print it."""
    results = [read(file) for file in sorted((HERE / "results").glob("*.json"))]
    seen = any(made["device"] != "CPU" for made in results)
    text = ("" if seen else NOT_YET + "\n") + table(results)
    (HERE / "table.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
