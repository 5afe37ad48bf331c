"""What each variant promises, beyond single numbers: the properties of its paper, and equalities between variants."""

from __future__ import annotations

import math

import pytest
import torch
from batches import ALGORITHMS, Batch, algorithm, prepare, random_batch, solve, weights
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from grpo.algorithm import advantage, correction, credit, filter, kl, shaping, surrogate
from grpo.algorithm.part import moments, varies
from grpo.algorithm.surrogate_divergence import DivergenceMask, DivergenceMaskChapter, divergence
from grpo.data import Scores, Tokens

F64 = torch.float64
EXACT = {"rtol": 1e-12, "atol": 1e-14}
SOME = settings(max_examples=25, deadline=None, derandomize=True)
SEEDS = st.integers(0, 2**31)
REWARDS = st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0, 2.0]), min_size=2, max_size=8)
SIGNS = st.sampled_from([1.0, -1.0])


def scores(rewards: list[float], *more: list[float]) -> Scores:
    """One group, one column per reward function."""
    table = torch.tensor([rewards, *more], dtype=F64).T
    return Scores(
        table, torch.ones(table.shape[1], dtype=F64), torch.zeros(len(rewards), dtype=torch.int64), table[:, 0]
    )


def close(actual: Tensor, expected: Tensor, **tolerance: float) -> None:
    torch.testing.assert_close(actual, expected, **(tolerance or EXACT))


def tokens_of(log_ratio: Tensor, advantages: Tensor) -> Tokens:
    logp = torch.full_like(log_ratio, -0.7)
    groups = torch.zeros(len(logp), dtype=torch.int64)
    return Tokens(logp=logp, mask=torch.ones_like(logp).bool(), advantages=advantages[:, 0], groups=groups)


def slope(part, log_ratio: float, sign: float) -> float:
    """∂J/∂log ρ at A = sign; the surrogate sees log π = log ρ − 0.7."""
    x = torch.tensor([[log_ratio]], dtype=F64, requires_grad=True)
    a = torch.full_like(x, sign).detach()
    tokens = tokens_of(x.detach(), a).replace(logp=x - 0.7, logp_old=torch.full_like(x, -0.7).detach())
    return torch.autograd.grad(part(x, a, tokens).sum(), x)[0].item()


# ---- advantages


@SOME
@given(rewards=REWARDS, scale=st.sampled_from([0.5, 3.0, 40.0]), shift=st.sampled_from([-7.0, 0.0, 2.5]))
def test_z_scores(rewards: list[float], scale: float, shift: float) -> None:
    """Invariant under r → a·r + b; sum 0 and mean square 1 (population) unless the group is constant."""
    rule = advantage.GroupZScore()
    found = rule(scores(rewards))
    close(rule(scores([scale * r + shift for r in rewards])), found, rtol=1e-9, atol=1e-12)
    assert found.sum().item() == pytest.approx(0, abs=1e-12)
    assert found.square().mean().item() == pytest.approx(1.0 if len(set(rewards)) > 1 else 0.0, abs=1e-12)
    size = len(rewards)
    close(advantage.GroupZScore(ddof=1)(scores(rewards)), found * math.sqrt((size - 1) / size))


@SOME
@given(rewards=REWARDS)
def test_two_completions_are_worth_one_sign(rewards: list[float]) -> None:
    """2-GRPO: A is −1, 0 or 1, whatever the gap."""
    pair = rewards[:2]
    sign = (pair[0] > pair[1]) - (pair[0] < pair[1])
    close(advantage.GroupZScore()(scores(pair)), torch.tensor([sign, -sign], dtype=F64))


@SOME
@given(rewards=REWARDS, factor=st.sampled_from([0.5, 4.0]))
def test_dr_grpo_is_rloo_up_to_scale(rewards: list[float], factor: float) -> None:
    """(r − μ) · G/(G − 1) = r − mean of the others; both linear in the rewards."""
    size = len(rewards)
    rloo, mean = advantage.LeaveOneOut(), advantage.GroupMean()
    close(mean(scores(rewards)) * size / (size - 1), rloo(scores(rewards)))
    others = [r - (sum(rewards) - r) / (size - 1) for r in rewards]
    constant = len(set(rewards)) == 1
    close(rloo(scores(rewards)), torch.tensor([0.0] * size if constant else others, dtype=F64), rtol=1e-9, atol=1e-12)
    close(mean(scores([factor * r for r in rewards])), factor * mean(scores(rewards)))


