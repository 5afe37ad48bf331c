"""The nodes of a run's configuration, typed: ranges and units stand in the docstring under each field."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict


def number(value: Any) -> Any:
    """true is no 1.0; everything else is left to pydantic, which also reads the quoted "1e-6"."""
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value


def off(value: Any) -> Any:
    """YAML 1.1 reads the bare word off as false."""
    return "off" if value is False else value


def auto_or_flag(value: Any) -> Any:
    """One sentence for both halves of the union."""
    if value == "auto" or isinstance(value, bool):
        return value
    raise ValueError(f"must be auto, true or false, not {value}")


def _auto_or_count(value: Any) -> Any:
    """One sentence for both halves of the union."""
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError(f"must be auto or a whole number of at least 1, not {value}")


# Strict: 16.0 and "16" are no counts.
Count = Annotated[int, Strict(), Field(ge=1)]
Float = Annotated[float, BeforeValidator(number), Field(allow_inf_nan=False)]
Positive = Annotated[float, BeforeValidator(number), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, BeforeValidator(number), Field(ge=0, le=1)]
Flag = Annotated[bool, Strict()]


class Node(BaseModel):
    """A typed node: frozen, no unknown keys, field docstrings kept for --help."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        arbitrary_types_allowed=True,
        protected_namespaces=(),
    )


class Updates(Node):
    """How often a rollout is used."""

    epochs: Count = 1
    """Passes over the rollout, ≥ 1."""
    minibatches: Count = 1
    """Optimizer updates per pass, ≥ 1; must divide prompts_per_step, since a minibatch is whole groups."""

    @property
    def per_step(self) -> int:
        """Optimizer updates that one rollout pays for."""
        return self.epochs * self.minibatches


class SamplingConfig(Node):
    """How training completions are drawn."""

    temperature: Positive = 1.0
    """Softmax temperature, > 0; the objective uses the tempered distribution too."""
    top_p: Annotated[float, BeforeValidator(number), Field(gt=0, le=1)] = 1.0
    """Nucleus mass, (0, 1]; 1 is off."""
    top_k: Annotated[int, Strict(), Field(ge=0)] = 0
    """Tokens kept, ≥ 0; 0 is off."""
    min_p: Annotated[float, BeforeValidator(number), Field(ge=0, lt=1)] = 0.0
    """Least probability relative to the likeliest token, [0, 1); 0 is off."""


class DataConfig(Node):
    """How much data a run sees."""

    passes: Positive | None = None
    """Passes over the training questions, > 0; excludes max_steps."""


class Budget(Node):
    """What a run may spend."""

    generated_tokens: Count | None = None
    """Sampled tokens, discarded groups included, ≥ 1; the run stops when they are spent."""


class EvalConfig(Node):
    """Validation while training, test once at the end; sampling settings of their own."""

    every: Count | None = 20
    """Steps between validations, ≥ 1; null for only those before the first and after the last step."""
    every_tokens: Count | None = None
    """Generated tokens between validations, ≥ 1; excludes every."""
    questions: Count = 128
    """Validation questions, ≥ 1."""
    samples: Count = 4
    """Completions per validation question, ≥ 1 (the k of avg@k)."""
    test_questions: Annotated[int, Strict(), Field(ge=0)] = 512
    """Test questions, ≥ 0; 0 for no test."""
    test_samples: Count = 8
    """Completions per test question, ≥ 1."""
    temperature: Positive = 1.0
    """Temperature of evaluation samples, > 0 (greedy is evaluated apart)."""
    top_p: Annotated[float, BeforeValidator(number), Field(gt=0, le=1)] = 1.0
    """Nucleus mass of evaluation samples, (0, 1]."""
    greedy: Flag = True
    """Also evaluate one greedy completion per question."""


class CheckpointConfig(Node):
    """What is kept to go on from."""

    every: Count | None = 50
    """Steps between checkpoints, ≥ 1; null for only the last."""
    keep: Count = 2
    """Newest checkpoints kept beside the best one, ≥ 1."""
    export: Flag = True
    """Save the final policy as a Hugging Face folder."""


def _targets(value: Any) -> Any:
    """One sentence for both halves of the union."""
    listed = isinstance(value, list | tuple) and bool(value) and all(isinstance(name, str) for name in value)
    if value == "all-linear" or listed:
        return value
    raise ValueError(f"must be all-linear or a list of module names such as [q_proj,v_proj], not {value}")


class LoraConfig(Node):
    """A low-rank adapter, W + (alpha / r) B A with B [out, r] and A [r, in], trained in place of the weights W."""

    r: Count | None = None
    """Rank, ≥ 1; null for no adapter: all weights are trained."""
    alpha: Positive = 16.0
    """Scale of the adapter, > 0; its product counts alpha / r times."""
    dropout: Annotated[float, BeforeValidator(number), Field(ge=0, lt=1)] = 0.0
    """0; anything else is refused, because log π would no longer be the log μ that was sampled from."""
    target_modules: Annotated[Literal["all-linear"] | tuple[str, ...], BeforeValidator(_targets)] = "all-linear"
    """Modules that get an adapter: all-linear (all but the head), or names such as [q_proj,v_proj]."""


