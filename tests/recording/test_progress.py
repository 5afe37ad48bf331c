"""The lines of a run, and its last words."""

import io
from pathlib import Path

import pytest
import synthetic

from grpo.recording.progress import Progress, best_validation, duration, end_lines, short

METRICS = {
    "reward": 0.61,
    "policy/entropy": 0.42,
    "length/mean": 25.84,
    "length/truncated": 0.0,
    "groups/zero_std": 0.12,
    "speed/generated_tokens_per_s": 3100,
}


def run(total: int, terminal: bool = False, seconds: float = 1.0, **kwargs) -> list[str]:
    """Lines of a run whose steps take `seconds`, with an evaluation every 20."""
    now = [0.0]
    stream = io.StringIO()
    progress = Progress(total, stream=stream, terminal=terminal, clock=lambda: now[0], **kwargs)
    for step in range(1, total + 1):
        now[0] += seconds
        progress.step(step, METRICS | ({"validation/avg@4": 0.58} if step % 20 == 0 else {}))
    progress.close()
    progress.close()
    return stream.getvalue().splitlines()


def test_a_plain_line_about_every_tenth_and_at_evaluations() -> None:
    lines = run(100)
    assert [int(line.split("/")[0].split()[1]) for line in lines] == [1, 11, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert lines[4] == (
        "step  40/100  reward 0.61  val 0.58  entropy 0.42  len 25.8 (cut 0 %)  dead 12 %  3.1k tok/s  1:00 left"
    )


def test_a_slow_run_speaks_every_ten_minutes() -> None:
    assert len(run(19, seconds=700.0)) == 19


def test_short_runs_show_each_step() -> None:
    assert len(run(3)) == 3


def test_time_left_leaves_out_the_first_step_and_what_was_done_before() -> None:
    now = [0.0]
    progress = Progress(10, start=4, stream=io.StringIO(), clock=lambda: now[0])
    now[0] = 100.0  # compiling, warming up
    progress.step(5, {})
    assert progress.eta is None
    now[0] = 103.0
    progress.step(6, {})  # 3 s a step, 4 steps left
    assert progress.eta == pytest.approx(12.0)


def test_a_token_budget_is_an_end_too() -> None:
    now, stream = [0.0], io.StringIO()
    progress = Progress(None, 1000, stream=stream, clock=lambda: now[0])
    for step in (1, 2):
        now[0] += 5.0
        progress.step(step, {"tokens/generated": 250 * step})
    assert progress.eta == pytest.approx(10.0)  # 250 tokens in 5 s, 500 left
    assert "500/1.0k" in stream.getvalue() or "250/1.0k" in stream.getvalue()


def test_the_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    text = "\n".join(run(2, terminal=True))
    assert "step 2/2" in text
    assert "dead 12 %" in text
    monkeypatch.setenv("COLUMNS", "60")
    text = "\n".join(run(2, terminal=True))
    assert "reward 0.61" in text
    assert "dead" not in text  # the least important go first; nothing wraps


def test_what_is_said_stays_above_the_bar() -> None:
    stream = io.StringIO()
    progress = Progress(2, stream=stream, terminal=True)
    progress.say("before [bold]")
    progress.step(1, METRICS)
    progress.say("between [bold]")
    progress.close()
    text = stream.getvalue()
    assert text.index("before [bold]") < text.index("step 1/2") < text.index("between [bold]")


def test_last_words(tmp_path: Path) -> None:
    synthetic.make(tmp_path, 100)
    (tmp_path / "curves.png").touch()
    lines = end_lines(
        tmp_path,
        seconds=72,
        command="python -m grpo seed=0",
        policy=Path("policy"),
        compare="python -m grpo.report runs",
    )
    assert lines == [
        "done in 1:12 · 100 steps · 389k tokens generated"
        " · test avg@8 0.71 [0.67, 0.75] (untrained on validation 0.33, its greedy 0.43)",
        "best validation 0.71 at step 100 · policy saved as policy (loads in transformers and vLLM)",
        f"curves   {tmp_path / 'curves.png'}",
        "again    python -m grpo seed=0",
        "compare  python -m grpo.report runs",
    ]


def test_last_words_of_a_run_without_steps(tmp_path: Path) -> None:
    lines = end_lines(tmp_path, "stopped", seconds=3, command="c")
    assert lines == ["stopped in 0:03 · 0 steps · 0 tokens generated", "again    c"]


def test_the_test_result_is_a_line() -> None:
    stream = io.StringIO()
    Progress(1, stream=stream).result({"test/avg@1": 0.7, "test/avg@8": 0.7, "test/greedy": 0.8, "test/pass@8": 0.9})
    assert stream.getvalue() == "test  avg@8 0.70 · greedy 0.80 · pass@8 0.90\n"


def test_best_validation_is_the_earliest_of_equals() -> None:
    name = "validation/avg@4"
    assert best_validation({0: {name: 0.1}, 20: {name: 0.5}, 40: {name: 0.5}, 60: {name: float("nan")}}) == (20, 0.5)
    assert best_validation({}) is None


def test_numbers_for_people() -> None:
    assert [short(n) for n in (0, 999, 3100, 9960, 389_000, 1_200_000)] == ["0", "999", "3.1k", "10.0k", "389k", "1.2M"]
    assert [duration(s) for s in (0.4, 41, 72, 7385)] == ["0:00", "0:41", "1:12", "2:03:05"]
