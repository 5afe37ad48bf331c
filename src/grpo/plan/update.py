"""What an update adds: one micro-batch through the layers, then its log-probs chunk by chunk."""

from __future__ import annotations

from typing import Any

from grpo.algorithm.form import build as build_objective
from grpo.config.sizes import sizes
from grpo.models.load import CHECKPOINTING_FROM
from grpo.models.lora import is_adapter
from grpo.plan import architecture
from grpo.plan.engines import Parts, Setting
from grpo.ranks.place import wanted
from grpo.training.logprobs import chunk_size


def update(config: Any, settings: Any, model: Any, where: Setting) -> Parts:
    """One micro-batch: as many completions as tokens_per_microbatch lets in, at least one."""
    text, width = settings.get_text_config(), where.limit + config.max_completion_tokens
    share = -(-sizes(config).completions_per_update // wanted(config.trainer))
    rows = min(max(1, config.tokens_per_microbatch // width), share)
    traced = architecture.build(settings, config.model, where.compute) if where.mixed else model
    layers, words = architecture.activations(traced, rows, width, config.max_completion_tokens + 1), f"{rows} × {width}"
    parameters = sum(p.numel() for n, p in model.named_parameters() if not is_adapter(n))
    logits = _logits(config, settings, traced, rows * config.max_completion_tokens, where)
    found: Parts = {"activations": (layers, f"{words} tokens")}
    checkpointing = config.model.gradient_checkpointing
    if checkpointing is True or (checkpointing == "auto" and where.gpu and parameters >= CHECKPOINTING_FROM):
        depth = text.num_hidden_layers
        inputs = depth * rows * width * text.hidden_size * where.compute.itemsize
        found["activations"] = (inputs, f"inputs of {depth} layers, {words} tokens (gradient checkpointing)")
        # The log-probs' backward pass comes first and is over when the first layer is computed again.
        beyond = max(0, layers // depth - sum(size for size, _ in logits.values()))
        found["one layer"] = (beyond, "computed again, as far as it is larger than the log-probs before it")
    if where.mixed:
        found["autocast"] = (2 * parameters, "the weights in bfloat16")
    return {**found, **logits}


def _logits(config: Any, settings: Any, model: Any, tokens: int, where: Setting) -> Parts:
    """Tensors [chunk, V] alive at once, counted: log π, its bound, its exponential and their product in the forward
    pass; one more to train the entropy, two more for the exact KL and its reference."""
    text, objective = settings.get_text_config(), build_objective(config)
    chunk = min(tokens, chunk_size(text.vocab_size))
    number = 4 if config.model.fp32_head and where.compute.itemsize < 4 else where.compute.itemsize
    copies = 4 + objective.trains_entropy + 2 * objective.needs_exact_kl
    # Log-probs are float32 or float64.
    size, words = chunk * text.vocab_size * copies * max(4, where.compute.itemsize), f"{copies} × "
    if chunk < tokens:
        words += f"{chunk:,} of {tokens:,} × {text.vocab_size:,} tokens of the vocabulary"
    else:
        words += f"{tokens:,} × {text.vocab_size:,} tokens of the vocabulary"
    found = {"log-probs, entropy": (size, words)}
    if architecture.whole_logits(model):
        # The logits, those of the completions' tokens, and the gradient of these.
        found["whole logits"] = (3 * tokens * text.vocab_size * number, "the model has more after its output layer")
    elif chunk < tokens and config.model.lora.r is None:
        head = text.vocab_size * text.hidden_size * model.dtype.itemsize
        found["head's gradient"] = (head, "a chunk's, on its way to the sum")
    return found
