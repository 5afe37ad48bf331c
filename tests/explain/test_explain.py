"""`python -m grpo.explain`: numbers worked out by hand, the sentences, and the golden vectors once more."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from grpo.errors import ConfigError
from grpo.explain import batch
from grpo.explain.__main__ import against, main

GOLDEN = Path(__file__).parents[1] / "algorithm" / "data" / "golden.json"


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_figure_7_1(capsys: pytest.CaptureFixture[str]) -> None:
    """Three of five right: μ = 0.6, σ = √0.24; A = 0.4/√0.24 = +0.8165 and −0.6/√0.24 = −1.2247."""
    (grpo,) = explained(capsys, "batch=figure_7_1")["algorithms"]
    assert grpo["groups"] == [{"id": 0, "scored": 5, "mean": pytest.approx(0.6), "std": pytest.approx(math.sqrt(0.24))}]
    assert grpo["advantages"] == pytest.approx([0.8165] * 3 + [-1.2247] * 2, abs=5e-5)
    # "42": ρ = 0.45/0.30 = 1.5 > 1.2 with A > 0; "4": ρ A = 1.16 × 0.8165 before the KL penalty
    assert grpo["policy_weight"][0][0] == 0
    assert grpo["reasons"][0][0].startswith("clipped: ρ too high for A > 0")
    assert grpo["policy_weight"][1][0] == pytest.approx(1.16 * 0.8165, abs=1e-4)
    assert sum(grpo["terms"].values()) == pytest.approx(grpo["loss"])


def test_gradient_is_weight_over_length_and_count(capsys: pytest.CaptureFixture[str]) -> None:
    """sequence_mean: ∂loss/∂log π = −w / (B |o|)."""
    (sapo,) = explained(capsys, "+algo=sapo", "batch=two_completions")["algorithms"]
    for weights, gradients, length in zip(sapo["weight"], sapo["gradient"], (2, 3), strict=True):
        for w, g in zip(weights[:length], gradients[:length], strict=True):
            assert g == pytest.approx(-w / (2 * length), rel=1e-12)


def test_the_chapters_sapo_turns_round(capsys: pytest.CaptureFixture[str]) -> None:
    """ "!" of the wrong completion has ρ = 2: −(σ(x) − ρσ(1 − σ)/τ)·ρ with x = −1/1.05 > 0; published: < 0."""
    found = explained(capsys, "+algo=chapter/sapo", "--against", "+algo=sapo", "batch=two_completions")
    chapter, published = found["algorithms"]
    s = 1 / (1 + math.exp(1 / 1.05))
    assert chapter["weight"][1][2] == pytest.approx(-(s - 2 * s * (1 - s) / 1.05) * 2, rel=1e-5)
    assert chapter["weight"][1][2] > 0 > published["weight"][1][2]
    assert chapter["reasons"][1][2] == "pushed against A"
    assert found["comparisons"][0]["text"] == "gradients are not proportional"


@pytest.mark.parametrize(
    ("vector", "words"),
    [
        ("grpo/chapter/main/beta0.04", []),
        ("dapo/chapter/main", ["+algo=chapter/dapo", "filter=none", "overlong=none"]),
        ("gopo/published/main", ["+algo=gopo"]),
        ("dr_grpo/published/main", ["+algo=dr_grpo", "max_completion_tokens=4"]),
        ("dppo/published_topk_tv/topk", ["+algo=dppo", "surrogate=divergence_mask_topk_tv"]),
    ],
)
def test_golden_vectors(vector: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    vectors = {v["id"]: v for v in json.loads(GOLDEN.read_text())["vectors"]}
    if vector not in vectors:
        pytest.skip(f"GRPO's vector file has no {vector}")
    expected = vectors[vector]["expected"]
    (made,) = explained(capsys, *words, f"batch={GOLDEN}#{vectors[vector]['batch']}")["algorithms"]
    assert made["loss"] == pytest.approx(expected["loss"], rel=1e-9)
    for mine, theirs in zip(made["gradient"], expected["dloss_dlogp"], strict=True):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("+algo=rloo", "+algo=reinforce", "same gradient up to ×0.8"),  # G/(G − 1) = 5/4 the other way round
        ("+algo=grpo", "+algo=chapter/grpo", "same gradient"),
        ("+algo=gspo", "kl=k3", "gradients are not proportional"),
        ("+algo=dpo", "form.beta=0.2", "same gradient up to ×1.9284"),
    ],
)
def test_comparison(first: str, second: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = explained(capsys, first, "--against", second)["comparisons"]
    assert found["text"] == text
    assert found["proportional"] == ("same" in text)


def test_zero_gradients_are_no_proportion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Equal rewards: A = 0 for all; the KL penalty alone has a gradient."""
    file = tmp_path / "equal.json"
    file.write_text('{"logp": [[-1], [-2]], "logp_ref": [[-2], [-2]], "rewards": [1, 1]}')
    words = ["kl=none", f"batch={file}", "--against", "surrogate=reinforce", "--against", "kl=k3"]
    both, one = explained(capsys, *words)["comparisons"]
    assert both["text"] == "both gradients are zero on this batch"
    assert one["text"] == "gradients are not proportional"


