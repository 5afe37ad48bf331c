"""What must not change a loss or its gradient: micro-batches, order, padding, garbage; and what must stay finite."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from batches import ALGORITHMS, BUDGET, Batch, algorithm, gradient, prepare, random_batch, solve, take
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.algorithm.kl import NoKL

SEEDS = st.integers(0, 2**31)
FEW = settings(max_examples=3, deadline=None, derandomize=True)


def pieces(batch: Batch, generator: torch.Generator, whole_groups: bool, whole: bool) -> list[torch.Tensor]:
    """A random partition of the rows in random order; groups whole where the form needs it."""
    count = len(batch.truncated)
    if whole:
        return [torch.randperm(count, generator=generator)]
    labels = batch.scores.groups.unique(return_inverse=True)[1] if whole_groups else torch.arange(count)
    part = torch.randint(0, 4, (int(labels.max()) + 1,), generator=generator)[labels]
    shuffled = torch.randperm(count, generator=generator)
    return [shuffled[part[shuffled] == p] for p in range(4) if (part == p).any()]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ALGORITHMS)
@FEW
@given(seed=SEEDS)
def test_micro_batches_order_and_padding(name: str, dtype: torch.dtype, seed: int) -> None:
    """Any split into micro-batches, any order of rows, any width: losses and gradients add up to the whole."""
    objective = algorithm(name, "entropy=loss_bonus")
    batch = random_batch(seed, functions=2).to(dtype)
    whole = prepare(objective, batch)
    expected, expected_gradient = gradient(objective, whole.tokens, whole.totals)
    generator = torch.Generator().manual_seed(seed + 1)
    total, found = 0.0, torch.full_like(expected_gradient, math.nan)
    for rows in pieces(batch, generator, objective.needs_rewards, objective.needs_whole_update):
        shortest = max(int(whole.tokens.mask[rows].sum(dim=1).max()), 1)
        width = int(torch.randint(shortest, 9, (1,), generator=generator))
        loss, slope = gradient(objective, take(whole.tokens, rows, width), whole.totals)
        total += loss.loss.double().item()
        shared = min(width, found.shape[1])
        found[rows] = 0.0
        found[rows, :shared] = slope[:, :shared]
        assert not slope[:, shared:].any()
    tolerance = {"rtol": 1e-9, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(total, expected.loss.double().item(), **tolerance)
    torch.testing.assert_close(found, expected_gradient, **tolerance)


@pytest.mark.parametrize("name", ALGORITHMS)
@FEW
@given(seed=SEEDS, poison=st.sampled_from([math.nan, math.inf, 1e30, -1e30]))
def test_what_is_not_sampled_changes_nothing(name: str, seed: int, poison: float) -> None:
    """Bit for bit, also between sampled tokens: `sampled` is False where a template or an environment wrote."""
    objective = algorithm(name, "entropy=loss_bonus")
    batch = random_batch(seed)
    holes = batch.sampled & (torch.rand(batch.sampled.shape, generator=torch.Generator().manual_seed(seed)) < 0.7)

    def filled(value: float) -> Batch:
        columns = {n: x.where(holes if x.dim() == 2 else holes[..., None], value) for n, x in batch.columns.items()}
        return Batch(batch.logp.where(holes, value), holes, batch.scores, batch.truncated, columns)

    (clean, clean_gradient), (dirty, dirty_gradient) = (solve(objective, filled(v)) for v in (0.0, poison))
    assert torch.equal(clean.loss, dirty.loss)
    assert torch.equal(clean_gradient, dirty_gradient)
    assert torch.equal(clean.objective, dirty.objective)


def scenario(name: str, batch: Batch) -> Batch:
    """A degenerate batch of formulas.md §0.5."""
    rewards, nan = batch.scores.rewards.clone(), math.nan
    if name == "all equal":
        rewards[:] = 0.7
    elif name == "huge":
        rewards = 1e8 + rewards
    elif name == "negative":
        rewards = -3.0 + rewards
    elif name == "one scored of each group":
        for group in batch.scores.groups.unique():
            rewards[(batch.scores.groups == group).nonzero()[1:, 0]] = nan
    elif name == "a group without scores":
        rewards[batch.scores.groups == 17] = nan
    elif name == "nothing scored":
        rewards[:] = nan
    batch = batch.with_rewards(rewards)
    if name == "all truncated":
        return Batch(batch.logp, batch.sampled, batch.scores, torch.ones_like(batch.truncated), batch.columns)
    if name == "all empty":
        return Batch(batch.logp, torch.zeros_like(batch.sampled), batch.scores, batch.truncated, batch.columns)
    if name == "extreme ratios":
        return batch.with_columns(logp_old=batch.logp * 300, logp_rollout=batch.logp - 80)
    if name == "no log μ":
        return batch.with_columns(logp_rollout=torch.full_like(batch.logp, -math.inf))
    return batch


SCENARIOS = [
    "all equal", "huge", "negative", "one scored of each group", "a group without scores", "nothing scored",
    "all truncated", "all empty", "extreme ratios",
]  # fmt: skip


@pytest.mark.parametrize("case", SCENARIOS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_degenerate_batches_stay_finite(name: str, case: str) -> None:
    objective = algorithm(name, "entropy=loss_bonus")
    for dtype in (torch.float64, torch.float32):
        loss, slope = solve(objective, scenario(case, random_batch(5, functions=1)).to(dtype))
        assert loss.loss.isfinite()
        assert slope.isfinite().all()
        assert all(values.isfinite().all() for values in loss.diagnostics.values())
        if case in ("nothing scored", "all empty"):
            assert not slope.any()
            assert not loss.loss.any() or objective.needs_rewards  # a pair of empty completions costs ln 2


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_signal_no_gradient(name: str) -> None:
    """All rewards equal: no gradient without KL, except where the formula does not look at advantages."""
    objective = replace(algorithm(name), kl=NoKL())
    _, slope = solve(objective, scenario("all equal", random_batch(3)))
    assert slope.any() == (name == "raft")


@pytest.mark.parametrize("name", ["tis", "mis", "chapter/tis", "chapter/mis"])
def test_an_engine_without_logp_gets_no_weight(name: str) -> None:
    loss, slope = solve(algorithm(name, "kl=none"), scenario("no log μ", random_batch(3)))
    assert not slope.any()
    mask = prepare(algorithm(name), random_batch(3)).tokens.mask
    assert torch.equal(loss.diagnostics["masked"].bool(), mask)


@pytest.mark.parametrize("reward", [math.inf, -math.inf])
def test_infinite_rewards_are_an_error(reward: float) -> None:
    batch = random_batch(0)
    rewards = batch.scores.rewards.clone()
    rewards[2] = reward
    with pytest.raises(ValueError, match="a reward is infinite"):
        prepare(algorithm("grpo"), batch.with_rewards(rewards))


@pytest.mark.parametrize("words", [(), ("aggregation.empty=excluded",)])
def test_unscored_completions_leave_the_denominator(words: tuple[str, ...]) -> None:
    """The loss with a NaN row is the loss without that row; an empty completion counts as the part says."""
    objective = algorithm("grpo", *words)
    batch = random_batch(1, empty=False)
    rewards = batch.scores.rewards.clone()
    rewards[4] = math.nan
    expected, _ = solve(objective, batch.with_rewards(rewards))
    others = torch.arange(len(rewards)) != 4
    columns = {n: x[others] for n, x in batch.columns.items()}
    scores = batch.with_rewards(rewards).scores
    scores = type(scores)(scores.rewards[others], scores.weights, scores.groups[others], scores.accuracy[others])
    loss, _ = solve(
        objective, Batch(batch.logp[others], batch.sampled[others], scores, batch.truncated[others], columns)
    )
    torch.testing.assert_close(loss.loss, expected.loss, rtol=1e-12, atol=1e-15)


def test_four_aggregations_of_one_batch() -> None:
    """Per-token losses A: [4], B: [1, 1, 1], L = 4.

    sequence_mean (4 + 1)/2 = 2.5; token_mean (4 + 3)/4 = 1.75; constant (4 + 3)/(2·4) = .875; sequence_sum 7/2 = 3.5;
    prompt_mean, each its own prompt: (4/1 + 3/3)/2 = 2.5.
    """
    mask = torch.tensor([[True, False, False], [True, True, True]])
    losses = torch.tensor([[4.0, 9.0, 9.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    groups = torch.tensor([0, 1])
    wanted = {"sequence_mean": 2.5, "token_mean": 1.75, "constant": 0.875, "sequence_sum": 3.5, "prompt_mean": 2.5}
    for option, value in wanted.items():
        objective = algorithm("grpo", f"aggregation={option}")
        share = objective.aggregation.weights(mask, groups, objective.totals(mask, groups, 4), losses)
        assert (losses * share).sum().item() == pytest.approx(value, rel=1e-12)


def test_totals() -> None:
    mask = torch.tensor([[True, True], [False, False], [True, False], [True, True]])
    rows = torch.tensor([True, True, True, False])
    totals = algorithm("grpo").totals(mask, torch.tensor([5, 5, 9, 11]), BUDGET, rows)
    assert (totals.tokens, totals.sequences, totals.nonempty, totals.groups) == (3, 3, 2, 2)
    assert totals.group_tokens == {5: 2, 9: 1, 11: 0}
    assert totals.max_completion_tokens == BUDGET
