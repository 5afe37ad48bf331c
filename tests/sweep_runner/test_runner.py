"""Which jobs start, how many at a time, and what becomes of the others when one fails or the sweep is stopped."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from grpo.errors import UserError
from grpo.sweep import runner
from tests.sweep_runner.fake import Child, End, Fake, job, make_run, run


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BEAT", 0.0)
    monkeypatch.setattr(runner, "QUEUE_BEAT", 0.0)
    monkeypatch.setattr(runner, "GRACE", 0.0)


def states(outcomes: list[runner.Outcome]) -> list[str]:
    return [outcome.state for outcome in outcomes]


def test_outcomes_come_in_the_order_of_the_jobs_and_never_too_many_run(tmp_path: Path) -> None:
    jobs = [job(arm, seed) for seed in range(4) for arm in ("a", "b")]
    # The first takes longest, so that the jobs end in another order than they were given.
    fake = Fake(tmp_path, jobs, {"a/seed=0": [End(looks=30)], "b/seed=1": [End(looks=7)]})
    outcomes = run(fake, at_once=3)
    assert [outcome.job for outcome in outcomes] == jobs
    assert states(outcomes) == ["done"] * 8
    assert fake.most == 3
    assert sorted(fake.started) == sorted(each.folder for each in jobs)
    assert fake.started[:3] == ["a/seed=0", "b/seed=0", "a/seed=1"]


def test_a_queue_gets_all_jobs_together(tmp_path: Path) -> None:
    fake = Fake(tmp_path, [job("a", seed) for seed in range(5)], queue=2)
    assert states(run(fake)) == ["done"] * 5
    assert fake.most == 5


def test_a_failed_job_does_not_stop_the_others(tmp_path: Path) -> None:
    jobs = [job("a"), job("b"), job("c")]
    fake = Fake(tmp_path, jobs, {"a/seed=0": [End(1, "failed", "reward   raised ValueError")]})
    outcomes = run(fake, at_once=1)
    assert states(outcomes) == ["failed", "done", "done"]
    assert (outcomes[0].code, outcomes[0].why) == (1, "reward   raised ValueError")


def test_the_same_call_again_runs_only_what_is_missing(tmp_path: Path) -> None:
    jobs = [job("a"), job("b"), job("c")]
    ends = {
        "b/seed=0": [End(-9, None), End()],
        "c/seed=0": [End(1, "failed", "step 9   not finite", "diverged")],
    }
    fake = Fake(tmp_path, jobs, ends)
    assert states(run(fake)) == ["done", "failed", "diverged"]
    outcomes = run(fake)
    assert states(outcomes) == ["done", "done", "diverged"]
    assert [outcome.skipped for outcome in outcomes] == [True, False, True]
    assert outcomes[2].why == "step 9   not finite"
    assert fake.started == ["a/seed=0", "b/seed=0", "c/seed=0", "b/seed=0"]
    record = json.loads((tmp_path / "jobs.json").read_text())
    assert record["v"] == 1
    assert record["b/seed=0"] == {
        "state": "done", "code": 0, "why": "", "log": str(tmp_path / "logs/b/seed=0.log"), "attempts": 2,
    }  # fmt: skip
    assert record["a/seed=0"]["attempts"] == 1
    headers = [line for line in (tmp_path / "logs/b/seed=0.log").read_text().splitlines() if line.startswith("── ")]
    assert [header.split(" · ")[0] for header in headers] == ["── attempt 1", "── attempt 2"]
    assert "algo=b seed=0" in headers[0]


def test_jobs_of_an_earlier_call_stay_in_jobs_json(tmp_path: Path) -> None:
    run(Fake(tmp_path, [job("tune")]))
    run(Fake(tmp_path, [job("final")]))
    assert set(json.loads((tmp_path / "jobs.json").read_text())) == {"v", "tune/seed=0", "final/seed=0"}


def test_one_folder_is_one_job(tmp_path: Path) -> None:
    fake = Fake(tmp_path, [job("a"), job("a")])
    assert states(run(fake)) == ["done", "done"]
    assert fake.started == ["a/seed=0"]


def test_equal_jobs_run_once(tmp_path: Path) -> None:
    jobs = [job("grpo", config_hash="same"), job("gspo", config_hash="same"), job("gspo", 1, "same")]
    fake = Fake(tmp_path, jobs)
    outcomes = run(fake)
    assert sorted(fake.started) == ["grpo/seed=0", "gspo/seed=1"]  # another seed is another run
    assert outcomes[1].reused_from == tmp_path / "grpo/seed=0"
    assert json.loads((tmp_path / "gspo/seed=0/reused.json").read_text())["from"] == str(tmp_path / "grpo/seed=0")
    assert [outcome.skipped for outcome in run(fake)] == [True] * 3


def test_an_equal_job_runs_itself_if_the_first_one_failed(tmp_path: Path) -> None:
    jobs = [job("grpo", config_hash="same"), job("gspo", config_hash="same")]
    fake = Fake(tmp_path, jobs, {"grpo/seed=0": [End(-9, None)]})
    outcomes = run(fake)
    assert states(outcomes) == ["failed", "done"]
    assert outcomes[1].reused_from is None


def test_an_equal_job_that_is_done_already_stands_for_an_earlier_one(tmp_path: Path) -> None:
    jobs = [job("grpo", config_hash="same"), job("gspo", config_hash="same")]
    make_run(tmp_path / "gspo/seed=0", jobs[1])
    fake = Fake(tmp_path, jobs)
    assert run(fake)[0].reused_from == tmp_path / "gspo/seed=0"
    assert fake.started == []


def test_a_runner_that_breaks_lets_its_jobs_save(tmp_path: Path) -> None:
    def on_look(child: Child) -> None:
        raise OSError("No space left on device")

    fake = Fake(tmp_path, [job("a"), job("b")], on_look=on_look)
    with pytest.raises(OSError, match="No space"):
        run(fake, at_once=2)
    assert fake.stopped == ["a/seed=0", "b/seed=0"]


def test_another_configuration_is_moved_away_not_counted(tmp_path: Path) -> None:
    old = make_run(tmp_path / "a/seed=0", job("a", config_hash="older"), step=7)
    (old / "metrics.jsonl").write_text("mine\n")
    said: list[str] = []
    fake = Fake(tmp_path, [job("a")])
    assert states(run(fake, say=said.append)) == ["done"]
    assert fake.started == ["a/seed=0"]
    assert (tmp_path / "leftovers/a/seed=0/metrics.jsonl").read_text() == "mine\n"
    assert f"it is now {tmp_path}/leftovers/a/seed=0, and is not counted" in said[0]
    make_run(tmp_path / "a/seed=0", job("a", config_hash="older still"))
    run(fake)
    assert (tmp_path / "leftovers/a/seed=0-2").is_dir()


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    make_run(tmp_path / "a/seed=0", job("a", 5, "hash-a"))
    fake = Fake(tmp_path, [job("a")])
    assert states(run(fake)) == ["done"]
    assert fake.started == ["a/seed=0"]


def test_sigterm_lets_the_running_jobs_save_and_starts_nothing(tmp_path: Path) -> None:
    def on_look(child: Child) -> None:
        if child.made.arm == "b":
            os.kill(os.getpid(), signal.SIGTERM)

    fake = Fake(tmp_path, [job(arm) for arm in "abcd"], {"b/seed=0": [End(looks=99)]}, on_look=on_look)
    with pytest.raises(runner.Stopped) as stopped:
        run(fake, at_once=2)
    outcomes = stopped.value.outcomes
    assert states(outcomes) == ["stopped", "stopped", "waiting", "waiting"]
    assert (stopped.value.signal, stopped.value.exit_code) == ("SIGTERM", 143)
    assert fake.stopped == ["a/seed=0", "b/seed=0"]
    assert fake.started == ["a/seed=0", "b/seed=0"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    fake.on_look = lambda child: None
    fake.ends = {}
    assert states(run(fake)) == ["done"] * 4


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grpo.runs.signals.ECHO_SECONDS", -1.0)  # the second one is no echo of the first
    monkeypatch.setattr(Child, "stop", lambda self: None)  # a step that does not end

    def on_look(child: Child) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    fake = Fake(tmp_path, [job("a"), job("b")], {"a/seed=0": [End(looks=99)]}, on_look=on_look)
    with pytest.raises(KeyboardInterrupt):
        run(fake, at_once=1)
    assert fake.killed == ["a/seed=0"]
    record = json.loads((tmp_path / "jobs.json").read_text())
    assert (record["a/seed=0"]["state"], record["b/seed=0"]["state"]) == ("stopped", "waiting")


def test_a_job_that_cannot_be_started_is_a_failed_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake(tmp_path, [job("a"), job("b")])
    start = fake._start

    def refuse(each):
        if "a/seed=0" in str(each.log):
            raise OSError("Cannot allocate memory")
        return start(each)

    monkeypatch.setattr(fake, "_start", refuse)
    outcomes = run(fake)
    assert states(outcomes) == ["failed", "done"]
    assert outcomes[0].why == "could not be started: Cannot allocate memory"


def test_two_runners_never_work_on_one_sweep(tmp_path: Path) -> None:
    other = Fake(tmp_path, [job("b")])
    refused: list[str] = []

    def on_look(child: Child) -> None:
        with pytest.raises(UserError) as error:
            run(other)
        refused.append(str(error.value))

    assert states(run(Fake(tmp_path, [job("a")], on_look=on_look))) == ["done"]
    assert refused[0] == f"sweep   another process is running the jobs of {tmp_path}; wait for it, or stop it"
    assert states(run(other)) == ["done"]  # the lock ended with its runner


def test_the_words_of_a_job(tmp_path: Path) -> None:
    fake = Fake(tmp_path, [job("a")])
    run(fake, flags=("--config-dir", "mine"))
    words = fake.starts[0].words
    assert words[:4] == ("--config-dir", "mine", "algo=a", "seed=0")
    assert words[-1] == "resume=auto"
    assert fake.starts[0].environment["OMP_NUM_THREADS"].isdecimal()


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    for launcher, resources, at_once, text in (
        ("slurm", {}, 1, "hydra/launcher   there is no launcher slurm; say one of fork, process, submitit_local,"),
        ("fork", {"timeout_min": 3}, 1, "hydra.launcher   timeout_min: only hydra/launcher=submitit_slurm knows"),
        ("fork", {}, 0, "jobs   0 at a time is too few; say 1 or more"),
    ):
        with pytest.raises(UserError) as error:
            runner.run([job("a")], tmp_path, at_once=at_once, launcher=launcher, resources=resources)
        assert str(error.value).startswith(text)
