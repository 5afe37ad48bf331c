"""The README's example outputs of the side commands: what follows a line `$ python -m grpo.probe …` in a code block.

python -m experiments.readme.examples            # says which are out of date (exit code 1)
python -m experiments.readme.examples --write    # runs each command and writes what it printed
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
from collections.abc import Iterator

from experiments.readme import pages

BLOCK = re.compile(r"```\n\$ python -m (grpo\.(?:probe|explain)) ?(.*?)\n(.*?)```", re.DOTALL)


def output(module: str, command: str) -> str:
    """What the command prints, without spaces at the ends of its lines."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        importlib.import_module(f"{module}.__main__").main(shlex.split(command, comments=True))
    lines = [line.rstrip() for line in printed.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def blocks(page: str) -> Iterator[re.Match[str]]:
    """The code blocks of a page that are a command and its output: (module, command, output)."""
    yield from BLOCK.finditer(page)


def rendered(page: str) -> str:
    """The page with every output written anew."""
    return BLOCK.sub(lambda b: f"```\n$ python -m {b[1]}{f' {b[2]}' if b[2] else ''}\n{output(b[1], b[2])}```", page)


if __name__ == "__main__":
    raise SystemExit(pages.command(__doc__, rendered))