@SOME
@given(first=REWARDS, weight=st.sampled_from([0.25, 3.0]))
def test_gdpo(first: list[float], weight: float) -> None:
    """One reward: GRPO. Invariant under affine maps of each reward; group sum 0; with the batch step mean 0, σ 1."""
    chapter = advantage.RewardDecoupled(eps=0.0, batch_step=False)
    second = [r * r for r in first]
    close(chapter(scores(first)), advantage.GroupZScore()(scores(first)))
    close(
        chapter(scores(first, second)), chapter(scores([weight * r + 1 for r in first], second)), rtol=1e-9, atol=1e-12
    )
    assert chapter(scores(first, second)).sum().item() == pytest.approx(0, abs=1e-12)
    whitened = advantage.RewardDecoupled(eps=0.0)(scores(first, second))
    assert whitened.mean().item() == pytest.approx(0, abs=1e-12)
    assert whitened.square().mean().item() == pytest.approx(1.0 if whitened.any() else 0.0, abs=1e-12)
    order = chapter(scores(first, second)).argsort(stable=True)
    assert (whitened[order].diff() >= -1e-9).all()


def test_gdpo_leaves_out_a_reward_that_does_not_apply() -> None:
    """z of [1, 0, ·] is ±1, 0 for the third; z of [0, 0, 3] is −1/√2, −1/√2, √2."""
    found = advantage.RewardDecoupled(eps=0.0, batch_step=False)(scores([1.0, 0.0, math.nan], [0.0, 0.0, 3.0]))
    half = math.sqrt(0.5)
    close(found, torch.tensor([1 - half, -1 - half, 2 * half], dtype=F64))


@SOME
@given(rewards=REWARDS, map_name=st.sampled_from(["symmetric", "published", "quantile"]))
def test_gopo(rewards: list[float], map_name: str) -> None:
    """Only the order counts; equal rewards equal A; reversed rewards reversed A; bounded for the linear maps."""
    rule = advantage.Ordinal(map=map_name)
    found = rule(scores(rewards))
    close(rule(scores([math.exp(3 * r) for r in rewards])), found)
    close(rule(scores([-r for r in rewards])), -found, rtol=1e-9, atol=1e-12)
    for i, a in enumerate(rewards):
        for j, b in enumerate(rewards):
            assert (found[i] < found[j]) == (a < b)
    if map_name != "quantile":
        assert found.abs().max() <= (2 if map_name == "published" else 1) + 1e-12


@SOME
@given(right=st.lists(st.booleans(), min_size=2, max_size=8))
def test_gopo_on_right_and_wrong_is_rloo(right: list[bool]) -> None:
    """Average ranks on 0/1: a right one gets (N − k)/(N − 1) = 1 − (k − 1)/(N − 1), RLOO's; published: twice."""
    rewards = [float(r) for r in right]
    rloo = advantage.LeaveOneOut()(scores(rewards))
    close(advantage.Ordinal()(scores(rewards)), rloo)
    close(advantage.Ordinal(map="published")(scores(rewards)), 2 * rloo)


@SOME
@given(rewards=REWARDS, factor=st.sampled_from([0.5, 4.0]))
def test_multi_reward(rewards: list[float], factor: float) -> None:
    """A constant reward has no effect, nor has a common factor of the weights."""
    rule = advantage.GroupZScore()
    close(rule(scores(rewards, [5.0] * len(rewards))), rule(scores(rewards)), rtol=1e-9, atol=1e-12)
    table = scores(rewards, [r**3 for r in rewards])
    scaled = Scores(table.rewards, factor * table.weights, table.groups, table.accuracy)
    close(rule(scaled), rule(table), rtol=1e-9, atol=1e-12)


def test_rounding_is_no_spread() -> None:
    """A gap of 1e-9 is noise, one of 1e-7 is a difference; so is 1 between rewards of 1e8."""
    rule = advantage.GroupZScore()
    assert not rule(scores([0.5, 0.5 + 1e-9])).any()
    for pair in ([0.5, 0.5 + 1e-7], [1e8, 1e8 + 1]):
        close(rule(scores(pair)), torch.tensor([-1.0, 1.0], dtype=F64), rtol=1e-6, atol=0.0)


def test_where_spread_begins() -> None:
    """σ > max(1e-8, 1e-12 |μ|), on both sides of each bound and for either sign of μ."""
    sigma = torch.tensor([1.5e-8, 0.9e-8, 1.5e-6, 0.9e-6, 0.9e-6], dtype=F64)
    mean = torch.tensor([0.0, 0.0, 1e6, 1e6, -1e6], dtype=F64)
    assert varies(sigma, mean).tolist() == [True, False, True, False, False]


