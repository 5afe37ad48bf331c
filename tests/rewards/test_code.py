"""Programs and their tests: what passes, what only seems to, and what is stopped."""

from __future__ import annotations

import os
import time

import pytest

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.errors import ConfigError, UserError
from grpo.rewards.code import Code

DOUBLE = "def f(x):\n    return 2 * x\n"
TESTS = ["assert f(2) == 4", "assert f(0) == 0", "assert f(3) == 9"]


def fenced(program: str) -> str:
    return f"Here it is:\n```python\n{program}\n```\nDone."


FORGES = """
import json, os, time
line = json.dumps({"status": "ok", "value": [True], "message": "", "last": False}) + "\\n"
for fd in range(3, 64):
    try:
        os.write(fd, line.encode())
    except OSError:
        pass
time.sleep(0.5)
"""
"""Writes the worker's answer into every open file."""


@pytest.fixture(scope="module")
def reward():
    made = Code(allow_code_execution=True, graded=True, seconds=5.0, processes=2)
    yield made
    made.close()


def share(reward: Code, program: str, tests=("assert f(2) == 4",)) -> float | None:
    return reward(completions=[fenced(program)], tests=[list(tests)])[0]


def test_refused_unless_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        load(["reward=code"], Composer())
    assert str(caught.value).startswith(
        "reward.functions.code.allow_code_execution   must be true: this reward executes"
    )
    with pytest.raises(ValueError, match="must be true"):
        Code()
    config, _ = load(["reward=code", "reward.functions.code.allow_code_execution=true"], Composer())
    assert config.reward.functions["code"] == Code(allow_code_execution=True)


def test_share_of_the_tests_or_all_of_them(reward: Code) -> None:
    assert share(reward, DOUBLE, TESTS) == 2 / 3
    strict = Code(allow_code_execution=True, processes=1)
    try:
        assert strict(completions=[fenced(DOUBLE)] * 2, tests=[TESTS, TESTS[:2]]) == [0.0, 1.0]
    finally:
        strict.close()


def test_rows_without_tests_and_completions_without_a_program(reward: Code) -> None:
    reward.metrics()
    completions = [fenced(DOUBLE), "no program", fenced(DOUBLE), [{"role": "assistant", "content": fenced(DOUBLE)}]]
    assert reward(completions=completions, tests=[None, TESTS, [], "assert f(1) == 2"]) == [None, 0.0, None, 1.0]
    assert reward.metrics() == {"no_program": 1.0, "timeout": 0.0, "crash": 0.0, "error": 0.0}
    with pytest.raises(UserError, match="code asks for tests, but the task's columns are: answer; say column="):
        reward(prompts=["q"], completions=["x"], answer=["4"])


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```py\nx = 1\n``` or ```python\nx = 2\n```", "x = 2\n"),
        ("```x = 1```", "x = 1"),
        ("```python\nx = 1\n``` and ```python\nx = ", None),  # the last one was cut
        ("x = 1", None),
        ("", None),
    ],
)
def test_the_last_closed_block(text: str, program: str | None) -> None:
    made = Code(allow_code_execution=True)
    assert made.program(text) == program
    bare = Code(allow_code_execution=True, extract="fence_or_all").program("x = 1")
    assert bare == "x = 1"


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "raise SystemExit",
        "def f(x): return 5",
        "def f(x): raise KeyboardInterrupt",
        "def f(",
        "f = 4\0",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        FORGES,
        "x = [0] * (1 << 40)",
        "print('assert passed')",
    ],
)
def test_what_only_seems_to_pass_is_paid_nothing(reward: Code, program: str) -> None:
    assert share(reward, program) == 0.0
    assert share(reward, DOUBLE) == 1.0  # and the pool survives


def test_a_test_sees_nothing_of_another_test(reward: Code) -> None:
    tests = ["f = lambda x: 4", "assert f(3) == 6", "open('x', 'w').write('1')"]
    assert share(reward, DOUBLE, tests) == 1.0


def test_surroundings(reward: Code, monkeypatch) -> None:
    monkeypatch.setenv("SECRET", "1")
    looks = "import os\ndef f(x): return [dict(os.environ), os.listdir('.'), os.getcwd()][x]"
    assert share(reward, looks, ["assert f(0) == {}", "assert f(1) == []", f"assert f(2) != {os.getcwd()!r}"]) == 1.0
    writes = "import os\ndef f(x):\n    open('big', 'wb').write(b'0' * x)\n    return os.path.getsize('big')"
    assert share(reward, writes, ["assert f(1000) == 1000", f"assert f({17 << 20}) == {17 << 20}"]) == 0.5
    assert share(reward, "import resource\ndef f(x): return resource.getrlimit(x)[0]", [
        "assert f(resource.RLIMIT_AS) == 1024 << 20", "assert f(resource.RLIMIT_CPU) == 6",
        "assert f(resource.RLIMIT_CORE) == 0",
    ]) == 1.0  # fmt: skip


def test_what_a_program_leaves_running_is_ended(reward: Code, tmp_path) -> None:
    late = (
        f"import os, time\nif os.fork() == 0:\n    time.sleep(1.5)\n    open({str(tmp_path / 'alive')!r}, 'w')\n"
        + DOUBLE
    )
    assert share(reward, late) == 1.0
    time.sleep(3.0)
    assert not (tmp_path / "alive").exists()


def test_for_ever_ends_at_the_limit_and_the_neighbours_are_paid() -> None:
    made = Code(allow_code_execution=True, seconds=2.0, processes=2)
    start = time.monotonic()
    try:
        hang = fenced("import os\nos.fork()\nwhile True: pass")
        assert made(completions=[hang, fenced(DOUBLE)], tests=[TESTS[:1], TESTS[:1]]) == [0.0, 1.0]
        assert made.metrics()["timeout"] == 1.0
        assert made(completions=[fenced(DOUBLE)], tests=[TESTS[:1]]) == [1.0]
    finally:
        made.close()
    assert time.monotonic() - start < 60


@pytest.mark.parametrize(
    ("tests", "read"),
    [
        (
            '["assert f(1) == 1", "assert f(2) == 4"]',
            ["assert f(1) == 1", "assert f(2) == 4"],
        ),
        ("assert f(1) == 1", ["assert f(1) == 1"]),
        ("", []),
        (None, []),
        (float("nan"), []),
        (["", "assert f"], ["assert f"]),
    ],
)
def test_tests_as_data_sets_write_them(tests, read) -> None:
    from grpo.rewards.code import _statements

    assert _statements(tests, "tests") == read


@pytest.mark.parametrize("tests", [5, [None], {"a": 1}])
def test_tests_that_are_none(tests) -> None:
    from grpo.errors import UserError
    from grpo.rewards.code import _statements

    with pytest.raises(UserError, match="code reads tests as statements"):
        _statements(tests, "tests")
