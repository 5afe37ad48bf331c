"""TRL's RLOO trainer as a witness: leave-one-out advantages, the KL penalty in the reward, the loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.algorithm.golden import objective_of, scores_of
from tests.witness.trl_batches import close, lengths, on_policy, ours, random_batch
from tests.witness.trl_stub import needs_trl, tensor, trl

from grpo.data import Scores, Tokens

pytestmark = needs_trl


def scores(batch: dict[str, Any]) -> Scores:
    return scores_of(batch, batch["reward_weights"])


@pytest.mark.parametrize("seed", range(3))
def test_on_policy_gradient(seed: int) -> None:
    """TRL's RLOO is PPO's clip on the product ratio of a completion; while W = 1 its gradient is RLOO's A ∇log π."""
    batch = on_policy(random_batch(seed))
    theirs, result = trl(batch, name="rloo", beta=0.0), ours("+algo=rloo", batch)
    close(theirs.advantages, result.advantages)
    close(theirs.gradient, result.gradient)
    close(theirs.loss, -result.advantages.mean())  # J = W A with W = 1, ours A log π


@pytest.mark.parametrize("seed", range(3))
def test_off_policy(seed: int) -> None:
    """Off-policy it clips W in 1 ± 0.2, where RLOO has no ratio: our parts say it as ratio=sequence_product
    surrogate=clip aggregation=sequence_mean.
    """
    batch = random_batch(seed)
    theirs = trl(batch, name="rloo", beta=0.0)
    result = ours("+algo=rloo ratio=sequence_product surrogate=clip aggregation=sequence_mean", batch)
    close(theirs.loss, result.loss.loss)
    close(theirs.gradient, result.gradient)
    assert (result.gradient.abs().sum(dim=1) == 0).any(), "no completion was clipped"
    assert (theirs.gradient - ours("+algo=rloo", batch).gradient).abs().max() > 1e-3


@pytest.mark.parametrize("unscored", [False, True])
def test_kl_in_the_reward(unscored: bool) -> None:
    """kl=k1_reward is TRL's penalty: r − β Σ_t (log π_old − log π_ref), then leave-one-out."""
    batch = random_batch(4)
    if unscored:
        batch["rewards_per_func"][2] = [None, None]
    theirs = trl(batch, name="rloo", beta=0.3).advantages
    objective, _ = objective_of(("+algo=rloo", "kl=k1_reward", "kl.coef=0.3"))
    plain = scores(batch)
    tokens = Tokens(
        logp=tensor(batch, "logp_old"),
        mask=tensor(batch, "mask").bool(),
        advantages=torch.zeros(12),
        groups=plain.groups,
        logp_ref=tensor(batch, "logp_ref"),
    )
    bonus = objective.reward_bonus(tokens)
    assert bonus is not None
    column = bonus.where(plain.scored, float("nan"))
    table, weights = torch.cat([plain.rewards, column[:, None]], dim=1), torch.cat([plain.weights, torch.ones(1)])
    close(theirs, objective.advantages(replace(plain, rewards=table, weights=weights)))
    assert (theirs - objective.advantages(plain)).abs().max() > 1e-2


def test_normalisation_is_over_the_batch() -> None:
    """normalize_advantages whitens the leave-one-out advantages over the batch. They are r − μ_G times G/(G − 1), with
    mean 0, so that it is our group_mean_batch_std with (G − 1)/G of TRL's eps.
    """
    batch = random_batch(5)
    theirs = trl(batch, name="rloo", beta=0.0, normalize_advantages=True).advantages
    words = "advantage=group_mean_batch_std advantage.ddof=1 advantage.eps=7.5e-5"  # 1e-4 · (G − 1)/G, G = 4
    close(theirs, objective_of(tuple(words.split()))[0].advantages(scores(batch)))


def test_empty_and_truncated() -> None:
    """An empty completion counts; masked truncated ones stay in N, as in TRL's grpo."""
    batch = on_policy(random_batch(6, empty=True))
    theirs, result = trl(batch, name="rloo", beta=0.0), ours("+algo=rloo", batch)
    close(theirs.gradient, result.gradient)
    assert lengths(batch)[1] == 0
    batch = on_policy(random_batch(6))
    kept = batch["truncated"].count(False)
    theirs = trl(batch, name="rloo", beta=0.0, mask_truncated_completions=True)
    close(theirs.gradient * 12, ours("+algo=rloo overlong=mask_truncated", batch).gradient * kept)
    assert 0 < kept < 12
