"""The head that turns hidden states into logits, computed in float32 under a bfloat16 network.

Trainer and engine round logits differently in bfloat16, and ρ = π/μ is off by percents; with a float32 head both agree
far better (MiniMax-M1, arXiv:2506.13585 §3.2; ScaleRL, arXiv:2510.13786 §3.2). Weights stay in their type and may be
tied to the embeddings; each pass makes a float32 copy of them: 4 bytes × vocabulary × width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from grpo.errors import UserError


class Fp32Head(nn.Linear):
    """A linear layer whose product is computed and returned in float32 (float64 stays), autocast or not."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., H] in any type -> [..., V]."""
        wide = torch.float64 if input.dtype == torch.float64 else torch.float32
        with torch.autocast(input.device.type, enabled=False):
            bias = None if self.bias is None else self.bias.to(wide)
            return nn.functional.linear(input.to(wide), self.weight.to(wide), bias)


def compute_in_fp32(model: Any) -> None:
    """Make the model's output layer an `Fp32Head`, in place: parameters and their names stay the same."""
    head = model.get_output_embeddings()
    if type(head) not in (nn.Linear, Fp32Head):
        raise UserError(
            f"model.fp32_head   the output layer of this model is a {type(head).__name__}, no plain linear layer; "
            "say model.fp32_head=false"
        )
    head.__class__ = Fp32Head  # a deep copy of the model keeps it, which a patched method would not
