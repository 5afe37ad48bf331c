"""TRL's own loss code as a witness: same batch, same loss, same ∂loss/∂log π, from rewards to gradient."""

from __future__ import annotations

from typing import Any

import pytest
from tests.witness.trl_batches import close, on_policy, ours, random_batch
from tests.witness.trl_cases import ALL, CASES
from tests.witness.trl_stub import needs_trl, trl

pytestmark = needs_trl


def compare(words: str, settings: dict[str, Any], batch: dict[str, Any]) -> None:
    """Advantages, loss and gradient; `ours` sees nan in the padding, TRL any finite number."""
    result, witness = ours(words, batch), trl(batch, **settings)
    assert witness.gradient.abs().sum() > 1e-3, "a batch without gradient compares nothing"
    close(result.advantages, witness.advantages)
    close(result.loss.loss, witness.loss)
    close(result.gradient, witness.gradient)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ALL)
def test_off_policy(name: str, seed: int) -> None:
    compare(ALL[name].words, ALL[name].settings, random_batch(seed))


@pytest.mark.parametrize("name", ALL)
def test_on_policy(name: str) -> None:
    """The first update of a step: TRL keeps no log π_old without an engine, and neither do we."""
    compare(ALL[name].words, ALL[name].settings, on_policy(random_batch(7)))


@pytest.mark.parametrize("name", [name for name in CASES if "truncated masked" not in name])
def test_an_empty_completion_counts(name: str) -> None:
    """A completion without tokens adds 0 and stays in N: aggregation.empty=counted, our default.

    With mask_truncated_completions TRL fails on it: test_trl_differences.
    """
    compare(CASES[name].words, CASES[name].settings, random_batch(8, empty=True))


@pytest.mark.parametrize("name", [name for name in ALL if ALL[name].other])
def test_the_comparison_can_fail(name: str) -> None:
    """Another value of the number that makes the algorithm is seen in some batch."""
    case, failures = ALL[name], 0
    key = case.other.split("=")[0]
    words = " ".join([word for word in case.words.split() if not word.startswith(f"{key}=")] + [case.other])
    for seed in range(4):
        try:
            compare(words, case.settings, random_batch(seed))
        except AssertionError:
            failures += 1
    assert failures, f"{case.other} changes nothing on these batches"


@pytest.mark.parametrize("name", ["grpo", "grpo, β", "dapo", "cispo", "sapo", "dr_grpo", "vespo", "tis", "mis"])
def test_micro_batches(name: str) -> None:
    """TRL's gradient accumulation gives the loss of the whole batch, to which our micro-batches also add up."""
    batch = random_batch(3)
    result, witness = ours(ALL[name].words, batch), trl(batch, micro_batches=3, **ALL[name].settings)
    close(result.loss.loss, witness.loss)
    close(result.gradient, witness.gradient)
