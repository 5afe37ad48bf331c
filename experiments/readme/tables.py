"""The README's generated tables: each is made from the one place in the code or in experiments/ that knows it.

    python -m experiments.readme.tables            # says which tables are out of date (exit code 1)
    python -m experiments.readme.tables --write    # writes them

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from experiments.readme import algorithms, chinese
from grpo.config import trl_table
from grpo.recording import metrics

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = ("README.md", "README.zh.md")


def _file(path: str) -> Callable[[], str]:
    return lambda: (REPOSITORY / "experiments" / path).read_text(encoding="utf-8")


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
}


def rendered(text: str) -> str:
    """The text with every table made anew."""

    def replace(found: re.Match[str]) -> str:
        name = found.group(1)
        return f"<!-- table: {name} -->\n{TABLES[name]().strip()}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", replace, text, flags=re.DOTALL)


def main() -> int:
    """Compare or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    write, stale = parser.parse_args().write, 0
    for name in FILES:
        path = REPOSITORY / name
        before = path.read_text(encoding="utf-8")
        after = rendered(before)
        if before != after and write:
            path.write_text(after, encoding="utf-8")
        stale += before != after
        print(f"{name}: {'up to date' if before == after else 'written' if write else 'out of date (make tables)'}")
    return 0 if write or not stale else 1


if __name__ == "__main__":
    raise SystemExit(main())
