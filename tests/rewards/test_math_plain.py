"""The own layer of `math`: what it decides, what it leaves to a parser, and that no text hurts it."""

import time
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grpo.rewards.math import gold_text
from grpo.rewards.math_extract import find_answers, last_row
from grpo.rewards.math_number import BITS, malformed, oversized, same_number, value
from grpo.rewards.math_plain import problem, same
from grpo.rewards.math_shape import key, parse, together
from grpo.rewards.math_text import compact, split, tidy, words
from grpo.rewards.math_units import same_unit, split_unit
from grpo.tasks.base import Extract


def plain(answer: str, gold: str) -> bool | None:
    """One answer against one gold, without a parser."""
    return same(together([answer]), parse(tidy(gold)))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", Fraction(42)),
        ("42.", Fraction(42)),
        ("-.5", Fraction(-1, 2)),
        ("1,234.5", Fraction(2469, 2)),
        ("1.5e6", Fraction(1_500_000)),
        ("2E-3", Fraction(1, 500)),
        (r"1.5\times10^{6}", Fraction(1_500_000)),
        ("2 3/4", Fraction(11, 4)),
        (r"-2\frac{3}{4}", Fraction(-11, 4)),  # -(2 + 3/4)
        (r"\frac12", Fraction(1, 2)),
        (r"\frac{-1}{2}", Fraction(-1, 2)),
        (r"\frac{\frac12}{3}", Fraction(1, 6)),
        ("-2^2", Fraction(-4)),
        ("(-2)^2", Fraction(4)),
        ("2^{-3}", Fraction(1, 8)),
        ("2^3^2", Fraction(512)),  # powers bind to the right: 2⁹
        ("1-2-3", Fraction(-4)),
        ("8/4/2", Fraction(1)),
        ("3(4-1)", Fraction(9)),
        (r"0.1\overline{6}", Fraction(1, 6)),
        (r".\overline{3}", Fraction(1, 3)),
        ("4 10/3", None),
        (r"4\frac{10}{3}", None),
        ("1/2(3)", None),  # 1/6 or 3/2
        ("12 34", None),
        ("1,23", None),
        ("1,234,5", None),
        ("(1,234)", None),
        ("1/0", None),
        ("0^{-1}", None),
        ("2^{1/2}", None),
        ("x", None),
        ("", None),
        ("٣", None),
        ("9^{9^{9}}", None),
        ("1e999999", None),
        ("(" * 100 + "1" + ")" * 100, None),
    ],
)
def test_value(text: str, number: Fraction | None) -> None:
    found = value(text)
    assert (found.value if found else None) == number


def test_values_stay_small() -> None:
    assert value(f"2^{{{BITS // 2}}}") is not None
    assert value("*".join(["2^{9999}"] * 9)) is None
    assert [oversized(text) for text in ("9^{9^{9}}", "1e99999", "2^{9}", "x^{9}", "1/0")] == [True, True] + [False] * 3


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("0.333333", "1/3", True),
        ("0.166667", "1/6", True),  # rightly rounded
        ("0.166666", "1/6", False),
        ("0.083333", "1/12", True),  # six decimals
        ("0.33333", "1/3", False),
        ("0.1666666", "1/6", True),  # right to 10⁻⁶
        ("12345.7", "12345.67", False),  # two finite decimals
        ("0.30000000000000004", "0.3", True),  # a printed float
        ("123456789012.5", "123456789013", False),
        ("1.000001", "1", False),
        ("0.000001", "0", False),
        ("3.33333e-31", r"\frac{1}{3\cdot10^{30}}", True),
        ("3.33333e-32", r"\frac{1}{3\cdot10^{30}}", False),
    ],
)
def test_when_a_decimal_stands_for_a_number(a: str, b: str, equal: bool) -> None:
    left, right = value(a), value(b)
    assert left is not None
    assert right is not None
    assert same_number(left, right) is same_number(right, left) is equal


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"$\dfrac12\,\text{ cm}$.", r"\frac12 \text{cm}"),
        (r"12\,345", "12345"),
        ("12\u202f345", "12345"),
        (r"10,\!000", "10000"),
        (r"\left[0,1\right)", "[0,1)"),
        (r"7\text{ or }3", "7, 3"),
        ("7 and 3", "7, 3"),
        ("for land", "for land"),  # no "or" in words
        (r"\(x \leqslant 3\)", r"x \le 3"),
        (r"50\%", "50%"),
        ("$12", r"\$12"),
        ("\u22125", "-5"),
        ("**42**", "42"),
        (r"\begin{pmatrix}1\\(2)\end{pmatrix}", r"\begin{pmatrix}1\\(2)\end{pmatrix}"),  # no \( of a formula
    ],
)
def test_tidy(text: str, expected: str) -> None:
    assert tidy(text) == expected


