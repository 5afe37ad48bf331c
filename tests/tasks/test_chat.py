"""What the policy is given: one BOS, whole conversations, the assistant's header, nothing unreadable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from grpo.data import Rollout
from grpo.errors import UserError
from grpo.models.architecture import make_tokenizer
from grpo.tasks.base import SPLITS, Question, questions
from grpo.tasks.dataset import Dataset
from grpo.tasks.order import hash64
from grpo.tasks.prompts import PromptBook
from grpo.training.batch import sampled_mask

TURNS = [
    {"role": "user", "content": "What is 1+1?"},
    {"role": "assistant", "content": "2"},
    {"role": "user", "content": "And 2+2?"},
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(prompts: list[Any], **fields: Any) -> Dataset:
    text = "".join(json.dumps({"prompt": p, "answer": "1"}) + "\n" for p in prompts)
    path = Path.cwd() / f"{hash64(text)}.jsonl"  # a path is read once per process
    path.write_text(text, encoding="utf-8")
    return Dataset(path=str(path), cache_dir="cache", **fields)


def texts(task: Dataset, tokenizer: Any = None) -> list[str]:
    book = PromptBook(task, tokenizer or make_tokenizer(), 0, 512)
    return [p.text for split in SPLITS for p in book.split(split, 99)]


def numbered(turns: list[dict[str, Any]], n: int = 4) -> list[list[dict[str, Any]]]:
    return [[*turns[:-1], {**turns[-1], "content": f"{turns[-1]['content']} ({i})"}] for i in range(n)]


def test_a_conversation_is_rendered_whole_and_ends_with_the_assistants_header() -> None:
    # K04; Arrow gives every message the keys of all, so `name` comes back as None where it was not
    prompts = numbered([{**TURNS[0], "name": "Ann"}, *TURNS[1:]])
    book = PromptBook(made(prompts, system="Be brief."), make_tokenizer(), 0, 512)
    prompt = next(p for split in SPLITS for p in book.split(split, 9) if "(3)" in p.text)
    assert prompt.text == ("<bos>system: Be brief.\nuser: What is 1+1?\nassistant: 2\nuser: And 2+2? (3)\nassistant: ")
    assert prompt.token_ids.count(1) == 1  # K01: the template wrote the BOS, encoding adds no second one
    assert [m["role"] for m in prompt.messages or ()] == ["system", "user", "assistant", "user"]
    assert all(None not in m.values() for m in prompt.messages or ())


def test_a_conversations_own_system_message_stays() -> None:
    prompts = numbered([{"role": "system", "content": "Own."}, TURNS[0]])
    assert all(text.startswith("<bos>system: Own.\nuser: ") for text in texts(made(prompts, system="Ours.")))


def test_text_is_plain_or_chat_as_told() -> None:
    prompts = [f"{i}+1=" for i in range(5)]
    assert sorted(texts(made(prompts))) == prompts
    assert sorted(texts(made(prompts, chat=True))) == [f"<bos>user: {p}\nassistant: " for p in prompts]
    assert sorted(texts(made(prompts, system="S")))[0] == "<bos>system: S\nuser: 0+1=\nassistant: "
    assert texts(made(prompts, chat=False)) == texts(made(prompts))


def test_plain_text_needs_no_template_and_a_conversation_does() -> None:
    base = make_tokenizer()
    base.chat_template = None
    assert len(texts(made(["1+1=", "1+2=", "1+3="]), base)) == 3
    for task in (made(["1+1=", "1+2=", "1+3="], chat=True), made(numbered(TURNS))):
        with pytest.raises(
            UserError, match=r"^model\.chat_template   .* say model\.chat_template=<Jinja file>, or say"
        ):
            PromptBook(task, base, 0, 512)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (TURNS[:2], "ends with a message of assistant, not of the user"),
        ([], "has no prompt"),
        ([{"role": "user", "content": None}], "has a prompt that is neither text nor a list of messages"),
    ],
)
def test_conversations_that_cannot_be_continued_are_refused(prompt: Any, said: str) -> None:
    with pytest.raises(UserError, match=rf"^task\.bad_rows   1 of 5 rows of train cannot be used \(row 4 {said}"):
        made([*numbered(TURNS), prompt]).size("train")


def test_conversations_are_not_made_plain() -> None:
    with pytest.raises(
        UserError, match=r"4 of 4 rows .* \(row 0 holds a list of messages, and task\.chat=false wants text"
    ):
        made(numbered(TURNS), chat=False).size("train")


def test_numbers_are_no_prompts() -> None:
    with pytest.raises(UserError, match=r"row 0 has a prompt that is neither text nor a list of messages"):
        made([1, 2, 3]).size("train")


def test_characters_that_the_tokenizer_hides_are_refused() -> None:
    with pytest.raises(UserError) as refusal:
        PromptBook(made([f"{i}×2=" for i in range(6)]), make_tokenizer(), 0, 512)
    assert str(refusal.value).startswith("model   its tokenizer has no token for ×, which ")
    assert "train prompts hold" in str(refusal.value)
    assert len(texts(made([f"{i}*2=\n~" for i in range(6)]))) == 6


def test_a_prompt_that_spells_a_special_token_is_told() -> None:
    book = PromptBook(made(["a", "b", "c", *(f"the mark <eos> {i}" for i in range(20))]), make_tokenizer(), 0, 512)
    notes = [note for note in book.notes() if "special" in note]
    assert sum(int(note.split()[0]) for note in notes) == 20
    assert all(note.endswith("spell the special token <eos>, and are read so") for note in notes)


def test_the_mask_comes_from_what_was_sampled_when_pad_is_eos() -> None:
    # K02: [7, 8, EOS, PAD, PAD] with pad == eos == 2 counts 3 tokens; ids ≠ pad would count 2
    def rollout(ids: tuple[int, ...]) -> Rollout:
        return Rollout("q", 0, 0, ids, (0.0,) * len(ids), (True,) * len(ids), "stop", "", 0)

    mask = sampled_mask([rollout((7, 8, 2)), rollout((7, 2, 8, 2, 9))])
    assert torch.equal(mask, torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool))


def test_a_batch_of_questions_equals_them_one_by_one() -> None:
    task = made(numbered(TURNS, 9))
    for split in SPLITS:
        size = task.size(split)
        one_by_one: list[Question] = [task.question(split, i) for i in range(size)]
        assert questions(task, split, 0, size) == one_by_one
