"""curves.png, drawn from the files alone."""

import json
import runpy
import sys
from itertools import combinations
from pathlib import Path

import pytest
import synthetic
from matplotlib.figure import Figure

from grpo.recording.curves import PANELS, draw, figure
from grpo.recording.plotting import Run, running_mean

TITLES = [
    "Reward (training)",
    "Accuracy (held out)",
    "Entropy",
    "Completion length",
    "Clipped tokens and weight of a token",
    "Groups without signal",
    "Gradient norm",
    "Time per step",
]


def panels(picture: Figure) -> dict[str, object]:
    return {ax.get_title(loc="left"): ax for ax in picture.axes if ax.get_title(loc="left")}


def labels(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []


def assert_nothing_overlaps(picture: Figure) -> None:
    """Titles, legends and plots each have their own place, inside the picture."""
    boxes = []
    for ax in panels(picture).values():
        boxes += [ax._left_title.get_window_extent(), ax.get_window_extent()]  # pyright: ignore
        boxes += [ax.get_legend().get_window_extent()] if ax.get_legend() else []  # pyright: ignore
        boxes += [ax.xaxis.label.get_window_extent(), ax.yaxis.label.get_window_extent()]  # pyright: ignore
    boxes += [ax.yaxis.label.get_window_extent() for ax in picture.axes if not ax.get_title(loc="left")]
    boxes = [box for box in boxes if box.width > 0]
    touching = [(a, b) for a, b in combinations(boxes, 2) if a.shrunk(0.98, 0.98).overlaps(b.shrunk(0.98, 0.98))]
    assert touching == []
    assert all(box.x0 >= 0 and box.x1 <= picture.bbox.x1 and box.y1 <= picture.bbox.y1 for box in boxes)


@pytest.mark.parametrize("steps", [1, 100])
def test_all_panels_with_everything_they_should_show(tmp_path: Path, steps: int) -> None:
    picture = figure(synthetic.make(tmp_path / "dapo" / "3f9c21ab-s0" / "1", steps))
    shown = panels(picture)
    assert list(shown) == TITLES
    assert len(PANELS) == len(TITLES)
    curves, references = {"greedy", "test/avg@8"}, {"untrained greedy", "untrained maj@8", "untrained pass@8"}
    if steps > 1:
        curves |= {"avg@4", "pass@4"}  # evaluated more often than the untrained policy's avg@8
    assert curves | references <= set(labels(shown["Accuracy (held out)"]))
    assert labels(shown["Completion length"]) == ["mean", "right", "wrong"]
    assert sorted(labels(shown["Groups without signal"])) == ["all rewards equal", "all right", "all wrong"]
    assert {"rollout", "reward", "update", "sync", "eval"} <= set(labels(shown["Time per step"]))
    title = picture.get_suptitle()
    assert title.startswith(f"dapo/3f9c21ab-s0/1 · {steps} step{'s' * (steps > 1)} · ")
    assert_nothing_overlaps(picture)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [{"v": 1, "step": 1, "reward": 0.5}],
        [
            {"v": 1, "step": s, "reward": None, "grad_norm": None, "time/step": None, "length/mean": None}
            for s in (1, 2)
        ],
        [{"v": 1, "step": s, "grad_norm": 10.0**s, "groups/all_wrong": 1.0, "grad_clipped": 0.0} for s in (1, 2, 3)],
    ],
    ids=["no file", "one metric", "only NaN", "no reward"],
)
def test_missing_metrics_leave_a_word_not_an_error(tmp_path: Path, lines: list[dict]) -> None:
    if lines:
        (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    picture = figure(tmp_path)
    entropy = panels(picture)["Entropy"]
    assert [text.get_text() for text in entropy.texts] == ["not recorded"]  # pyright: ignore
    assert_nothing_overlaps(picture)


def test_gaps_are_left_out_of_running_means() -> None:
    nan = float("nan")
    # neighbours within 1: (1 + 3)/2 around the gap, (1)/1 at its left edge
    assert running_mean([1.0, nan, 3.0], 1) == [1.0, 2.0, 3.0]
    assert str(running_mean([nan, nan, 3.0], 0)) == "[nan, nan, 3.0]"


def test_stacks_of_long_runs_are_means_over_neighbours() -> None:
    # 240 steps in 120 bins of two: an evaluation of 3 s every second step is 1.5 s per step
    run = Run({s: {"time/eval": 3.0} if s % 2 else {"time/sync": 1.0} for s in range(1, 241)})
    binned = run.binned(["time/eval", "time/sync"])
    assert len(binned.steps) == 120
    assert set(map(tuple, (row.values() for row in binned.steps.values()))) == {(1.5, 0.5)}


def test_draw_writes_a_png_and_nothing_else(tmp_path: Path) -> None:
    before = set(synthetic.make(tmp_path, 3).iterdir())
    assert draw(tmp_path) == tmp_path / "curves.png"
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert set(tmp_path.iterdir()) - before == {tmp_path / "curves.png"}


def test_the_command_needs_a_run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["curves", str(tmp_path)])
    monkeypatch.delitem(sys.modules, "grpo.recording.curves")
    with pytest.raises(SystemExit, match=r"usage: python -m grpo.recording.curves <run folder>"):
        runpy.run_module("grpo.recording.curves", run_name="__main__")
