"""Run folders and manifests → records. A folder that cannot be read is a sentence, never a hole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo.config.hashing import config_hash
from grpo.errors import UserError
from grpo.report.records import RunRecord, SweepRecord, usual
from grpo.report.run_folder import VALIDATION, read_run, with_score
from grpo.runs.atomic import read_json
from grpo.sweep import manifest as manifests
from grpo.sweep.manifest import Job, Manifest

_NOT_RUNS = {"tune", "leftovers", "logs", "report", "checkpoints", "policy", "wandb"}


def load(folder: str | Path) -> SweepRecord:
    """The record of a sweep folder; a UserError where it holds no sweep.json."""
    folder = Path(folder)
    manifest = manifests.read(folder)
    if manifest is None:
        raise UserError(f"{folder}   holds no sweep.json; give the folder of a sweep, or folders of runs")
    question = manifest.question
    told = read_json(folder / "jobs.json") or {}
    finals = [_told(_run(folder, job), told.get(job.folder)) for job in manifest.final()]
    endpoint = question.get("endpoint") or _usual_endpoint(finals)
    finals, endpoint, notes = _scored(finals, endpoint)
    seeds = _declared(manifest)
    names = [arm.name for arm in manifest.arms] or list(dict.fromkeys(run.arm for run in finals))
    arms = {name: _complete(folder, name, seeds, finals) for name in names}
    tuning = [_run(folder, job) for job in manifest.jobs if job.phase == "tune"]
    baseline = question.get("baseline")
    return SweepRecord(
        folder=folder,
        title=manifest.name,
        manifest=manifest,
        question=question,
        endpoint=endpoint,
        baseline=baseline if baseline in arms else next(iter(arms), ""),
        seeds=seeds,
        arms=arms,
        tuning=tuple(with_score(run, None) for run in tuning),
        chosen={arm.name: arm.chosen for arm in manifest.arms if arm.chosen},
        same=_same(manifest),
        sources=(folder,),
        notes=notes,
    )


def load_runs(folders: Sequence[str | Path]) -> SweepRecord:
    """The record of plain run folders, searched for in `folders`: arms by name, blocks by seed, no question."""
    found = sorted({path for folder in folders for path in _run_folders(Path(folder))})
    runs = [read_run(path, "", -1) for path in found]
    runs = [run for run in runs if run.config]
    if not runs:
        where = ", ".join(str(folder) for folder in folders)
        raise UserError(f"{where}   holds no run (a folder with config.yaml and metrics.jsonl) and no sweep.json")
    named = [replace(run, arm=name, seed=int(run.config.get("seed", 0))) for run, name in _names(runs)]
    newest: dict[tuple[str, int], RunRecord] = {}
    for run in named:  # in the order of their numbers: a later run replaces one that is not done
        before = newest.get((run.arm, run.seed))
        if before is None or run.state == "done" or before.state != "done":
            newest[run.arm, run.seed] = run
    runs, endpoint, notes = _scored(list(newest.values()), _usual_endpoint(list(newest.values())))
    arms = {arm: tuple(r for r in runs if r.arm == arm) for arm in dict.fromkeys(r.arm for r in runs)}
    if len(named) > len(runs):
        notes += (f"{len(named) - len(runs)} older runs of the same settings and seed are left out",)
    return SweepRecord(
        folder=Path(folders[0]),
        title=" · ".join(arms),
        manifest=None,
        question={},
        endpoint=endpoint,
        baseline=_plain_baseline(arms),
        seeds=tuple(sorted({run.seed for run in runs})),
        arms=arms,
        sources=tuple(Path(folder) for folder in folders),
        notes=notes,
    )


def _plain_baseline(arms: Mapping[str, Any]) -> str:
    """grpo where it is among them, else the first."""
    return next((arm for arm in arms if arm == "grpo"), next(iter(arms)))


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise UserError(f"{folder}   there is no such folder")
    files = [path for path in folder.rglob("metrics.jsonl") if not _NOT_RUNS & set(path.relative_to(folder).parts)]
    return sorted((path.parent for path in files), key=lambda path: (path.parent, len(path.name), path.name))


def _names(runs: Sequence[RunRecord]) -> list[tuple[RunRecord, str]]:
    """Arm of each run: its name in a sweep or of its algorithm; with the hash where one name has several settings."""
    plain = [str(run.config.get("arm") or run.config.get("name") or run.folder.name) for run in runs]
    hashes = [_hash(run) for run in runs]
    several = {name for name in plain if len({h for n, h in zip(plain, hashes, strict=True) if n == name}) > 1}
    return [
        (run, f"{name} {code}" if name in several else name)
        for run, name, code in zip(runs, plain, hashes, strict=True)
    ]


def _hash(run: RunRecord) -> str:
    return str(run.environment.get("config_hash") or config_hash(run.config))


def _declared(manifest: Manifest) -> tuple[int, ...]:
    """Seeds of the newest declaration."""
    last = manifest.declared[-1].get("seeds") if manifest.declared else None
    for seeds in (last, manifest.question.get("seeds")):
        if isinstance(seeds, list | tuple) and seeds:
            return tuple(int(seed) for seed in seeds)
    return tuple(sorted({job.seed for job in manifest.final()}))


def _complete(folder: Path, arm: str, seeds: Sequence[int], runs: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """The arm's runs by seed; a declared one that has no job yet (its arm is not tuned) is waiting."""
    own = {run.seed: run for run in runs if run.arm == arm}
    every = dict.fromkeys([*seeds, *own])
    return tuple(own.get(seed) or RunRecord(arm, seed, folder / arm / f"seed={seed}") for seed in every)