@pytest.mark.parametrize(
    ("text", "body", "unit"),
    [
        (r"12 \text{cm}", "12", "cm"),
        (r"12 \text{cm}^2", "12", "cm^2"),
        ("12 square centimeters", "12", "cm^2"),
        ("12 m", "12 m", ""),  # 12·m
        (r"12 \text{m}", "12", "m"),
        ("60 miles per hour", "60", "mph"),
        (r"90^\circ", "90", "degree"),
        (r"\sin 30^\circ", r"\sin 30^\circ", ""),
        (r"-\$5", "-5", "dollar"),
        ("50%", "50", "percent"),
        ("7 apples", "7", "apple"),
        ("7 sinx", "7 sinx", ""),
        ("5 million", "5 million", ""),
        (r"5\text{mod}7", r"5\text{mod}7", ""),
        (r"\text{Evelyn}", r"\text{Evelyn}", ""),
        ("2x", "2x", ""),
    ],
)
def test_units(text: str, body: str, unit: str) -> None:
    assert split_unit(text) == (body, unit)
    assert same_unit(unit, "")


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        (r"\sqrt{4}", "2", None),  # for the parser
        (r"\sqrt{4}", r"\sqrt{4}", True),
        (r"\sqrt{4}", "(1,2)", False),
        ("2", r"\text{two}", False),
        ("x>2", "2", False),
        ("2", "x>2", False),
        (r"\infty", r"-\infty", False),
        ("1011", "1011_2", True),
        ("11", "1011_{2}", False),
        (r"1011_{3}", "1011_2", False),
        ("]0,1[", "(0,1)", True),
        ("[0,1[", "[0,1)", True),
        ("((1,2),(3,4))", "((1,2),(3,4))", True),
        ("(1,2),(3,4)", "(3,4),(1,2)", True),
        ("(1,2),(3,4)", "(2,1),(3,4)", False),
        (r"x \in [0,1)", "[0,1)", True),
        (r"\frac13 \approx 0.33", "1/3", True),
        (r"x \approx 0.33", "0.33", True),
        ("y = 2, x = 1", "x=1, y=2", True),
        ("y = 1, x = 2", "x=1, y=2", False),
        ("AB = 5", "5", True),  # a label
        (r"m\angle ABC = 5^\circ", "5", True),
        ("f(3) = 5", "5", True),
        ("f(3) = 5", "f(2) = 5", False),
        (r"3, \pm 1", "-1, 1, 3", True),
        (r"\pm 1, \pm 2", "1, -1, 2, -2", True),
        (r"(\pm 1, 2)", "(1, 2), (-1, 2)", True),
        ("7", "A", False),
        ("xy = 6", "6", None),  # an equation, whose other side a parser has to see
        ("(B)", "b", True),
        (r"\langle 1,2\rangle", r"\langle 1, 2 \rangle", True),
    ],
)
def test_verdicts(answer: str, gold: str, verdict: bool | None) -> None:
    assert plain(answer, gold) is verdict


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("42", ""),
        ("Monday", ""),
        ("does not exist", ""),
        (r"\text{it does not exist}", "it is a sentence"),
        ("1, 2, x", ""),
        (r"1, \sqrt{2}", None),
        ("the value is five", "it is a sentence"),
        ("12 34", "two numbers stand side by side in it"),
        ("5 of the 7", "it mixes words and mathematics"),
        ("", "it is empty"),
    ],
)
def test_problems_of_gold(gold: str, said: str | None) -> None:
    assert problem(parse(tidy(gold))) == said


def test_rows_of_boxes() -> None:
    assert last_row(r"\boxed{1} text \boxed{2}, \boxed{3} and \fbox {4}") == ("2", "3", "4")
    assert last_row(r"\boxed{1}, \boxed{1}") == ("1",)
    assert last_row(r"\boxed{x = \boxed{5}}") == ("x = {5}",)
    assert last_row(r"\boxed{\{1, 2\}}") == (r"\{1, 2\}",)
    assert last_row(r"\boxed{ {1} and \boxed{2}") == ("2",)  # the first is never closed, the last is
    assert last_row(r"\boxed{1} and \boxed{ {2}") == ()
    assert last_row(r"\boxed{1}" + " " * 500 + r"\boxed{2}") == ("2",)


def test_equal_boxes_are_one_answer() -> None:
    assert key(together(["0.5", r"\frac12", "1/2"])) == "1/2"
    assert same(together(["x=5", "y=5"]), parse("x=5, y=5")) is True  # not the same thing twice


def test_splitting_knows_brackets() -> None:
    assert split(r"f(1,2), \{3, 4\}, {5,6}, \begin{x}7,8\end{x}", ",") == [
        "f(1,2)",
        r"\{3, 4\}",
        "{5,6}",
        r"\begin{x}7,8\end{x}",
    ]


