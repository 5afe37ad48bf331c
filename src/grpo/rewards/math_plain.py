r"""Two answers compared without a computer algebra system: numbers exactly, words, lists, intervals, ratios, units.

    same      True, False, or None: this layer cannot tell, and a parser of LaTeX has to (math_worker.py)
    problem   "" if an answer can be compared, None if only the parser can tell, else what is wrong with it

What is decided here, and does not depend on the parser: the order of a plain list or a set does not matter, that of
(a, b), [a, b) and a : b does; a pair needs its brackets; (a, b) as an interval and as a point look alike and are
compared alike; a decimal comma is none ("2,5" is the list 2, 5); x = 5 is 5, but not y = 5; every side of a chain must
be right (3 = 5 is not 5); ± stands for the two values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from grpo.rewards.math_number import is_date, malformed, oversized, same_number, value
from grpo.rewards.math_shape import EQUALS, RELATION, SETLIKE, Leaf, Many, Node, sides_of
from grpo.rewards.math_text import compact, words
from grpo.rewards.math_units import same_unit, split_unit

LONGEST = 2_000
"""Characters of an answer, at most; longer ones are not compared."""
MEMBERS = 100
"""Members of a list, at most."""


Verdict = bool | None
LeafSame = Callable[[str, str], Verdict]

_SENTENCE = re.compile(r"\b(?:is|are|was|the|because|that|this|it|there|which|we|i|so|if)\b")


def same(answer: Node, gold: Node, leaf: LeafSame | None = None) -> Verdict:
    """Is the answer the gold one? `leaf` decides expressions that this layer cannot; without it they are None."""
    if isinstance(answer, Leaf) and isinstance(gold, Leaf):
        return _same_leaf(answer.text, gold.text, leaf)
    if isinstance(answer, Many) and isinstance(gold, Many):
        if compact(answer.text) == compact(gold.text):
            return True
        if answer.kind == gold.kind == "union":
            if verdict := _unordered(answer.items, gold.items, leaf):
                return verdict
            return leaf(answer.text, gold.text) if leaf else None  # overlapping parts: [0,2] ∪ [1,3] is [0,3]
        if answer.kind == gold.kind and answer.kind in ("list", "union"):
            return _unordered(answer.items, gold.items, leaf)
        if answer.kind == gold.kind:
            return _ordered(answer.items, gold.items, leaf)
    # An interval may be written as an inequality, a set by its property; a list is never a single number.
    for one, other in ((answer, gold), (gold, answer)):
        setlike = isinstance(one, Leaf) and SETLIKE.search(one.text)
        if (setlike or (isinstance(one, Many) and one.kind == "union")) and not _is_list(other):
            return leaf(answer.text, gold.text) if leaf else None
        if setlike and isinstance(gold, Many) and _is_list(gold) and r"\mid" in answer.text:
            return leaf(answer.text, gold.text) if leaf else None
    return False


def problem(gold: Node, leaf: Callable[[str], str] | None = None) -> str | None:
    """ "" if it can be compared; what is wrong with it; None if only a parser can tell and there is none."""
    if isinstance(gold, Many):
        found = [problem(item, leaf) for item in gold.items]
        return next((each for each in found if each), None if None in found else "")
    text = gold.text
    if not text:
        return "it is empty"
    if len(text) > LONGEST:
        return f"it has more than {LONGEST} characters"
    said = words(text)
    if said is not None:
        count, most = len(said.split()), 8 if text.startswith("\\text") else 3
        return "it is a sentence" if count > most or (count > 2 and _SENTENCE.search(said)) else ""
    parts = sides_of(text)[1]
    bodies = [split_unit(part)[0] for part in parts]
    if all(value(body) is not None or _infinite(body) or _based(body) for body in bodies):
        return ""
    if any(malformed(body) for body in bodies):
        return "two numbers stand side by side in it"
    if any(_wordy(body) for body in bodies):
        return "it mixes words and mathematics"
    if leaf is None:
        return None
    return next((said for body in bodies if (said := leaf(body))), "")


def _same_leaf(answer: str, gold: str, leaf: LeafSame | None) -> Verdict:
    """One expression against one."""
    if compact(answer) == compact(gold):
        return True
    said, wanted = words(answer), words(gold)
    if said is not None and wanted is not None:
        product = max(len(answer), len(gold)) <= 3 and (answer + gold).islower()  # xy is yx
        return said == wanted or (leaf(answer, gold) if product and leaf else None if product else False)
    (name, sides), (gold_name, gold_sides) = sides_of(answer), sides_of(gold)
    if name and gold_name and name != gold_name:
        return False
    if RELATION.search(gold) or (not gold_name and len(gold_sides) > 1):
        return _ask(answer, gold, leaf) if RELATION.search(answer) or EQUALS.search(answer) else False
    if RELATION.search(answer):
        return False
    if gold_name and not name and len(sides) > 1 and value(split_unit(gold_sides[-1])[0]) is None:
        return _ask(answer, gold, leaf)  # y = 2x + 3 may be written 2x - y + 3 = 0
    verdicts = [_same_side(side, gold_sides[-1], leaf) for side in sides]
    return False if False in verdicts else None if None in verdicts else True


def _same_side(answer: str, gold: str, leaf: LeafSame | None) -> Verdict:
    """One side of an equation, without its name, against the gold value."""
    (body, unit), (gold_body, gold_unit) = split_unit(answer), split_unit(gold)
    if not same_unit(unit, gold_unit) or not body:
        return False
    if compact(body) == compact(gold_body):
        return True
    if is_date(body) or is_date(gold_body):
        return False
    if _based(body) or _based(gold_body):
        return _same_based(body, gold_body)
    number, gold_number = value(body), value(gold_body)
    if number is not None and gold_number is not None:
        return same_number(number, gold_number)
    if gold_number is not None and oversized(body):
        return False
    if _infinite(body) or _infinite(gold_body):
        return _infinite(body) == _infinite(gold_body)
    if (said := words(gold_body)) is not None and (len(gold_body) > 3 or (number is not None and said not in "ei")):
        return False  # no expression is a word; only e and i are numbers
    return _ask(body, gold_body, leaf)


def _ask(answer: str, gold: str, leaf: LeafSame | None) -> Verdict:
    """What only a parser can tell; nothing that a parser is known to misread reaches it."""
    if malformed(answer) or _wordy(answer) or _wordy(gold):
        return False
    return leaf(answer, gold) if leaf else None


def _ordered(answers: Sequence[Node], golds: Sequence[Node], leaf: LeafSame | None) -> Verdict:
    if len(answers) != len(golds):
        return False
    unsure = False
    for answer, gold in zip(answers, golds, strict=True):
        verdict = same(answer, gold, leaf)
        if verdict is False:
            return False
        unsure = unsure or verdict is None
    return None if unsure else True


def _unordered(answers: Sequence[Node], golds: Sequence[Node], leaf: LeafSame | None) -> Verdict:
    """Each gold member is matched by an answer of its own."""
    if len(answers) != len(golds) or len(golds) > MEMBERS:
        return False
    left, unsure = list(answers), False
    for gold in golds:
        verdicts = [same(answer, gold, leaf) for answer in left]
        if True in verdicts:
            del left[verdicts.index(True)]
        elif None in verdicts:
            unsure = True
        else:
            return False
    return None if unsure else True


def _is_list(node: Node) -> bool:
    return isinstance(node, Many) and node.kind == "list"


_WORD = re.compile(r"\\text(?![a-zA-Z])|(?<![\\A-Za-z{])[A-Za-z]?[a-z]{3,}")


def _wordy(text: str) -> bool:
    r"""Words within mathematics, which parsers drop in silence: "5\text{ or more}" would be 5. \begin{cases} may."""
    return r"\begin" not in text and any(
        not match.group().startswith(("sin", "cos", "tan", "log", "sqrt")) for match in _WORD.finditer(text)
    )


def _infinite(text: str) -> str:
    r"""oo or -oo, or "" for anything else."""
    return {r"\infty": "oo", r"+\infty": "oo", r"-\infty": "-oo"}.get(compact(text), "")


_BASED = re.compile(r"([0-9A-Fa-f]+)_(?:\{ ?(?:\\text\{)?(\d+|two|eight)\}? ?\}|(\d))")


def _based(text: str) -> tuple[str, str] | None:
    """(digits, base) of 1011_2."""
    match = _BASED.fullmatch(compact(text))
    return (match.group(1).upper().lstrip("0"), match.group(2) or match.group(3)) if match else None


def _same_based(answer: str, gold: str) -> bool:
    """The base is like a unit: missing on one side it is the other's."""
    a, g = _based(answer), _based(gold)
    plain = compact(answer if a is None else gold).upper().lstrip("0")
    return a == g if a and g else plain == (a or g or ("", ""))[0]