def test_groups_without_spread_have_finite_moments() -> None:
    """Nobody scored: mean 0, σ 0, count 0; one scored, sample σ: mean 3, σ 0."""
    values, valid = torch.tensor([math.nan, 3.0], dtype=F64), torch.tensor([False, True])
    found = moments(values, torch.tensor([5, 8]), valid, ddof=1)
    assert [x.tolist() for x in found] == [[0.0, 3.0], [0.0, 0.0], [0.0, 1.0]]


def test_groups_go_by_id_not_by_position() -> None:
    """ids [a, b, a, b, a], rewards [1, 1, 0, 0, 0]: [2/3, 1/2, −1/3, −1/2, −1/3]; a group of one gets 0."""
    rewards = torch.tensor([[1.0], [1], [0], [0], [0], [9]], dtype=F64)
    groups = torch.tensor([40, 7, 40, 7, 40, 8])
    found = advantage.GroupMean()(Scores(rewards, torch.ones(1, dtype=F64), groups, rewards[:, 0]))
    close(found, torch.tensor([2 / 3, 1 / 2, -1 / 3, -1 / 2, -1 / 3, 0], dtype=F64))


@pytest.mark.parametrize(("map_name", "best"), [("symmetric", 1.0), ("published", 2.0), ("literal", 1.0)])
def test_an_unscored_completion_has_no_rank(map_name: str, best: float) -> None:
    """Rewards [1, None, 0] rank as [2, –, 1] of 2: [1, 0, −1], twice that, and literal 2u − 1: [1, 0, 0]."""
    found = advantage.Ordinal(map=map_name)(scores([1.0, math.nan, 0.0]))
    assert found.tolist() == [best, 0.0, 0.0 if map_name == "literal" else -best]


def test_an_unscored_completion_is_not_a_wrong_one() -> None:
    """Rewards [1, None, 0, 0]: baseline 1/3 over the scored ones, A = [2/3, 0, −1/3, −1/3]."""
    found = advantage.GroupMean()(scores([1.0, math.nan, 0.0, 0.0]))
    close(found, torch.tensor([2 / 3, 0, -1 / 3, -1 / 3], dtype=F64))


# ---- surrogates


@SOME
@given(x=st.floats(-2, 2), sign=SIGNS, high=st.sampled_from([0.2, 0.28, math.inf]))
def test_clip(x: float, sign: float, high: float) -> None:
    """No gradient beyond the bound in A's direction, ρ·A everywhere else."""
    ratio = math.exp(x)
    beyond = ratio > 1 + high if sign > 0 else ratio < 0.8
    assert slope(surrogate.Clip(high=high), x, sign) == pytest.approx(0.0 if beyond else sign * ratio, rel=1e-12)


@SOME
@given(x=st.floats(-2, 2), sign=SIGNS, tau=st.sampled_from([0.5, 1.0, 1.05, 3.0]))
def test_soft_gate(x: float, sign: float, tau: float) -> None:
    """Slope in ρ: 4 σ(1 − σ) ≤ 1, with 1 at ρ = 1 only, the same on both sides; τ → 0 is the unclipped objective."""
    part, flat = surrogate.SoftGate(tau_pos=tau, tau_neg=tau), surrogate.SoftGate(tau_pos=1e-6, tau_neg=1e-6)
    ratio = math.exp(x)
    found = sign * slope(part, x, sign) / ratio
    assert 0 < found <= 1
    assert (found == pytest.approx(1.0, abs=1e-12)) == (abs(ratio - 1) < 1e-5)
    if ratio < 2:
        assert sign * slope(part, math.log(2 - ratio), sign) / (2 - ratio) == pytest.approx(found, rel=1e-9)
    assert sign * slope(flat, x, sign) == pytest.approx(ratio, rel=1e-9)


@SOME
@given(x=st.floats(-3, 3), sign=SIGNS, cap=st.sampled_from([1.28, 5.0, math.inf]))
def test_capped_tokens_keep_learning(x: float, sign: float, cap: float) -> None:
    """CISPO's weight is min(ρ, cap)·A; without a cap it is importance-sampled REINFORCE."""
    assert slope(surrogate.DetachedCap(cap=cap), x, sign) == pytest.approx(sign * min(math.exp(x), cap), rel=1e-12)


@SOME
@given(k=st.floats(0.5, 4), lam=st.floats(0.5, 4), x=st.floats(-6, 6), sign=SIGNS)
def test_kernel(k: float, lam: float, x: float, sign: float) -> None:
    """φ(1) = 1; 0 ≤ φ ≤ (k/λ)^k e^(λ − k), reached at W = k/λ; k = 1, λ = 0 is plain importance sampling."""
    part = surrogate.Kernel(k_pos=k, lam_pos=lam, k_neg=k, lam_neg=lam)
    assert sign * slope(part, 0.0, sign) == pytest.approx(1.0, rel=1e-12)
    top = (k / lam) ** k * math.exp(lam - k)
    assert 0 <= sign * slope(part, x, sign) <= top * (1 + 1e-12)
    assert sign * slope(part, math.log(k / lam), sign) == pytest.approx(top, rel=1e-9)
    plain = surrogate.Kernel(k_pos=1, lam_pos=0, k_neg=1, lam_neg=0)
    assert sign * slope(plain, x, sign) == pytest.approx(math.exp(x), rel=1e-12)