def _same(manifest: Manifest) -> dict[str, str]:
    """Arms that the planning found to be the same, and arms whose jobs are the same configuration."""
    same = {arm.name: arm.same_as for arm in manifest.arms if arm.same_as}
    hashes: dict[str, set[str]] = {}
    for job in manifest.final():
        hashes.setdefault(job.arm, set()).add(job.config_hash)
    first: dict[frozenset[str], str] = {}
    for arm, codes in hashes.items():
        twin = first.setdefault(frozenset(codes), arm)
        if twin != arm:
            same.setdefault(arm, twin)
    return same


def _told(run: RunRecord, entry: Any) -> RunRecord:
    """What only the runner knows of a run that is no result: why it failed before it could write, where its log is."""
    if not isinstance(entry, Mapping) or run.state == "done" or run.kind == "diverged":
        return run
    state = "failed" if run.state == "waiting" and entry.get("state") == "failed" else run.state
    why = run.error or entry.get("why") or None
    if state in ("failed", "stopped") and entry.get("log"):
        why = f"{why or 'no reason given'}; log: {entry['log']}"
    return replace(run, state=state, error=why)


def _run(sweep: Path, job: Job) -> RunRecord:
    """The record of a job; a folder that holds another configuration is not this job's."""
    run = read_run(sweep / job.folder, job.arm, job.seed)
    found, seed = _hash(run) if run.config else None, run.config.get("seed", job.seed)
    why = f"the folder holds another configuration ({found}, not {job.config_hash})"
    if seed != job.seed:  # the hash leaves the seed out: a copied folder would count as two blocks
        why = f"the folder holds seed {seed}, not {job.seed}"
    if (found and found != job.config_hash) or seed != job.seed:
        run = RunRecord(job.arm, job.seed, run.folder, state="foreign", error=why)
    return replace(run, point=job.point, overrides=job.overrides)


def _usual_endpoint(runs: Sequence[RunRecord]) -> str:
    """test/avg@k with the largest k that most runs have; validation where nothing was tested."""
    for pattern in (r"test/avg@\d+", VALIDATION):
        names = [n for run in runs for row in run.rows.values() for n in row if re.fullmatch(pattern, n)]
        if name := usual(names):
            return name
    return "test/avg@8"


def _scored(runs: list[RunRecord], endpoint: str) -> tuple[list[RunRecord], str, tuple[str, ...]]:
    """Runs with their scores. Where no run at all has the endpoint, the last validation stands in, and that is said."""
    notes: tuple[str, ...] = ()
    done = [run for run in runs if run.state == "done"]
    if done and all(run.last(endpoint) is None for run in done):
        names = [name for run in done if (name := run.find(VALIDATION))]
        if names:
            stand_in = usual(names) or endpoint
            notes = (f"no run recorded {endpoint}; the last {stand_in} stands in, and there is no verdict",)
            endpoint = stand_in
    return [with_score(run, endpoint) for run in runs], endpoint, notes
