r"""Answers as people write them, brought into one LaTeX: tidy(r"$\dfrac12\,\text{ cm}$.") = r"\frac12 \text{cm}".

Every step is a regular expression whose work is linear in the text; nothing here knows what the text means.
"""

from __future__ import annotations

import re

_UNICODE = str.maketrans(
    {
        "−": "-",  # U+2212, the sign that is no hyphen
        "–": "-",
        "×": r"\times ",
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "÷": "/",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "≈": r"\approx ",
        "π": r"\pi ",
        "θ": r"\theta ",
        "∞": r"\infty ",
        "°": r"^\circ ",
        "±": r"\pm ",
        "∪": r"\cup ",
        "∈": r"\in ",
        "∅": r"\emptyset ",
        "²": "^{2}",
        "³": "^{3}",
        "½": r"\frac{1}{2}",
        "¼": r"\frac{1}{4}",
        "¾": r"\frac{3}{4}",
        "\u00a0": " ",
        "\u2009": r"\,",
        "\u202f": r"\,",
        "’": "'",
        "“": '"',
        "”": '"',
    }
)
_ROOT = re.compile(r"√\s*(?:(\d+)|\(([^()]*)\)|([a-z]))")
_THOUSANDS = re.compile(r"(?<=\d)(?:\\,|\\!|\{,\}|,\\!)(?=\d{3}(?!\d))")
_COMMAND = re.compile(
    r"""(?P<keep>\\\\|\\[{}%$])                                  # a new row, and characters written with a backslash
      | (?P<space>\\[,;:!\s]|\\q?quad(?![a-zA-Z])|~)
      | (?P<drop>\\[()\[\]]|\\(?:left|right|[bB]igg?[lr]?|displaystyle|limits|boldsymbol)(?![a-zA-Z])|(?<!\\)\$)
      | \\[dtc]frac(?![a-zA-Z])(?P<frac>)
      | \\(?:mathbf|mathit|boldsymbol)\s*\{(?P<letter>[A-Za-z])\}
      | \\(?:textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|mbox|text)\s*\{(?P<words>[^{}]*)\}
      | \\(?P<name>leqslant|leq|geqslant|geq|neq|lt|gt|ldots|dots|cdots|varnothing|lbrace|rbrace|langle|rangle|colon
          |approxeq|simeq|sim)(?![a-zA-Z])""",
    re.VERBOSE,
)
_NAMES = {
    "leqslant": r"\le ",
    "leq": r"\le ",
    "geqslant": r"\ge ",
    "geq": r"\ge ",
    "neq": r"\ne ",
    "lt": "<",
    "gt": ">",
    "ldots": "...",
    "dots": "...",
    "cdots": "...",
    "varnothing": r"\emptyset ",
    "lbrace": r"\{",
    "rbrace": r"\}",
    "langle": r"\langle ",
    "rangle": r"\rangle ",
    "colon": ":",
    "approxeq": r"\approx ",
    "simeq": r"\approx ",
    "sim": r"\sim ",
}
_JOINS = re.compile(r" ?,? ?(?:\\text\{,? ?(?:or|and)\}|(?<![\\\w{])(?:or|and)(?![\w}])) ?")
_SPACE = re.compile(r"\s+")
_LOOSE = re.compile(r"(?<!\d) | (?!\d)")


def tidy(text: str) -> str:
    r"""The answer without decoration: no $…$, \left, thin spaces or full stop; one spelling of each symbol.

    \,  between groups of three digits goes (12\,345 is 12345), elsewhere it is a space. All kinds of \text become
    \text{…}. "or" and "and" become commas: what they join is a list.
    """
    text = _ROOT.sub(r"\\sqrt{\1\2\3}", text.translate(_UNICODE))
    if text.count("$") == 1 and "\\$" not in text:  # one dollar, not half of a formula
        text = text.replace("$", r"\$")
    text = _SPACE.sub(" ", _COMMAND.sub(_spelt, _THOUSANDS.sub("", text)))
    text = _JOINS.sub(", ", text).strip(" *")
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip()
    return text.removeprefix("=").removeprefix(r"\approx ").strip(" ,;")


def compact(text: str) -> str:
    """A tidy text without its spaces, save those between digits ("2 2/3" is not 22/3): equal for equal writings."""
    return _LOOSE.sub("", text)


def words(text: str) -> str | None:
    r"""What is written in words, without case, \text{} and quotes: "Evelyn", "(C)", "no solution"; None for formulas.

    One letter is words too. A bare word of LaTeX is a product of letters to a parser, so that "True" would equal
    "e·r·t·u" and "north" "thorn"; as words they are compared whole.
    """
    inner = _TEXT.fullmatch(text)
    plain = (inner.group(1) if inner else text).strip(" .\"'")
    if choice := re.fullmatch(r"\(([A-Za-z])\)", plain):
        plain = choice.group(1)
    if inner and re.search(r"[^\W\d_]", plain):
        return plain.casefold()
    return plain.casefold() if _WORDS.fullmatch(plain) else None


_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_WORDS = re.compile(r"[^\W\d_]+(?:[ '-]+[^\W\d_]+)*")


def split(text: str, separators: str) -> list[str]:
    r"""The parts between the separator characters that stand outside of all brackets and \begin…\end, in order."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(
        rf"\\begin(?![a-zA-Z])|\\end(?![a-zA-Z])|\\.|[()\[\]{{}}]|[{separators}]", text, re.DOTALL
    ):
        token = match.group()
        if token in _OPEN:
            depth += 1
        elif token in _CLOSE:
            depth = max(0, depth - 1)
        elif token in separators and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


_OPEN = frozenset(("(", "[", "{", r"\{", r"\begin"))
_CLOSE = frozenset((")", "]", "}", r"\}", r"\end"))


def _spelt(match: re.Match[str]) -> str:
    if match["keep"]:
        return match["keep"] if match["keep"] != r"\%" else "%"
    if match["letter"]:
        return match["letter"]
    if match["words"] is not None:
        return rf"\text{{{match['words'].strip()}}}" if match["words"].strip() else ""
    if match["name"]:
        return _NAMES[match["name"]]
    return r"\frac" if match["frac"] is not None else " " if match["space"] else ""