def test_what_leaves_the_loss_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = {
        "logp": [[-1], [-1, -2], [-1], [-1], [-1], [-1]],
        "rewards": [1, 0, None, 1, 1, 1],
        "group_ids": [7, 7, 7, 7, 3, 3],
        "truncated": [False, False, False, True, False, False],
    }
    (tmp_path / "b.json").write_text(json.dumps(data))
    (dapo,) = explained(capsys, "+algo=dapo", "overlong=mask_truncated", f"batch={tmp_path}/b.json")["algorithms"]
    again = "mixed_groups: its group would be drawn again"
    assert dapo["left_out"] == ["", "", "no reward applies", "cut by the length limit", again, again]
    assert dapo["in_loss"] == [True, True, False, False, False, False]
    assert dapo["rewards"][2] is None
    assert dapo["inert"] == ["clip: no effect with one update per rollout (updates.minibatches=4 makes it matter)"]


def test_shaping_joins_the_rewards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of two tokens in a budget of 2: the interval is 0.4, |o| = 2 costs −1; |o| = 1 costs nothing."""
    (tmp_path / "b.json").write_text('{"logp": [[-1, -1], [-1]], "rewards": [1, 0], "accuracy": [1, 0]}')
    (dapo,) = explained(capsys, "+algo=dapo", "max_completion_tokens=2", f"batch={tmp_path}/b.json")["algorithms"]
    assert dapo["rewards"] == pytest.approx([0.0, 0.0], abs=1e-12)


def test_a_group_without_scores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "b.json").write_text('{"logp": [[-1], [-1], [-2]], "rewards": [null, 1, 0], "group_ids": [0, 1, 1]}')
    words = ["kl=none", f"batch={tmp_path}/b.json"]
    (grpo,) = explained(capsys, *words)["algorithms"]
    assert grpo["groups"][0] == {"id": 0, "scored": 0, "mean": None, "std": None}
    assert grpo["advantages"] == [0.0, 1.0, -1.0]
    assert main(words) == 0
    assert "group 0: 0 rewards\n" in capsys.readouterr().out


def test_an_algorithm_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--config-dir brings its page too."""
    (tmp_path / "algo").mkdir()
    head = "# @package _global_\n# Mine, arXiv:2401.00001\n#   J = A log π\n"
    parts = "defaults: [override /surrogate: reinforce, override /kl: none]\nname: mine\n"
    (tmp_path / "algo" / "mine.yaml").write_text(head + parts)
    (mine,) = explained(capsys, "+algo=mine", "--config-dir", str(tmp_path))["algorithms"]
    assert (mine["paper"], mine["formula"]) == ("arXiv:2401.00001", ["J = A log π"])


