"""What a job came to: its status, its log, its exit code; and the table at the end."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from grpo.runs.status import Status, read_status
from grpo.sweep.launch import open_log
from grpo.sweep.outcomes import Outcome, judge, last_line, report
from tests.sweep_runner.fake import job, make_run

TRACEBACK = "Traceback (most recent call last):\n  File x\nValueError: no such column\n\n"


def log_with(tmp_path: Path, text: str) -> Path:
    (path := tmp_path / "job.log").write_text(text)
    return path


@pytest.mark.parametrize(
    ("status", "code", "said", "state", "why"),
    [
        (Status("done", 3), 0, "", "done", ""),
        (Status("failed", error="reward   raised"), 1, TRACEBACK, "failed", "reward   raised"),
        (Status("failed", error="step 9   nan", kind="diverged"), 1, "", "diverged", "step 9   nan"),
        (Status("stopped", reason="SIGTERM"), 143, "", "stopped", "stopped by SIGTERM"),
        (None, 1, TRACEBACK, "failed", "ValueError: no such column"),
        (None, 1, "", "failed", "exit code 1 without a word"),
        (None, 0, "", "failed", "ended without a finished run"),
        (None, 0, "step 2/9\n", "failed", "ended without a finished run; its last line: step 2/9"),
        (Status("failed", 2, error="one\ntwo"), 1, "", "failed", "one two"),
        (Status("running", 2), -9, "", "failed", "killed by SIGKILL (out of memory?)"),
        (Status("running", 2), -11, "step 2/9\n", "failed", "killed by SIGSEGV; its last line: step 2/9"),
        (Status("running", 2), -99, "", "failed", "killed by signal 99"),
    ],
    ids=[
        "done",
        "sentence",
        "diverged",
        "stopped",
        "traceback",
        "silent",
        "no run",
        "left",
        "two lines",
        "killed",
        "crashed",
        "odd",
    ],
)
def test_why(tmp_path: Path, status: Status | None, code: int, said: str, state: str, why: str) -> None:
    if status is not None:
        make_run(tmp_path, job("a"), status.status, error=status.error, reason=status.reason, kind=status.kind)
    outcome = judge(job("a"), tmp_path, code, log_with(tmp_path, said))
    assert (outcome.state, outcome.why, outcome.code) == (state, why, code)


def test_an_old_status_says_nothing_about_this_attempt(tmp_path: Path) -> None:
    """Refused at the start the second time: the first attempt's sentence would be a wrong one."""
    make_run(tmp_path, job("a"), "failed", error="the old reason")
    before, log = read_status(tmp_path), log_with(tmp_path, "the old log\n")
    behind = open_log(log, ["algo=a"], 2)
    assert judge(job("a"), tmp_path, 1, log, before=before, behind=behind).why == "exit code 1 without a word"
    with log.open("a") as file:
        file.write("grup_size   there is no such key\n")
    assert judge(job("a"), tmp_path, 1, log, before=before, behind=behind).why == "grup_size   there is no such key"


def test_a_job_that_was_asked_to_stop_has_not_failed(tmp_path: Path) -> None:
    assert judge(job("a"), tmp_path, -15, tmp_path / "log", stopping=True).state == "stopped"
    make_run(tmp_path, job("a"), "failed", error="and broke meanwhile")
    assert judge(job("a"), tmp_path, 1, tmp_path / "log", stopping=True).state == "failed"


def test_the_last_line_of_a_long_log(tmp_path: Path) -> None:
    log = log_with(tmp_path, "x" * 100_000 + "\nthe end\n \n")
    assert last_line(log) == "the end"
    assert last_line(tmp_path / "missing") == ""


def told(*outcomes: Outcome) -> tuple[int, str]:
    stream = io.StringIO()
    return report(outcomes, stream), stream.getvalue()


def outcome(arm: str, state: str, why: str = "", **more) -> Outcome:
    return Outcome(job(arm), state, None, why, Path(f"logs/{arm}.log"), **more)  # type: ignore[arg-type]


def test_the_table_of_failures() -> None:
    failed = outcome("it's", "failed", "killed by SIGKILL", flags=("--config-dir", "my conf"))
    code, text = told(outcome("a", "done"), failed, outcome("c", "stopped"), outcome("d", "waiting"))
    assert code == 1
    assert text.splitlines() == [
        "of 4 jobs 1 failed, 1 was stopped, 1 was not started:",
        "  it's/seed=0   killed by SIGKILL",
        "      log    logs/it's.log",
        """      alone  python -m grpo --config-dir 'my conf' 'algo=it'"'"'s' seed=0""",
        "the same command again runs only what is missing",
    ]


def test_many_failures_are_counted() -> None:
    code, text = told(*(outcome(f"a{i}", "failed", "no") for i in range(20)))
    assert (code, text.count("log    ")) == (1, 12)
    assert "  and 8 more; jobs.json in the sweep's folder has all of them" in text


def test_success_says_what_it_did_not_run() -> None:
    same = outcome("b", "done", reused_from=Path("x"))
    code, text = told(outcome("a", "done", skipped=True), same, outcome("c", "diverged", "step 9   nan"))
    assert (code, text) == (
        0,
        "all 3 jobs are done (1 of them before, 1 copied from equal runs)\n  diverged  c/seed=0   step 9   nan\n",
    )
    assert told(outcome("a", "done")) == (0, "the only job is done\n")
