"""Where TRL 1.16.0 computes something else than the page: defaults, KL penalty, denominators. Each with its size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.algorithm.golden import objective_of, scores_of
from tests.witness.trl_batches import BUDGET, TRL_SIGMA, close, lengths, on_policy, ours, random_batch, take
from tests.witness.trl_cases import DAPO, GRPO, K3
from tests.witness.trl_stub import config, needs_trl, tensor, trl
from torch import Tensor

from grpo.data import Tokens

pytestmark = needs_trl


def test_defaults_are_not_the_papers() -> None:
    """GRPOConfig() is DAPO's token mean with GRPO's clip, without KL; the default loss_type weighs tokens, not
    completions.
    """
    args = config("grpo", 12, 4, 1, 1, {})
    assert (args.loss_type, args.beta, args.epsilon, args.epsilon_high, args.delta) == ("dapo", 0.0, 0.2, None, None)
    assert (args.scale_rewards, args.importance_sampling_level, args.num_iterations) == ("group", "token", 1)
    assert (args.vllm_importance_sampling_mode, args.vllm_importance_sampling_clip_max) == ("sequence_mask", 3.0)
    assert args.use_bias_correction_kl
    batch = random_batch(0)
    close(trl(batch).gradient, ours(f"{GRPO} aggregation=token_mean", batch).gradient)
    assert not torch.allclose(trl(batch).gradient, ours(GRPO, batch).gradient)


# KL -------------------------------------------------------------------------------------------------------------------


def test_kl_is_multiplied_by_the_ratio() -> None:
    """With TRL's default use_bias_correction_kl the penalty is ρ·k3, ρ with gradient, so that β's gradient is
    −ρ·d = ρ (log π − log π_ref) per token, where k3 alone has 1 − exp(d).
    """
    batch = random_batch(1)
    theirs, plain = trl(batch, loss_type="grpo", beta=0.04), ours(GRPO, batch)
    rho = (tensor(batch, "logp") - tensor(batch, "logp_old")).exp()
    d = tensor(batch, "logp_ref") - tensor(batch, "logp")
    weight = tensor(batch, "mask") / lengths(batch)[:, None] / len(batch["mask"])
    close(theirs.loss, plain.loss.loss + 0.04 * (weight * rho * (d.exp() - d - 1)).sum())
    close(theirs.gradient, plain.gradient + 0.04 * weight * -rho * d)
    published = ours(f"kl.coef=0.04 {TRL_SIGMA}", batch)
    close(published.gradient, plain.gradient + 0.04 * weight * (1 - d.exp()))
    close(trl(batch, loss_type="grpo", **K3).gradient, published.gradient)


def test_on_policy_the_default_kl_has_the_gradient_of_k2() -> None:
    """On-policy ρ = 1 leaves TRL's default penalty the value of k3 and the gradient of k2, our kl=k2."""
    batch = on_policy(random_batch(2))
    theirs = trl(batch, loss_type="grpo", beta=0.04)
    k2, k3 = (ours(f"kl={k} kl.coef=0.04 {TRL_SIGMA}", batch) for k in ("k2", "k3"))
    close(theirs.gradient, k2.gradient)
    close(theirs.loss, k3.loss.loss)
    assert (theirs.gradient - k3.gradient).abs().max() > 1e-4


# Denominators ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        (f"{GRPO}", {"loss_type": "grpo"}),
        (f"+algo=sapo {TRL_SIGMA}", {"loss_type": "sapo"}),
        ("+algo=dr_grpo", {"loss_type": "dr_grpo", "scale_rewards": "none", "max_completion_length": BUDGET}),
    ],
)
def test_truncated_completions_stay_in_n(words: str, settings: dict[str, Any]) -> None:
    """With mask_truncated_completions grpo, sapo and dr_grpo still divide by all N completions, ours by those that are
    left: TRL's loss is smaller by kept / N. (dapo, cispo and vespo count the tokens that are left, as ours.)
    """
    batch = random_batch(3)
    kept = batch["truncated"].count(False)
    assert 0 < kept < 12
    theirs, result = (
        trl(batch, mask_truncated_completions=True, **settings),
        ours(f"{words} overlong=mask_truncated", batch),
    )
    close(theirs.loss * 12, result.loss.loss * kept)
    close(theirs.gradient * 12, result.gradient * kept)


