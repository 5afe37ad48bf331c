"""The reward `math`, case by case; the ids name public bug reports. One pool of processes serves the whole file."""

import os
import pickle
import subprocess
import sys
import threading
import time

import pytest

from grpo.rewards.math import Math, gold_text

BOXED, LENIENT = "boxed_or_hash", "boxed_or_last_number"
MATRIX = r"\begin{pmatrix}0.5&1\\0&2\end{pmatrix}"
TOWER = r"\boxed{\sqrt{9^{9^{9^{9^{9}}}}}}"


@pytest.fixture(scope="module")
def math():
    """Generous limits: a busy machine must not turn a right answer into a time-out."""
    reward = Math(seconds=60.0)
    yield reward
    reward.close()


@pytest.fixture(scope="module")
def lenient(math: Math):
    """The same, reading the last number where there is no box."""
    reward = Math(extract=LENIENT, seconds=60.0)
    reward.__dict__["_pool"] = math._pool
    return reward


def one(reward: Math, gold, completion: str) -> float | None:
    """The reward of one sample."""
    return reward(["q"], [completion], [gold])[0]


def box(*contents: str) -> str:
    return ", ".join(rf"\boxed{{{content}}}" for content in contents)


CASES = [
    # M01: fractions and decimals
    ("0.5", r"... \boxed{\frac{1}{2}}", 1.0),
    ("0.0833333333333333", box(r"\frac{1}{12}"), 1.0),
    (r"\frac{1}{12}", box("0.0833333333333333"), 1.0),
    (r"\frac{1}{12}", box("0.083333"), 1.0),  # to six decimals
    (r"\frac{1}{12}", box("0.0834"), 0.0),
    ("1/3", box("0.33"), 0.0),
    (r"\sqrt{2}", box("1.41421"), 1.0),
    (r"\sqrt{2}", box("1.41422"), 0.0),
    (r"\sqrt{2}", box("1.41"), 0.0),
    # M02: braces are counted, the last box counts, \text{} is stripped
    ("E", r"maybe \boxed{C} ... so \boxed{\text{E}}", 1.0),
    ("C", r"maybe \boxed{C} ... so \boxed{\text{E}}", 0.0),
    (r"\frac{\sqrt{2}}{\sqrt{3}+1}", box(r"\frac{\sqrt{2}}{\sqrt{3}+1}"), 1.0),
    (r"\frac{\sqrt{6}-\sqrt{2}}{2}", box(r"\frac{\sqrt{2}}{\sqrt{3}+1}"), 1.0),
    ("E", box(r"\textbf{(E)}"), 1.0),
    # M04: a row of guesses pays nothing, whichever stands last; the same box twice is one answer
    ("7", r"\boxed{7} or \boxed{3}", 0.0),
    ("3", r"\boxed{7} or \boxed{3}", 0.0),
    ("3", r"\boxed{7}, maybe \boxed{3}", 0.0),
    ("3", "\\boxed{7}\n\n$\\boxed{3}$", 0.0),
    ("3", r"\boxed{7 \text{ or } 3}", 0.0),
    ("3", r"\boxed{7, 3}", 0.0),
    ("3", r"\boxed{\boxed{7} or \boxed{3}}", 0.0),
    ("3", r"\boxed{7}. No, I was wrong: it is \boxed{3}.", 1.0),
    ("7", r"\boxed{7}. Thus the answer is \boxed{7}.", 1.0),
    ("7", r"\boxed{7} or \boxed{7}", 1.0),
    ("0.5", r"\boxed{0.5}, \boxed{\frac12}", 1.0),
    # M05: adjacent boxes are a list where the answer is one; a plain list has no order
    ("3, 5, 7", r"\boxed{3}, \boxed{5}, \boxed{7}", 1.0),
    ("3, 5, 7", r"\boxed{7} and $\boxed{3}$; \boxed{5}", 1.0),
    ("3, 5, 7", box("7, 5, 3"), 1.0),
    ("3, 5, 7", box("7, 5"), 0.0),
    ("3, 5, 7", box("7, 5, 3, 1"), 0.0),
    ("3, 3", box("3"), 0.0),
    (r"\{1, 2\}", box("2, 1"), 1.0),
    (r"1,\sqrt{2}", box(r"\sqrt2 \text{ and } 1"), 1.0),
    (r"-\sqrt{2},\sqrt{2}", box(r"\pm\frac{2}{\sqrt2}"), 1.0),
    # M07: a pair is no number
    ("(1,234)", box("1,234"), 0.0),
    ("(1,234)", box("(1, 234)"), 1.0),
    ("1234", box("1,234"), 1.0),
    ("1234", box("(1,234)"), 0.0),
    ("(1,2)", box("1,2"), 0.0),  # a pair needs its brackets
    ("1,234,567", box("1234567"), 1.0),
    # M08: the percent sign may be missing on either side; 0.5 is not 50 %
    (r"50\%", box("50"), 1.0),
    (r"50\%", box(r"50\%"), 1.0),
    (r"50\%", box("0.5"), 0.0),
    (r"50\%", box("5"), 0.0),
    ("50", box(r"50\%"), 1.0),
    ("50", box("50 percent"), 1.0),
    (r"\frac{\sqrt2}{2}\%", box(r"\frac{1}{\sqrt2}"), 1.0),
    # M10: units are compared where both are given
    (r"12\text{ cm}", box(r"12\text{ kg}"), 0.0),
    (r"12\text{ cm}", box("12 kg"), 0.0),
    (r"12\text{ cm}", box("12"), 1.0),
    ("12", box(r"12\text{ cm}"), 1.0),
    (r"12\text{ cm}", box("12 centimeters"), 1.0),
    (r"12\text{ cm}", box(r"12\text{ cm}^2"), 0.0),
    (r"\sqrt{2}\text{ cm}", box(r"\sqrt{2}\text{ kg}"), 0.0),
    (r"\sqrt{2}\text{ cm}", box(r"\frac{2}{\sqrt2}\text{ cm}"), 1.0),
    (r"\$5", box("5 dollars"), 1.0),
    (r"\$5", box("€5"), 0.0),
    (r"90^\circ", box("90"), 1.0),
    (r"\$1,000", box("1000"), 1.0),
    ("1000", box(r"x = \$1,000"), 1.0),
    ("3:00 PM", box("3:00 p.m."), 1.0),
    ("3:00 PM", box(r"3:00\text{ AM}"), 0.0),
    ("5", box("5 million"), 0.0),
    ("5", box(r"5\text{ or more}"), 0.0),
    ("5", box(r"5\text{ hundredths}"), 0.0),
    # M11: intervals and pairs
    ("[0,1)", box("[0, 1)"), 1.0),
    ("[0,1)", box("(0,1)"), 0.0),
    ("[0,1)", box(r"\left[0,\frac{2}{2}\right)"), 1.0),
    ("[0,1)", box(r"0 \le x < 1"), 1.0),
    ("[0,1)", box(r"0 < x < 1"), 0.0),
    ("(1,2)", box("(2,1)"), 0.0),
    (r"[0,\sqrt{2})", box(r"[0,\frac{2}{\sqrt2})"), 1.0),
    (r"(-\infty,1)\cup(2,\infty)", box(r"(2,\infty)\cup(-\infty,1)"), 1.0),
    (r"(-\infty,1)\cup(2,\infty)", box(r"(-\infty,1]\cup(2,\infty)"), 0.0),
    ("[0,3]", box(r"[0,2]\cup[1,3]"), 1.0),
    # M13: matrices
    (MATRIX, box(MATRIX.replace("0.5", r"\frac12")), 1.0),
    (MATRIX, box(MATRIX.replace("0.5", "0.6")), 0.0),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", box(r"\begin{pmatrix}1&2\end{pmatrix}"), 0.0),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", box(r"\begin{bmatrix}1\\2\end{bmatrix}"), 1.0),
    # M14: words, without case; never as products of letters
    (r"\text{Evelyn}", box(r"\text{Evelyn}"), 1.0),
    (r"\text{Evelyn}", box(r"\text{evelyn}"), 1.0),
    (r"\text{Evelyn}", box("Evelyn"), 1.0),
    (r"\text{Evelyn}", box(r"\mathrm{Evelyn}"), 1.0),
    ("True", box("True"), 1.0),
    ("True", box("False"), 0.0),
    ("True", box("Ture"), 0.0),
    ("north", box("thorn"), 0.0),
    (r"\text{no solution}", box("No solution."), 1.0),
    ("xy", box("yx"), 1.0),  # letters that are a product
    # M16: mixed numbers
    (r"\frac{11}{4}", box(r"2\frac{3}{4}"), 1.0),
    ("8/3", box("2 2/3"), 1.0),
    ("2", box("2 2/3"), 0.0),
    ("10", box("4 10/3"), 0.0),
    (r"\frac{14}{3}", box("4 10/3"), 0.0),
    (r"\frac{22}{3}", box(r"4\frac{10}{3}"), 0.0),
    # M17: exactly, never rounded to six decimals
    (r"\frac{1}{2^{99}}", box(r"\frac{1}{2^{98}}"), 0.0),
    (r"\frac{1}{2^{99}}", box(r"2^{-99}"), 1.0),
    ("10^{-30}", box("10^{-31}"), 0.0),
    ("10^{-30}", box("0"), 0.0),
    (r"\sqrt{2}\cdot 10^{-30}", box(r"\sqrt{2}\cdot 10^{-31}"), 0.0),
    (r"10^{-30}x", box(r"10^{-31}x"), 0.0),
    (r"x=\sqrt{3}\cdot10^{-30}", box(r"x=\sqrt{3}\cdot10^{-31}"), 0.0),
    (r"(\sqrt{2}\cdot 10^{-30}, 1)", box(r"(\sqrt{2}\cdot 10^{-31}, 1)"), 0.0),
    (r"\begin{pmatrix}10^{-30}&1\end{pmatrix}", box(r"\begin{pmatrix}10^{-31}&1\end{pmatrix}"), 0.0),
    ("x>10^{-30}", box("x>10^{-31}"), 0.0),
    ("10^{-30}x+y=0", box("10^{-31}x+y=0"), 0.0),
    (r"(-\infty,10^{-30})\cup(1,2)", box(r"(-\infty,10^{-31})\cup(1,2)"), 0.0),
    ("0.5", box("0.5000001"), 0.0),
    ("1000000", box("1000001"), 0.0),
    # M22: other boxes, a full stop, an unbalanced box, no box
    ("42", r"\fbox{42}", 1.0),
    ("42", r"\boxed{42.}", 1.0),
    ("42", r"\boxed{42", 0.0),
    ("42", r"The final answer is 42.", 0.0),
    ("42", r"\boxed{41} and \boxed{42", 0.0),
    ("\\frac{1}{2}", r"\boxed{\frac{1}{2}", 0.0),
    # M23: the Unicode minus; a decimal comma is none
    ("-5", "\\boxed{\u22125}", 1.0),
    ("2.5", box("2,5"), 0.0),
    (r"-\sqrt{5}", "\\boxed{\u2212\u221a5}", 1.0),
    # M26: a bare gold
    (r"\frac{63}{400}", box(r"\frac{63}{400}"), 1.0),
    (r"\frac{63}{400}", box(r"\frac{64}{400}"), 0.0),
    (r"$\frac{63}{400}$", box(r"\dfrac{63}{400}"), 1.0),
    # M28: the whole completion is searched
    ("42", "#### 42" + " word" * 100, 1.0),
    ("42", "#### 42\n" + "7 words " * 60, 1.0),
    ("42", r"\boxed{42}" + " word" * 100, 1.0),
    # M29: what only looks alike
    ("12:00", box("1:00"), 0.0),
    ("12:00", box("12:00"), 1.0),
    ("3:4", box("3 : 4"), 1.0),
    (r"\pm 2021", box("2021"), 0.0),
    (r"\pm 2021", box("-2021, 2021"), 1.0),
    ("n=2,3,4", box("n=1,2,3"), 0.0),
    ("n=2,3,4", box("4,3,2"), 1.0),
    # more known faults of parsers: scientific notation, spaced thousands, the number without a box
    ("1500000", box("1.5e6"), 1.0),
    ("1500000", box(r"1.5 \times 10^6"), 1.0),
    ("12345", box(r"12\,345"), 1.0),
    ("12345", box("12{,}345"), 1.0),
    ("1234", box(r"12\,34"), 0.0),
    ("42", "37+5=42", 0.0),
    (r"\sin 30^\circ", box(r"\frac12"), 1.0),
    (r"e^{i\pi}", box("-1"), 1.0),
    ("120", box("5!"), 1.0),
    (r"\frac{\pi}{3}", box(r"\frac\pi3"), 1.0),
    (r"\frac{a}{b}", box(r"\frac ab"), 1.0),
    ("10", box(r"\binom52"), 1.0),
    (r"\{x \mid x > 2\}", box(r"(2, \infty)"), 1.0),
    (r"\mathbf{i}+2\mathbf{j}", box(r"2\mathbf{j}+\mathbf{i}"), 1.0),
    # equations: a name, a chain of which every side must be right, an equation of two variables
    ("5", box("x=5"), 1.0),
    ("x=5", box("5"), 1.0),
    ("x=5", box("y=5"), 0.0),
    ("5", box("2+3=5"), 1.0),
    ("5", box("3=5"), 0.0),
    ("5", box("x>5"), 0.0),
    ("x>5", box("5<x"), 1.0),
    ("x>5", box("x<5"), 0.0),
    ("y=2x+3", box("2x-y+3=0"), 1.0),
    ("y=2x+3", box("y=2x+4"), 0.0),
    ("x^2-1", box("(x-1)(x+1)"), 1.0),
    ("x^2-1", box("1-x^2"), 0.0),
    ("|x|", box("x"), 0.0),
]


