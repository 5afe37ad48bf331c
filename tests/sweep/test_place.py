"""run_dir places a run, arm and run_dir change no hash, and a finished run is not started again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import helpers

from grpo.config import overrides
from grpo.config.check import load
from grpo.config.hashing import config_hash
from grpo.errors import UserError
from grpo.sweep.manifest import Job


def test_where_a_run_lies_does_not_change_what_it_is() -> None:
    plain = config_hash(load([])[1])
    assert config_hash(load(["arm=eps_0.28", "run_dir=somewhere", "sweep=folder"])[1]) == plain
    assert config_hash(load(["arm=eps_0.28", "surrogate.high=0.28"])[1]) != plain


def test_a_run_lies_exactly_in_its_folder_and_runs_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "sweep" / "eps_0.28" / "seed=0"
    job = Job("eps_0.28", "final", 0, "eps_0.28/seed=0", ("max_steps=1",), "")
    words = job.words(tmp_path / "sweep")
    assert helpers.run(tmp_path, *words) == (0, place)
    before = (place / "metrics.jsonl").read_bytes()
    # The command that repeats it does not point into the sweep's folder, which holds a run.
    again = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("again"))
    assert "run_dir" not in again
    assert "sweep=" not in again

    assert helpers.run(tmp_path, *words) == (0, place)
    assert capsys.readouterr().out == f"resume=auto: {place} is done; there is nothing to do\n"
    assert (place / "metrics.jsonl").read_bytes() == before
    assert json.loads((place / "status.json").read_text())["status"] == "done"

    with pytest.raises(UserError, match=r"was made by another configuration: .*max_steps is 1 there and 2 here"):
        helpers.run(tmp_path, *words[1:], "max_steps=2")
    with pytest.raises(UserError, match=r"^run_dir   .* already holds a run"):
        helpers.run(tmp_path, *words, "resume=never")


@pytest.mark.parametrize("value", ["a/seed=0", "algo=dapo,group_size=8", 'a "b"', "a\\", "a b", 'a\\\\"b', "don't"])
def test_a_text_reaches_its_key_whatever_it_holds(value: str) -> None:
    assert load([overrides.word("arm", value)])[0].arm == value
