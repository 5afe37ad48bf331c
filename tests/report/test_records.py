"""Folders → records: what counts, with which number, and what never counts."""

from __future__ import annotations

import json
import math
import shutil

import pytest

from grpo.errors import UserError
from grpo.report.reading import load, load_runs
from grpo.report.records import usual
from tests.report.synthetic import Run, Sweep


def runs_of(sweep, arm):
    return {run.seed: run for run in sweep.arms[arm]}


def test_score_is_the_endpoint_of_the_last_row(clip_high):
    sweep = load(clip_high)
    assert sweep.scores()["eps_0.20"] == {0: 32 / 64, 1: 34 / 64, 2: 30 / 64, 3: 33 / 64, 4: 31 / 64, 5: 35 / 64}
    assert {run.score_from for run in sweep.arms["eps_0.20"]} == {"test/avg@8"}


def test_a_diverged_run_counts_with_its_last_validation(clip_high):
    run = runs_of(load(clip_high), "no_upper")[2]
    assert (run.state, run.kind, run.counted) == ("failed", "diverged", True)
    # 10 steps, the last at the full score: the row of step 10 holds validation/avg@4 = 0.25
    assert (run.score, run.score_from) == (0.25, "validation/avg@4")


def test_divergence_is_read_from_the_sentence_too(tmp_path):
    """Runs that were written before status.json had a kind."""
    error = "step 9   loss nan and gradient norm nan: 3 updates in a row were not finite; try a smaller optimizer.lr"
    run = Run(0.25, state="failed", error=error)
    sweep = load(Sweep(tmp_path).arm("a", {0: run, 1: Run(0.25, state="failed", error="CUDA out of memory")}).write())
    assert [run.counted for run in sweep.arms["a"]] == [True, False]


def test_running_stopped_failed_and_unbegun_runs_are_missing(tmp_path):
    states = {0: Run(0.5, state="running"), 1: Run(0.5, state="stopped"), 2: Run(None, written=False), 3: 0.5}
    sweep = load(Sweep(tmp_path).arm("a", states).write())
    assert [(run.seed, run.state) for run in sweep.missing] == [(0, "running"), (1, "stopped"), (2, "waiting")]


def test_a_killed_run_is_stopped_not_running(tmp_path):
    """Its status still says running; the process that wrote it is gone."""
    import socket

    sweep = Sweep(tmp_path).arm("a", {0: Run(0.5, state="running")})
    folder = sweep.write() / "a" / "seed=0" / "status.json"
    folder.write_text(folder.read_text().replace('"elsewhere"', json.dumps(socket.gethostname())).replace(
        '"pid": 1', '"pid": 999999999'))  # fmt: skip
    assert load(tmp_path).runs[0].state == "stopped"


def test_another_configuration_in_the_folder_never_counts(tmp_path):
    Sweep(tmp_path).arm("a", {0: Run(0.5, environment={"config_hash": "deadbeef"}), 1: 0.5}).write()
    sweep = load(tmp_path)
    assert [run.state for run in sweep.runs] == ["foreign", "done"]
    assert "deadbeef" in (sweep.runs[0].error or "")


def test_the_runner_knows_why_a_run_never_began(tmp_path):
    Sweep(tmp_path).arm("a", {0: Run(None, written=False), 1: 0.5}).write()
    told = {"state": "failed", "code": 1, "why": "model.path   there is no such folder", "log": "logs/a/seed=0.log"}
    (tmp_path / "jobs.json").write_text(json.dumps({"v": 1, "a/seed=0": told, "a/seed=1": {**told, "state": "done"}}))
    runs = runs_of(load(tmp_path), "a")
    assert runs[0].state == "failed"
    assert runs[0].error == "model.path   there is no such folder; log: logs/a/seed=0.log"
    assert (runs[1].state, runs[1].error) == ("done", None)


def test_what_the_manifest_does_not_name_is_not_there(tmp_path):
    Sweep(tmp_path).arm("a", {0: 0.5}).arm("b", {0: 0.5}).write()
    Sweep(tmp_path).arm("a", {0: 0.5}).write()  # a smaller sweep in the same folder
    assert list(load(tmp_path).arms) == ["a"]


def test_a_declared_seed_without_a_job_is_waiting(tmp_path):
    """Its arm is still being tuned, so its final jobs are not known."""
    declared = [{"time": "", "seeds": [0, 1, 2]}]
    sweep = load(Sweep(tmp_path, declared=declared).arm("a", {0: 0.5}).write())
    assert [(run.seed, run.state) for run in sweep.runs] == [(0, "done"), (1, "waiting"), (2, "waiting")]


