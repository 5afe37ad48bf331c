"""Edges where random batches seldom go: floors, ties, empty completions, probabilities that round above one, and what
must carry no gradient. Each test is here because a broken part once passed all others.
"""

from __future__ import annotations

import math
from dataclasses import fields, replace

import pytest
import torch
from batches import algorithm, gradient, prepare, random_batch
from torch import Tensor

from grpo.algorithm import surrogate
from grpo.algorithm.distance import NgramJaccard, Said, diversity
from grpo.algorithm.objective import sanitised
from grpo.algorithm.surrogate_divergence import DivergenceMaskChapter, divergence
from grpo.data import Tokens

F64 = torch.float64


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=F64)


def tokens_of(logp: Tensor, mask: list[list[int]] | None = None, **columns: Tensor) -> Tokens:
    """Completions of one group with A = 1; all their tokens count unless a mask says otherwise."""
    count = len(logp)
    seen = torch.ones_like(logp).bool() if mask is None else torch.tensor(mask).bool()
    return Tokens(logp, seen, torch.ones(count, dtype=F64), torch.zeros(count, dtype=torch.int64), **columns)


# ---- surrogates


def test_the_kernel_has_a_floor() -> None:
    """log W = −20 is read as ln 1e-8: with k = ½, λ = 0 the weight is √1e-8 = 1e-4, not e^−10 = 4.5e-5."""
    part = surrogate.Kernel(k_pos=0.5, lam_pos=0.0)
    logp = rows([-3.0]).requires_grad_()
    value = part(rows([-20.0]), rows([1.0]), tokens_of(logp))
    assert torch.autograd.grad(value.sum(), logp)[0].item() == pytest.approx(1e-4, rel=1e-12)


def test_a_weight_per_completion_is_shared_by_its_tokens() -> None:
    """At W = 1, π = ½: one token has all of φ A = 1, or π A = ½; an empty completion divides by 1, not by 0."""
    tokens = tokens_of(rows([math.log(0.5), 0.0], [0.0, 0.0]), [[1, 0], [0, 0]])
    tokens = tokens.replace(logp_old=tokens.logp)
    ones = torch.ones_like(tokens.logp)
    differentiated = surrogate.Kernel(detach=False)(torch.zeros_like(ones), ones, tokens)
    assert differentiated.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    whole = DivergenceMaskChapter(level="sequence")(torch.zeros_like(ones), ones, tokens)
    assert whole.flatten().tolist() == pytest.approx([0.5, 0.5, 1.0, 1.0])


def test_a_probability_above_one_leaves_no_negative_rest() -> None:
    """μ = 1.001 by rounding, π = ½: TV = ½ (|1.001 − .5| + |0 − .5|) = .5005; a rest of −.001 would make it .501."""
    tokens = tokens_of(rows([math.log(0.5)]), logp_old=rows([math.log(1.001)]))
    assert divergence("binary_tv", tokens).item() == pytest.approx(0.5005, rel=1e-9)


@pytest.mark.parametrize("kind", ["binary_tv", "binary_kl", "topk_tv", "topk_kl"])
def test_a_divergence_has_no_gradient(kind: str) -> None:
    tokens = prepare(algorithm("dppo"), random_batch(3, empty=False)).tokens
    tokens = tokens.replace(logp=tokens.logp.clone().requires_grad_(), logp_old=tokens.logp_rollout)
    assert not divergence(kind, tokens).requires_grad


def test_a_masked_token_takes_no_place_among_the_k_largest() -> None:
    """D = π log(π/π_old) = .2 ln .4 < 0 at the token that counts, 0 in the padding: k = 1 keeps the former."""
    tokens = tokens_of(rows([math.log(0.2), 0.0]), [[1, 0]], logp_old=rows([math.log(0.5), 0.0]))
    assert DivergenceMaskChapter(kind="topk_kl", keep=1).inside(tokens).tolist() == [[True, False]]


