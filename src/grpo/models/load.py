"""Model configuration -> (policy, tokenizer), and back to a Hugging Face folder.

A new kind of policy is one branch in folders.py; everything here works for any causal LM of transformers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from grpo.errors import UserError
from grpo.models import lora
from grpo.models.folders import locate
from grpo.models.head import compute_in_fp32

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from grpo.config.schema import ModelConfig

CHECKPOINTING_FROM = 1_000_000_000  # parameters; below, activations are small and recomputing them only costs time


def load_policy(
    config: ModelConfig, device: torch.device | str, seed: int = 0
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The policy on `device`, without dropout and in eval() mode, and its tokenizer.

    All weights are trainable, or with model.lora only those of an adapter drawn from `seed`.
    """
    model = _load_model(config, torch.device(device))
    if config.lora.r is not None:
        lora.add(model, config.lora, seed)
    tokenizer = load_tokenizer(config)
    checkpointing = config.gradient_checkpointing
    if checkpointing == "auto":
        checkpointing = model.device.type != "cpu" and model.num_parameters() >= CHECKPOINTING_FROM
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model, tokenizer


def load_reference(config: ModelConfig, device: torch.device | str) -> PreTrainedModel:
    """The base weights, frozen: π_ref where all weights are trained; an adapter is switched off instead.

    Loaded from the source again, so a resumed run keeps the original reference.
    """
    return _load_model(config, torch.device(device)).requires_grad_(False)


def load_tokenizer(config: ModelConfig) -> PreTrainedTokenizerBase:
    """The tokenizer; `config.chat_template` (a file) replaces its template; a missing pad token becomes EOS."""
    source = locate(config)
    with sentence("model.path", source):
        tokenizer = AutoTokenizer.from_pretrained(source)
    if config.chat_template is not None:
        file = Path(config.chat_template).expanduser()
        if not file.is_file():
            raise UserError(f"model.chat_template   there is no file {file}; give a Jinja chat template")
        tokenizer.chat_template = file.read_text(encoding="utf-8")
    if tokenizer.pad_token_id is None:
        # pad == eos is legal here: masks come from lengths, never from ids.
        if tokenizer.eos_token is None:
            raise UserError(
                f"model.path   the tokenizer of {source} has neither a pad nor an EOS token; set one and save it"
            )
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """All ids that end a completion, sorted: those of the generation config (one or many) and the tokenizer's."""
    found: set[Any] = set()
    for ids in (getattr(model.generation_config, "eos_token_id", None), tokenizer.eos_token_id):
        found.update(ids if isinstance(ids, (list, tuple)) else [] if ids is None else [ids])
    if not found:
        raise UserError(
            "model.path   no EOS token in the generation config or the tokenizer: completions would never end"
        )
    return tuple(sorted(found))


def context_length(model: PreTrainedModel) -> int | None:
    """Positions the model was made for, prompt and completion together; None where the config does not say."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


@contextmanager
def training_mode(model: PreTrainedModel) -> Iterator[None]:
    """train() while gradient checkpointing is on, because transformers ignores it in eval(); dropout is off in both."""
    was = model.training
    model.train(model.is_gradient_checkpointing)
    try:
        yield
    finally:
        model.train(was)


def export(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> Path:
    """Write a folder that transformers and vLLM load; the old one stays until the new one is complete.

    An adapter is merged into the weights that are written, not into those in memory.
    """
    weights = lora.merged_state_dict(model)
    folder = Path(folder)
    part = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(part, ignore_errors=True)
    with quiet():
        try:
            model.save_pretrained(part, state_dict=weights)
        except ValueError:
            # Some published generation configs set a temperature but not do_sample: loading accepts, saving refuses.
            assert model.generation_config is not None
            model.generation_config.do_sample = True
            model.save_pretrained(part, state_dict=weights)
    tokenizer.save_pretrained(str(part))
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return folder


def pick_device(accelerator: str) -> torch.device:
    """The device of trainer.accelerator; auto prefers a GPU. UserError for a GPU that is not there."""
    there = torch.cuda.is_available()
    if accelerator == "gpu" and not there:
        raise UserError(
            "trainer.accelerator   torch finds no GPU here; say trainer=cpu, or only ask for the memory: "
            "python -m grpo.plan with the same words"
        )
    gpu = accelerator != "cpu" and there
    return torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")


def pick_dtype(name: str) -> torch.dtype:
    """`auto` is float32: pure bfloat16 weights lose every update below 0.2 % of a weight. Speed comes from autocast."""
    return torch.float32 if name == "auto" else getattr(torch, name)


def _load_model(config: ModelConfig, device: torch.device) -> PreTrainedModel:
    source = locate(config)
    attention = "sdpa" if config.attn_implementation == "auto" else config.attn_implementation
    with sentence("model.path", source), quiet():
        model: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=pick_dtype(config.dtype), attn_implementation=attention
        )
    _remove_dropout(model)
    if config.fp32_head:
        compute_in_fp32(model)
    return model.to(device).eval()


def _remove_dropout(model: torch.nn.Module) -> None:
    """Dropout makes log π differ from log μ and between two passes: every rate becomes 0, in train() too."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for name in ("attention_dropout", "dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


@contextmanager
def sentence(key: str, source: str) -> Iterator[None]:
    """transformers' errors in one sentence; the cause stays attached for a traceback."""
    try:
        yield
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{key}   transformers cannot load {source}: {reason[:300]}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """No bars of transformers between the lines of ours."""
    was = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was:
            transformers_logging.enable_progress_bar()
