"""What the worker processes of `math` do: parse LaTeX with math-verify and compare with sympy. Imported nowhere else.

math-verify 0.9.0 rounds to six decimals and chops small differences (10⁻³⁰ = 10⁻³¹), drops words and units, and is not
symmetric. So it parses, and judges relations and sets; everything that has a value is compared here, to thirty digits.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sympy
from math_verify import LatexExtractionConfig, verify
from math_verify import parse as parse_latex

from grpo.rewards.math_number import value
from grpo.rewards.math_plain import problem, same
from grpo.rewards.math_shape import parse, together

DIGITS = 30
"""Digits to which values are compared."""
POINTS = (sympy.Rational(7, 11), sympy.Rational(-13, 9), sympy.Rational(29, 10), sympy.Rational(-23, 7))
"""Where expressions with variables are compared; some of either sign, since √x² is not x."""
LONG_DECIMAL = re.compile(r"\d*\.\d{6}|\d{2}\.\d{4}|\d{4}\.\d{2}")
CONFIG = [LatexExtractionConfig(boxed_match_priority=0)]
WARM = (
    r"\frac{\sqrt{2}}{\sqrt{3}+1}",
    r"x^2-2x+\frac{1}{2}",
    r"\begin{pmatrix}0.5&1\\0&\frac{1}{2}\end{pmatrix}",
    r"(-\infty,1)\cup[2,\infty)",
    r"0\le x<1",
    r"\log_2 8+\ln 3",
    r"e^{i\pi}",
    r"\sin\frac{\pi}{3}+\cos x",
    r"2x+3y=6",
    r"\binom{5}{2}+5!",
    r"\sqrt[3]{2}",
    r"a_1\cdot b^{n+1}",
    r"\{1,2\}",
    r"|x-2|",
    r"\frac{a+b}{c(d-1)}",
)
"""Parsed once, before the workers are forked: the parser's tables grow as it reads, up to 0.7 s a sentence."""

logging.disable(logging.CRITICAL)


class Unparsed(Exception):
    """Not LaTeX that the parser reads."""


def judge(task: tuple[str, Sequence[str], str]) -> Any:
    """("gold", (), gold) -> what is wrong with it, or ""; ("same", parts of the answer, gold) -> True, False or None.

    None: the answer cannot be parsed.
    """
    what, answers, gold = task
    if what == "gold":
        return problem(parse(gold), _unreadable) or ""
    try:
        return bool(same(together(answers), parse(gold), same_expression))
    except Unparsed:
        return None


def _unreadable(text: str) -> str:
    """What is wrong with a gold expression; a value is computed once, so that one that takes for ever is found."""
    try:
        found = _parsed(text)
    except Unparsed:
        return "it cannot be parsed"
    if isinstance(found, sympy.Expr) and not found.free_symbols and found.doit().evalf(15) in (sympy.zoo, sympy.nan):
        return "it has no value"
    return ""


def same_expression(answer: str, gold: str) -> bool:
    """Two tidy expressions."""
    a, g = _parsed(answer), _parsed(gold)
    tolerance = 1e-6 if LONG_DECIMAL.search(answer) or LONG_DECIMAL.search(gold) else 0.0
    for decimal in (value(answer), value(gold)):
        if decimal is not None and decimal.rounded:
            tolerance = max(tolerance, float(decimal.unit / abs(decimal.value) / 2))
    return _same(a, g, tolerance)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Any:
    """A sympy object, its decimals as exact fractions and i as the imaginary unit."""
    try:
        found = parse_latex(
            rf"\boxed{{{_readable(text)}}}",
            CONFIG,
            fallback_mode="no_fallback",
            parsing_timeout=0,
            raise_on_error=True,
        )
    except (MemoryError, RecursionError):
        raise
    except Exception as error:
        raise Unparsed from error
    # A relation of numbers is only true or false: 3 > 2 is not 5 > 4.
    if not found or found[0] in (sympy.zoo, sympy.nan):
        raise Unparsed
    if isinstance(found[0], sympy.Rel | sympy.logic.boolalg.BooleanAtom) and not found[0].free_symbols:
        raise Unparsed
    return _exact(found[0])


_ATOM = r"(\\(?:pi|theta|alpha|beta|gamma|lambda|mu|omega|phi|infty)(?![a-zA-Z])|[A-Za-z0-9])"
_FIRST = re.compile(rf"(\\(?:frac|binom|sqrt\[[^\[\]]*\])) ?{_ATOM}")
_SECOND = re.compile(rf"(\\(?:frac|binom) ?\{{[^{{}}]*(?:\{{[^{{}}]*\}}[^{{}}]*)*\}}) ?{_ATOM}")


