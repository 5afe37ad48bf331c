"""The README: its tables are those of the code, and its commands are accepted."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from experiments.readme import tables

from grpo.config.check import load

REPOSITORY = Path(__file__).resolve().parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_generated_tables_are_up_to_date() -> None:
    assert tables.rendered(README) == README, "run make tables"


def commands() -> list[str]:
    """Every `python -m grpo …` line of the README that names one configuration."""
    return [line for line in _lines("") if "--" not in line and " -m" not in f" {line}"]


def _lines(program: str) -> list[str]:
    """What follows `python -m grpo<program>` on the README's lines."""
    pattern = rf"^    (?:\.venv/bin/)?python -m grpo{re.escape(program)}(?![.\w])(.*?)(?: {{2,}}#.*)?$"
    return re.findall(pattern, README, flags=re.MULTILINE)


@pytest.mark.parametrize("line", [line for line in _lines(".sweep") if "--list" not in line])
def test_every_sweep_of_the_readme_is_planned(
    line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from grpo.sweep.__main__ import main

    (question,) = [block for block in re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL) if "baseline:" in block]
    (tmp_path / "mine.yaml").write_text(question)
    monkeypatch.chdir(tmp_path)
    assert main([*shlex.split(line), *([] if "--plan" in line else ["--plan"])]) == 0, capsys.readouterr().err
    assert re.search(r"folder +runs/sweeps/\w+-[0-9a-f]{8}\n", capsys.readouterr().out)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


def test_the_sweep_folder_of_the_readme_is_the_real_one(capsys: pytest.CaptureFixture[str]) -> None:
    from grpo.sweep.__main__ import main

    assert main(["clip_high", "--plan"]) == 0
    (folder,) = re.findall(r"runs/sweeps/clip_high-\w+", capsys.readouterr().out)
    assert set(re.findall(r"runs/sweeps/clip_high-\w+", README)) == {folder}


@pytest.mark.parametrize("line", commands())
def test_every_command_is_accepted(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my_rewards.py").write_text("def short(completions, answer, limit=20, **columns):\n    return [0.0]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("grpo.rollout.vllm_version.installed", lambda: "0.32.0")  # also where it is not
    config, _ = load(shlex.split(line))
    assert config.group_size >= 2


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z0-9]+)\b", README)):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_files_named_in_the_readme_exist() -> None:
    for path in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in path:
            assert (REPOSITORY / path).exists(), path


def test_a_task_and_rewards_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The section "Add your own", word for word."""
    from grpo.config.compose import Composer
    from grpo.training.run import run
    from tests import helpers

    section = README.split("## Add your own", 1)[1]
    python = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    yaml = re.findall(r"```yaml\n(.*?)```", section, flags=re.DOTALL)
    files = {"my_rewards.py": python[0], "my_task.py": python[1]}
    files |= {"my_conf/reward/mine.yaml": yaml[0], "my_conf/task/doubles.yaml": yaml[1]}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("my_rewards", "my_task"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    small = [word for word in helpers.SMALL if not word.startswith("reward")]
    words = [*small, "task=doubles", "reward=mine", "max_steps=1", f"output_dir={tmp_path / 'runs'}"]
    config, resolved = load(words, Composer(tmp_path / "my_conf"))
    assert run(config, resolved) == 0
    metrics = helpers.lines(helpers.newest(tmp_path / "runs") / "metrics.jsonl")
    assert {"rewards/right/mean", "rewards/short/mean"} <= metrics[1].keys()
