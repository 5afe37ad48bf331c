"""The default run in a shortened form raises held-out accuracy; the real model makes its two steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo.config.check import load
from grpo.models.folders import smollm2_folder
from grpo.training.run import run
from tests import helpers


def test_the_default_run_learns(tmp_path: Path) -> None:
    config, resolved = load(
        [
            "max_steps=15",
            "eval.every=15",
            "eval.samples=8",
            "eval.test_questions=0",
            "logger=none",
            "checkpoint.export=false",
            f"output_dir={tmp_path}",
        ]
    )
    assert run(config, resolved) == 0
    metrics = helpers.lines(helpers.newest(tmp_path) / "metrics.jsonl")
    before, after = metrics[0], metrics[-1]
    # 128 questions × 8: the standard error of each is about 0.025. The whole run gains more than 0.3.
    assert 0.15 < before["validation/avg@8"] < 0.45
    assert after["validation/avg@8"] > before["validation/avg@8"] + 0.10
    assert after["step"] == 15


@pytest.mark.skipif(not smollm2_folder().exists(), reason="make smollm2 has not been run")
def test_two_steps_of_smollm2(tmp_path: Path) -> None:
    config, resolved = load(
        [
            "model=smollm2",
            "task=words",
            "max_steps=2",
            "prompts_per_step=2",
            "group_size=4",
            "tokens_per_microbatch=512",
            "max_completion_tokens=12",
            "preflight=off",
            "kl=none",
            "eval.questions=2",
            "eval.samples=2",
            "eval.test_questions=2",
            "eval.test_samples=2",
            "logger=none",
            "checkpoint.export=false",
            "samples_every=1",
            f"output_dir={tmp_path}",
        ]
    )
    assert run(config, resolved) == 0
    folder = helpers.newest(tmp_path)
    assert json.loads((folder / "status.json").read_text())["step"] == 2
    first = helpers.lines(folder / "samples.jsonl")[0]
    assert first["prompt"].startswith("<|im_start|>system")
    assert first["prompt"].endswith("<|im_start|>assistant\n")
    # The engine's cached decode and the trainer's full forward pass are the same model.
    metrics = helpers.lines(folder / "metrics.jsonl")
    mismatches = [row["mismatch/abs_logp_max"] for row in metrics if row.get("mismatch/abs_logp_max") is not None]
    assert all(value < 2e-3 for value in mismatches)
