"""Ranks as processes: who starts them, who ends them, and what is said when one dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo.errors import UserError
from grpo.ranks import launch, place
from grpo.runs import checkpoint
from grpo.runs.status import Status, read_status, write_status
from tests import helpers
from tests.ranks import cases
from tests.ranks.test_same_run import REPOSITORY, assert_close

TRAINER = SimpleNamespace(accelerator="cpu", devices=2)


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs a program as two ranks: exit code and what stood on standard error."""
    monkeypatch.setattr(launch, "GRACE", 1.0)
    monkeypatch.setattr(launch, "SOON", 0.2)
    monkeypatch.setattr(launch, "KILL", 0.5)

    def started(program: str) -> tuple[int, str]:
        head = "import os, sys, time, signal; rank = os.environ['RANK']\n"
        monkeypatch.setattr(launch, "command", lambda words, flags: [sys.executable, "-c", head + program])
        code = launch.supervise(SimpleNamespace(trainer=TRAINER, overrides=()))
        return code, capfd.readouterr().err

    return started


def test_ranks_get_torchruns_variables_and_a_share_of_the_cores() -> None:
    given = {"OMP_NUM_THREADS": "8", "HOME": "here"}
    found = launch.environment(1, 3, 4242, given)
    assert {key: found[key] for key in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")} == {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "3",
    }
    assert (found["MASTER_ADDR"], found["MASTER_PORT"], found["HOME"]) == ("127.0.0.1", "4242", "here")
    assert found["OMP_NUM_THREADS"] == found["MKL_NUM_THREADS"] == "2"  # 8 // 3
    assert launch.environment(0, 3, 1, {"OMP_NUM_THREADS": "1"})["OMP_NUM_THREADS"] == "1"


def test_place_and_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert place.place({}) is None
    assert place.place({"RANK": "0", "WORLD_SIZE": "1"}) is None  # some clusters always say so
    two = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    assert place.place(two) == place.Place(1, 1, 2)
    with pytest.raises(UserError, match=r"2 of 4 processes are on this machine"):
        place.place({**two, "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"})
    with pytest.raises(UserError, match=r"2 processes were started \(WORLD_SIZE\) for trainer.devices=1; say"):
        place.joined(SimpleNamespace(devices=1), two)
    assert place.joined(SimpleNamespace(devices="auto"), two) == place.Place(1, 1, 2)

    auto = SimpleNamespace(accelerator="auto", devices="auto")
    assert (place.wanted(TRAINER), place.wanted(auto)) == (2, 1)  # no GPU here
    monkeypatch.setattr(place, "gpus", lambda: ["0", "1", "2"])
    assert place.wanted(auto) == 3
    assert place.wanted(SimpleNamespace(accelerator="cpu", devices="auto")) == 1
    assert launch.needed(auto)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert not launch.needed(auto)  # it is one of them


def test_the_code_is_rank_0s(ranks: Any) -> None:
    assert ranks("pass") == (0, "")
    # Stopped by a signal in good order: rank 0 says how, the other says nothing.
    assert ranks("sys.exit(143 if rank == '0' else 0)") == (143, "")


def test_a_failure_that_rank_0_told_is_told_once(ranks: Any) -> None:
    code, said = ranks("if rank == '0': sys.exit('key   a sentence')\ntime.sleep(60)")
    assert (code, said) == (1, "key   a sentence\n")


def test_a_rank_that_dies_ends_the_others_and_its_last_words_are_shown(ranks: Any) -> None:
    code, said = ranks("if rank == '1': print('a'), sys.exit('ValueError: odd')\ntime.sleep(60)")
    assert code == 1
    assert said == "rank 1 ended with exit code 1; its last words:\na\nValueError: odd\n"
    # Killed from outside, and the other deaf to SIGTERM, as in a collective: 128 + 9.
    program = "if rank == '1': os.kill(os.getpid(), 9)\nsignal.signal(15, signal.SIG_IGN); time.sleep(60)"
    assert ranks(program)[0] == 137


