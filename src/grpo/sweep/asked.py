"""What the words of the command line make of a sweep file: `margin=0.05` edits the question, `task=words` every arm."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grpo.config import sentences
from grpo.config.schema import RunConfig
from grpo.errors import ConfigError, Mistake
from grpo.sweep.question import KEYS, Question, check
from grpo.sweep.words import PLACES, key_of, value_of, without

if TYPE_CHECKING:
    from grpo.config.compose import Composer

TEXTS = ("claim.text", "claim.source", "baseline", "endpoint", "active", "profile", "seeds")


def asked(plain: Mapping[str, Any], words: Sequence[str], composer: Composer) -> Question:
    """The question of a file with the command line's words in it; all mistakes at once."""
    data = {key: _copied(value) for key, value in plain.items()}
    mistakes: list[Mistake] = []
    edits = [text for text in words if text.split("=", 1)[0].split(".")[0] in KEYS]
    for text in sorted(edits, key=lambda text: text.startswith("arms=")):  # after baseline=, wherever that stands
        mistakes += _edit(data, text.split("=", 1)[0], value_of(text), text)
    common = []
    for text in words:
        if text in edits:
            continue
        if sentence := _refused(text, data, composer):
            mistakes.append(Mistake(key_of(text), sentence))
        else:
            common.append(text)
    given = {text.split("=", 1)[0].split(".")[0] for text in edits}
    said = data.get("common")
    kept = without(said, map(key_of, common)) if isinstance(said, list) else ()
    if common and (said is None or isinstance(said, list)):
        data["common"] = [*kept, *common]
    try:
        question = check(data, given)
    except ConfigError as error:
        raise ConfigError([*mistakes, *error.mistakes]) from error
    tuned = question.tune.grid if question.tune else {}
    mistakes += [
        Mistake(key_of(text), "is what tune.grid chooses for every arm, so this would do nothing; add tune=null")
        for text in common
        if key_of(text) in tuned
    ]
    if mistakes:
        raise ConfigError(mistakes)
    return question


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, list) else value


def _edit(data: dict[str, Any], key: str, value: str, text: str) -> Iterable[Mistake]:
    """Set a key of the question; tune.grid.optimizer.lr=[1e-4,2e-4] sets one row of the grid."""
    if "=" not in text:
        return [Mistake(key, f"is a key of the question and needs a value: {key}=...")]
    if key == "common":
        return [Mistake(key, "has no need of a word: every override on the command line joins it")]
    if key == "arms":
        return _subset(data, value)
    *parents, last = key.split(".")
    if key.startswith("tune.grid."):
        parents, last = ["tune", "grid"], key.removeprefix("tune.grid.")
    node = data
    for parent in parents:
        if not isinstance(node.get(parent), dict):
            node[parent] = {}
        node = node[parent]
    try:
        node[last] = value if key in TEXTS and not (key == "seeds" and value.startswith("[")) else read_value(value)
    except ValueError as error:
        return [Mistake(key, str(error))]
    if key in ("active", "claim.source") and value == "null":
        node[last] = None
    return []


def read_value(value: str) -> Any:
    """A value as YAML, by OmegaConf's rules."""
    from omegaconf import OmegaConf
    from yaml import YAMLError

    try:
        return OmegaConf.to_container(OmegaConf.create(f"v: {value}"), resolve=False)["v"]  # pyright: ignore
    except YAMLError as error:
        raise ValueError(f"cannot be read: {value}") from error


def _subset(data: dict[str, Any], value: str) -> Iterable[Mistake]:
    arms = data.get("arms")
    if not isinstance(arms, dict):
        return []
    names = [name.strip() for name in value.strip("[]").split(",") if name.strip()]
    known = {str(name): words for name, words in arms.items()}
    found = []
    for name in names:
        if name not in known:
            near = sentences.meant(name, known)
            found.append(Mistake("arms", f"there is no arm {name}{near} (arms: {', '.join(known)})"))
    if not names:
        found.append(Mistake("arms", f"names no arm; take some of {', '.join(known)}"))
    elif not found:
        data["arms"] = {name: known[name] for name in known if name in names}
        baseline = str(data.get("baseline"))
        if baseline in known and baseline not in names:
            found.append(Mistake("arms", f"leaves out the baseline {baseline}; add it, or say baseline={names[0]}"))
            data["baseline"] = names[0]
    return found


def _refused(text: str, data: Mapping[str, Any], composer: Composer) -> str | None:
    """Why a word is no override of all arms."""
    key = key_of(text)
    root = key.split(".")[0]
    if key == "seed":
        return f"every arm runs with every seed of the question; say seeds={value_of(text)}"
    if key in PLACES or key == "resume":
        return None  # the question's rules say it
    if root not in composer.groups and root not in RunConfig.model_fields:
        near = sentences.nearest(root, KEYS)
        if near:
            return f"there is no such key; did you mean {near}?"
    arms = data.get("arms")
    setting = [str(n) for n, own in arms.items() if _sets(own, key)] if isinstance(arms, Mapping) else []
    if setting:
        who = f"arm {setting[0]} sets" if len(setting) == 1 else f"the arms {sentences.any_of(setting, 'and')} set"
        return f"{who} it, which is what is compared; edit the file, or leave arms out with arms=..."
    return None


def _sets(words: Any, key: str) -> bool:
    return isinstance(words, list | tuple) and any(key_of(str(text)) == key for text in words)
