"""Every loss vector of golden.json again, as `python -m grpo.explain` accounts for it: loss, gradient, advantages."""

from __future__ import annotations

import golden
import pytest
import torch
from test_golden import TIGHT

from grpo.explain import batch
from grpo.explain.account import account


@pytest.mark.parametrize("name", golden.LOSSES)
def test_account(name: str) -> None:
    vector = golden.VECTORS[name]
    hparams, data = vector["hparams"], dict(golden.FILE["batches"][vector["batch"]])
    if "reward_weights" in hparams:
        data["reward_weights"] = hparams["reward_weights"]
    if hparams.get("force_all_truncated"):
        data["truncated"] = [True] * len(data["logp"])
    objective, budget = golden.objective_of(golden.overrides(vector))
    made = account(objective, batch.check(data), budget)
    expected = vector["expected"]
    assert made.loss == pytest.approx(expected["loss"], rel=1e-9, abs=1e-12)
    torch.testing.assert_close(made.gradient, golden.column(expected["dloss_dlogp"], torch.float64), **TIGHT)
    if made.advantages is not None and made.token_advantages is None:
        torch.testing.assert_close(made.advantages, golden.column(expected["advantages"], torch.float64), **TIGHT)
    assert sum(made.terms.values()) == pytest.approx(made.loss, rel=1e-12, abs=1e-15)
