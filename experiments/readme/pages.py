"""The two READMEs, parts of which are made by scripts: compare them, or write them anew."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "README.zh.md")


def command(about: str | None, rendered: Callable[[str], str]) -> int:
    """The command line of a script that makes parts of the pages; the exit code is 1 where one is out of date."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the pages")
    write, stale = parser.parse_args().write, 0
    for name in PAGES:
        page = REPOSITORY / name
        before = page.read_text(encoding="utf-8")
        after = rendered(before)
        if before != after and write:
            page.write_text(after, encoding="utf-8")
        stale += before != after
        print(f"{name}: {'up to date' if before == after else 'written' if write else 'out of date (make tables)'}")
    return 0 if write or not stale else 1
