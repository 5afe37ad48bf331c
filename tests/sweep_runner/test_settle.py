"""Living processes of a killed sweep."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from grpo.errors import UserError
from grpo.runs.status import Status, birth, write_status
from grpo.sweep import settle
from tests.sweep_runner.fake import job, make_run


def living(tmp_path: Path, seconds: float) -> subprocess.Popen[bytes]:
    """A process that the run folder of job a names as its own."""
    process = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"])
    make_run(tmp_path / "a/seed=0", job("a"), "running")
    status = Status("running", 3, pid=process.pid, host=socket.gethostname(), birth=birth(process.pid))
    write_status(tmp_path / "a/seed=0", status)
    return process


def test_a_process_that_does_not_end_is_named(tmp_path: Path) -> None:
    process = living(tmp_path, 60)
    said: list[str] = []
    try:
        with pytest.raises(UserError) as error:
            settle.wait_for([job("a"), job("b")], tmp_path, said.append, patience=0.3)
    finally:
        process.kill()
        process.wait()
    expected = f"sweep   process {process.pid} is writing to {tmp_path}/a/seed=0; wait for it, or stop it"
    assert str(error.value) == f"{expected} (kill {process.pid})"
    assert len(said) == 1
    assert f"(process {process.pid})" in said[0]


def test_a_process_that_is_saving_is_waited_for(tmp_path: Path) -> None:
    process = living(tmp_path, 0.5)
    settle.wait_for([job("a")], tmp_path, lambda text: None, patience=30)
    assert process.wait(timeout=5) == 0


def test_a_half_written_run_is_moved_away(tmp_path: Path) -> None:
    """Killed between status.json and environment.json: the run itself would refuse the folder."""
    folder = tmp_path / "a/seed=0"
    folder.mkdir(parents=True)
    write_status(folder, Status("running"))
    settle.clear(job("a"), tmp_path, lambda text: None)
    assert not folder.exists()
    assert (tmp_path / "leftovers/a/seed=0/status.json").exists()


def test_an_unfinished_run_of_the_same_configuration_stays(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a/seed=0", job("a"), "stopped")
    settle.clear(job("a"), tmp_path, lambda text: None)
    assert folder.exists()
    assert settle.complete(job("a"), folder) is None


def test_only_a_diverged_failure_is_a_result(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "a", job("a"), "failed", error="out of memory")
    assert settle.complete(job("a"), folder) is None
    make_run(folder, job("a"), "failed", error="nan", kind="diverged")
    assert settle.complete(job("a"), folder) is not None
