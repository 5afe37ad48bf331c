"""Every key of a run, typed: ranges and units stand in the docstring under each field, here and in nodes.py.

Component nodes (a mapping with `_target_`: the objective's parts, the task, the reward functions) arrive here already
built by `components.py`, so their numbers are typed by their own classes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from grpo.config.nodes import (
    Budget,
    CheckpointConfig,
    Count,
    DataConfig,
    EvalConfig,
    Flag,
    LoggerConfig,
    ModelConfig,
    Node,
    OptimizerConfig,
    RewardConfig,
    RolloutConfig,
    SamplingConfig,
    ScheduleConfig,
    TrainerConfig,
    Updates,
    number,
    off,
)

AXES = (
    "advantage",
    "credit",
    "ratio",
    "surrogate",
    "correction",
    "aggregation",
    "kl",
    "entropy",
    "filter",
    "overlong",
    "shaping",
    "form",
)
"""The groups that define an algorithm."""
COMPONENTS = ("task", *AXES)
"""Top-level nodes with a `_target_`; reward.functions holds more of them."""


class RunConfig(Node):
    """One run, checked. Nothing below the entry point sees anything else."""

    name: str
    """Name of the algorithm with its edits, such as dapo+surrogate=soft_gate; names the folder."""
    source: Literal["published", "chapter"] = "published"
    """Whose formula it is: published, or chapter (to the letter)."""
    seed: Annotated[int, Strict(), Field(ge=0, lt=2**31)] = 0
    """Seed of prompts, sampling and procedural test sets, 0 … 2³¹ − 1."""

    prompts_per_step: Count
    """Prompts per step, ≥ 1. Give any two of prompts_per_step, group_size, completions_per_step."""
    group_size: Annotated[int, Strict(), Field(ge=2)]
    """Completions per prompt, ≥ 2."""
    completions_per_step: Count
    """Completions per step, prompts_per_step × group_size."""
    updates: Updates = Updates()
    tokens_per_microbatch: Count = 16384
    """Padded prompt + completion tokens in one forward pass, ≥ 1; no effect on loss or gradient."""
    max_prompt_tokens: Count = 512
    """Longest prompt in tokens, ≥ 1; longer ones are refused at start."""
    max_completion_tokens: Count
    """Longest completion in tokens, ≥ 1, end-of-sequence included; ${task.max_completion_tokens} unless given."""
    sampling: SamplingConfig = SamplingConfig()

    max_steps: Count | None = 100
    """Steps of the run, ≥ 1; null with data.passes or budget.generated_tokens."""
    data: DataConfig = DataConfig()
    budget: Budget = Budget()
    max_grad_norm: Annotated[float, BeforeValidator(number), Field(gt=0)] = 1.0
    """Norm to which gradients are clipped, > 0; inf is off."""

    eval: EvalConfig = EvalConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    log_every: Count = 1
    """Steps between lines of metrics.jsonl and W&B, ≥ 1."""
    samples_every: Count | None = 10
    """Steps between sample tables, ≥ 1; null for none."""

    preflight: Annotated[Literal["strict", "warn", "off"], BeforeValidator(off)] = "strict"
    """What to do when no group's rewards differ before step 1; warn by itself when max_steps ≤ 10."""
    resume: str = "never"
    """never, auto, or the folder of a run or checkpoint to go on from."""
    save_rollouts: Flag = False
    """Write rollouts/step-*.jsonl, which rollout=replay reads."""
    output_dir: str = "runs"
    """Folder of all runs."""
    sweep: str | None = None
    """Folder of the sweep this run belongs to."""
    arm: str | None = None
    """Name of the sweep's arm this run belongs to."""
    run_dir: str | None = None
    """Exactly this folder is the run's, instead of one under output_dir."""

    model: ModelConfig
    task: Any
    """Component: questions, answers and splits."""
    reward: RewardConfig
    shaping: Any
    advantage: Any
    credit: Any
    ratio: Any
    surrogate: Any
    correction: Any
    aggregation: Any
    kl: Any
    entropy: Any
    filter: Any
    overlong: Any
    form: Any
    rollout: RolloutConfig = RolloutConfig()
    optimizer: OptimizerConfig
    schedule: ScheduleConfig = ScheduleConfig()
    trainer: TrainerConfig = TrainerConfig()
    logger: LoggerConfig = LoggerConfig()

    choices: dict[str, str] = Field(default_factory=dict)
    """Which file each group was chosen from."""
    overrides: tuple[str, ...] = ()
    """The command line that made this configuration, in full."""

    @property
    def algorithm(self) -> str:
        """The overlay's name without edits: dapo for dapo+surrogate=soft_gate."""
        return self.name.split("+", 1)[0]

    @property
    def preflight_mode(self) -> Literal["strict", "warn", "off"]:
        """`preflight`, but a run of at most ten steps is a trial and is only warned."""
        short = self.max_steps is not None and self.max_steps <= 10
        return "warn" if short and self.preflight == "strict" else self.preflight
