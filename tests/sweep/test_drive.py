"""A sweep from its question to its last words, with a runner that writes the results it is told to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grpo.config.compose import Composer
from grpo.errors import ConfigError, UserError
from grpo.runs.status import Status, write_status
from grpo.sweep import manifest as manifests
from grpo.sweep.__main__ import main
from grpo.sweep.arms import Planner
from grpo.sweep.drive import Drive, refuse_same
from grpo.sweep.manifest import Job
from grpo.sweep.outcomes import Outcome
from grpo.sweep.plan import Planned, duration, planned, table, tokens
from grpo.sweep.question import check
from grpo.sweep.runner import Stopped
from grpo.sweep.tune import Tuned, tuned

COMPOSER = Composer()
QUESTION: dict[str, Any] = {
    "claim": {"text": "higher is better", "source": "a paper"},
    "common": ["updates.minibatches=4"],
    "arms": {"low": [], "high": ["surrogate.high=0.3"]},
    "baseline": "low",
    "endpoint": "test/avg@8",
    "at": {"generated_tokens": 1000},
    "margin": 0.03,
    "tune": {"grid": {"optimizer.lr": [0.0001, 0.0002, 0.0004]}, "seeds": [100, 101], "budget": 0.5},
    "seeds": [0, 1],
}


def made(folder: Path, **change: Any) -> Planned:
    planner = Planner(check({**QUESTION, **change}), COMPOSER)
    return planned("mine", "question", planner.question, planner, planner.check(), folder)


def write_run(folder: Path, rows: Sequence[dict[str, Any]], status: str = "done", kind: str | None = None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"v": 1, **row}) + "\n" for row in rows))
    write_status(folder, Status(status, 1, kind=kind))  # type: ignore[arg-type]


class Runner:
    """Writes a run for every job: validation from the learning rate, test from arm and seed."""

    def __init__(self, validation: Callable[[Job], float | None]) -> None:
        self.validation, self.waves, self.stop_at = validation, [], 0

    def __call__(self, jobs: Sequence[Job], sweep: Path, **options: Any) -> list[Outcome]:
        self.waves.append([job.folder for job in jobs])
        if self.stop_at == len(self.waves):
            raise Stopped([Outcome(job, "waiting", None, "", sweep / "log") for job in jobs], "SIGTERM")
        outcomes = []
        for job in jobs:
            score = self.validation(job)
            if score is not None:
                row = {"step": 1, "validation/avg@4": score, "tokens/generated": 500, "time/elapsed": 2.0}
                row |= {"test/avg@8": 0.5 + 0.01 * (job.seed % 3)} if job.phase == "final" else {}
                write_run(sweep / job.folder, [row])
            outcomes.append(Outcome(job, "failed" if score is None else "done", 1, "", sweep / "log"))
        return outcomes


def by_rate(job: Job) -> float:
    """0.0002 is the best rate of low, 0.0004 that of high."""
    return {"low": {0.0001: 0.4, 0.0002: 0.6, 0.0004: 0.5}, "high": {0.0001: 0.1, 0.0002: 0.2, 0.0004: 0.3}}[job.arm][
        job.point["optimizer.lr"]
    ]


def test_tuning_then_the_chosen_points_in_whole_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, runner = made(tmp_path), Runner(by_rate)
    assert Drive(plan, ("python", "-m", "grpo.sweep", "mine"), runner=runner).run() == 0
    assert len(runner.waves[0]) == 12  # 2 arms × 3 points × 2 seeds
    assert runner.waves[1] == ["low/seed=0", "high/seed=0", "low/seed=1", "high/seed=1"]
    manifest = manifests.read(tmp_path)
    assert manifest is not None
    assert [arm.chosen for arm in manifest.arms] == [{"optimizer.lr": 0.0002}, {"optimizer.lr": 0.0004}]
    assert all("optimizer.lr=0.0004" in job.overrides for job in manifest.final() if job.arm == "high")
    assert (manifest.expected, len(manifest.jobs), manifest.kind) == (16, 16, "question")
    assert manifest.command == ("python", "-m", "grpo.sweep", "mine")
    assert manifest.question["margin"] == 0.03
    out = capsys.readouterr().out
    assert "low    optimizer.lr=0.0002 (0.0001: 0.400, 0.0002: 0.600, 0.0004: 0.500)\n" in out
    assert "0.0004: 0.300); optimizer.lr at the edge of the grid, widen it" in out
    assert out.endswith(f"report   python -m grpo.report {tmp_path}\n")


def test_an_arm_whose_tuning_is_incomplete_waits_and_the_others_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = Runner(lambda job: None if job.folder == "high/tune/lr=0.0001/seed=101" else by_rate(job))
    assert Drive(made(tmp_path), ("x",), runner=runner).run() == 1
    assert runner.waves[1] == ["low/seed=0", "low/seed=1"]
    manifest = manifests.read(tmp_path)
    assert manifest is not None
    assert manifest.arms[1].chosen is None
    assert (manifest.expected, len(manifest.final())) == (16, 2)
    text = "high   not tuned: 1 of its tuning runs have no result (high/tune/lr=0.0001/seed=101); its final runs wait"
    assert text in capsys.readouterr().out


def test_a_stopped_sweep_says_how_to_go_on_and_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runner = Runner(by_rate)
    runner.stop_at = 2
    assert Drive(made(tmp_path), ("python", "-m", "grpo.sweep", "my file"), runner=runner).run() == 143
    assert "stopped; the same command goes on:   python -m grpo.sweep 'my file'\n" in capsys.readouterr().out
    assert Drive(made(tmp_path), ("x",), runner=Runner(by_rate)).run() == 0


def test_more_seeds_go_on_in_the_same_folder_and_are_declared(tmp_path: Path) -> None:
    def declared(**change: Any) -> list[list[int]]:
        assert Drive(made(tmp_path, **change), ("x",), runner=Runner(by_rate)).run() == 0
        manifest = manifests.read(tmp_path)
        assert manifest is not None
        assert len(manifest.final()) == 2 * len(manifest.declared[-1]["seeds"])
        return [entry["seeds"] for entry in manifest.declared]

    assert declared() == [[0, 1]]
    assert declared() == [[0, 1]]  # the same command again
    assert declared(seeds=[0, 1, 2]) == [[0, 1], [0, 1, 2]]
    with pytest.raises(UserError, match=r"--folder   .* holds another sweep"):
        declared(margin=0.1)


def test_automatic_seeds_run_as_many_blocks_as_the_spread_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grpo.report.stein

    asked: dict[str, Any] = {}
    monkeypatch.setattr(grpo.report.stein, "stein", lambda d, margin: asked.update(d, margin=margin) or 12)
    runner = Runner(lambda job: 0.5)
    assert Drive(made(tmp_path, tune=None, seeds="auto"), ("x",), runner=runner).run() == 0
    assert [len(wave) for wave in runner.waves] == [20, 4]
    assert runner.waves[1] == ["low/seed=10", "high/seed=10", "low/seed=11", "high/seed=11"]
    assert asked == {"high": [0.0] * 10, "margin": 0.03}  # both arms score 0.5 + seed % 3 in the stub
    manifest = manifests.read(tmp_path)
    assert manifest is not None
    assert manifest.question["seeds"] == "auto"
    assert [len(entry["seeds"]) for entry in manifest.declared] == [10, 12]
    again = Runner(lambda job: 0.5)
    assert Drive(made(tmp_path, tune=None, seeds="auto"), ("x",), runner=again).run() == 0
    assert [len(wave) for wave in again.waves] == [24]


def test_the_choice_of_a_point(tmp_path: Path) -> None:
    def job(rate: float, seed: int) -> Job:
        return Job("a", "tune", seed, f"a/lr={rate}/{seed}", (), "", {"lr": rate})

    jobs = [job(rate, seed) for rate in (1.0, 2.0, 3.0) for seed in (100, 101)]
    name = "validation/avg@4"
    # Means: 1.0 → (0.2 + 0.4)/2 = 0.3;  2.0 → (0.5 + 0.1)/2 = 0.3;  3.0 → (0.1 + 0.1)/2 = 0.1. The first of equals.
    for spec, score in zip(jobs, (0.2, 0.4, 0.5, 0.1, 0.1, 0.1), strict=True):
        write_run(tmp_path / spec.folder, [{"step": 0, name: 0.9, "validation/avg@8": 1.0}, {"step": 9, name: score}])
    found = tuned("a", jobs, tmp_path, name)
    assert found.chosen == {"lr": 1.0}
    assert [mean for _, mean in found.means] == pytest.approx([0.3, 0.3, 0.1])
    assert found.edges == ["lr"]
    # A diverged run counts with its last score, whatever it did; a failed one does not count at all.
    write_run(tmp_path / jobs[0].folder, [{"step": 3, name: 0.0}, {"step": 4, name: None}], "failed", "diverged")
    assert tuned("a", jobs, tmp_path, name).chosen == {"lr": 2.0}
    assert tuned("a", jobs, tmp_path, name).edges == []
    write_run(tmp_path / jobs[3].folder, [{"step": 3, name: 0.9}], "failed")
    found = tuned("a", jobs, tmp_path, name)
    assert (found.chosen, found.missing) == (None, ("a/lr=2.0/101",))
    assert Tuned("a").chosen is None


def test_the_plan_says_what_will_run(tmp_path: Path) -> None:
    plan = made(tmp_path)
    text = table(plan, 2)
    assert text.startswith("mine · higher is better  (a paper)\n")
    assert "high   surrogate.high=0.3\n" in text
    assert "endpoint  test/avg@8 at 1,000 generated tokens, margin 0.03" in text
    runs = (
        "12 tuning = 2 arms × 3 points (optimizer.lr 0.0001, 0.0002, 0.0004) × 2 seeds at 0.5 of the budget, then 4 = "
    )
    assert runs + "2 arms × 2 seeds" in text
    # 12 · 500 + 4 · 1000 tokens.
    assert tokens(plan) == (10000, False)
    assert "about 2 s at 4,000 tokens/s per core, 1 at a time" in table(plan, 1)
    write_run(tmp_path / "low/seed=0", [{"step": 1, "tokens/generated": 1000, "time/elapsed": 10.0}])
    # 100 tokens/s measured: 10,000 tokens by two at a time take 50 s.
    assert "about 50 s, 2 at a time, by 1 finished run" in table(plan, 2)
    steps = made(tmp_path / "other", at=None, tune=None, common=["max_steps=10", "updates.minibatches=4"])
    # 4 runs × 10 steps × 128 completions × at most 32 tokens.
    assert tokens(steps) == (163840, True)
    other = made(tmp_path / "third", common=["model=hf", f"model.path={tmp_path}"], tune=None)
    assert "unknown until the first run ends" in table(other, 2)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (600, "10 min"), (5400, "1 h 30 min"), (7500, "2 h 05 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_arms_that_are_the_same_are_refused_unless_allowed(tmp_path: Path) -> None:
    plan = made(tmp_path, common=["updates.minibatches=1"])
    with pytest.raises(ConfigError, match=r"arms.high   high is the same algorithm as low .* say allow_same=true"):
        refuse_same(plan)
    allowed = made(tmp_path, common=["updates.minibatches=1"], allow_same=True, tune=None)
    refuse_same(allowed)
    assert Drive(allowed, ("x",), runner=Runner(lambda job: 0.5)).run() == 0
    manifest = manifests.read(tmp_path)
    assert manifest is not None
    assert [arm.same_as for arm in manifest.arms] == [None, "low"]
    assert (manifest.same[0].first, manifest.same[0].second, manifest.same[0].factor) == ("low", "high", 1.0)


FILE = """\
arms: {low: [], high: [surrogate.high=0.3]}
common: [updates.minibatches=4]
baseline: low
endpoint: test/avg@8
at: {generated_tokens: 1000}
seeds: [0]
"""


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(FILE)
    runner = Runner(lambda job: 0.5)
    given: dict[str, Any] = {}

    def run(jobs: Sequence[Job], sweep: Path, **options: Any) -> list[Outcome]:
        given.update(options, sweep=sweep)
        return runner(jobs, sweep)

    monkeypatch.setattr("grpo.sweep.runner.run", run)
    assert main(["mine.yaml", "--plan"]) == 0
    assert "2 = 2 arms × 1 seed" in capsys.readouterr().out
    assert runner.waves == []
    assert not (tmp_path / "runs").exists()  # nothing is written
    assert main(["--jobs", "3", "mine.yaml", "hydra/launcher=submitit_local", "hydra.launcher.timeout_min=5"]) == 0
    assert (given["at_once"], given["launcher"], given["resources"]) == (3, "submitit_local", {"timeout_min": 5})
    first = given["sweep"]
    assert main(["mine.yaml", "seeds=range(2)", "output_dir=runs"]) == 0
    assert given["sweep"] == first
    assert first.parent == Path("runs/sweeps")
    assert main(["mine.yaml", "--folder", "here", "group_size=4"]) == 0
    assert (tmp_path / "here" / "sweep.json").is_file()
    capsys.readouterr()
    for words, sentence in (
        (["mine.yaml", "--jobs", "0"], "--jobs   is how many run at a time"),
        (["mine.yaml", "--launcher", "slurm"], "hydra/launcher   there is no launcher slurm"),
        (["mine.yaml", "surrogate.hihg=3"], "surrogate.hihg   clip has low, high"),
        (["mine.yaml", "updates.minibatches=1"], "arms.high   high is the same algorithm as low"),
        (["seeds=3"], "grpo.sweep   the question comes first, then its words"),
        (["mine.yaml", "--pln"], "grpo.sweep   unrecognized arguments: --pln"),
        ([], "grpo.sweep   which question?"),
    ):
        assert main(words) == 1
        assert capsys.readouterr().err.startswith(sentence)
    assert main(["--list"]) == 0
    assert "  clip_high " in capsys.readouterr().out


def test_a_second_start_beside_a_running_sweep_changes_nothing(tmp_path: Path) -> None:
    """sweep.json belongs to whoever runs the jobs: other seeds would replace its jobs and its history."""
    from grpo.sweep.board import locked

    assert Drive(made(tmp_path), ("x",), runner=Runner(by_rate)).run() == 0
    before = (tmp_path / "sweep.json").read_bytes()
    # flock is per open file: another descriptor is another runner
    with locked(tmp_path), pytest.raises(UserError):
        Drive(made(tmp_path, seeds=[0, 1, 2]), ("x",), runner=Runner(by_rate)).run()
    assert (tmp_path / "sweep.json").read_bytes() == before


def test_automatic_seeds_after_a_shorter_list_have_their_whole_first_stage(tmp_path: Path) -> None:
    plain = {"tune": None, "common": ["updates.minibatches=4", "optimizer.lr=1e-4"]}
    write = Runner(lambda job: 0.5)
    assert Drive(made(tmp_path, **plain, seeds=[0, 1, 2, 3]), ("x",), runner=write).run() == 0
    drive = Drive(made(tmp_path, **plain, seeds="auto"), ("x",), runner=write)
    drive.run()
    assert set(drive.manifest.declared[1]["seeds"]) == set(range(10))


def test_passes_do_not_end_runs_that_a_budget_ends(tmp_path: Path) -> None:
    _, wrong = Planner(check({**QUESTION, "common": ["data={passes: 1}"], "tune": None}), COMPOSER).check()
    assert {m.key for error in wrong.values() for m in error.mistakes} == {"data.passes"}
