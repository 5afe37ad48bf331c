"""What each engine's runs came to, from the report of their sweep.

    python -m grpo.sweep experiments/engines/engines.yaml --folder runs/engines     # six runs: minutes on 2 cores
    python -m grpo.report runs/engines --out runs/engines/report
    python -m experiments.engines.learning runs/engines/report/summary.csv          # keeps it, and writes learning.md
    python -m experiments.engines.learning                                          # the table again, from what is kept
"""

from __future__ import annotations

import csv
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
KEPT = HERE / "results" / "summary.csv"
HEAD = "| engine | test avg@8 of seeds 0, 1, 2 | mean | greedy | generated tokens |\n|---|---|---|---|---|"


def table(rows: list[dict[str, str]]) -> str:
    """One line for each engine."""
    lines = [HEAD]
    for arm in ("transformers", "vllm"):
        runs = sorted((row for row in rows if row["arm"] == arm), key=lambda row: int(row["seed"]))
        scores, greedy, tokens = ([float(r[key]) for r in runs] for key in ("score", "greedy", "generated_tokens"))
        each = ", ".join(f"{score:.3f}" for score in scores)
        means = f"{statistics.mean(scores):.3f} | {statistics.mean(greedy):.3f} | {statistics.mean(tokens):,.0f}"
        lines.append(f"| {arm} | {each} | {means} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str]) -> None:
    """Keep the file that is given, write the table."""
    if argv:
        KEPT.write_text(Path(argv[0]).read_text(encoding="utf-8"), encoding="utf-8")
    with KEPT.open(encoding="utf-8", newline="") as file:
        written = table(list(csv.DictReader(file)))
    (HERE / "learning.md").write_text(written, encoding="utf-8")
    print(written)


if __name__ == "__main__":
    main(sys.argv[1:])
