"""TRL's GRPO trainer without a trainer: its own code from rewards and log-probs to advantages, loss and gradient.

`_generate_and_score_completions` and `_compute_loss` of GRPOTrainer (and RLOOTrainer) run in float64 on a namespace
that answers what they ask for. Only generation, the reward functions and the forward pass are replaced, by the numbers
of a batch. Batches have the layout of golden.json, with groups of equal size in adjacent rows, because TRL reshapes
them to [P, G]. Written against TRL 1.16.0. TRL takes seconds to import, so the first test that asks for it imports it.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

PAD, EOS, WORD = 0, 1, 2

needs_trl = pytest.mark.skipif(
    find_spec("trl") is None, reason="TRL, the witness of these tests, is not installed: pip install -e '.[bench]'"
)


@cache
def classes(name: str) -> tuple[Any, Any]:
    """Trainer and configuration of "grpo" or "rloo"."""
    trainer, settings = (import_module(f"trl.trainer.{name}_{kind}") for kind in ("trainer", "config"))
    return getattr(trainer, f"{name.upper()}Trainer"), getattr(settings, f"{name.upper()}Config")


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype = torch.float64) -> Iterator[None]:
    """TRL builds tensors from Python numbers in the default dtype; SAPO's 1.05 would be 1.0499999523 in float32."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Stub(SimpleNamespace):
    """What `self` is to TRL's methods. Settings that __init__ copies under their own names are read from `args`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.args, name)

    def _get_per_token_logps_and_entropies(self, model: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, Any, None]:
        return model.logp, getattr(model, "entropy", None), None

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        ids, logprobs = self.completions
        if self.name == "rloo":
            return [[WORD]] * len(ids), ids, ["…"] * len(ids)
        return [[WORD]] * len(ids), ids, None, ["…"] * len(ids), logprobs, {}, None, None

    def _calculate_rewards(self, *args: Any) -> Tensor:
        return self.table


def config(name: str, rows: int, group: int, updates: int, micro_batches: int, settings: dict[str, Any]) -> Any:
    """A GRPOConfig or RLOOConfig: `rows` completions per generation, each update made of micro-batches."""
    return classes(name)[1](
        output_dir=tempfile.gettempdir(),
        use_cpu=True,
        bf16=False,
        report_to=[],
        num_generations=group,
        per_device_train_batch_size=rows // (updates * micro_batches),
        gradient_accumulation_steps=micro_batches,
        steps_per_generation=updates * micro_batches,
        **settings,
    )


def stub(batch: dict[str, Any], updates: int = 1, micro_batches: int = 1, name: str = "grpo", **settings: Any) -> Stub:
    """The trainer of a batch under these settings of GRPOConfig; off-policy if the batch has logp_old."""
    sizes = [batch["group_ids"].count(g) for g in dict.fromkeys(batch["group_ids"])]
    assert len(set(sizes)) == 1, "TRL reshapes rewards to [P, G]"
    assert batch["group_ids"] == sorted(batch["group_ids"]), "TRL wants a group's rows side by side"
    if "logp_old" in batch:
        settings["num_iterations"] = 2  # otherwise TRL takes log π_old from the loss's own forward pass
    args = config(name, len(sizes) * sizes[0], sizes[0], updates, micro_batches, settings)
    weights = batch.get("reward_weights")
    rewards = batch["rewards_per_func"] if weights else [[r] for r in batch["rewards"]]
    table = torch.tensor([[float("nan") if r is None else r for r in row] for row in rewards], dtype=torch.float64)
    names = [f"reward_{n}" for n in range(table.shape[1])]
    one = SimpleNamespace(
        device=torch.device("cpu"), process_index=0, num_processes=1, is_main_process=True, sync_gradients=True,
        gather=lambda x: x, gather_for_metrics=lambda x: x, reduce=lambda x, reduction: x,
    )  # fmt: skip
    return Stub(
        name=name,
        args=args,
        accelerator=one,
        model=SimpleNamespace(training=True, is_gradient_checkpointing=False, logp=tensor(batch, "logp_old", "logp")),
        ref_model=SimpleNamespace(logp=tensor(batch, "logp_ref", "logp")),
        epsilon_low=args.epsilon,
        epsilon_high=args.epsilon if args.epsilon_high is None else args.epsilon_high,
        current_gradient_accumulation_steps=micro_batches,
        reward_weights=torch.tensor(weights or [1.0], dtype=torch.float64),
        completions=sampled(batch),
        table=table,
        reward_funcs=names,
        reward_func_names=names,
        aux_loss_enabled=False,
        environments=None,
        environment_factories=None,
        tools=[],
        _entropy_bonus_enabled=getattr(args, "entropy_coef", 0.0) != 0.0,
        _metrics={"train": defaultdict(list)},
        _logs=defaultdict(list) | {"rewards": defaultdict(list)},
        _pending_extra_logs={},
        _pending_metrics={},
        _tokenizer=SimpleNamespace(pad_token_id=PAD),
        eos_token_ids=[EOS],
        get_gamma_weights=classes("grpo")[0].get_gamma_weights,
    )


def tensor(batch: dict[str, Any], *names: str) -> Tensor:
    """The first of these columns that the batch has, [B, T] float64."""
    return torch.tensor(next(batch[name] for name in names if name in batch), dtype=torch.float64)


def sampled(batch: dict[str, Any]) -> tuple[list[list[int]], list[list[float]] | None]:
    """Token ids, unpadded; EOS last unless truncated; and the engine's log-probs where the batch has them."""
    lengths = [sum(row) for row in batch["mask"]]
    ends = [WORD if cut else EOS for cut in batch["truncated"]]
    ids = [([WORD] * (n - 1) + [end]) if n else [] for n, end in zip(lengths, ends, strict=True)]
    if "logp_rollout" not in batch:
        return ids, None
    return ids, [row[:n] for row, n in zip(batch["logp_rollout"], lengths, strict=True)]