def test_what_the_folder_says_of_a_dead_rank(ranks: Any, tmp_path: Path) -> None:
    """The log moves into the run's folder; a status that rank 0 could not write any more is written for it."""
    write_status(tmp_path, Status("running", step=3))
    program = f"""
from pathlib import Path
from grpo.ranks.launch import keep_log
if rank == '1':
    print('before', flush=True)
    keep_log(Path({str(tmp_path)!r}), 1)
    sys.exit('after')
time.sleep(60)
"""
    code, said = ranks(program)
    assert (code, (tmp_path / "rank-1.log").read_text()) == (1, "before\nafter\n")
    assert f"(all of it: {tmp_path / 'rank-1.log'})" in said
    status = read_status(tmp_path)
    assert status is not None
    assert (status.status, status.step, status.error) == ("failed", 3, "rank 1 died: after")
    # What rank 0 has written into the status it has also told.
    write_status(tmp_path, Status("running").now("failed", error="key   after"))
    assert ranks(program.replace("time.sleep(60)", "sys.exit(1)"))[1] == ""
    # Nothing to say, no file.
    write_status(tmp_path, Status("done"))
    keep = program.replace("print('before', flush=True)", "").replace("sys.exit('after')", "sys.exit()")
    assert ranks(keep.replace("time.sleep(60)", "sys.exit()"))[0] == 0
    assert not (tmp_path / "rank-1.log").exists()


def test_signals_are_passed_on_once(ranks: Any, tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
seen = []
signal.signal(15, lambda *_: seen.append(15))
signal.signal(2, lambda *_: seen.append(2))
(Path({str(tmp_path)!r}) / rank).touch()
end = time.time() + 2.0
while time.time() < end and sum(seen) < 17: time.sleep(0.01)
sys.exit(0 if rank == '1' else 40 + len(seen) if seen == [15, 2] else 1)
"""

    def send() -> None:
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    assert ranks(program)[0] == 42
    sender.join()


def started(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    """`python -m grpo` on two devices."""
    said = {text.split("=")[0] for text in overrides}
    small = [text for text in helpers.SMALL if text.split("=")[0] not in said]
    words = [*small, *overrides, f"output_dir={folder}", "trainer.devices=2"]
    return subprocess.Popen(
        [sys.executable, "-m", "grpo", *words],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rank_of(process: subprocess.Popen[str], rank: int) -> int:
    """The process id of a rank."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    wanted = f"\0RANK={rank}\0".encode()
    return next(int(child) for child in children if wanted in Path(f"/proc/{child}/environ").read_bytes())


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the rank in /proc")
def test_a_signal_to_one_rank_stops_all_and_one_process_goes_on(tmp_path: Path) -> None:
    run = (*cases.RUNS["grpo"], "model.dtype=float64", "max_steps=100000", "samples_every=1", "eval.every=null")
    process = started(tmp_path / "stopped", *run)
    assert process.stdout is not None
    try:
        line = next(line for line in process.stdout if line.startswith("step"))
        os.kill(rank_of(process, 1), signal.SIGTERM)
        rest, code = process.stdout.read(), process.wait(timeout=120)
    finally:
        process.kill()
    assert code == 143, line + rest
    stopped = helpers.newest(tmp_path / "stopped")
    status = json.loads((stopped / "status.json").read_text())
    assert (status["status"], status["reason"]) == ("stopped", "SIGTERM")
    saved = checkpoint.newest_complete(stopped / "checkpoints")[0]
    assert saved is not None
    assert checkpoint.step_of(saved) == status["step"] > 0
    assert "SIGTERM: finishing what is under way" in (stopped / "rank-1.log").read_text()

    # The same steps in one process.
    run = (*(text for text in run if "max_steps" not in text), f"max_steps={status['step']}", "eval.test_questions=0")
    code, straight = helpers.run(tmp_path / "straight", *run)
    assert code == 0
    one, two = (checkpoint.load(path) for path in (straight / "checkpoints" / saved.name, saved))
    assert_close(one.tensors, two.tensors)
    assert one.state["counters"] == two.state["counters"]


def test_a_mistake_that_only_one_rank_meets_is_one_sentence(tmp_path: Path) -> None:
    process = started(tmp_path, "max_steps=2", "surrogate._target_=tests.ranks.test_launch.Breaks")
    try:
        said, _ = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 1
    assert said.count("surrogate   rank 1 cannot") == 1, said
    assert "Traceback" not in said
    run = helpers.newest(tmp_path)
    status = json.loads((run / "status.json").read_text())
    assert (status["status"], status["error"]) == ("failed", "surrogate   rank 1 cannot")
    assert not (run / "rank-1.log").exists()


def __getattr__(name: str) -> Any:
    """`Breaks`, made when a configuration asks for it: a surrogate that rank 1 cannot compute."""
    if name != "Breaks":
        raise AttributeError(name)
    from grpo.algorithm.surrogate import Clip

    class Breaks(Clip):
        def __call__(self, *args: Any, **named: Any) -> Any:
            if os.environ.get("RANK") == "1":
                raise UserError("surrogate   rank 1 cannot")
            return super().__call__(*args, **named)

    return Breaks
