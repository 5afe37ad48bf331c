"""Every loss vector of golden.json, through the configuration: loss, ∂loss/∂log π and advantages."""

from __future__ import annotations

import math

import golden
import pytest
import torch

TIGHT = {"rtol": 1e-9, "atol": 1e-12}
SINGLE = {"rtol": 2e-5, "atol": 1e-6}


def compare(result: golden.Result, expected: dict, tolerance: dict) -> None:
    loss = result.loss.loss.double()
    torch.testing.assert_close(loss.item(), expected["loss"], **tolerance)
    wanted = golden.column(expected["dloss_dlogp"], torch.float64)
    torch.testing.assert_close(result.gradient.double(), wanted, **tolerance)
    advantages = golden.column(expected["advantages"], torch.float64)
    torch.testing.assert_close(result.advantages.double(), advantages, **tolerance)


@pytest.mark.parametrize("name", golden.LOSSES)
def test_float64(name: str) -> None:
    vector = golden.VECTORS[name]
    compare(golden.run(vector), vector["expected"], TIGHT)


@pytest.mark.parametrize("name", golden.LOSSES)
def test_float32(name: str) -> None:
    vector = golden.VECTORS[name]
    compare(golden.run(vector, torch.float32), vector["expected"], SINGLE)


@pytest.mark.parametrize("poison", [math.nan, 1e30, -1e30])
@pytest.mark.parametrize("name", golden.LOSSES)
def test_padding_changes_nothing(name: str, poison: float) -> None:
    """Bit for bit: value, gradient, objective and diagnostics."""
    clean, dirty = golden.run(golden.VECTORS[name]), golden.run(golden.VECTORS[name], poison=poison)
    assert torch.equal(clean.loss.loss, dirty.loss.loss)
    assert torch.equal(clean.gradient, dirty.gradient)
    assert torch.equal(clean.loss.objective, dirty.loss.objective)
    for key, values in clean.loss.diagnostics.items():
        assert torch.equal(values, dirty.loss.diagnostics[key]), key


@pytest.mark.parametrize("name", golden.LOSSES)
def test_terms_add_up(name: str) -> None:
    loss = golden.run(golden.VECTORS[name]).loss
    torch.testing.assert_close(sum(loss.terms.values()), loss.loss, rtol=1e-12, atol=1e-15)
