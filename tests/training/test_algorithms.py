"""Every algorithm of conf/algo trains the random policy for two off-policy steps."""

from __future__ import annotations

import math

import pytest
import torch

from grpo.algorithm.form import build
from grpo.config.check import load
from grpo.config.compose import Composer
from tests.conftest import make_llama
from tests.training import worlds

ALGORITHMS = Composer().groups["algo"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_trains_without_a_non_finite_number(name: str) -> None:
    settings, _ = load([f"+algo={name}"])
    objective = build(settings)
    policy = make_llama()
    reference = make_llama(seed=1) if objective.needs_reference else None
    made = worlds.module(
        policy,
        worlds.config(updates=worlds.updates(minibatches=2), optimizer=worlds.adam(1e-3)),
        objective,
        reference=reference,
        group_size=settings.group_size,
    )
    before = {key: value.clone() for key, value in policy.state_dict().items()}
    for step in range(2):
        made.training_step(step, 0)
        for metric, value in made.metrics.items():
            # A mean over nothing is nan: a step without right completions has no length of those.
            if metric not in ("length/right", "length/wrong"):
                assert math.isfinite(value), metric
        assert made.metrics["updates/skipped"] == 0
    assert made.metrics["updates/total"] > 0
    moved = max(float((policy.state_dict()[key] - value).abs().max()) for key, value in before.items())
    # AdamW moves no weight by more than about the learning rate per update; there were at most four.
    assert 0 < moved <= 4 * 1e-3 * 1.05


def test_contrastive_pairs_share_a_micro_batch() -> None:
    """Splitting the update changes nothing although pairs are compared: groups stay whole."""

    def gradient(tokens: int) -> torch.Tensor:
        settings, _ = load(["+algo=dpo"])
        policy = make_llama()
        made = worlds.module(
            policy,
            worlds.config(tokens_per_microbatch=tokens, max_grad_norm=1e9),
            build(settings),
            reference=make_llama(seed=1),
        )
        worlds.freeze_optimizer(made)
        made.update(made.score(made.prepare(worlds.sampled(made))), 0)
        return worlds.gradients(policy)

    whole = gradient(10**6)
    assert float(whole.norm()) > 1e-3
    torch.testing.assert_close(gradient(1), whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["divergence_mask_topk_tv", "divergence_mask_topk_kl"])
def test_dppo_sees_the_engines_top_tokens(kind: str) -> None:
    settings, _ = load(["+algo=dppo", f"surrogate={kind}"])
    objective = build(settings)
    policy = make_llama()
    made = worlds.module(policy, worlds.config(updates=worlds.updates(minibatches=2)), objective)
    made.training_step(0, 0)
    # The first minibatch is on-policy: μ = π, every divergence is 0 and nothing is masked. The second has moved.
    assert made.metrics["updates/total"] == 2
    assert all(len(r.topk_ids[0]) == 20 for r in made.collector.sample(worlds.Book().train(0, 1), step=0, stream="x"))
    on_policy = worlds.module(make_llama(), worlds.config(), objective)
    on_policy.training_step(0, 0)
    assert on_policy.metrics["surrogate/clip_low"] == on_policy.metrics["surrogate/clip_high"] == 0.0
    assert on_policy.metrics["policy/ratio_max"] == pytest.approx(1.0, abs=1e-9)


def test_pairs_against_the_old_policy_do_not_depend_on_the_ratio() -> None:
    """form=contrastive_old reads log π_old whatever the ratio, which it does not read, is anchored at."""

    def trained(*overrides: str) -> torch.Tensor:
        settings, _ = load(["form=contrastive_old", "kl=none", *overrides])
        policy = make_llama()
        made = worlds.module(policy, worlds.config(updates=worlds.updates(epochs=2)), build(settings))
        made.training_step(0, 0)
        return torch.cat([p.detach().flatten() for p in policy.parameters()])

    assert torch.equal(trained("ratio=token_rollout"), trained())


@pytest.mark.parametrize(("algorithm", "read"), [("raft", False), ("dpo", False), ("dppo", False), ("grpo", True)])
def test_the_old_pass_is_made_where_it_is_read(algorithm: str, read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, _ = load([f"+algo={algorithm}"])
    policy = make_llama()
    two = worlds.config(updates=worlds.updates(minibatches=2))
    made = worlds.module(policy, two, build(settings), reference=make_llama(seed=1))
    scored = []
    logps = made.passes.logps

    def watched(model, batch, rows):
        scored.extend(rows.tolist() if model is policy else [])
        return logps(model, batch, rows)

    monkeypatch.setattr(made.passes, "logps", watched)
    batch = made.prepare(worlds.sampled(made))
    made.score(batch)
    second = set(made.minibatches(batch, 0, 0)[1].tolist()) & set(batch.active.nonzero().squeeze(-1).tolist())
    assert second
    assert sorted(scored) == (sorted(second) if read else [])
