"""What each KL penalty's gradient really is, by enumerating a vocabulary of four: no sampling, no tolerance games."""

import pytest
import torch
from torch import Tensor

from grpo.algorithm import kl
from grpo.data import Tokens

F64 = torch.float64
LOGITS = torch.tensor([0.3, -0.8, 1.1, 0.0], dtype=F64)
REFERENCE = torch.tensor([0.9, 0.2, -0.4, 0.1], dtype=F64).log_softmax(0)


def reverse(logits: Tensor) -> Tensor:
    """KL(π‖π_ref) = Σ_v π (log π − log π_ref)."""
    logp = logits.log_softmax(0)
    return (logp.exp() * (logp - REFERENCE)).sum()


def forward(logits: Tensor) -> Tensor:
    """KL(π_ref‖π)."""
    return (REFERENCE.exp() * (REFERENCE - logits.log_softmax(0))).sum()


def slope(function) -> Tensor:
    logits = LOGITS.clone().requires_grad_()
    return torch.autograd.grad(function(logits), logits)[0]


def tokens(logits: Tensor) -> Tokens:
    """Each token of the vocabulary once, as a completion of one token."""
    logp = logits.log_softmax(0)[:, None]
    ones = torch.ones(4, 1, dtype=torch.bool)
    exact = reverse(logits).expand(4, 1)
    return Tokens(logp, ones, torch.zeros(4), torch.zeros(4), logp_ref=REFERENCE[:, None], kl_exact=exact)


def expected(part):
    """Σ_v π(v) · penalty(v) with π(v) as constants: what sampling does, on average."""
    shares = LOGITS.softmax(0)
    return lambda logits: (shares * part(tokens(logits)).squeeze(1)).sum()


@pytest.mark.parametrize(
    ("part", "truth"),
    [
        (kl.K1(), lambda logits: 0 * logits.sum()),  # Σ π ∇log π = 0: no penalty at all
        (kl.K2(), reverse),
        (kl.K3(), forward),  # Σ π (1 − π_ref/π) ∇log π = −Σ π_ref ∇log π
        (kl.ExactKL(), reverse),
    ],
    ids=["k1", "k2", "k3", "exact"],
)
def test_gradient_in_the_loss(part, truth) -> None:
    torch.testing.assert_close(slope(expected(part)), slope(truth), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("part", "unbiased"), [(kl.K1(), True), (kl.K2(), False), (kl.K3(), True), (kl.ExactKL(), True)]
)
def test_value(part, unbiased: bool) -> None:
    value, truth = expected(part)(LOGITS).item(), reverse(LOGITS).item()
    assert (abs(value - truth) < 1e-14) == unbiased


@pytest.mark.parametrize(("part", "same"), [(kl.K1(), True), (kl.K2(), False), (kl.K3(), False)])
def test_gradient_in_the_reward(part, same: bool) -> None:
    """E[k ∇log π], the penalty detached: with k1 it is ∇KL(π‖π_ref), since E[∇log π] = 0."""
    shares, penalty = LOGITS.softmax(0), part(tokens(LOGITS)).squeeze(1).detach()
    found = slope(lambda logits: (shares * penalty * logits.log_softmax(0)).sum())
    assert torch.allclose(found, slope(reverse), rtol=1e-12, atol=1e-14) == same
