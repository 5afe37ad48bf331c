"""Non-finite updates are skipped, counted, and end the run with the evidence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from grpo.errors import UserError
from grpo.runs.nonfinite import NonFiniteGuard, save_evidence

NAN, INF = float("nan"), float("inf")


def test_only_three_in_a_row_end_the_run(tmp_path: Path) -> None:
    guard, saved = NonFiniteGuard(patience=3), []

    def evidence() -> Path:
        saved.append(1)
        return save_evidence(tmp_path, 9, {"loss": NAN, "texts": ["42"]}, {"logp": torch.tensor([NAN, -1.0])})

    verdicts = [guard.skip(1, loss, norm, evidence) for loss, norm in [(NAN, 1.0), (1.0, INF), (1.0, 1.0), (NAN, NAN)]]
    assert verdicts == [True, True, False, True]
    assert (guard.in_a_row, guard.skipped) == (1, 3)
    assert not guard.skip(1, -1.0, 0.0, evidence)  # a zero gradient is finite
    guard.skip(9, NAN, 1.0, evidence)
    guard.skip(9, NAN, 1.0, evidence)
    assert saved == []
    with pytest.raises(UserError) as error:
        guard.skip(9, 0.5, INF, evidence)
    where = tmp_path / "nonfinite" / "step-000009"
    assert str(error.value) == (
        f"step 9   loss 0.5 and gradient norm inf: 3 updates in a row were not finite; the batch is in {where}; "
        "try a smaller optimizer.lr, or model.dtype=float32"
    )
    assert saved == [1]
    assert json.loads((where / "numbers.json").read_text())["texts"] == ["42"]
    assert load_file(where / "batch.safetensors")["logp"][1] == -1.0


def test_counters_survive_a_resume() -> None:
    guard, again = NonFiniteGuard(), NonFiniteGuard()
    guard.skip(1, NAN, 0.0)
    guard.skip(1, NAN, 0.0)
    again.restore(json.loads(json.dumps(guard.state())))
    with pytest.raises(UserError, match="3 updates in a row were not finite; try a smaller"):
        again.skip(2, NAN, 0.0)
    assert again.skipped == 3


def test_evidence_of_the_same_step_can_be_written_again(tmp_path: Path) -> None:
    for value in (1.0, 2.0):
        path = save_evidence(tmp_path, 3, {}, {"x": torch.tensor([value])})
    assert load_file(path / "batch.safetensors")["x"].tolist() == [2.0]
    assert [entry.name for entry in (tmp_path / "nonfinite").iterdir()] == ["step-000003"]