def _readable(text: str) -> str:
    r"""What the parser misreads, said otherwise: \frac\pi3, degrees within an expression, "%" and 1.5e6."""
    text = _SECOND.sub(r"\1{\2}", _FIRST.sub(r"\1{\2}", text))
    text = re.sub(r"(\d+(?:\.\d+)?) ?\^ ?(?:\\circ|\{ ?\\circ ?\})", r"(\1\\cdot\\frac{\\pi}{180})", text)
    text = re.sub(r"(?<![\d.])(\d+\.?\d*)[eE]([-+]?\d+)", r"\1\\cdot 10^{\2}", text).replace("%", r"\%")
    return _LETTER.sub(_indexed, text)


_LETTER = re.compile(
    r"\\(?:mathbb|mathcal|begin|end|text|operatorname) ?(?:\{[^{}]*\}|[A-Z])|\\[A-Za-z]+"
    r"|(?<![A-Za-z])(?:arc)?(?:sinh?|cosh?|tanh?|cot|sec|csc|log|ln|exp|sqrt)(?![a-z])"
    r"|(?<![A-Za-z])pi(?![A-Za-z])|(?P<letter>[A-DF-HJ-Za-df-hj-z])(?P<prime>'*)(?:_(?P<index>\w|\{\w+\}))?"
)


def _indexed(match: re.Match[str]) -> str:
    r"""A variable as x with a number of its own, such as x_{114} for r.

    The parser folds case (R is not r) and drops letters that it takes for units (5t is not 5).
    """
    if match.group() == "pi":
        return r"\pi "
    if match.group("letter") is None:
        return match.group()
    number = 0
    for character in match.group("letter") + match.group("prime") + (match.group("index") or "").strip("{}"):
        number = number * 128 + ord(character) % 128
    return f"x_{{{number}}}"


def _exact(found: Any) -> Any:
    if isinstance(found, sympy.MatrixBase):
        return found.applyfunc(_exact)
    exact: dict[Any, Any] = {number: sympy.Rational(str(number)) for number in found.atoms(sympy.Float)}
    exact |= {symbol: sympy.I for symbol in found.atoms(sympy.Symbol) if symbol.name == "i"}
    return found.xreplace(exact) if exact else found


def _same(a: Any, g: Any, tolerance: float) -> bool:
    """Matrices member by member, values by value, the rest by math-verify."""
    if isinstance(a, sympy.MatrixBase) and isinstance(g, sympy.MatrixBase):
        return a.shape == g.shape and all(_same(x, y, tolerance) for x, y in zip(a.flat(), g.flat(), strict=True))
    if isinstance(a, sympy.Expr) and isinstance(g, sympy.Expr):
        verdict = _same_value(a, g, tolerance)
        if verdict is not None:
            return verdict
    if isinstance(a, sympy.FiniteSet | sympy.Tuple) and isinstance(g, sympy.FiniteSet | sympy.Tuple):
        return _same_members(a, g, tolerance)
    if isinstance(a, sympy.Interval) and isinstance(g, sympy.Interval):
        ends = _same(a.start, g.start, tolerance) and _same(a.end, g.end, tolerance)
        return ends and bool(a.left_open) == bool(g.left_open) and bool(a.right_open) == bool(g.right_open)
    # Not by its own rounding: to more digits than a double has.
    return verify(
        g, a, float_rounding=DIGITS, numeric_precision=400, allow_set_relation_comp=True, timeout_seconds=None
    )


def _same_members(a: Any, g: Any, tolerance: float) -> bool:
    if len(a.args) != len(g.args):
        return False
    if isinstance(a, sympy.Tuple) and isinstance(g, sympy.Tuple):
        return all(_same(x, y, tolerance) for x, y in zip(a.args, g.args, strict=True))
    left = list(a.args)
    for wanted in g.args:
        found = next((x for x in left if _same(x, wanted, tolerance)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _same_value(a: Any, g: Any, tolerance: float) -> bool | None:
    """Equal values, at every point where both have one; None where neither point tells."""
    symbols = sorted(a.free_symbols | g.free_symbols, key=str)
    if not symbols:
        return _same_number(a, g, tolerance)
    told = False
    for turn in range(len(POINTS)):
        at = {symbol: POINTS[(turn + 3 * i) % len(POINTS)] + i for i, symbol in enumerate(symbols)}
        verdict = _same_number(a.subs(at), g.subs(at), tolerance)
        if verdict is False:
            return False
        told = told or verdict is True
    return True if told else None


def _same_number(a: Any, g: Any, tolerance: float) -> bool | None:
    """|a − g| ≤ tolerance · |g|, or no difference within DIGITS digits; None if one of them has no finite value."""
    difference, size = (a - g).doit().evalf(DIGITS, maxn=300), abs(g.doit().evalf(DIGITS, maxn=300))
    if not (difference.is_number and size.is_number) or difference.has(sympy.nan, sympy.zoo, sympy.oo):
        return None
    parts = difference.as_real_imag()
    if not all(part.is_Float or part.is_Integer or part.is_Rational for part in parts):
        return None
    if all(part == 0 or getattr(part, "_prec", 53) == 1 for part in parts):
        return True
    return bool(abs(difference) <= max(tolerance, 10.0 ** (5 - DIGITS)) * size)


for _sentence in WARM:
    same_expression(_sentence, _sentence)
