"""The live table, rendered to text, and the lines that replace it on a pipe."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from grpo.sweep import facts
from grpo.sweep.board import Board
from grpo.sweep.facts import Facts
from grpo.sweep.live import Lines, Table, display
from grpo.sweep.manifest import Job
from grpo.sweep.outcomes import Outcome
from grpo.sweep.picture import picture


def board(tmp_path: Path, arms: list[str], seeds: int, states: dict[str, str]) -> Board:
    """Jobs arm by arm; a state per folder, waiting where none is given. Finished ones took 60 s."""
    jobs = [Job(arm, "final", seed, f"{arm}/seed={seed}", (), "hash") for arm in arms for seed in range(seeds)]
    made = Board(jobs, tmp_path / "clip_high-3f9c21ab")
    for folder, state in states.items():
        entry = made.entries[folder]
        if state == "running":
            entry.started(None, 0)
        else:
            entry.finish(Outcome(entry.job, state, 0, "why", entry.log))  # type: ignore[arg-type]
            entry.began, entry.ended = 1.0, 61.0
    return made


def drawn(
    made: Board, known: dict[str, Facts], scores: dict[str, float], left: float | None, w: int, h: int
) -> list[str]:
    console = Console(width=w, height=h, file=io.StringIO(), record=True)
    console.print(picture(made, 2, known, scores, left, width=w, height=h))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_a_small_sweep(tmp_path: Path) -> None:
    states = {
        "eps_0.20/seed=0": "done",
        "eps_0.20/seed=1": "running",
        "no_upper/seed=0": "failed",
        "no_upper/seed=1": "diverged",
        "no_upper/seed=2": "running",
    }
    made = board(tmp_path, ["eps_0.20", "no_upper"], 3, states)
    known = {"eps_0.20/seed=1": Facts(37, 100, 0.37, 0.61, 3100.0, 41.0)}
    assert drawn(made, known, {"eps_0.20/seed=0": 0.714}, 200.0, 80, 24) == [
        "clip_high-3f9c21ab · 2 at a time",
        "  eps_0.20  0.71  37%   ·",
        "  no_upper  ✗     ∞     …",
        "",
        "  eps_0.20/seed=1  step  37/100  0:41 left  reward 0.61  3.1k tok/s",
        "  no_upper/seed=2  starting",
        "",
        "done 1 · running 2 · waiting 1 · failed 1 · diverged 1 · about 3:20 left",
    ]


def test_tuning_runs_have_a_row_of_their_own(tmp_path: Path) -> None:
    jobs = [Job("a", "tune", 100, "a/tune/lr=1/seed=100", (), "h"), Job("a", "final", 0, "a/seed=0", (), "h")]
    lines = drawn(Board(jobs, tmp_path), {}, {}, None, 80, 24)
    assert lines[1:3] == ["  a tune  ·", "  a       ·"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 10)], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 10), (2, 30), (1, 500), (50, 10), (500, 1)], ids=str)
def test_it_fits_the_screen(tmp_path: Path, shape: tuple[int, int], size: tuple[int, int]) -> None:
    arms = [f"dapo+surrogate=soft_gate+aggregation=sequence_mean_{i}" for i in range(shape[0])]
    running = {f"{arm}/seed=0": "running" for arm in arms[-8:]}
    made = board(tmp_path, arms, shape[1], running)
    known = {folder: Facts(5, 100, 0.05, 0.5, 3100.0, 60.0) for folder in running}
    lines = drawn(made, known, {}, 4000.0, *size)
    assert len(lines) <= size[1]
    assert max(map(len, lines)) <= size[0]
    assert any(line.startswith("  dapo") and ("5%" in line or "running 1" in line) for line in lines)  # an arm's row
    counted = f"running {len(running)} · waiting {shape[0] * shape[1] - len(running)}".removesuffix(" · waiting 0")
    assert lines[-1].startswith(counted[: size[0] - 1])


def test_too_many_seeds_are_counted(tmp_path: Path) -> None:
    made = board(tmp_path, ["a"], 500, {"a/seed=0": "done", "a/seed=1": "done", "a/seed=2": "failed"})
    lines = drawn(made, {}, {"a/seed=0": 0.25, "a/seed=1": 0.75}, None, 80, 24)
    assert lines[1] == "  a  done 2 · waiting 497 · failed 1 · mean 0.50"  # (0.25 + 0.75) / 2


def test_time_left(tmp_path: Path) -> None:
    made = board(tmp_path, ["a"], 6, {"a/seed=0": "done", "a/seed=1": "running"})
    made.entries["a/seed=1"].began = 100.0
    # Lengths: 60 s, and 40 s run + 20 s left = 60 s. Then (20 + 4 · 60) / 2 = 130 s.
    assert facts.time_left(made, 2, {"a/seed=1": Facts(left=20.0)}, now=140.0) == 130.0
    # Nobody knows how long the running one takes: 60 − 40 = 20 s as well.
    assert facts.time_left(made, 2, {}, now=140.0) == 130.0
    # The last one cannot be divided.
    last = board(tmp_path, ["a"], 1, {"a/seed=0": "running"})
    last.entries["a/seed=0"].began = 100.0
    assert facts.time_left(last, 2, {"a/seed=0": Facts(left=20.0)}, now=140.0) == 20.0
    assert facts.time_left(board(tmp_path, ["a"], 1, {}), 2, {}, now=0.0) is None


def write_run(folder: Path, rows: list[dict], **progress: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"v": 1, **row}) + "\n" for row in rows))
    (folder / "progress.json").write_text(json.dumps({"v": 1, **progress}))


def test_what_is_known_of_a_running_job(tmp_path: Path) -> None:
    made = board(tmp_path, ["a"], 1, {"a/seed=0": "running"})
    entry = made.entries["a/seed=0"]
    assert facts.running(entry) == Facts()
    rows = [{"step": 4, "speed/generated_tokens_per_s": 900}, {"step": 5, "speed/generated_tokens_per_s": 1000}]
    write_run(entry.folder, rows, step=5, total=20, reward=0.5, eta_seconds=30.0, generated_tokens=800)
    assert facts.running(entry) == Facts(5, 20, 0.25, 0.5, 1000, 30.0)
    with (entry.folder / "metrics.jsonl").open("a") as file:
        file.write('{"v": 1, "step": 6, "spe')  # a line that is being written
    assert facts.running(entry).speed == 1000
    budget = Job("a", "final", 0, "a/seed=0", ("budget.generated_tokens=1e3",), "hash")
    entry.job = budget
    assert facts.running(entry).share == 0.8  # 800 / 1000 tokens are more than 5 / 20 steps


def test_the_score_of_a_run(tmp_path: Path) -> None:
    rows = [{"step": 0, "validation/avg@4": 0.2}, {"step": 9, "validation/avg@4": 0.6}]
    write_run(tmp_path, rows)
    assert facts.score(tmp_path) == ("validation/avg@4", 0.6)
    write_run(tmp_path, [*rows, {"step": 9, "test/avg@8": 0.7, "test/greedy": 0.9, "test/avg@1": 0.1}])
    assert facts.score(tmp_path) == ("test/avg@8", 0.7)
    assert facts.score(tmp_path, "test/greedy") == ("test/greedy", 0.9)
    assert facts.score(tmp_path / "missing") is None


def test_a_line_per_finished_job(tmp_path: Path) -> None:
    said: list[str] = []
    lines = Lines(said.append)
    made = board(tmp_path, ["a"], 12, {"a/seed=0": "done", "a/seed=1": "failed"})
    write_run(made.entries["a/seed=0"].folder, [{"step": 9, "test/avg@8": 0.714}])
    lines.update(made, 2)
    for seed in range(2):
        lines.finished(made.entries[f"a/seed={seed}"], made)
    assert said == [  # 10 jobs of 60 s, two at a time: 300 s
        "[ 2/12]  done      a/seed=0  test/avg@8 0.71  in 1:00  about 5:00 left",
        "[ 2/12]  failed    a/seed=1  why  in 1:00  about 5:00 left",
    ]


def test_the_table_on_a_terminal(tmp_path: Path) -> None:
    console = Console(width=80, height=24, file=io.StringIO(), force_terminal=True)
    table = display(lambda text: None, live=True, console=console)
    assert isinstance(table, Table)
    made = board(tmp_path, ["a"], 2, {"a/seed=0": "done", "a/seed=1": "running"})
    write_run(made.entries["a/seed=0"].folder, [{"step": 9, "test/avg@8": 0.714}])
    table.update(made, 1)
    made.entries["a/seed=1"].finish(Outcome(made.entries["a/seed=1"].job, "done", 0, "", tmp_path))
    table.update(made, 1)  # within the same second: no new picture
    assert "done 2" not in console.file.getvalue()  # type: ignore[attr-defined]
    table.update(made, 1, last=True)
    table.close()
    table.close()
    written = console.file.getvalue()  # type: ignore[attr-defined]
    assert "0.71" in written
    assert "done 2" in written