@SOME
@given(seed=SEEDS, sign=SIGNS, kind=st.sampled_from(["binary_tv", "binary_kl", "topk_tv", "topk_kl"]))
def test_divergence_mask(seed: int, sign: float, kind: str) -> None:
    """Nothing masked at π = μ; more δ, fewer masked; a token that moves back towards μ never is."""
    batch = random_batch(seed, empty=False)
    tokens = prepare(algorithm("dppo"), batch).tokens.replace(logp_old=batch.columns["logp_rollout"])
    advantages = torch.full_like(tokens.logp, sign)

    def masked(delta: float, seen: Tokens = tokens) -> Tensor:
        part = DivergenceMask(kind=kind, delta_low=delta, delta_high=delta)
        low, high = part.outside(advantages, seen)
        return (low | high) & batch.sampled

    same = tokens.replace(logp=tokens.logp_old, topk_logp=tokens.topk_rollout)
    assert not masked(1e-9, same).any()
    assert not (masked(0.2) & ~masked(0.1)).any()
    back = sign * (tokens.logp - tokens.logp_old) < 0
    assert not (masked(0.0) & back).any()
    coarse, fine = (
        divergence(kind.replace("topk", "binary"), tokens),
        divergence(kind.replace("binary", "topk"), tokens),
    )
    assert (coarse <= fine + 1e-9)[batch.sampled].all()  # data processing


def test_divergence_of_a_certain_token_is_finite() -> None:
    """μ = 1, π = ½: TV ½; KL = 1·log 2, the empty rest adds nothing."""
    new = torch.full((1, 1), math.log(0.5), dtype=F64)
    tokens = tokens_of(new, new).replace(logp=new, logp_old=torch.zeros_like(new))
    close(divergence("binary_tv", tokens), torch.full((1, 1), 0.5, dtype=F64), rtol=1e-9, atol=0.0)
    close(divergence("binary_kl", tokens), torch.full((1, 1), math.log(2), dtype=F64), rtol=1e-9, atol=0.0)


@SOME
@given(x=st.floats(-3, 4), sign=SIGNS)
def test_divergence_mask_caps_the_weight(x: float, sign: float) -> None:
    """Never masked at δ = ∞: weight min(ρ, C)·A."""
    part = DivergenceMask(delta_low=math.inf, delta_high=math.inf, cap=20.0)
    assert slope(part, x, sign) == pytest.approx(sign * min(math.exp(x), 20.0), rel=1e-12)


def test_masked_tokens_are_counted() -> None:
    """Each masked token is masked on one side, and has no weight."""
    objective = algorithm("dppo", "surrogate.delta_low=0.01", "surrogate.delta_high=0.01")
    batch = random_batch(8, empty=False)
    seen = solve(objective, batch)[0].diagnostics
    assert seen["clip_low"].any()
    assert seen["clip_high"].any()
    assert torch.equal(seen["masked"], seen["clip_low"] + seen["clip_high"])
    assert not weights(objective, batch)[seen["masked"].bool()].any()


def test_the_chapters_dppo_on_whole_completions() -> None:
    """level=sequence: Σ_t J = A·π(o), π(o) the product e^(−.5 − .7) = e^−1.2, where D = |π(o) − π_old(o)| = 0."""
    part = DivergenceMaskChapter(level="sequence", delta=0.0)
    logp = torch.tensor([[-0.5, -0.7]], dtype=F64)
    tokens = tokens_of(logp, torch.ones(1, 1)).replace(logp=logp, logp_old=logp.flip(1))
    value = part(torch.zeros_like(logp), torch.full_like(logp, 2.0), tokens)
    assert value.sum().item() == pytest.approx(2 * math.exp(-1.2), rel=1e-12)


def test_without_a_ratio_the_samples_are_the_policys_own() -> None:
    """ratio=none: ρ is 1 off-policy too, and any surrogate has REINFORCE's gradient."""
    batch = random_batch(8)
    loss, slopes = solve(algorithm("grpo", "kl=none", "ratio=none"), batch)
    assert (loss.diagnostics["ratio"][batch.sampled] == 1).all()
    close(slopes, solve(algorithm("grpo", "kl=none", "surrogate=reinforce"), batch)[1])
    assert slopes.any()


