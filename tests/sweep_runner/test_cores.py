"""How cores and GPUs are divided."""

from __future__ import annotations

import pytest

from grpo.sweep import cores


@pytest.mark.parametrize(("jobs", "threads"), [(1, 8), (2, 4), (3, 2), (8, 1), (20, 1)])
def test_cores_are_divided(jobs: int, threads: int) -> None:
    shares = cores.shares(jobs, cores=8, devices=[], environment={})
    assert shares == [{"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}] * jobs  # ⌊8 / jobs⌋, ≥ 1


@pytest.mark.parametrize(("given", "threads"), [("1", "1"), ("9", "4"), ("", "4"), ("0", "4"), ("many", "4")])
def test_a_given_number_of_threads_is_an_upper_limit(given: str, threads: str) -> None:
    (first, *_) = cores.shares(2, cores=8, devices=[], environment={"OMP_NUM_THREADS": given})
    assert first["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize(
    ("jobs", "visible"), [(1, ["4,5,7"]), (2, ["4,7", "5"]), (3, ["4", "5", "7"]), (5, ["4", "5", "7", "4", "5"])]
)
def test_gpus_go_round(jobs: int, visible: list[str]) -> None:
    shares = cores.shares(jobs, cores=8, devices=["4", "5", "7"], environment={})
    assert [share["CUDA_VISIBLE_DEVICES"] for share in shares] == visible


def test_visible_devices_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "machine_gpus", lambda: (("0", "H200"), ("1", "H200")))
    assert cores.gpus({}) == ["0", "1"]
    assert cores.gpus({"CUDA_VISIBLE_DEVICES": "GPU-5f, 1"}) == ["GPU-5f", "1"]
    assert cores.gpus({"CUDA_VISIBLE_DEVICES": ""}) == []
    assert cores.gpus({"CUDA_VISIBLE_DEVICES": "1,-1,0"}) == ["1"]  # CUDA reads up to the first impossible one
    assert cores.at_once({}) == 2


def test_affinity_counts_not_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 5, 9}, raising=False)
    assert cores.at_once({"CUDA_VISIBLE_DEVICES": ""}) == 3
