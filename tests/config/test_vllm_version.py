"""vLLM missing, outside the tested range, or asked for what it cannot do: a sentence each."""

from __future__ import annotations

import pytest

from grpo.cli import main
from grpo.config.check import load
from grpo.config.crosscheck import warnings
from grpo.errors import ConfigError, UserError
from grpo.rollout import vllm_version


@pytest.mark.parametrize(
    ("version", "inside"),
    [("0.32.0", True), ("0.32.7+cpu", True), ("0.31.9", False), ("0.33.0", False), ("1.0", False), ("unknown", False)],
)
def test_only_the_tested_range_is_silent(version: str, inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_version, "installed", lambda: version)
    config, _ = load(["rollout=vllm"])
    expected = f"vLLM {version} is outside the tested range, 0.32 up to but not including 0.33"
    assert warnings(config) == ([] if inside else [expected])


def test_lag_says_what_evaluates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_version, "installed", lambda: "0.32.0")
    config, _ = load(["rollout=vllm", "rollout.lag=2"])
    assert warnings(config) == [
        "vllm with rollout.lag or perturbed weights: evaluation samples the newest weights through transformers"
    ]


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("model.dtype=float64", "model.dtype   vLLM does not compute in float64; use float32"),
        ("rollout.gpu_memory_utilization=1.5", "rollout.gpu_memory_utilization   must be less than 1"),
    ],
)
def test_mistakes(override: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(["rollout=vllm", override])
    assert str(caught.value).startswith(sentence)


def test_a_run_without_vllm_is_refused_and_a_plan_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vllm_version, "installed", lambda: None)
    assert main(["rollout=vllm"]) == UserError.exit_code
    assert "rollout.kind   vLLM is not installed; on CPU run `make setup-vllm`, on GPUs" in capsys.readouterr().err
    load(["rollout=vllm"])  # what grpo.plan and the report do, on another machine
