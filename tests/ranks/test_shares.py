"""Who samples, and who trains, what."""

from __future__ import annotations

import pytest
import torch

from grpo.data import Prompt
from grpo.ranks import ranks
from grpo.rewards.log import RewardLog
from grpo.rollout.shared import dealt
from grpo.training.batch import microbatches, shares
from tests.ranks.cases import by_hand


def test_prompts_are_dealt_evenly_and_equal_ones_to_one_rank() -> None:
    prompts = [Prompt(name, (1,), "") for name in "abacd"]
    # a twice to the first; b, c to the second, then both have two: d to the first.
    assert dealt(prompts, 2) == [[0, 2, 4], [1, 3]]
    assert dealt(prompts, 1) == [[0, 1, 2, 3, 4]]
    assert dealt(prompts[:1], 3) == [[0], [], []]


def test_rows_are_shared_by_their_tokens() -> None:
    # With 2 prompt tokens: 12, 4, 5, 6, and one without weight. 12 | 6, 5 (11), then 4 to the 11.
    batch = by_hand([10, 2, 3, 4, 9, 9], [1.0, -1.0, 1.0, -1.0, 0.0, 0.0])
    assert [part.tolist() for part in shares(batch, 2)] == [[0], [1, 2, 3]]
    assert [part.tolist() for part in shares(batch, 1)] == [[0, 1, 2, 3]]
    # Groups: 16 | 11. The whole update: one rank.
    assert [part.tolist() for part in shares(batch, 2, together="groups")] == [[0, 1], [2, 3]]
    assert [part.tolist() for part in shares(batch, 2, together="update")] == [[0, 1, 2, 3], []]
    assert [part.tolist() for part in shares(batch, 2, torch.tensor([4, 5]))] == [[4], [5]]


@pytest.mark.parametrize("together", ["rows", "groups", "update"])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_row_has_one_rank_and_no_unit_is_parted(count: int, together: str) -> None:
    batch = by_hand([7, 1, 4, 4, 9, 2, 3, 3], [1.0, -1.0, 0.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    parts = shares(batch, count, together=together)  # type: ignore[arg-type]
    assert sorted(torch.cat(parts).tolist()) == batch.active.nonzero().squeeze(-1).tolist()
    if together == "groups":
        groups = [set(batch.groups[part].tolist()) for part in parts]
        assert sum(map(len, groups)) == len(set.union(*groups))
    for part in parts:
        split = microbatches(batch, 20, part, together=together)  # type: ignore[arg-type]
        assert sorted(torch.cat([*split, part[:0]]).tolist()) == part.tolist()


def test_tensors_are_summed_in_pieces_of_one_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "PIECE", 5)
    tensors = [torch.zeros(n, dtype=dtype) for n, dtype in ((3, torch.float32), (2, torch.float32),
               (1, torch.float32), (1, torch.float64), (9, torch.float64))]  # fmt: skip
    # 3 + 2 fill a piece; another type begins a new one; what is larger than a piece goes alone.
    assert [[len(t) for t in piece] for piece in ranks.pieces(tensors)] == [[3, 2], [1], [1], [9]]
    assert list(ranks.pieces([])) == []


def test_reward_logs_are_joined() -> None:
    one = RewardLog({"m": [1.0]}, {"c": 2.0}, {(0, 0): {"x": 1}})
    one.merge(RewardLog({"m": [3.0], "n": [4.0]}, {"c": 5.0}, {(0, 0): {"y": 2}, (1, 0): {"x": 3}}))
    assert one.metrics() == {"m": 2.0, "n": 4.0, "c": 7.0}
    assert one.columns == {(0, 0): {"x": 1, "y": 2}, (1, 0): {"x": 3}}