def test_tables_name_every_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["+algo=tis", "--against", "+algo=dapo", "--against", "+algo=raft", "--against", "+algo=chapter/dr_grpo"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "a  tis (published)" in text
    assert "d  chapter/dr_grpo (chapter)" in text
    assert "a, b, d: clipped: ρ too high for A > 0" in text
    assert "…" not in text.split("group 0")[1]


def test_what_against_keeps_of_the_first() -> None:
    first = ["+algo=dapo", "surrogate=clip", "surrogate.high=0.3", "max_completion_tokens=8"]
    assert against(first, ["+algo=sapo"]) == ["max_completion_tokens=8", "+algo=sapo"]
    assert against(first, ["surrogate=soft_gate"]) == ["+algo=dapo", "max_completion_tokens=8", "surrogate=soft_gate"]
    assert against(first, ["surrogate.high=0.2"]) == [first[0], first[1], first[3], "surrogate.high=0.2"]


GOOD = {"logp": [[-1.0, -2.0], [-1.0]], "rewards": [1.0, 0.0]}


@pytest.mark.parametrize(
    ("changes", "key", "sentence"),
    [
        ({"logp": None}, "logp", "is missing: the log-probabilities of the sampled tokens, a list per completion"),
        ({"rewards": None}, "rewards", "is missing: one number per completion, null where no reward applies"),
        ({"logp": [[-1.0, math.nan], [-1.0]]}, "logp", "of completion 1, token 2 is nan, but the token counts; "
         "give a number or set its mask to 0"),
        ({"logp": [[-1.0, 0.5], [-1.0]]}, "logp", "of completion 1, token 2 is 0.5; the logarithm of a probability is "
         "at most 0"),
        ({"logp_old": [[-1.0], [-1.0]]}, "logp_old", "has 1 tokens for completion 1, logp has 2"),
        ({"logp_ref": [[-1.0, -1.0]]}, "logp_ref", "has 1 completions, logp has 2"),
        ({"rewards": [1.0, math.inf]}, "rewards", "of completion 2 is inf; give a finite number, or null where no "
         "reward applies"),
        ({"rewards": [1.0]}, "rewards", "has 1 entries, logp has 2"),
        ({"group_ids": [0, "a"]}, "group_ids", 'of completion 2 is "a", not a whole number'),
        ({"grup_ids": [0, 0]}, "grup_ids", "there is no such field; did you mean group_ids?"),
        ({"rewards_per_func": [[1], [0]], "reward_weights": [1, 2]}, "reward_weights", "needs 1 numbers, one for each "
         "column of rewards_per_func"),
    ],
)  # fmt: skip
def test_a_wrong_batch_is_a_sentence(changes: dict[str, Any], key: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        batch.check(GOOD | changes)
    assert [(m.key, m.sentence) for m in error.value.mistakes] == [(key, sentence)]


def test_nan_where_the_mask_is_zero_is_fine() -> None:
    made = batch.check(GOOD | {"logp": [[-1.0, math.nan], [-1.0]], "mask": [[1, 0], [1]]})
    assert made.mask == [[True, False], [True, False]]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["batch=nowhere.json"], "batch   there is no file nowhere.json, and the batches by name are figure_7_1"),
        ([f"batch={GOLDEN}"], "holds 8 batches; say batch="),
        (["batch=README.md"], "batch   README.md is not JSON"),
        (["+algo=tis", "batch=BARE"], "logp_rollout   is read by tis (truncate(token, 2)) and missing in bare; add it"),
        (["batch=BARE"], "logp_ref   is read by grpo (0.04·k3 in the loss) and missing in bare; add it, or choose"),
        (["+algo=dpo", "batch=BARE"], "and missing in bare; add it, or say form.anchor=old"),
        (["+algo=sapoo"], "there is no algorithm sapoo; did you mean sapo?"),
        (["--agains", "+algo=sapo"], "unrecognized arguments: --agains"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_sentence(
    words: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare.json").write_text(json.dumps(GOOD | {"rewards": [1.0, 0.0]}))
    (tmp_path / "README.md").write_text("# no JSON")
    monkeypatch.chdir(tmp_path)
    assert main([word.replace("BARE", "bare.json") for word in words]) == 1
    assert sentence in capsys.readouterr().err.replace(str(tmp_path), "")


def test_shipped_batches_are_whole() -> None:
    for name in batch.shipped():
        assert all(any(row) for row in batch.read(name).mask)
    assert {"figure_7_1", "two_completions"} <= set(batch.shipped())


@pytest.mark.parametrize(("algorithm", "batch", "said"), [
    ("two_grpo", "figure_7_1", True),
    ("chapter/two_grpo", "figure_7_1", True),
    ("two_grpo", "two_completions", False),
    ("grpo", "figure_7_1", False),
])  # fmt: skip
def test_groups_that_two_grpo_never_samples(algorithm: str, batch: str, said: bool, capsys) -> None:
    assert main([f"+algo={algorithm}", f"batch={batch}", "kl=none"]) == 0
    assert (
        "two completions per prompt; this batch has groups of 5" in " ".join(capsys.readouterr().out.split())
    ) == said
