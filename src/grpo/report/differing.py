"""What differs: between the arms' settings, and between the code, versions and machines of the runs (design: not
compared then)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo.config.hashing import UNHASHED
from grpo.report.formats import setting
from grpo.report.records import RunRecord, SweepRecord
from grpo.runs.differences import flat

_ABSENT = object()


@dataclass(frozen=True)
class Setting:
    """A key whose value is not the same in every arm; arm → value as text ("–" where an arm has no such key)."""

    key: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Condition:
    """Something outside the configuration that differs between runs."""

    what: str
    """code, python, torch, cpu, …"""
    runs: Mapping[str, tuple[str, ...]]
    """Value → the runs that had it."""
    between_arms: bool
    """True if arms of one block differ in it: their difference is then not the arms' own."""


def _settings(run: RunRecord) -> dict[str, Any]:
    return flat({key: value for key, value in run.config.items() if key not in UNHASHED})


def settings(sweep: SweepRecord) -> tuple[Setting, ...]:
    """One row per key that differs between the arms (of each its first run that has a configuration)."""
    flats = {arm: _settings(run) for arm in sweep.arms if (run := sweep.example(arm))}
    keys = dict.fromkeys(key for values in flats.values() for key in values)
    rows = []
    for key in keys:
        values = {arm: content.get(key, _ABSENT) for arm, content in flats.items()}
        texts = {arm: "–" if value is _ABSENT else _text(value) for arm, value in values.items()}
        if len(set(texts.values())) > 1:
            rows.append(Setting(key, texts))
    return tuple(rows)


def _text(value: Any) -> str:
    """grpo.algorithm.surrogate.Clip → Clip"""
    if isinstance(value, str) and value.startswith("grpo.") and value.count(".") > 1:
        return value.rsplit(".", 1)[1]
    return setting(value)


def within_arms(sweep: SweepRecord) -> tuple[str, ...]:
    """Sentences about arms whose own runs differ in more than the seed."""
    found = []
    for arm, runs in sweep.arms.items():
        flats = [_settings(run) for run in runs if run.config]
        keys = dict.fromkeys(key for values in flats for key in values)
        odd = [key for key in keys if any(f.get(key, _ABSENT) != flats[0].get(key, _ABSENT) for f in flats)]
        if odd:
            found.append(f"the runs of {arm} differ in {', '.join(odd[:5])}: they are not one arm")
    return tuple(found)


def conditions(sweep: SweepRecord) -> tuple[Condition, ...]:
    """Code, versions and hardware that are not the same in all runs; a resumed run counts with all its parts."""
    facts = {_name(run): _facts(run) for run in sweep.runs if run.environment}
    found = []
    for what in dict.fromkeys(key for fact in facts.values() for key in fact):
        runs: dict[str, list[str]] = {}
        for name, fact in facts.items():
            runs.setdefault(fact.get(what, "unknown"), []).append(name)
        if len(runs) > 1:
            value_of = {name: value for value, names in runs.items() for name in names}
            found.append(Condition(what, {v: tuple(n) for v, n in runs.items()}, _splits(sweep, value_of)))
    return tuple(found)


def dirty(sweep: SweepRecord) -> bool:
    """True if a run's code had changes that no commit holds."""
    return any((part.get("git") or {}).get("dirty") for run in sweep.runs for part in _parts(run))


def _name(run: RunRecord) -> str:
    return f"{run.arm} seed {run.seed}"


def _splits(sweep: SweepRecord, value_of: Mapping[str, str]) -> bool:
    """Within some block two arms have different values."""
    for seed in dict.fromkeys(run.seed for run in sweep.runs):
        block = {value_of.get(_name(run)) for run in sweep.runs if run.seed == seed and run.counted}
        if len(block - {None}) > 1:
            return True
    return False


def _parts(run: RunRecord) -> list[Mapping[str, Any]]:
    return [run.environment, *(run.environment.get("resumed") or [])] if run.environment else []


def _facts(run: RunRecord) -> dict[str, str]:
    """What → value; the values of a run that was continued elsewhere are joined."""
    joined: dict[str, list[str]] = {}
    for part in _parts(run):
        for what, value in _part(part).items():
            values = joined.setdefault(what, [])
            if value not in values:
                values.append(value)
    return {what: ", then ".join(values) for what, values in joined.items()}


def _part(part: Mapping[str, Any]) -> dict[str, str]:
    git = part.get("git") or {}
    code = f"{str(git['commit'])[:8]}{' with changes' if git.get('dirty') else ''}" if git.get("commit") else None
    gpus = [str(gpu.get("name")) for gpu in part.get("gpu") or []]
    facts = {
        "code (git)": code,
        "python": part.get("python"),
        "processor": (part.get("cpu") or {}).get("model"),
        "GPU": ", ".join(gpus) or None,
        **(part.get("packages") or {}),
    }
    return {what: str(value) for what, value in facts.items() if value}
