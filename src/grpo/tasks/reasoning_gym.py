"""Any data set of reasoning-gym by its name, with its own scorer as the reward (rewards/reasoning_gym.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.config import sentences
from grpo.errors import UserError
from grpo.tasks.base import SPLITS, Question, Split, TooLong, split_of

Place = Literal["boxed", "answer_tag", "text"]
"""Where the answer stands: in the last \\boxed{}, between the last <answer> and </answer>, or it is the whole text."""
ROOM = 4  # draws per question wanted, at most: many generators repeat themselves
OURS = ("size", "seed")  # of a generator's configuration, which the task sets itself


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class ReasoningGym:
    """Questions drawn by a generator; each belongs to one split by the hash of its text, and is asked once.

    Columns: `answer` (one that is right), `question`, and `metadata`, which the scorer reads.
    """

    name: str
    """Data set of reasoning-gym, such as chain_sum."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Its numbers, such as {max_terms: 3}: the difficulty."""
    questions: Annotated[int, Field(strict=True, ge=20)] = 2000
    """Questions drawn for all splits together, ≥ 20; fewer where the generator has no more."""
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    """Seed of the generator; the run's seed draws the order and the test questions from these."""
    chat: bool = True
    """true: user messages under the chat template; false: plain text."""
    system: str | None = None
    """System message; null leaves it to the chat template."""
    instruction: str = "Put the final answer in \\boxed{}."
    """Sentence after each question; empty for none."""
    extract: Place = "boxed"
    """Where the answer is read: boxed | answer_tag | text."""
    max_completion_tokens: Annotated[int, Field(strict=True, ge=1)] = 256
    """Generation budget per completion in tokens, ≥ 1."""
    too_long: TooLong = "refuse"
    """Prompts over max_prompt_tokens: refuse to start, or drop them; both say how many."""

    def size(self, split: Split) -> int:
        return len(self._pools()[split])

    def question(self, split: Split, index: int) -> Question:
        number, entry = self._pools()[split][index]
        columns = {"answer": entry["answer"], "question": entry["question"], "metadata": entry["metadata"]}
        return Question(f"{self.name}-{number}", f"{entry['question']}\n{self.instruction}".strip(), columns)

    def notes(self) -> list[str]:
        found = sum(self.size(split) for split in SPLITS)
        few = f"{self.name} has {found:,} different questions of the {self.questions:,} wanted"
        return [few] if found < self.questions else []

    def _pools(self) -> dict[Split, list[tuple[int, dict[str, Any]]]]:
        return _drawn(self.name, json.dumps(self.config, sort_keys=True), self.questions, self.seed)


@lru_cache(maxsize=4)
def _drawn(name: str, config: str, wanted: int, seed: int) -> dict[Split, list[tuple[int, dict[str, Any]]]]:
    """(number of the draw, entry) of each split: draws with a new text, until there are as many as wanted."""
    generator = generator_of(name, json.loads(config), seed=seed, size=wanted * ROOM)
    pools: dict[Split, list[tuple[int, dict[str, Any]]]] = {split: [] for split in SPLITS}
    seen: set[str] = set()
    fruitless = 0
    for number in range(wanted * ROOM):
        try:
            entry = generator[number]
        except Exception as error:
            raise UserError(f"task.config   {name} fails on its question {number}: {_said(error)}") from error
        text = " ".join(str(entry["question"]).split())
        fruitless = fruitless + 1 if text in seen else 0
        if text not in seen:
            seen.add(text)
            pools[split_of("reasoning_gym", name, text)].append((number, entry))
        if len(seen) == wanted or fruitless == 200:
            break
    if len(seen) < len(SPLITS):
        raise UserError(
            f"task.config   {name} gives only {len(seen)} different questions; {len(SPLITS)} splits need more"
        )
    for split in SPLITS:  # of few questions the hash may give a split none
        if not pools[split]:
            pools[split].append(max(pools.values(), key=len).pop())
    return pools


def generator_of(name: str, config: Mapping[str, Any], **ours: int) -> Any:
    """The data set of reasoning-gym; a wrong name or number is a sentence with the nearest right one."""
    try:
        from reasoning_gym import create_dataset
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        missing = f"{error.name} is" if error.name and error.name != "reasoning_gym" else "reasoning-gym is"
        raise UserError(f"task   {missing} not installed; pip install grpo-lab[tasks]") from error
    if name not in DATASETS:
        near = sentences.meant(name, DATASETS) or f"; it has {', '.join(sorted(DATASETS))}"
        raise UserError(f"task.name   reasoning-gym has no data set {name}{near}")
    known = [field.name for field in fields(DATASETS[name][1])]
    for key in config:
        if key in OURS:
            use = "task.questions" if key == "size" else "task.seed"
            raise UserError(f"task.config.{key}   is set by {use} here")
        if key not in known:
            raise UserError(f"task.config.{key}   {sentences.has_not(name, [k for k in known if k not in OURS], key)}")
    try:
        return create_dataset(name, **config, **{key: value for key, value in ours.items() if key in known})
    except Exception as error:  # their checks are asserts
        raise UserError(f"task.config   {name} does not accept it: {_said(error)}") from error


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
