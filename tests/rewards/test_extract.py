"""Where the answer stands and which number it is, case by case; the ids name public bug reports."""

import time
from fractions import Fraction
from typing import get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from grpo.rewards.extract import find_answer, last_boxed, last_hash, last_number, number, same
from grpo.tasks.base import Extract

CASES = [
    # (completion, gold, extract, right?)
    (r"\boxed{42}", "42", "boxed", True),
    (r"37+5=42", "42", "boxed", False),  # the number without a box pays nothing
    (r"maybe \boxed{C} ... so \boxed{\text{E}}", "E", "boxed", True),  # M02: last box, \text{} stripped
    (r"... \boxed{\frac{1}{2}}", "0.5", "boxed", True),  # M01
    (r"\boxed{7} or \boxed{3}", "7", "boxed", False),  # M04: listing guesses
    (r"\boxed{7}. Thus the answer is \boxed{7}.", "7", "boxed", True),  # M04
    (r"\boxed{1,234}", "(1,234)", "boxed", False),  # M07: a pair is not the number
    (r"\boxed{1,234}", "1234", "boxed", True),
    (r"\boxed{12,34}", "1234", "boxed", False),  # no grouping of thousands
    (r"\boxed{\text{evelyn}}", r"\text{Evelyn}", "boxed", True),  # M14
    (r"The answer is 2 2/3", "8/3", "last_number", True),  # M16
    (r"The answer is 2 2/3", "2", "last_number", False),  # M16
    (r"\boxed{2\frac{3}{4}}", r"\frac{11}{4}", "boxed", True),  # M16
    (r"\boxed{4 10/3}", "10", "boxed", False),  # M16: improper
    (r"\boxed{0.0000000001}", "0.00000000001", "boxed", False),  # M17: exact, no rounding
    (r"\fbox{42}", "42", "boxed", True),  # M22
    (r"\boxed{42.}", "42", "boxed", True),  # M22
    (r"\boxed{42", "42", "boxed", False),  # M22: unbalanced
    (r"\boxed{42} and \boxed{4", "42", "boxed", False),  # the last box counts, and it is never closed
    (r"The final answer is 42.", "42", "boxed", False),  # M22
    (r"The final answer is 42.", "42", "last_number", True),  # M22
    ("\\boxed{\u22125}", "-5", "boxed", True),  # M23
    ("The answer is \u22125", "-5", "last_number", True),  # M23
    (r"\boxed{2,5}", "2.5", "boxed", False),  # M23: decimal comma is no number in English data
    (r"\boxed{\frac{63}{400}}", r"\frac{63}{400}", "boxed", True),  # M26
    (r"\boxed{\frac{64}{400}}", r"\frac{63}{400}", "boxed", False),  # M26
    (r"\boxed{1:00}", "12:00", "boxed", False),  # M29
    (r"\boxed{1.5e6}", "1500000", "boxed", True),
    (r"\boxed{12\,345}", "12345", "boxed", True),
    (r"\boxed{42\text{ kg}}", r"42\text{ cm}", "boxed", False),  # M10: units are text and compared
    (r"\boxed{ 42 }", "42", "boxed", True),
    (r"\boxed {42}", "42", "boxed", True),
    (r"\boxed{\boxed{42}}", "42", "boxed", True),
    (r"7-5", "5", "last_number", True),  # a difference has no sign to lend
    (r"x = -5", "-5", "last_number", True),
    (r"It is \frac{1}{2}", "2", "last_number", False),
    (r"12 apples and 3 pears make 15 fruits", "15", "last_number", True),
    (r"no number", "0", "last_number", False),
    (r"\boxed{41}, no, 42", "42", "boxed_or_last_number", False),  # an opened box decides
    (r"\boxed{41 is 42", "42", "boxed_or_last_number", False),  # also when never closed
    (r"it is 42", "42", "boxed_or_last_number", True),
    ("#### 42" + " x" * 250, "42", "last_number", True),  # M28: the whole completion
    ("#### 42" + " x" * 250, "42", "hash", True),  # M28
    ("#### 42\n" + "7 " * 250, "42", "hash", True),
    ("#### 41\n#### 42.", "42", "hash", True),
    ("#### 42 or 43", "42", "hash", False),
    ("#### 42, 43", "42", "hash", False),
    ("#### 4.2.", "4.2", "hash", True),
    ("#### $42 in all", "42", "hash", True),
    ("#### -1,234 m", "-1234", "hash", True),
    ("#### 42x", "42", "hash", False),
    ("the answer is 42", "42", "hash", False),
    ("#### 42", "42", "boxed_or_hash", True),
    (r"\boxed{41} #### 42", "42", "boxed_or_hash", False),  # an opened box decides
    ("#### 42", "42", "boxed", False),
]


