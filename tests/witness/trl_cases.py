"""The algorithms in both languages: overrides of ours, fields of TRL's GRPOConfig."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.witness.trl_batches import BUDGET, TRL_SIGMA


@dataclass(frozen=True)
class Case:
    """One algorithm in both languages."""

    words: str
    """overrides of ours"""
    settings: dict[str, Any] = field(default_factory=dict)
    """fields of GRPOConfig"""
    other: str = ""
    """an override under which we must disagree off-policy, so that the number is known to matter on these batches"""


K3 = {"beta": 0.04, "use_bias_correction_kl": False}
SEQUENCE = {"loss_type": "grpo", "importance_sampling_level": "sequence"}
GSPO = {**SEQUENCE, "epsilon": 3e-4, "epsilon_high": 4e-4}
GRPO = f"kl=none {TRL_SIGMA}"
DAPO = f"+algo=dapo filter=none shaping=none {TRL_SIGMA}"
CISPO = f"+algo=cispo filter=none {TRL_SIGMA}"

CASES = {
    "grpo": Case(GRPO, {"loss_type": "grpo"}, "surrogate.high=0.25"),
    "grpo, β": Case(f"kl.coef=0.04 {TRL_SIGMA}", {"loss_type": "grpo", **K3}, "kl.coef=0.03"),
    "grpo, two-sided clip": Case(
        f"{GRPO} surrogate=clip_two_sided surrogate.delta=1.3", {"loss_type": "grpo", "delta": 1.3},
        "surrogate.delta=1.4",
    ),
    "dapo": Case(DAPO, {"loss_type": "dapo", "epsilon_high": 0.28}, "surrogate.high=0.2"),
    "dapo, β": Case(f"{DAPO} kl=k3", {"loss_type": "dapo", "epsilon_high": 0.28, **K3}, "kl.coef=0.05"),
    "dapo, truncated masked": Case(
        f"{DAPO} overlong=mask_truncated",
        {"loss_type": "dapo", "epsilon_high": 0.28, "mask_truncated_completions": True}, "overlong=none",
    ),
    "bnpo, one micro-batch": Case(f"{GRPO} aggregation=token_mean", {"loss_type": "bnpo"}, "aggregation=prompt_mean"),
    "dr_grpo": Case(
        "+algo=dr_grpo", {"loss_type": "dr_grpo", "scale_rewards": "none", "max_completion_length": BUDGET},
        "surrogate.low=0.25",
    ),
    "gspo": Case(f"+algo=gspo {TRL_SIGMA}", GSPO, "surrogate.high=0.1"),
    "gspo, token form": Case(f"+algo=gspo ratio=sequence_token {TRL_SIGMA}", GSPO, "ratio=token"),
    "gspo, the chapter's ε": Case(f"+algo=chapter/gspo kl=none {TRL_SIGMA}", SEQUENCE, "surrogate.high=0.05"),
    "luspo": Case(
        f"+algo=gspo aggregation=sequence_sum {TRL_SIGMA}", {**GSPO, "loss_type": "luspo"}, "aggregation=sequence_mean"
    ),
    "cispo": Case(f"{CISPO} surrogate.cap=1.2", {"loss_type": "cispo", "epsilon_high": 1.2}, "surrogate.cap=1.3"),
    "cispo, truncated masked": Case(
        f"{CISPO} overlong=mask_truncated",
        {"loss_type": "cispo", "epsilon_high": 5.0, "mask_truncated_completions": True}, "overlong=none",
    ),
    "cispo, batch σ": Case(
        f"{CISPO} advantage=group_mean_batch_std advantage.std_of=raw",
        {"loss_type": "cispo", "epsilon_high": 5.0, "scale_rewards": "batch"}, "advantage.std_of=centred",
    ),
    "sapo": Case(f"+algo=sapo {TRL_SIGMA}", {"loss_type": "sapo"}, "surrogate.tau_neg=1.0"),
    "vespo": Case(
        "+algo=vespo ratio.anchor=old aggregation=token_mean", {"loss_type": "vespo", "scale_rewards": "none"},
        "surrogate.lam_neg=2.1",
    ),
    "vespo, truncated masked": Case(
        "+algo=vespo ratio.anchor=old aggregation=token_mean overlong=mask_truncated",
        {"loss_type": "vespo", "scale_rewards": "none", "mask_truncated_completions": True}, "overlong=none",
    ),
    "gdpo": Case(
        f"+algo=gdpo kl=none {TRL_SIGMA}",
        {"loss_type": "grpo", "multi_objective_aggregation": "normalize_then_sum"}, "advantage.batch_step=false",
    ),
}  # fmt: skip


def vllm(mode: str, high: float, low: float | None = None, **settings: Any) -> dict[str, Any]:
    """TRL's correction for the engine's probabilities; `use_vllm` is what switches it on."""
    return {
        "loss_type": "grpo", "use_vllm": True, "vllm_importance_sampling_mode": mode,
        "vllm_importance_sampling_clip_max": high, "vllm_importance_sampling_clip_min": low, **settings,
    }  # fmt: skip


TIS, MIS = f"+algo=tis kl=none {TRL_SIGMA}", f"+algo=mis kl=none {TRL_SIGMA}"
CORRECTED = {
    "tis": Case(f"{TIS} correction.cap=1.1", vllm("token_truncate", 1.1), "correction.cap=1.2"),
    "tis, β uncorrected": Case(f"+algo=tis {TRL_SIGMA}", vllm("token_truncate", 2.0, **K3), "correction=none"),
    "tis, sequence": Case(
        f"{TIS} correction.level=sequence correction.cap=1.1", vllm("sequence_truncate", 1.1),
        "correction.level=geometric",
    ),
    "mis": Case(f"{MIS} correction.high=1.5", vllm("sequence_mask", 1.5), "correction.high=1.05"),
    "mis, both bounds": Case(
        f"{MIS} correction.low=0.7 correction.high=1.5", vllm("sequence_mask", 1.5, 0.7), "correction.low=0.9"
    ),
    "icepop": Case(
        f"{MIS} correction=mask_icepop correction.low=0.8 correction.high=1.2", vllm("token_mask", 1.2, 0.8),
        "correction.low=0.85",
    ),
    "dapo with tis": Case(
        f"{DAPO} correction=truncate", vllm("token_truncate", 2.0, loss_type="dapo", epsilon_high=0.28),
        "correction=none",
    ),
}  # fmt: skip

ALL = CASES | CORRECTED
