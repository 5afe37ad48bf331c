"""TRL's keys and ours, from one file: `python -m grpo.config.trl_table` prints the README's table."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from grpo.config.sentences import shown

FILE = Path(__file__).with_name("trl_keys.yaml")


@cache
def rows() -> tuple[dict[str, Any], ...]:
    """trl, listed (value in the chapter's listing), key, value (ours), note."""
    from omegaconf import OmegaConf

    return tuple(OmegaConf.to_container(OmegaConf.load(FILE))["rows"])  # type: ignore[index,call-overload,arg-type]


@cache
def ours() -> dict[str, str]:
    """TRL key → our key."""
    return {row["trl"]: row["key"] for row in rows() if row["key"]}


def markdown() -> str:
    """The table "TRL key → ours"."""
    lines = ["| TRL | in the listing | here | value | |", "|---|---|---|---|---|"]
    for row in rows():
        key = f"`{row['key']}`" if row["key"] else "—"
        lines.append(f"| `{row['trl']}` | {_cell(row['listed'])} | {key} | {_cell(row['value'])} | {row['note']} |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return "—" if value is None else f"`{shown(value)}`"


if __name__ == "__main__":
    print(markdown())
