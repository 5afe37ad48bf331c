"""model.lora: a low-rank adapter inside the policy, by peft; the base weights are read and never written.

    add                  an adapter in every chosen layer of a loaded model; only the adapter is trainable
    AdapterOff           the same model with the adapter off: π_ref, without a second copy of the weights
    merged               the weights W + (alpha / r) B A of a plain model, for another engine or for export
    export_adapter       a folder that peft loads on top of the base

The adapter is injected and the model stays a model of transformers: its class, names and methods are unchanged, but a
layer `q_proj` keeps its weight in `q_proj.base_layer`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from grpo.config.sentences import any_of, meant
from grpo.errors import UserError

if TYPE_CHECKING:
    from grpo.config.nodes import LoraConfig

ADAPTER = "default"  # peft's name of the one adapter
_BASE = ".base_layer"


def add(model: Any, config: LoraConfig, seed: int) -> None:
    """Inject an adapter of rank `config.r`, drawn from `seed`, in place, and freeze everything else.

    B is 0 at first, so that the policy begins as the base. The adapter is float32 over 16-bit weights: it would lose
    most of its updates in 16 bits. Raises UserError for modules that do not exist, cannot carry one or are tied.
    """
    import peft

    model.requires_grad_(False)
    wanted = config.target_modules
    targets = _found(model, wanted) if isinstance(wanted, tuple) else wanted
    settings = peft.LoraConfig(
        r=config.r or 0,
        lora_alpha=config.alpha,  # pyright: ignore[reportArgumentType]  # peft divides by it, whatever its annotation
        lora_dropout=0.0,
        target_modules=targets,
        bias="none",
    )
    settings.base_model_name_or_path = model.config.name_or_path
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            peft.inject_adapter_in_model(settings, model, ADAPTER)
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise UserError(f"model.lora.target_modules   peft cannot put an adapter there: {reason[:300]}") from error
    for name, parameter in model.named_parameters():
        own = is_adapter(name)
        parameter.requires_grad_(own)
        if own and parameter.dtype in (torch.bfloat16, torch.float16):
            parameter.data = parameter.data.float()


def _found(model: Any, names: tuple[str, ...]) -> list[str]:
    """The chosen names, each of which ends some module's name. peft would pass over a misspelt one in silence."""
    modules = dict(model.named_modules())
    known = sorted({name.rsplit(".", 1)[-1] for name, module in modules.items() if hasattr(module, "weight")})
    for wanted in names:
        hits = [module for name, module in modules.items() if name == wanted or name.endswith(f".{wanted}")]
        if not hits:
            hint = meant(wanted, known) or f"; it has {any_of(known, 'and')}"
            raise UserError(f"model.lora.target_modules   the model has no module {wanted}{hint}")
        if _tied(model) and any(hit is end for hit in hits for end in _ends(model)):
            raise UserError(
                f"model.lora.target_modules   {wanted} shares its weight with the other end of this model (tied "
                "embeddings), and an adapter on one of them would part them; leave it out"
            )
    return list(names)


def _ends(model: Any) -> tuple[Any, Any]:
    return model.get_input_embeddings(), model.get_output_embeddings()


def _tied(model: Any) -> bool:
    first, last = _ends(model)
    return last is not None and first.weight is last.weight


def is_adapter(name: str) -> bool:
    """Whether a parameter of that name belongs to an adapter."""
    return ".lora_" in name


def layers(model: Any) -> dict[str, Any]:
    """Module name -> layer with an adapter; empty for a model that has none."""
    # By its parts and not by peft's class, so that a model without an adapter needs no peft.
    return {name: layer for name, layer in model.named_modules() if hasattr(layer, "lora_A")}


@contextmanager
def adapter_off(model: Any) -> Iterator[None]:
    """The base alone, for forward passes; whatever was on before is on again afterwards."""
    # Not peft's enable_adapters(): it also turns requires_grad off and on, under the feet of a graph that still
    # has its backward pass to come (the exact KL reads the reference between policy and backward pass).
    adapted = list(layers(model).values())
    before = [layer._disable_adapters for layer in adapted]
    for layer in adapted:
        layer._disable_adapters = True
    try:
        yield
    finally:
        for layer, was in zip(adapted, before, strict=True):
            layer._disable_adapters = was


class AdapterOff:
    """A model without its adapter, to be called like the model: π_ref of a LoRA run, original also after a resume."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        with adapter_off(self.model):
            return self.model(*inputs, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def get_output_embeddings(self) -> AdapterOff:
        """The output layer, without an adapter of its own too."""
        return AdapterOff(self.model.get_output_embeddings())


@torch.no_grad()
def merged(model: Any) -> Iterator[tuple[str, Tensor]]:
    """(name, weight) of the plain model, W + (alpha / r) B A where a layer has an adapter; without one, `state_dict()`.

    The sum is a new tensor, made in float32 or wider and then rounded to W's type: W itself is never written, so
    nothing drifts however often this is called. All other tensors are the model's own, not copies. Whoever lets go of
    one before asking for the next never has two of the sums.
    """
    adapted = layers(model)
    for name, value in model.state_dict().items():
        if is_adapter(name):
            continue
        owner, _, leaf = name.rpartition(".")
        layer = adapted.get(owner.removesuffix(_BASE)) if owner.endswith(_BASE) else None
        if layer is not None and leaf == "weight":
            delta = layer.get_delta_weight(ADAPTER)
            wide = torch.promote_types(delta.dtype, torch.float32)
            value = (value.to(wide) + delta.to(wide)).to(value.dtype)
        yield name.replace(f"{_BASE}.", "."), value


def merged_state_dict(model: Any) -> dict[str, Tensor]:
    """Those of `merged`, all at once."""
    return dict(merged(model))


def counts(model: Any) -> tuple[int, int]:
    """(trainable, all) parameters, tied ones once."""
    parameters = list(model.parameters())
    return sum(p.numel() for p in parameters if p.requires_grad), sum(p.numel() for p in parameters)


def export_adapter(model: Any, folder: str | Path) -> Path:
    """adapter_config.json and adapter_model.safetensors, as peft reads them; the old folder stays until then."""
    from safetensors.torch import save_file

    folder = Path(folder)
    part = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    model.peft_config[ADAPTER].save_pretrained(str(part))
    # peft's own names: those of its wrapper, without the adapter's name.
    tensors = {
        "base_model.model." + name.replace(f".{ADAPTER}", ""): value.detach().cpu().contiguous()
        for name, value in model.state_dict().items()
        if is_adapter(name)
    }
    save_file(tensors, part / "adapter_model.safetensors", metadata={"format": "pt"})
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return folder
