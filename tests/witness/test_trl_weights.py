"""Where TRL 1.16.0 weighs tokens otherwise than the formula on the page: caps, ratios, the engine's probabilities."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from tests.witness.trl_batches import TRL_SIGMA, close, lengths, on_policy, ours, random_batch
from tests.witness.trl_cases import CISPO, DAPO, GRPO, vllm
from tests.witness.trl_stub import generated, loss_of, needs_trl, stub, tensor, trl

pytestmark = needs_trl


# Ratios and weights ---------------------------------------------------------------------------------------------------


def test_cispo_caps_at_epsilon() -> None:
    """TRL's epsilon_high is CISPO's cap itself, not 1 + ε, and defaults to epsilon = 0.2: loss_type="cispo" alone gives
    every token with ρ > 0.2, which on-policy is all of them, a weight of 0.2.
    """
    batch = on_policy(random_batch(6))
    close(trl(batch, loss_type="cispo").gradient, 0.2 * ours(CISPO, batch).gradient)
    close(trl(batch, loss_type="cispo", epsilon_high=5.0).gradient, ours(CISPO, batch).gradient)


def test_gspo_wants_loss_type_grpo() -> None:
    """importance_sampling_level="sequence" alone keeps the default loss_type dapo, which counts s_i once per token: the
    gradient of each completion is |o_i| · N / Σ|o| times the paper's.
    """
    batch = random_batch(7)
    epsilon: dict[str, Any] = {"epsilon": 3e-4, "epsilon_high": 4e-4}
    theirs, result = trl(batch, importance_sampling_level="sequence", **epsilon), ours(f"+algo=gspo {TRL_SIGMA}", batch)
    factor = lengths(batch) * 12 / lengths(batch).sum()
    close(theirs.gradient, result.gradient * factor[:, None])


def test_sequence_level_spreads_an_advantage_per_token() -> None:
    """TRL has no token form of GSPO. Its sequence form has the same loss and gradient as long as a completion has one
    advantage; with one per token, which TRL admits, every token gets the mean, as with our ratio=sequence.
    """
    batch = random_batch(8)
    shared = f"kl=none surrogate.low=0.9 surrogate.high=9 credit=ref_downweight {TRL_SIGMA}"
    form = {name: ours(f"{shared} ratio={name}", batch) for name in ("sequence", "sequence_token")}
    settings = {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon": 0.9, "epsilon_high": 9.0}
    self = stub(batch, **settings)
    inputs = generated(self) | {"advantages": form["sequence"].advantages}
    theirs = loss_of(self, batch, inputs, updates=1, micro_batches=1)
    for result in form.values():
        close(theirs.loss, result.loss.loss)
    close(theirs.gradient, form["sequence"].gradient)
    mask = tensor(batch, "mask")
    mean = form["sequence_token"].gradient.sum(dim=1) / lengths(batch)
    close(theirs.gradient, mean[:, None] * mask)
    assert (theirs.gradient - form["sequence_token"].gradient).abs().max() > 1e-3


def test_log_ratios_are_not_bounded() -> None:
    """TRL exponentiates any log ratio: a token with A < 0 and log ρ = 30 pulls with e³⁰ = 1e13, and beyond 709 the loss
    is infinite. Ours stops at e²⁰, with gradient 0 beyond.
    """
    batch = random_batch(9)
    row = int(trl(batch, loss_type="grpo").advantages.argmin())
    batch["logp_old"][row][0] = batch["logp"][row][0] - 30.0
    theirs, result = trl(batch, loss_type="grpo"), ours(GRPO, batch)
    scale = -theirs.advantages[row] / lengths(batch)[row] / 12
    close(theirs.gradient[row, 0], scale * math.exp(30.0))
    assert result.gradient[row, 0] == 0
    close(theirs.loss - result.loss.loss, scale * (math.exp(30.0) - math.exp(20.0)))
    batch["logp_old"][row][0] -= 700.0
    assert trl(batch, loss_type="grpo").loss.isinf()
    assert ours(GRPO, batch).loss.loss.isfinite()


# The engine's probabilities -------------------------------------------------------------------------------------------


def test_an_unknown_engine_probability_weighs_one() -> None:
    """A token whose log μ is NaN keeps weight 1 in TRL; ours gives it 0, because nobody knows what it should be."""
    batch = random_batch(10)
    row = int((ours(GRPO, batch).gradient[:, 0] != 0).nonzero()[0])
    batch["logp_rollout"][row][0] = float("nan")
    theirs = trl(batch, **vllm("token_truncate", 2.0))
    close(theirs.gradient[row, 0], trl(batch, loss_type="grpo").gradient[row, 0])
    result = ours(f"+algo=tis kl=none {TRL_SIGMA}", batch).gradient
    assert result[row, 0] == 0
    result[row, 0] = theirs.gradient[row, 0]
    close(theirs.gradient, result)


VESPO = "+algo=vespo aggregation=token_mean"


def vespo(mode: str, high: float, low: float | None = None) -> dict[str, Any]:
    return vllm(mode, high, low, loss_type="vespo", scale_rewards="none")


def test_vespo_divides_by_tokens() -> None:
    """VESPO sums over a completion and averages over completions; TRL divides by all tokens, N / Σ|o| of it."""
    batch = random_batch(11)
    theirs = trl(batch, loss_type="vespo", scale_rewards="none")
    close(theirs.gradient * lengths(batch).sum(), ours("+algo=vespo ratio.anchor=old", batch).gradient * 12)


def test_vespo_truncates_the_engine_part_of_its_weight() -> None:
    """TRL's VESPO weight is W = Π π/π_old · Π min(π_old/μ, C): the paper's Π π/μ only where no token reaches C."""
    batch = random_batch(11)
    close(trl(batch, **vespo("token_truncate", 100.0)).gradient, ours(VESPO, batch).gradient)
    theirs = trl(batch, **vespo("token_truncate", 1.1))
    logp, old, mask = tensor(batch, "logp"), tensor(batch, "logp_old"), tensor(batch, "mask")
    engine = (old - tensor(batch, "logp_rollout")).clamp(max=math.log(1.1))
    log_w = ((logp - old + engine) * mask).sum(dim=1)
    positive = theirs.advantages >= 0
    k, lam = torch.where(positive, 2.0, 3.0), torch.where(positive, 3.0, 2.0)
    phi = (k * log_w + lam * (1 - log_w.exp())).exp()
    close(theirs.gradient, -(phi * theirs.advantages)[:, None] * mask / mask.sum())
    assert (theirs.gradient - ours(VESPO, batch).gradient).abs().max() > 1e-3


def test_vespo_is_silenced_by_one_masked_token() -> None:
    """With mode token_mask a token out of bounds has weight 0, whose log TRL floors at ln 1e-8: the whole completion
    gets W < 1e-7 and learns nothing.
    """
    batch = random_batch(11)
    gap = ((tensor(batch, "logp_old") - tensor(batch, "logp_rollout")) * tensor(batch, "mask")).amax(dim=1)
    theirs = trl(batch, **vespo("token_mask", 1.3)).gradient.abs().amax(dim=1)
    free = trl(batch, **vespo("token_mask", 9.0)).gradient.abs().amax(dim=1)
    masked = gap > math.log(1.3)
    assert 0 < masked.sum() < 12
    assert theirs[masked].max() < 1e-12
    close(theirs[~masked], free[~masked])
    assert (free > 1e-6).all()


# Edges ----------------------------------------------------------------------------------------------------------------


def test_an_empty_completion_is_an_error_with_mask_truncated() -> None:
    """mask_truncated_completions looks at the last token of every completion: one without tokens is an IndexError. Ours
    counts it as an empty completion.
    """
    batch = random_batch(12, empty=True)
    with pytest.raises(IndexError):
        trl(batch, loss_type="dapo", mask_truncated_completions=True)
    assert ours(f"{DAPO} overlong=mask_truncated", batch).loss.loss.isfinite()


def test_padding_must_be_finite() -> None:
    """TRL multiplies by the mask, and nan · 0 is nan: one nan in the padding is a nan loss. Ours never reads it."""
    batch = random_batch(13)
    row = int(lengths(batch).argmin())
    batch["logp_old"][row][-1] = float("nan")
    assert trl(batch, loss_type="grpo").loss.isnan()
    assert ours(GRPO, batch).loss.loss.isfinite()
