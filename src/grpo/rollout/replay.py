"""Rollouts on disk: written with `save_rollouts=true`, played back with `rollout=replay rollout.path=<run folder>`.

Any objective can be run on recorded samples without sampling again. Evaluation still samples from the live policy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from torch import Tensor

from grpo.data import Prompt, Rollout, Sampling
from grpo.errors import UserError
from grpo.rollout.base import Engine, Faithful, earlier

VERSION = 1


def rollout_file(folder: Path, step: int) -> Path:
    """Where the training rollouts of a step lie."""
    return Path(folder) / "rollouts" / f"step-{step:06d}.jsonl"


def save(folder: Path, step: int, stream: str, rollouts: Sequence[Rollout]) -> None:
    """Append the rollouts of one sampling round to the step's file; the first round begins it."""
    path = rollout_file(folder, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    first = stream.endswith("/0")  # also of a step that runs again after an interruption
    with path.open("w" if first else "a", encoding="utf-8") as file:
        for rollout in rollouts:
            file.write(json.dumps({"v": VERSION, "stream": stream, **asdict(rollout)}) + "\n")


def load(folder: Path, step: int) -> dict[tuple[str, str], list[Rollout]]:
    """Recorded rollouts of a step by (stream, prompt id), samples in order."""
    path = rollout_file(folder, step)
    if not path.exists():
        raise UserError(f"rollout.path   {path} does not exist; record rollouts with save_rollouts=true first")
    found: dict[tuple[str, str], list[Rollout]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"rollout.path   {path} is damaged ({error}); record the run again") from error
        stream = row.pop("stream")
        row.pop("v")
        for name in ("token_ids", "logp_rollout", "sampled"):
            row[name] = tuple(row[name])
        for name in ("topk_ids", "topk_logp"):
            row[name] = tuple(map(tuple, row[name]))
        found.setdefault((stream, row["prompt_id"]), []).append(Rollout(**row))
    return found


class ReplayEngine(Faithful):
    """Plays recorded training rollouts; every other stream (evaluation, preflight) goes to `live`."""

    def __init__(self, folder: str | Path, live: Engine) -> None:
        self.folder, self.live = Path(folder), live

    @property
    def version(self) -> int:
        """Version of the live policy."""
        return self.live.version

    def generate(
        self, prompts: Sequence[Prompt], n: int, sampling: Sampling, *, seed: int, stream: str, step: int
    ) -> list[Rollout]:
        """Recorded completions where `stream` is a training stream, live ones elsewhere."""
        if not stream.startswith("train"):
            return self.live.generate(prompts, n, sampling, seed=seed, stream=stream, step=step)
        recorded = load(self.folder, step)
        rollouts: list[Rollout] = []
        for group, (prompt, before) in enumerate(zip(prompts, earlier(prompts), strict=True)):
            samples = recorded.get((stream, prompt.id), [])[before * n :]
            if len(samples) < n:
                raise UserError(
                    f"rollout.path   step {step} of {self.folder} holds {len(samples)} completions of prompt "
                    f"{prompt.id!r}, this run wants {n}; replay needs the seed, task and group_size of the recording"
                )
            rollouts += [Rollout(**{**r.__dict__, "group": group}) for r in samples[:n]]
        return rollouts

    def sync(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Passed on: evaluation samples from the live policy."""
        self.live.sync(weights, version)

    def close(self) -> None:
        """See `Engine.close`."""
        self.live.close()

    def state(self) -> dict[str, Tensor]:
        """The live engine's state."""
        return self.live.state()

    def load_state(self, tensors: Mapping[str, Tensor], version: int) -> None:
        """Restore the live engine's state."""
        self.live.load_state(tensors, version)
