"""What the worker processes of rewards/reasoning_gym.py do. reasoning-gym is imported with this module, so that its
import (seconds) is not on the clock of the first answer.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import reasoning_gym  # noqa: F401  # pyright: ignore[reportUnusedImport]

from grpo.tasks.reasoning_gym import generator_of

Task = tuple[str, str, str, dict[str, Any]]
"""(data set, its config as JSON, the answer, the entry: question, answer, metadata)"""


def score(task: Task) -> float:
    """The scorer's word on the answer."""
    name, config, given, entry = task
    return float(_generator(name, config).score_answer(given, entry))


@lru_cache(maxsize=4)
def _generator(name: str, config: str) -> Any:
    return generator_of(name, json.loads(config), seed=0, size=1)
