"""`python -m grpo.report <sweep folder>`: who is better, by how much, how sure.

    python -m grpo.report runs/sweeps/clip_high-3f9c21ab
    python -m grpo.report runs/grpo runs/dapo                      folders of single runs: exploratory
    python -m grpo.report runs/sweeps/clip_high-3f9c21ab --only forest

Writes report.html (one file that needs nothing else), report.md, table.tex, summary.csv and figures/ as PNG and PDF.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grpo.cli import guarded, side_parser
from grpo.errors import ConfigError, Mistake, UserError

if TYPE_CHECKING:
    from grpo.report.findings import Findings
    from grpo.report.records import SweepRecord


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return guarded(_main, argv)


def _main(argv: list[str]) -> int:
    args = _arguments(argv)
    folders = [Path(folder) for folder in args.folders]
    sweep = record(folders)
    from grpo.report.findings import findings  # scipy, hence after the folders are known to be there

    found = findings(sweep)
    out = Path(args.out) if args.out else default_out(folders)
    written = write(found, out, args.only)
    if args.only is None:
        from grpo.report.show import lines

        print("\n".join(lines(found)))
    print(f"written   {written}")
    if args.wandb:
        for url in publish(found, args.wandb, out):
            print(f"W&B       {url}")
    return 0


def publish(found: Findings, entity_project: str, out: Path) -> list[str]:
    """Create or update the sweep's workspace and report in W&B; their addresses."""
    from grpo.report.details import paragraph
    from grpo.report.headline import headline, sentences
    from grpo.report.wandb_report import push

    names = ("report.html", "report.md", "table.tex", "summary.csv", "figures")
    verdicts = [headline(found), *(sentence for _, sentence in sentences(found))]
    return push(found.sweep.folder, entity_project, {name: out / name for name in names}, verdicts, paragraph(found))


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = side_parser("grpo.report", __doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="a sweep's folder, or folders that hold runs")
    parser.add_argument("--out", metavar="DIR", help="where to write (default: report/ inside the sweep's folder)")
    parser.add_argument("--only", metavar="FIGURE", help="one figure and nothing else (forest, ...)")
    parser.add_argument("--wandb", metavar="ENTITY/PROJECT", help="also create or update a W&B workspace and report")
    args = parser.parse_intermixed_args(argv)
    if args.wandb and args.only:
        raise ConfigError([Mistake("--wandb", "sends the whole report; drop --only")])
    return args


def record(folders: Sequence[Path]) -> SweepRecord:
    """One folder with a manifest is a sweep; all else is a handful of runs."""
    from grpo.report.reading import load, load_runs
    from grpo.sweep.manifest import FILE

    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"{folder}   there is no such folder; give the folder of a sweep, or folders of runs")
    if len(folders) == 1 and (folders[0] / FILE).exists():
        return load(folders[0])
    return load_runs(folders)


def default_out(folders: Sequence[Path]) -> Path:
    """report/ in the folder, or in the folder that several share."""
    if len(folders) == 1:
        return folders[0] / "report"
    return Path(os.path.commonpath([folder.resolve() for folder in folders])) / "report"


def write(found: Findings, out: Path, only: str | None = None) -> Path:
    """All files of the report, or one figure; returns the file to look at."""
    from grpo.report import figures, latex, markdown, page, summary
    from grpo.runs.atomic import unwritable, write_text

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(out, error) from error
    drawn = figures.draw(found, out / "figures", only)
    if only is not None:
        return out / "figures" / f"{only}.pdf"
    write_text(out / "report.md", markdown.text(found, drawn))
    write_text(out / "table.tex", latex.text(found))
    write_text(out / "summary.csv", summary.text(found.sweep))
    write_text(out / "report.html", page.text(found, drawn, out))
    return out / "report.html"


if __name__ == "__main__":
    sys.exit(main())
