"""Two ranks make the very same run as one process: every number but the clock's to 1e-9, in float64."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from grpo.ranks import launch
from grpo.ranks.ranks import ALONE
from tests import helpers
from tests.ranks import cases

REPOSITORY = Path(__file__).resolve().parents[2]
TIME = ("time/", "speed/", "memory/")


def assert_close(one: Any, other: Any, where: str = "") -> None:
    """Equal, numbers to 1e-9; what the machine's speed and memory decide is left out."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            if not str(key).startswith(TIME):
                assert_close(one[key], other[key], f"{where} {key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for i, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_close(a, b, f"{where} {i}")
    elif isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9, msg=lambda text: f"{where}: {text}")
    elif isinstance(one, float) and not (math.isnan(one) and math.isnan(other)):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9), where
    elif not isinstance(one, float):
        assert one == other, where


def alone(folder: Path, name: str, *more: str) -> Path:
    """The run of one process, in this one."""
    code, run = helpers.run(folder / name, *cases.WHOLE, *cases.RUNS[name], *more)
    assert code in (0, 143)
    return run


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """The folder in which two ranks ran everything, and what each of them found."""
    folder = tmp_path_factory.mktemp("pair")
    with pytest.MonkeyPatch.context() as patch:  # begun by one process, to be finished by two
        patch.setenv("STOP_AT", "4")
        assert (alone(folder / "stopped", "grpo") / "checkpoints" / "step-000001").exists()
    (folder / "stopped" / "grpo").rename(folder / "begun")
    (folder / "stopped").rmdir()
    (folder / "begun").rename(folder / "stopped")
    port = launch._free_port()
    command = [sys.executable, "-m", "tests.ranks.worker", str(folder)]
    processes = [
        subprocess.Popen(command, cwd=REPOSITORY, env=launch.environment(rank, 2, port), stdout=subprocess.DEVNULL)
        for rank in (0, 1)
    ]
    try:
        codes = [process.wait(timeout=900) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert codes == [0, 0]
    return folder, [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in (0, 1)]


@pytest.mark.parametrize("name", cases.CASES)
def test_two_ranks_find_what_one_finds(name: str, pair: Any) -> None:
    one = cases.CASES[name](ALONE)
    for found in pair[1]:
        two = dict(found[name])
        one.pop("micro-batches", None)
        two.pop("micro-batches", None)
        assert_close(one, two, name)


def test_the_cases_by_hand_are_uneven(pair: Any) -> None:
    """What the comparison above went through without a hang."""

    def both(name: str, key: str) -> list[Any]:
        return [found[name][key] for found in pair[1]]

    assert both("unequal", "micro-batches") == [2, 1]  # see there
    assert both("one rank has nothing", "micro-batches") == [1, 0]
    assert both("one rank has nothing", "outcomes") == [["updated"], ["updated"]]
    assert both("one rank has nothing", "optimizer calls") == [1, 1]
    assert both("nobody has anything", "outcomes") == [["empty"], ["empty"]]
    assert both("nobody has anything", "optimizer calls") == [0, 0]
    assert [found["uninformative"]["metrics"]["updates/total"] for found in pair[1]] == [0, 0]
    assert both("unreached", "unused")[1].tolist() == [1.0, 1.0, 1.0]


def test_ranks_agree_to_the_last_bit(pair: Any) -> None:
    for name in (*cases.PARTS, *cases.HANDS):
        one, other = (found[name] for found in pair[1])
        assert torch.equal(one["weights"], other["weights"])
        assert torch.equal(one["gradient"], other["gradient"])


@pytest.mark.parametrize("name", cases.RUNS)
def test_whole_runs_are_the_same(name: str, pair: Any, tmp_path: Path) -> None:
    folder, found = pair
    assert [rank[f"run {name}"] for rank in found] == [0, 0]
    assert_same_run(alone(tmp_path, name), helpers.newest(folder / name))


def test_two_ranks_finish_what_one_began(pair: Any, tmp_path: Path) -> None:
    folder, found = pair
    assert [rank["run resumed"] for rank in found] == [0, 0]
    resumed = helpers.newest(folder / "stopped")
    assert resumed.name == "1"  # the folder that it was begun in: devices are no part of the hash
    assert_same_run(alone(tmp_path, "grpo"), resumed)


def assert_same_run(one: Path, two: Path) -> None:
    """Every line of the records, and the weights; the files are the same ones, but for earlier checkpoints."""
    mine, theirs = ({str(path.relative_to(run)) for path in run.rglob("*")} for run in (one, two))
    assert not mine - theirs
    assert not {name for name in theirs - mine if not name.startswith("checkpoints/step-000001")}
    for name in ("metrics", "samples", "evaluations"):
        assert_close(*(helpers.lines(run / f"{name}.jsonl") for run in (one, two)), name)
    last = max((one / "checkpoints").iterdir()).name
    for name in ("trainable.safetensors", "extra.safetensors"):
        if (one / "checkpoints" / last / name).exists():
            assert_close(*(load_file(run / "checkpoints" / last / name) for run in (one, two)), name)
    assert_close(*(load_file(run / "policy" / "model.safetensors") for run in (one, two)), "policy")


def test_what_ranks_say_to_each_other(pair: Any) -> None:
    first, second = (found["spoken"] for found in pair[1])
    assert (first["all"], second["all"]) == ([0, 10], [0, 10])
    assert (first["each"], second["each"]) == (0, 10)
    assert (first["once"], second["once"]) == (7, 7)
    for name in ("all", "each"):
        # Rank 0 tells a user's mistake, whoever met it; the other only ends.
        for at in (0, 1):
            assert first[f"user {at} {name}"] == ("UserError", f"key   rank {at} says no")
            assert second[f"user {at} {name}"] == ("Elsewhere", f"rank {at}: key   rank {at} says no")
        # A traceback belongs to the rank that has it.
        assert first[f"broken 1 {name}"] == ("RankFailed", "rank 1: ValueError('odd')")
        assert second[f"broken 1 {name}"] == ("ValueError", "odd")
    assert [t.tolist() for t in first["sum"]] == [[[3.0] * 3] * 2, [0.0, 2.0, 4.0, 6.0], 2.0]


if os.name == "nt":
    pytest.skip("ranks need fork and gloo", allow_module_level=True)
