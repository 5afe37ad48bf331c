"""resume=never|auto|<path>: what is found, what is said, what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo.config.hashing import config_hash
from grpo.errors import UserError
from grpo.runs import checkpoint
from grpo.runs.differences import differences
from grpo.runs.folder import RunFolder
from grpo.runs.resume import ResumePlan, plan
from grpo.runs.status import Status, birth, write_status

CONFIG: dict[str, Any] = {"name": "dapo", "seed": 0, "group_size": 16, "optimizer": {"lr": 1e-6}, "log_every": 1}
HASH = config_hash(CONFIG)


def start(root: Path, steps: tuple[int, ...] = (), status: str = "stopped", step: int = 0, **changes: Any) -> RunFolder:
    """A run with checkpoints at `steps` that ended with `status` at `step`."""
    config = {**CONFIG, **changes}
    seed = config["seed"]
    run = RunFolder.create(config, "x", root=root, name="dapo", config_hash=config_hash(config), seed=seed)
    for at in steps:
        checkpoint.save(run.checkpoints, at, {"w": torch.ones(1)}, {}, {})
    run.status(status, step=step)  # pyright: ignore
    return run


def find(resume: str | Path, root: Path, folder: Path | None = None, **changes: Any) -> ResumePlan:
    config = {**CONFIG, **changes}
    identity = {"name": "dapo", "config_hash": config_hash(config), "seed": config["seed"]}
    return plan(str(resume), root=root, resolved=config, folder=folder, **identity)


def refusal(*arguments: Any, **changes: Any) -> str:
    with pytest.raises(UserError) as error:
        find(*arguments, **changes)
    return str(error.value)


def test_never_finds_nothing(tmp_path: Path) -> None:
    start(tmp_path, (50,))
    assert find("never", tmp_path) == ResumePlan()


def test_auto_without_a_run_begins(tmp_path: Path) -> None:
    base = tmp_path / "dapo" / f"{HASH}-s0"
    message = f"resume=auto: no run of this configuration in {base}; starting at step 1"
    assert find("auto", tmp_path) == ResumePlan(message=message)


def test_auto_goes_on_from_the_newest_whole_checkpoint_and_says_so(tmp_path: Path) -> None:
    run = start(tmp_path, (40, 50, 60), step=63)
    (run.checkpoints / "step-000060" / "manifest.json").unlink()
    (run.checkpoints / "step-000070.tmp-1").mkdir()
    found = find("auto", tmp_path)
    assert (found.folder, found.checkpoint, found.step) == (run.path, run.checkpoints / "step-000050", 50)
    assert found.message == (
        f"going on from step 50 of {run.path}; newest checkpoint step-000060 is incomplete "
        "(manifest.json is missing or unreadable); steps 51 to 63 run again"
    )
    assert not (run.checkpoints / "step-000070.tmp-1").exists()
    RunFolder.reopen(run.path, step=50)
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["step-000040", "step-000050"]


def test_auto_takes_the_same_configuration_and_seed_only(tmp_path: Path) -> None:
    mine = start(tmp_path, (10,), log_every=5)  # log_every changes no number
    start(tmp_path, (20,), seed=1)
    start(tmp_path, (30,), group_size=8)
    assert find("auto", tmp_path).checkpoint == mine.checkpoints / "step-000010"
    assert find("auto", tmp_path, seed=1).step == 20
    assert find("auto", tmp_path, seed=2).folder is None


def test_auto_passes_over_done_runs_and_runs_without_a_checkpoint(tmp_path: Path) -> None:
    first = start(tmp_path, (10,), status="failed")
    done = start(tmp_path, (100,), status="done")
    empty = start(tmp_path, ())
    found = find("auto", tmp_path)
    assert (found.folder, found.finished) == (first.path, done.path)
    checkpoint.drop_after(first.checkpoints, 0)
    found = find("auto", tmp_path)
    assert (found.folder, found.checkpoint, found.finished) == (None, None, done.path)
    assert found.message == f"resume=auto: {done.path} is done; starting at step 1"
    assert empty.path.name == "3"


def test_auto_in_a_given_folder_begins_again_where_nothing_was_saved(tmp_path: Path) -> None:
    folder = tmp_path / "sweep" / "eps_0.20-s0"
    assert find("auto", tmp_path, folder).folder is None
    run = RunFolder.create(CONFIG, "x", root=tmp_path, name="dapo", config_hash=HASH, seed=0, folder=folder)
    run.status("stopped", step=3)
    message = f"resume=auto: {folder} has no complete checkpoint; starting again at step 1"
    assert find("auto", tmp_path, folder) == ResumePlan(folder, None, message)
    assert "was made by another configuration: group_size is 16 there and 8 here;" in refusal(
        "auto", tmp_path, folder, group_size=8
    )
    run.status("done", step=100)
    assert find("auto", tmp_path, folder).finished == folder


def test_a_path_may_be_a_run_or_a_checkpoint(tmp_path: Path) -> None:
    run = start(tmp_path, (40, 50), step=50)
    assert find(run.path, tmp_path).checkpoint == run.checkpoints / "step-000050"
    older = find(run.checkpoints / "step-000040", tmp_path)
    assert (older.folder, older.step) == (run.path, 40)
    assert older.message == f"going on from step 40 of {run.path}; steps 41 to 50 run again"


def test_a_checkpoint_is_found_from_inside_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(tmp_path, (40,))
    monkeypatch.chdir(run.checkpoints)
    assert find("step-000040", tmp_path).folder == run.path.resolve()


def test_another_configuration_is_refused_key_by_key(tmp_path: Path) -> None:
    run = start(tmp_path, (50,))
    text = refusal(run.path, tmp_path, group_size=8, optimizer={"lr": 2e-6}, log_every=7, seed=3)
    assert text == (
        f"resume   {run.path} was made by another configuration: seed is 0 there and 3 here; group_size is 16 there "
        "and 8 here; optimizer.lr is 1e-06 there and 2e-06 here; say the same or resume=never"
    )
    assert find(run.path, tmp_path, log_every=7).step == 50


def test_a_damaged_checkpoint_is_refused_and_the_older_one_named(tmp_path: Path) -> None:
    run = start(tmp_path, (40, 50))
    older, newer = (run.checkpoints / name for name in ("step-000040", "step-000050"))
    (newer / "optimizer.pt").unlink()
    assert refusal(newer, tmp_path) == (
        f"resume   {newer} is damaged: optimizer.pt is missing; step-000040 is complete: say resume={older}"
    )
    (older / "state.json").unlink()
    assert refusal(newer, tmp_path) == (
        f"resume   {newer} is damaged: optimizer.pt is missing; no older one is complete: say resume=never"
    )
    assert refusal(run.path, tmp_path) == (
        f"resume   {run.path} has no complete checkpoint (step-000050: optimizer.pt is missing); "
        "say resume=never to start anew"
    )


def test_paths_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert refusal(nowhere, tmp_path) == (
        f"resume   there is no folder {nowhere}; give a run folder, one of its checkpoints, or say auto"
    )
    assert refusal(tmp_path, tmp_path) == (
        f"resume   {tmp_path} is no run folder: {tmp_path / 'config.yaml'} is missing; "
        "give a folder such as runs/<name>/<hash>-s0/1"
    )


def test_a_done_run_is_refused(tmp_path: Path) -> None:
    run = start(tmp_path, (100,), status="done", step=100)
    assert refusal(run.path, tmp_path) == (
        f"resume   {run.path} is done (step 100); say resume=never to run the same again elsewhere"
    )


@pytest.mark.parametrize("way", ["auto", "run", "checkpoint"])
def test_a_run_that_another_process_writes_is_refused(tmp_path: Path, way: str) -> None:
    run = start(tmp_path, (50,))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    other = Status("running", step=55, pid=child.pid, host=run.current.host, birth=birth(child.pid))
    write_status(run.path, other)
    resume = {"auto": "auto", "run": run.path, "checkpoint": run.checkpoints / "step-000050"}[way]
    try:
        assert refusal(resume, tmp_path) == (
            f"resume   process {child.pid} is writing to {run.path}; wait for it, stop it, or say resume=never"
        )
    finally:
        child.kill()
        child.communicate()
    assert find(resume, tmp_path).step == 50  # status still says running, but the process was killed


@pytest.mark.parametrize("steps", [(), (50,)], ids=["new run", "going on"])
def test_kill_at_any_moment_of_a_start_leaves_something_to_go_on_from(
    tmp_path: Path,
    dies: Callable[[int, Callable[[], object]], int],
    steps: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grpo.runs.folder.environment", lambda: {"v": 1})  # it asks git, 60 times here

    def begin(root: Path) -> RunFolder:
        found = find("auto", root)
        if found.folder is not None:
            return RunFolder.reopen(found.folder, step=found.step)
        return RunFolder.create(CONFIG, "x", root=root, name="dapo", config_hash=HASH, seed=0)

    code, count = 9, 0
    while code == 9:
        count += 1
        root = tmp_path / str(count)
        if steps:
            run = start(root, steps)
            (run.checkpoints / "step-000060").mkdir()  # damaged
        code = dies(count, lambda root=root: begin(root))
        again = begin(root)
        assert again.current.step == (50 if steps else 0)
        assert find(again.path, root).step == 50 if steps else (again.path / "config.yaml").exists()
    assert code == 0
    assert count > 10


def test_differences_ask_the_hash_which_keys_count() -> None:
    there = {"seed": 0, "kl": {"coef": 0.04, "place": "loss"}, "logger": {"kind": "wandb"}, "flag": 1}
    here = {"seed": 0, "kl": {"coef": 0.0}, "logger": {"kind": "none"}, "flag": True, "new": None}
    assert differences(there, here, config_hash) == [
        "kl.coef is 0.04 there and 0.0 here",
        "flag is 1 there and True here",
        "new is absent there and null here",
        "kl.place is loss there and absent here",
    ]
    assert differences(there, {**there, "logger": {"kind": "none"}, "flag": 1.0}, config_hash) == []