def test_what_the_chapters_dppo_counts_as_masked() -> None:
    """π_old = ½, π = .2, .5, .9: D = .3, 0, .4 > δ = .1 at the ends, on the side to which A pushes; A = 0: neither."""
    tokens = tokens_of(rows([0.2, 0.5, 0.9]).log(), logp_old=rows([0.5, 0.5, 0.5]).log())
    part, nowhere, ends = DivergenceMaskChapter(delta=0.1), [[False] * 3], [[True, False, True]]
    for sign, low, high in ((1.0, nowhere, ends), (-1.0, ends, nowhere), (0.0, nowhere, nowhere)):
        seen = part.diagnostics(rows([0.0, 0.0, 0.0]), rows([sign, sign, sign]), tokens)
        found = seen["clip_low"].tolist(), seen["clip_high"].tolist(), seen["masked"].tolist()
        assert found == (low, high, ends)


# ---- the loss


def test_a_penalised_token() -> None:
    """One token, ρ = 1, A = 1, π_ref = 2π: k3 = 2 − ln 2 − 1, J = 1 − ½ (1 − ln 2) = .8466, loss −J."""
    objective = algorithm("grpo", "kl.coef=0.5")
    tokens = tokens_of(rows([-2.0]), logp_ref=rows([-2.0 + math.log(2)]))
    loss = objective(tokens, objective.totals(tokens.mask, tokens.groups, 1))
    assert loss.objective.item() == pytest.approx(1 - 0.5 * (1 - math.log(2)), rel=1e-12)
    assert loss.loss.item() == pytest.approx(-loss.objective.item(), rel=1e-12)


def test_the_entropy_bonus_is_a_mean_over_all_tokens() -> None:
    """H = .5, 1 | 1.5 in two completions: −.1 · 3/3, whatever stands in the padding."""
    objective = algorithm("grpo", "kl=none", "entropy=loss_bonus", "entropy.coef=0.1")
    tokens = tokens_of(rows([-1, -1], [-1, -1]), [[1, 1], [1, 0]], entropy=rows([0.5, 1.0], [1.5, 9.0]))
    loss = objective(tokens, objective.totals(tokens.mask, tokens.groups, 2))
    assert loss.terms["entropy"].item() == pytest.approx(-0.1, rel=1e-12)


def test_the_weight_of_a_pair() -> None:
    """β = ½, h = (−1 + 2) − (−3 + 3) = 1, two pairs in the step: w = ±½ σ(−½)/2 on each token, −∂loss/∂log π."""
    objective = algorithm("chapter/two_grpo", "kl=none", "form.beta=0.5")
    tokens = tokens_of(rows([-1.0], [-3.0]), logp_old=rows([-2.0], [-3.0]), rewards=rows([1.0, 0.0])[0])
    totals = replace(objective.totals(tokens.mask, tokens.groups, 1, None, tokens.rewards), pairs=2)
    logp = tokens.logp.clone().requires_grad_()
    loss = objective(tokens.replace(logp=logp), totals)
    push = 0.5 / (1 + math.exp(0.5)) / 2
    assert torch.autograd.grad(loss.objective.sum(), logp, retain_graph=True)[0].flatten().tolist() == pytest.approx(
        [push, -push], rel=1e-12
    )
    assert torch.autograd.grad(loss.loss, logp)[0].flatten().tolist() == pytest.approx([-push, push], rel=1e-12)


@pytest.mark.parametrize("name", ["grpo", "tis", "dppo", "chapter/vespo", "dpo", "raft"])
def test_what_is_recorded_is_zero_in_the_padding_and_has_no_gradient(name: str) -> None:
    """There ρ is 1 and J is A: metrics that are summed over all positions would count the padding."""
    prepared = prepare(algorithm(name), random_batch(3))
    loss, _ = gradient(algorithm(name), prepared.tokens, prepared.totals)
    assert not loss.objective[~prepared.tokens.mask].any()
    for values in loss.diagnostics.values():
        assert not values[~prepared.tokens.mask].any()
        assert not values.requires_grad


