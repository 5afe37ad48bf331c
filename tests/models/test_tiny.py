"""The embedded policy: a normal Hugging Face folder, small, with a lossless character tokenizer."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from grpo.models.architecture import CHARACTERS, make_model, make_tokenizer
from grpo.models.folders import TINY


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(TINY)


def test_size_and_shape() -> None:
    assert (TINY / "model.safetensors").stat().st_size <= 2_500_000
    model = AutoModelForCausalLM.from_pretrained(TINY)
    # embeddings and head 2 · 100 · 128; per layer attention 4 · 128², MLP 3 · 128 · 384, two norms; the last norm 128
    assert model.num_parameters() == 2 * 100 * 128 + 2 * (4 * 128**2 + 3 * 128 * 384 + 2 * 128) + 128 == 452_224
    assert model.config.head_dim % 32 == 0  # vLLM's condition
    assert model.config.max_position_embeddings == 2048
    assert model.get_input_embeddings().weight is not model.get_output_embeddings().weight
    assert model.generation_config.eos_token_id == 2


def test_special_tokens_are_distinct(tokenizer) -> None:
    ids = [tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id]
    assert ids == [0, 1, 2, 3]
    assert len(tokenizer) == 100  # 4 special, newline, 95 printable ASCII
    assert len(CHARACTERS) == 96


@settings(max_examples=100, deadline=None)
@given(text=st.text(alphabet=CHARACTERS, max_size=60))
def test_text_survives_encoding(text: str) -> None:
    tokenizer = make_tokenizer()
    ids = [tokenizer.convert_tokens_to_ids(c) for c in text]
    assert tokenizer.decode(ids) == text  # no joining, no cleaning of " ." or " 's"
    if "<" not in text:  # "<eos>" typed by a user is read as the token, as in every tokenizer
        assert tokenizer.encode(text, add_special_tokens=False) == ids
        assert tokenizer.encode(text) == [1, *ids]


def test_other_characters_are_unknown(tokenizer) -> None:
    assert tokenizer.encode("é\t5", add_special_tokens=False) == [3, 3, tokenizer.convert_tokens_to_ids("5")]


def test_shipped_tokenizer_is_the_code_s(tokenizer) -> None:
    text = "user: What is 37+5?\nassistant: \\boxed{42}"
    assert tokenizer.encode(text) == make_tokenizer().encode(text)
    assert tokenizer.chat_template == make_tokenizer().chat_template


def test_model_seed_decides_and_leaves_the_callers_random_state_alone() -> None:
    state = torch.get_rng_state()
    one, same, other = (make_model(seed).lm_head.weight for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_no_stray_files_are_shipped() -> None:
    assert sum(f.stat().st_size for f in Path(TINY).iterdir()) < 2_500_000
