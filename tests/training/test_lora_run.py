"""Whole runs with an adapter: small checkpoints (R07), exact resume, a reference that is always the base (R04)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from grpo.models import load, lora
from grpo.models.folders import TINY
from grpo.runs import checkpoint
from tests import helpers
from tests.test_run import assert_same_end

LORA = ("model.lora.r=2", "model.lora.target_modules=[q_proj,v_proj]", "max_steps=4", "checkpoint.every=1")
# q and v of two layers, 128 → 128: 2 · 2 · 2 · (128 + 128) = 2,048 numbers
NUMBERS = 2048


def test_checkpoints_hold_the_adapter_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R07. Also with lagged weights, and with β > 0: no base, no reference, in memory neither."""

    def forbidden(*_: object) -> None:
        raise AssertionError("a second copy of the base was loaded")

    monkeypatch.setattr(load, "load_reference", forbidden)
    code, run = helpers.run(tmp_path, *LORA, "rollout.lag=1", "kl.coef=0.04")
    assert code == 0
    folder = run / "checkpoints" / "step-000004"
    saved = checkpoint.load(folder)
    kinds = [f"{kind}.default.weight" for kind in ("lora_A", "lora_B")]
    names = {
        f"model.layers.{layer}.self_attn.{module}.{kind}"
        for layer in (0, 1)
        for module in ("q_proj", "v_proj")
        for kind in kinds
    }
    assert set(saved.tensors) == names
    assert sum(value.numel() for value in saved.tensors.values()) == NUMBERS
    assert {key.split("/", 1)[1] for key in saved.extra} == names
    moments = [value for state in saved.optimizer["state"].values() for value in state.values() if value.dim()]
    assert sum(value.numel() for value in moments) == 2 * NUMBERS  # Adam's two
    # adapter, two moments and two lagged versions: 5 · 2,048 numbers of 4 bytes = 41 kB, and headers; base: 1.8 MB
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert 5 * 4 * NUMBERS < size < 5 * 4 * NUMBERS + 40_000
    torch.load(folder / "optimizer.pt", weights_only=True)  # R08


def test_killed_and_resumed_equals_uninterrupted_and_its_reference_is_the_base(tmp_path: Path) -> None:
    """R04: after a resume KL is still against the base; against the resumed policy it would begin at 0 again."""
    code, straight = helpers.run(tmp_path / "straight", *LORA, "kl.coef=0.04", "samples_every=1")
    assert code == 0
    words = [*helpers.SMALL, *LORA, "kl.coef=0.04", "samples_every=1", f"output_dir={tmp_path / 'killed'}"]
    environment = {**os.environ, "STOP_AT": "4", "STOP_SIGNAL": "SIGKILL"}
    repository = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "grpo", *words], cwd=repository, env=environment, capture_output=True, timeout=900
    )
    assert done.returncode == -9
    code, resumed = helpers.run(tmp_path / "killed", *LORA, "kl.coef=0.04", "samples_every=1", "resume=auto")
    assert code == 0
    assert_same_end(straight, resumed, 4)
    kl = {row["step"]: row["kl/ref"] for row in helpers.lines(resumed / "metrics.jsonl") if "kl/ref" in row}
    assert kl[1] == 0  # B = 0: the policy is the base
    assert kl[3] > 0
    assert kl[4] > 0
    assert sorted(path.name for path in straight.glob("policy*")) == ["policy", "policy_adapter"]
    for name in ("policy/model.safetensors", "policy_adapter/adapter_model.safetensors"):
        assert (straight / name).read_bytes() == (resumed / name).read_bytes()


def test_the_exported_policy_is_base_plus_adapter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, run = helpers.run(tmp_path, *LORA, "model.lora.alpha=4", "kl.coef=0.04")
    assert code == 0
    # 2,048 of 452,224 + 2,048 parameters; lr is 10 × 3e-4
    out = capsys.readouterr().out
    assert "tiny (2,048 of 0.45 M trained, LoRA r = 2, float32)" in out
    assert "lr 0.003 constant" in out
    assert "reference the base, adapter off" in out
    merged = AutoModelForCausalLM.from_pretrained(run / "policy").state_dict()
    base = AutoModelForCausalLM.from_pretrained(TINY).state_dict()
    assert merged.keys() == base.keys()
    saved = checkpoint.load(run / "checkpoints" / "step-000004").tensors
    for name, value in base.items():
        stem = name.removesuffix(".weight")
        if stem.endswith(("q_proj", "v_proj")):
            # (alpha / r) B A = 2 B A
            value = value + 2 * saved[f"{stem}.lora_B.default.weight"] @ saved[f"{stem}.lora_A.default.weight"]
            assert not torch.equal(merged[name], base[name])
        torch.testing.assert_close(merged[name], value)
    assert not lora.layers(AutoModelForCausalLM.from_pretrained(run / "policy"))
