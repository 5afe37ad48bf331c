"""Verdicts, their words, and input that no sweep should have."""

import math

import numpy as np
import pytest
from scipy import stats

from grpo.errors import UserError
from grpo.report.compare import Comparison, compare
from grpo.report.simulate import Truth, draw, judge

pytestmark = pytest.mark.filterwarnings("error")
BASE = dict(enumerate([0.60, 0.63, 0.62, 0.65, 0.60, 0.66, 0.61, 0.64]))
WAVE = [0.01, -0.01, 0.005, -0.005, 0.008, -0.008, 0.002, -0.002]  # mean 0, Σ² = 2(1e-4 + .25e-4 + .64e-4 + .04e-4)


def shifted(by: float, size: float = 1.0) -> dict[int, float]:
    return {seed: score + by + size * WAVE[seed] for seed, score in BASE.items()}


def no_nan(comparison: Comparison) -> None:
    for c in comparison.arms:
        for number in (c.mean, c.low, c.high, c.p, c.p_holm, c.p_sign, c.correlation, *c.differences):
            assert number is None or math.isfinite(number)
        assert "nan" not in c.sentence
        assert "inf" not in c.sentence


def test_better_with_interval_and_p_by_hand() -> None:
    # s² = 3.86e-4/7, s/√8 = .0026254; t(7) at 97.5 % = 2.364624 → ±.0062081; t = .02/.0026254 = 7.618
    contrast = compare({"base": BASE, "a": shifted(0.02)}, "base").arms[0]
    assert contrast.mean == pytest.approx(0.02)
    assert contrast.low == pytest.approx(0.02 - 0.0062081, abs=1e-6)
    assert contrast.high == pytest.approx(0.02 + 0.0062081, abs=1e-6)
    assert contrast.p == contrast.p_holm == pytest.approx(2 * stats.t.sf(0.02 / 0.00262542, 7), rel=1e-3)
    assert contrast.p_sign == 2 / 2**8
    assert contrast.verdict == "better"
    assert contrast.sentence == "a against base    +0.020 [+0.014, +0.026]   better (Holm p < .001)"


def test_the_words_of_each_verdict() -> None:
    scores = {
        "base": BASE,
        "up": shifted(0.05),
        "down": shifted(-0.05),
        "small": shifted(0.012),
        "level": shifted(0.001),
        "vague": shifted(0.01, 6.0),
    }
    compared = compare(scores, "base", margin=0.03)
    assert [c.verdict for c in compared.arms] == ["better", "worse", "better", "equivalent", "undecided"]
    # five arms: t(7) at 1 − .05/10 = 3.499483; half-width 3.499483 · .00262542 = .0091876, six times that .0551
    assert [c.sentence for c in compared.arms] == [
        "up against base    +0.050 [+0.041, +0.059]   better (Holm p < .001)",
        "down against base    −0.050 [−0.059, −0.041]   worse (Holm p < .001)",
        "small against base    +0.012 [+0.003, +0.021]   better (Holm p .008), but within the margin of 0.03",
        "level against base    +0.001 [−0.008, +0.010]   equivalent within ±0.03",
        "vague against base    +0.010 [−0.045, +0.065]   undecided (±0.055); about 19 blocks would settle ±0.03",
    ]
    assert compared.contrast("vague").blocks_needed == 19
    assert compared.level == pytest.approx(0.99)


def test_without_a_margin_nothing_is_equivalent_and_the_observed_difference_is_aimed_at() -> None:
    contrast = compare({"base": BASE, "a": shifted(0.004)}, "base").arms[0]
    assert contrast.verdict == "undecided"
    # s = .0074258: t(15) · s/√16 = 2.1314 · .0018564 = .003957 ≤ .004; at 15 2.1448 · .0019173 = .004112
    assert contrast.blocks_needed == 16
    assert contrast.words == "undecided (±0.006); about 16 blocks would settle ±0.004"


def test_under_the_margin_but_across_its_end_half_the_margin_settles() -> None:
    # ±.0124 (twice the wave), mean .011: [−.001, +.023] holds 0 and leaves ±.02; ±.01 cannot do both
    contrast = compare({"base": BASE, "a": shifted(0.011, 2.0)}, "base", margin=0.02).arms[0]
    assert contrast.verdict == "undecided"
    assert contrast.words.endswith("blocks would settle ±0.01")
    assert contrast.blocks_needed == 11  # s = .0148516: t(10) = 2.2281 · s/√11 = .009977; at 10 2.2622 · s/√10 = .01062


