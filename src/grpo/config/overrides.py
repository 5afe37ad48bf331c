"""The command line's words, made fit for Hydra, or refused in a sentence before Hydra sees them.

`algo=dapo` becomes `+algo=dapo` (W&B sweeps cannot send a plus), `+surrogate=clip` loses its plus, and every known key
becomes `++key=value`, which Hydra sets whether the composed YAML wrote it or left the default to the class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpo.config import keys, sentences
from grpo.errors import Mistake

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

    from grpo.config.compose import Composer

NOUNS = {"algo": "algorithm"}
HYDRA = "has no effect here: output_dir says where runs go, --config-dir adds a folder, hydra/launcher goes with -m"


@dataclass
class Words:
    """The overrides of one run, sorted: choices of groups, then values, each fit for Hydra."""

    choices: dict[str, str] = field(default_factory=dict)
    """Group → option as given."""
    hydra_choices: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """Full key → override."""
    mistakes: list[Mistake] = field(default_factory=list)

    @property
    def given(self) -> frozenset[str]:
        """Keys that stand on the command line."""
        return frozenset(self.values)

    @property
    def all(self) -> list[str]:
        """Everything for Hydra, in its order."""
        return [*self.hydra_choices, *self.values.values()]


def parse(arguments: Sequence[str], composer: Composer) -> tuple[list[Override], list[Mistake]]:
    """Hydra's grammar; what it cannot read is a mistake."""
    from hydra.errors import HydraException

    parsed: list[Override] = []
    mistakes = []
    for argument in arguments:
        try:
            override = composer.parse(argument)
        except HydraException as error:
            mistakes.append(Mistake(argument, _unreadable(argument, error)))
            continue
        group, _, option = override.key_or_group.partition("/")
        if option and group in composer.groups:  # algo/chapter=dapo
            prefix = override.get_key_element().replace(f"{group}/{option}", group)
            override = composer.parse(f"{prefix}={option}/{override.get_value_element_as_str()}")
        parsed.append(override)
    return parsed, mistakes


def _unreadable(argument: str, error: Exception) -> str:
    if "=" not in argument and not argument.startswith("~"):
        return "is not key=value; python -m grpo --help shows how to write it"
    reason = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = [line for line in reason if not line.startswith(("See ", "Error parsing override", "^"))]
    detail = f" ({reason[0]})" if reason else ""
    return f"cannot be read{detail}; quote a value with special characters: 'key=\"value\"'"


def read(arguments: Sequence[str], composer: Composer) -> Words:
    """The overrides of one run (no sweep)."""
    words = Words()
    parsed, words.mistakes = parse(arguments, composer)
    values = []
    for override in parsed:
        key = override.key_or_group
        if override.is_hydra_override():
            words.mistakes.append(Mistake(key, HYDRA))
        elif override.is_sweep_override():
            sentence = f"{override.input_line} is more than one value; add -m to run a job for each"
            words.mistakes.append(Mistake(key, sentence))
        elif key in composer.groups and not _is_value(override):
            _choose(override, words, composer)
        else:
            values.append(override)
    if values:
        _set_values(values, words, composer)
    words.mistakes.sort(key=lambda mistake: _position(mistake.key, arguments))
    return words


def _position(key: str, arguments: Sequence[str]) -> int:
    """Mistakes are told in the order of the command line."""
    return next((i for i, argument in enumerate(arguments) if argument.lstrip("+~").startswith(key)), 0)


def _is_value(override: Override) -> bool:
    """reward={...} sets keys; reward=exact and algo=[a,b] choose."""
    return isinstance(override.value(), dict)


def _choose(override: Override, words: Words, composer: Composer) -> None:
    group, option = override.key_or_group, override.value()
    options, noun = composer.groups[group], NOUNS.get(group, group)
    sentence = None
    if override.is_delete():
        sentence = "cannot be removed; leave it out" if group not in composer.defaults else _empty(group, options)
    elif isinstance(option, list):
        many = ",".join(map(str, option))
        sentence = f"takes one {noun}, not {len(option)}; to run each of them: -m {group}={many}"
    elif not isinstance(option, str) or option not in options:
        near = sentences.meant(str(option), options)
        sentence = f"there is no {noun} {sentences.shown(option)}{near} (all: {', '.join(options)})"
    elif words.choices.get(group, option) != option:
        sentence = f"is given twice, {words.choices[group]} and {option}; give one"
    if sentence:
        words.mistakes.append(Mistake(group, sentence))
    elif group not in words.choices:
        words.choices[group] = str(option)
        plus = "" if group in composer.defaults else "+"
        package = f"@{override.package}" if override.package else ""
        words.hydra_choices.append(f"{plus}{group}{package}={option}")


def _empty(group: str, options: list[str]) -> str:
    return (
        f"cannot be removed; use {group}=none"
        if "none" in options
        else f"cannot be removed; choose {sentences.any_of(options)}"
    )


def _set_values(values: list[Override], words: Words, composer: Composer) -> None:
    refused = {m.key for m in words.mistakes}
    tree = composer.compose(words.hydra_choices)
    for override in values:
        key, value = override.key_or_group, override.value()
        path = key.split(".")
        if path[0] in refused and path[0] in composer.groups:
            continue  # its group is not known, so neither are its keys
        sentence = keys.mistake_in(path, tree, composer.groups, value)
        if sentence is None and isinstance(value, list) and isinstance(_node(tree, path), dict):
            sentence = f"is a group of keys, not the list {value}"
        if sentence is None and override.is_delete() and (path[:2] != ["reward", "functions"] or len(path) != 3):
            sentence = "cannot be removed; set it to null or to the value that switches it off"
        if sentence:
            words.mistakes.append(Mistake(key, sentence))
        elif override.is_delete():
            words.values[key] = f"~{key}"
        else:
            words.values[key] = f"++{key}={override.get_value_element_as_str()}"


def _node(tree: Any, path: Sequence[str]) -> Any:
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def expand(arguments: Sequence[str], composer: Composer) -> tuple[list[list[str]], list[Mistake]]:
    """The jobs of a multirun: the product of all swept values, in Hydra's own order."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.errors import HydraException

    parsed, mistakes = parse(arguments, composer)
    if mistakes:
        return [], mistakes
    try:
        return BasicSweeper.split_arguments(parsed, max_batch_size=None)[0], []
    except HydraException as error:
        return [], [Mistake("-m", str(error).splitlines()[0])]


def word(key: str, value: str) -> str:
    """key=value for a text, quoted where Hydra's grammar needs it: a folder seed=0 holds an equals sign."""
    import re

    if re.fullmatch(r"[\w./:+-]+", value):
        return f"{key}={value}"
    inner = re.sub(r'(\\*)"', r'\1\1\\"', value)  # Hydra: backslashes count only before a quote
    inner += "\\" * (len(inner) - len(inner.rstrip("\\")))
    return f'{key}="{inner}"'
