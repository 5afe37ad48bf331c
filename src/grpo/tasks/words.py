"""English word problems for chat models: addition, comparison and counting, made by rule."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.tasks.base import Extract, Question, Split, split_of
from grpo.tasks.order import hash64, pick

Kind = Literal["addition", "comparison", "counting"]
LIMITS: dict[Split, int] = {"train": 3000, "validation": 512, "test": 1024}
"""Most questions of a split; level 1 has fewer, because its small numbers allow few problems."""

NUMBERS = {1: (1, 9), 2: (1, 20), 3: (10, 99), 4: (10, 99)}
"""Level -> smallest and largest number in the question."""
LISTS = {1: (2, 4), 2: (2, 6), 3: (4, 8), 4: (6, 12)}
"""Level -> shortest and longest list to count."""

NAMES = (
    "Anna",
    "Ben",
    "Carla",
    "David",
    "Emma",
    "Frank",
    "Grace",
    "Henry",
    "Julia",
    "Liam",
    "Maria",
    "Noah",
    "Sara",
    "Tom",
)
THINGS = ("apples", "balls", "books", "cards", "coins", "eggs", "flowers", "keys", "pens", "shells", "stamps", "stones")
ITEMS = (
    *("apple", "bag", "ball", "bird", "boat", "book", "cat", "chair", "clock", "cup"),
    *("dog", "door", "fish", "hat", "key", "lamp", "pen", "ring", "shoe", "tree"),
)

PLAIN = {
    "addition": (
        "What is {0} plus {1}?",
        "What is {0} + {1}?",
        "What is the sum of {0} and {1}?",
        "How much is {0} plus {1}?",
        "What do {0} and {1} add up to?",
        "Add {0} and {1}.",
    ),
    "comparison": (
        "Which number is {word}, {0} or {1}?",
        "Which is {word}: {0} or {1}?",
        "Is {0} or {1} the {word} number?",
        "Of {0} and {1}, which is {word}?",
        "Tell me the {word} number: {0} or {1}?",
        "Between {0} and {1}, which number is {word}?",
    ),
    "counting": (
        "How many words are in this list: {list}?",
        "Count the words: {list}.",
        "How many things are these: {list}?",
    ),
}
STORIES = {
    "addition": (
        "{name} has {0} {things} and gets {1} more. How many {things} does {name} have now?",
        "{name} finds {0} {things}, then {1} more. How many {things} is that in all?",
        "There are {0} {things} in one box and {1} in another. How many {things} are there together?",
    ),
    "comparison": (
        "{name} has {0} {things} and {other} has {1}. How many {things} does the one with {more} have?",
        "One box holds {0} {things}, another holds {1}. How many {things} are in the box with {more}?",
    ),
    "counting": (
        "{name} packs these into a bag: {list}. How many things are in the bag?",
        "On the table lie these: {list}. How many things lie on the table?",
    ),
}
LONG = {
    "addition": (
        "{name} has {0} {things}, gets {1} more and then finds another {2}. How many {things} does {name} have now?",
        "What is {0} plus {1} plus {2}?",
    ),
    "comparison": (
        "Which of these numbers is the {most}: {0}, {1} or {2}?",
        "Three friends have {0}, {1} and {2} {things}. How many {things} does the one with the {count} have?",
    ),
    "counting": STORIES["counting"],
}
UP = {"word": "larger", "more": "more", "most": "largest", "count": "most"}
DOWN = {"word": "smaller", "more": "fewer", "most": "smallest", "count": "fewest"}
PHRASES = {1: PLAIN, 2: STORIES, 3: {k: (*PLAIN[k], *STORIES[k]) for k in PLAIN}, 4: LONG}
"""Level -> kind -> wordings."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Words:
    """A problem is its kind and its numbers (or words) in any order; it lives in one split, in many wordings."""

    level: Annotated[int, Field(strict=True, ge=1, le=4)] = 1
    """1: numbers to 9, plain; 2: to 20, stories; 3: two digits, both; 4: three two-digit numbers, long lists."""
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)] = ("addition", "comparison", "counting")
    """Which kinds of problems, in equal shares."""
    instruction: str = "Answer with only the number."
    """Sentence after each question; empty for none."""
    system: str | None = None
    """System message; null leaves it to the chat template."""
    extract: Extract = "boxed_or_last_number"
    """Where the answer is read: boxed | last_number | boxed_or_last_number."""
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] = 32
    """Generation budget per completion in tokens, ≥ 1."""

    chat: ClassVar[bool] = True

    def size(self, split: Split) -> int:
        return len(_pool(self.level, self.kinds, split))

    def question(self, split: Split, index: int) -> Question:
        kind, draw, wording, answer = _pool(self.level, self.kinds, split)[index]
        text = f"{wording} {self.instruction}".strip()
        return Question(f"{kind}-{self.level}-{draw}", text, {"answer": answer, "kind": kind, "level": self.level})


@lru_cache(maxsize=8)
def _pool(level: int, kinds: tuple[Kind, ...], split: Split) -> tuple[tuple[Kind, int, str, str], ...]:
    """(kind, draw, wording, answer) of the split, no wording twice, the kinds taking turns.

    Draw i of a kind is a pure function of (level, kind, i); draws whose problem belongs to another split are passed
    over. When a kind has run out of wordings (200 fruitless draws in a row) the pool is full, so the shares stay equal.
    """
    pool: list[tuple[Kind, int, str, str]] = []
    seen: set[str] = set()
    next_draw = dict.fromkeys(kinds, 0)
    while len(pool) < LIMITS[split]:
        kind = kinds[len(pool) % len(kinds)]
        for draw in range(next_draw[kind], next_draw[kind] + 200):
            problem, wording, answer = _draw(level, kind, draw)
            if wording not in seen and split_of(kind, *problem) == split:
                break
        else:
            break
        seen.add(wording)
        pool.append((kind, draw, wording, answer))
        next_draw[kind] = draw + 1
    return tuple(pool)


def _draw(level: int, kind: Kind, draw: int) -> tuple[tuple[str | int, ...], str, str]:
    """(what makes it the same problem, its wording, its answer)."""
    key = ("words", level, kind, draw)
    template = pick(PHRASES[level][kind], *key, "wording")
    name = pick(NAMES, *key, "name")
    fields = {"name": name, "things": pick(THINGS, *key, "things")}
    fields["other"] = pick([other for other in NAMES if other != name], *key, "other")
    if kind == "counting":
        least, most = LISTS[level]
        count = least + hash64(*key, "count") % (most - least + 1)
        items = sorted(ITEMS, key=lambda item: hash64(*key, item))[:count]
        return tuple(sorted(items)), template.format(list=", ".join(items), **fields), str(count)
    numbers = _numbers(key, *NUMBERS[level], count=3 if level == 4 else 2, distinct=kind == "comparison")
    if kind == "addition":
        return tuple(sorted(numbers)), template.format(*numbers, **fields), str(sum(numbers))
    up = hash64(*key, "up") % 2 == 0
    fields |= UP if up else DOWN
    return tuple(sorted(numbers)), template.format(*numbers, **fields), str(max(numbers) if up else min(numbers))


def _numbers(key: tuple[str | int, ...], low: int, high: int, count: int, distinct: bool) -> list[int]:
    """`count` numbers of [low, high] hashed from `key`; distinct ones where equal numbers could not be compared."""
    numbers: list[int] = []
    turn = 0
    while len(numbers) < count:
        number = low + hash64(*key, "number", turn) % (high - low + 1)
        turn += 1
        if not (distinct and number in numbers):
            numbers.append(number)
    return numbers
