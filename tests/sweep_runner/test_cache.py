"""Which finished run may stand for a job, and what of it is copied."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo.errors import UserError
from grpo.sweep import cache, manifest, runner
from tests.sweep_runner.fake import Fake, job, make_run, run

HERE: dict[str, Any] = {
    "git": {"commit": "abc", "dirty": False},
    "packages": {"grpo-lab": "0.1.0", "torch": "2.13.0", "transformers": "5.19.0", "wandb": "0.31"},
    "cpu": {"model": "Some CPU", "usable": 2},
    "gpu": [],
}


@pytest.fixture(autouse=True)
def _this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_present", lambda: HERE)
    monkeypatch.setattr(runner, "BEAT", 0.0)


def sibling(root: Path, made: manifest.Job, status: str = "done", **changes: Any) -> Path:
    """A run in another sweep, made by the code and machine of HERE but for `changes`."""
    folder = make_run(root / "older" / made.folder, made, status)
    record = json.loads((folder / "environment.json").read_text())
    (folder / "environment.json").write_text(json.dumps({**record, **HERE, **changes}))
    one = manifest.Manifest("older", "question", "0", {}, (), (), (made,), 1)
    manifest.write(root / "older", one)
    return folder


def test_a_finished_equal_run_is_not_run_again(tmp_path: Path) -> None:
    source = sibling(tmp_path, replace(job("a"), arm="grpo", folder="grpo/seed=0"))
    (source / "metrics.jsonl").write_text("{}\n")
    fake = Fake(tmp_path / "newer", [job("a"), job("b")])
    outcomes = run(fake)
    assert fake.started == ["b/seed=0"]
    assert (outcomes[0].state, outcomes[0].reused_from) == ("done", source)
    copy = tmp_path / "newer/a/seed=0"
    assert (copy / "metrics.jsonl").read_text() == "{}\n"
    assert json.loads((copy / "reused.json").read_text())["from"] == str(source)


CHANGES: dict[str, Callable[[], dict[str, Any]]] = {
    "commit": lambda: {"git": {"commit": "def", "dirty": False}},
    "dirty": lambda: {"git": {"commit": "abc", "dirty": True}},
    "torch": lambda: {"packages": {**HERE["packages"], "torch": "2.14.0"}},
    "cpu": lambda: {"cpu": {"model": "Another CPU"}},
    "gpu": lambda: {"gpu": [{"name": "H200", "memory_gb": 139.0}]},
    "seed": lambda: {"seed": 1},
    "hash": lambda: {"config_hash": "another"},
    "resumed elsewhere": lambda: {"resumed": [{**HERE, "cpu": {"model": "Another CPU"}}]},
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_run_is_no_equal_run(tmp_path: Path, change: str) -> None:
    sibling(tmp_path, job("a"), **CHANGES[change]())
    fake = Fake(tmp_path / "newer", [job("a")])
    assert run(fake)[0].reused_from is None
    assert fake.started == ["a/seed=0"]


def test_an_unfinished_run_is_not_taken(tmp_path: Path) -> None:
    sibling(tmp_path, job("a"), "stopped")
    assert cache.siblings(tmp_path / "newer") == {}


def test_versions_that_change_no_number_do_not_matter(tmp_path: Path) -> None:
    source = sibling(tmp_path, job("a"), packages={**HERE["packages"], "wandb": "0.32"})
    assert cache.siblings(tmp_path / "newer") == {("hash-a", 0): source}


def test_with_uncommitted_changes_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dirty = {"git": {"commit": "abc", "dirty": True}}
    sibling(tmp_path, job("a"), **dirty)
    monkeypatch.setattr(cache, "_present", lambda: {**HERE, **dirty})
    assert cache.siblings(tmp_path / "newer") == {}


def test_a_cluster_is_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sibling(tmp_path, job("a"))
    fake = Fake(tmp_path / "newer", [job("a")])
    monkeypatch.setattr(runner, "make", lambda *_: fake)
    runner.run(fake.jobs, fake.sweep, launcher="submitit_slurm", say=lambda text: None, live=False)
    assert fake.started == ["a/seed=0"]


def test_a_damaged_sibling_is_passed_over(tmp_path: Path) -> None:
    sibling(tmp_path, job("a"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/sweep.json").write_text("{")
    assert len(cache.siblings(tmp_path / "newer")) == 1


def test_an_unfinished_run_gives_way_to_the_copy(tmp_path: Path) -> None:
    sibling(tmp_path, job("a"))
    mine = make_run(tmp_path / "newer/a/seed=0", job("a"), "stopped", step=3)
    (mine / "mine.txt").write_text("kept")
    fake = Fake(tmp_path / "newer", [job("a")])
    assert run(fake)[0].reused_from is not None
    assert (tmp_path / "newer/leftovers/a/seed=0/mine.txt").read_text() == "kept"


def test_large_files_stay_with_the_run(tmp_path: Path) -> None:
    source = make_run(tmp_path / "source", job("a"))
    for name in ("checkpoints/step-000001/model", "policy/model", "wandb/run", "rollouts/step", "task/policy/kept"):
        (source / name).parent.mkdir(parents=True)
        (source / name).write_text(name)
    (source / "status.json.tmp-7").write_text("half")
    cache.copy(source, tmp_path / "deep" / "target")
    files = {p.relative_to(tmp_path / "deep/target").as_posix() for p in (tmp_path / "deep/target").rglob("*.*")}
    assert files == {"config.yaml", "environment.json", "status.json", "reused.json"}
    assert (tmp_path / "deep/target/task/policy/kept").exists()
    assert {p.name for p in (tmp_path / "deep").iterdir()} == {"target"}


def test_a_copy_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_run(tmp_path / "source", job("a"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "write_json", full)
    with pytest.raises(UserError) as error:
        cache.copy(source, tmp_path / "target")
    assert str(error.value).startswith(f"sweep   cannot write {tmp_path}/target: No space left on device")
    assert {p.name for p in tmp_path.iterdir()} == {"source"}


def inputs(folder: Path, config: dict[str, Any]) -> bool:
    (folder / "config.yaml").write_text(json.dumps(config))
    return cache.same_inputs(folder, "2026-01-01T00:00:00+00:00")


def test_what_the_hash_does_not_cover_is_not_reused(tmp_path: Path) -> None:
    """An edited reward or data file has the same configuration; only this package's code is known to be the same."""
    data = tmp_path / "data.jsonl"
    data.write_text("{}")
    ours = {"reward": {"functions": {"exact": {"_target_": "grpo.rewards.exact.Exact"}}}, "model": {"path": None}}
    assert inputs(tmp_path, ours)
    assert not inputs(tmp_path, {**ours, "reward": {"functions": {"own": {"_target_": "my_rewards.short"}}}})
    long_before, after = 1_700_000_000, 1_800_000_000  # 2023 and 2027; the run started in 2026
    os.utime(data, (long_before, long_before))
    assert inputs(tmp_path, {**ours, "task": {"path": str(data)}})
    assert inputs(tmp_path, {**ours, "task": {"path": "openai/gsm8k"}})
    os.utime(data, (after, after))
    assert not inputs(tmp_path, {**ours, "task": {"path": str(data)}})
    folder = tmp_path / "set"
    folder.mkdir()
    data.rename(folder / "data.jsonl")
    assert not inputs(tmp_path, {**ours, "task": {"path": str(folder)}})
