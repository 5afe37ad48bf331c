"""The probe as JSON: every completion of every question with every reward; None is null."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from grpo.probe.golds import Golds
from grpo.probe.measure import Measured
from grpo.probe.verdict import Finding

if TYPE_CHECKING:
    from grpo.config.schema import RunConfig


def as_json(
    config: RunConfig, measured: Measured, golds: Sequence[Golds], flags: Sequence[Finding], notes: Sequence[Finding]
) -> str:
    """One object; `v` is its version."""
    return json.dumps(
        {
            "v": 1,
            "task": config.choices.get("task"),
            "reward": config.choices.get("reward"),
            "seed": config.seed,
            "functions": dict(zip(measured.names, measured.weights, strict=True)),
            "accuracy": config.reward.accuracy or measured.names[0],
            "right_at": config.reward.right_at,
            "questions": [_question(measured, i) for i in range(len(measured.cases))],
            "golds": [asdict(split) for split in golds],
            "flags": [asdict(flag) for flag in flags],
            "notes": [asdict(note) for note in notes],
        },
        ensure_ascii=False,
        indent=1,
        allow_nan=False,
    )


def _question(measured: Measured, index: int) -> dict[str, Any]:
    case = measured.cases[index]
    rows = [paid for paid in measured.paid if paid.case == index]
    return {
        "id": case.question.id,
        "prompt": case.question.text,
        "answer": case.gold,
        "completions": [
            {"kind": p.kind, "text": p.text, "rewards": dict(p.rewards), "total": p.total, "right": p.right}
            for p in rows
        ],
    }