def generated(self: Stub, dtype: torch.dtype = torch.float64) -> dict[str, Any]:
    """TRL's dictionary of a generation batch: advantages, masks, log-probs, importance weights."""
    prompts: list[Any] = [{"prompt": "?"}] * len(self.table)
    with default_dtype(dtype):
        return classes(self.name)[0]._generate_and_score_completions(self, prompts)


@dataclass(frozen=True)
class Witness:
    """What TRL says: loss per optimizer update, summed over its micro-batches, and ∂(sum of losses)/∂log π."""

    losses: Tensor  # [updates]
    gradient: Tensor  # [B, T]
    entropy_gradient: Tensor  # [B, T], 0 without an entropy bonus
    advantages: Tensor  # [B]
    inputs: dict[str, Any]

    @property
    def loss(self) -> Tensor:
        return self.losses.squeeze(0)


def trl(batch: dict[str, Any], updates: int = 1, micro_batches: int = 1, **settings: Any) -> Witness:
    """TRL from the rewards and log-probs of a batch to its losses. settings: fields of GRPOConfig."""
    self = stub(batch, updates, micro_batches, **settings)
    inputs = generated(self)
    return loss_of(self, batch, inputs, updates, micro_batches)


def loss_of(self: Stub, batch: dict[str, Any], inputs: dict[str, Any], updates: int, micro_batches: int) -> Witness:
    """`_compute_loss` on every micro-batch of a generation batch, in TRL's order."""
    from trl.trainer.utils import split_tensor_dict

    logp = tensor(batch, "logp").requires_grad_()
    entropy = tensor(batch, "entropy") if "entropy" in batch else torch.zeros_like(logp)
    entropy = entropy.detach().requires_grad_()
    width = inputs["completion_ids"].shape[1]  # TRL pads to the longest completion at hand
    chunks = updates * micro_batches
    rows = zip(split_tensor_dict(inputs, chunks), logp.chunk(chunks), entropy.chunk(chunks), strict=True)
    with default_dtype():
        loss = classes(self.name)[0]._compute_loss
        pieces = [loss(self, SimpleNamespace(logp=x[:, :width], entropy=h[:, :width]), part) for part, x, h in rows]
    losses = torch.stack(pieces).view(updates, micro_batches).sum(dim=1)
    gradients = torch.autograd.grad(losses.sum(), [logp, entropy], allow_unused=True, materialize_grads=True)
    return Witness(losses.detach(), gradients[0], gradients[1], inputs["advantages"], inputs)
