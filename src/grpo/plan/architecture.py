"""The policy on the meta device: shapes without numbers, from a folder's or a hub id's config.json."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from grpo.errors import UserError
from grpo.models import lora
from grpo.models.folders import locate
from grpo.models.load import sentence

if TYPE_CHECKING:
    from grpo.config.nodes import ModelConfig

FUSED = "grpo_plan_fused"


def read(config: ModelConfig) -> Any:
    """config.json as transformers reads it; UserError where neither disk nor hub has it."""
    source = locate(config)
    try:
        with sentence("model.path", source):
            return AutoConfig.from_pretrained(source)
    except UserError as error:
        text = f"{error}; give a folder with its config.json, or --parameters 7e9 --dtype bfloat16"
        raise UserError(text) from error


def build(settings: Any, config: ModelConfig, dtype: torch.dtype) -> Any:
    """The model with its adapter, if any, all of it on the meta device."""
    # A copy: from_config writes the attention into the configuration it is given, which may be a live policy's own.
    settings = deepcopy(settings)
    attention = "eager" if config.attn_implementation == "eager" else FUSED
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(settings, dtype=dtype, attn_implementation=attention)
        if config.lora.r is not None:
            lora.add(model, config.lora, 0)
    return model.eval()


def activations(model: Any, rows: int, width: int, kept: int) -> int:
    """Bytes that the backward pass of [rows, width] tokens needs from the layers; logits at the last `kept` only.

    Counted and not estimated: the model runs on the meta device, and every storage that autograd saves counts once.
    """
    own = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    # The storages themselves are kept, or a freed one's address could come back as another's.
    saved: dict[int, Any] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            saved[storage._cdata] = storage
        return tensor

    ids = torch.zeros((rows, width), dtype=torch.long, device="meta")
    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(input_ids=ids, use_cache=False, logits_to_keep=kept)
    return sum(storage.nbytes() for storage in saved.values())


def whole_logits(model: Any) -> bool:
    """Whether the model does something after its output layer, as far as shapes without numbers can tell.

    models/tail.py asks a real model; here a copy into another type counts as something too, so a plan may be high.
    """
    seen: list[int] = []
    layer = model.get_output_embeddings()
    if layer is None:
        return True
    hook = layer.register_forward_hook(lambda *call: seen.append(call[2].untyped_storage()._cdata))
    try:
        with torch.no_grad():
            logits = model(input_ids=torch.zeros((1, 1), dtype=torch.long, device="meta"), use_cache=False).logits
    finally:
        hook.remove()
    return seen != [logits.untyped_storage()._cdata]


class _Fused(torch.autograd.Function):
    """What every fused attention kernel keeps: q, k, v, the output and one float32 number per row of the scores."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        out = query.new_empty((*query.shape[:-1], value.shape[-1]))
        ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        raise NotImplementedError("only shapes are wanted")


def _fused(module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **_: Any) -> Any:
    if query.device.type != "meta":
        raise RuntimeError("the attention of grpo.plan has shapes and no numbers; no real model may use it")
    # On the meta device scaled_dot_product_attention takes its unfused path and would keep [S, S] scores.
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    return _Fused.apply(query, key, value).transpose(1, 2).contiguous(), None  # type: ignore[union-attr]


ALL_ATTENTION_FUNCTIONS.register(FUSED, _fused)
