"""The paragraph "Experimental details" of a paper, and the commands that make everything again; from the records."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo.config.sentences import counted
from grpo.report.findings import Findings
from grpo.report.formats import listed, setting, tokens
from grpo.report.records import RunRecord, SweepRecord


@dataclass(frozen=True)
class Command:
    """A command line and what it makes."""

    what: str
    line: str


def paragraph(found: Findings) -> str:
    """Model, task, budget, arms, tuning, seeds, statistics, hardware, versions, cost, failures; plain text."""
    sweep = found.sweep
    example = next((run for run in sweep.runs if run.config), None)
    parts = [
        _subject(sweep, example),
        _sizes(example),
        _budget(sweep),
        _arms(sweep),
        _tuning(sweep),
        _blocks(found),
        _statistics(found),
        _machine(sweep),
        _cost(found),
    ]
    return " ".join(part for part in parts if part)


def _subject(sweep: SweepRecord, example: RunRecord | None) -> str:
    if example is None:
        return "No run has begun."
    choices, model = example.config.get("choices") or {}, example.config.get("model") or {}
    name = model.get("path") or choices.get("model") or model.get("kind") or "a policy"
    task = choices.get("task") or str((example.config.get("task") or {}).get("_target_", "a task")).rsplit(".", 1)[-1]
    return f"We train the policy {name} on the task {task} with {counted(len(sweep.arms), 'arm')}."


def _sizes(example: RunRecord | None) -> str:
    if example is None:
        return ""
    config = example.config
    updates, model, optimizer = (config.get(key) or {} for key in ("updates", "model", "optimizer"))
    words = [f"temperature {setting((config.get('sampling') or {}).get('temperature'))}"]
    if config.get("prompts_per_step") and config.get("group_size"):
        words.insert(0, f"{config['prompts_per_step']} prompts × {config['group_size']} completions per step")
    if config.get("max_completion_tokens"):
        words.append(f"at most {config['max_completion_tokens']} tokens per completion")
    if updates:
        updates_per_rollout = (updates.get("epochs") or 1) * (updates.get("minibatches") or 1)
        words.append(f"{counted(updates_per_rollout, 'update')} per rollout")
    if optimizer.get("lr") is not None:
        words.append(f"AdamW with learning rate {setting(optimizer['lr'])}")
    if model.get("dtype"):
        words.append(f"dtype {model['dtype']}")
    return f"Unless an arm says otherwise: {', '.join(words)}."


def _budget(sweep: SweepRecord) -> str:
    if sweep.budget:
        return (
            f"Every run stops at {sweep.budget:,} generated tokens, discarded groups included, and its last weights "
            f"are evaluated once on the test split ({sweep.endpoint})."
        )
    return f"The arms are compared by {sweep.endpoint} at the end of each run."


def _arms(sweep: SweepRecord) -> str:
    words = []
    for arm in sweep.manifest.arms if sweep.manifest else ():
        words.append(f"{arm.name} ({' '.join(arm.overrides)})" if arm.overrides else arm.name)
    names = words or list(sweep.arms)
    common = sweep.question.get("common") or ()
    shared = f"; all share {' '.join(common)}" if common else ""
    return f"The arms are {listed(names, 20)}, the baseline is {sweep.baseline}{shared}."


def _tuning(sweep: SweepRecord) -> str:
    if not sweep.tuning:
        return "No hyperparameter was tuned."
    grid: dict[str, list[Any]] = {}
    for run in sweep.tuning:
        for key, value in run.point.items():
            if value not in grid.setdefault(key, []):
                grid[key].append(value)
    trials = Counter(run.arm for run in sweep.tuning)
    seeds = sorted({run.seed for run in sweep.tuning})
    values = "; ".join(f"{key} in {{{', '.join(setting(v) for v in every)}}}" for key, every in grid.items())
    budget = (sweep.question.get("tune") or {}).get("budget")
    part = f" at {100 * budget:g} % of the budget" if budget else ""
    chosen = [f"{arm}: {', '.join(map(setting, point.values()))}" for arm, point in sweep.chosen.items()]
    return (
        f"Each arm was tuned over the same grid ({values}; {listed(sorted({str(n) for n in trials.values()}))} trials, "
        f"seeds {listed([str(s) for s in seeds])}, disjoint from the test seeds{part}) by validation accuracy"
        f"{'; chosen ' + '; '.join(chosen) if chosen else ''}."
    )


def _blocks(found: Findings) -> str:
    sweep = found.sweep
    seeds = listed([str(seed) for seed in sweep.seeds], 20)
    state = f" {counted(len(found.missing), 'run')} are missing." if len(found.missing) > 1 else ""
    state = " 1 run is missing." if len(found.missing) == 1 else state
    return (
        f"A block is a seed ({counted(len(sweep.seeds), 'seed')}: {seeds}); it fixes prompt order and sampling numbers "
        f"for all arms.{state}"
    )


def _statistics(found: Findings) -> str:
    comparison = found.comparison
    if not comparison.arms:
        return ""
    margin = f" A difference below {comparison.margin:g} does not matter to us." if comparison.margin else ""
    why = f" {_capital(comparison.exploratory)}: exploratory, no verdict." if comparison.exploratory else ""
    return (
        f"Arms are compared with the baseline by paired t-tests over blocks with Holm's correction for "
        f"{counted(max(1, comparison.family), 'comparison')} at α = {comparison.alpha:g}; intervals are "
        f"Bonferroni-adjusted and simultaneous.{margin}{why}"
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _machine(sweep: SweepRecord) -> str:
    run = next((run for run in sweep.runs if run.environment), None)
    if run is None:
        return ""
    env, cpu = run.environment, run.environment.get("cpu") or {}
    gpus = [str(gpu.get("name")) for gpu in env.get("gpu") or []]
    processor = f"{cpu.get('model') or 'an unknown processor'} ({counted(cpu.get('usable') or 1, 'core')})"
    where = ", ".join(gpus) or processor
    versions = env.get("packages") or {}
    named = [f"{name} {versions[name]}" for name in ("grpo-lab", "torch", "transformers", "scipy") if name in versions]
    git = env.get("git") or {}
    changes = " with uncommitted changes" if git.get("dirty") else ""
    code = f" at commit {str(git['commit'])[:8]}{changes}" if git.get("commit") else ""
    python = [f"Python {env['python']}"] if env.get("python") else []
    return f"Runs used {', '.join([where, *python, *named])}{code}."


def _cost(found: Findings) -> str:
    sweep = found.sweep
    every = [*sweep.runs, *sweep.tuning]
    total = sum(run.last("tokens/generated") or 0.0 for run in every)
    hours = sum(run.last("time/elapsed") or 0.0 for run in every) / 3600
    failed = sum(each.failed for each in found.failures.values())
    begun = sum(bool(run.rows) for run in every)
    results = sum(each.counted for each in found.failures.values())
    words = f"All {counted(begun, 'run')} together generated {tokens(total)} tokens in {hours:.2g} hours of computing"
    return (
        f"{words}; {failed} of {results} finished runs failed (diverged or collapsed); they count with their last "
        "score."
    )


def commands(
    found: Findings, figures: Sequence[str], folder: Path
) -> tuple[list[Command], list[Command], list[Command]]:
    """Commands of the sweep and the report, of each figure, of each run."""
    sweep = found.sweep
    where = " ".join(shlex.quote(str(path)) for path in sweep.sources)
    report = f"python -m grpo.report {where}"
    whole = [Command("this report", report)]
    if sweep.command:
        whole.insert(0, Command("the sweep (again: only what is missing)", shlex.join(sweep.command)))
    each = [Command(f"{folder.name}/figures/{name}.pdf", f"{report} --only {name}") for name in figures]
    runs = [
        Command(f"{run.arm} seed {run.seed}", shlex.join(["python", "-m", "grpo", *run.overrides]))
        for run in sweep.runs
        if run.overrides
    ]
    return whole, each, runs