@pytest.mark.parametrize(("gold", "completion", "right"), CASES)
def test_cases(math: Math, gold: str, completion: str, right: float) -> None:
    assert one(math, gold, completion) == right


@pytest.mark.parametrize(
    ("gold", "completion", "right"),
    [
        ("8/3", "The answer is 2 2/3", 1.0),  # M16
        ("2", "The answer is 2 2/3", 0.0),
        ("10", "The answer is 4 10/3", 0.0),
        ("42", "The final answer is 42.", 1.0),  # M22
        ("42", r"\boxed{42", 0.0),
        ("-5", "The answer is \u22125", 1.0),  # M23
        ("42", "#### 42" + " word" * 100, 1.0),  # M28
        ("42", r"\boxed{41}, no, 42", 0.0),
    ],
)
def test_without_a_box_the_last_number_is_an_option(lenient: Math, gold: str, completion: str, right: float) -> None:
    assert one(lenient, gold, completion) == right


@pytest.mark.parametrize(
    "gold",
    [
        "The answer is the sum of all the parts.",
        "It is five",
        r"\frac{1}{",
        r"\foo",
        "",
        "4 10/3",
        "5 of the 7 apples",
        "x" * 3000,
        "1/0",
    ],
)
def test_a_gold_nobody_can_read_is_left_out_and_counted(math: Math, gold: str) -> None:
    math.metrics()
    assert math(["q"] * 3, [box(gold), box("1"), "no box"], [gold] * 3) == [None] * 3  # M25: never paid
    assert math.metrics()["gold_unparsed"] == 3
    assert math.gold_problem(gold)


