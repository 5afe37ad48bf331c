"""Where the answer stands in a completion, and what number it is.

All of it is linear in the length of the text, and no text makes it raise. Only the completion is read, never the
prompt.
"""

from __future__ import annotations

import re
from fractions import Fraction

from grpo.tasks.base import Extract

OPENED = re.compile(r"\\(?:boxed|fbox)\s*\{")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)"  # 1,234 is one number, 1,2 and 1,2345 are two
_LONGEST = 100  # characters of a number; beyond, int() itself is superlinear
_FRACTION = r"\\[dt]?frac\s*(?:\{\s*\d+\s*\}\s*\{\s*\d+\s*\}|\d\s*\d)"
# A sign counts where it cannot be the minus of a difference: "= -5" is −5, "7-5" ends in 5.
_NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}])[-+−])?(?:{_FRACTION}|(?<![\w.])\d+[ ]+\d+/\d+|{_DIGITS}/\d+|{_DIGITS}(?:\.\d+)?|(?<!\d)\.\d+)"
)
# A number before any of these is part of something longer, or the first of several guesses.
_GOES_ON = re.compile(r"\s*(?:[-+−*/^=\\<>|&;:$×·{(\[]|or\b|and\b|,\s*[-+−\\\d])|[.,]?\d|[^\W\d_]")
_MIXED = re.compile(r"([-+]?)(\d+)\s+(\d+)/(\d+)", re.ASCII)
_RATIO = re.compile(r"([-+]?)(\d+)/(\d+)", re.ASCII)
_DECIMAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?", re.ASCII)
_THOUSANDS = re.compile(r"([-+]?)(\d{1,3}(?:,\d{3})+)(\.\d*)?", re.ASCII)
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")


def find_answer(text: str, extract: Extract) -> str | None:
    """The answer as written, or None.

    boxed: the last box and nothing else. hash: what follows the last "####". last_number: the last number of the text.
    boxed_or_hash, boxed_or_last_number: the last box where one was opened, else the other.
    """
    if extract.startswith("boxed") and (extract == "boxed" or OPENED.search(text)):
        return last_boxed(text)
    return last_hash(text) if extract.endswith("hash") else last_number(text)


def last_boxed(text: str) -> str | None:
    r"""What stands in the last \boxed{…} or \fbox{…}, braces counted; None without one or if it is never closed.

    A regex that stops at the first "}" would cut \boxed{\frac{1}{2}}; an earlier box is no answer if a later opens.
    """
    opened = _last(OPENED, text)
    if opened is None:
        return None
    depth, position = 1, opened.end()
    while position < len(text):
        character = text[position]
        if character == "\\":  # \{ and \} are characters, not groups
            position += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return text[opened.end() : position].strip()
        position += 1
    return None


def last_hash(text: str) -> str | None:
    """What follows the last "####", as in GSM8K: a number that stands there first, else the rest of the line.

    "#### 42 and so on" is 42, but "#### 42 or 43" and "#### 42, 43" are what they are: two guesses.
    """
    start = text.rfind("####")
    if start < 0:
        return None
    line = text[start + 4 :].lstrip(" \t").partition("\n")[0]
    found = _NUMBER.match(line, int(line.startswith("$")))
    if found and not _GOES_ON.match(line, found.end()):
        return found.group()
    return line.strip(" \t\r*") or None


def last_number(text: str) -> str | None:
    """The last number of the text: 42, 4.5, 1,234, 2/3, 2 2/3 or \\frac{2}{3}; a full stop after it is not its."""
    found = _last(_NUMBER, text)
    return found.group() if found else None


def number(text: str) -> Fraction | None:
    """The number that `text` is, exactly, or None if it is anything else (units, two numbers, a sentence).

    "42." = 42, "1,234" = 1234, "12\\,345" = 12345, "−5" = −5, "2 2/3" = 8/3; a decimal comma ("2,5") is no number.
    """
    if len(text) > _LONGEST:
        return None
    text = _TEXT.sub(r"\1", text).replace("\\$", "").strip("$ \n\t")
    text = text.replace("−", "-").replace("{,}", ",").replace("\\,", ",")
    text = re.sub(r"\\[dt]?frac\s*(?:\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}|(\d)\s*(\d))", _slash, text)
    if match := _MIXED.fullmatch(text):
        sign, whole, above, below = match.groups()
        if int(above) >= int(below):
            return None  # 4 10/3 is a slip, not an answer
        return _signed(sign, int(whole) + Fraction(int(above), int(below)))
    if match := _RATIO.fullmatch(text):
        sign, above, below = match.groups()
        return _signed(sign, Fraction(int(above), int(below))) if int(below) else None
    if match := _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    return Fraction(text.rstrip(".")) if _DECIMAL.fullmatch(text) else None


def same(answer: str, gold: str) -> bool:
    r"""Equal as exact numbers; where the gold is no number, as text without case, spaces around and \text{}."""
    wanted = number(gold)
    if wanted is not None:
        return number(answer) == wanted
    return _plain(answer) == _plain(gold)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return max(pattern.finditer(text), key=lambda match: match.start(), default=None)


def _signed(sign: str, value: Fraction) -> Fraction:
    return -value if sign == "-" else value


def _slash(match: re.Match[str]) -> str:
    above, below = (group for group in match.groups() if group is not None)
    # A digit before makes it a mixed number: 2\frac{3}{4} is 11/4.
    return f" {above}/{below}" if match.start() and match.string[match.start() - 1].isdigit() else f"{above}/{below}"


def _plain(text: str) -> str:
    return _TEXT.sub(r"\1", text).strip().casefold()
