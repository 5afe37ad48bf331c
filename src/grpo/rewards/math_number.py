r"""Numbers, exactly: "1.5e6", "2 2/3", r"\frac{1}{2^{99}}", "3(4-1)" as fractions.

Nothing is rounded, so 10^{-30} is not 10^{-31}. What would grow beyond BITS (a power tower, a long exponent) is not
computed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

BITS = 20_000
"""Size of a number, numerator or denominator, at most."""
LONGEST = 300
"""Characters of a number, at most."""
DEEPEST = 30
"""Brackets within brackets, at most."""
CLOSE = Fraction(1, 10**6)
"""Relative error that a long decimal may have, unless its rounding is more."""
FIVE, SIX, TWELVE = 5, 6, 12


@dataclass(frozen=True)
class Value:
    """A number and how it was written."""

    value: Fraction
    mantissa: int = 0
    """The significant digits of a decimal with a point, as one number; 0 for anything else."""
    digits: int = 0
    """How many they are."""
    decimals: int = 0
    """Digits after its point."""

    @property
    def rounded(self) -> bool:
        """A decimal long enough to stand for a number that has no finite decimal: 0.333333, 0.083333, 3.14159."""
        return self.digits >= FIVE and max(self.digits, self.decimals) >= SIX

    @property
    def unit(self) -> Fraction:
        """One unit of the last place of a decimal."""
        return abs(self.value) / self.mantissa if self.mantissa else Fraction(0)


class _Stop(Exception):
    """Not a number of this grammar."""


class _Large(_Stop):
    """A number of more than BITS."""


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>\d{1,3}(?:,\d{3})+(?:\.\d*)?(?![\d,])|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    | (?P<repeat>\\overline)
    | (?P<frac>\\frac)
    | (?P<times>\\times|\\cdot|\*)
    | (?P<over>\\div|/)
    | (?P<other>[-+^(){}])
    )""",
    re.VERBOSE | re.ASCII,
)
_DECIMAL = re.compile(r"[-+]?(\d*)\.(\d+)(?:[eE][-+]?\d+|\s*(?:\\times|\\cdot|\*)\s*10\s*\^.*)?", re.ASCII)
_REPEATING = re.compile(r"([-+]?)(\d*)\.(\d*)\\overline\{(\d+)\}", re.ASCII)
_SIDE_BY_SIDE = re.compile(r"(?<![\d._^])(?<!\\frac )\d[\d.]* +\.?\d")
_MIXED = re.compile(r"(?<![\d._^])\d+ ?\\frac ?\{(\d+)\} ?\{(\d+)\}")


@lru_cache(maxsize=20_000)
def value(text: str) -> Value | None:
    """The number that a tidy text is, or None: other mathematics, a word, too large a number."""
    if len(text) > LONGEST or not text:
        return None
    if text.isascii() and text.isdigit():
        return Value(Fraction(int(text)))
    if match := _REPEATING.fullmatch(text):
        return Value(_repeating(*match.groups()))
    try:
        reader = _Reader(_tokens(text))
        number = reader.sum()
        reader.end()
    except (_Stop, ZeroDivisionError):
        return None
    if match := _DECIMAL.fullmatch(text):
        whole, decimals = match.groups()
        digits = (whole + decimals).lstrip("0")
        return Value(number, int(digits or "0"), len(digits), len(decimals))
    return Value(number)


def oversized(text: str) -> bool:
    """Arithmetic whose numbers grow beyond BITS: 9^{9^{9^9}}. What fits in BITS is not written like that."""
    if len(text) > LONGEST:
        return False
    try:
        _Reader(_tokens(text)).sum()
    except _Large:
        return True
    except (_Stop, ZeroDivisionError):
        pass
    return False


_DATE = re.compile(r"(?<![\d.])(?:\d{4}-\d\d?-\d\d?|0\d+[-+*/]|\d+[-+*/]0\d+)(?![\d.])")


def is_date(text: str) -> bool:
    """2024-01-05, or anything else that adds or subtracts numbers with leading zeros."""
    return bool(_DATE.search(text))


def malformed(text: str) -> bool:
    r"""Two numbers side by side that are no mixed number: "4 10/3", "12 34", r"4\frac{10}{3}"; parsers add them."""
    if value(text) is not None:
        return False
    return bool(_SIDE_BY_SIDE.search(text)) or any(int(a) >= int(b) for a, b in _MIXED.findall(text))


def same_number(a: Value, b: Value) -> bool:
    """Equal, or one is a decimal that can only mean the other: 0.333333 = 1/3, 0.0833333333333333 = 1/12.

    A decimal of six digits (five of them significant) stands for a number that has no finite decimal if it is
    rightly rounded, or right to 10⁻⁶ of its size. A decimal of twelve, six after the point, is a printed float and
    may stand for any number. Two finite decimals are otherwise compared exactly: 12345.67 is not 12345.7.
    """
    return a.value == b.value or _stands_for(a, b) or _stands_for(b, a)