def test_holm_decides_where_the_wider_interval_still_holds_zero() -> None:
    # p of one arm ≈ .03; alone it would not pass 2p < .05, but the other arm goes first
    scores = {"base": BASE, "sure": shifted(0.05), "near": shifted(0.0071)}
    near = compare(scores, "base").contrast("near")
    assert 0.025 < near.p < 0.05  # type: ignore[operator]
    assert near.p_holm == near.p
    assert near.low is not None
    assert near.low < 0
    assert near.verdict == "better"
    assert "Holm decides; the simultaneous interval is wider" in near.words


def test_pairs_and_not_two_samples_are_compared() -> None:
    # baseline and arm swing together by ±.2; unpaired, p would be .9
    base = {seed: 0.5 + (0.2 if seed % 2 else -0.2) for seed in range(8)}
    arm = {seed: score + 0.02 + WAVE[seed] for seed, score in base.items()}
    contrast = compare({"base": base, "a": arm}, "base").arms[0]
    assert contrast.verdict == "better"
    assert contrast.correlation == pytest.approx(1.0, abs=0.01)


def test_correlation_between_arms_by_hand() -> None:
    # (1 2 3 4) and (2 1 4 3): centred products 1.5·.5·2 − ... = 3, squares 5 and 5 → .6; with the third arm 1 − and −.6
    compared = compare(
        {
            "a": dict(enumerate([1.0, 2.0, 3.0, 4.0])),
            "b": dict(enumerate([2.0, 1.0, 4.0, 3.0])),
            "c": dict(enumerate([4.0, 3.0, 2.0, 1.0])),
        },
        "a",
    )
    assert [c.correlation for c in compared.arms] == [pytest.approx(0.6), pytest.approx(-1.0)]
    assert compared.correlation == pytest.approx((0.6 - 1.0 - 0.6) / 3)


@pytest.mark.parametrize(
    ("said", "verdict", "words"),
    [
        ({"planned": 10}, "interim", "interim: 8 of 10 blocks are complete"),
        ({"planned": 6}, "interim", "interim: 8 blocks where 6 were declared"),
        ({"interim": "2 runs missing"}, "interim", "interim: 2 runs missing"),
        ({"exploratory": "quick profile"}, "exploratory", "exploratory: quick profile"),
        ({"exploratory": "quick profile", "interim": "x"}, "exploratory", "exploratory: quick profile"),
        ({"active": {"a": False}}, "not tested", "not tested: the mechanism under test did not act"),
        ({"active": {"a": None}}, "better", "better (Holm p < .001)"),
        ({"active": {"a": True}, "planned": 8}, "better", "better (Holm p < .001)"),
        ({"same": {"a": "base"}, "exploratory": "quick"}, "same algorithm", "same algorithm as base"),
        ({"same": {"base": "a"}}, "same algorithm", "same algorithm as base"),
    ],
)
def test_what_stands_in_the_way_of_a_verdict(said: dict, verdict: str, words: str) -> None:
    contrast = compare({"base": BASE, "a": shifted(0.02)}, "base", **said).arms[0]
    assert (contrast.verdict, contrast.words) == (verdict, words)
    assert contrast.low is not None  # points and intervals stay


def test_a_copy_takes_no_share_of_alpha_and_an_untested_arm_keeps_its() -> None:
    scores = {"base": BASE, "a": shifted(0.02), "copy": shifted(0.02), "idle": shifted(0.0)}
    compared = compare(scores, "base", same={"a": "copy", "copy": "a"}, active={"idle": False})
    assert [c.verdict for c in compared.arms] == ["same algorithm", "better", "not tested"]
    assert compared.family == 2
    # two arms: t(7) at 1 − .05/4 = 2.841244, times .00262542; not three arms' 3.127552
    assert compared.contrast("copy").half == pytest.approx(2.841244 * 0.00262542, rel=1e-4)
    assert compared.contrast("a").p_holm is None


def test_five_blocks_give_points_and_an_interval_and_no_verdict() -> None:
    scores = {arm: {s: v for s, v in row.items() if s < 5} for arm, row in {"base": BASE, "a": shifted(0.05)}.items()}
    contrast = compare(scores, "base", planned=5).arms[0]
    assert (contrast.verdict, contrast.p_sign) == ("too few blocks", None)
    assert contrast.words == "too few blocks: 5 of the 6 that a verdict needs"
    assert contrast.low is not None


