"""A sweep on disk that looks like a real one, with numbers that a test can work out by hand.

    Sweep(folder).arm("a", {0: 0.50, 1: 0.60}).write()

Scores are k/64 steps of a test of Q questions × 8 samples, so that the records and the metrics agree exactly:
`right` of the Q·8 completions are right, spread evenly over the questions.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from grpo.sweep import manifest as manifests
from grpo.sweep.manifest import Arm, Job, Manifest, Sameness

TOKENS_PER_STEP = 2000
SECONDS_PER_STEP = 2.5
K = 8


@dataclass
class Run:
    """What a run folder shall say."""

    score: float | None
    state: str = "done"
    kind: str | None = None
    error: str | None = None
    steps: int = 20
    test: bool = True
    metrics: dict[str, float | None] = field(default_factory=dict)
    """Constant metrics, over the usual ones; None is written as null."""
    environment: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    written: bool = True


@dataclass
class Sweep:
    """A sweep that is about to be written."""

    folder: Path
    name: str = "clip_high"
    question: dict[str, Any] = field(default_factory=dict)
    kind: str = "question"
    arms: dict[str, dict[int, Run]] = field(default_factory=dict)
    overrides: dict[str, tuple[str, ...]] = field(default_factory=dict)
    chosen: dict[str, dict[str, Any]] = field(default_factory=dict)
    tuning: list[tuple[str, float, int, Run]] = field(default_factory=list)
    same: tuple[Sameness, ...] = ()
    same_as: dict[str, str] = field(default_factory=dict)
    declared: list[dict[str, Any]] = field(default_factory=list)
    questions: int = 8

    def arm(self, name: str, scores: Mapping[int, float | Run | None], *overrides: str) -> Sweep:
        """An arm with a score (or a Run) per seed."""
        self.arms[name] = {s: v if isinstance(v, Run) else Run(v) for s, v in scores.items()}
        self.overrides[name] = overrides
        return self

    def tuned(self, name: str, scores: Mapping[float, Mapping[int, float]], best: float) -> Sweep:
        """Tuning runs of an arm: learning rate → seed → score."""
        for lr, by_seed in scores.items():
            self.tuning += [(name, lr, seed, Run(score, test=False)) for seed, score in by_seed.items()]
        self.chosen[name] = {"optimizer.lr": best}
        return self

    def write(self) -> Path:
        """Write everything; the sweep's folder."""
        jobs = []
        for name, lr, seed, run in self.tuning:
            job = self._job(name, seed, f"tune/lr={lr:g}/", "tune", {"optimizer.lr": lr})
            self._write_run(job, run, lr)
            jobs.append(job)
        for name, by_seed in self.arms.items():
            for seed, run in by_seed.items():
                job = self._job(name, seed, "", "final", self.chosen.get(name, {}))
                if run.written:
                    self._write_run(job, run, self.chosen.get(name, {}).get("optimizer.lr", 3e-4))
                jobs.append(job)
        seeds = sorted({seed for by_seed in self.arms.values() for seed in by_seed})
        question = {
            "claim": {"text": "clip-higher keeps rare right tokens alive", "source": "arXiv:2503.14476 §3.1"},
            "common": ["updates.minibatches=8"], "arms": {n: list(o) for n, o in self.overrides.items()},
            "baseline": next(iter(self.arms), ""), "endpoint": "test/avg@8", "at": {"generated_tokens": 40_000},
            "margin": 0.03, "tune": None, "seeds": seeds, "active": None, "allow_same": False, "profile": "full",
            **self.question,
        }  # fmt: skip
        arms = tuple(Arm(n, tuple(self.overrides[n]), self.chosen.get(n), self.same_as.get(n)) for n in self.arms)
        command = ("python", "-m", "grpo.sweep", self.name)
        declared = tuple(self.declared or [{"time": "2026-12-01T10:00:00+00:00", "seeds": seeds}])
        manifest = Manifest(
            self.name, self.kind, "3f9c21ab", question, command, arms, tuple(jobs), len(jobs),  # type: ignore[arg-type]
            self.same, declared, "8800b00", "0.1.0",
        )  # fmt: skip
        manifests.write(self.folder, manifest)
        return self.folder

    def _job(self, arm: str, seed: int, where: str, phase: str, point: dict[str, Any]) -> Job:
        folder = f"{arm.replace('/', '-')}/{where}seed={seed}"
        words = ("updates.minibatches=8", *self.overrides.get(arm, ()), *(f"{k}={v}" for k, v in point.items()))
        code = hashlib.sha256("|".join(words).encode()).hexdigest()[:8]
        return Job(arm, phase, seed, folder, (*words, f"seed={seed}"), code, point)  # type: ignore[arg-type]

    def _write_run(self, job: Job, run: Run, lr: float) -> None:
        folder = self.folder / job.folder
        folder.mkdir(parents=True, exist_ok=True)
        config = _config(job, lr) | run.config
        (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        (folder / "algorithm.txt").write_text("group_zscore -> token ratio -> clip(0.20, 0.20) -> token_mean\n")
        _json(folder / "environment.json", _environment(job) | run.environment)
        nonfinite = "step 9   3 updates in a row were not finite"
        status = {
            "v": 1, "status": run.state, "step": run.steps, "started": "2026-12-01T10:00:00+00:00", "pid": 1,
            "updated": "2026-12-01T10:05:00+00:00", "host": "elsewhere", "kind": run.kind,
            "error": run.error or (nonfinite if run.kind == "diverged" else None),
        }  # fmt: skip
        _json(folder / "status.json", status)
        _lines(folder / "metrics.jsonl", self._metrics(run, job.seed))
        _lines(folder / "samples.jsonl", _samples(job, run))
        if run.test and run.state == "done" and run.score is not None:
            _lines(folder / "evaluations.jsonl", self._evaluations(run))

    def _metrics(self, run: Run, seed: int) -> list[dict[str, Any]]:
        end = 0.5 if run.score is None else run.score
        rows: list[dict[str, Any]] = [{"step": 0, **_evaluation("validation", 0.30, K, 0.5), "time/elapsed": 1.0}]
        for step in range(1, run.steps + 1):
            t = step / run.steps
            level = 0.30 + (end - 0.30) * (1 - math.exp(-4 * t)) / (1 - math.exp(-4))
            rows.append({"step": step, **_step(step, level, seed), **run.metrics})
            if step % 5 == 0:
                rows[-1] |= _evaluation("validation", end if step == run.steps else level, 4, level + 0.1)
        if run.test and run.state == "done" and run.score is not None:
            last = _evaluation("test", run.score, K, min(1.0, run.score + 0.1))
            rows.append({"step": run.steps, **last, "time/elapsed": run.steps * SECONDS_PER_STEP + 3})
        return [{k: v for k, v in row.items() if v != "absent"} for row in rows]

    def _evaluations(self, run: Run) -> list[dict[str, Any]]:
        right = round((run.score or 0.0) * self.questions * K)
        rows = []
        for q in range(self.questions):
            own = (right * (q + 1)) // self.questions - (right * q) // self.questions
            rows.append({"step": run.steps, "split": "test", "question_id": f"q{q}", "k": K,
                         "rewards": [float(i < own) for i in range(K)], "lengths": [12] * K,
                         "finish": ["stop"] * K, "greedy": 1.0})  # fmt: skip
        return rows


def _evaluation(split: str, score: float, k: int, greedy: float) -> dict[str, float]:
    return {
        f"{split}/avg@{k}": score, f"{split}/avg@{k}/low": score - 0.02, f"{split}/avg@{k}/high": score + 0.02,
        f"{split}/pass@{k}": min(1.0, score + 0.3), f"{split}/maj@{k}": min(1.0, score + 0.15),
        f"{split}/greedy": min(1.0, greedy), f"{split}/length": 20.0, f"{split}/truncated": 0.0,
    }  # fmt: skip


def _step(step: int, level: float, seed: int) -> dict[str, float | None]:
    wave = 0.03 * math.sin(1.7 * step + seed)
    return {
        "reward": level + wave, "reward_std": 0.4 - 0.2 * level, "accuracy": level + wave, "loss": wave,
        "rewards/exact/mean": level + wave, "groups/zero_std": 0.25, "groups/all_right": 0.15, "groups/all_wrong": 0.10,
        "groups/informative": 12.0, "policy/entropy": 0.3 - 0.2 * level + wave / 5, "sampling/nll": 0.3 - 0.2 * level,
        "policy/ratio_mean": 1.0, "surrogate/clip_low": 0.002, "surrogate/clip_high": 0.004,
        "surrogate/weight_mean": 0.6 + wave, "surrogate/weight_max": 2.0, "surrogate/weight_zero": 0.006,
        "kl/ref": 0.01 * level, "grad_norm": 1.0 + wave, "grad_clipped": 0.5, "lr": 3e-4,
        "updates/total": 8.0 * step, "updates/empty": 0.0, "updates/skipped": 0.0,
        "mismatch/abs_logp_mean": 1e-7, "mismatch/abs_logp_max": 1e-5, "mismatch/k3": 1e-13,
        "length/mean": 15 + 10 * level, "length/max": 31.0, "length/right": 16 + 10 * level, "length/wrong": 14.0,
        "length/truncated": 0.02, "sampling/rounds": 1.0, "sampling/discarded_tokens": 0.0,
        "tokens/generated": TOKENS_PER_STEP * step, "tokens/trained": TOKENS_PER_STEP * step,
        "time/rollout": 1.2, "time/reward": 0.01, "time/update": 1.1, "time/sync": 0.001, "time/step": 2.4,
        "time/elapsed": SECONDS_PER_STEP * step, "speed/generated_tokens_per_s": 1700.0,
        "speed/trained_tokens_per_s": 1800.0, "memory/peak": 0.7,
    }  # fmt: skip


def _samples(job: Job, run: Run) -> list[dict[str, Any]]:
    rows = []
    for step in (10, 20):
        if step > run.steps:
            break
        for group in range(2):
            a, b = 17 + step + group, 30 + job.seed
            for sample in range(4):
                answer = a + b + (sample % 2)
                rows.append({
                    "step": step, "prompt_id": f"{a}+{b}", "group": group, "sample": sample, "prompt": f"{a}+{b}=",
                    "completion": f"{a}+{b}: \\boxed{{{answer}}}", "token_ids": [1, 2, 3], "logp_old": None,
                    "logp_rollout": [-0.1, -0.2, -0.3], "weight": [0.5] * 3, "advantage": 1.0 - 2.0 * (sample % 2),
                    "rewards": {"exact": float(sample % 2 == 0)}, "reward": float(sample % 2 == 0), "finish": "stop",
                })  # fmt: skip
    return rows


def _config(job: Job, lr: float) -> dict[str, Any]:
    high = next((w.split("=")[1] for w in job.overrides if w.startswith("surrogate.high=")), "0.2")
    return {
        "name": "grpo", "source": "published", "seed": job.seed, "prompts_per_step": 16, "group_size": 8,
        "completions_per_step": 128, "updates": {"epochs": 1, "minibatches": 8}, "max_completion_tokens": 32,
        "max_steps": 100, "budget": {"generated_tokens": 40_000}, "arm": job.arm,
        "eval": {"every": 20, "questions": 128, "samples": 4, "test_questions": 512, "test_samples": 8},
        "model": {"kind": "tiny", "path": None, "dtype": "auto"}, "reward": {"right_at": 1.0, "accuracy": "exact"},
        "task": {"_target_": "grpo.tasks.arithmetic.Arithmetic", "digits": 2},
        "surrogate": {"_target_": "grpo.algorithm.surrogate.Clip", "low": 0.2, "high": float(high)},
        "optimizer": {"lr": lr, "weight_decay": 0.0}, "choices": {"task": "arithmetic", "model": "tiny"},
        "rollout": {"kind": "transformers", "lag": 0}, "sampling": {"temperature": 1.0},
        "schedule": {"kind": "constant", "warmup_steps": 0}, "overrides": list(job.overrides),
    }  # fmt: skip


def _environment(job: Job) -> dict[str, Any]:
    return {
        "v": 1, "started": "2026-12-01T10:00:00+00:00", "command": ["python", "-m", "grpo"], "folder": "/tmp",
        "git": {"commit": "8800b0012345", "dirty": False}, "python": "3.11.7", "platform": "Linux",
        "packages": {"grpo-lab": "0.1.0", "torch": "2.13.0+cpu", "transformers": "5.19.0", "scipy": "1.17.1"},
        "cpu": {"model": "AMD EPYC", "cores": 2, "usable": 2, "threads": 1, "memory_gb": 25.3}, "gpu": [],
        "config_hash": job.config_hash, "name": "grpo", "seed": job.seed,
    }  # fmt: skip


def _json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps({"v": 1, **row}) + "\n" for row in rows), encoding="utf-8")
