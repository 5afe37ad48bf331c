"""filter.solved_at: questions with a high pass rate are not asked again, and a checkpoint remembers them."""

from types import SimpleNamespace

import pytest
import torch

from grpo.algorithm import filter
from grpo.data import Prompt, Rollout, Scores
from grpo.training.collect import Collector, Solved

EIGHT = [Prompt(f"q{i}", (1,), f"q{i}") for i in range(8)]


class Book:
    """Steps walk through eight questions, four at a time; refills start from the end."""

    def size(self, split: str) -> int:
        return len(EIGHT)

    def train(self, step: int, n: int) -> list[Prompt]:
        return [EIGHT[(step * n + i) % 8] for i in range(n)]

    def refill(self, step: int, round_: int, n: int) -> list[Prompt]:
        return [EIGHT[7 - i] for i in range(n)]


def group(name: str, *right: float) -> tuple[list[Rollout], Scores]:
    rollouts = [Rollout(name, 0, i, (1,), (0.0,), (True,), "stop", "", 0) for i in range(len(right))]
    values = torch.tensor(right, dtype=torch.float64)
    return rollouts, Scores(values[:, None], torch.ones(1), torch.zeros(len(right), dtype=torch.long), values)


def test_from_the_pass_rate_on() -> None:
    solved, nan = Solved(0.75), float("nan")
    solved.note(*group("q0", 1, 1, 1, 0))  # 3/4
    solved.note(*group("q1", 1, 1, 0, 0))
    solved.note(*group("q2", 1, 1, 1, nan))  # 3/3 of those judged
    solved.note(*group("q3", nan, nan))
    assert solved.ids == {"q0", "q2"}
    never = Solved(None)
    never.note(*group("q0", 1, 1))
    assert never.open(EIGHT) == EIGHT


def collector(*solved: str, at: float | None = 0.9) -> Collector:
    made = Collector(
        book=Book(), scorer=None, engine=None, objective=SimpleNamespace(filter=filter.MixedGroups(solved_at=at)),
        sampling=None, prompts_per_step=4, group_size=2, seed=0,
    )  # fmt: skip
    made.solved.ids |= set(solved)
    return made


@pytest.mark.parametrize(
    ("solved", "asked"),
    [
        ((), ["q0", "q1", "q2", "q3"]),
        (("q1", "q6"), ["q0", "q2", "q3", "q7"]),  # the free place goes to the first open one from the end
        (("q0", "q1", "q7", "q6"), ["q2", "q3", "q5", "q4"]),
        (("q0", "q1", "q2", "q3", "q4", "q5", "q6"), ["q7"]),  # fewer are left than there are places
        (tuple(p.id for p in EIGHT), ["q0", "q1", "q2", "q3"]),  # none is left: the step asks as if none were solved
    ],
)
def test_solved_questions_give_their_place_away(solved: tuple[str, ...], asked: list[str]) -> None:
    assert [p.id for p in collector(*solved).ask(0, 0, 4)] == asked


def test_refills_leave_them_out_too() -> None:
    assert [p.id for p in collector("q7").ask(0, 1, 2)] == ["q6", "q5"]
