"""The entry point: argv → checked configuration → run. Nothing heavy is imported before the check is through.

Exit codes: 0 done · 1 mistakes in the configuration (nothing was written), or a failed run or job · 130, 143 stopped
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from grpo import __version__
from grpo.config import sentences
from grpo.errors import ConfigError, Mistake, UserError


class _Parser(argparse.ArgumentParser):
    """argparse with our sentences instead of its usage message."""

    def error(self, message: str) -> NoReturn:
        name = self.prog.removeprefix("python -m ")
        raise ConfigError([Mistake(name, f"{message}; {self.prog} --help lists the options")])


def side_parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """The parser of a side command (`grpo.explain`, …): its module's docstring is its help."""
    return _Parser(
        prog=f"python -m {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def see_own_modules() -> None:
    """A user's own `_target_` is found in the current folder, also by the installed command."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    return guarded(_main, argv)


def guarded(program: Callable[[list[str]], int], argv: Sequence[str] | None) -> int:
    """The exit code of a program, the user's mistakes as sentences; the side commands use it too."""
    try:
        return program(list(sys.argv[1:] if argv is None else argv))
    except UserError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # --help | head
        _close_output()
        return 0


def _close_output() -> None:
    """Nobody reads standard output any more: what is left in its buffer goes nowhere, without an error at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _main(argv: list[str]) -> int:
    see_own_modules()
    args = _arguments(argv)
    if args.version:
        print(f"grpo {__version__}")
        return 0
    from grpo.config.compose import Composer

    composer = Composer(args.config_dir)
    if args.help:
        from grpo.help import text

        print(text(composer))
        return 0
    if args.info or args.hydra_help or args.shell_completion:
        return _hydra(argv, composer)
    flags = ["--config-dir", args.config_dir] if args.config_dir else []
    if args.multirun:
        from grpo import multirun

        return multirun.run(
            args.overrides, composer, flags, jobs=args.jobs, folder=args.folder, command=("python", "-m", "grpo", *argv)
        )
    if args.cfg:
        from grpo.config.show import show

        return show(args.overrides, composer, args.cfg, args.package, args.resolve)
    from grpo.config.check import load
    from grpo.ranks import launch
    from grpo.rollout import vllm_version

    config, resolved = load(args.overrides, composer)
    vllm_version.require(config)
    if launch.needed(config.trainer):
        return launch.supervise(config, flags)
    from grpo.training.run import run  # torch, lightning and transformers: 11 s, hence last

    try:
        return run(config, resolved, flags)
    except BrokenPipeError as error:
        _close_output()
        text = "output   its reader went away (a pipe was closed), which ended the run; send it to a file"
        raise UserError(text) from error


def _arguments(argv: list[str]) -> argparse.Namespace:
    """Hydra's flags, understood anywhere between the overrides."""
    parser = _Parser(prog="python -m grpo", add_help=False, allow_abbrev=False)
    for names in (("--help", "-h"), ("--version",), ("--multirun", "-m"), ("--run", "-r"), ("--resolve",)):
        parser.add_argument(*names, action="store_true")
    parser.add_argument("--cfg", "-c", choices=("job", "hydra", "all"))
    parser.add_argument("--package", "-p")
    parser.add_argument("--config-dir", "-cd")
    parser.add_argument("--jobs")
    parser.add_argument("--folder")
    parser.add_argument("--info", "-i", nargs="?", const="all")
    parser.add_argument("--hydra-help", action="store_true")
    parser.add_argument("--shell-completion", "-sc", action="store_true")
    options = [name for action in parser._actions for name in action.option_strings]
    args, rest = parser.parse_known_args(argv)
    flags = [word for word in rest if word.startswith("-") and word != "-"]
    if flags:
        raise ConfigError([_flag(word, options) for word in flags])
    args.overrides = rest
    if args.multirun and args.cfg:
        raise ConfigError([Mistake("--cfg", "shows one configuration; drop -m, and give one value per key")])
    for name in ("jobs", "folder"):
        if getattr(args, name) is not None and not args.multirun:
            where = "many jobs; add -m, or say it to python -m grpo.sweep"
            raise ConfigError([Mistake(f"--{name}", f"is for a sweep of {where}")])
    if (args.resolve or args.package) and not args.cfg:
        raise ConfigError([Mistake("--resolve" if args.resolve else "--package", "goes with --cfg job")])
    return args


def _flag(word: str, options: Sequence[str]) -> Mistake:
    """--group_size=16 is what other programs (and resumed W&B sweeps) write."""
    bare = word.lstrip("-")
    if bare.replace("-", "") in ("dryrun", "check"):
        hint = "--cfg job checks and shows the configuration, grpo.probe the reward"
        return Mistake(word, f"there is no such option; {hint}")
    if "=" not in word and (hint := sentences.meant(word, options)):
        return Mistake(word, f"there is no such option{hint}")
    hint = f"keys are written without dashes: {bare if '=' in bare else f'{bare}=...'}"
    return Mistake(word.split("=")[0], f"there is no such option; {hint}")


def _hydra(argv: list[str], composer: object) -> int:
    """--info, --hydra-help and --shell-completion are Hydra's own."""
    from hydra._internal.utils import _run_hydra, get_args_parser

    from grpo.config.compose import conf_dir

    parser = get_args_parser()
    _run_hydra(parser.parse_args(argv), parser, lambda config: None, str(conf_dir()), "config")
    return 0
