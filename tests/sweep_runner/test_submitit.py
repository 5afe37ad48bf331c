"""submitit: the local executor for real, a cluster's resources, and what is said where the extra is missing."""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grpo.errors import UserError
from grpo.sweep import runner, slurm
from grpo.sweep.launch import Start
from tests.sweep_runner.real import job

pytest.importorskip("submitit")


def test_two_jobs_by_the_local_executor(tmp_path: Path) -> None:
    """It would start both at once; with one at a time the second waits for the first. The second one is refused."""
    jobs = [job("fine"), job("broken", 0, "reward.functions.own._target_=tests.helpers.short_of_one")]
    more = {"resources": {"timeout_min": 10}, "say": lambda text: None, "live": False}
    outcomes = runner.run(jobs, tmp_path, at_once=1, launcher="submitit_local", **more)
    assert [(outcome.state, outcome.code) for outcome in outcomes] == [("done", 0), ("failed", 1)]
    assert outcomes[1].why.startswith("reward.functions.own ")
    assert "\nstep 3/3 " in outcomes[0].log.read_text(encoding="utf-8")
    starts = [json.loads((tmp_path / each.folder / "status.json").read_text()) for each in jobs]
    assert starts[1]["started"] >= starts[0]["updated"]


def settings(cluster: str, tmp_path: Path, **resources: object) -> dict:
    return slurm._settings(cluster, tmp_path / "clip_high-1", resources)


def test_resources_are_typed_by_the_launchers_own_classes(tmp_path: Path) -> None:
    made = settings("slurm", tmp_path, timeout_min="90", partition="gpu", additional_parameters={"mail-type": "END"})
    assert (made["timeout_min"], made["partition"], made["name"]) == (90, "gpu", "clip_high-1")
    assert made["additional_parameters"] == {"mail-type": "END"}
    assert made["submitit_folder"] == f"{tmp_path}/clip_high-1/logs/.submitit/%j"
    assert made["array_parallelism"] == 256
    assert "partition" not in settings("local", tmp_path)


@pytest.mark.parametrize(
    ("cluster", "resources", "text"),
    [
        ("slurm", {"partitoin": "gpu"}, "hydra.launcher.partitoin   submitit_slurm has no such setting; did you mean"),
        ("local", {"partition": "gpu"}, "hydra.launcher.partition   submitit_local has no such setting"),
        ("slurm", {"timeout_min": "long"}, "hydra.launcher.timeout_min   Value 'long'"),
    ],
)
def test_mistakes_are_sentences(tmp_path: Path, cluster: str, resources: dict, text: str) -> None:
    with pytest.raises(UserError) as error:
        settings(cluster, tmp_path, **resources)
    assert str(error.value).startswith(text)
    assert "\n" not in str(error.value)


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hydra_plugins.hydra_submitit_launcher", None)
    with pytest.raises(UserError) as error:
        runner.run([job("a")], tmp_path, launcher="submitit_slurm")
    expected = "hydra/launcher   submitit_slurm is not installed with grpo-lab; pip install 'grpo-lab[slurm]'"
    assert str(error.value) == expected


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The programs of a cluster that takes every job and runs none; what they were called with is in `calls`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    answers = {"sbatch": "echo Submitted batch job 7", "sacct": "exit 0", "scancel": "exit 0", "srun": "exit 0"}
    for name, answer in answers.items():
        program = folder / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/calls\n{answer}\n')
        program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


def test_a_cluster_gets_one_array(cluster: Path) -> None:
    made = slurm.Submitted("slurm", cluster / "sweep", {"partition": "gpu", "cpus_per_task": 4}, at_once=3)
    assert made.queue == 3
    logs = [cluster / f"{seed}.log" for seed in range(5)]
    jobs = made.start([Start(("seed=0",), log, {"CUDA_VISIBLE_DEVICES": "1"}) for log in logs])
    assert [each.id for each in jobs] == [f"7_{number}" for number in range(5)]
    assert [each.poll() for each in jobs] == [None] * 5
    (batch,) = [line for line in (cluster / "calls").read_text().splitlines() if line.startswith("sbatch")]
    script = Path(batch.split()[1]).read_text()
    assert "#SBATCH --array=0-4%3" in script
    assert "#SBATCH --partition=gpu" in script
    with next((cluster / "sweep/logs/.submitit").glob("7_0/*submitted.pkl")).open("rb") as file:
        command = pickle.load(file).function
    assert command.words[1:] == ("-m", "grpo", "seed=0")
    assert command.environment == {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}  # the cluster deals out GPUs
    jobs[0].stop()
    calls = (cluster / "calls").read_text().splitlines()
    assert calls[-2:] == ["scancel --signal=TERM 7_0", "scancel --state=PENDING 7_0"]
    again = made.adopt("7_3")
    assert again is not None
    assert again.id == "7_3"


def test_sigterm_reaches_the_job_through_submitit(tmp_path: Path) -> None:
    """submitit itself passes SIGTERM over. The child says that it lives, and ends with 7 when it is asked to."""
    child = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print(1, flush=True)"
    words = (sys.executable, "-c", f"{child}; time.sleep(60)")
    program = f"from grpo.sweep.slurm import Command; import sys; sys.exit(Command({words!r}, 'log', '.')())"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path)
    end = time.monotonic() + 30
    while not (tmp_path / "log").exists() or not (tmp_path / "log").read_text():
        assert time.monotonic() < end
        time.sleep(0.02)
    process.terminate()
    assert process.wait(timeout=30) == 7
