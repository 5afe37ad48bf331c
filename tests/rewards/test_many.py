"""Expressions read exactly, and the rewards of questions with many right answers."""

from __future__ import annotations

import ast
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.rewards.expression import NUMBERS, find_expression, read
from grpo.rewards.many import Countdown, Pairs


@pytest.mark.parametrize(
    ("text", "value", "form"),
    [
        ("3+5*2", 13, "2*5+3"),
        ("(2*5)+3", 13, "2*5+3"),
        ("3 + 5", 8, "3+5"),
        ("5-(3-2)", 4, "2+5-3"),  # 5 − 3 + 2
        ("8/4/2", 1, "8/2/4"),
        ("8/(4*2)", 1, "8/2/4"),
        ("(5+4)*3", 27, "(4+5)*3"),
        ("((7))", 7, "7"),
        ("8/3*3", 8, "3*8/3"),  # 8/3 is no float
        (r"3 \times (4 - 1)", 9, "(4-1)*3"),
        ("3×4−2", 10, "3*4-2"),
        ("3+5=8", 8, "3+5"),
        ("07+5", 12, "5+7"),
    ],
)
def test_values_and_normal_forms(text: str, value: int, form: str) -> None:
    found = read(text)
    assert found is not None
    assert (found.value, found.form) == (value, form)


@pytest.mark.parametrize(
    "text",
    [
        *("", "+", "3+", "3 5", "(3+5", "3+5)", ")3(", "3+-5", "-3+8", "3**2", "2^3", "3!", "x+1", "3+5=9", "3+5=x"),
        *("4/(2-2)", "1.5+2", "__import__('os')", "9" * 40, "1" + "+1" * NUMBERS, "(" * 399),
    ],
)
def test_no_expression(text: str) -> None:
    assert read(text) is None


def test_where_the_expression_is_read() -> None:
    worked = "7+5=12,3+0+1=4 \\boxed{42}"
    assert (found := find_expression(worked, "last_expression")) is not None
    assert found.numbers == (3, 0, 1)
    assert (found := find_expression(worked, "boxed")) is not None
    assert found.numbers == (42,)
    assert find_expression("so 3+5", "boxed") is None
    assert find_expression("3+5 \\boxed{", "boxed_or_last_expression") is not None  # an unclosed box is no box
    assert (found := find_expression("I get 5 \\cdot 7 (it is 3+5).", "last_expression")) is not None
    assert found.numbers == (3, 5)
    assert find_expression("it is 12", "last_expression") is None


def _python(text: str) -> Fraction | None:
    """The same by Python's own grammar, over exact fractions."""

    def work(node: ast.expr) -> Fraction:
        if isinstance(node, ast.BinOp):
            a, b = work(node.left), work(node.right)
            return {ast.Add: a.__add__, ast.Sub: a.__sub__, ast.Mult: a.__mul__, ast.Div: a.__truediv__}[type(node.op)](
                b
            )
        assert isinstance(node, ast.Constant)
        return Fraction(node.value)

    try:
        return work(ast.parse(text, mode="eval").body)
    except ZeroDivisionError:
        return None


NESTED = st.recursive(
    st.integers(0, 20).map(str),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner, st.booleans()).map(
        lambda t: f"({t[0]}{t[1]}{t[2]})" if t[3] else f"{t[0]}{t[1]}{t[2]}"
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(NESTED)
def test_agrees_with_python_and_the_form_means_the_same(text: str) -> None:
    found, expected = read(text), _python(text)
    assert (None if found is None else found.value) == expected
    if found is not None:
        again = read(found.form)
        assert again is not None
        assert (again.value, again.form, sorted(again.numbers)) == (found.value, found.form, sorted(found.numbers))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="0123456789+-*/()=.x{}\\boxed ", max_size=60))
def test_no_text_makes_it_raise(text: str) -> None:
    for place in ("boxed", "last_expression", "boxed_or_last_expression"):
        find_expression(text, place)


@pytest.mark.parametrize("piece", ["(", "1+", "1 ", ")", "(1+2)/0 ", "1+2,", "\\boxed{", "--"])
def test_a_hundred_kilobytes_of_garbage_are_linear_work(piece: str) -> None:
    began = time.monotonic()
    find_expression(piece * (100_000 // len(piece)), "boxed_or_last_expression")
    assert time.monotonic() - began < 20  # milliseconds; quadratic work would take hours


def pay(reward: Countdown, text: str, numbers: list[int], target: int) -> float | None:
    return reward(["q"], [text], numbers=[numbers], target=[target])[0]


def test_countdown_pays_the_target_from_the_given_numbers() -> None:
    every, some = Countdown(valid=0.1), Countdown(use="some", valid=0.1)
    assert pay(every, "\\boxed{3*5+7}", [7, 3, 5], 22) == 1.0
    assert pay(every, "\\boxed{3*5+7=22}", [7, 3, 5], 22) == 1.0
    assert pay(every, "\\boxed{3*5}", [7, 3, 5], 15) == 0.0  # 7 is left over
    assert pay(some, "\\boxed{3*5}", [7, 3, 5], 15) == 1.0
    assert pay(some, "\\boxed{3*5}", [7, 3, 5], 22) == 0.1  # the right numbers, the wrong value
    assert pay(some, "\\boxed{3*5+3}", [7, 3, 5], 18) == 0.0  # 3 is there once
    assert pay(some, "\\boxed{3*5+3}", [3, 3, 5], 18) == 1.0
    assert pay(every, "\\boxed{22}", [7, 3, 5], 22) == 0.0  # the target is no answer
    assert pay(every, "3*5+7", [7, 3, 5], 22) == 0.0  # no box
    assert pay(some, "\\boxed{35}", [3, 5], 35) == 0.0  # joined digits


def test_pairs_pay_two_numbers_with_the_right_sum() -> None:
    reward = Pairs()
    texts = ["\\boxed{5+7}", "\\boxed{12+0}", "\\boxed{7 + 5 = 12}", "\\boxed{5+8}", "\\boxed{12}"]
    texts += ["\\boxed{14-2}", "\\boxed{3*4}", "\\boxed{3+4+5}", "5+7", "\\boxed{-1+13}"]
    assert reward(["q"] * 10, texts, target=[12] * 10) == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]


def test_message_lists_are_read_too() -> None:
    assert Pairs()([[]], [[{"role": "assistant", "content": "\\boxed{5+7}"}]], target=[12]) == [1.0]


def test_distinct_right_answers_are_counted_per_question() -> None:
    said: dict[str, float] = {}
    texts = ["\\boxed{5+7}", "\\boxed{7+5}", "\\boxed{6+6}", "\\boxed{5+8}", "\\boxed{1+1}", "\\boxed{1+1}"]
    prompts, targets = ["12="] * 4 + ["02="] * 2, [12] * 4 + [2] * 2
    Pairs()(prompts, texts, target=targets, log_metric=lambda name, value: said.update({name: value}))
    # "12=": {5+7, 6+6}; "02=": {1+1}; (2 + 1) / 2 questions
    assert said == {"distinct_right": 1.5}
    assert Pairs().answer("\\boxed{7+5}") == Pairs().answer("\\boxed{5 + 7}") == "5+7"
    assert Countdown().answer("\\boxed{(2*5)+3}") == "2*5+3"
    assert Pairs.many_answers
    assert Countdown.many_answers