def test_null_metrics_are_left_out(tmp_path):
    run = Run(0.5, metrics={"grad_norm": None, "policy/entropy": None})
    record = load(Sweep(tmp_path).arm("a", {0: run}).write()).runs[0]
    assert record.last("grad_norm") is None
    assert record.mean("policy/entropy") is None
    assert all(math.isfinite(value) for row in record.rows.values() for value in row.values())


def test_without_a_test_the_last_validation_stands_in_and_is_named(tmp_path):
    sweep = load(Sweep(tmp_path).arm("a", {0: Run(0.5, test=False), 1: Run(0.75, test=False)}).write())
    assert sweep.endpoint == "validation/avg@4"
    assert sweep.scores() == {"a": {0: 0.5, 1: 0.75}}
    assert "test/avg@8" in sweep.notes[0]


def test_a_single_done_run_without_the_endpoint_is_missing(tmp_path):
    sweep = load(Sweep(tmp_path).arm("a", {0: Run(0.5, test=False), 1: 0.75}).write())
    assert sweep.endpoint == "test/avg@8"
    assert [run.seed for run in sweep.missing] == [0]


def test_tuning_is_scored_by_validation(clip_high):
    sweep = load(clip_high)
    own = [run for run in sweep.tuning if run.arm == "eps_0.20"]
    assert {(run.point["optimizer.lr"], run.seed): run.score for run in own} == {
        (1e-4, 100): 0.40, (1e-4, 101): 0.42, (2e-4, 100): 0.50, (2e-4, 101): 0.46,
    }  # fmt: skip
    assert sweep.chosen["no_upper"] == {"optimizer.lr": 2e-4}


def test_right_flags_follow_the_records(tmp_path):
    """0.5 of 8 questions × 8 = 32 right, 4 of each question."""
    run = load(Sweep(tmp_path).arm("a", {0: 0.5}).write()).runs[0]
    assert len(run.test) == 8
    assert [sum(flags) for flags in run.test.values()] == [4] * 8


def test_plain_run_folders(tmp_path):
    """Arms by name, blocks by seed, no question; a sweep's folder among others is read run by run."""
    Sweep(tmp_path / "s").arm("a", {0: 0.5, 1: 0.25}).arm("b", {0: 0.75}, "surrogate.high=0.3").write()
    sweep = load_runs([tmp_path / "s" / "a", tmp_path / "s" / "b"])
    assert sweep.manifest is None
    assert sweep.scores() == {"a": {0: 0.5, 1: 0.25}, "b": {0: 0.75}}
    assert sweep.seeds == (0, 1)


def test_plain_runs_of_one_name_with_two_settings_are_two_arms(tmp_path):
    one, other = Run(0.5, config={"arm": None}), Run(0.25, config={"arm": None})
    Sweep(tmp_path).arm("a", {0: one}).arm("b", {0: other}, "surrogate.high=0.3").write()
    arms = list(load_runs([tmp_path]).arms)
    assert len(arms) == 2
    assert all(arm.startswith("grpo ") for arm in arms)


def test_nothing_to_read_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match=r"holds no sweep\.json"):
        load(tmp_path)
    with pytest.raises(UserError, match="holds no run"):
        load_runs([tmp_path])
    with pytest.raises(UserError, match="no such folder"):
        load_runs([tmp_path / "x"])


def test_without_environment_json_the_configuration_itself_is_hashed(tmp_path):
    """The synthetic jobs have made-up hashes: nothing vouches for a folder whose configuration has another one."""
    folder = Sweep(tmp_path).arm("a", {0: 0.5, 1: 0.5}).write()
    (folder / "a" / "seed=0" / "environment.json").unlink()
    assert [run.state for run in load(tmp_path).runs] == ["foreign", "done"]


def test_the_usual_name_is_the_most_frequent_then_the_one_with_the_largest_k():
    assert usual(["test/pass@16", "test/pass@8", "test/pass@8"]) == "test/pass@8"
    assert usual(["test/pass@8", "test/pass@16"]) == "test/pass@16"  # as text, @8 would be the larger
    assert usual([]) is None


def test_a_folder_copied_to_another_seed_is_no_second_block(tmp_path):
    """The configuration hash leaves the seed out, so it cannot tell: block 0 would count twice."""
    sweep = Sweep(tmp_path / "s").arm("a", {0: 0.5, 1: 0.5}).arm("b", {0: 0.5, 1: 0.75})
    folder = sweep.write()
    shutil.rmtree(folder / "b" / "seed=1")
    shutil.copytree(folder / "b" / "seed=0", folder / "b" / "seed=1")
    copied = load(folder).arms["b"][1]
    assert (copied.state, copied.counted) == ("foreign", False)
    assert copied.error == "the folder holds seed 0, not 1"
