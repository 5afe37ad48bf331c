"""`python -m grpo.explain +algo=dapo batch=figure_7_1`: what an algorithm does with one batch of numbers.

    python -m grpo.explain +algo=chapter/sapo --against +algo=sapo batch=two_completions
    python -m grpo.explain +algo=dapo surrogate.high=0.3 --against surrogate=clip --against +algo=cispo
    python -m grpo.explain +algo=gspo batch=mine.json --json

Free arguments are overrides, as for python -m grpo. --against takes overrides too, several in quotes: with an algorithm
it starts from that algorithm, without one it edits the first.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

from grpo.cli import guarded, side_parser
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.config.schema import AXES
from grpo.errors import ConfigError, Mistake
from grpo.explain.batch import Numbers, read, shipped


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return guarded(_main, argv)


def _main(argv: list[str]) -> int:
    args = _arguments(argv)
    numbers, free = _batch(args.overrides)
    composer = Composer(args.config_dir)
    lines = [free, *(against(free, shlex.split(text)) for text in args.against)]
    configs = [load(line, composer)[0] for line in lines]
    from grpo.explain.explained import Explained  # torch: seconds, hence after the check

    explained = [Explained.of(config, numbers, composer.folders[0]) for config in configs]
    if args.json:
        from grpo.explain.plain import as_json

        print(as_json(explained, numbers))
    else:
        from grpo.explain.show import show

        show(explained, numbers)
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    """Options anywhere between the overrides."""
    parser = side_parser("grpo.explain", __doc__)
    parser.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE",
        help=f"+algo=..., part=..., key=value, and batch=NAME or batch=FILE.json (by name: {', '.join(shipped())})",
    )  # fmt: skip
    parser.add_argument("--against", action="append", default=[], metavar="OVERRIDES", help="put another beside it")
    parser.add_argument("--json", action="store_true", help="all numbers, for programs")
    parser.add_argument("--config-dir", "-cd", help="a configuration folder of your own")
    return parser.parse_intermixed_args(argv)


def _batch(words: Sequence[str]) -> tuple[Numbers, list[str]]:
    """The batch, and the words that are overrides."""
    chosen = [word.removeprefix("batch=") for word in words if word.startswith("batch=")]
    if len(chosen) > 1:
        raise ConfigError([Mistake("batch", f"is given {len(chosen)} times; give one")])
    return read(chosen[0] if chosen else "figure_7_1"), [word for word in words if not word.startswith("batch=")]


def _key(word: str) -> str:
    return word.lstrip("+~").split("=", 1)[0].split("@", 1)[0]


def against(first: Sequence[str], other: Sequence[str]) -> list[str]:
    """The command line of the algorithm beside the first one.

    With an algorithm of its own it shares sizes and lengths with the first, but no part; else it edits the first.
    """
    given = {_key(word) for word in other}
    own = any(key.split("/")[0] == "algo" for key in given)

    def stays(key: str) -> bool:
        root = key.split(".")[0].split("/")[0]
        return key not in given and not (own and root in ("algo", "group_size", *AXES))

    choices = {key for key in given if "." not in key}
    kept = [word for word in first if stays(_key(word)) and _key(word).split(".")[0] not in choices]
    return [*kept, *other]


if __name__ == "__main__":
    sys.exit(main())
