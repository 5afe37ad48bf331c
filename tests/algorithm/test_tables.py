"""The entries of golden.json that are no losses: advantages, shaping, filters, KL, gates, kernels, expectations."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import golden
import pytest
import torch
from golden import VECTORS, objective_of, scores_of

from grpo.algorithm import advantage, correction, kl, shaping, surrogate
from grpo.algorithm.part import moments
from grpo.data import Scores, Tokens

TIGHT = {"rtol": 1e-9, "atol": 1e-12}
F64 = torch.float64
RULES = {
    "chapter_pop_eps0": "advantage=group_zscore",
    "excluded_from_stats_then_zero": "advantage=group_zscore",
    "sample_1e4": "advantage=group_zscore advantage.ddof=1 advantage.eps=1e-4",
    "sample_1e6": "advantage=group_zscore advantage.ddof=1 advantage.eps=1e-6",
    "dr_grpo": "advantage=group_mean",
    "batch_mean_batch_std_pop_1e6": "advantage=batch_whitened",
    "group_mean_batch_std_sample_1e4": (
        "advantage=group_mean_batch_std advantage.std_of=raw advantage.ddof=1 advantage.eps=1e-4"
    ),
    "grpo": "advantage=group_zscore advantage.eps=1e-6",
    "gdpo": "advantage=reward_decoupled_chapter",
    "chapter_symmetric": "advantage=ordinal",
    "chapter_naive_2u-1": "advantage=ordinal_literal",
    "published": "advantage=ordinal_published",
}
OTHERS = {"verl_group_of_one", "nan_as_zero"}  # what other libraries do; ours is another entry of the same vector
ADVANTAGES = [
    (name, rule)
    for name, vector in VECTORS.items()
    if vector["kind"] == "advantage" and "rewards" in vector["inputs"] and "alpha" not in vector["inputs"]
    for rule in vector["expected"]
    if rule not in OTHERS
]


def close(actual: Any, expected: Any, **tolerance: float) -> None:
    torch.testing.assert_close(
        torch.as_tensor(actual, dtype=F64), torch.tensor(expected, dtype=F64), **tolerance or TIGHT
    )


def row(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=F64)


def tokens(**columns: torch.Tensor) -> Tokens:
    size = columns["logp"].shape[0]
    defaults = {"mask": torch.ones_like(columns["logp"]).bool(), "advantages": torch.ones(size, dtype=F64)}
    return Tokens(**{**defaults, "groups": torch.zeros(size, dtype=torch.int64), **columns})


@pytest.mark.parametrize(("name", "rule"), ADVANTAGES)
def test_advantages(name: str, rule: str) -> None:
    vector = VECTORS[name]
    scores = scores_of(vector["inputs"])
    if rule == "avg_ranks":
        close(advantage.average_ranks(scores.total, scores.groups, scores.scored)[0], vector["expected"][rule])
        return
    objective, _ = objective_of(tuple(RULES[rule].split()))
    close(objective.advantages(scores), vector["expected"][rule])


def test_gdpo_figure_2() -> None:
    """Two rewards: rollout totals (0, 1) and (0, 2) are one to GRPO, and 1 : 2 to GDPO (sample σ, eps 0)."""
    expected = VECTORS["gdpo/paper_fig2"]["expected"]
    groups, weights = torch.zeros(2, dtype=torch.int64), torch.ones(2, dtype=F64)
    for case, rewards in (("01", [[0.0, 0.0], [1.0, 0.0]]), ("02", [[0.0, 0.0], [1.0, 1.0]])):
        scores = Scores(torch.tensor(rewards, dtype=F64), weights, groups, torch.zeros(2, dtype=F64))
        close(advantage.GroupZScore(ddof=1)(scores), expected[f"grpo_{case}"])
        close(advantage.RewardDecoupled(ddof=1, eps=0.0, batch_step=False)(scores), expected[f"gdpo_{case}"])


def test_quantile_map_by_hand() -> None:
    """Ranks 1, 4, 3, 2 of 4: Φ⁻¹(.125), Φ⁻¹(.875), Φ⁻¹(.625), Φ⁻¹(.375); Φ⁻¹(.875) = 1.1503, Φ⁻¹(.625) = .3186."""
    scores = scores_of({"rewards": [0.1, 0.9, 0.5, 0.3], "group_ids": [7, 7, 7, 7]})
    wanted = [-1.1503493803760079, 1.1503493803760079, 0.3186393639643752, -0.3186393639643752]
    close(advantage.Ordinal(map="quantile")(scores), wanted)


def test_soft_overlong() -> None:
    vector = VECTORS["dapo/soft_overlong"]
    limit, cache = vector["inputs"]["L_max"], vector["inputs"]["L_cache_paper"]
    lengths = torch.tensor([r["length"] for r in vector["expected"]["table"]])
    cut = lengths >= limit
    parts = {
        "published": shaping.SoftOverlong(interval=cache / limit),
        "chapter_Lcache_16": shaping.SoftOverlongChapter(safe=16 / limit),
        "chapter_Lcache_4": shaping.SoftOverlongChapter(safe=4 / limit),
    }
    for name, part in parts.items():
        close(part(lengths, limit, cut), [r[name] for r in vector["expected"]["table"]])


def test_dynamic_sampling() -> None:
    vector = VECTORS["dapo/dynamic_sampling"]
    scores = scores_of(vector["inputs"])
    scores = Scores(scores.rewards, scores.weights, scores.groups, torch.tensor(vector["inputs"]["acc"], dtype=F64))
    for option, key in (("mixed_groups", "accuracy"), ("mixed_groups_reward", "reward_std")):
        objective, _ = objective_of((f"filter={option}",))
        kept = [group for group, keep in objective.filter.keep(scores).items() if keep]
        assert kept == vector["expected"][f"keep_groups_{key}"]
        assert objective.filter.rows(scores).tolist() == [g in kept for g in vector["inputs"]["group_ids"]]


def test_entropy_in_the_reward() -> None:
    """r + α · mean_t H: the bonus is what the form adds, and the z-score follows."""
    vector = VECTORS["entropy/reward_level"]
    objective, _ = objective_of(("entropy=reward_bonus", f"entropy.coef={vector['inputs']['alpha']}"))
    entropy = torch.tensor(vector["inputs"]["seq_mean_entropy"], dtype=F64)[:, None]
    bonus = objective.reward_bonus(tokens(logp=torch.zeros_like(entropy), entropy=entropy, logp_ref=entropy))
    shaped = torch.tensor(vector["inputs"]["rewards"], dtype=F64) + bonus
    close(shaped, vector["expected"]["shaped"])
    scores = scores_of({"rewards": shaped.tolist(), "group_ids": vector["inputs"]["group_ids"]})
    close(objective.advantages(scores), vector["expected"]["advantages_pop"])
    assert not objective.trains_entropy


def test_entropy_in_the_loss() -> None:
    vector = VECTORS["entropy/softmax3"]
    objective, _ = objective_of(("entropy=loss_bonus", f"entropy.coef={vector['inputs']['coef']}", "kl=none"))
    logits = torch.tensor(vector["inputs"]["logits"], dtype=F64, requires_grad=True)
    logp = logits.log_softmax(-1)
    entropy = -(logp.exp() * logp).sum()
    batch = tokens(logp=logp[:1].detach()[None], entropy=entropy[None, None], advantages=torch.zeros(1, dtype=F64))
    loss = objective(batch, objective.totals(batch.mask, batch.groups, 1))
    close(loss.loss.item(), vector["expected"]["loss_term"])
    close(torch.autograd.grad(loss.loss, logits)[0], vector["expected"]["dloss_dlogits"])


def test_kl_estimators() -> None:
    for wanted in VECTORS["kl/k3"]["expected"]["rows"]:
        logp = row(-1.0).requires_grad_()
        batch = tokens(logp=logp, logp_ref=logp.detach() + wanted["ref_minus_logp"])
        # log π_ref − log π is exact here only to 1e-16 / |d|: at d = 1e-8 that leaves 8 digits
        tolerance = {"rtol": 1e-7 if abs(wanted["ref_minus_logp"]) < 1e-6 else 1e-9, "atol": 0.0}
        for name, part in (("k1", kl.K1()), ("k2", kl.K2()), ("k3", kl.K3())):
            close(part(batch).item(), wanted[name], **tolerance)
        close(torch.autograd.grad(kl.K3()(batch).sum(), logp)[0].item(), wanted["dk3_dlogp"], **tolerance)


def test_k3_keeps_its_digits() -> None:
    """d = 1e-8: k3 = d²/2 = 5e-17, where exp(d) − d − 1 is all rounding."""
    batch = tokens(logp=row(0.0), logp_ref=row(1e-8))
    close(kl.K3()(batch).item(), VECTORS["kl/k3"]["expected"]["rows"][4]["k3"], rtol=1e-9, atol=0.0)


def slopes(part: Any, rho: float, sign: float) -> tuple[float, float]:
    """J/A and ∂J/∂ρ / A of a surrogate at one ratio."""
    ratio = torch.tensor([[rho]], dtype=F64, requires_grad=True)
    value = part(ratio.log(), row(sign), tokens(logp=row(0.0)))
    return sign * value.item(), sign * torch.autograd.grad(value.sum(), ratio)[0].item()


def test_soft_gates() -> None:
    for wanted in VECTORS["sapo/gate_table"]["expected"]["rows"]:
        for sign, key in ((1.0, "pos"), (-1.0, "neg")):
            value, slope = slopes(surrogate.SoftGate(), wanted["rho"], sign)
            close([value, slope], [wanted[f"pub_{key}_f"], wanted[f"pub_{key}_slope"]])
            value, slope = slopes(surrogate.SoftGateChapter(), wanted["rho"], sign)
            close([value, slope], [wanted[f"ch_{key}_h"], wanted[f"ch_{key}_slope"]])


def test_the_chapters_gate_turns_round() -> None:
    """For A < 0 its slope crosses zero at ρ = 1.6276: beyond, descent raises a bad token."""
    turn = VECTORS["sapo/gate_table"]["expected"]["ch_neg_slope_zero_at_rho"]
    assert (
        slopes(surrogate.SoftGateChapter(), turn - 1e-6, -1.0)[1]
        > 0
        > slopes(surrogate.SoftGateChapter(), turn + 1e-6, -1.0)[1]
    )
    assert slopes(surrogate.SoftGateChapter(detach_gate=True), turn + 1.0, -1.0)[1] > 0


def test_kernel() -> None:
    part = surrogate.Kernel()
    expected = VECTORS["vespo/kernel_table"]["expected"]
    for wanted in expected["rows"]:
        log_w = torch.tensor([[math.log(wanted["W"])]], dtype=F64, requires_grad=True)
        for sign, key in ((1.0, "2_3"), (-1.0, "3_2")):
            phi = part.weight(log_w, row(sign))
            close(phi.item(), wanted[f"phi_{key}"], rtol=1e-9, atol=1e-60)
            # differentiated, ∂φ/∂log π = (k − λ W) φ
            (slope,) = torch.autograd.grad(phi.sum(), log_w)
            close(slope.item(), wanted[f"undetached_slope_{key}"], rtol=1e-9, atol=1e-12)
    for sign, key in ((1.0, "2_3"), (-1.0, "3_2")):
        peak = torch.tensor([[math.log(expected[f"argmax_{key}"])]], dtype=F64)
        close(part.weight(peak, row(sign)).item(), expected[f"max_{key}"])


def test_the_kernel_differentiated_has_the_wrong_sign() -> None:
    """J = A φ(W)/|o| summed over |o| = 2 tokens: ∂/∂log π_t = (k − λ W) φ A = −1 at W = 1 for (2, 3)."""
    logp = row(-0.5, -0.7).requires_grad_()
    part = surrogate.Kernel(detach=False)
    log_w = (logp - logp.detach()).sum(dim=1, keepdim=True).expand_as(logp)
    value = part(log_w, row(1.0, 1.0), tokens(logp=logp))
    close(torch.autograd.grad(value.sum(), logp)[0], [[-1.0, -1.0]])


def test_group_size_table() -> None:
    """By enumeration: P(every advantage is 0), P(one right at least), sd of the baseline, at pass rate p."""
    for wanted in VECTORS["group_size/table"]["expected"]["rows"]:
        p, size = wanted["p"], wanted["G"]
        dead = some = mean_of_means = mean_of_squares = 0.0
        for right in range(size + 1):
            chance = math.comb(size, right) * p**right * (1 - p) ** (size - right)
            scores = scores_of({"rewards": [1.0] * right + [0.0] * (size - right), "group_ids": [0] * size})
            baseline = float(moments(scores.total, scores.groups, scores.scored)[0][0])
            dead += chance * bool((advantage.GroupZScore()(scores) == 0).all())
            some += chance * (right > 0)
            mean_of_means, mean_of_squares = mean_of_means + chance * baseline, mean_of_squares + chance * baseline**2
        close(dead, wanted["p_zero_variance"])
        close(some, wanted["p_at_least_one_correct"])
        close(math.sqrt(mean_of_squares - mean_of_means**2), wanted["baseline_sd"], rtol=1e-7, atol=0.0)


def test_expected_gradient_of_a_bernoulli_policy() -> None:
    """E[1/G Σ A_i (a_i − p)] over all groups, p = σ(θ): Dr. GRPO (G−1)/G of the truth, RLOO exact, GRPO neither."""
    rules = {
        "dr_grpo": advantage.GroupMean(),
        "rloo": advantage.LeaveOneOut(),
        "grpo_population": advantage.GroupZScore(),
        "grpo_sample": advantage.GroupZScore(ddof=1),
    }
    for wanted in VECTORS["property/expected_gradient_bernoulli"]["expected"]["rows"]:
        p, size = wanted["p"], wanted["G"]
        expected = dict.fromkeys(rules, 0.0)
        for right in range(size + 1):
            chance = math.comb(size, right) * p**right * (1 - p) ** (size - right)
            scores = scores_of({"rewards": [1.0] * right + [0.0] * (size - right), "group_ids": [3] * size})
            for name, rule in rules.items():
                expected[name] += chance * float((rule(scores) * (scores.total - p)).mean())
        for name in rules:
            close(expected[name], wanted[name])


def test_corrections_in_expectation() -> None:
    """Two binary tokens, A = 1 if both are 1; Σ over completions of μ·w·A·(1 − π₁). Only the product is unbiased."""
    vector = VECTORS["property/tis_levels_exact"]
    pi, mu = vector["inputs"]["pi"], vector["inputs"]["mu"]
    inf = float("inf")
    rules = {
        "no_correction": correction.NoCorrection(),
        "token_level": correction.Truncate(level="token", cap=inf),
        "sequence_product": correction.Truncate(level="sequence", cap=inf),
        "geometric_mean": correction.Truncate(level="geometric", cap=inf),
        "product_truncated_C0_8": correction.Truncate(level="sequence", cap=0.8),
        "product_masked_C0_8": correction.Mask(level="sequence", high=0.8),
    }
    for name, rule in rules.items():
        total = 0.0
        for actions in product((0, 1), repeat=2):
            chances = [[p if a else 1 - p for p, a in zip(ps, actions, strict=True)] for ps in (pi, mu)]
            batch = tokens(logp=row(0, 0), logp_old=row(*chances[0]).log(), logp_rollout=row(*chances[1]).log())
            weight = rule(batch)
            first = 1.0 if weight is None else float(weight[0, 0])
            total += math.prod(chances[1]) * first * (actions == (1, 1)) * (actions[0] - pi[0])
        close(total, vector["expected"][name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_overflowing_ratios(dtype: torch.dtype) -> None:
    """log ρ = 299 per token, 1196 per sequence: clamped to 20, value finite, gradient 0, for every ratio."""
    vector = VECTORS["overflow/log_ratio"]["inputs"]
    logp = torch.tensor(vector["logp"], dtype=dtype, requires_grad=True)
    old = torch.tensor(vector["logp_old"], dtype=dtype)
    for option in ("token", "sequence", "sequence_product"):
        objective, _ = objective_of((f"ratio={option}", "surrogate.high=inf", "kl=none"))
        batch = tokens(logp=logp, logp_old=old)
        loss = objective(batch, objective.totals(batch.mask, batch.groups, 4))
        close(loss.loss.item(), -math.exp(20.0), rtol=1e-6, atol=0.0)
        assert torch.equal(torch.autograd.grad(loss.loss, logp)[0], torch.zeros_like(logp))


def test_every_vector_is_reproduced() -> None:
    """144 of 147: best_of_n and verbalized sampling are no training objectives."""
    here = {name for name, _ in ADVANTAGES} | {
        "gdpo/paper_fig2", "dapo/soft_overlong", "dapo/dynamic_sampling", "entropy/reward_level", "entropy/softmax3",
        "kl/k3", "sapo/gate_table", "vespo/kernel_table", "group_size/table", "property/expected_gradient_bernoulli",
        "property/tis_levels_exact", "overflow/log_ratio",
    }  # fmt: skip
    elsewhere = {"best_of_n/table", "verbalized_sampling/parse", "verbalized_sampling/choose"}
    assert set(VECTORS) - set(golden.LOSSES) - here == elsewhere & set(VECTORS)
