"""An algorithm with its page and its account of a batch, and what further ones are against the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grpo.algorithm.form import build
from grpo.explain.account import Account, account
from grpo.explain.compare import Comparison, compare
from grpo.pages import Page, page

if TYPE_CHECKING:
    from grpo.algorithm.objective import Objective
    from grpo.config.schema import RunConfig
    from grpo.explain.batch import Numbers


@dataclass(frozen=True)
class Explained:
    """An algorithm with its page and its account of the batch."""

    name: str
    source: str
    about: Page
    objective: Objective
    made: Account
    inert: list[str]
    warnings: list[str]

    @classmethod
    def of(cls, config: RunConfig, numbers: Numbers, folder: Path | None = None) -> Explained:
        """The algorithm of a configuration on a batch."""
        objective = build(config)
        about = page(config.algorithm, folder)
        about = about if about.title else page(config.algorithm)
        inert = objective.inert(1) if "logp_old" not in numbers.columns else objective.inert(2)
        made = account(objective, numbers, config.max_completion_tokens, config.name)
        warnings = [*objective.unsafe, *_foreign_groups(config, numbers)]
        return cls(config.name, config.source, about, objective, made, inert, warnings)

    @property
    def notes(self) -> list[tuple[str, str]]:
        """Word and text of each line above the table."""
        rows = [("formula" if i == 0 else "", line) for i, line in enumerate(self.about.formula)]
        rows += [("differs", self.about.differs)] if self.about.differs else []
        rows += [("objective", self.objective.describe().replace(" -> ", " → "))]
        return [*rows, *(("inert", t) for t in self.inert), *(("warning", t) for t in self.warnings)]


def _foreign_groups(config: RunConfig, numbers: Numbers) -> list[str]:
    """Groups that this algorithm would never sample."""
    sizes = sorted(set(Counter(numbers.groups).values()) - {2})
    if not config.algorithm.endswith("two_grpo") or not sizes:
        return []
    return [f"{config.algorithm} samples two completions per prompt; this batch has groups of {sizes[-1]}"]


def comparisons(explained: Sequence[Explained]) -> list[tuple[Explained, Comparison]]:
    """Each further algorithm against the first."""
    return [(other, compare(explained[0].made, other.made)) for other in explained[1:]]
