"""What stands for the recorder, the folder and the progress bar on ranks that write nothing."""

from __future__ import annotations

from typing import Any


class Mute:
    """Every method does nothing; `facts` are attributes that can be read."""

    def __init__(self, **facts: Any) -> None:
        vars(self).update(facts)

    def __getattr__(self, name: str) -> Any:
        return _nothing


def _nothing(*_: Any, **__: Any) -> None:
    """The answer to every call."""
