"""Reward models: the score is the model's own, whatever the batch, and nothing is cut or made up."""

from __future__ import annotations

import pytest
import torch

from grpo.algorithm.advantage import GroupZScore, RewardDecoupled
from grpo.config.schema import RewardConfig
from grpo.data import Prompt, Rollout
from grpo.errors import UserError
from grpo.rewards.model import RewardModel
from grpo.rewards.networks import batches
from grpo.rewards.scoring import Scorer
from tests.rewards.networks import TINY, decoder, encoder

PROMPTS = ["2+2=", "2+2=", "1=", "what is it?"]
TEXTS = ["4", "it is 5, I think", "", "no"]


def alone(path: str, text: str) -> float:
    """The logit of one row without padding, by transformers alone."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
    model = AutoModelForSequenceClassification.from_pretrained(path).eval()
    with torch.no_grad():
        return model(input_ids=ids).logits[0, 0].item()


def rendered(prompt: str, text: str) -> str:
    return f"<bos>user: {prompt}\nassistant: {text}\n"


@pytest.mark.parametrize("pad", [0, 2, None])
@pytest.mark.parametrize("rows", [1, 3, 16])
def test_a_plain_prompt_is_the_users_and_batches_change_nothing(tmp_path, pad, rows: int) -> None:
    path = decoder(tmp_path, pad=pad)
    scores = RewardModel(path=path, rows=rows, device="cpu")(PROMPTS, TEXTS)
    assert scores == pytest.approx([alone(path, rendered(p, t)) for p, t in zip(PROMPTS, TEXTS, strict=True)], abs=1e-5)
    assert len(set(scores)) == 4


def test_message_lists_are_the_conversation(tmp_path) -> None:
    path = decoder(tmp_path)
    made = RewardModel(path=path, device="cpu")
    chat = [{"role": "system", "content": "add"}, {"role": "user", "content": "2+2"}]
    (score,) = made([chat], [[{"role": "assistant", "content": "4"}]])
    assert score == pytest.approx(alone(path, "<bos>system: add\nuser: 2+2\nassistant: 4\n"), abs=1e-5)


def test_text_and_pair(tmp_path) -> None:
    path = decoder(tmp_path / "text", template=False)
    assert RewardModel(path=path, form="text", device="cpu")(["2+2="], ["4"]) == pytest.approx(
        [alone(path, "<bos>2+2=4")], abs=1e-5
    )
    path = encoder(tmp_path / "pair")
    made = RewardModel(path=path, form="pair", device="cpu")
    scores = made(["one and two"] * 2, ["three", "three and one"])

    from transformers import AutoTokenizer, BertForSequenceClassification

    both = AutoTokenizer.from_pretrained(path)("one and two", "three", return_tensors="pt")
    assert both["token_type_ids"].tolist() == [[0, 0, 0, 0, 0, 1, 1]]  # [CLS] one and two [SEP] three [SEP]
    with torch.no_grad():
        expected = BertForSequenceClassification.from_pretrained(path).eval()(**both).logits[0, 0].item()
    assert scores[0] == pytest.approx(expected, abs=1e-5)
    assert scores[1] != pytest.approx(expected, abs=1e-3)


def test_too_long_is_counted_and_never_cut(tmp_path) -> None:
    path = decoder(tmp_path)
    # "<bos>user: q\nassistant: " is 1 + 8 + 11 = 20 tokens, and the newline after the answer one more.
    fits, long = "4" * 43, "4" * 44  # 64 and 65 of 64 positions
    made = RewardModel(path=path, device="cpu")
    scores = made(["q", "q"], [long, fits])
    assert scores[0] is None
    assert scores[1] == pytest.approx(alone(path, rendered("q", fits)), abs=1e-5)
    assert made.metrics() == {"too_long": 1.0}
    assert made.metrics() == {"too_long": 0.0}
    assert RewardModel(path=path, max_tokens=21, too_long=-3.0, device="cpu")(["q", "q"], ["", "4"])[1] == -3.0


def test_models_that_cannot_be_a_reward(tmp_path) -> None:
    with pytest.raises(UserError, match=r"is no reward model: it has no weights for score.weight"):
        RewardModel(path=str(TINY), device="cpu")(["q"], ["o"])
    with pytest.raises(UserError, match=r"transformers cannot load .*nowhere as a reward model"):
        RewardModel(path=str(tmp_path / "nowhere"), device="cpu")(["q"], ["o"])
    path = decoder(tmp_path / "bare", template=False)
    with pytest.raises(UserError, match="has no chat template; say form=text"):
        RewardModel(path=path, device="cpu")(["q"], ["o"])
    path = decoder(tmp_path / "two", labels=2)
    with pytest.raises(UserError, match="has 2 logits and no single score; say label="):
        RewardModel(path=path, device="cpu")(["q"], ["o"])
    with pytest.raises(UserError, match="has 2 logits, none 2"):
        RewardModel(path=path, label=2, device="cpu")(["q"], ["o"])
    first, second = (RewardModel(path=path, label=i, device="cpu")(["q"], ["o"]) for i in (0, 1))
    assert first != second


def test_close_frees_and_a_later_call_loads_again(tmp_path) -> None:
    made = RewardModel(path=decoder(tmp_path), device="cpu")
    before = made(["q"], ["o"])
    made.close()
    assert "_loaded" not in vars(made)
    assert made(["q"], ["o"]) == before


def test_multi_over_two_reward_models(tmp_path) -> None:
    """Summed and then normalised, or each normalised apart: worked from the two models' own scores."""
    paths = [decoder(tmp_path / str(seed), seed=seed) for seed in (1, 2)]
    functions = {f"m{i}": RewardModel(path=path, device="cpu") for i, path in enumerate(paths)}
    config = RewardConfig(functions=functions, weights={"m0": 1.0, "m1": 0.25}, accuracy="m0", right_at=0.0)
    prompts = [Prompt("a", (1,), "2+2="), Prompt("b", (1,), "3+3=")]
    texts = ["4", "5", "six", "6"]
    rollouts = [
        Rollout("ab"[i // 2], i // 2, i % 2, (5, 2), (0.0, 0.0), (True, True), "stop", text, 0)
        for i, text in enumerate(texts)
    ]
    scores = Scorer(config).score(prompts, rollouts)
    asked = ["2+2=", "2+2=", "3+3=", "3+3="]
    expected = [[alone(path, rendered(q, o)) for path in paths] for q, o in zip(asked, texts, strict=True)]
    assert scores.rewards.tolist() == [pytest.approx(row, abs=1e-5) for row in expected]
    assert scores.accuracy.tolist() == [float(row[0] >= 0) for row in expected]
    # Two completions a group: a z-score is ±1, whatever the distance. Summed, the sign is that of m0 + m1/4; decoupled
    # (before the batch step) A = ±1 ± ¼.
    summed = GroupZScore(eps=0.0)(scores).tolist()
    apart = RewardDecoupled(batch_step=False, eps=0.0)(scores).tolist()
    for first in (0, 2):
        gaps = [expected[first][n] - expected[first + 1][n] for n in (0, 1)]
        sign = [1.0 if gap > 0 else -1.0 for gap in gaps]
        total = 1.0 if gaps[0] + 0.25 * gaps[1] > 0 else -1.0
        assert summed[first : first + 2] == pytest.approx([total, -total], abs=1e-4)
        assert apart[first : first + 2] == pytest.approx(
            [sign[0] + 0.25 * sign[1], -sign[0] - 0.25 * sign[1]], abs=1e-4
        )


def test_rows_of_a_batch_are_of_a_similar_length() -> None:
    assert list(batches([1, 5, 3, 4], 2)) == [[1, 3], [2, 0]]
    assert list(batches([], 2)) == []
