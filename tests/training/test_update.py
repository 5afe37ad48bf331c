"""The update: its gradient is the loss's, whatever the micro-batches, the order and the padding."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from grpo.algorithm import aggregation, entropy, kl, surrogate
from grpo.data import Tokens
from grpo.training.batch import microbatches, minibatches
from grpo.training.logprobs import completion_logps
from tests.conftest import make_llama
from tests.training import worlds

INFINITE = 1e9  # max_grad_norm that never clips


def gradient_of(parts=None, *, tokens_per_microbatch: int = 60, shuffle: bool = False, reference=None) -> torch.Tensor:
    """Gradient of one on-policy update on the same samples."""
    policy = make_llama()
    settings = worlds.config(tokens_per_microbatch=tokens_per_microbatch, max_grad_norm=INFINITE)
    made = worlds.module(policy, settings, parts, reference=reference)
    batch = made.prepare(worlds.sampled(made))
    if shuffle:
        batch = batch.select(torch.randperm(len(batch), generator=torch.Generator().manual_seed(1)))
    worlds.freeze_optimizer(made)
    made.update(made.score(batch), 0)
    return worlds.gradients(policy)


PARTS = {
    "grpo": lambda: worlds.objective(),
    "grpo+kl": lambda: worlds.objective(kl=kl.K3(coef=0.3)),
    "token_mean": lambda: worlds.objective(aggregation=aggregation.TokenMean()),
    "entropy": lambda: worlds.objective(entropy=entropy.LossBonus(coef=0.1)),
}


@pytest.mark.parametrize("name", PARTS)
def test_microbatches_and_order_change_nothing(name: str) -> None:
    reference = make_llama(seed=5) if name == "grpo+kl" else None
    whole = gradient_of(PARTS[name](), tokens_per_microbatch=10**6, reference=reference)
    assert float(whole.norm()) > 1e-3
    for tokens in (1, 30, 70):
        parts = gradient_of(PARTS[name](), tokens_per_microbatch=tokens, reference=reference)
        torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-12)
    mixed = gradient_of(PARTS[name](), shuffle=True, reference=reference)
    torch.testing.assert_close(mixed, whole, rtol=1e-9, atol=1e-12)


def test_the_gradient_is_that_of_the_written_loss() -> None:
    # −1/N Σ_i 1/|o_i| Σ_t [exp(log π − log π.detach()) A_i − β k3] + coefficient · entropy, by plain autograd
    policy, reference = make_llama(), make_llama(seed=5)
    parts = worlds.objective(kl=kl.K3(coef=0.3), entropy=entropy.LossBonus(coef=0.1))
    made = worlds.module(policy, worlds.config(max_grad_norm=INFINITE), parts, reference=reference)
    experience = worlds.sampled(made)
    batch = made.prepare(experience)
    worlds.freeze_optimizer(made)
    made.update(made.score(batch), 0)
    ours = worlds.gradients(policy)

    policy.zero_grad()
    kept = [i for i in range(len(batch)) if batch.in_loss[i]]
    arguments = {"temperature": 0.9, "pad_id": 0}
    prompts, rollouts = [batch.prompts[i] for i in kept], [batch.rollouts[i] for i in kept]
    logp, h, *_ = completion_logps(policy, prompts, rollouts, **arguments, entropy_gradient=True)
    with torch.no_grad():
        ref, *_ = completion_logps(reference, prompts, rollouts, **arguments)
    mask = batch.mask[kept][:, : logp.shape[1]]
    d = ref - logp
    k3 = d.exp() - d - 1
    objective = (logp - logp.detach()).exp() * batch.advantages[kept].unsqueeze(1) - 0.3 * k3
    lengths = mask.sum(dim=1)
    loss = -((objective * mask).sum(dim=1) / lengths).mean() - 0.1 * h[mask].mean()
    loss.backward()
    torch.testing.assert_close(ours, worlds.gradients(policy), rtol=1e-9, atol=1e-12)


def test_first_update_has_ratio_one_and_clips_nothing() -> None:
    made = worlds.module(make_llama())
    made.update(made.score(made.prepare(worlds.sampled(made))), 0)
    metrics = made.meters.compute()
    assert metrics["policy/ratio_min"] == metrics["policy/ratio_max"] == 1.0
    assert metrics["surrogate/clip_low"] == metrics["surrogate/clip_high"] == 0.0
    assert metrics["mismatch/abs_logp_max"] < 1e-10


def test_old_log_probs_of_later_updates_are_those_before_the_first() -> None:
    policy = make_llama()
    made = worlds.module(policy, worlds.config(updates=worlds.updates(epochs=2, minibatches=2)))
    batch = made.score(made.prepare(worlds.sampled(made)))
    expected, *_ = made.passes.logps(policy, batch, batch.active.nonzero().squeeze(-1))
    results = made.update(batch, 0)
    assert [r.outcome for r in results] == ["updated"] * 4
    active = batch.active
    torch.testing.assert_close(batch.logp_old[active], expected[active], rtol=1e-12, atol=1e-12)
    # The weights have moved by then, and the ratio saw it.
    assert made.meters.compute()["policy/ratio_max"] > 1.001
    now, *_ = made.passes.logps(policy, batch, active.nonzero().squeeze(-1))
    assert float((now - expected).abs().max()) > 1e-3


def test_ratio_of_the_second_minibatch() -> None:
    # One update of the first minibatch, then ρ = exp(log π_now − log π_before) on the second.
    policy = make_llama()
    seen = []

    class Watch(surrogate.Clip):
        def __call__(self, log_ratio, advantages, tokens):
            seen.append((tokens.groups.tolist(), log_ratio.detach().clone(), tokens.mask.clone()))
            return super().__call__(log_ratio, advantages, tokens)

    settings = worlds.config(updates=worlds.updates(minibatches=2), tokens_per_microbatch=10**6)
    made = worlds.module(policy, settings, worlds.objective(surrogate=Watch(low=0.2, high=0.2)))
    batch = made.score(made.prepare(worlds.sampled(made)))
    before, *_ = made.passes.logps(policy, batch, batch.active.nonzero().squeeze(-1))
    after_first = {}
    original = made.optimizers().step

    def step() -> None:
        original()
        after_first.setdefault("logp", made.passes.logps(policy, batch, batch.active.nonzero().squeeze(-1))[0])

    made.optimizers().step = step  # type: ignore[union-attr, method-assign]
    made.update(batch, 0)
    assert float(seen[0][1].abs().max()) == 0.0
    rows = minibatches(batch.groups, 2, epoch=0, seed=0, step=0)[1]
    minibatch = batch.select(rows)
    (order,) = microbatches(minibatch, 10**6)
    expected = (after_first["logp"] - before)[rows][order]
    _, log_ratio, mask = seen[1]
    torch.testing.assert_close(log_ratio[mask], expected[:, : mask.shape[1]][mask], rtol=1e-9, atol=1e-11)
    assert float(log_ratio.abs().max()) > 1e-4


def test_a_minibatch_without_weight_makes_no_optimizer_call() -> None:
    policy = make_llama()

    class Constant(worlds.EvenSum):
        def score(self, prompts, rollouts, **_):
            scores = super().score(prompts, rollouts)
            return replace(scores, rewards=torch.ones_like(scores.rewards), accuracy=torch.ones_like(scores.accuracy))

    made = worlds.module(policy, worlds.config(updates=worlds.updates(minibatches=3)), scorer=Constant())
    warm = worlds.module(policy, worlds.config())
    warm.training_step(0, 0)  # gives the optimizer momentum
    made.optimizers = warm.optimizers  # type: ignore[method-assign]
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    made.training_step(1, 0)
    assert made.metrics["updates/empty"] == 3
    assert made.metrics["updates/total"] == 0
    assert made.metrics["groups/all_right"] == 1.0
    assert all(torch.equal(before[name], value) for name, value in policy.state_dict().items())


def test_dead_groups_cost_no_forward_pass() -> None:
    made = worlds.module(make_llama())
    batch = made.prepare(worlds.sampled(made))
    dead = [i for i in range(len(batch)) if batch.advantages[i] == 0]
    assert dead
    forwarded = [i for part in microbatches(batch, 60) for i in part.tolist()]
    assert not set(dead) & set(forwarded)
    with_kl = worlds.module(make_llama(), parts=worlds.objective(kl=kl.K3(coef=0.1)), reference=make_llama())
    batch = with_kl.prepare(worlds.sampled(with_kl))
    assert set(dead) & {i for part in microbatches(batch, 60) for i in part.tolist()}


def test_unscored_completions_leave_baseline_and_loss() -> None:
    made = worlds.module(make_llama(), group_size=32)
    experience = worlds.sampled(made)
    batch = made.prepare(experience)
    unscored = ~experience.scores.scored
    assert 0 < int(unscored.sum()) < len(batch)
    assert not batch.mask[unscored].any()
    assert not batch.in_loss[unscored].any()
    assert float(batch.advantages[unscored].abs().sum()) == 0.0
    totals = made.objective.totals(batch.mask, batch.groups, worlds.TOKENS, batch.in_loss)
    assert totals.sequences == len(batch) - int(unscored.sum())


def test_weights_of_the_samples_are_dj_dlogp() -> None:
    # On-policy and unclipped, J = ρ A with ρ = 1: the weight of every token is its completion's advantage.
    made = worlds.module(make_llama())
    made.training_step(0, 0)
    rows = [row for row in made.samples if row["advantage"] != 0]
    assert rows
    for row in rows:
        assert row["weight"] == pytest.approx([row["advantage"]] * len(row["token_ids"]))
        assert row["logp_old"] == pytest.approx(row["logp_rollout"], abs=1e-9)


def test_gradient_clipping_reports_the_norm_before() -> None:
    policy = make_llama()
    made = worlds.module(policy, worlds.config(max_grad_norm=1e-3))
    worlds.freeze_optimizer(made)
    made.update(made.score(made.prepare(worlds.sampled(made))), 0)
    assert float(worlds.gradients(policy).norm()) == pytest.approx(1e-3, rel=1e-3)
    assert made.meters.compute()["grad_norm"] > 1e-2
    assert made.meters.compute()["grad_clipped"] == 1.0


def test_differentiate_leaves_padding_alone() -> None:
    from grpo.training.update import differentiate

    parts = worlds.objective()
    mask = torch.tensor([[True, True], [True, False]])
    logp = torch.tensor([[-0.5, -0.7], [-1.0, float("nan")]], dtype=torch.float64)
    tokens = Tokens(logp, mask, torch.tensor([1.0, -1.0], dtype=torch.float64), torch.tensor([0, 0]))
    found = differentiate(parts, tokens, parts.totals(mask, tokens.groups, 2))
    # −A/(N |o|): −1/4, −1/4 and +1/2; weight = A
    assert found.logp_gradient.tolist() == [[-0.25, -0.25], [0.5, 0.0]]
    assert found.weight.tolist() == [[1.0, 1.0], [-1.0, 0.0]]