def test_one_token_is_its_own_mean() -> None:
    """A single token with A = 1 at ρ = 1: every normalised aggregation gives loss −1."""
    mask, one = torch.ones(1, 1).bool(), torch.ones(1, 1, dtype=F64)
    for option in ("sequence_mean", "token_mean", "prompt_mean", "sequence_sum", "constant"):
        objective = algorithm("grpo", "kl=none", f"aggregation={option}")
        totals = objective.totals(mask, torch.zeros(1, dtype=torch.int64), 1)
        assert objective(tokens_of(one, one), totals).loss.item() == pytest.approx(-1.0, rel=1e-12)


def test_what_is_counted_as_clipped() -> None:
    """Range 0.8 … 1.2, dual clip 3: A pushes outwards, or A < 0 and ρ > 3. Cap 0.5 … 5: the ratio itself."""
    ratios = torch.tensor([[0.5, 0.9, 1.1, 1.5, 4.0]], dtype=F64)
    tokens = Tokens(ratios.log(), torch.ones(1, 5, dtype=torch.bool), torch.ones(1, dtype=F64), torch.zeros(1))
    rule = surrogate.Clip(dual_c=3.0)
    up = rule.diagnostics(ratios.log(), torch.ones(1, 5, dtype=F64), tokens)
    down = rule.diagnostics(ratios.log(), -torch.ones(1, 5, dtype=F64), tokens)
    assert up["clip_high"].tolist() == [[False, False, False, True, True]]
    assert not up["clip_low"].any()
    assert down["clip_low"].tolist() == [[True, False, False, False, False]]
    assert down["clip_high"].tolist() == [[False, False, False, False, True]]
    capped = surrogate.DetachedCap(floor=0.6, cap=3.0).diagnostics(ratios.log(), ratios, tokens)
    assert capped["clip_low"].tolist() == [[True, False, False, False, False]]
    assert capped["clip_high"].tolist() == [[False, False, False, False, True]]
    two = surrogate.Clip(dual_c=3.0)(ratios.log(), torch.full((1, 5), -2.0, dtype=F64), tokens)
    assert two[0, 4].item() == pytest.approx(-6.0)  # ρA = −8 is raised to 3 · −2


def test_a_reference_above_one_by_rounding_gives_no_credit() -> None:
    """log π_ref = 1e-3: 1 − π_ref is 0, never negative."""
    tokens = Tokens(
        torch.zeros(1, 1), torch.ones(1, 1).bool(), torch.ones(1), torch.zeros(1), logp_ref=torch.full((1, 1), 1e-3)
    )
    assert credit.RefDownweight()(torch.ones(1), tokens).item() == 0


def test_dual_clip_bounds_one_token() -> None:
    """A < 0, ρ = 4: J = min(−4, −1.2 … ) = −4, dual clip 3 raises it to −3, delta 2 to −2; both without gradient."""
    x, a = torch.full((1, 1), math.log(4.0), dtype=F64), torch.full((1, 1), -1.0, dtype=F64)
    for part, value in (
        (surrogate.Clip(), -4.0),
        (surrogate.Clip(dual_c=3.0), -3.0),
        (surrogate.Clip(delta=2.0), -2.0),
    ):
        assert part(x, a, tokens_of(x, a)).item() == pytest.approx(value, rel=1e-12)
        assert slope(part, math.log(4.0), -1.0) == pytest.approx(-4.0 if value == -4.0 else 0.0)
        assert part.diagnostics(x, a, tokens_of(x, a))["clip_high"].item() == (value != -4.0)


# ---- corrections, KL, filters, shaping


@SOME
@given(seed=SEEDS, cap=st.sampled_from([1.05, 2.0]))
def test_corrections(seed: int, cap: float) -> None:
    """0 ≤ truncated ≤ C, masked is 0 or within [low, high]; 1 where engine and trainer agree."""
    batch = random_batch(seed)
    tokens = prepare(algorithm("tis"), batch).tokens
    tokens = tokens.replace(**{n: getattr(tokens, n).nan_to_num() for n in ("logp", "logp_old", "logp_rollout")})
    for level in ("token", "sequence", "geometric"):
        truncated = correction.Truncate(level=level, cap=cap)(tokens)
        assert ((truncated >= 0) & (truncated <= cap)).all()
        masked = correction.Mask(level=level, low=0.9, high=cap)(tokens)
        assert ((masked == 0) | (masked >= 0.9) & (masked <= cap)).all()
        agreed = tokens.replace(logp_rollout=tokens.logp_old)
        assert torch.equal(correction.Truncate(level=level)(agreed), torch.ones_like(tokens.logp))
    whole = correction.Truncate(level="geometric", cap=math.inf)
    twice = {n: torch.cat([getattr(tokens, n)] * 2, dim=1) for n in ("mask", "logp", "logp_old", "logp_rollout")}
    close(whole(tokens.replace(**twice))[:, :5], whole(tokens))  # the mean does not depend on length
    single = tokens.replace(mask=tokens.mask & (tokens.mask.cumsum(1) == 1))
    levels = [
        correction.Truncate(level=v, cap=math.inf)(single)[single.mask] for v in ("token", "sequence", "geometric")
    ]
    close(levels[0], levels[1])
    close(levels[0], levels[2])


