"""The split of the spread between blocks, by hand and on data whose parts are known."""

import numpy as np
import pytest

from grpo.errors import UserError
from grpo.report.simulate import Truth, flags
from grpo.report.variance import Split, difference_split, variance_split

pytestmark = pytest.mark.filterwarnings("error")


def test_split_by_hand() -> None:
    # block 1: question means 1, 1/2 → .75; block 2: 0, 1/2 → .25. Flags inside questions: Σ² = 0 + .5 + 0 + .5 = 1 on
    # 4 degrees of freedom, σ²_sampling = .25. Question means: Σ² = .125 + .125 on 2, .125 − .25/2 = 0 = σ²_question.
    # Block means .75, .25: variance .125; sampling .25/(2·2) = .0625; seed .0625: halves
    split = variance_split([[[1, 1], [1, 0]], [[0, 0], [0, 1]]])
    assert (split.seed, split.question, split.sampling) == (pytest.approx(0.5), 0.0, pytest.approx(0.5))
    assert split.deviation == pytest.approx(0.125**0.5)


def test_split_with_a_question_part_by_hand() -> None:
    # all flags of a question alike: σ²_sampling = 0. Question means 1 0 1 and 0 0 1: Σ² = 2/3 + 2/3 on 4 = 1/3.
    # Block means 2/3, 1/3: variance 1/18 = .0556; question (1/3)/3 = .1111: no seed part is left, the rest is 1
    split = variance_split([[[1, 1], [0, 0], [1, 1]], [[0, 0], [0, 0], [1, 1]]])
    assert (split.seed, split.question, split.sampling) == (0.0, pytest.approx(1.0), 0.0)
    assert split.enough is False
    assert split.questions_needed is None
    assert "hides the spread between seeds" in split.sentence


def test_split_finds_the_parts_that_were_put_in() -> None:
    # 3,000 blocks: σ_seed² = .02² + .03² = .0013; questions .15²/30 = .00075; sampling E p(1−p)/(30·4),
    # p = .5 ± (.15, .036): (.25 − .0225 − .0013)/120 = .00189; sum .00394 → 33 %, 19 %, 48 %
    truth = Truth((), base=0.5, questions=30, samples=4, question=0.15)
    split = variance_split(flags(truth, 3_000, np.random.default_rng(0)))
    assert split.seed == pytest.approx(0.33, abs=0.05)
    assert split.question == pytest.approx(0.19, abs=0.02)
    assert split.sampling == pytest.approx(0.48, abs=0.04)
    assert split.deviation == pytest.approx(0.00394**0.5, rel=0.04)


def test_unequal_sizes_are_averaged_over_blocks() -> None:
    rng = np.random.default_rng(1)
    few = flags(Truth((), base=0.5, questions=20, samples=2, question=0.15), 200, rng)
    many = flags(Truth((), base=0.5, questions=40, samples=8, question=0.15), 200, rng)
    split = variance_split([*few, *many])
    # question .0225 · (1/20 + 1/40)/2 = .00084; sampling .2262 · (1/40 + 1/320)/2 = .00318; seed .0013: 24, 16, 60 %
    assert split.seed == pytest.approx(0.24, abs=0.06)
    assert split.question == pytest.approx(0.16, abs=0.03)
    assert split.sampling == pytest.approx(0.60, abs=0.06)


def test_shared_questions_cancel_in_the_difference() -> None:
    # two arms with the same difficulties and no interaction: question 0; seed 2 · .02² = .0008 (blocks cancel);
    # sampling 2 · .2262/(30·4) = .00377
    truth = Truth((), base=0.5, questions=30, samples=4, question=0.15)
    found = flags(truth, 400, np.random.default_rng(2), effect=0.02, shared=True)
    split = difference_split(found[1::2], found[::2])
    assert split.question <= 0.02
    assert split.seed == pytest.approx(0.0008 / 0.00457, abs=0.06)
    one = variance_split(found[::2])
    assert one.question > 0.15


def test_difference_by_hand() -> None:
    # differences of question means: block 1: 1 − 0, 1 − 0 → 1; block 2: 0; block means 1, 0; nothing inside
    ones, zeros = [[1, 1], [1, 1]], [[0, 0], [0, 0]]
    split = difference_split([ones, ones], [zeros, ones])
    assert (split.seed, split.question, split.sampling) == (1.0, 0.0, 0.0)
    assert split.enough is True


def test_the_third_is_one_of_standard_deviations() -> None:
    small = Split(0.9, 0.05, 0.05, 1.0, seed_deviation=0.03, noise_deviation=0.01, blocks=10, questions=512)
    large = Split(0.8, 0.1, 0.1, 1.0, seed_deviation=0.03, noise_deviation=0.015, blocks=10, questions=512)
    assert small.sentence == "evaluation noise (±0.0100) is at most a third of the spread between seeds (±0.0300)"
    # (.015/.01)² = 2.25 times the questions
    assert large.questions_needed == 1152
    assert large.sentence.endswith("(±0.0300): about 1,152 questions per block would do")
    assert large.shares == "seeds 80 %, questions 10 %, sampling 10 %"


@pytest.mark.parametrize(
    ("right", "sentence"),
    [
        ([], "no block: no spread to split"),
        ([[[1, 0]]], "1 block: no spread to split"),
        ([[[1, 1]], [[1, 1]]], "all blocks have the same score: nothing to split"),
    ],
)
def test_nothing_to_split(right: list, sentence: str) -> None:
    split = variance_split(right)
    assert (split.seed, split.question, split.sampling, split.enough) == (0.0, 0.0, 0.0, None)
    assert split.sentence == sentence


@pytest.mark.parametrize("right", [[[[1], [0]], [[1], [1]]], [[[1, 0]], [[1, 1]]], [[[1]], [[0]]]])
def test_one_sample_or_one_question_adds_up_all_the_same(right: list) -> None:
    split = variance_split(right)
    assert split.seed + split.question + split.sampling == pytest.approx(1.0)


def test_mistakes_are_sentences() -> None:
    with pytest.raises(UserError, match=r"\[questions, samples\]"):
        variance_split([[1, 0]])
    with pytest.raises(UserError, match="2 and 1 questions"):
        difference_split([[[1], [0]]], [[[1]]])
    with pytest.raises(UserError, match="give the pairs"):
        difference_split([[[1]]], [])
