"""What the arms wrote to the same prompts, side by side, from the samples.jsonl of one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo.recording import jsonl
from grpo.report.records import SweepRecord

PROMPTS, SAMPLES, CHARACTERS = 3, 3, 600


@dataclass(frozen=True)
class Sample:
    """One completion, cut to a readable length."""

    text: str
    reward: float | None
    finish: str
    tokens: int


@dataclass(frozen=True)
class Shown:
    """One prompt and what each arm wrote; an arm that did not log it has no samples."""

    prompt: str
    arms: Mapping[str, tuple[Sample, ...]]


@dataclass(frozen=True)
class SideBySide:
    """The prompts shown, of which block and step; `note` says why there are none, or that the steps differ."""

    seed: int | None
    step: int | None
    prompts: tuple[Shown, ...]
    note: str = ""


def side_by_side(sweep: SweepRecord) -> SideBySide:
    """The newest step that all arms with samples logged, in the first block that has one."""
    for seed in dict.fromkeys(run.seed for run in sweep.runs):
        tables = {
            run.arm: _by_step(list(jsonl.read(run.folder / "samples.jsonl"))) for run in sweep.runs if run.seed == seed
        }
        tables = {arm: steps for arm, steps in tables.items() if steps}
        if tables and (common := set.intersection(*(set(steps) for steps in tables.values()))):
            return _of_step(seed, max(common), {arm: steps[max(common)] for arm, steps in tables.items()}, sweep)
    return SideBySide(None, None, (), "no step of any block has samples of all arms (samples.jsonl, samples_every)")


def _by_step(rows: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    steps: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        steps.setdefault(row["step"], []).append(row)
    return steps


def _of_step(seed: int, step: int, tables: Mapping[str, list[dict[str, Any]]], sweep: SweepRecord) -> SideBySide:
    prompts = {arm: list(dict.fromkeys(row["prompt_id"] for row in rows)) for arm, rows in tables.items()}
    shared = [p for p in next(iter(prompts.values())) if all(p in ids for ids in prompts.values())]
    note = "" if shared else "the arms share no prompt at this step: a filter drew other ones, or the data differ"
    chosen = shared or list(dict.fromkeys(p for ids in prompts.values() for p in ids[:1]))
    shown = []
    for prompt_id in chosen[:PROMPTS]:
        rows = {arm: [row for row in table if row["prompt_id"] == prompt_id] for arm, table in tables.items()}
        text = next(row["prompt"] for every in rows.values() for row in every)
        arms = {arm: tuple(_sample(row) for row in rows.get(arm, [])[:SAMPLES]) for arm in sweep.arms}
        shown.append(Shown(cut(text), arms))
    return SideBySide(seed, step, tuple(shown), note)


def _sample(row: Mapping[str, Any]) -> Sample:
    return Sample(cut(row["completion"]), row.get("reward"), row["finish"], len(row["token_ids"]))


def cut(text: str, at_most: int = CHARACTERS) -> str:
    """The beginning and the end of a long text; a lone surrogate, which no file takes, becomes a question mark."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= at_most:
        return text
    return f"{text[: at_most * 2 // 3]} […] {text[-at_most // 3 :]}"
