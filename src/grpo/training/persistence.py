"""Checkpoints of a run: what they hold, when they are made, how they are put back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import lightning
import torch
from torch import Tensor

from grpo.recording.recorder import Recorder
from grpo.runs import checkpoint as checkpoints
from grpo.runs.folder import RunFolder
from grpo.runs.signals import GracefulStop
from grpo.training.counters import Counters
from grpo.training.module import GRPOModule


@dataclass
class RunState:
    """What a run knows about itself beside the weights; a checkpoint carries it.

    untrained  metrics of the policy before step 1, the reference lines of every curve
    best       (step, value) of the best validation avg@k so far
    """

    untrained: dict[str, float] = field(default_factory=dict)
    best: tuple[int, float] | None = None
    evaluated_tokens: int = 0  # generated tokens at the last validation

    def as_plain(self) -> dict[str, Any]:
        """For the checkpoint's state.json."""
        return {
            "untrained": self.untrained,
            "best": None if self.best is None else list(self.best),
            "evaluated_tokens": self.evaluated_tokens,
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over what `as_plain` wrote."""
        self.untrained = plain["untrained"]
        self.best = None if plain["best"] is None else (plain["best"][0], plain["best"][1])
        self.evaluated_tokens = plain["evaluated_tokens"]


class Checkpoints(lightning.Callback):
    """A checkpoint every N steps and at the end; the newest K and the best by validation stay."""

    def __init__(
        self,
        *,
        config: Any,
        folder: RunFolder,
        recorder: Recorder,
        state: RunState,
        stop: GracefulStop,
        identity: dict[str, Any],
    ) -> None:
        self.config, self.folder, self.recorder = config, folder, recorder
        self.state, self.stop, self.identity = state, stop, identity
        self.saved = -1

    def on_train_batch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save when it is due, when a signal asks to stop, and where the best validation was just measured."""
        module = ours(pl_module)
        step, every = module.counters.step, self.config.checkpoint.every
        due = every is not None and step % every == 0
        best = self.state.best is not None and self.state.best[0] == step
        if due or best or self.stop.requested:
            self.save(module)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """The last weights are always there to go on from."""
        self.save(ours(pl_module))

    def save(self, module: GRPOModule) -> None:
        """The checkpoint of the steps done so far, unless it was just saved."""
        step = module.counters.step
        if step == self.saved or step == 0:
            return
        self.recorder.sync()
        optimizer: Any = module.optimizers()
        checkpoints.save(
            self.folder.checkpoints,
            step,
            tensors=trainable(module.policy),
            optimizer=optimizer.optimizer.state_dict(),
            state={
                "counters": asdict(module.counters),
                "run": self.state.as_plain(),
                "guard": module.updater.guard.state(),
                "solved": sorted(module.collector.solved.ids),
                **self.identity,
            },
            extra=module.engine.state(),
        )
        self.saved = step
        best = () if self.state.best is None else (self.state.best[0],)
        checkpoints.prune(self.folder.checkpoints, keep=self.config.checkpoint.keep, protect=best)


class Restore(lightning.Callback):
    """Puts a checkpoint back before the first step; first in the list, so that the others see the restored counters."""

    def __init__(self, checkpoint: checkpoints.Checkpoint | None, state: RunState) -> None:
        self.checkpoint, self.state = checkpoint, state

    def on_fit_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        """Weights, optimizer, engine and counters; random numbers need nothing, they are functions of the step.

        Not in on_train_start: Lightning leaves that out where no step is left, and the test needs the weights too.
        """
        if self.checkpoint is None:
            return
        module, state = ours(pl_module), self.checkpoint.state
        with torch.no_grad():
            for name, parameter in module.policy.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(self.checkpoint.tensors[name])
        optimizer: Any = module.optimizers()
        optimizer.optimizer.load_state_dict(self.checkpoint.optimizer)
        module.counters = Counters(**state["counters"])
        module.updater.guard.restore(state["guard"])
        module.collector.solved.ids = set(state.get("solved", ()))  # older checkpoints have none
        self.state.restore(state["run"])
        for engine in (module.engine, module.live_engine):
            engine.load_state(self.checkpoint.extra, module.counters.version)


def trainable(policy: Any) -> dict[str, Tensor]:
    """The weights that training changes, by name."""
    return {name: value.detach() for name, value in policy.named_parameters() if value.requires_grad}


def ours(module: lightning.LightningModule) -> GRPOModule:
    """Lightning's module as ours."""
    assert isinstance(module, GRPOModule)
    return module
