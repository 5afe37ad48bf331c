"""Train, validation and test share no problem, whatever its wording or the order of its numbers."""

import re
from collections import Counter
from itertools import combinations

import pytest
from pydantic import ValidationError

from grpo.tasks.arithmetic import Arithmetic, _pair
from grpo.tasks.base import SPLITS, Task
from grpo.tasks.words import Words

TASKS: list[Task] = [Arithmetic(digits=d) for d in (1, 2, 3)] + [Words(level=level) for level in (1, 2, 3, 4)]


def problem(task: Task, split, index: int) -> tuple:
    """What makes two questions the same problem, read back from the text alone."""
    question = task.question(split, index)
    numbers = sorted(re.findall(r"\d+", question.text))
    kind = question.columns.get("kind", "addition")
    return (kind, *numbers, *(sorted(listed(question.text)) if kind == "counting" else ()))


def listed(text: str) -> list[str]:
    """The things between the first colon and the end of that sentence."""
    return re.split(r"[.?]", text.split(": ", 1)[1])[0].split(", ")


@pytest.mark.parametrize("task", TASKS, ids=lambda t: f"{type(t).__name__}-{getattr(t, 'level', None) or t.digits}")
def test_splits_share_no_problem(task: Task) -> None:
    problems = {split: {problem(task, split, i) for i in range(task.size(split))} for split in SPLITS}
    assert all(problems.values())
    for one, other in combinations(SPLITS, 2):
        assert not problems[one] & problems[other]


@pytest.mark.parametrize("task", TASKS, ids=lambda t: f"{type(t).__name__}-{getattr(t, 'level', None) or t.digits}")
def test_answers_are_right_and_texts_are_new(task: Task) -> None:
    for split in SPLITS:
        questions = [task.question(split, i) for i in range(min(task.size(split), 400))]
        assert len({q.text for q in questions}) == len({q.id for q in questions}) == len(questions)
        for q in questions:
            assert q.columns["answer"] == str(solve(q.text, q.columns.get("kind", "addition"))), q.text


def solve(text: str, kind: str) -> int:
    """The answer by reading the question."""
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    if kind == "counting":
        return len(listed(text))
    if kind == "comparison":
        return max(numbers) if re.search(r"larg|more|the most", text) else min(numbers)
    return sum(numbers)


def test_arithmetic_asks_each_unordered_pair_once() -> None:
    task = Arithmetic(digits=1)
    asked = [tuple(sorted(task.question(s, i).text[:-1].split("+"))) for s in SPLITS for i in range(task.size(s))]
    # 10 numbers make 10·11/2 = 55 unordered pairs, so 37+5 and 5+37 can never both be asked
    assert len(asked) == len(set(asked)) == 55


def test_pair_numbers_all_pairs() -> None:
    # high·(high+1)/2 + low: (0,0) (0,1) (1,1) (0,2) (1,2) (2,2)
    assert [_pair(i) for i in range(6)] == [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]
    assert _pair(10**9 * (10**9 + 1) // 2 - 1) == (10**9 - 1, 10**9 - 1)  # the last pair of nine digits


def test_both_orders_are_asked() -> None:
    texts = [Arithmetic().question("train", i).text[:-1].split("+") for i in range(1000)]
    ascending = sum(int(a) < int(b) for a, b in texts) / 1000
    assert 0.42 < ascending < 0.58  # ½ ± 5 · sqrt(¼/1000) = ½ ± 0.08


def test_words_kinds_take_turns() -> None:
    task = Words(level=1)
    for split in SPLITS:
        counts = Counter(task.question(split, i).columns["kind"] for i in range(task.size(split)))
        assert set(counts) == {"addition", "comparison", "counting"}
        assert max(counts.values()) - min(counts.values()) <= 1


def test_impossible_numbers_are_refused() -> None:
    for wrong in ({"digits": 0}, {"digits": 2.5}, {"digit": 2}):
        with pytest.raises(ValidationError):
            Arithmetic(**wrong)  # type: ignore[arg-type]
    for wrong in ({"level": 5}, {"kinds": ()}, {"kinds": ("poetry",)}):
        with pytest.raises(ValidationError):
            Words(**wrong)  # type: ignore[arg-type]
