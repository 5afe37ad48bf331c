"""A program that passes its tests."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pydantic import ConfigDict, field_validator
from pydantic.dataclasses import dataclass

from grpo.config.nodes import Count, Positive
from grpo.errors import UserError
from grpo.rewards.calling import OWN, WHOLE
from grpo.rewards.exact import text_of
from grpo.rewards.workers import Workers

_LANGUAGE = re.compile(r"[\w+#.-]*[ \t]*\n")


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Code:
    """r = 1 if the completion's Python program passes every test of the column `tests`, else 0; None without tests

    Executes what the policy writes: in processes of their own with limits on time, memory and file size, no environment
    variables and an empty temporary folder. That is no sandbox. The program has your rights and your network: run it in
    a container or a virtual machine that you can lose.
    """

    allow_code_execution: bool = False
    """Must be true."""
    column: str = "tests"
    """Column with a list of Python statements (or one text of them), such as "assert f(2) == 4"."""
    extract: Literal["fence", "fence_or_all"] = "fence"
    """fence: the last ``` block, closed; fence_or_all: the whole completion where there is no block."""
    graded: bool = False
    """Share of the tests passed instead of all or nothing."""
    seconds: Positive = 5.0
    """Limit of one program with all its tests, > 0; a program over it fails all of them."""
    memory_mb: Count = 1024
    """Address space of one program in MiB, ≥ 1."""
    file_mb: Count = 16
    """Largest file that it can write in MiB, ≥ 1."""
    processes: Count = 4
    """Programs running at the same time, ≥ 1."""

    @field_validator("allow_code_execution")
    @classmethod
    def _allowed(cls, value: bool) -> bool:
        if value is not True:
            raise ValueError(
                "must be true: this reward executes what the policy writes, with limits but without a sandbox; "
                "say so only in a container that you can lose"
            )
        return value

    def __post_init__(self) -> None:
        self._allowed(self.allow_code_execution)  # the default has to be overruled too

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """completions: [B] strings or message lists; the column of tests: [B] lists of statements; returns [B]."""
        if self.column not in columns:
            found = ", ".join(name for name in columns if name not in (*OWN, *WHOLE)) or "none"
            raise UserError(
                f"reward.functions   code asks for {self.column}, but the task's columns are: {found}; "
                "say column=<name of the column with the tests>"
            )
        tests = [_statements(t, self.column) for t in columns[self.column]]
        programs = [self.program(text_of(c)) for c in completions]
        chosen = [i for i, (p, t) in enumerate(zip(programs, tests, strict=True)) if p is not None and t]
        self._counted["no_program"] += sum(p is None and bool(t) for p, t in zip(programs, tests, strict=True))
        passed: dict[int, list[bool]] = {}
        with TemporaryDirectory(prefix="grpo-code-") as base:
            tasks = []
            for i in chosen:
                folder = Path(base, str(i))
                folder.mkdir()
                limits = {"seconds": self.seconds, "file_mb": self.file_mb, "folder": str(folder)}
                tasks.append({"program": programs[i], "tests": tests[i], **limits})
            for i, outcome in zip(chosen, self._workers.map(tasks), strict=True):
                passed[i] = outcome.value if outcome.status == "ok" else []
                if outcome.status != "ok":
                    self._counted[outcome.status] += 1
        return [self._paid(passed.get(i, []), len(asked)) for i, asked in enumerate(tests)]

    def program(self, text: str) -> str | None:
        """The program in a completion; None where a last block is never closed, or there is none."""
        parts = text.split("```")
        if len(parts) == 1:
            return text if self.extract == "fence_or_all" and text.strip() else None
        if len(parts) % 2 == 0:  # the last one was opened and not closed: cut off, or no answer yet
            return None
        return _LANGUAGE.sub("", parts[-2], count=1) if _LANGUAGE.match(parts[-2]) else parts[-2]

    def metrics(self) -> dict[str, float]:
        """Completions without a program, and programs that were stopped (timeout), ended themselves (crash) or could
        not be run (error), since the last call."""
        counted = {name: float(self._counted[name]) for name in ("no_program", "timeout", "crash", "error")}
        self._counted.clear()
        return counted

    def close(self) -> None:
        """Ends the processes."""
        if "_workers" in vars(self):
            self._workers.close()

    @cached_property
    def _counted(self) -> Counter[str]:
        return Counter()

    @cached_property
    def _workers(self) -> Workers:
        return Workers(
            "grpo.rewards.code_worker:run",
            count=self.processes,
            seconds=self.seconds,
            memory_mb=self.memory_mb,
            empty_environment=True,
            fresh=True,  # no program sees what another has done to the interpreter
        )

    def _paid(self, passed: Sequence[bool], asked: int) -> float | None:
        if not asked:
            return None
        return sum(passed) / asked if self.graded else float(len(passed) == asked and all(passed))


def _statements(tests: Any, column: str) -> list[str]:
    """The tests of a row: a statement, a list of them, or such a list as JSON text; empty where there are none."""
    if isinstance(tests, str) and tests.lstrip().startswith("["):
        with suppress(ValueError):  # it may be a statement that begins with a list
            tests = json.loads(tests)
    if tests is None or tests != tests:
        return []
    found = [tests] if isinstance(tests, str) else tests
    if not isinstance(found, list | tuple) or not all(isinstance(test, str) for test in found):
        raise UserError(f"reward.functions   code reads {column} as statements or lists of them, not as {tests!r:.80}")
    return [test for test in found if test.strip()]
