"""The tests that judge mutants (`mutation.py`), as functions to call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import golden
import test_composition
import test_edges
import test_golden
import test_invariance
import test_kl_gradients
import test_pairs
import test_properties
import test_tables
import torch

SLOW = {"test_parts_are_imported_without_torch", "test_every_vector_is_reproduced", "test_group_size_table"}


def cases(test: Callable[..., None]) -> list[Callable[[], None]]:
    """A test, once for each of its parameters."""
    calls: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        names, values = mark.args
        if isinstance(names, str):
            names, values = [names], [[value] for value in values]
        calls = [{**call, **dict(zip(names, value, strict=True))} for call in calls for value in values]
    return [partial(test, **call) for call in calls]


def checks() -> list[Callable[[], None]]:
    """The tests, cheapest and sharpest first."""

    def tests(module: ModuleType, spread: bool) -> list[Callable[[], None]]:
        """All tests of a module, or those without parameters."""
        found = [f for name, f in vars(module).items() if name.startswith("test_") and name not in SLOW]
        return [call for f in found if spread or not hasattr(f, "pytestmark") for call in cases(f)]

    calls: list[Callable[[], None]] = [partial(test_golden.test_float64, name) for name in golden.LOSSES]
    for module in (test_edges, test_pairs, test_kl_gradients, test_tables, test_properties):
        calls += tests(module, spread=True)
    for module in (test_composition, test_invariance):  # of their parameters, all algorithms, the chosen ones below
        calls += tests(module, spread=False)
    for name in (
        "grpo",
        "chapter/tis",
        "mis",
        "chapter/dr_grpo",
        "dpo",
        "scalerl",
        "dppo",
        "reinforce_pp",
        "rloo",
        "raft",
    ):
        finite = test_invariance.test_degenerate_batches_stay_finite
        calls += [partial(finite, name, case) for case in test_invariance.SCENARIOS]
        calls += [partial(test_invariance.test_what_is_not_sampled_changes_nothing, name)]
        calls += [partial(test_invariance.test_micro_batches_order_and_padding, name, torch.float64)]
    calls += [partial(test_invariance.test_an_engine_without_logp_gets_no_weight, "tis")]
    calls += [partial(test_invariance.test_infinite_rewards_are_an_error, float("inf"))]
    return calls
