"""log π_ref of an answer, against a loop over the network's own next-token distributions."""

from __future__ import annotations

import math

import pytest
import torch

from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.errors import UserError
from grpo.rewards.typicality import Typicality
from tests.rewards.networks import TINY

EOS = 2


@pytest.fixture(scope="module")
def network():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(TINY).eval(), AutoTokenizer.from_pretrained(TINY)


def by_hand(network, prompt: str, ids: list[int]) -> float:
    """Σ_t log softmax(logits)_t, a token at a time."""
    model, tokenizer = network
    seen, total = tokenizer.encode(prompt, add_special_tokens=False), 0.0
    for token in ids:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([seen])).logits[0, -1].double()
        total += (logits[token] - logits.logsumexp(0)).item()
        seen.append(token)
    return total


def test_sum_over_the_sampled_tokens(network) -> None:
    _, tokenizer = network
    texts = [r"\boxed{42}", r"\boxed{41}", ""]
    ids = [[*tokenizer.encode(text, add_special_tokens=False), EOS] for text in texts]
    made = Typicality(kind="tiny", device="cpu", rows=2)
    scores = made(["37+5="] * 3, texts, ids)
    assert scores == pytest.approx([by_hand(network, "<bos>37+5=", row) for row in ids], abs=1e-4)
    assert scores[0] > scores[2]  # what the embedded policy was warmed up on
    means = Typicality(kind="tiny", device="cpu", mean=True)(["37+5="] * 3, texts, ids)
    assert means == pytest.approx([s / n for s, n in zip(scores, (11, 11, 1), strict=True)], abs=1e-5)


def test_conversations_end_with_the_assistants_header(network) -> None:
    _, tokenizer = network
    chat = [{"role": "user", "content": "hi"}]
    ids = tokenizer.encode("4", add_special_tokens=False)
    made = Typicality(kind="tiny", device="cpu")
    (score,) = made([chat], [[{"role": "assistant", "content": "4"}]], [ids])
    assert score == pytest.approx(by_hand(network, "<bos>user: hi\nassistant: ", ids), abs=1e-4)


def test_own_tokens_are_the_text_and_an_end(network) -> None:
    _, tokenizer = network
    made = Typicality(kind="tiny", device="cpu", tokens="own")
    (score,) = made(["1+1="], ["2"], [[99999]])  # the policy's ids mean nothing here
    assert score == pytest.approx(by_hand(network, "<bos>1+1=", [*tokenizer.encode("2")[1:], EOS]), abs=1e-4)
    with pytest.raises(UserError, match="has fewer tokens than the policy; say tokens=own"):
        Typicality(kind="tiny", device="cpu")(["1+1="], ["2"], [[99999]])


def test_nothing_sampled_has_probability_one() -> None:
    made = Typicality(kind="tiny", device="cpu", mean=True)
    scores = made(["1+1="] * 2, ["", "2"], [[], [21]])
    assert scores[0] == 0.0
    assert math.isfinite(scores[1])
    made.close()
    assert "_loaded" not in vars(made)


def test_by_default_the_reference_is_where_the_run_starts() -> None:
    config, _ = load(["reward=typicality", "trainer=cpu"], Composer())
    made = config.reward.functions["typicality"]
    assert (made.kind, made.path, made.device) == ("tiny", None, "cpu")
    assert config.reward.weights == {"exact": 1.0, "typicality": 0.1}