@SOME
@given(d=st.floats(-5, 5))
def test_k3_is_never_negative(d: float) -> None:
    """≥ 0, 0 only at d = 0; ∂k3/∂log π = 1 − e^d."""
    logp = torch.full((1, 1), -1.0, dtype=F64, requires_grad=True)
    tokens = tokens_of(logp.detach(), logp.detach()).replace(logp=logp, logp_ref=(logp + d).detach())
    value = kl.K3()(tokens)
    assert value.item() >= 0
    assert torch.autograd.grad(value.sum(), logp)[0].item() == pytest.approx(-math.expm1(d), rel=1e-9, abs=1e-12)


@SOME
@given(rewards=REWARDS, k=st.integers(1, 9))
def test_top_k(rewards: list[float], k: int) -> None:
    """min(k, N) kept; none better dropped; ties by index; the order alone counts; once is enough."""
    rule = filter.TopK(k=k)
    kept = rule.rows(scores(rewards))
    assert kept.sum() == min(k, len(rewards))
    best = sorted(range(len(rewards)), key=lambda i: (-rewards[i], i))[:k]
    assert kept.nonzero().flatten().tolist() == sorted(best)
    assert torch.equal(kept, rule.rows(scores([math.exp(r) for r in rewards])))
    again = [r if keep else math.nan for r, keep in zip(rewards, kept.tolist(), strict=True)]
    assert torch.equal(kept, rule.rows(scores(again)))


@SOME
@given(limit=st.integers(5, 200), interval=st.sampled_from([0.1, 0.2, 1.0]))
def test_soft_overlong_punishment(limit: int, interval: float) -> None:
    """0 up to (1 − interval)·L, never rises, and a token costs at most 1/(interval·L); −1 from L on."""
    lengths = torch.arange(limit + 20)
    column = shaping.SoftOverlong(interval=interval)(lengths, limit, lengths >= limit)
    assert not column[lengths <= (1 - interval) * limit].any()
    assert (column.diff() <= 0).all()
    assert (column.diff() >= -1 / (interval * limit) - 1e-12).all()
    close(column[limit:], torch.full((20,), -1.0, dtype=F64))
    if interval < 1:
        chapter = shaping.SoftOverlongChapter(safe=1 - interval)(lengths, limit, lengths >= limit)
        close(chapter[: limit + 1], column[: limit + 1], rtol=1e-9, atol=1e-9)


# ---- whole algorithms


def on_policy_gradient(words: str, seed: int, functions: int = 1) -> Tensor:
    name, *more = words.split()
    batch = random_batch(seed, functions=functions, empty=False).on_policy()
    return solve(algorithm(name, *more), batch)[1]


@pytest.mark.parametrize(
    ("one", "other", "factor"),
    [
        ("gspo", "grpo kl=none", 1.0),
        ("sapo", "grpo kl=none", 1.0),
        ("gspo ratio=sequence_token", "grpo kl=none", 1.0),
        ("cispo filter=none", "dapo filter=none", 1.0),
        ("tis", "grpo", 1.0),
        ("mis", "grpo", 1.0),
        ("chapter/tis", "grpo", 1.0),
        ("chapter/mis", "grpo", 1.0),
        ("vespo", "reinforce", 1.0),
        ("dppo", "dr_grpo aggregation=token_mean", 1.0),
        ("two_grpo", "grpo", 1.0),
        ("chapter/vespo", "grpo kl=none aggregation=sequence_sum", 1.0),
        ("chapter/gopo kl=none aggregation=token_mean", "gopo", 0.5),
        ("chapter/cispo", "dapo filter=none overlong=mask_truncated advantage=batch_whitened", 1.0),
    ],
)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_equal_on_policy(one: str, other: str, factor: float, seed: int) -> None:
    """With one update per rollout and an agreeing engine these are the same gradient, up to the factor."""
    close(on_policy_gradient(one, seed), factor * on_policy_gradient(other, seed))


