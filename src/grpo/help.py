"""--help: groups with their options, keys with their meaning, examples. Read from conf/ and the schema."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from grpo import __version__
from grpo.config.keys import names_in, node_class
from grpo.config.schema import COMPONENTS, RunConfig
from grpo.config.sentences import shown

if TYPE_CHECKING:
    from grpo.config.compose import Composer

USAGE = """\
python -m grpo [key=value ...] [group=option ...] [+algo=NAME]

  python -m grpo                                    plain GRPO, embedded tiny policy and task
  python -m grpo +algo=dapo group_size=16           DAPO's differences; algo=dapo is the same
  python -m grpo kl.coef=0 updates.minibatches=4    one number of a part
  python -m grpo +algo=dapo surrogate=clip          one part of an algorithm
  python -m grpo -m algo=grpo,dapo 'seed=range(3)'  a job for every combination, each in a process of its own
  python -m grpo model=hf model.path=FOLDER task=words"""

FLAGS = """\
  -m, --multirun        run every combination of comma-separated values
  --cfg job             show the configuration and stop; --resolve fills in ${...}; -p surrogate shows one node,
                        -p objective all parts of the algorithm
  --config-dir FOLDER   a conf/ folder of your own, searched before the package's
  --info, --hydra-help, --shell-completion     Hydra's own
  --version, --help"""


def text(composer: Composer) -> str:
    """The help text."""
    return "\n".join(
        [
            f"grpo {__version__} · experiments with Group Relative Policy Optimization\n",
            USAGE,
            "\nGroups (* the default; a group that has none is added by +):\n",
            *_groups(composer),
            "\nKeys:\n",
            *_keys(composer),
            "\nThe keys of a part: --cfg job -p surrogate; their meaning: conf/surrogate/\n",
            FLAGS,
        ]
    )


def _groups(composer: Composer) -> list[str]:
    width = max(map(len, composer.groups)) + 1
    lines = []
    for group, options in composer.groups.items():
        default = composer.defaults.get(group)
        names = " · ".join(f"{name}*" if name == default else name for name in options)
        first = f"  {group if default else '+' + group:<{width}}  "
        lines += wrap(names, 120, initial_indent=first, subsequent_indent=" " * len(first), break_long_words=False)
    return lines


def _keys(composer: Composer) -> list[str]:
    values = composer.compose(())
    rows: list[tuple[str, Any, str]] = []
    for name in names_in(RunConfig):
        node = node_class(RunConfig, name)
        if node is None and name not in COMPONENTS:
            rows.append((name, values.get(name), _meaning(RunConfig, name)))
        rows += _rows(node, f"{name}.", values.get(name)) if node else []
    width = max(len(f"{key}={_value(value)}") for key, value, _ in rows)
    return [f"  {f'{key}={_value(value)}':<{width}}  {meaning}" for key, value, meaning in rows]


def _rows(node: Any, prefix: str, values: Any) -> list[tuple[str, Any, str]]:
    """The keys inside a node, and inside the nodes in it."""
    rows: list[tuple[str, Any, str]] = []
    for name in names_in(node, prefix):
        value, inner = (values or {}).get(name), node_class(node, name)
        if inner is not None:
            rows += _rows(inner, f"{prefix}{name}.", value)
        else:
            rows.append((f"{prefix}{name}", "" if isinstance(value, dict) else value, _meaning(node, name)))
    return rows


def _value(value: Any) -> str:
    return "" if value == "" else f"[{','.join(map(str, value))}]" if isinstance(value, list) else shown(value)


def _meaning(node: Any, name: str) -> str:
    return " ".join((node.model_fields[name].description or "").split())
