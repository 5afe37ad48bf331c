"""Each algorithm with every other option of every axis: it computes something finite, or is refused with a reason."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from batches import ALGORITHMS, algorithm, prepare, random_batch, solve
from golden import composer

from grpo.algorithm.form import AXES
from grpo.algorithm.kl import NoKL
from grpo.config import components

OPTIONS = {axis: composer().groups[axis] for axis in AXES}


@cache
def every_part() -> dict[tuple[str, str], Any]:
    """(axis, option) -> part. Each composition takes the i-th option of every axis: composing them apart is slow."""
    found = {}
    for i in range(max(map(len, OPTIONS.values()))):
        chosen = {axis: options[i] for axis, options in OPTIONS.items() if i < len(options)}
        plain = composer().compose([f"{axis}={option}" for axis, option in chosen.items()])
        for axis, option in chosen.items():
            found[axis, option], mistakes = components.build(plain[axis], axis)
            assert not mistakes
    return found


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_swap_computes_or_is_refused(name: str) -> None:
    base, batch = algorithm(name), random_batch(4, functions=2)
    for (axis, option), part in every_part().items():
        objective = replace(base, **{axis: part})
        if objective.conflicts():
            assert all(": use " in sentence for sentence in objective.conflicts())
            continue
        loss, slopes = solve(objective, batch)
        assert loss.loss.isfinite(), (axis, option)
        assert slopes.isfinite().all(), (axis, option)
        assert not slopes.where(~batch.sampled, 0.0).any()
        assert not slopes.where(batch.sampled, 0.0).isnan().any()
        described = objective.describe()
        assert described == repr(objective)
        assert "object at" not in described


def test_refusals() -> None:
    """A correction beside anchor=rollout would divide by μ twice; top-K divergences need the engine's μ."""
    both = replace(algorithm("dppo"), correction=algorithm("tis").correction).conflicts()
    assert both == ["ratio.anchor=rollout already divides by the engine's μ: use correction=none or ratio.anchor=old"]
    topk = replace(algorithm("dppo", "surrogate=divergence_mask_topk_tv"), ratio=algorithm("grpo").ratio).conflicts()
    assert topk == [
        "surrogate.kind=topk_tv compares with the engine's top tokens: use ratio.anchor=rollout or "
        "surrogate.kind=binary_tv"
    ]
    for name in ALGORITHMS:
        assert algorithm(name).conflicts() == []


def test_what_an_algorithm_needs() -> None:
    """No reference at β = 0, log μ only for corrections and anchor=rollout, every row only where A = 0 still acts."""
    names = ("grpo", "dapo", "tis", "vespo", "dpo", "raft", "chapter/dr_grpo")
    found = {n: algorithm(n) for n in names}
    assert {n: (o.needs_reference, o.needs_rollout_logp, o.needs_every_row) for n, o in found.items()} == {
        "grpo": (True, False, True),
        "dapo": (False, False, False),
        "tis": (True, True, True),
        "vespo": (False, True, False),
        "dpo": (True, False, True),
        "raft": (False, False, True),
        "chapter/dr_grpo": (True, False, True),
    }
    assert not algorithm("grpo", "kl.coef=0").needs_reference
    assert not algorithm("grpo", "kl.coef=0").needs_every_row
    assert algorithm("chapter/dr_grpo", "kl=none").needs_reference
    assert algorithm("grpo", "kl=k1_reward").needs_reference
    assert not algorithm("grpo", "kl=k1_reward").needs_every_row
    assert algorithm("dapo", "entropy=loss_bonus").needs_every_row
    assert algorithm("dapo", "entropy=reward_bonus").bonus
    assert algorithm("reinforce_pp").bonus
    assert algorithm("dppo", "surrogate=divergence_mask_topk_kl").top_k == 20
    assert algorithm("chapter/dppo", "surrogate.kind=topk_tv").needs_whole_update


def test_rows_without_advantage_may_be_skipped() -> None:
    """Where needs_every_row is False, completions with A = 0 have no gradient."""
    batch = random_batch(9, functions=1)
    for name in ALGORITHMS:
        objective = replace(algorithm(name), kl=NoKL())
        if objective.needs_every_row:
            continue
        prepared = prepare(objective, batch)
        _, slopes = solve(objective, batch)
        assert not slopes[prepared.tokens.advantages == 0].any(), name


def test_what_is_inert() -> None:
    cure = "no effect with one update per rollout (updates.minibatches=4 makes it matter)"
    assert algorithm("dapo").inert(1) == [f"clip: {cure}"]
    assert algorithm("gspo").inert(1) == [f"sequence ratio: {cure}", f"clip: {cure}"]
    assert algorithm("dapo").inert(4) == []
    assert algorithm("dppo").inert(1) == []
    assert algorithm("chapter/sapo").inert(1) == []
    assert algorithm("dpo").inert(1) == [
        "advantage, credit, ratio, surrogate, correction, aggregation: not read by form=contrastive"
    ]


def test_unsafe_formulas_say_so() -> None:
    unsafe = {name for name in ALGORITHMS if algorithm(name).unsafe}
    assert unsafe == {"chapter/sapo", "chapter/dppo"}
    assert "already at ρ = 1" in algorithm("chapter/sapo", "surrogate.tau_neg=0.4").unsafe[0]
    assert algorithm("chapter/vespo", "surrogate.detach=false").unsafe
    assert algorithm("chapter/dppo", "surrogate.level=sequence").unsafe[0].startswith("divergence_mask_chapter: π of a")


def test_descriptions() -> None:
    assert algorithm("dapo").describe() == (
        "soft_overlong(last 0.20 of the budget, weight 1) -> group_zscore -> token ratio -> clip(0.20, 0.28) -> "
        "token_mean · no KL · no entropy bonus · mixed_groups(by accuracy, ≤ 10 rounds, then train) · "
        "no overlong filter"
    )
    assert algorithm("dpo").describe() == (
        "contrastive(β = 0.10, against ref, diverse by jaccard(2-grams)) · no KL · no entropy bonus · no filter · "
        "no overlong filter"
    )


def test_penalties_are_not_corrected() -> None:
    """tis with w = 0 everywhere (no log μ) still has GRPO's KL term, to the last bit."""
    batch = random_batch(6)
    blind = batch.with_columns(logp_rollout=torch.full_like(batch.logp, float("-inf")))
    loss, _ = solve(algorithm("tis"), blind)
    assert loss.terms["policy"] == 0
    assert torch.equal(loss.terms["kl"], solve(algorithm("grpo"), batch)[0].terms["kl"])


def test_kl_in_the_reward() -> None:
    """−β Σ_t k1 = −β Σ_t (log π − log π_ref), detached; nothing of it in the loss."""
    objective, batch = algorithm("grpo", "kl=k1_reward"), random_batch(6)
    tokens = prepare(objective, batch).tokens
    gap = (batch.logp - batch.columns["logp_ref"]).where(batch.sampled, 0.0).sum(dim=1)
    torch.testing.assert_close(objective.reward_bonus(tokens), -0.04 * gap, rtol=1e-12, atol=1e-15)
    assert "kl" not in solve(objective, batch)[0].terms


def test_parts_are_imported_without_torch() -> None:
    """The configuration is checked before anything heavy is loaded."""
    modules = "objective form form_contrastive surrogate_divergence advantage credit correction filter overlong shaping"
    code = "import sys\n" + "".join(f"import grpo.algorithm.{m}\n" for m in modules.split())
    subprocess.run([sys.executable, "-c", code + "assert 'torch' not in sys.modules"], check=True)
