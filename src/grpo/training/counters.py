"""What a run counts from its first step to its last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grpo.training.update import UpdateResult


@dataclass
class Counters:
    """Cumulative counts of a run; a checkpoint carries them."""

    step: int = 0  # passes through the spine that are finished
    version: int = 0  # optimizer updates made
    generated_tokens: int = 0
    trained_tokens: int = 0
    updates_total: int = 0
    updates_empty: int = 0
    updates_skipped: int = 0

    def finish(self, step: int, generated_tokens: int, results: Sequence[UpdateResult]) -> None:
        """Step number `step`, from 0, is over; `version` was counted update by update."""
        self.step = step + 1
        self.generated_tokens += generated_tokens
        self.trained_tokens += sum(r.tokens for r in results)
        self.updates_total += sum(r.outcome == "updated" for r in results)
        self.updates_empty += sum(r.outcome == "empty" for r in results)
        self.updates_skipped += sum(r.outcome == "skipped" for r in results)

    def metrics(self) -> dict[str, int]:
        """By their names in the recording."""
        return {
            "updates/total": self.updates_total,
            "updates/empty": self.updates_empty,
            "updates/skipped": self.updates_skipped,
            "tokens/generated": self.generated_tokens,
            "tokens/trained": self.trained_tokens,
        }