@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_equal_off_policy(seed: int) -> None:
    """Reductions that hold for every ratio."""
    batch = random_batch(seed)
    same = {
        "dapo filter=none surrogate=clip": "grpo kl=none aggregation=token_mean",
        "chapter/cispo": "dapo filter=none overlong=mask_truncated advantage=batch_whitened",
        "gspo ratio=sequence_token": "gspo",
        "cispo filter=none": "dppo ratio=token advantage=group_zscore surrogate.delta_low=2 surrogate.delta_high=2 "
        "surrogate.cap=5",
    }
    for one, other in same.items():
        (first, *more), (second, *others) = one.split(), other.split()
        close(solve(algorithm(first, *more), batch)[1], solve(algorithm(second, *others), batch)[1])
    agreed = batch.with_columns(logp_rollout=batch.columns["logp_old"])
    for name in ("tis", "mis", "chapter/tis", "chapter/mis"):
        close(solve(algorithm(name), agreed)[1], solve(algorithm("grpo"), agreed)[1])
    faint = batch.with_columns(logp_ref=torch.full_like(batch.logp, -50.0))
    close(
        solve(algorithm("chapter/dr_grpo", "kl=none"), faint)[1],
        solve(algorithm("grpo", "kl=none"), faint)[1],
        rtol=1e-12,
        atol=1e-15,
    )


@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_single_tokens_make_gspo_grpo(seed: int) -> None:
    batch = random_batch(seed, empty=False)
    first = batch.sampled & (torch.arange(5) == 0)
    batch = Batch(batch.logp, first, batch.scores, batch.truncated, batch.columns)
    gspo = algorithm("gspo", "surrogate=clip")
    close(solve(gspo, batch)[1], solve(algorithm("grpo", "kl=none"), batch)[1])


@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_sequence_ratios(seed: int) -> None:
    """s is between the least and the greatest ρ, its gradient equal on all tokens, their order irrelevant."""
    batch = random_batch(seed, empty=False)
    objective = algorithm("gspo", "surrogate.high=inf", "surrogate.low=1")
    loss, slopes = solve(objective, batch)
    ratio = (batch.logp - batch.columns["logp_old"]).exp()
    s = loss.diagnostics["ratio"]
    for i, row in enumerate(batch.sampled):
        assert ratio[i][row].min() - 1e-12 <= s[i][0] <= ratio[i][row].max() + 1e-12
        assert (slopes[i][row] == slopes[i][0]).all()
    flipped = batch.with_columns(logp_old=batch.columns["logp_old"].flip(1))
    flipped = Batch(batch.logp.flip(1), batch.sampled.flip(1), batch.scores, batch.truncated, flipped.columns)
    close(solve(objective, flipped)[1].flip(1), slopes)


PUBLISHED_FACTORS = [
    "grpo",
    "gspo",
    "dr_grpo",
    "sapo",
    "vespo",
    "dppo",
    "cispo",
    "scalerl",
    "gdpo",
    "gopo",
    "tis",
    "mis",
]


@pytest.mark.parametrize("name", [*PUBLISHED_FACTORS, "rloo", "reinforce", "reinforce_pp", "dapo"])
def test_on_policy_weights_are_advantages(name: str) -> None:
    """Anchor old, first update: ρ exactly 1, nothing clipped or masked, and ∂J/∂log π = A on every token."""
    # a sequence ratio divides its gradient by |o| in J, and sums it back over the tokens: compare the token form
    more = {"gspo": ["ratio=sequence_token"], "vespo": ["ratio.anchor=old"]}.get(name, [])
    more += ["ratio.anchor=old"] if name in ("dppo", "scalerl") else []
    objective = algorithm(name, "kl=none", "filter=none", *more)
    batch = random_batch(11, empty=False).on_policy()
    prepared = prepare(objective, batch)
    loss = objective(prepared.tokens.replace(logp_old=None), prepared.totals)
    mask = prepared.tokens.mask
    assert (loss.diagnostics["ratio"][mask] == 1).all()
    assert not any(loss.diagnostics[n].any() for n in ("clip_low", "clip_high", "masked"))
    expected = prepared.tokens.advantages[:, None].expand_as(mask).where(mask, 0.0)
    close(weights(objective, batch), expected)
    assert expected.any()


