"""Shapes of answers: what is paid, what is not, and no text that breaks or slows them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.rewards.format import Boxed, BoxedChapter, Think


def one(reward, text: str, prompt="q"):
    return reward(prompts=[prompt], completions=[text])[0]


@pytest.mark.parametrize(
    ("text", "filled", "characters"),
    [
        (r"so \boxed{4}", 1.0, 0.5),
        (r"so \fbox{4}", 1.0, 0.0),
        (r"\boxed{\frac{1}{2}}.", 1.0, 0.5),
        (r"\boxed{}", 0.0, 0.5),
        (r"\boxed{ }", 0.0, 0.5),
        (r"\boxed{4", 0.0, 0.5),
        (r"\boxed{3} no, \boxed{", 0.0, 0.5),
        (r"\boxed4", 0.0, 0.0),
        ("boxed{4}", 0.0, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_a_box_that_holds_something_and_the_chapters_characters(text: str, filled: float, characters: float) -> None:
    assert one(Boxed(), text) == filled
    assert one(BoxedChapter(), text) == characters
    chat = [{"role": "assistant", "content": text}]
    assert Boxed()(prompts=[[]], completions=[chat]) == [filled]
    assert BoxedChapter()(prompts=[[]], completions=[chat]) == [characters]


OPENED = "user: 2+2\nassistant: <think>\n"  # a template that opens the reasoning itself
CHAT = [{"role": "user", "content": "2+2"}]


@pytest.mark.parametrize(
    ("prompt", "text", "paid"),
    [
        ("2+2", "<think>steps</think> 4", 1.0),
        ("2+2", "\n<think>\nsteps\n</think>\n\n4\n", 1.0),
        ("2+2", "steps</think> 4", 0.0),  # nobody opened it
        (OPENED, r"steps</think> \boxed{4}", 1.0),  # K05
        (OPENED, r"<think>steps</think> \boxed{4}", 0.0),  # opened twice
        (CHAT, r"steps</think> \boxed{4}", 1.0),  # K05, where a reward sees messages and not their template
        (CHAT, "<think>steps</think> 4", 1.0),
        (CHAT, "4", 0.0),
        ("2+2", "<think>steps 4", 0.0),
        ("2+2", "<think></think> 4", 0.0),
        ("2+2", "<think>steps</think>", 0.0),
        ("2+2", "<think>steps</think> \n", 0.0),
        ("2+2", "<think>a</think> 4 <think>b</think> 5", 0.0),
        ("2+2", "<think>a</think> 4 </think>", 0.0),
        ("2+2", "<think>a</think> 4 <think>", 0.0),
        ("2+2", "<think><think>a</think> 4", 0.0),
        ("2+2", "Well, <think>a</think> 4", 0.0),
        ("2+2", "<Think>a</Think> 4", 0.0),
        ("2+2", "", 0.0),
    ],
)
def test_think(prompt, text: str, paid: float) -> None:
    assert one(Think(), text, prompt) == paid


def test_who_opens_can_be_said() -> None:
    assert one(Think(opened="policy"), "steps</think> 4", CHAT) == 0.0
    assert one(Think(opened="template"), "<think>steps</think> 4", CHAT) == 0.0
    assert one(Think(opened="template"), "steps</think> 4", "2+2") == 1.0


@pytest.mark.parametrize(
    ("answer", "text", "paid"),
    [
        ("boxed", r"<think>a</think> \boxed{4}", 1.0),
        ("boxed", r"<think>\boxed{4}</think> 4", 0.0),  # in the reasoning, not in the answer
        ("tagged", "<think>a</think>\n<answer>4</answer>", 1.0),
        ("tagged", "<think>a</think> <answer>4</answer> so 4", 0.0),
        ("tagged", "<think>a</think> <answer>4</answer><answer>5</answer>", 0.0),
        ("tagged", "<think>a</think> <answer> </answer>", 0.0),
        ("tagged", "<think>a</think> <answer>4", 0.0),
        ("tagged", "<think>a</think> 4", 0.0),
    ],
)
def test_what_follows_the_reasoning(answer, text: str, paid: float) -> None:
    assert one(Think(answer=answer), text) == paid


PIECES = st.sampled_from(
    ["<think>", "</think>", "<answer>", "</answer>", "\\boxed{", "\\boxed", "{", "}", "\\", " ", "\n", "4", "\0", "é"]
)
REWARDS = (Boxed(), BoxedChapter(), Think(), Think(answer="boxed"), Think(answer="tagged", opened="template"))


@given(st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=30).map("".join), st.booleans())
def test_no_text_raises(text: str, chat: bool) -> None:
    prompt, completion = (CHAT, [{"role": "assistant", "content": text}]) if chat else (text, text)
    for reward in REWARDS:
        (paid,) = reward(prompts=[prompt], completions=[completion])
        assert paid in (0.0, 0.5, 1.0)


@pytest.mark.parametrize("piece", ["<think>", "</think>", "\\boxed{", "{", "}", "\\", "<", " ", "<answer>", "a"])
def test_long_garbage_is_linear(piece: str) -> None:
    text = (piece * 100_000)[:100_000]
    start = time.perf_counter()
    for reward in REWARDS:
        reward(prompts=[text], completions=[text])
    assert time.perf_counter() - start < 5.0  # a hundredth of that here; quadratic work would be minutes