@pytest.mark.parametrize(("text", "gold", "extract", "right"), CASES)
def test_cases(text: str, gold: str, extract, right: bool) -> None:
    found = find_answer(text, extract)
    assert (found is not None and same(found, gold)) is right


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", Fraction(42)),
        ("+42", Fraction(42)),
        ("-1,234.5", Fraction(-12345, 10)),
        (".5", Fraction(1, 2)),
        ("-2 1/3", Fraction(-7, 3)),  # -(2 + 1/3)
        (r"-\frac12", Fraction(-1, 2)),
        ("$42$", Fraction(42)),
        ("1/0", None),
        ("1,2345", None),
        ("4 2", None),
        ("1e999999999", None),  # would be a number of a billion digits
        ("9" * 101, None),
        ("٣", None),
        ("", None),
    ],
)
def test_number(text: str, value: Fraction | None) -> None:
    assert number(text) == value


def test_nested_braces_come_out_whole() -> None:
    assert last_boxed(r"\boxed{\frac{\sqrt{2}}{\sqrt{3}+1}}") == r"\frac{\sqrt{2}}{\sqrt{3}+1}"
    assert last_boxed(r"\boxed{\{1, 2\}} end") == r"\{1, 2\}"


PIECES = st.sampled_from(
    [
        r"\boxed{",
        r"\fbox{",
        "{",
        "}",
        "\\",
        r"\frac",
        r"\frac{1}{2}",
        "####",
        "1",
        "23",
        ",",
        "/",
        ".",
        " ",
        "-",
        "e9",
        "é",
        "٣",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=60).map("".join)))
@example("\\boxed{")
def test_no_text_makes_it_raise(text: str) -> None:
    for extract in get_args(Extract):
        found = find_answer(text, extract)
        assert found is None or found in text
        same(found or "", text)
        same(text, found or "")


@settings(max_examples=100, deadline=None)
@given(st.fractions(max_denominator=10**6))
def test_a_number_equals_itself_in_every_writing(value: Fraction) -> None:
    assert same(f"{value.numerator}/{value.denominator}", f"{2 * value.numerator}/{2 * value.denominator}")
    assert not same(str(value), str(value + Fraction(1, 10**12)))


@pytest.mark.parametrize(
    "piece",
    [
        r"\boxed{",
        "{",
        "}",
        "1",
        "1,",
        "111,",
        "1 ",
        "1/",
        "1 1/",
        "\\",
        r"\frac",
        r"\frac{1}{",
        " ",
        "-",
        ".1",
        "\\boxed ",
        "1" * 50 + " ",
        "#",
        "#### ",
    ],
)
def test_work_is_linear_in_the_length(piece: str) -> None:
    """100 kB in the blink of an eye; quadratic work would be 10¹⁰ steps, which is minutes."""
    text = (piece * (100_000 // len(piece) + 1))[:100_000]
    start = time.process_time()
    last_boxed(text)
    last_number(text)
    last_hash("#### " + text)
    same(text, "42")
    assert time.process_time() - start < 2.0
