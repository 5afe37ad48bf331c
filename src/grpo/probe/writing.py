"""How a right or a wrong answer is written for a task, in numerals, in another format and in words.

Where an answer stands follows from the task's `extract`. A task whose answers look otherwise offers any of

    right_answer(question) -> str | None       a right answer, where it is not the column `answer`
    wrong_answers(question) -> Sequence[str]   answers that are surely wrong, the likeliest first
    write_answer(answer) -> str                a completion that gives `answer`, without thoughts before it
    tricks(question) -> Mapping[str, str]      further answers that must not count as right, by what they are called
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from grpo.rewards.extract import number
from grpo.tasks.base import Question, answer_text

_LAST_NUMBER = re.compile(r"(?:\d+\.\d+|\d{1,15})(?=\D*$)", re.ASCII)
_LETTER = re.compile(r"(\(?)([A-Z])(\)?)")
_COMMAND = re.compile(r"\\(?:\\|(?:begin|end)\s*\{[^}]*\}|[A-Za-z]+)")
_OPPOSITES = {"true": "false", "false": "true", "yes": "no", "no": "yes"}
_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_POWERS = ((10**9, "billion"), (10**6, "million"), (10**3, "thousand"), (100, "hundred"))


def right_answer(task: Any, question: Question) -> str | None:
    """A right answer as the data has it; None where there is none."""
    own = getattr(task, "right_answer", None)
    answer = own(question) if own else question.columns.get("answer")
    text = "" if answer is None else answer_text(answer)
    return text if text.strip() else None


def write(task: Any, answer: str) -> str:
    """The completion that gives `answer` and nothing else."""
    own = getattr(task, "write_answer", None)
    if own:
        return str(own(answer))
    extract = str(getattr(task, "extract", "boxed"))
    if extract.startswith("boxed"):
        return boxed(answer)
    return {"last_number": said, "hash": hashed, "answer_tag": tagged}.get(extract, str)(answer)


def boxed(answer: str) -> str:
    """\\boxed{…}"""
    return f"\\boxed{{{answer}}}"


def hashed(answer: str) -> str:
    """#### and the answer, as in GSM8K."""
    return f"#### {answer}"


def tagged(answer: str) -> str:
    """<answer>…</answer>"""
    return f"<answer>{answer}</answer>"


def said(answer: str) -> str:
    """The answer in a sentence, without a box."""
    return f"The answer is {answer}."


def wrong_answers(task: Any, question: Question, gold: str, others: Sequence[str]) -> list[str]:
    """Three wrong answers that look like the right one; `others`: right answers of other questions."""
    own = getattr(task, "wrong_answers", None)
    known = list(own(question)) if own else [*neighbours(gold), *(o for o in others if not equal(o, gold))]
    return [*known, f"not {gold}", "none", "unknown"][:3]


def neighbours(answer: str) -> list[str]:
    """Wrong by a little: 54 → 55, 53, 56; \\frac{1}{2} → \\frac{1}{3}; True → False; C → B, D; near → neas.

    A decimal changes in its first digit, 0.123 → 0.223: many a scorer forgives the last ones of many.
    """
    found = _LAST_NUMBER.search(answer)
    if found is None:
        return _neighbours_of_text(answer)
    digits, before, after = found.group(), answer[: found.start()], answer[found.end() :]
    if "." in digits:
        first = next((i for i, digit in enumerate(digits) if digit in "123456789"), len(digits) - 1)
        leads = [int(digits[first]) + step for step in (1, -1, 2)]
        near = [f"{digits[:first]}{lead}{digits[first + 1 :]}" for lead in leads if 1 <= lead <= 9]
    else:
        near = [str(int(digits) + step).zfill(len(digits)) for step in (1, -1, 2, -2) if int(digits) + step >= 0]
        if before.endswith(","):  # 1,999 is not followed by 1,1000
            near = [new for new in near if len(new) == len(digits)]
    wrong = [new for new in (before + digit + after for digit in near) if not equal(new, answer)]
    if len(wrong) < 2 and _LAST_NUMBER.search(before):  # 0/1 = 0/2: the other number counts
        wrong += [new + digits + after for new in neighbours(before)]
    return wrong


def _neighbours_of_text(answer: str) -> list[str]:
    if opposite := _OPPOSITES.get(answer.strip().casefold()):
        return [opposite.title() if answer.strip().istitle() else opposite]
    if letter := _LETTER.fullmatch(answer):
        near = [chr(ord(letter[2]) + step) for step in (-1, 1, 2)]
        return [f"{letter[1]}{new}{letter[3]}" for new in near if "A" <= new <= "Z"]
    commands = [match.span() for match in _COMMAND.finditer(answer)]
    for i in range(len(answer) - 1, -1, -1):
        if answer[i].isalpha() and not any(start <= i < end for start, end in commands):
            other = "a" if answer[i] == "z" else "A" if answer[i] == "Z" else chr(ord(answer[i]) + 1)
            return [answer[:i] + other + answer[i + 1 :]]
    return []


def equal(one: str, other: str) -> bool:
    """Surely the same answer: as exact numbers, else as text without case."""
    a, b = number(one), number(other)
    return a == b if a is not None and b is not None else one.strip().casefold() == other.strip().casefold()


def reformatted(answer: str) -> str | None:
    """The same number written otherwise: 54.0 for 54, 12,345 for 12345, \\frac{1}{2} for 0.5; else None."""
    value = number(answer)
    if value is None:
        return None
    if value.denominator != 1:
        above, below = value.numerator, value.denominator
        sign = "-" if above < 0 else ""
        return f"{above}/{below}" if "frac" in answer else f"{sign}\\frac{{{abs(above)}}}{{{below}}}"
    whole = int(value)
    if "." in answer or "," in answer or "/" in answer or "\\" in answer:
        return str(whole) if str(whole) != answer.strip() else None
    return f"{whole:,}" if abs(whole) >= 1000 else f"{whole}.0"


def spelled(answer: str) -> str | None:
    """A whole number in English words: fifty-four, minus three; None for anything else."""
    value = number(answer)
    if value is None or value.denominator != 1 or abs(value) >= 10**12:
        return None
    return ("minus " if value < 0 else "") + _words(abs(int(value)))


def _words(n: int) -> str:
    if n < 20:
        return _ONES[n]
    if n < 100:
        return _TENS[n // 10] + (f"-{_ONES[n % 10]}" if n % 10 else "")
    size, name = next(power for power in _POWERS if n >= power[0])
    rest = f" {_words(n % size)}" if n % size else ""
    return f"{_words(n // size)} {name}{rest}"