def test_golds_are_checked_before_training(math: Math) -> None:
    golds = ["42", r"\frac{\sqrt{2}}{2}", r"so \boxed{7}.", "reasons\n#### 1,234", 3.5, "blue", r"\sqrt{", "x=1,2"]
    problems = math.gold_problems(golds)
    assert [p is None for p in problems] == [True] * 6 + [False, True]
    assert [gold_text(gold) for gold in golds[2:5]] == ["7", "1,234", "3.5"]


def test_no_gold_is_no_score(math: Math) -> None:
    math.metrics()
    assert math(["q"] * 3, [box("1")] * 3, ["1", None, float("nan")]) == [1.0, None, None]
    assert math.metrics()["gold_unparsed"] == 0


def test_message_lists_and_other_columns(math: Math) -> None:
    completion = [{"role": "assistant", "content": box("1")}]
    assert math([[{"role": "user", "content": box("2")}]], [completion], ["1"], level=[3]) == [1.0]
    assert math([box("1")], ["no"], ["1"]) == [0.0]  # the prompt is never read


def test_counts(math: Math) -> None:
    math.metrics()
    completions = [box("1"), "no", r"\boxed{1", box(r"\foo"), box(r"\frac{\sqrt4}{2}"), box(r"\frac{\sqrt4}{2}")]
    assert math(["q"] * 6, completions, ["1"] * 6) == [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    counts = {"no_answer": 1.0, "unparsed": 2.0, "timeouts": 0.0, "errors": 0.0, "gold_unparsed": 0.0, "parsed": 2.0}
    assert math.metrics() == counts  # equal samples are compared once
    assert set(math.metrics().values()) == {0.0}


def test_junk_costs_its_limit_and_the_pool_goes_on() -> None:
    """M19: towers and factorials in C code that no signal ends, nested logarithms, a megabyte of nothing."""
    junk = [
        TOWER,
        box(r"(10^{10})!"),
        box(r"\log(" * 5 + r"9^{9^{9^9}}" + ")" * 5),
        r"Since $\log\log\log\log n$ is large, " * 300 + box(r"\log_{10}\log_{10} 10^{10^{10^{10}}}"),
        r"\boxed{" + "(" * 900 + ")" * 900 + "}",
        r"\boxed{" + r"\frac{" * 500 + "}" * 501,
        r"\boxed{" + "x" * 1_000_000 + "}",
    ]
    reward = Math(seconds=2.0, memory_mb=2048)
    try:
        one(reward, r"\sqrt{2}", box(r"\frac{2}{\sqrt2}"))  # the import is not part of it
        begun = time.monotonic()
        rewards = reward(["q"] * len(junk), junk, ["7"] * len(junk))
        assert rewards == [0.0] * len(junk)
        # 7 limits of 2 s on 2 processes are 8 s; the rest is patience with a busy machine.
        assert time.monotonic() - begun < 40
        counts = reward.metrics()
        assert counts["timeouts"] + counts["errors"] >= 2
        assert one(reward, r"\sqrt{2}", box(r"\frac{2}{\sqrt{2}}")) == 1.0
    finally:
        reward.close()


def test_a_gold_that_takes_for_ever_is_a_problem() -> None:
    reward = Math(seconds=1.0)
    try:
        assert "killed" in (reward.gold_problem("9^{9^{9^{9}}}!") or "")
        assert one(reward, "9^{9^{9^{9}}}!", box("1")) is None
    finally:
        reward.close()


def test_it_works_in_a_thread(math: Math) -> None:
    results: list[float | None] = []
    thread = threading.Thread(target=lambda: results.append(one(math, r"\sqrt{8}", box(r"2\sqrt{2}"))))  # M20
    thread.start()
    thread.join()
    assert results == [1.0]


def test_plain_answers_start_no_process() -> None:
    reward = Math()
    assert reward(["q"] * 3, [box("1"), box(r"\frac12"), box("(1, 2)")], ["1", "0.5", "(1,2)"]) == [1.0] * 3
    assert one(reward, "7", box("9^{9^{9^{9}}}")) == 0.0
    assert reward._pool._nursery is None


def test_majority_votes_count_equal_answers(math: Math) -> None:
    keys = [math.answer(text) for text in (box("0.5"), box(r"\frac12"), box("x = 1/2"), box(r"50"), "no")]
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert keys[4] is None
    assert math.answer(box("2, 1")) == math.answer(r"\boxed{1} and \boxed{2}") != math.answer(box("(1, 2)"))


def test_it_can_be_copied(math: Math) -> None:
    assert one(pickle.loads(pickle.dumps(math)), "1", box("1")) == 1.0


def test_sympy_stays_out_of_the_trainer() -> None:
    code = (
        "import sys; from grpo.rewards.math import Math; r = Math(); "
        r"assert r(['q'], [r'\boxed{2\sqrt{2}}'], [r'\sqrt{8}']) == [1.0]; r.close(); "
        "sys.exit(any(m in sys.modules for m in ('sympy', 'math_verify', 'torch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ), check=False).returncode == 0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        *[("5 kg", "5 g"), ("5 m", "5 s"), ("5 km", "5 m"), ("3 h", "3 s"), ("5 ml", "5 l"), ("5 m", r"5\text{ km}")],
        *[("5", "5t"), ("5t", "5"), ("5t", "5c"), ("3ab", "3"), ("2rs", "2")],  # letters are variables, not units
        *[(r"5\%", "5 kg"), ("5 kg", r"5\%"), (r"\$5", r"5\%")],
        *[(r"\pi r^2", r"\pi R^2"), ("2X", "2x")],  # case counts
        *[("{1,2},{3}", "{1,2,3}"), ("1=1", "2=2"), ("0=0", "x=x"), ("2024-01-05", "2018")],
    ],
)
def test_what_looks_alike_is_not_paid(math, answer: str, gold: str) -> None:
    assert one(math, gold, box(answer)) == 0.0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        *[(r"t\cdot 5", "5t"), ("3ba", "3ab"), ("2x", "x+x"), (r"R^2\pi", r"\pi R^2"), ("e^{2x}", "(e^x)^2")],
        *[(r"\frac{m}{s}", "m/s"), ("7pi", r"7\pi"), (r"\sin(2x)", r"2\sin x\cos x"), ("3+4i", "4i+3")],
        *[("2x-y+3=0", "y=2x+3"), (r"0\le x<1", "[0,1)"), (r"5\%", "5"), ("5", "5 kg")],
    ],
)
def test_what_is_the_same_is_paid(math, answer: str, gold: str) -> None:
    assert one(math, gold, box(answer)) == 1.0


@pytest.mark.parametrize(("said", "paid"), [("5, 3", 1.0), ("3", 0.0), ("3, 5, 7", 0.0)])
def test_a_list_of_answers_is_one_answer_with_its_members(math, said: str, paid: float) -> None:
    assert one(math, ["3", "5"], box(said)) == paid
    assert math.gold_problem(["3", "5"]) is None
