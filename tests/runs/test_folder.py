"""The run folder, its small files, and whose it is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from grpo.errors import UserError
from grpo.runs import atomic
from grpo.runs.environment import git_state
from grpo.runs.folder import RunFolder, load_config
from grpo.runs.status import Status, birth, read_status, write_status

CONFIG = {"name": "dapo", "group_size": 16, "optimizer": {"lr": 1e-6, "betas": (0.9, 0.95)}, "top": float("inf")}


def create(root: Path, **changes: object) -> RunFolder:
    arguments = {"root": root, "name": "chapter/dapo", "config_hash": "3f9c21ab", "seed": 0, **changes}
    return RunFolder.create(CONFIG, "clip(0.20, 0.28)", **arguments)  # pyright: ignore


def test_folders_count_up_and_hold_what_was_run(tmp_path: Path) -> None:
    run = create(tmp_path)
    assert run.path == tmp_path / "chapter-dapo" / "3f9c21ab-s0" / "1"
    assert create(tmp_path).path.name == "2"
    files = {path.name for path in run.path.iterdir()}
    assert files == {"config.yaml", "algorithm.txt", "environment.json", "status.json", "progress.json"}
    assert (run.path / "algorithm.txt").read_text() == "clip(0.20, 0.28)\n"
    config = yaml.safe_load((run.path / "config.yaml").read_text())
    assert config == {**CONFIG, "optimizer": {"lr": 1e-6, "betas": [0.9, 0.95]}}
    assert list(config) == list(CONFIG)  # in the order of the configuration
    assert load_config(run.path) == config


def test_the_next_number_follows_the_highest(tmp_path: Path) -> None:
    (tmp_path / "chapter-dapo" / "3f9c21ab-s0" / "10").mkdir(parents=True)
    assert create(tmp_path).path.name == "11"


def test_parallel_jobs_get_different_folders(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda _: create(tmp_path).path.name, range(8)))
    assert sorted(paths) == [str(n) for n in range(1, 9)]


def test_environment_names_code_versions_and_machine(tmp_path: Path) -> None:
    record = json.loads((create(tmp_path).path / "environment.json").read_text())
    assert record["v"] == 1
    assert record["config_hash"] == "3f9c21ab"
    assert (record["name"], record["seed"]) == ("chapter/dapo", 0)
    assert record["packages"]["torch"]
    assert record["python"] == sys.version.split()[0]
    assert record["cpu"]["usable"] >= 1
    assert record["command"][0] == sys.executable
    assert "environ" not in json.dumps(record)


def test_git_state_of_a_repository_and_of_an_ignored_folder(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    assert git_state(tmp_path) is None
    git("init")
    (tmp_path / ".gitignore").write_text(".venv/\n")
    (tmp_path / ".venv").mkdir()
    git("add", ".")
    git("commit", "-m", "one")
    state = git_state(tmp_path)
    assert state is not None
    assert len(state["commit"]) == 40
    assert state["dirty"] is False
    (tmp_path / "new.py").write_text("1")
    assert git_state(tmp_path) == {**state, "dirty": True}
    assert git_state(tmp_path / ".venv") is None  # a wheel installed inside somebody's project


def test_a_given_folder_is_taken_once(tmp_path: Path) -> None:
    run = create(tmp_path, folder=tmp_path / "sweep" / "eps_0.20-s0")
    assert run.path == tmp_path / "sweep" / "eps_0.20-s0"
    run.status("stopped", step=7, reason="SIGTERM")
    with pytest.raises(UserError) as error:
        create(tmp_path, folder=run.path)
    assert str(error.value) == (
        f"run_dir   {run.path} already holds a run (stopped at step 7); say resume=auto to go on, "
        "or give another folder"
    )


def test_status_through_a_run(tmp_path: Path) -> None:
    run = create(tmp_path)
    status = read_status(run.path)
    assert status is not None
    assert (status.status, status.step, status.pid, status.error) == ("running", 0, os.getpid(), None)
    run.progress(3, reward=0.5)
    assert json.loads((run.path / "progress.json").read_text()) == {"v": 1, "step": 3, "reward": 0.5}
    run.status("failed", step=4, error="reward.exact   raised ZeroDivisionError")
    (run.path / "status.json.tmp-1").write_text('{"v"')  # of a process killed between write and rename
    again = RunFolder.reopen(run.path, step=2)
    assert again.current.started == status.started
    assert not list(run.path.glob("*.tmp-*"))
    again.status("done", step=10, reason="all steps done")
    ended = json.loads((run.path / "status.json").read_text())
    assert (ended["v"], ended["status"], ended["step"], ended["error"]) == (1, "done", 10, None)
    resumed = json.loads((run.path / "environment.json").read_text())["resumed"]
    assert [entry["step"] for entry in resumed] == [2]


def test_of_two_that_resume_at_once_one_is_refused(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    run = create(tmp_path)
    run.status("stopped", step=3)
    other = os.open(run.path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(UserError, match=r"another process is writing to .*; wait for it, stop it, or say"):
        RunFolder.reopen(run.path, step=3)
    assert read_status(run.path) == run.current
    os.close(other)
    RunFolder.reopen(run.path, step=3).status("stopped", step=3)
    parent = os.getppid()
    write_status(run.path, Status("running", pid=parent, host=socket.gethostname(), birth=birth(parent)))
    with pytest.raises(UserError, match=f"process {parent} is writing to"):
        RunFolder.reopen(run.path, step=3)


def test_alive_is_the_process_and_not_the_number() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        started = birth(child.pid)
        here = socket.gethostname()
        assert Status("running", pid=child.pid, host=here, birth=started).alive
        assert not Status("done", pid=child.pid, host=here, birth=started).alive
        assert not Status("running", pid=child.pid, host=here, birth=(started or 0) - 1).alive  # a number used again
        assert not Status("running", pid=child.pid, host="elsewhere", birth=started).alive
        assert not Status("running", pid=os.getpid(), host=here, birth=birth(os.getpid())).alive
    finally:
        child.communicate(b"\n")
    assert not Status("running", pid=child.pid, host=here, birth=started).alive


def test_a_killed_job_that_nobody_has_waited_for_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    status = Status("running", pid=child.pid, host=socket.gethostname(), birth=birth(child.pid))
    assert status.alive
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie
    os.kill(child.pid, 0)  # which still answers
    assert not status.alive
    child.communicate()


def test_damaged_status_is_no_status(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    (tmp_path / "status.json").write_text('{"v": 1, "sta')
    assert read_status(tmp_path) is None
    write_status(tmp_path, Status("stopped", step=3))
    assert read_status(tmp_path) == Status("stopped", step=3)


def test_no_permission_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")  # as for everybody but root

    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", refuse)
        with pytest.raises(UserError) as error:
            create(tmp_path / "runs")
    where = tmp_path / "runs" / "chapter-dapo" / "3f9c21ab-s0"
    assert str(error.value) == (
        f"output_dir   no permission to write {where}; say output_dir=<a folder that you may write to>"
    )


def test_a_file_in_the_way_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(UserError, match=r"^output_dir   cannot write .*3f9c21ab-s0: Not a directory; "):
        create(tmp_path / "runs")


def test_a_cut_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "status.json"
    atomic.write_text(path, "old")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(UserError, match="No space left on device"):
                atomic.write_text(path, "new")
        assert path.read_text() == "old"
    atomic.write_text(path, "new")
    assert path.read_text() == "new"
