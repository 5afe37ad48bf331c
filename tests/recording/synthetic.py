"""Files of runs that never were, for pictures and progress lines."""

import math
import random
from pathlib import Path

from grpo.recording.recorder import Recorder


def row(step: int, rng: random.Random, total: int) -> dict[str, float]:
    """Plausible metrics of a training step."""
    progress = step / total
    right, wrong = 0.02 + 0.3 * progress, 0.3 * (1 - progress)
    noise = lambda width: rng.uniform(-width, width)  # noqa: E731
    return {
        "reward": 0.3 + 0.4 * progress + noise(0.08),
        "reward_std": 0.35 - 0.1 * progress + noise(0.02),
        "policy/entropy": 0.6 - 0.3 * progress + noise(0.03),
        "sampling/nll": 0.62 - 0.3 * progress + noise(0.03),
        "length/mean": 24 + 4 * progress + noise(1),
        "length/right": 22 + 4 * progress + noise(1),
        "length/wrong": 29 + 4 * progress + noise(2) if rng.random() > 0.05 else math.nan,
        "length/truncated": max(0.0, 0.04 - 0.05 * progress + noise(0.01)),
        "surrogate/clip_low": max(0.0, 0.004 + noise(0.004)),
        "surrogate/clip_high": max(0.0, 0.012 + noise(0.006)),
        "surrogate/weight_zero": 0.3 + noise(0.05),
        "surrogate/weight_mean": 0.55 + noise(0.05),
        "groups/all_right": right,
        "groups/all_wrong": wrong,
        "groups/zero_std": right + wrong,
        "grad_norm": 0.8 * math.exp(noise(0.5)),
        "grad_clipped": float(rng.random() < 0.3),
        "tokens/generated": 3_890 * step,
        "time/rollout": 0.35 + noise(0.03),
        "time/reward": 0.01,
        "time/update": 0.3 + noise(0.03),
        "time/sync": 0.005,
        "time/eval": 1.5 if step % 20 == 0 else 0.0,
        "time/step": 0.7 + (1.5 if step % 20 == 0 else 0.0),
    }


def evaluation(progress: float, split: str = "validation", k: int = 4) -> dict[str, float]:
    """Plausible metrics of an evaluation."""
    avg = 0.33 + 0.38 * progress
    return {
        f"{split}/avg@{k}": avg,
        f"{split}/avg@{k}/low": avg - 0.04,
        f"{split}/avg@{k}/high": avg + 0.04,
        f"{split}/pass@{k}": 0.7 + 0.2 * progress,
        f"{split}/maj@{k}": 0.45 + 0.35 * progress,
        f"{split}/greedy": 0.43 + 0.4 * progress,
    }


def make(folder: Path, steps: int, every: int = 20, seed: int = 0) -> Path:
    """A run's folder with metrics.jsonl."""
    rng = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(folder, strict=True)
    recorder.metrics(0, evaluation(0.0) | {"validation/maj@8": 0.49, "validation/pass@8": 0.86})
    for step in range(1, steps + 1):
        recorder.metrics(step, row(step, rng, steps))
        if step % every == 0:
            recorder.metrics(step, evaluation(step / steps))
    recorder.metrics(steps, evaluation(1.0, "test", 8))
    recorder.close()
    return folder
