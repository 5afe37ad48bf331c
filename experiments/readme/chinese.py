"""Tables of README.zh.md: the same rows as the README's, with the texts of zh.yaml."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from experiments.readme import algorithms
from grpo.pages import page
from grpo.recording import metrics


@cache
def texts() -> dict[str, Any]:
    """zh.yaml."""
    return yaml.safe_load((Path(__file__).parent / "zh.yaml").read_text(encoding="utf-8"))


def algorithm_table() -> str:
    """Published algorithms: formula, paper, how the chapter's form differs."""
    lines = ["| `+algo=` | 公式 | 论文 | 书中形式的不同 |", "|---|---|---|---|"]
    known = algorithms.names()
    for name in [name for name in known if not name.startswith("chapter/")]:
        about, own = page(name), texts()["algorithms"].get(name, {})
        formula = "<br>".join(f"`{cell(line)}`" for line in ([own["formula"]] if "formula" in own else about.formula))
        twin = f"[`chapter/{name}`](conf/algo/chapter/{name}.yaml)：" if f"chapter/{name}" in known else ""
        differs = own.get("differs") or about.differs or "–"
        paper = algorithms.paper(about.title)
        lines.append(f"| [`{name}`](conf/algo/{name}.yaml) | {formula} | {paper} | {twin}{cell(differs)} |")
    return "\n".join(lines)


def metric_table() -> str:
    """What each metric means, one table per section."""
    lines: list[str] = []
    for section, rows in groupby(metrics.METRICS, key=lambda metric: metric.section):
        lines += [f"**{texts()['sections'].get(section, section)}**", "", "| 指标 | 含义 | 单位 |", "|---|---|---|"]
        for row in rows:
            meaning = cell(texts()["metrics"].get(row.name, row.formula))
            lines.append(f"| `{row.name}` | {meaning} | {texts()['units'].get(row.unit, row.unit)} |")
        lines.append("")
    return "\n".join(lines)


def cell(text: str) -> str:
    """Text that may stand in a Markdown table."""
    return text.replace("|", "\\|")
