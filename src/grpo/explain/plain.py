"""Explanations as JSON. Rows are padded to the longest; NaN is null."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from grpo.algorithm.form import AXES
from grpo.explain.explained import Explained, comparisons

if TYPE_CHECKING:
    from torch import Tensor

    from grpo.explain.batch import Numbers


def _listed(values: Tensor | None) -> Any:
    """Nested lists; NaN is null."""

    def clean(x: Any) -> Any:
        return [clean(y) for y in x] if isinstance(x, list) else None if x != x else x

    return None if values is None else clean(values.tolist())


def as_json(explained: Sequence[Explained], numbers: Numbers) -> str:
    """Everything, with rows padded to the longest: one key per column of the account."""
    return json.dumps(
        {
            "v": 1,
            "batch": numbers.name,
            "algorithms": [_plain(one) for one in explained],
            "comparisons": [
                {
                    "name": other.name,
                    "against": explained[0].name,
                    "proportional": found.factor is not None,
                    "factor": found.factor,
                    "text": found.sentence,
                }
                for other, found in comparisons(explained)
            ],
        },
        ensure_ascii=False,
        indent=1,
        allow_nan=False,
    )


def _group(group: int, count: int, mean: float, sigma: float) -> dict[str, Any]:
    none = count == 0
    return {"id": group, "scored": count, "mean": None if none else mean, "std": None if none else sigma}


def _plain(one: Explained) -> dict[str, Any]:
    made = one.made
    return {
        "name": one.name,
        "source": one.source,
        "paper": one.about.paper,
        "formula": list(one.about.formula),
        "differs": one.about.differs,
        "objective": one.objective.describe(),
        "parts": {axis: repr(getattr(one.objective, axis)) for axis in AXES},
        "inert": one.inert,
        "warnings": one.warnings,
        "groups": [_group(group, *values) for group, values in made.group_statistics.items()],
        "rewards": _listed(made.rewards),
        "advantages": _listed(made.advantages),
        "token_advantages": _listed(made.token_advantages),
        "in_loss": _listed(made.rows),
        "left_out": made.left_out,
        "mask": _listed(made.mask),
        "ratio": _listed(made.ratio),
        "correction": _listed(made.correction),
        "weight": _listed(made.weight),
        "policy_weight": _listed(made.policy_weight),
        "reasons": made.reasons,
        "gradient": _listed(made.gradient),
        "entropy_gradient": _listed(made.entropy_gradient),
        "kl_gradient": _listed(made.kl_gradient),
        "terms": made.terms,
        "loss": made.loss,
    }
