"""reasoning-gym's own scorers, in worker processes: some of them hand the answer to sympy, which can hang on it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from grpo.rewards.exact import text_of
from grpo.rewards.extract import find_answer
from grpo.rewards.workers import Workers
from grpo.tasks.reasoning_gym import Place, generator_of


@dataclasses.dataclass
class _Inside:
    """What a reward that is frozen outside keeps inside: its processes, and counts since they were asked for."""

    workers: Workers | None = None
    counts: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True, arbitrary_types_allowed=True))
class ReasoningGym:
    """r = what the data set's own scorer says of the answer, 0 … 1; 0 without one. Many pay a little for wrong answers.

    Columns: `answer`, `question` and `metadata` of task=reasoning_gym.
    """

    name: str
    """Data set of reasoning-gym, whose scorer it is."""
    config: dict[str, Any] = Field(default_factory=dict)
    """The numbers of the data set, as in the task."""
    extract: Place = "boxed"
    """Where the answer is read: boxed | answer_tag | text."""
    seconds: Annotated[float, Field(gt=0.0)] = 10.0
    """Limit for one answer; its process is then killed and 0 paid."""
    workers: Annotated[int, Field(strict=True, ge=1)] = 1
    """Processes that score."""

    _inside: _Inside = dataclasses.field(default_factory=_Inside, init=False, repr=False, compare=False)

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        answer: Sequence[str],
        question: Sequence[str],
        metadata: Sequence[dict[str, Any]],
        **columns: Any,
    ) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; answer, question, metadata: [B]; returns [B]."""
        config = json.dumps(self.config, sort_keys=True)
        rows: dict[int, tuple[str, str, str, dict[str, Any]]] = {}
        for i, completion in enumerate(completions):
            given = self.answer(text_of(completion))
            if given is not None:
                entry = {"question": question[i], "answer": answer[i], "metadata": metadata[i]}
                rows[i] = (self.name, config, given, entry)
        scores: list[float | None] = [0.0] * len(completions)
        for i, outcome in zip(rows, self._workers().map(list(rows.values())) if rows else (), strict=True):
            if outcome.status == "ok":
                scores[i] = float(outcome.value)
            else:  # a scorer that fails on junk is paid nothing, and counted
                self._inside.counts[COUNTED[outcome.status]] = self._inside.counts.get(COUNTED[outcome.status], 0.0) + 1
        return scores

    def answer(self, text: str) -> str | None:
        """The answer a completion gives, as written."""
        if self.extract == "boxed":
            return find_answer(text, "boxed")
        if self.extract == "text":
            return text.strip() or None
        _, opened, after = text.rpartition("<answer>")
        found, closed, _ = after.partition("</answer>")
        return found.strip() or None if opened and closed else None

    def metrics(self) -> dict[str, float]:
        """Scorers that failed (errors) or took too long (timeouts) since the last call."""
        counts = {name: self._inside.counts.get(name, 0.0) for name in ("errors", "timeouts")}
        self._inside.counts.clear()
        return counts

    def close(self) -> None:
        """End the processes."""
        if self._inside.workers is not None:
            self._inside.workers.close()
            self._inside.workers = None

    def _workers(self) -> Workers:
        if self._inside.workers is None:
            generator_of(self.name, self.config)  # a wrong name is said here, not in another process
            self._inside.workers = Workers(FUNCTION, count=self.workers, seconds=self.seconds)
        return self._inside.workers


FUNCTION = "grpo.rewards.reasoning_gym_worker:score"
COUNTED = {"error": "errors", "crash": "errors", "timeout": "timeouts"}