def unscored(seed: int, row: int) -> dict[str, Any]:
    batch = random_batch(seed)
    batch["rewards_per_func"][row] = [None, None]
    return batch


def test_unscored_completions_stay_in_the_loss() -> None:
    """A completion for which every reward is None has A = 0 in TRL, and keeps its place in the denominators and its KL
    penalty; ours leaves the loss.
    """
    batch, row = unscored(4, 5), 5
    theirs, result = trl(batch, loss_type="grpo"), ours(GRPO, batch)
    close(theirs.advantages, result.advantages)
    close(theirs.gradient * 12, result.gradient * 11)
    tokens = lengths(batch)
    theirs, result = trl(batch, loss_type="dapo", epsilon_high=0.28), ours(DAPO, batch)
    close(theirs.gradient * tokens.sum(), result.gradient * (tokens.sum() - tokens[row]))
    theirs, result = trl(batch, loss_type="grpo", **K3), ours(f"kl=k3 {TRL_SIGMA}", batch)
    assert theirs.gradient[row].abs().max() > 1e-4
    assert result.gradient[row].abs().max() == 0


HALVES = (slice(0, 8), slice(8, 16))


def test_several_updates_share_the_token_count_of_the_generation() -> None:
    """With more than one optimizer update per generation dapo, cispo and vespo divide each update by the *average*
    number of tokens, Σ|o| / updates, ours by the update's own.
    """
    batch = random_batch(9, groups=4)
    theirs = trl(batch, updates=2, loss_type="dapo", epsilon_high=0.28)
    halves = [take(batch, half) for half in HALVES]
    close(trl(batch, updates=2, loss_type="grpo").losses, [ours(GRPO, half).loss.loss.item() for half in halves])
    for loss, half in zip(theirs.losses, halves, strict=True):
        factor = lengths(half).sum() / (lengths(batch).sum() / 2)
        assert abs(factor - 1) > 0.05
        close(loss, ours(DAPO, half).loss.loss * factor)


def test_bnpo_is_a_mean_of_means() -> None:
    """bnpo takes the token mean of each micro-batch, so that its loss depends on how the batch is split: it is ours
    (aggregation=token_mean) per micro-batch, averaged.
    """
    batch = random_batch(9, groups=4)
    parts = [ours(f"{GRPO} aggregation=token_mean", take(batch, half)).loss.loss for half in HALVES]
    close(trl(batch, micro_batches=2, loss_type="bnpo").loss, sum(parts, torch.zeros(())) / 2)
    assert (trl(batch, micro_batches=2, loss_type="bnpo").loss - trl(batch, loss_type="bnpo").loss).abs() > 1e-3


def with_entropy(words: str, batch: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Our loss, ∂/∂log π and ∂/∂H."""
    objective, budget = objective_of(tuple(words.split()))
    scores, mask = scores_of(batch, batch["reward_weights"]), tensor(batch, "mask").bool()
    logp, entropy = tensor(batch, "logp").requires_grad_(), tensor(batch, "entropy").requires_grad_()
    columns = {"logp": logp, "logp_old": tensor(batch, "logp_old"), "entropy": entropy}
    tokens = Tokens(mask=mask, advantages=objective.advantages(scores), groups=scores.groups, **columns)
    loss = objective(tokens, objective.totals(mask, scores.groups, budget)).loss
    gradient, entropy_gradient = torch.autograd.grad(loss, [logp, entropy])
    return loss, gradient, entropy_gradient


def test_entropy_bonus() -> None:
    """The same in one micro-batch; in several TRL averages the micro-batches' token means, ours is the mean over all
    tokens.
    """
    batch = random_batch(9, groups=4)
    loss, gradient, entropy_gradient = with_entropy(f"{GRPO} entropy=loss_bonus entropy.coef=0.02", batch)
    theirs = trl(batch, loss_type="grpo", entropy_coef=0.02)
    close(theirs.loss, loss)
    close(theirs.gradient, gradient)
    close(theirs.entropy_gradient, entropy_gradient)
    split = trl(batch, micro_batches=2, loss_type="grpo", entropy_coef=0.02)
    close(split.gradient, gradient)
    counts = torch.stack([lengths(batch)[half].sum() for half in HALVES]).repeat_interleave(8)
    close(split.entropy_gradient, -0.02 * tensor(batch, "mask") / counts[:, None] / 2)
    assert (split.entropy_gradient - entropy_gradient).abs().max() > 1e-6
