"""From logits to a token and its log μ."""

import math

import pytest
import torch

from grpo.data import Sampling
from grpo.rollout.sampling import draw, processed, tempered


def logits_of(*probabilities: float) -> torch.Tensor:
    return torch.tensor([probabilities], dtype=torch.float64).log()


def test_temperature_divides_the_logits() -> None:
    # logits [2, 0] at T = 0.5: log softmax([4, 0])_0 = -log(1 + e^-4) = -0.01815; not -0.12693 (no scaling),
    # not -0.25386 (log-probs divided by T)
    logits = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
    assert float(tempered(logits, 0.5)[0, 0]) == pytest.approx(-0.018149927917809)
    # T = 0 is greedy: log-probs are the unscaled ones, -log(1 + e^-2)
    assert float(tempered(logits, 0.0)[0, 0]) == pytest.approx(-0.126928011042972)


def test_bfloat16_logits_become_float32() -> None:
    assert tempered(torch.zeros(1, 4, dtype=torch.bfloat16), 1.0).dtype == torch.float32


def test_top_p_renormalises_on_its_support() -> None:
    # 0.6 + 0.3 reach 0.9: token 2 goes, token 0 has 0.6/0.9
    logp = processed(logits_of(0.6, 0.3, 0.1), Sampling(top_p=0.9))
    assert logp.exp().tolist()[0] == pytest.approx([2 / 3, 1 / 3, 0.0])
    assert float(logp[0, 0]) == pytest.approx(-0.4054651)


def test_top_p_always_keeps_the_likeliest_token() -> None:
    for top_p in (0.1, 1e-7):
        logp = processed(logits_of(0.6, 0.3, 0.1), Sampling(top_p=top_p))
        assert logp.exp().tolist()[0] == pytest.approx([1, 0, 0])


def test_top_k_and_min_p() -> None:
    assert processed(logits_of(0.5, 0.3, 0.2), Sampling(top_k=2)).exp().tolist()[0] == pytest.approx([5 / 8, 3 / 8, 0])
    # min_p 0.5 of the maximum 0.5 is 0.25: only 0.5 and 0.3 stay
    assert processed(logits_of(0.5, 0.3, 0.2), Sampling(min_p=0.5)).exp().tolist()[0] == pytest.approx(
        [5 / 8, 3 / 8, 0]
    )


def test_draw_inverts_the_cumulative_distribution() -> None:
    # cumulative .35 .60 .80 .92 1.00, first index above u
    logp = logits_of(0.35, 0.25, 0.2, 0.12, 0.08).expand(7, -1)
    u = torch.tensor([0.0, 0.349, 0.351, 0.61, 0.799, 0.95, 0.999999], dtype=torch.float64)
    assert draw(logp, u, greedy=False).tolist() == [0, 0, 1, 2, 2, 4, 4]


def test_draw_never_returns_a_token_without_probability() -> None:
    logp = processed(logits_of(0.6, 0.3, 0.1), Sampling(top_k=2)).expand(2, -1)
    u = torch.tensor([0.0, 1 - 2**-53], dtype=torch.float64)
    assert draw(logp, u, greedy=False).tolist() == [0, 1]


def test_greedy_is_the_mode() -> None:
    assert draw(logits_of(0.2, 0.5, 0.3), torch.zeros(1, dtype=torch.float64), greedy=True).tolist() == [1]


def test_frequencies_follow_the_distribution() -> None:
    from grpo.rollout.randomness import stable_hash, uniform

    count = 20_000
    u = uniform(torch.tensor([stable_hash("freq", i) for i in range(count)]), 0)
    tokens = draw(logits_of(0.7, 0.2, 0.1).expand(count, -1), u, greedy=False)
    for token, p in enumerate((0.7, 0.2, 0.1)):
        share = float((tokens == token).double().mean())
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / count)
