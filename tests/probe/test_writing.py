"""How answers are written: neighbours, other formats, words."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grpo.probe import writing
from grpo.rewards.extract import number
from grpo.tasks.base import Question


@pytest.mark.parametrize(
    ("answer", "near"),
    [
        ("54", ["55", "53", "56", "52"]),
        ("0", ["1", "2"]),
        ("9", ["10", "8", "11", "7"]),
        ("-5", ["-6", "-4", "-7", "-3"]),
        ("0.9", ["0.8"]),
        ("0.123", ["0.223", "0.323"]),
        ("17.50", ["27.50", "37.50"]),
        ("0.0", ["0.1", "0.2"]),
        ("42.", ["43.", "41.", "44.", "40."]),
        ("1,999", ["1,998", "1,997"]),
        ("2,000", ["2,001", "2,002"]),
        ("12:00", ["12:01", "12:02"]),
        (r"\frac{63}{400}", [r"\frac{63}{401}", r"\frac{63}{399}", r"\frac{63}{402}", r"\frac{63}{398}"]),
        ("12 cm", ["13 cm", "11 cm", "14 cm", "10 cm"]),
        ("Evelyn", ["Evelyo"]),
        (r"\text{Evelyn}", [r"\text{Evelyo}"]),
        ("[[a, b]]", ["[[a, c]]"]),
        (r"\sqrt{x}", [r"\sqrt{y}"]),
        (r"\pi", []),
        (r"\begin{matrix}a\\z\end{matrix}", [r"\begin{matrix}a\\a\end{matrix}"]),
        ("True", ["False"]),
        ("no", ["yes"]),
        ("A", ["B", "C"]),
        ("(D)", ["(C)", "(E)", "(F)"]),
    ],
)
def test_neighbours(answer: str, near: list[str]) -> None:
    assert writing.neighbours(answer) == near


@example("0/1")
@given(st.from_regex(r"-?\d{1,20}(\.\d{1,5})?|\d{1,3}/\d{1,3}", fullmatch=True))
def test_neighbours_are_wrong(answer: str) -> None:
    for near in writing.neighbours(answer):
        assert not writing.equal(near, answer)


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ("54", "54.0"),
        ("12345", "12,345"),
        ("12,345", "12345"),
        ("3.0", "3"),
        ("0.5", r"\frac{1}{2}"),
        ("-0.5", r"-\frac{1}{2}"),
        ("2/3", r"\frac{2}{3}"),
        (r"\frac{2}{3}", "2/3"),
        ("x+1", None),
    ],
)
def test_reformatted(answer: str, other: str | None) -> None:
    assert writing.reformatted(answer) == other


@given(st.fractions(max_denominator=50).map(str) | st.integers().map(str) | st.decimals(-99, 99, places=2).map(str))
def test_another_format_is_the_same_number(answer: str) -> None:
    other = writing.reformatted(answer)
    if other is not None:
        assert number(other) == number(answer)
        assert other != answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("0", "zero"),
        ("54", "fifty-four"),
        ("90", "ninety"),
        ("-13", "minus thirteen"),
        ("105", "one hundred five"),
        ("12,345", "twelve thousand three hundred forty-five"),
        ("1000000", "one million"),
        ("2.0", "two"),
        ("2.5", None),
        ("cat", None),
        (str(10**12), None),
    ],
)
def test_spelled(answer: str, words: str | None) -> None:
    assert writing.spelled(answer) == words


def test_a_list_of_right_answers_is_written_as_the_rewards_read_it() -> None:
    for answer, text in ((["3", "5"], "3, 5"), (["3"], "3"), ([], None), (" ", None), (None, None), (7, "7")):
        assert writing.right_answer(object(), Question("q", "?", {"answer": answer})) == text
