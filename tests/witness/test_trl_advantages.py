"""TRL's own advantage code as a witness, which is inline in its generation method, and its soft overlong punishment."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.algorithm import golden
from tests.algorithm.golden import objective_of, scores_of
from tests.witness.trl_batches import BUDGET, TRL_SIGMA, close
from tests.witness.trl_stub import Stub, classes, generated, loss_of, needs_trl, stub

pytestmark = needs_trl

SCALINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "group": (f"advantage=group_zscore {TRL_SIGMA}", {"scale_rewards": "group"}),
    "batch": (f"advantage=group_mean_batch_std advantage.std_of=raw {TRL_SIGMA}", {"scale_rewards": "batch"}),
    "none": ("advantage=group_mean", {"scale_rewards": "none"}),
    "gdpo": (f"advantage=reward_decoupled {TRL_SIGMA}", {"multi_objective_aggregation": "normalize_then_sum"}),
}


def table_batch(rewards: list[list[float | None]], size: int, weights: list[float]) -> dict[str, Any]:
    """Completions of one token each with these rewards, in groups of `size`."""
    rows = len(rewards)
    return {
        "logp": [[-1.0]] * rows,
        "mask": [[1]] * rows,
        "truncated": [False] * rows,
        "group_ids": [row // size for row in range(rows)],
        "rewards_per_func": rewards,
        "reward_weights": weights,
    }


def both(scaling: str, batch: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Our advantages and TRL's."""
    words, settings = SCALINGS[scaling]
    advantages = objective_of(tuple(words.split()))[0].advantages(scores_of(batch, batch["reward_weights"]))
    return advantages, generated(stub(batch, **settings))["advantages"]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scaling", SCALINGS)
def test_advantages(scaling: str, seed: int) -> None:
    """Three rewards of unequal spread and weight; odd seeds leave a third of them out, and a completion unscored."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(20, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 10.0, 0.1]) - 0.3
    table[4:8, 0] = 0.25  # a group without spread in one reward
    table[8:12] = 0.5  # … and in all of them
    missing = torch.rand(20, 3, generator=generator) < (0.3 if seed % 2 else 0.0)
    missing[1] = missing[13:16] = bool(seed % 2)  # an unscored completion; a group with a single scored one
    rows = [
        [None if m else x for x, m in zip(*pair, strict=True)]
        for pair in zip(table.tolist(), missing.tolist(), strict=True)
    ]
    result, witness = both(scaling, table_batch(rows, 4, [1.0, 0.3, 2.0]))
    assert witness.abs().max() > 0.1
    close(result, witness)
    for other in SCALINGS.keys() - {scaling}:
        assert not torch.allclose(result, both(other, table_batch(rows, 4, [1.0, 0.3, 2.0]))[0]), other


def test_a_pair() -> None:
    """TRL divides by the sample σ + 1e-4: a pair gets ±0.5 / (√½ + 1e-4) = ±0.70701, where the paper's σ gives ±1."""
    batch = table_batch([[1.0], [0.0]], 2, [1.0])
    result, witness = both("group", batch)
    close(witness, [0.5 / (0.5**0.5 + 1e-4), -0.5 / (0.5**0.5 + 1e-4)])
    close(result, witness)
    close(objective_of(())[0].advantages(scores_of(batch, [1.0])), [1.0, -1.0])


def test_a_small_gap() -> None:
    """TRL's eps shrinks small gaps: 0.001 between two rewards gives ±0.0005/(0.000707 + 1e-4) = ±0.619, not ±0.707."""
    result, witness = both("group", table_batch([[0.001], [0.0]], 2, [1.0]))
    close(witness, [0.0005 / (0.0005 * 2**0.5 + 1e-4), -0.0005 / (0.0005 * 2**0.5 + 1e-4)])
    close(result, witness)
    objective, _ = objective_of(("advantage.ddof=1",))
    close(objective.advantages(scores_of(table_batch([[0.001], [0.0]], 2, [1.0]), [1.0])), [0.5**0.5, -(0.5**0.5)])


def scored_by_trl(rewards: list[float], **settings: Any) -> torch.Tensor:
    """Advantages in TRL's own dtype: the reward function is called by TRL, too. Groups of 8."""
    batch = table_batch([[r] for r in rewards], 8, [1.0])
    self = stub(batch, **settings)
    fields = {
        "reward_funcs": [lambda completions, **columns: rewards],
        "reward_processing_classes": [None],
        "reward_weights": torch.ones(1),
        "state": SimpleNamespace(global_step=0),
        "_log_completion_extra": None,
        "_log_metric": None,
        "_calculate_rewards": lambda *args: classes("grpo")[0]._calculate_rewards(self, *args),
    }
    vars(self).update(fields)
    return generated(self, torch.float32)["advantages"]


