"""submitit: the local executor for real, a cluster's resources, and what is said where the extra is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from grpo.errors import UserError
from grpo.sweep import runner, slurm
from grpo.sweep.launch import Start
from tests.sweep_runner.real import job

pytest.importorskip("submitit")


def test_two_jobs_by_the_local_executor(tmp_path: Path) -> None:
    """It would start both at once; with one at a time the second waits for the first."""
    jobs = [job("a", 0), job("a", 1, "grup_size=3") if False else job("a", 1)]
    outcomes = runner.run(
        jobs, tmp_path, at_once=1, launcher="submitit_local", resources={"timeout_min": 10}, say=print, live=False
    )
    assert [outcome.state for outcome in outcomes] == ["done", "done"]
    assert (tmp_path / "a/seed=1/metrics.jsonl").exists()
    assert "\nstep 3/3 " in outcomes[1].log.read_text(encoding="utf-8")
    began = [(tmp_path / f"a/seed={seed}/config.yaml").stat().st_mtime for seed in range(2)]
    assert began[1] > (tmp_path / "a/seed=0/status.json").stat().st_mtime