PIECES = [
    *(r"\boxed{", r"\fbox{", "{", "}", "(", ")", "[", "]", r"\{", r"\}", "\\", r"\left", r"\text{", r"\text{cm}"),
    *(
        r"\frac",
        r"\frac{1}{2}",
        r"\sqrt",
        "1",
        "23",
        ",",
        ", ",
        ";",
        "/",
        ".",
        " ",
        "-",
        "e9",
        "^",
        "_",
        "_2",
        "=",
        "<",
    ),
    *(r"\pm", r"\cup", r"\in", ":", "%", r"\%", "$", r"\$", "x", "y", "or", "and", "cm", "kg", "apples", "é", "٣", "√"),
    *(r"\approx", r"\overline{3}", r"^\circ", "####", "*", "'", r"\begin", r"\end", r"\langle ", r"\,", "\n", "\0"),
]
TEXTS = st.one_of(st.text(max_size=120), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))


@settings(max_examples=400, deadline=None)
@given(TEXTS, TEXTS)
@example(r"\{,\}", "(,)")
@example("√(", r"\pm\pm")
def test_no_text_makes_it_raise(answer: str, gold: str) -> None:
    for extract in get_args(Extract):
        find_answers(answer, extract)
    node = parse(gold_text(gold))
    assert plain(answer, gold) in (True, False, None)
    assert same(node, node) is not False or problem(node) != ""
    assert isinstance(key(node), str)
    for text in (answer, tidy(answer)):
        words(text), compact(text), malformed(text), split_unit(text), value(text)


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=10**6), st.integers(-12, 12))
def test_a_number_equals_itself_in_every_writing_and_no_other(number: Fraction, exponent: int) -> None:
    top, bottom = number.numerator, number.denominator
    other = str(number + Fraction(1, 10**12))
    for text in (
        f"{top}/{bottom}",
        rf"\frac{{{2 * top}}}{{{2 * bottom}}}",
        rf"$\dfrac{{{top}}}{{{bottom}}}$.",
        f"x = {number}",
    ):
        assert plain(text, str(number)) is True
        assert plain(text, other) is False
    scaled = number * Fraction(10) ** exponent
    assert plain(rf"\frac{{{top}}}{{{bottom}}} \times 10^{{{exponent}}}", str(scaled)) is True


SUMS = st.recursive(
    st.integers(0, 20).map(lambda n: (str(n), f"F({n})")),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(
            lambda t: (f"({t[0][0]} {t[1]} {t[2][0]})", f"({t[0][1]} {t[1]} {t[2][1]})")
        ),
        st.tuples(inner, inner).map(lambda t: (rf"{t[0][0]} \cdot {t[1][0]}", f"({t[0][1]} * {t[1][1]})")),
        st.tuples(inner, inner).map(lambda t: (rf"\frac{{{t[0][0]}}}{{{t[1][0]}}}", f"({t[0][1]} / {t[1][1]})")),
        st.tuples(inner, st.integers(-3, 3)).map(lambda t: (f"({t[0][0]})^{{{t[1]}}}", f"({t[0][1]}) ** {t[1]}")),
    ),
    max_leaves=8,
)
"""The same arithmetic in LaTeX and in Python."""


@settings(max_examples=200, deadline=None)
@given(SUMS)
def test_arithmetic_is_pythons(pair: tuple[str, str]) -> None:
    latex, python = pair
    try:
        expected = eval(python, {"F": Fraction})
    except ZeroDivisionError:
        expected = None
    found = value(latex)
    assert (found.value if found else None) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-99, 99), min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_order_matters_in_brackets_only(numbers: list[int], random) -> None:
    shuffled = random.sample(numbers, len(numbers))
    gold, other = (", ".join(map(str, each)) for each in (numbers, shuffled))
    assert plain(other, gold) is True
    assert plain(rf"\{{{other}\}}", gold) is True
    assert plain(f"({other})", f"({gold})") is (numbers == shuffled)
    assert plain(f"{other}, 7", gold) is False


@pytest.mark.parametrize(
    "piece", [*PIECES, r"\boxed{1} ", r"\boxed{1} or ", r"\text{  ", "1 1", "1,", "111,", " ,", "(1,"]
)
def test_work_is_linear_in_the_length(piece: str) -> None:
    """100 kB in the blink of an eye; quadratic work would be 10¹⁰ steps, which is minutes."""
    text = (piece * (100_000 // len(piece) + 1))[:100_000]
    short = text[:2000]  # the longest answer that is looked at
    begun = time.process_time()
    for extract in get_args(Extract):
        find_answers(text, extract)
    last_row(r"\boxed{1}" + text + r"\boxed{2}")
    gold_text(text)
    plain(short, "42")
    plain("42", short)
    plain(short, short + "1")
    problem(parse(tidy(short)))
    key(parse(tidy(short)))
    assert time.process_time() - begun < 4.0