def test_equal_rewards_are_not_equal_in_float32() -> None:
    """TRL keeps rewards in float32 and has no threshold for spread: eight rewards of 0.9 have a mean of 0.89999998, and
    6e-8 / 1e-4 makes an advantage of 6e-4 of it. The batch step of normalize_then_sum blows that up to 0.8, where no
    completion of the batch was better than another one of its group. Ours are exactly 0.
    """
    rewards = [0.9] * 8 + [0.3] * 8
    assert scored_by_trl(rewards).dtype == torch.float32
    assert 5e-4 < scored_by_trl(rewards).abs().max() < 7e-4
    assert scored_by_trl(rewards, multi_objective_aggregation="normalize_then_sum").abs().min() > 0.75
    for scaling in SCALINGS:
        assert both(scaling, table_batch([[r] for r in rewards], 8, [1.0]))[0].count_nonzero() == 0


def test_soft_overlong_punishment() -> None:
    """Our shaping is TRL's function of DAPO eq. 13: 0 up to L − C, −1 at L."""
    from trl.rewards.other_rewards import get_soft_overlong_punishment

    objective, _ = objective_of(("shaping=soft_overlong", "shaping.interval=0.25"))
    lengths = list(range(1, BUDGET + 1))
    theirs = get_soft_overlong_punishment(BUDGET, BUDGET // 4)(completion_ids=[[2] * n for n in lengths])
    close(objective.shaping(torch.tensor(lengths), BUDGET, torch.zeros(BUDGET).bool()), theirs)
    assert theirs[BUDGET * 3 // 4 - 1 :] == [0.0, -0.25, -0.5, -0.75, -1.0]


REFERENCE = {
    "grpo/reference_trl/main": {"loss_type": "grpo"},
    "cispo/reference_trl/main": {"loss_type": "cispo", "epsilon_high": 5.0, "scale_rewards": "batch"},
    "gdpo/reference_trl/main": {"loss_type": "grpo", "multi_objective_aggregation": "normalize_then_sum"},
    "vespo/reference_trl/tiny": {"loss_type": "vespo"},
    "vespo/reference_trl/main": {"loss_type": "vespo"},
    "vespo/reference_trl/onpol": {"loss_type": "vespo"},
}
"""Vectors of golden.json with TRL's conventions, which tests/algorithm/test_golden.py reproduces with our parts."""


def padded(batch: dict[str, Any], weights: list[float] | None) -> tuple[dict[str, Any], list[int]]:
    """A batch with unequal groups as TRL can read it: an unscored, empty completion fills up the smaller group."""
    groups = batch["group_ids"]
    size = max(groups.count(g) for g in groups)
    order = [i for g in sorted(set(groups)) for i in ([i for i, x in enumerate(groups) if x == g] + [-1] * size)[:size]]
    empty = {"mask": [0] * len(batch["mask"][0]), "truncated": False, "rewards": None}
    empty["rewards_per_func"] = [None] * len(batch.get("rewards_per_func", [[]])[0])
    filled = {name: [empty.get(name, rows[0]) if i < 0 else rows[i] for i in order] for name, rows in batch.items()}
    filled["group_ids"] = [row // size for row in range(len(order))]
    return filled | ({"reward_weights": weights} if weights else {}), [row for row, i in enumerate(order) if i >= 0]


@pytest.mark.parametrize("name", REFERENCE)
def test_golden_vectors_are_trls(name: str) -> None:
    """Loss, gradient and advantages of the golden vectors `reference_trl`, computed by TRL itself."""
    vector = golden.VECTORS[name]
    batch, kept = padded(golden.FILE["batches"][vector["batch"]], vector["hparams"].get("reward_weights"))
    self: Stub = stub(batch, **REFERENCE[name])
    inputs = {key: x[kept] if x.dim() else x for key, x in generated(self).items()}
    real = {key: rows if key == "reward_weights" else [rows[i] for i in kept] for key, rows in batch.items()}
    witness = loss_of(self, real, inputs, updates=1, micro_batches=1)
    expected = vector["expected"]
    close(witness.advantages, expected["advantages"])
    close(witness.loss, expected["loss"])
    close(witness.gradient, expected["dloss_dlogp"])
