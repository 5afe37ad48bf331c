"""A causal language model cut before its output layer: hidden states first, logits a few tokens at a time.

    whole_logits     why the cut would be wrong for this model; "" where it is right
    hidden_states    what the output layer would read, [B, S, H]
    output_layer     hidden states [n, H] -> logits [n, V]

The model's own forward pass runs and its output layer is handed no token, so that everything before that layer is the
model's business: wrappers, adapters, scaled embeddings, hooks. What may follow the layer (soft-capping in Gemma, a
scale in Cohere and Granite) is not part of the cut: such a model is found by a probe and needs its logits whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

_REASONS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def whole_logits(model: Any) -> str:
    """Why this model's logits must be computed whole; "" where its output layer has the last word. Asked once a model.

    The probe is one forward pass of one token whose output layer answers with numbers from −100 to 100, whatever the
    weights are worth: the model must return just these. A new model's small logits might pass under a soft cap.
    """
    if model not in _REASONS:
        _REASONS[model] = _probed(model)
    return _REASONS[model]


def _probed(model: Any) -> str:
    layer = model.get_output_embeddings()
    if layer is None:
        return "the model names no output layer"
    answers: list[Tensor] = []

    def answer(_: Any, inputs: tuple[Any, ...], output: Any) -> Tensor:
        answers.append(torch.linspace(-100, 100, output.shape[-1]).to(output).expand_as(output))
        return answers[-1] if inputs else output  # an input given by name could not be cut away

    hook = layer.register_forward_hook(answer)
    try:
        with torch.no_grad():
            ids = torch.zeros((1, 1), dtype=torch.long, device=model.device)
            logits = model(input_ids=ids, use_cache=False).logits
    finally:
        hook.remove()
    if len(answers) != 1:
        return f"the model calls its output layer {len(answers)} times"
    if logits.shape != answers[0].shape or not torch.equal(logits.double(), answers[0].double()):
        return "the model changes what its output layer returns (soft-capped or scaled logits)"
    return ""


def hidden_states(model: Any, **inputs: Any) -> Tensor:
    """[B, S, H]: the input of the output layer in `model(**inputs)`. Only for models that need no whole logits."""
    found: list[Tensor] = []

    def cut(_: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        found.append(given[0])
        return (given[0][..., :0, :], *given[1:])

    hook = model.get_output_embeddings().register_forward_pre_hook(cut)
    try:
        model(**inputs)
    finally:
        hook.remove()
    return found[0]


def output_layer(model: Any) -> Callable[[Tensor], Tensor]:
    """[n, H] -> [n, V], with an adapter on that layer where the model has one on."""
    layer = model.get_output_embeddings()
    return lambda hidden: layer(hidden.unsqueeze(0)).squeeze(0)


def vocabulary(model: Any) -> int:
    """V, as the configuration says."""
    return model.config.get_text_config().vocab_size
