"""The JSONL files: their schemas, kills, resumes."""

import json
import math
from importlib.resources import files
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import torch

from grpo.recording import jsonl
from grpo.recording.recorder import FILES, Recorder, read_evaluations, read_metrics

SAMPLE = {
    "prompt_id": "a",
    "group": 0,
    "sample": 1,
    "prompt": "37+5=",
    "completion": "4\u2028\ud800二",  # a line separator, a lone surrogate, and text
    "token_ids": (3, 4),
    "logp_old": torch.tensor([-0.5, -math.inf]),
    "logp_rollout": np.array([-0.5, -0.25], dtype=np.float32),
    "weight": None,
    "advantage": np.float64(1.5),
    "rewards": {"exact": 1.0, "format": math.nan},
    "finish": "stop",
}
QUESTION = {
    "split": "validation",
    "question_id": "a",
    "k": 2,
    "rewards": [1.0, math.nan],
    "lengths": [3, 4],
    "finish": ["stop", "length"],
    "greedy": None,
}


def record(folder: Path, steps: range, **kwargs) -> Recorder:
    recorder = Recorder(folder, strict=True, **kwargs)
    for step in steps:
        recorder.metrics(step, {"reward": step / 10, "tokens/generated": 100 * step})
        recorder.samples(step, [SAMPLE])
        recorder.evaluation(step, [QUESTION])
    return recorder


def steps_of(folder: Path) -> list[list[int]]:
    return [[row["step"] for row in jsonl.read(folder / f"{name}.jsonl")] for name in FILES]


def test_every_line_fits_its_schema(tmp_path: Path) -> None:
    recorder = record(tmp_path, range(2))
    recorder.metrics(
        1, {"loss": math.nan, "grad_norm": math.inf, "updates/total": np.int64(4), "reward": torch.tensor(1)}
    )
    for name in FILES:
        schema = json.loads(files("grpo.recording").joinpath(f"schemas/{name}.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        lines = (tmp_path / f"{name}.jsonl").read_bytes().decode("ascii").splitlines()
        assert len(lines) == (3 if name == "metrics" else 2)  # on disk before the recorder is closed
        for text in lines:
            jsonschema.validate(json.loads(text, parse_constant=pytest.fail), schema)


def test_numbers_and_text_come_back(tmp_path: Path) -> None:
    record(tmp_path, range(1))
    row = next(jsonl.read(tmp_path / "samples.jsonl"))
    assert row["completion"] == SAMPLE["completion"]
    assert row["logp_old"] == [-0.5, None]
    assert row["rewards"] == {"exact": 1.0, "format": None}
    assert row["v"] == 1


def test_schemas_refuse_what_is_not_described() -> None:
    schema = json.loads(files("grpo.recording").joinpath("schemas/evaluations.json").read_text())
    good = json.loads(jsonl.line({"step": 1, **QUESTION}))
    for bad in (
        {**good, "v": 2},
        {**good, "extra": 1},
        {k: v for k, v in good.items() if k != "k"},
        {**good, "step": -1},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)


def test_a_strict_recorder_refuses_undefined_metrics(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, strict=True)
    with pytest.raises(ValueError, match="rewrad"):
        recorder.metrics(1, {"rewrad": 1.0})
    Recorder(tmp_path).metrics(1, {"rewrad": 1.0})


def test_cutting_back_leaves_what_an_uninterrupted_run_has(tmp_path: Path) -> None:
    (straight := tmp_path / "a").mkdir()
    (resumed := tmp_path / "b").mkdir()
    clock = lambda: 0.0  # noqa: E731
    record(straight, range(11), clock=clock).close()
    record(resumed, range(8), clock=clock)  # killed at step 7, last checkpoint at 5
    recorder = Recorder(resumed, strict=True, clock=clock)
    assert recorder.cut_back(5) == 6  # steps 6 and 7 of three files
    for step in range(6, 11):
        recorder.metrics(step, {"reward": step / 10, "tokens/generated": 100 * step})
        recorder.samples(step, [SAMPLE])
        recorder.evaluation(step, [QUESTION])
    for name in FILES:
        assert (resumed / f"{name}.jsonl").read_bytes() == (straight / f"{name}.jsonl").read_bytes()


@pytest.mark.parametrize("tail", ['{"v": 1, "st', '{"v": 1, "step": 3}'])
def test_a_last_line_cut_by_a_kill_is_dropped(tmp_path: Path, tail: str) -> None:
    record(tmp_path, range(3)).close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write(tail)
    assert list(read_metrics(tmp_path)) == [0, 1, 2]
    Recorder(tmp_path).metrics(3, {"reward": 1.0})
    assert list(read_metrics(tmp_path)) == [0, 1, 2, 3]


def test_a_file_of_half_a_line_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"v": 1' + "x" * 100_000)
    Recorder(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_damage_in_the_middle_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"v": 1, "step": 0}\n{"v"\n{"v": 1, "step": 2}\n')
    with pytest.raises(ValueError, match=r"metrics.jsonl:2: this line is not JSON"):
        read_metrics(tmp_path)


def test_a_kill_while_cutting_back_is_harmless(tmp_path: Path) -> None:
    record(tmp_path, range(4)).close()
    (tmp_path / "samples.jsonl.tmp").write_text("half of a new fi")
    Recorder(tmp_path).cut_back(1)
    assert steps_of(tmp_path) == [[0, 1]] * 3


def test_elapsed_seconds_go_on_after_an_interruption(tmp_path: Path) -> None:
    ticks = iter([0.0, 10.0, 20.0, 1000.0, 1000.0, 1005.0])
    clock = lambda: next(ticks)  # noqa: E731
    first = Recorder(tmp_path, clock=clock)  # at 0
    first.metrics(1, {})
    first.metrics(2, {})
    second = Recorder(tmp_path, clock=clock)
    second.cut_back(1)  # 10 s count, the lost 10 s and the pause do not
    second.metrics(2, {})
    assert [row["time/elapsed"] for row in read_metrics(tmp_path).values()] == [10.0, 15.0]


def test_lines_of_one_step_are_read_as_one(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.metrics(2, {"reward": 0.5})
    recorder.metrics(2, {"validation/greedy": 0.25, "loss": math.nan})
    recorder.evaluation(2, [QUESTION])
    recorder.evaluation(2, [{**QUESTION, "greedy": 1.0}])  # repeated after an interruption
    row = read_metrics(tmp_path)[2]
    assert (row["reward"], row["validation/greedy"]) == (0.5, 0.25)
    assert math.isnan(row["loss"])
    assert [r["greedy"] for r in read_evaluations(tmp_path)] == [1.0]


def test_what_cannot_be_recorded_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="of type object cannot be recorded"):
        Recorder(tmp_path).metrics(1, {"reward": object()})
