r"""The answers of a completion, for `math`: one, or several where boxes stand side by side.

\boxed{3}, \boxed{5} and \boxed{7} is one answer, the list 3, 5, 7. So a row of guesses pays nothing: "\boxed{7} or
\boxed{3}" is the list 7, 3, and neither 7 nor 3. The same box again is no list. Boxes with words between them are
separate, and the last counts; of a box within a box the outer one.
"""

from __future__ import annotations

import re

from grpo.rewards.extract import OPENED, find_answer, number
from grpo.tasks.base import Extract

GAP = 200
"""Characters between two boxes of a row, at most."""

_TOKEN = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_BETWEEN = re.compile(
    r"(?:[\s$,;/|&~]|\\[()\[\],;:! \\]|\\q?quad(?![a-z])|\\text\s?\{[\s,]*(?:or|and)?\s*\}"
    r"|(?<![a-z])(?:or|and|also|maybe|perhaps|possibly|alternatively|else|both|either|then)(?![a-z]))*",
    re.IGNORECASE,
)


def find_answers(text: str, extract: Extract) -> tuple[str, ...]:
    """The answer as written, in as many parts as there are different boxes in the last row; empty without an answer."""
    if extract.startswith("boxed") and (extract == "boxed" or OPENED.search(text)):
        return last_row(text)
    found = find_answer(text, extract)  # no box was opened
    return () if found is None else (found,)


def one_answer(text: str, extract: Extract) -> str | None:
    """The answer of a completion that gives one; None for a row of different guesses, whichever comes last."""
    parts = find_answers(text, extract)
    values = {value if (value := number(part)) is not None else part for part in parts}
    return parts[0] if len(values) == 1 else None


def unclosed(text: str, extract: Extract) -> bool:
    """There is a box that should have been the answer, and it never closes."""
    return extract.startswith("boxed") and OPENED.search(text) is not None and not last_row(text)


def last_row(text: str) -> tuple[str, ...]:
    """What stands in the boxes of the last row; empty if the last box is never closed. Work is linear in the text."""
    boxes = _boxes(text)
    row: list[str] = []
    next_begin = 0
    for begin, start, end in reversed(boxes):
        apart = row and (next_begin - end > GAP or not _BETWEEN.fullmatch(text, end + 1, next_begin))
        if end < 0 or apart:
            break
        row.append(OPENED.sub("{", text[start:end]).strip())
        next_begin = begin
    return tuple(dict.fromkeys(reversed(row)))


def _boxes(text: str) -> list[tuple[int, int, int]]:
    r"""(where \boxed begins, where its content begins, where that ends or -1) of each that is in no other, in order."""
    boxes: list[tuple[int, int, int]] = []
    braces: list[int] = []  # for each open brace: how many boxes there were, if it is a box's; else -1
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "{":
            braces.append(-1)
        elif len(token) > 2:
            braces.append(len(boxes))
            boxes.append((match.start(), match.end(), -1))
        elif token == "}" and braces and (number := braces.pop()) >= 0:
            boxes[number:] = [(*boxes[number][:2], match.start())]  # those within it are part of it
    return boxes