class ModelConfig(Node):
    """The policy."""

    kind: Literal["tiny", "smollm2", "hf"]
    """tiny: embedded, 0.5 M parameters; smollm2: fetched by `make smollm2`; hf: any causal LM of transformers."""
    path: str | None = None
    """Folder or hub id (org/name) of the model; needed by hf."""
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto"
    """Type of the weights; auto: float32, which a GPU computes with in bfloat16 (trainer.precision)."""
    attn_implementation: Literal["auto", "eager", "sdpa", "flash_attention_2"] = "auto"
    """Attention kernel of transformers."""
    gradient_checkpointing: Annotated[Literal["auto"] | bool, BeforeValidator(auto_or_flag)] = "auto"
    """Recompute activations in the backward pass: less memory, more time; auto: on for large models on gpu."""
    fp32_head: Flag = False
    """Compute logits in float32 under a bfloat16 network, in trainer and engine alike; no effect in float32."""
    lr: Positive = 1e-6
    """Learning rate that suits this model's weights, > 0; optimizer.lr is the same, or 10 times as much with lora.r."""
    lora: LoraConfig = LoraConfig()
    """Train a low-rank adapter and leave the weights alone."""
    chat_template: str | None = None
    """Jinja file used instead of the tokenizer's chat template."""


class RewardConfig(Node):
    """What a completion is paid: Σ weight · function."""

    functions: Annotated[dict[str, Any], Field(min_length=1)]
    """Reward functions by name, each with a `_target_` (the package's or your own) and a weight."""
    weights: dict[str, Float] = Field(default_factory=dict)
    """Weight of each function, read from the functions' own key weight."""
    accuracy: str | None = None
    """Name of the function that tells right from wrong; by default the first."""
    right_at: Float = 1.0
    """Least value of the accuracy function that counts as right."""
    time_limit: Positive | None = 600.0
    """Seconds that one function may take for the completions of a step, > 0; null for no limit."""


class Perturb(Node):
    """Mismatch between engine and trainer on purpose; all three may be combined."""

    temperature: Positive = 1.0
    """Factor on sampling.temperature in the engine alone, > 0; 1 is off."""
    noise: Annotated[float, BeforeValidator(number), Field(ge=0, allow_inf_nan=False)] = 0.0
    """Noise on the engine's weights in units of each tensor's RMS, ≥ 0; new with each version."""
    bits: Annotated[int, Strict(), Field(ge=1, le=22)] | None = None
    """Mantissa bits to which the engine's weights are rounded, 1 … 22; bfloat16 has 7. null is off."""

    @property
    def weights(self) -> bool:
        """Whether the engine needs weights of its own."""
        return self.noise > 0 or self.bits is not None


class RolloutConfig(Node):
    """The engine that samples completions."""

    kind: Literal["transformers", "vllm", "replay"] = "transformers"
    """transformers and vllm: in process; replay: reads completions saved with save_rollouts=true."""
    lag: Annotated[int, Strict(), Field(ge=0)] = 0
    """Updates that the engine's weights stay behind the trainer's, ≥ 0."""
    perturb: Perturb = Perturb()
    max_rows: Count = 256
    """Completions decoded together, ≥ 1; lower it when memory runs out."""
    path: str | None = None
    """Folder of a run with rollouts/, for replay."""
    gpu_memory_utilization: Annotated[float, BeforeValidator(number), Field(gt=0, lt=1)] = 0.4
    """Share of a GPU's memory that vLLM takes for weights and KV cache, (0, 1); no effect on CPU."""
    tensor_parallel_size: Count = 1
    """GPUs that one vLLM engine is spread over, ≥ 1."""
    enforce_eager: Annotated[Literal["auto"] | bool, BeforeValidator(auto_or_flag)] = "auto"
    """vLLM without compilation and CUDA graphs: starts faster, samples slower; auto: on CPU."""

    @property
    def perturbed(self) -> bool:
        """Whether the engine samples from another distribution than the trainer scores, on purpose."""
        return self.perturb.temperature != 1.0 or self.perturb.weights


class OptimizerConfig(Node):
    """AdamW."""

    lr: Positive
    """Learning rate, > 0; unless given that of the model, 10 × model.lr for an adapter."""
    betas: tuple[
        Annotated[float, BeforeValidator(number), Field(ge=0, lt=1)],
        Annotated[float, BeforeValidator(number), Field(ge=0, lt=1)],
    ] = (0.9, 0.999)
    """Decay of the two moments, [0, 1)."""
    eps: Positive = 1e-8
    """Added to the root of the second moment, > 0."""
    weight_decay: Annotated[float, BeforeValidator(number), Field(ge=0, allow_inf_nan=False)] = 0.0
    """Decoupled weight decay, ≥ 0."""


class ScheduleConfig(Node):
    """Learning rate over the run: warm-up from 0, then constant or a decay to floor · lr at the end."""

    kind: Literal["constant", "linear", "cosine"] = "constant"
    """Shape after the warm-up."""
    warmup_steps: Annotated[int, Strict(), Field(ge=0)] = 0
    """Steps of linear warm-up, ≥ 0."""
    unit: Literal["steps", "tokens"] = "steps"
    """What the decay counts: steps of the run, or tokens of budget.generated_tokens."""
    floor: Share = 0.0
    """Learning rate at the end as a share of lr, [0, 1]."""


class TrainerConfig(Node):
    """Lightning's Trainer."""

    accelerator: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to train."""
    devices: Annotated[Literal["auto"] | int, BeforeValidator(_auto_or_count)] = 1
    """Devices of this machine that share a run, ≥ 1, one process each; auto: all GPUs, or one CPU process."""
    precision: Literal["auto", "bf16-mixed"] = "auto"
    """bf16-mixed: bfloat16 autocast around every forward pass; auto: that for float32 weights on a GPU, else none."""


class LoggerConfig(Node):
    """Where metrics go besides the JSONL files."""

    kind: Literal["wandb", "none"] = "wandb"
    """wandb or none."""
    project: str = "grpo"
    """W&B project."""
    entity: str | None = None
    """W&B user or team; null for your default."""
    mode: Literal["auto", "online", "offline"] = "auto"
    """auto: online when there is a key, offline otherwise."""
    tags: tuple[str, ...] = ()
    """Tags besides the choices of every group."""
