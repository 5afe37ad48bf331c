"""One optimizer update: the objective's gradient with respect to log π, carried through the network.

The objective is evaluated on a detached leaf of log π. Its derivative there, [B, T], is what the network's backward
pass receives. The same small graph gives the weight w = ∂J/∂log π of every token, the one number in which all
variants compare, and tells which rows need no backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from torch import Tensor

from grpo.data import Loss, Tokens, Totals
from grpo.recording.meters import Meters
from grpo.training.batch import Batch, padded_ids, topk_of
from grpo.training.logprobs import Scored


@dataclass(frozen=True)
class Differentiated:
    """A micro-batch's loss and its derivatives by log π, entropy and KL (None: not trained), and w = ∂J/∂log π.

    The exact KL is a function of whole distributions, not of log π: w does not contain it.
    """

    loss: Loss
    logp_gradient: Tensor
    entropy_gradient: Tensor | None
    weight: Tensor
    kl_gradient: Tensor | None = None


def differentiate(objective: Any, tokens: Tokens, totals: Totals) -> Differentiated:
    """Loss of a micro-batch and its derivatives with respect to log π, entropy and exact KL, [B, T] each.

    The objective is computed in float32 or better, whatever the network's precision.
    """
    logp = widened(tokens.logp.detach()).requires_grad_()
    entropy = None if tokens.entropy is None else widened(tokens.entropy.detach()).requires_grad_()
    kl = None if tokens.kl_exact is None else widened(tokens.kl_exact.detach()).requires_grad_()
    old = logp.detach() if tokens.logp_old is None else tokens.logp_old
    loss = objective(tokens.replace(logp=logp, entropy=entropy, kl_exact=kl, logp_old=old), totals)
    weight = _gradient(loss.objective.sum(), logp)
    logp_gradient = _gradient(loss.loss, logp)
    entropy_gradient = kl_gradient = None
    if entropy is not None and objective.trains_entropy:
        entropy_gradient = _gradient(loss.loss, entropy)
    if kl is not None and objective.trains_exact_kl:
        kl_gradient = _gradient(loss.loss, kl)
    return Differentiated(loss, logp_gradient, entropy_gradient, weight, kl_gradient)


def widened(values: Tensor) -> Tensor:
    """float64 stays, everything narrower becomes float32."""
    return values if values.dtype == torch.float64 else values.float()


def _gradient(value: Tensor, leaf: Tensor) -> Tensor:
    # A loss none of whose terms reads this leaf has no graph: its derivative is zero.
    if not value.requires_grad:
        return torch.zeros_like(leaf)
    (gradient,) = torch.autograd.grad(value, leaf, retain_graph=True, allow_unused=True)
    return torch.zeros_like(leaf) if gradient is None else gradient


def carry_back(scored: Scored, derivatives: Differentiated) -> Tensor:
    """A scalar whose gradient with respect to the network's weights is the loss's."""
    scalar = (scored.logp * derivatives.logp_gradient.to(scored.logp.dtype)).sum()
    for values, gradient in ((scored.entropy, derivatives.entropy_gradient), (scored.kl, derivatives.kl_gradient)):
        if values is not None and gradient is not None:
            scalar = scalar + (values * gradient.to(values.dtype)).sum()
    return scalar


def tokens_of(batch: Batch, scored: Scored) -> Tokens:
    """The objective's view of a micro-batch, trimmed to the micro-batch's longest completion.

    Among the top-K tokens the sampled one is −inf on both sides: it has its own log-probs and must not count twice.
    """
    logp, topk_logp = scored.logp, scored.topk
    width, device, dtype = logp.shape[1], logp.device, widened(logp).dtype

    def column(values: Tensor | None) -> Tensor | None:
        return None if values is None else values[:, :width].to(device=device, dtype=dtype)

    top = None if topk_logp is None else topk_of(batch.rollouts, width)
    topk: dict[str, Tensor] = {}
    if top is not None and topk_logp is not None:
        ids, mu = (part.to(device) for part in top)
        twice = ids == padded_ids(batch.rollouts, width).to(device).unsqueeze(-1)
        topk["topk_rollout"] = mu.to(dtype).masked_fill(twice, float("-inf"))
        topk["topk_logp"] = widened(topk_logp).masked_fill(twice, float("-inf"))
    return Tokens(
        **topk,
        logp=logp,
        mask=batch.mask[:, :width].to(device),
        advantages=batch.advantages.to(device=device, dtype=dtype),
        groups=batch.groups.to(device),
        logp_old=column(batch.logp_old),
        logp_ref=column(batch.logp_ref),
        logp_rollout=column(batch.logp_rollout),
        rewards=batch.rewards.to(device),
        entropy=scored.entropy,
        kl_exact=scored.kl,
    )


@dataclass(frozen=True)
class UpdateResult:
    """What an update did: `outcome` is updated, empty (no weight differs from zero), skipped (not finite), or stale:
    the completions came from other weights than the engine was given, nothing was updated, and the step begins anew.
    """

    outcome: str
    tokens: int = 0  # that counted in it


@dataclass
class Accumulated:
    """What the forward and backward passes of some micro-batches said; their gradient is in the parameters.

    terms    of the loss, summed
    rows     row of the minibatch -> (log π [T], w = ∂J/∂log π [T]), float64; arrays, which are sent faster than tensors
    meters   statistics of the tokens
    """

    terms: dict[str, float] = field(default_factory=dict)
    rows: dict[int, tuple[numpy.ndarray, numpy.ndarray]] = field(default_factory=dict)
    meters: Meters = field(default_factory=Meters)

    def add(self, terms: Mapping[str, float]) -> None:
        """More of the loss."""
        for name, value in terms.items():
            self.terms[name] = self.terms.get(name, 0.0) + value

    @classmethod
    def joined(cls, parts: Iterable[Accumulated]) -> Accumulated:
        """What several ranks found together."""
        whole = cls()
        for part in parts:
            whole.add(part.terms)
            whole.rows |= part.rows
            whole.meters.merge(part.meters)
        return whole


def accumulate_gradients(
    batch: Batch,
    parts: Iterable[Tensor],
    *,
    objective: Any,
    totals: Totals,
    forward: Callable[[Batch], Scored],
    backward: Callable[[Tensor], None],
) -> Accumulated:
    """Forward and backward over the micro-batches."""
    found = Accumulated()
    for rows in parts:
        micro = batch.select(rows)
        scored = forward(micro)
        tokens = tokens_of(micro, scored)
        derivatives = differentiate(objective, tokens, totals)
        backward(carry_back(scored, derivatives))
        found.add({name: float(value.detach()) for name, value in derivatives.loss.terms.items()})
        measure(found.meters, tokens, derivatives)
        logps, weights = (values.detach().double().cpu().numpy() for values in (scored.logp, derivatives.weight))
        found.rows |= {row: (logps[place], weights[place]) for place, row in enumerate(rows.tolist())}
    return found


def measure(meters: Meters, tokens: Tokens, derivatives: Differentiated) -> None:
    """Token-weighted statistics of an update's micro-batch; see the README's metric table for each name."""
    mask = tokens.mask
    count = int(mask.sum())
    if count == 0:
        return
    weight = derivatives.weight[mask].abs()
    meters.add_mean("surrogate/weight_mean", float(weight.sum()), count)
    meters.add_max("surrogate/weight_max", float(weight.max()))
    meters.add_mean("surrogate/weight_zero", float((weight == 0).sum()), count)
    if tokens.entropy is not None:
        meters.add_mean("policy/entropy", float(tokens.entropy.detach()[mask].sum()), count)
    seen = derivatives.loss.diagnostics
    if "ratio" in seen:
        ratio = seen["ratio"][mask]
        meters.add_mean("policy/ratio_mean", float(ratio.sum()), count)
        meters.add_min("policy/ratio_min", float(ratio.min()))
        meters.add_max("policy/ratio_max", float(ratio.max()))
    for name, metric in (("clip_low", "surrogate/clip_low"), ("clip_high", "surrogate/clip_high"), ("kl", "kl/ref")):
        if name in seen:
            meters.add_mean(metric, float(seen[name][mask].double().sum()), count)
    if "correction" in seen:
        correction = seen["correction"][mask].double()
        meters.add_mean("correction/mean", float(correction.sum()), count)
        meters.add_mean("correction/masked", float((correction == 0).sum()), count)
        meters.add_mean("correction/square", float(correction.square().sum()), count)


def mismatch(meters: Meters, logp: Tensor, logp_rollout: Tensor, mask: Tensor) -> None:
    """|log π − log μ| of the same weights, and k3 = e^d − d − 1 with d = log π − log μ, over counted tokens."""
    count = int(mask.sum())
    if count == 0:
        return
    difference = (logp - logp_rollout)[mask].double()
    meters.add_mean("mismatch/abs_logp_mean", float(difference.abs().sum()), count)
    meters.add_max("mismatch/abs_logp_max", float(difference.abs().max()))
    meters.add_mean("mismatch/k3", float((difference.clamp(-20, 20).expm1() - difference).sum()), count)
