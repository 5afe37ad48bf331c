"""The float32 head: what bfloat16 loses there, and that nothing else of the model changes."""

import copy

import pytest
import torch
from tests.conftest import make_llama

from grpo.errors import UserError
from grpo.models.head import Fp32Head, compute_in_fp32

IDS = torch.tensor([[3, 7, 1, 9]])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_logits_are_the_float32_product(dtype: torch.dtype) -> None:
    model = make_llama().to(dtype)
    names = list(model.state_dict())
    hidden = model.model(IDS).last_hidden_state
    plain = model(IDS).logits
    compute_in_fp32(model)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    logits = copy.deepcopy(model)(IDS).logits  # an engine's private copy keeps it
    assert logits.dtype == wide
    expected = hidden.to(wide) @ model.lm_head.weight.to(wide).T
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)
    rounding = (plain.to(wide) - expected).abs().max().item()
    assert (rounding > 1e-4) == (dtype == torch.bfloat16)  # 8 bits of a logit near 0.1 are 4e-4
    assert list(model.state_dict()) == names


def test_it_works_under_autocast_and_trains_the_weights() -> None:
    model = make_llama().float()
    compute_in_fp32(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(IDS).logits
    assert logits.dtype == torch.float32
    logits.logsumexp(-1).sum().backward()
    assert model.lm_head.weight.grad.abs().sum() > 0


def test_a_head_that_is_no_linear_layer_is_refused() -> None:
    model = make_llama()
    model.set_output_embeddings(torch.nn.Sequential(model.lm_head))
    with pytest.raises(UserError, match=r"model.fp32_head   the output layer of this model is a Sequential"):
        compute_in_fp32(model)
    assert isinstance(make_llama().lm_head, torch.nn.Linear)
    assert not isinstance(make_llama().lm_head, Fp32Head)
