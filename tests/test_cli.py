"""The entry point: flags, exit codes, jobs of a multirun, and that nothing heavy is imported before the check."""

from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from grpo import multirun
from grpo.cli import main
from grpo.config.compose import Composer
from grpo.errors import ConfigError, UserError

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


def jobs_of(outcomes: dict[str, int]) -> tuple[list[list[str]], multirun.Launch]:
    started: list[list[str]] = []

    def launch(job: list[str]) -> multirun.Outcome:
        started.append(job)
        code = next((c for word, c in outcomes.items() if word in job), 0)
        return multirun.Outcome(tuple(job), code, "no reward varies" if code else "")

    return started, launch


def test_all_jobs_run_and_the_failed_ones_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    started, launch = jobs_of({"seed=1": 1, "seed=2": -9})
    assert multirun.run(["algo=dapo", "seed=range(4)"], COMPOSER, launch=launch) == 1
    assert started == [["algo=dapo", f"seed={n}"] for n in range(4)]
    out, err = capsys.readouterr()
    assert "job 4/4  algo=dapo seed=3" in out
    assert err == (
        "\n2 of 4 jobs failed:\n"
        "  algo=dapo seed=1\n      exit 1: no reward varies\n"
        "  algo=dapo seed=2\n      killed by SIGKILL: no reward varies\n"
    )
    assert multirun.run(["seed=1,2"], COMPOSER, launch=jobs_of({})[1]) == 0
    assert capsys.readouterr().out.endswith("all 2 jobs are done\n")


def test_a_job_with_a_mistake_is_not_started_but_the_others_are(capsys: pytest.CaptureFixture[str]) -> None:
    started, launch = jobs_of({})
    assert multirun.run(["group_size=4,1"], COMPOSER, launch=launch) == 1
    assert started == [["group_size=4"]]
    assert capsys.readouterr().err.endswith(
        "1 of 2 jobs failed:\n  group_size=1\n      exit 1: group_size must be at least 2, not 1: "
        "an advantage compares the completions of one prompt\n"
    )
    with pytest.raises(ConfigError):
        multirun.run(["group_size=0,1"], COMPOSER, launch=launch)


def test_an_interrupted_job_ends_the_multirun(capsys: pytest.CaptureFixture[str]) -> None:
    started, launch = jobs_of({"seed=1": 130})
    assert multirun.run(["seed=range(4)"], COMPOSER, launch=launch) == 130
    assert len(started) == 2
    assert "stopped; 2 jobs were not started" in capsys.readouterr().err


def test_a_job_is_a_process_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    outcome = multirun.start_process(["grup_size=3"])
    assert (outcome.code, outcome.why) == (1, "grup_size   there is no such key; did you mean group_size?")
    assert outcome.why in capfd.readouterr().err  # passed through as well
