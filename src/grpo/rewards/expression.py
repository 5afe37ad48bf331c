r"""Expressions of whole numbers with + − × ÷ and parentheses: read, worked out exactly, brought to a normal form.

Nothing is evaluated as code. The work is linear in the length of the text, and no text makes it raise.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from grpo.rewards.extract import find_answer, number

Place = Literal["boxed", "last_expression", "boxed_or_last_expression"]
"""boxed: the last box and nothing else; last_expression: the last of the text; the third: the last where no box is."""

NUMBERS = 24  # numbers in one expression; more is no answer to any of our tasks
LONGEST = 400  # characters of one expression
_SPELLINGS = {"−": "-", "–": "-", "×": "*", "·": "*", "⋅": "*", "∗": "*", "÷": "/", "[": "(", "]": ")"}
_LATEX = re.compile(r"\\(times|cdot|ast|div|left|right|,|;|!|\(|\)|\[|\])")
_LATEX_MEANS = {"times": "*", "cdot": "*", "ast": "*", "div": "/"}
_TOKEN = re.compile(r"\s*(\d{1,9}(?!\d)|[-+*/()])", re.ASCII)
_RUN = re.compile(r"[-+*/()\d \t]+", re.ASCII)  # may hold an expression; no end is required, or it backtracks
_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2}
_DO = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


@dataclass(frozen=True)
class Expression:
    """What an expression comes to, the numbers in it, and its normal form."""

    value: Fraction
    numbers: tuple[int, ...]
    form: str
    """Equal for expressions that differ in order, spaces or needless parentheses: 3+5·2 and (2·5)+3, but not 8+5."""


def find_expression(text: str, place: Place) -> Expression | None:
    """The expression a completion gives; None where there is none, or a sum that does not come to what it says."""
    if place != "last_expression":
        boxed = find_answer(text, "boxed")
        if place == "boxed" or boxed is not None:
            return None if boxed is None else read(boxed)
    for run in reversed([match.group() for match in _RUN.finditer(_plain(text))]):
        run = run.strip("-+*/ \t")
        found = read(run) or read(run.strip("()-+*/ \t"))  # "(it is 3+5)"
        if found is not None and len(found.numbers) > 1:
            return found
    return None


def read(text: str) -> Expression | None:
    """The expression that `text` is, or None. "3+5=8" is 3+5; "3+5=9" is nothing."""
    if len(text) > LONGEST:
        return None
    left, equals, right = _plain(text).partition("=")
    found = _worked_out(left.strip())
    if found is None or not equals:
        return found
    return found if number(right.strip()) == found.value else None


def _plain(text: str) -> str:
    text = _LATEX.sub(lambda match: _LATEX_MEANS.get(match[1], " "), text).replace("$", " ")
    for written, meant in _SPELLINGS.items():
        text = text.replace(written, meant)
    return text.strip()


def _worked_out(text: str) -> Expression | None:
    """Dijkstra's two stacks: no recursion, so that a thousand parentheses are no stack overflow."""
    tokens = _tokens(text)
    numbers = tuple(int(token) for token in tokens if token.isdigit())
    if not 1 <= len(numbers) <= NUMBERS:
        return None
    terms: list[_Term] = []
    waiting: list[str] = []
    expects_number = True
    for token in tokens:
        if (token == "(" or token.isdigit()) != expects_number:
            return None  # two numbers or two signs in a row, or a leading sign: −3 is not among the numbers given
        if token == "(":
            waiting.append(token)
        elif token.isdigit():
            terms.append(_Term(Fraction(int(token)), str(int(token))))
            expects_number = False
        elif not _reduce(terms, waiting, 0 if token == ")" else _STRENGTH[token]):
            return None
        elif token != ")":
            waiting.append(token)
            expects_number = True
        elif not waiting or waiting.pop() != "(":
            return None
    if expects_number or not _reduce(terms, waiting, 0) or waiting:
        return None
    return Expression(terms[0].value, numbers, terms[0].form)


def _tokens(text: str) -> list[str]:
    """Numbers, signs and parentheses; empty where the text holds anything else."""
    tokens: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return []
        tokens.append(match[1])
        position = match.end()
    return tokens


@dataclass(frozen=True)
class _Term:
    """A part already worked out; a sum or a product keeps its flattened parts, (sign, term) in normal order."""

    value: Fraction
    form: str
    parts: tuple[tuple[str, str], ...] = ()
    kind: str = ""  # "+" a sum, "*" a product, "" a number

    def parts_of(self, kind: str) -> tuple[tuple[str, str], ...]:
        if self.kind == kind:
            return self.parts
        return ((kind, f"({self.form})" if self.kind == "+" else self.form),)


_INVERSE = {"+": "-", "-": "+", "*": "/", "/": "*"}


def _reduce(terms: list[_Term], waiting: list[str], strength: int) -> bool:
    """Work out what waits and binds at least as strongly; False for a division by zero."""
    while waiting and waiting[-1] != "(" and _STRENGTH[waiting[-1]] >= strength:
        sign, right, left = waiting.pop(), terms.pop(), terms.pop()
        if sign == "/" and right.value == 0:
            return False
        terms.append(_joined(sign, left, right))
    return True


def _joined(sign: str, left: _Term, right: _Term) -> _Term:
    kind = "+" if sign in "+-" else "*"
    others = right.parts_of(kind)
    if sign in "-/":  # a − (b − c) = a − b + c
        others = tuple((_INVERSE[s], form) for s, form in others)
    # The first part of `left` is never taken away, so one with "+" or "*" comes first.
    parts = tuple(sorted((*left.parts_of(kind), *others), key=lambda part: (part[0] in "-/", part)))
    form = "".join(s + term for s, term in parts)[1:]
    return _Term(_DO[sign](left.value, right.value), form, parts, kind)
