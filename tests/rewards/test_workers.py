"""Workers: whatever a function does, the call returns within its limit and the pool goes on."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from grpo.errors import UserError
from grpo.rewards.workers import Outcome, Workers

ACT = "tests.worker_functions:act"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, or needs RLIMIT_AS")


@pytest.fixture
def make():
    """Workers that are closed after the test."""
    made = []

    def workers(function: str = ACT, count: int = 1, seconds: float = 30.0, **settings) -> Workers:
        made.append(Workers(function, count=count, seconds=seconds, **settings))
        return made[-1]

    yield workers
    for each in made:
        each.close()


def alive(pid: int) -> bool:
    """The process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(*pids: int, within: float = 20.0) -> bool:
    """All of them end, some time before a generous limit."""
    end = time.monotonic() + within
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


def test_values_come_in_order_from_any_number_of_workers(make) -> None:
    for count in (1, 3):
        outcomes = make("tests.worker_functions:double", count).map(list(range(20)))
        assert outcomes == [Outcome(2 * i, "ok") for i in range(20)]
    assert make().map([]) == []


def test_nothing_is_started_before_the_first_task(make) -> None:
    assert make("no.such.module:f")._nursery is None


def test_an_exception_is_that_tasks_error(make) -> None:
    outcomes = make().map([("raise", "no"), ("sys.exit", 3), ("object", None), ("echo", 5)])
    assert [o.status for o in outcomes] == ["error", "error", "error", "ok"]
    assert [o.message.split(":")[0] for o in outcomes[:3]] == ["ValueError", "SystemExit", "TypeError"]
    assert outcomes[3].value == 5


@pytest.mark.parametrize("task", [("sleep", 600), ("power", 10)])
def test_what_never_ends_costs_its_limit_and_no_more(make, task) -> None:
    workers = make(seconds=0.5)
    workers.map([("echo", 0)])  # the import is not part of it
    begun = time.monotonic()
    first, second = workers.map([task, ("echo", 1)])
    assert (first.status, second.status, second.value) == ("timeout", "ok", 1)
    assert 0.5 <= time.monotonic() - begun < 20  # a guard against a hang: the kill is what is tested


def test_a_timeout_takes_what_the_function_started_along(make, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    assert make(seconds=2.0).map([("child", str(note))])[0].status == "timeout"
    assert gone(*map(int, note.read_text().split()))


@pytest.mark.parametrize("task", [("exit", 0), ("exit", 1), ("segfault", None)])
def test_a_crash_costs_one_task(make, task) -> None:
    outcomes = make(count=2).map([("echo", 1), task, ("echo", 2), task, ("echo", 3)])
    assert [o.status for o in outcomes] == ["ok", "crash", "ok", "crash", "ok"]
    assert [o.value for o in outcomes] == [1, None, 2, None, 3]


@LINUX
def test_memory_is_limited_and_the_worker_replaced(make) -> None:
    before, hog, after = make(memory_mb=512).map([("pid", None), ("memory", 4096), ("pid", None)])
    assert (hog.status, hog.message.split(":")[0]) == ("error", "MemoryError")
    assert before.value != after.value
    assert make(memory_mb=512).map([("memory", 16)])[0].value == 16 << 20


@LINUX
def test_a_worker_killed_from_outside_is_replaced(make) -> None:
    workers = make()
    (pid,) = (o.value for o in workers.map([("pid", None)]))
    os.kill(pid, signal.SIGKILL)  # while idle: the next task is not to blame
    assert gone(pid)
    assert workers.map([("echo", 1)]) == [Outcome(1, "ok")]
    (pid,) = (o.value for o in workers.map([("pid", None)]))
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    cut, next_ = workers.map([("sleep", 600), ("echo", 2)])  # mid-way: this task is lost
    assert (cut.status, next_.value) == ("crash", 2)


@LINUX
def test_a_killed_nursery_is_replaced_and_leaves_no_worker(make) -> None:
    workers = make()
    (pid,) = (o.value for o in workers.map([("pid", None)]))
    workers._nursery.process.kill()
    workers._nursery.process.wait()
    assert gone(pid)
    assert workers.map([("echo", 1)]) == [Outcome(1, "ok")]


def test_it_works_in_threads_with_the_same_limit(make) -> None:
    workers = make(seconds=1.0)  # M20
    results: list[list[Outcome]] = []
    threads = [
        threading.Thread(target=lambda: results.append(workers.map([("echo", 7), ("sleep", 600)]))) for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [[o.status for o in outcomes] for outcomes in results] == [["ok", "timeout"]] * 2


def test_printing_does_not_disturb_the_answers(make) -> None:
    assert [o.value for o in make().map([("print", "{}"), ("echo", 1)])] == ["{}", 1]


def test_long_tasks_and_answers(make) -> None:
    long = "x" * 3_000_000
    assert make(count=2).map([("echo", long), ("echo", "y"), ("echo", long)])[2].value == long


def test_an_environment_can_be_withheld(make, monkeypatch) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    assert make().map([("environment", None)])[0].value["API_TOKEN"] == "secret"
    assert make(empty_environment=True).map([("environment", None)])[0].value == {}


def test_fresh_workers_know_nothing_of_earlier_tasks(make) -> None:
    assert [o.value for o in make().map([("seen", None)] * 3)] == [1, 2, 3]
    assert [o.value for o in make(fresh=True).map([("seen", None)] * 3)] == [1, 1, 1]


def test_a_worker_does_not_load_the_trainer(make) -> None:
    assert make().map([("modules", ["torch", "transformers", "grpo", "numpy"])])[0].value == []


@pytest.mark.parametrize("function", ["no.such.module:f", "tests.worker_functions:absent"])
def test_a_function_that_cannot_be_imported_is_named(make, function: str) -> None:
    with pytest.raises(UserError, match=function):
        make(function).map([1])


@LINUX
def test_close_ends_the_processes_and_map_starts_new_ones(make) -> None:
    workers = make(count=2)
    pids = [o.value for o in workers.map([("pid", None)] * 2)]
    nursery = workers._nursery.process.pid
    workers.close()
    workers.close()
    assert gone(nursery, *pids, within=0.0)
    assert workers.map([("echo", 1)]) == [Outcome(1, "ok")]


def test_a_copy_has_the_same_settings_and_its_own_processes(make) -> None:
    workers = make(memory_mb=900, count=2, seconds=3.0, empty_environment=True, fresh=True)
    workers.map([("echo", 1)])
    copy = pickle.loads(pickle.dumps(workers))
    assert copy._nursery is None
    assert copy.__reduce__() == workers.__reduce__()


ORPHANS = """
import os, sys
from grpo.rewards.workers import Workers
Workers("tests.worker_functions:act", count=1, seconds=600).map([("child", sys.argv[1])])
"""


@LINUX
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_trainer_that_dies_leaves_no_orphan(tmp_path: Path, number: signal.Signals) -> None:
    note = tmp_path / "pids"
    command = [sys.executable, "-c", ORPHANS, str(note)]
    trainer = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    end = time.monotonic() + 60
    while not (note.exists() and len(note.read_text().split()) == 2) and time.monotonic() < end:
        time.sleep(0.05)
    pids = [int(pid) for pid in note.read_text().split()]
    trainer.send_signal(number)
    trainer.wait(30)
    assert gone(*pids)
