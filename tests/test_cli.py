"""The entry point: flags, exit codes, jobs of a multirun, and that nothing heavy is imported before the check."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grpo import multirun
from grpo.cli import main
from grpo.config.compose import Composer
from grpo.errors import ConfigError, UserError
from grpo.sweep.manifest import Job
from grpo.sweep.outcomes import Outcome

COMPOSER = Composer()
PROBE = """
import sys
from grpo.cli import main
code = main(sys.argv[1:])
heavy = [name for name in ("torch", "lightning", "transformers", "wandb", "matplotlib") if name in sys.modules]
print("code", code, "heavy", heavy)
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The training side, replaced by a list of what it was given."""
    given: list[Any] = []
    module = types.ModuleType("grpo.training.run")
    module.run = lambda *arguments: given.append(arguments) or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "grpo.training.run", module)
    monkeypatch.chdir(tmp_path)
    return given


@pytest.mark.parametrize("argument", ["--help", "grup_size=3"])
def test_nothing_heavy_before_the_check(argument: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROBE, argument], capture_output=True, text=True, cwd=tmp_path)
    code = 0 if argument == "--help" else 1
    assert done.stdout.splitlines()[-1] == f"code {code} heavy []", done.stderr
    assert list(tmp_path.iterdir()) == []  # no outputs/, no multirun/, no run folder


def test_a_configuration_reaches_the_run(runs: list[Any]) -> None:
    assert main(["algo=dapo", "group_size=16", "seed=3"]) == 0
    config, resolved, flags = runs[0]
    assert (config.name, config.group_size, config.seed, flags) == ("dapo", 16, 3, [])
    assert resolved["overrides"] == ["algo=dapo", "group_size=16", "seed=3"]
    assert resolved["choices"]["surrogate"] == "clip_higher"


def test_a_folder_of_ones_own_belongs_to_the_command_that_repeats_the_run(runs: list[Any], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert main(["seed=3", "--config-dir", "mine"]) == 0
    assert runs[0][2] == ["--config-dir", "mine"]


def test_a_mistake_is_a_sentence(runs: list[Any], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["grup_size=3"]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", "grup_size   there is no such key; did you mean group_size?\n")
    assert runs == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            UserError("reward.functions.exact   returned 3 scores for 8 completions"),
            1,
            "reward.functions.exact   returned",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(), 1, "output   its reader went away"),
    ],
)
def test_how_a_run_may_end(
    runs: list[Any], capsys: pytest.CaptureFixture[str], error: BaseException, code: int, text: str
) -> None:
    def fail(*_: Any) -> int:
        raise error

    sys.modules["grpo.training.run"].run = fail  # type: ignore[attr-defined]
    assert main([]) == code
    assert capsys.readouterr().err.startswith(text)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--group_size=16"], "--group_size   there is no such option; keys are written without dashes: group_size=16"),
        (["--hepl"], "--hepl   there is no such option; did you mean --help?"),
        (["--dry-run"], "--dry-run   there is no such option; --cfg job checks and shows the configuration"),
        (["-m", "--cfg", "job"], "--cfg   shows one configuration; drop -m, and give one value per key"),
        (["--jobs", "2"], "--jobs   is for a sweep of many jobs; add -m"),
        (["--resolve"], "--resolve   goes with --cfg job"),
        (["--cfg", "job", "-p", "nope"], "--package nope   there is no such node; try objective, or a group's name"),
        (["-m", "grup_size=1,2"], "grup_size   there is no such key; did you mean group_size?"),
        (["-m", "seed=[1,"], "seed=[1,   cannot be read"),
    ],
)
def test_flags_that_are_mistakes(
    runs: list[Any], capsys: pytest.CaptureFixture[str], argv: list[str], sentence: str
) -> None:
    assert main(argv) == 1
    assert capsys.readouterr().err.startswith(sentence)
    assert runs == []


def test_version_and_help(runs: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "grpo 0.1.0\n"
    assert main(["-h"]) == 0
    text = capsys.readouterr().out
    for line in (
        "+algo=dapo group_size=16",
        "surrogate     clip*",
        "updates.minibatches=1",
        "Completions per prompt, ≥ 2.",
    ):
        assert line in text
    assert max(map(len, text.splitlines())) <= 170
    assert runs == []


def test_cfg_shows_the_configuration(runs: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--cfg", "job", "algo=dapo", "-p", "surrogate"]) == 0
    assert "high: 0.28" in capsys.readouterr().out
    assert main(["--cfg", "job", "--resolve"]) == 0
    text = capsys.readouterr().out
    assert "prompts_per_step: 16" in text
    assert "${" not in text
    assert "hydra:" not in text
    assert main(["--cfg", "job", "-p", "objective"]) == 0
    assert capsys.readouterr().out.count("_target_: grpo.algorithm.") == 12
    assert main(["--cfg", "job", "group_size=1"]) == 1  # shown, and then judged
    shown = capsys.readouterr()
    assert "group_size: 1" in shown.out
    assert shown.err.startswith("group_size   must be at least 2")
    assert runs == []


def test_a_users_own_folder(runs: list[Any], tmp_path: Path) -> None:
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "small.yaml").write_text("# @package _global_\ngroup_size: 4\n")
    assert main(["--config-dir", "mine", "experiment=small"]) == 0
    assert runs[0][0].group_size == 4


class Runner:
    """Stands for grpo.sweep.runner.run: what it was given, and ends as told."""

    def __init__(self, states: dict[str, str] | None = None) -> None:
        self.states, self.jobs, self.options = states or {}, [], {}

    def __call__(self, jobs: Sequence[Job], sweep: Path, **options: Any) -> list[Outcome]:
        self.jobs, self.options = list(jobs), options
        states = [self.states.get(job.folder, "done") for job in jobs]
        return [
            Outcome(job, state, None, "" if state == "done" else "no reward varies", sweep / "log")  # type: ignore[arg-type]
            for job, state in zip(jobs, states, strict=True)
        ]


def test_a_grid_is_a_sweep_and_its_failed_jobs_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = Runner({"algo=dapo/seed=1": "failed"})
    assert multirun.run(["+algo=grpo,dapo", "seed=range(2)"], COMPOSER, runner=runner) == 1
    # Whole blocks first, so that an unfinished sweep has pairs.
    order = ["algo=grpo/seed=0", "algo=dapo/seed=0", "algo=grpo/seed=1", "algo=dapo/seed=1"]
    assert [job.folder for job in runner.jobs] == order
    assert runner.jobs[1].overrides == ("+algo=dapo", "seed=0")
    out, err = capsys.readouterr()
    (folder,) = (tmp_path / "runs" / "sweeps").iterdir()
    assert out.endswith(f"report   python -m grpo.report runs/sweeps/{folder.name}\n")
    assert "of 4 jobs 1 failed:\n  algo=dapo/seed=1   no reward varies" in err
    assert multirun.run(["+algo=grpo,dapo", "seed=range(2)"], COMPOSER, runner=Runner()) == 0
    assert len(list((tmp_path / "runs" / "sweeps").iterdir())) == 1  # the same command, the same folder


def test_a_job_with_a_mistake_is_not_started_but_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = Runner()
    assert multirun.run(["group_size=4,1"], COMPOSER, runner=runner, jobs="3") == 1
    assert [job.folder for job in runner.jobs] == ["group_size=4/seed=0"]
    assert runner.options["at_once"] == 3
    assert capsys.readouterr().err.endswith(
        "not started: group_size=1   group_size must be at least 2, not 1: "
        "an advantage compares the completions of one prompt\n"
    )
    with pytest.raises(ConfigError):
        multirun.run(["group_size=0,1"], COMPOSER, runner=runner)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["seed=0,1", "resume=never"], "resume   never: a sweep goes on by itself where it was"),
        (["seed=0,1", "run_dir=here"], "run_dir   is set by the sweep"),
        (["seed=0,1.5"], "seed   must be a whole number from 0 to 2³¹ − 1, not 1.5"),
        (["seed=0,1", "hydra/launcher=joblib"], "hydra/launcher   there is no launcher joblib (all: fork, "),
        (["seed=0,1", "hydra.run.dir=x"], "hydra.run.dir   has no effect here"),
    ],
)
def test_what_a_multirun_refuses(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", *words]) == 1
    assert capsys.readouterr().err.startswith(sentence)


def test_launcher_and_resources_reach_the_runner(tmp_path: Path) -> None:
    runner = Runner()
    words = ["seed=0", "hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=60", "hydra.launcher.partition=gpu"]
    assert multirun.run(words, COMPOSER, ["--config-dir", "mine"], runner=runner, folder=tmp_path / "here") == 0
    assert runner.options == {
        "endpoint": "test/avg@8",
        "held": True,
        "at_once": None,
        "launcher": "submitit_slurm",
        "resources": {"timeout_min": 60, "partition": "gpu"},
        "flags": ("--config-dir", "mine"),
    }
    assert (tmp_path / "here" / "sweep.json").is_file()
