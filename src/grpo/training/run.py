"""One run: a checked configuration in, a folder out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import lightning
import torch
from torch.utils.data import DataLoader

from grpo import start
from grpo.algorithm.form import build
from grpo.config.hashing import config_hash
from grpo.config.sizes import Sizes
from grpo.data import Rollout, Sampling
from grpo.errors import UserError
from grpo.models import load as models
from grpo.recording import curves, wandb
from grpo.recording.progress import Progress
from grpo.recording.recorder import Recorder
from grpo.rewards.scoring import Scorer
from grpo.rollout import replay
from grpo.rollout.base import Engine
from grpo.rollout.lagged import LaggedEngine
from grpo.rollout.replay import ReplayEngine
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.runs import resume
from grpo.runs.folder import RunFolder
from grpo.runs.nonfinite import NonFiniteGuard
from grpo.runs.preflight import preflight
from grpo.runs.signals import GracefulStop
from grpo.tasks.prompts import PromptBook
from grpo.training.callbacks import Checkpoints, Evaluation, Recording, Restore, RunState, Stopping
from grpo.training.collect import Collector
from grpo.training.module import GRPOModule


@dataclass
class Parts:
    """What a run is made of, once the configuration is checked and before anything is sampled."""

    objective: Any
    policy: Any
    reference: Any | None
    tokenizer: Any
    book: PromptBook
    scorer: Scorer
    device: torch.device


def run(config: Any, resolved: Mapping[str, Any]) -> int:
    """Train as `config` says; returns the exit code. User mistakes are UserError, everything else propagates."""
    quieten()
    parts = assemble(config)
    return train(config, resolved, parts)