def _stands_for(decimal: Value, other: Value) -> bool:
    printed = decimal.digits >= TWELVE and decimal.decimals >= SIX
    if not printed and (not decimal.rounded or _finite(other.value.denominator)):
        return False
    return abs(decimal.value - other.value) <= max(decimal.unit / 2, CLOSE * abs(other.value))


def _finite(denominator: int) -> bool:
    """1/denominator has a finite decimal: no prime factor but 2 and 5."""
    denominator //= denominator & -denominator
    while denominator % 5 == 0:
        denominator //= 5
    return denominator == 1


def _repeating(sign: str, whole: str, decimals: str, cycle: str) -> Fraction:
    r"""0.1\overline{6} = (16 − 1) / 90."""
    scale = 10 ** len(decimals)
    number = Fraction(int(whole + decimals or "0"), scale) + Fraction(int(cycle), scale * (10 ** len(cycle) - 1))
    return -number if sign == "-" else number


def _tokens(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each token."""
    tokens, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _Stop
        kind = match.lastgroup or ""
        tokens.append((kind if kind != "other" else match[kind], match[kind]))
        position = match.end()
    return tokens


class _Reader:
    r"""Recursive descent.

    sum = term (± term)*   term = factor ((× | /) factor | (sum))*   factor = ± factor | atom [^ factor]
    atom = number [\frac | number/number] | (sum) | {sum} | \frac atom atom
    """

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0
        self.brackets = 0

    def end(self) -> None:
        if self.at < len(self.tokens):
            raise _Stop

    def sum(self) -> Fraction:
        total = self._term()
        while (sign := self._take("+", "-")) is not None:
            term = self._term()
            total = _small(total + term if sign == "+" else total - term)
        return total

    def _term(self) -> Fraction:
        product, divided = self._factor(), False
        while True:
            if self._take("times") is not None:
                product = _small(product * self._factor())
            elif self._take("over") is not None:
                product, divided = _small(product / self._factor()), True
            elif self._next() == "(" and not divided:  # 3(4) is 12; of 1/2(3) nobody knows
                product = _small(product * self._factor())
            else:
                return product

    def _factor(self) -> Fraction:
        self._deeper()
        if (sign := self._take("+", "-")) is not None:
            factor = self._factor()
            factor = -factor if sign == "-" else factor
        else:
            factor = self._atom()
            if self._take("^") is not None:
                factor = _power(factor, self._factor())
        self.depth -= 1
        return factor

    def _atom(self) -> Fraction:
        if (number := self._take("number")) is not None:
            if "," in number and self.brackets:  # (1,234) is a pair
                raise _Stop
            return self._mixed(_literal(number), number.isdigit())
        for opening, closing in (("(", ")"), ("{", "}")):
            if self._take(opening) is not None:
                self._deeper()
                self.brackets += opening == "("
                inside = self.sum()
                self.brackets -= opening == "("
                self.depth -= 1
                if self._take(closing) is None:
                    raise _Stop
                return inside
        if self._take("frac") is not None:
            return self._fraction()
        raise _Stop

    def _mixed(self, whole: Fraction, integer: bool) -> Fraction:
        r"""2\frac{3}{4} and 2 3/4 are 11/4; 4 10/3 is a slip and no number."""
        if self._take("frac") is not None:
            part = self._fraction()
        elif self._next() == "number":
            part = _literal(self._take("number") or "")
            if self._take("over") is None or self._next() != "number":
                raise _Stop
            part = part / _literal(self._take("number") or "")
        else:
            return whole
        if not integer or not 0 <= part < 1:
            raise _Stop
        return whole + part

    def _fraction(self) -> Fraction:
        r"""\frac{1}{2}, and \frac12, whose arguments are one digit each."""
        if self._next() == "number":
            digits = self._take("number") or ""
            if len(digits) == 2 and digits.isdigit():
                return Fraction(int(digits[0]), int(digits[1]))
            if len(digits) != 1:
                raise _Stop
            return _small(int(digits) / self._argument())
        above = self._argument()
        return _small(above / self._argument())

    def _argument(self) -> Fraction:
        if self._next() == "{":
            return self._atom()
        digit = self._take("number")
        if digit is None or len(digit) != 1:
            raise _Stop
        return Fraction(int(digit))

    def _deeper(self) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _Stop

    def _next(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def _take(self, *kinds: str) -> str | None:
        if self._next() not in kinds:
            return None
        self.at += 1
        return self.tokens[self.at - 1][1]


def _literal(number: str) -> Fraction:
    mantissa, _, exponent = number.lower().replace(",", "").partition("e")
    if exponent and abs(int(exponent)) > BITS // 4:
        raise _Large
    whole, _, decimals = mantissa.partition(".")
    value = Fraction(int(whole + decimals or "0"), 10 ** len(decimals))
    return value * Fraction(10) ** int(exponent) if exponent else value


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise _Stop
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size * abs(exponent.numerator) > BITS:
        raise _Large
    return base**exponent.numerator


def _small(number: Fraction) -> Fraction:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > BITS:
        raise _Large
    return number
