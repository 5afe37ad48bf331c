"""The README's generated tables: each is made from the one place in the code or in experiments/ that knows it.

    python -m experiments.readme.tables            # says which tables are out of date (exit code 1)
    python -m experiments.readme.tables --write    # writes them

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from experiments.readme import algorithms, chinese, pages
from grpo.config import trl_table
from grpo.recording import metrics


def _file(path: str) -> Callable[[], str]:
    return lambda: (pages.REPOSITORY / "experiments" / path).read_text(encoding="utf-8")


TABLES: dict[str, Callable[[], str]] = {
    "algorithms": algorithms.table,
    "algorithm_parts": algorithms.parts_table,
    "algorithms_zh": chinese.algorithm_table,
    "metrics_zh": chinese.metric_table,
    "metrics": metrics.readme_table,
    "trl_metrics": metrics.trl_table,
    "trl_keys": trl_table.markdown,
    "default_run": _file("default_run/table.md"),
    "words_levels": _file("words_levels/table.md"),
    "learning_off_policy": _file("learning/off_policy.md"),
    "learning_on_policy": _file("learning/on_policy.md"),
    "smollm2_words": _file("smollm2_words/table.md"),
    "engines_speed": _file("engines/speed.md"),
    "engines_learning": _file("engines/learning.md"),
}


def rendered(text: str) -> str:
    """The text with every table made anew."""

    def replace(found: re.Match[str]) -> str:
        name = found.group(1)
        return f"<!-- table: {name} -->\n{TABLES[name]().strip()}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", replace, text, flags=re.DOTALL)


if __name__ == "__main__":
    raise SystemExit(pages.command(__doc__, rendered))