def test_missing_blocks_are_left_out_with_their_pair_and_said() -> None:
    arm = {seed: score for seed, score in shifted(0.02).items() if seed != 3}
    base = {seed: score for seed, score in BASE.items() if seed != 7}
    compared = compare({"base": base, "a": arm}, "base")
    contrast = compared.arms[0]
    assert (contrast.seeds, compared.complete) == ((0, 1, 2, 4, 5, 6), 6)
    assert contrast.differences == pytest.approx([0.02 + WAVE[s] for s in contrast.seeds])
    assert contrast.notes == ("2 blocks without a pair left out (seed 3, 7)",)


def test_no_spread_at_all() -> None:
    compared = compare({"base": BASE, "a": BASE}, "base", margin=0.03)
    contrast = compared.arms[0]
    assert (contrast.p, contrast.low, contrast.high, contrast.verdict) == (1.0, 0.0, 0.0, "equivalent")
    assert "the spread is zero (all differences are 0)" in contrast.sentence
    assert compare({"base": BASE, "a": BASE}, "base").arms[0].verdict == "undecided"
    no_nan(compared)


def test_equal_differences_are_limited_by_the_sign_flip_test() -> None:
    arm = {seed: score + 0.1 for seed, score in BASE.items()}
    contrast = compare({"base": BASE, "a": arm}, "base").arms[0]
    assert (contrast.p, contrast.p_sign, contrast.verdict) == (2 / 2**8, 2 / 2**8, "better")
    assert "so p is the sign-flip test’s" in contrast.sentence
    six = {"base": {s: BASE[s] for s in range(6)}} | {n: {s: arm[s] for s in range(6)} for n in ("a", "b")}
    compared = compare(six, "base")  # 2 · 2/2⁶ = .0625
    assert [(c.verdict, c.p_holm, c.blocks_needed) for c in compared.arms] == [("undecided", 0.0625, 7)] * 2
    no_nan(compared)


def test_a_collapsed_seed_counts_and_is_named() -> None:
    arm = shifted(0.02) | {3: 0.01}
    compared = compare({"base": BASE, "a": arm}, "base", margin=0.03)
    contrast = compared.arms[0]
    assert contrast.verdict == "undecided"
    assert contrast.notes == ("seed 3 stands apart (−0.640)",)
    assert contrast.mean == pytest.approx((7 * 0.02 + 0.005 - 0.64) / 8)  # the other seven waves sum to +.005
    no_nan(compared)


def test_hardly_any_blocks() -> None:
    assert compare({"base": BASE}, "base").arms == ()
    assert compare({"base": {}}, "base").complete == 0
    one = compare({"base": {0: 0.5}, "a": {0: 0.6}, "b": {}, "c": {1: 0.6}}, "base")
    assert [(c.mean, c.low, c.p_holm, c.verdict) for c in one.arms] == [
        (pytest.approx(0.1), None, None, "too few blocks"),
        (None, None, None, "too few blocks"),
        (None, None, None, "too few blocks"),
    ]
    assert one.arms[0].sentence.startswith("a against base    +0.100 [one block]")
    assert one.arms[1].numbers == "no pair"
    no_nan(one)
    no_nan(compare({"base": {0: 0.5, 1: 0.5}, "a": {0: 0.6, 1: 0.7}}, "base"))


@pytest.mark.parametrize(
    ("scores", "said", "sentence"),
    [
        ({"base": {0: 0.5}, "a": {3: math.nan}}, {}, "a   the score of seed 3 is nan"),
        ({"base": {0: math.inf}, "a": {0: 0.5}}, {}, "base   the score of seed 0 is inf"),
        ({"a": {0: 0.5}}, {}, "there is no arm 'base'; the arms are a"),
        ({"base": {}}, {"margin": 0.0}, "margin   0 is no difference that matters"),
        ({"base": {}}, {"alpha": 5.0}, "alpha   5 is no error rate"),
    ],
)
def test_mistakes_are_sentences(scores: dict, said: dict, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        compare(scores, "base", **said)
    assert sentence in str(error.value)


def test_simulated_sweeps_are_judged_by_the_statistics_of_compare() -> None:
    truth = Truth((0.0, 0.03, 0.05, 0.01))
    for scores in draw(truth, 8, 25, np.random.default_rng(5)):
        judged = judge(scores[None], margin=0.04)
        by_arm = {str(a): dict(enumerate(row.tolist())) for a, row in enumerate(scores)}
        compared = compare(by_arm, "0", margin=0.04)
        assert [c.verdict for c in compared.arms] == judged.verdicts[0].tolist()
        np.testing.assert_allclose([c.low for c in compared.arms], judged.low[0])  # type: ignore[arg-type]
        np.testing.assert_allclose([c.p_holm for c in compared.arms], judged.p_holm[0])  # type: ignore[arg-type]