# ---- the objective


def test_which_log_probs_an_algorithm_reads() -> None:
    """log π_old where a ratio or a pair divides by it; log π_ref for any penalty, also beside a likelihood."""
    old = {name: algorithm(name).needs_old for name in ("grpo", "vespo", "dpo", "chapter/two_grpo", "raft")}
    assert old == {"grpo": True, "vespo": False, "dpo": False, "chapter/two_grpo": True, "raft": False}
    assert algorithm("raft", "kl=k3").needs_reference
    assert not algorithm("raft", "kl=none").needs_reference


def test_only_the_policy_and_what_it_says_of_itself_have_a_gradient() -> None:
    """log π, its entropy and its exact KL; log π_old is a constant also where it is log π."""
    tokens = prepare(algorithm("grpo"), random_batch(3)).tokens
    names = [f.name for f in fields(tokens) if getattr(tokens, f.name) is not None]
    real = {n: x.clone().requires_grad_() for n in names for x in [getattr(tokens, n)] if x.is_floating_point()}
    found = sanitised(tokens.replace(**{**real, "rewards": None}))
    first = sanitised(tokens.replace(logp=real["logp"], logp_old=None))
    carrying = {n for n in names if n != "rewards" and getattr(found, n).requires_grad}
    assert {"advantages", "logp_old", "logp_ref", "logp_rollout", "topk_rollout", "topk_logp"} < set(names)
    assert carrying == {"logp", "entropy", "kl_exact"} & set(names)
    assert first.logp_old is not None
    assert not first.logp_old.requires_grad
    assert torch.equal(first.logp_old, first.logp)


def test_the_exact_penalty_is_computed_where_it_counts() -> None:
    """kl=exact reads whole distributions, not log π_ref of the sampled tokens; β = 0 loads nothing."""
    found = {
        words: (
            objective.needs_reference,
            objective.needs_logp_ref,
            objective.needs_exact_kl,
            objective.trains_exact_kl,
        )
        for words in ("kl=exact", "kl=exact kl.place=reward", "kl=exact kl.coef=0", "kl=k3", "kl=none")
        for objective in [algorithm("grpo", *words.split())]
    }
    assert found == {
        "kl=exact": (True, False, True, True),
        "kl=exact kl.place=reward": (True, False, True, False),
        "kl=exact kl.coef=0": (False, False, False, False),
        "kl=k3": (True, True, False, False),
        "kl=none": (False, False, False, False),
    }


# ---- pairs


def test_the_distance_of_two() -> None:
    """(1, 2) and (3, 2) share no 2-gram: distance 1. Each of a group of two is as diverse as the two are apart."""
    two = [Said("12", (1, 2)), Said("32", (3, 2))]
    assert NgramJaccard()(*two) == 1.0
    assert diversity(two, NgramJaccard()) == [1.0, 1.0]


def test_a_completion_out_of_the_loss_is_in_no_pair() -> None:
    """Rewards 1, ½, 0, the best one out: the pair is ½ against 0."""
    seen, here = rows([1.0, 0.5, 0.0])[0], torch.tensor([False, True, True])
    for name in ("chapter/two_grpo", "grpo"):
        found = algorithm(name).pair_rewards(seen, torch.zeros(3, dtype=torch.int64), here)
        assert found.isnan().tolist() == [True, False, False]
        assert found[1:].tolist() == [0.5, 0.0]


@pytest.mark.parametrize("words", [("kl=k1_reward",), ("entropy=reward_bonus",)])
def test_a_bonus_in_the_reward_has_no_gradient(words: tuple[str, ...]) -> None:
    objective = algorithm("grpo", *words)
    tokens = tokens_of(rows([-1.0]).requires_grad_(), logp_ref=rows([-2.0]), entropy=rows([0.5]).requires_grad_())
    bonus = objective.reward_bonus(tokens)
    assert bonus is not None
    assert bonus.any()
    assert not bonus.requires_grad
