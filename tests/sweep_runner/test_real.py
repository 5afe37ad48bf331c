"""Real runs through the launchers: one that fails, one that is killed, a sweep that is stopped, one that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grpo.runs import checkpoint
from grpo.runs.status import read_status
from grpo.sweep import runner, settle
from grpo.sweep.manifest import Job
from tests import helpers
from tests.sweep_runner.real import PLACE, interrupted, job


def said(log: Path) -> str:
    return log.read_text(encoding="utf-8")


def test_forked_jobs_fail_for_themselves(tmp_path: Path) -> None:
    broken, killed, fine, equal = (
        job("broken", 0, f"{PLACE}=tests.helpers.short_of_one"),
        job("killed", 0, f"{PLACE}=tests.sweep_runner.real.dying"),
        job("fine"),
        job("equal"),
    )
    lines: list[str] = []
    outcomes = runner.run([broken, killed, fine, equal], tmp_path, at_once=2, say=lines.append, live=False)
    assert [outcome.state for outcome in outcomes] == ["failed", "failed", "done", "done"]
    assert outcomes[0].code == 1
    assert outcomes[0].why.startswith("reward.functions.own ")
    assert outcomes[1].code == -9
    assert outcomes[1].why.startswith("killed by SIGKILL (out of memory?); its last line: untrained")
    assert outcomes[3].reused_from == tmp_path / "fine/seed=0"
    assert len(lines) == 4
    record = json.loads((tmp_path / "fine/seed=0/environment.json").read_text())
    assert record["command"][1].endswith("grpo/__main__.py")
    assert record["command"][2:] == fine.words(tmp_path)
    assert record["cpu"]["threads"] == 1
    assert "\nstep 3/3 " in said(outcomes[2].log)


def start(folder: Path, number: str) -> subprocess.CompletedProcess[str]:
    """The sweep as a program, in which a job sends its runner a signal."""
    words = [sys.executable, "-m", "tests.sweep_runner.real", str(folder), str(folder / "sent"), number]
    folder.mkdir(exist_ok=True)
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


def rows(folder: Path, name: str) -> list[dict]:
    return [helpers.without_clock(row) for row in helpers.lines(folder / f"{name}.jsonl")]


@pytest.mark.parametrize(("number", "code", "left"), [("SIGTERM", 143, "stopped"), ("SIGKILL", -9, "running")])
def test_a_sweep_goes_on_where_it_ended(
    number: str, code: int, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = tmp_path / "sweep"
    ended = start(sweep, number)
    assert ended.returncode == code, ended.stderr
    record = json.loads((sweep / "jobs.json").read_text())
    assert (record["a/seed=0"]["state"], record["a/seed=1"]["state"]) == (left, "waiting")

    # The program has left its marker, so that now nothing is sent. A killed runner's job may still be saving.
    monkeypatch.setenv("MARKER", str(sweep / "sent"))
    monkeypatch.setattr(settle, "PATIENCE", 300.0)
    heard: list[str] = []
    outcomes = runner.run(interrupted(), sweep, at_once=1, say=heard.append, live=False)
    assert [(outcome.state, outcome.skipped) for outcome in outcomes] == [("done", False)] * 2
    assert json.loads((sweep / "jobs.json").read_text())["a/seed=0"]["attempts"] == 2
    log = said(outcomes[0].log)
    assert "SIGTERM: finishing what is under way, then saving" in log  # from the runner, or from its end
    assert f"going on from step 2 of {sweep}/a/seed=0" in log

    jobs: list[Job] = interrupted()[:1]
    runner.run(jobs, tmp_path / "straight", at_once=1, say=heard.append, live=False)
    one, other = tmp_path / "straight/a/seed=0", sweep / "a/seed=0"
    for name in ("metrics", "evaluations", "samples"):
        assert rows(one, name) == rows(other, name)
    ends = [checkpoint.load(folder / "checkpoints" / checkpoint.step_name(3)) for folder in (one, other)]
    assert all(ends[0].tensors[name].equal(tensor) for name, tensor in ends[1].tensors.items())
    assert (read_status(other) or pytest.fail("no status")).step == 3


def test_a_process_of_its_own(tmp_path: Path) -> None:
    """Refused before anything heavy is imported, so this takes a second."""
    mistaken = Job("a", "final", 0, "a/seed=0", ("grup_size=3",), "none")
    (outcome,) = runner.run([mistaken], tmp_path, at_once=1, launcher="process", say=lambda text: None, live=False)
    assert (outcome.state, outcome.code) == ("failed", 1)
    assert outcome.why == "grup_size   there is no such key; did you mean group_size?"
    assert said(outcome.log).startswith("── attempt 1 · ")