def test_on_policy_factors_of_the_chapter() -> None:
    """SAPO ½ + 1/(4τ₊) = .75 and ½ − 1/(4τ₋) = .2619; DPPO π_old; Dr. GRPO 1 − π_ref; 2-GRPO ∓β/2 per pair."""
    batch = random_batch(11, empty=False).on_policy()
    mask = batch.sampled
    advantages = prepare(algorithm("grpo"), batch).tokens.advantages[:, None].expand_as(mask)
    pi, ref = batch.logp.exp(), batch.columns["logp_ref"].exp()
    sapo = torch.tensor(0.75, dtype=F64).where(advantages > 0, 0.5 - 1 / (4 * 1.05))
    for name, factor in (("sapo", sapo), ("dppo", pi), ("dr_grpo", 1 - ref)):
        found = weights(algorithm(f"chapter/{name}", "kl=none"), batch)
        close(found, (advantages * factor).where(mask, 0.0))
    objective = algorithm("chapter/two_grpo")
    pairs = objective.form.pairs(batch.scores.total, batch.scores.groups)
    push = torch.zeros(len(mask), dtype=F64)
    for better, worse in pairs.tolist():
        push[better] += 0.5 / len(pairs)
        push[worse] -= 0.5 / len(pairs)
    loss, slopes = solve(objective, batch)
    close(slopes, (-push[:, None]).expand_as(mask).where(mask, 0.0))
    assert loss.loss.item() == pytest.approx(math.log(2), rel=1e-12)


@settings(max_examples=5, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_dpo(seed: int) -> None:
    """ln 2 at π = π_ref; better ones pushed up, worse ones down; strict pairs; monotone maps change nothing."""
    batch = random_batch(seed, empty=False)
    objective = algorithm("dpo", "form.pairing=all")
    at_ref = batch.with_columns(logp_ref=batch.logp)
    pairs = objective.form.pairs(batch.scores.total, batch.scores.groups)
    loss, slopes = solve(objective, at_ref)
    assert loss.loss.item() == pytest.approx(math.log(2) if len(pairs) else 0.0, rel=1e-12)
    for better, worse in pairs.tolist():
        assert batch.scores.total[better] > batch.scores.total[worse]
        assert batch.scores.groups[better] == batch.scores.groups[worse]
    lone = {int(b) for b in pairs[:, 0]} - {int(w) for w in pairs[:, 1]}
    assert all((slopes[i][batch.sampled[i]] < 0).all() for i in lone)
    close(solve(objective, batch.with_rewards(batch.scores.rewards.exp()))[1], solve(objective, batch)[1])


def test_token_mean_does_not_see_sequences() -> None:
    """DAPO: splitting a completion into two of equal A changes no loss; GRPO's does."""
    split = {"logp": [[-0.5, -0.9], [-0.3, 0.0]], "mask": [[1, 1], [1, 0]]}
    joined = {"logp": [[-0.5, -0.9, -0.3]], "mask": [[1, 1, 1]]}

    def loss(batch: dict, name: str) -> float:
        mask = torch.tensor(batch["mask"]).bool()
        logp = torch.tensor(batch["logp"], dtype=F64)
        groups = torch.zeros(len(mask), dtype=torch.int64)
        objective = algorithm(name, "kl=none", "filter=none")
        tokens = Tokens(logp, mask, torch.ones(len(mask), dtype=F64), groups, logp_old=logp - torch.tensor([0.1]))
        tokens = tokens.replace(logp_old=logp + 0.3 * logp)
        return objective(tokens, objective.totals(mask, groups, 4)).loss.item()

    assert loss(split, "dapo") == pytest.approx(loss(joined, "dapo"), rel=1e-12)
    assert loss(split, "grpo") != pytest.approx(loss(joined, "grpo"), rel=1e-3)


def test_truncated_completions_do_not_enter_the_filtered_loss() -> None:
    """chapter/dapo: their log π changes nothing; their rewards still set the group's baseline."""
    objective = algorithm("chapter/dapo", "filter=none")
    batch = random_batch(2, empty=False)
    assert batch.truncated.any()
    moved = Batch(
        batch.logp.where(~batch.truncated[:, None], batch.logp - 1), batch.sampled, batch.scores, batch.truncated,
        batch.columns,
    )  # fmt: skip
    assert torch.equal(solve(objective, batch)[0].loss, solve(objective, moved)[0].loss)
    rewards = batch.scores.rewards.where(~batch.truncated[:, None], 9.0)
    assert not torch.equal(solve(objective, batch)[0].loss, solve(objective, batch.with_rewards(rewards))[0].loss)


def test_published_and_chapter_forms_are_all_here() -> None:
    published = {n for n in ALGORITHMS if not n.startswith("chapter/")}
    named = "grpo dapo gspo dr_grpo two_grpo sapo tis mis vespo dppo cispo scalerl gdpo gopo"
    others = "rloo reinforce reinforce_pp raft dpo"
    assert published == {*named.split(), *others.split()}
    alone = {"scalerl", "rloo", "reinforce", "reinforce_pp", "raft", "dpo"}
    assert {n.removeprefix("chapter/") for n in ALGORITHMS if n not in published} == published - alone
