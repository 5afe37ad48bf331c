"""A non-finite loss or gradient: skip the update, count it, and after a few in a row stop with the evidence."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grpo.errors import UserError
from grpo.runs.atomic import sync_file, sync_folder
from grpo.runs.plain import plain_json, separate

if TYPE_CHECKING:
    from torch import Tensor


class NonFinite(UserError):
    """The stop after too many non-finite updates in a row."""


class NonFiniteGuard:
    """Counts updates whose loss or gradient norm is NaN or infinite.

        if guard.skip(step, loss, grad_norm, evidence=lambda: save_evidence(folder, step, numbers, tensors)):
            optimizer.zero_grad()

    With several ranks give it numbers that are equal on all of them (all-reduced), or they part ways and hang.
    """

    def __init__(self, patience: int = 3) -> None:
        self.patience = patience
        """Non-finite updates in a row that end the run."""
        self.in_a_row = 0
        self.skipped = 0
        """All skipped updates of the run, the metric updates/skipped; kept in the checkpoint."""

    def skip(self, step: int, loss: float, grad_norm: float, evidence: Callable[[], Path] | None = None) -> bool:
        """True if this update must be left out. At the `patience`-th in a row saves the evidence and raises."""
        if math.isfinite(loss) and math.isfinite(grad_norm):
            self.in_a_row = 0
            return False
        self.in_a_row += 1
        self.skipped += 1
        if self.in_a_row < self.patience:
            return True
        where = f"; the batch is in {evidence()}" if evidence is not None else ""
        raise NonFinite(
            f"step {step}   loss {loss:g} and gradient norm {grad_norm:g}: {self.in_a_row} updates in a row were not "
            f"finite{where}; try a smaller optimizer.lr, or model.dtype=float32"
        )

    def state(self) -> dict[str, int]:
        """Counters for the checkpoint."""
        return {"in_a_row": self.in_a_row, "skipped": self.skipped}

    def restore(self, state: Mapping[str, int]) -> None:
        """Counters from the checkpoint."""
        self.in_a_row, self.skipped = state["in_a_row"], state["skipped"]


def save_evidence(folder: str | Path, step: int, numbers: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    """Write <folder>/nonfinite/step-000012/{numbers.json, batch.safetensors}, whole or not at all; returns the path.

    numbers   plain types: loss, gradient norms by parameter, prompt ids, sampled texts, ...
    tensors   the batch as the objective saw it: logp, logp_old, mask, advantages, token ids, ...
    """
    from safetensors.torch import save_file

    target = Path(folder) / "nonfinite" / f"step-{step:06d}"
    temporary = target.with_name(f"{target.name}.tmp-{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    content = {"v": 1, "step": step, **plain_json(dict(numbers), "numbers")}
    (temporary / "numbers.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    save_file(separate(tensors), temporary / "batch.safetensors")
    for file in temporary.iterdir():
        sync_file(file)
    shutil.rmtree(target, ignore_errors=True)
    os.rename(temporary, target)
    sync_folder(target.parent)
    return target
