r"""The shape of an answer: one expression, or several in a list, in brackets, in a ratio, in a union.

"n = 2, 3" is the list 2, 3; "[0, 1)" is a bracket with two members; "1 \pm \sqrt2" is a list. A comma in brackets
always separates: (1,234) is a pair. "1,234, 5" are two numbers, and a comma is no decimal point: "2,5" is a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from grpo.rewards.math_number import value
from grpo.rewards.math_text import compact, split, tidy, words
from grpo.rewards.math_units import split_unit

DEEPEST = 6
"""Brackets within brackets that are looked into."""


@dataclass(frozen=True)
class Leaf:
    """One number, word or expression, tidy."""

    text: str


@dataclass(frozen=True)
class Many:
    """Several answers in one."""

    kind: str
    """"list" (unordered), "ratio", "union" (unordered), or the brackets around: "()", "[)", …"""
    items: tuple[Node, ...]
    text: str


Node = Leaf | Many

_NAME = re.compile(
    r"(?:[A-Za-z]|\\(?:alpha|beta|gamma|delta|epsilon|varepsilon|theta|lambda|mu|phi|varphi|omega|sigma|tau|rho)\b)"
    r"(?:_(?:\w|\{\w+\}))?'*(?:\([A-Za-z](?:,[A-Za-z])*\))?|[fghpqFGHPQ]\([^()=]{1,20}\)"
)
_LABEL = re.compile(
    r"\\text\{[^{}]*\}|[A-Z]{2,}|[A-Za-z]{4,}(?: [A-Za-z]+)*|\|[A-Z]{2}\||m?(?:\\overline|\\angle) ?\{?[A-Z]+\}?"
)
_IN = re.compile(r"^[A-Za-z](?:_\w)? ?\\in ?(?![A-Za-z])")
RELATION = re.compile(r"[<>]|\\(?:le|ge|ne)(?![a-zA-Z])")
SETLIKE = re.compile(r"[<>=]|\\(?:le|ge|ne|in|mathbb|mathcal|setminus|emptyset|infty|cup|cap|mid|begin)(?![a-zA-Z])")
_SET_OF = re.compile(r"\\\{ ?([A-Za-z]) ?(?:\\mid|\||:) ?([^{},]*)\\\}")
_FRENCH = re.compile(r"([\[\]])([^\[\](){}]*[,;][^\[\](){}]*)([\[\]])")
EQUALS = re.compile(r"(?<![<>!:=\\])=(?!=)")


def parse(text: str, depth: int = 0) -> Node:
    """The structure of a tidy text."""
    text = _IN.sub("", text).strip()
    if depth == 0 or "," not in text:  # {1,2},{3} are two sets, not one list
        text = _unwrapped(text)
    if (match := _SET_OF.fullmatch(text)) and RELATION.search(match.group(2)):
        text = match.group(2).strip()  # {x | x > 2} is x > 2
    if depth >= DEEPEST or value(text) is not None:
        return Leaf(text)
    if match := _FRENCH.fullmatch(text):
        left, inside, right = match.groups()
        text = f"{'[' if left == '[' else '('}{inside}{']' if right == ']' else ')'}"
    if len(parts := _members(text)) > 1:
        return _many("list", _named_once(parts), text, depth)
    if text.count(r"\pm") == 1 and r"\mp" not in text:
        return _many("list", [text.replace(r"\pm", "+"), text.replace(r"\pm", "-")], text, depth)
    if len(parts := split(text.replace(r"\cup", "\0"), "\0")) > 1:
        return _many("union", parts, text, depth)
    if enclosed := _enclosed(text):
        brackets, inside = enclosed
        members = _members(inside, number=False)
        if brackets == "{}":
            return _many("list", members, text, depth) if inside and not SETLIKE.search(inside) else Leaf(text)
        if len(members) > 1:
            return _many(brackets, members, text, depth)
    if len(parts := split(text, ":")) > 1 and all(parts):
        return _many("ratio", parts, text, depth)
    return Leaf(text)


def together(parts: Sequence[str]) -> Node:
    """One answer given in several boxes: a list; the same thing said twice counts once."""
    nodes = {key(node, names=True): node for node in (parse(tidy(part)) for part in parts)}.values()
    items = tuple(_flat(nodes))
    return items[0] if len(items) == 1 else Many("list", items, ", ".join(item.text for item in items))


def key(node: Node, names: bool = False) -> str:
    """Equal for answers that are written differently but have the same value, unit and, if asked, name."""
    if isinstance(node, Many):
        keys = [key(item, names) for item in node.items]
        ordered = keys if node.kind not in ("list", "union") else sorted(keys)
        left, right = node.kind if len(node.kind) == 2 else (node.kind + "(", ")")
        return f"{left}{', '.join(ordered)}{right}"
    if (said := words(node.text)) is not None:
        return said
    name, parts = sides_of(node.text)
    body, unit = split_unit(parts[-1])
    unit = "" if unit == "percent" else unit
    number = value(body)
    written = compact(body) if number is None else str(number.value)
    return f"{name + '=' if names and name else ''}{written} {unit}".strip()


def sides_of(text: str) -> tuple[str, list[str]]:
    r"""(name, values): x = 5 is ("x", ["5"]), 2 + 3 = 5 is ("", ["2 + 3", "5"]), 5 = x as x = 5; a label is no name.

    What follows \approx is only a rounding of what stands before.
    """
    if (start := _NAME.match(text)) and text[start.end() :].lstrip().startswith(r"\approx"):
        text = text.replace(r"\approx", "=", 1)
    parts = [part for part in split(EQUALS.sub("\0", text), "\0") if part]
    parts = [first for part in parts if (first := part.split(r"\approx")[0].strip())] or [text]
    if len(parts) == 1:
        return "", parts
    if _NAME.fullmatch(parts[-1]) and not _NAME.fullmatch(parts[0]):
        parts.reverse()
    if _NAME.fullmatch(parts[0]):
        return compact(parts[0]), parts[1:]
    return "", parts[1:] if _LABEL.fullmatch(parts[0]) else parts


def _members(text: str, number: bool = True) -> list[str]:
    """Split at commas and semicolons; with a comma before a space, only there, so that "1,234, 5" are two numbers."""
    if number and all(value(split_unit(side)[0]) is not None for side in sides_of(text)[1]):
        return [text]  # 1,234, x = 1,234 and $1,234 are one number
    if ";" in text and len(parts := split(text, ";")) > 1:
        return [part for part in parts if part]
    spaced = split(text.replace(", ", "\0"), "\0")
    if len(spaced) > 1 and all(value(part) is not None or "," not in part or _enclosed(part) for part in spaced):
        return [part for part in spaced if part]
    return [part for part in split(text, ",") if part]


def _named_once(parts: list[str]) -> list[str]:
    """n = 2, 3, 4 names all of them; without the name where only the first has one."""
    name, values = sides_of(parts[0])
    return [values[-1], *parts[1:]] if name and not any(EQUALS.search(part) for part in parts[1:]) else parts


def _many(kind: str, parts: list[str], text: str, depth: int) -> Node:
    members = [parse(part, depth + 1) for part in parts]
    items = tuple(_flat(members) if kind == "list" else members)
    return items[0] if len(items) == 1 else Many(kind, items, text)


def _flat(nodes: Iterable[Node]) -> Iterator[Node]:
    """A list within a list is no more than its members: 3, ±1."""
    for node in nodes:
        yield from node.items if isinstance(node, Many) and node.kind == "list" else (node,)


def _enclosed(text: str) -> tuple[str, str] | None:
    r"""(brackets, inside) if one pair of brackets holds the whole: ("()", "1, 2"), ("[)", "0,1"), ("{}", "1,2")."""
    for opening in ("(", "[", r"\{", r"\langle "):
        for closing in (")", "]", r"\}", r"\rangle"):
            if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening) + len(closing):
                inside = text[len(opening) : -len(closing)]
                if _balanced(inside):
                    return (opening[:2] + closing[:2]).replace("\\", "").replace("lr", "<>"), inside.strip()
    return None


def _balanced(text: str) -> bool:
    depth = 0
    for token in re.findall(r"\\[{}]|\\.|[()\[\]{}]", text, re.DOTALL):
        if token in ("(", "[", "{", r"\{"):
            depth += 1
        elif token in (")", "]", "}", r"\}"):
            depth -= 1
            if depth < 0:
                return False
    return depth == 0


def _unwrapped(text: str) -> str:
    """Without braces around the whole."""
    while text.startswith("{") and text.endswith("}") and _balanced(text[1:-1]):
        text = text[1:-1].strip()
    return text
