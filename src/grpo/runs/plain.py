"""Plain types for files: a checkpoint must load with weights_only=True in any later version of this package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


def plain(value: Any, where: str) -> Any:
    """Copy of nested dicts, lists, tuples, numbers, strings and tensors, tensors on the CPU without their graph.

    Anything else raises TypeError with its place: a DictConfig or a numpy scalar saves silently and then cannot be
    loaded with weights_only=True.
    """
    from torch import Tensor

    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, Tensor):
        return detached(value)
    if type(value) in (list, tuple):
        return type(value)(plain(content, f"{where}[{i}]") for i, content in enumerate(value))
    if isinstance(value, dict):
        for key in value:
            if type(key) not in (str, int):
                raise TypeError(f"{where} has the key {key!r}; only strings and integers are stored")
        return {key: plain(content, f"{where}[{key!r}]") for key, content in value.items()}
    raise TypeError(f"{where} is a {type(value).__module__}.{type(value).__qualname__}; only plain types are stored")


def plain_json(value: Any, where: str) -> Any:
    """Copy of nested dicts with string keys, lists, numbers and strings; anything else raises TypeError.

    JSON would turn the key 1 into "1" and a tuple into a list without a word. NaN and ±inf pass: Python reads them.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return [plain_json(content, f"{where}[{i}]") for i, content in enumerate(value)]
    if isinstance(value, dict) and all(type(key) is str for key in value):
        return {key: plain_json(content, f"{where}[{key!r}]") for key, content in value.items()}
    raise TypeError(f"{where} is {value!r}; only plain JSON types with string keys are stored")


def detached(tensor: Tensor) -> Tensor:
    """On the CPU, contiguous, without graph, and owning no more memory than it shows.

    torch.save writes the whole storage of a view: one row of a big table would cost the table.
    """
    tensor = tensor.detach().cpu().contiguous()
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return tensor if whole else tensor.clone()


def separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors that share no memory, as safetensors wants it: tied weights are written once per name.

    Loading then copies the same numbers twice into the tied parameter, which is harmless; leaving one name out would
    need the model's knowledge of what is tied.
    """
    result: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        tensor = detached(tensor)
        memory = tensor.untyped_storage().data_ptr()
        result[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    return result
