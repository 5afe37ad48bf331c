"""Loading, EOS ids, dropout, export, and the sentences for everything that can be missing."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from grpo.config.schema import ModelConfig
from grpo.errors import UserError
from grpo.models.architecture import make_model, make_tokenizer
from grpo.models.load import (
    context_length,
    eos_ids,
    export,
    load_policy,
    load_reference,
    load_tokenizer,
    pick_device,
    pick_dtype,
    training_mode,
)

TINY = ModelConfig(kind="tiny")


def test_policy_is_trainable_and_reference_is_frozen() -> None:
    policy, tokenizer = load_policy(TINY, "cpu")
    reference = load_reference(TINY, "cpu")
    assert all(p.requires_grad for p in policy.parameters())
    assert not any(p.requires_grad for p in reference.parameters())
    assert not policy.training
    assert policy.dtype == torch.float32
    assert context_length(policy) == 2048
    assert eos_ids(policy, tokenizer) == (2,)
    for name, tensor in policy.state_dict().items():
        assert torch.equal(tensor, reference.state_dict()[name])


def test_dtypes() -> None:
    assert pick_dtype("auto") == torch.float32
    assert pick_dtype("bfloat16") == torch.bfloat16
    policy, _ = load_policy(ModelConfig(kind="tiny", dtype="float64", attn_implementation="eager"), "cpu")
    assert policy.dtype == torch.float64
    assert policy.config._attn_implementation == "eager"


def test_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pick_device("auto") == pick_device("cpu") == torch.device("cpu")
    with pytest.raises(UserError, match=r"^trainer.accelerator   torch finds no GPU here; say trainer=cpu"):
        pick_device("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto") == pick_device("gpu") == torch.device("cuda", 1)


def test_all_eos_ids_are_found() -> None:
    """T04: reading one of several EOS ids made 97 % of a model's completions look cut."""
    model, tokenizer = make_model(0), make_tokenizer()
    assert model.generation_config is not None
    model.generation_config.eos_token_id = [7, 5]
    assert eos_ids(model, tokenizer) == (2, 5, 7)
    model.generation_config.eos_token_id = None
    assert eos_ids(model, tokenizer) == (2,)
    tokenizer.eos_token = None
    with pytest.raises(UserError, match="no EOS token in the generation config or the tokenizer"):
        eos_ids(model, tokenizer)


def test_dropout_is_off_also_in_train_mode(tmp_path: Path) -> None:
    config = GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=1, n_head=1, eos_token_id=2, bos_token_id=1)
    assert config.resid_pdrop == config.attn_pdrop == 0.1
    export(GPT2LMHeadModel(config), make_tokenizer(), tmp_path / "gpt2")
    policy, _ = load_policy(ModelConfig(kind="hf", path=str(tmp_path / "gpt2"), attn_implementation="eager"), "cpu")
    ids = torch.tensor([[1, 20, 21, 22]])
    evaluated = policy(input_ids=ids).logits
    assert torch.equal(policy.train()(input_ids=ids).logits, evaluated)


def test_gradient_checkpointing_works_inside_training_mode() -> None:
    plain, _ = load_policy(TINY, "cpu")
    saving, _ = load_policy(ModelConfig(kind="tiny", gradient_checkpointing=True), "cpu")
    assert saving.is_gradient_checkpointing
    assert not plain.is_gradient_checkpointing
    ids = torch.tensor([[1, 20, 21, 22]])
    for model in (plain, saving):
        with training_mode(model):
            assert model.training is model.is_gradient_checkpointing  # transformers ignores checkpointing in eval()
            model(input_ids=ids, use_cache=False).logits.logsumexp(-1).sum().backward()
        assert not model.training
    for one, other in zip(plain.parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_missing_pad_token_becomes_eos(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    tokenizer.pad_token = None
    folder = export(make_model(0), tokenizer, tmp_path / "nopad")
    loaded = load_tokenizer(ModelConfig(kind="hf", path=str(folder)))
    assert loaded.pad_token_id == loaded.eos_token_id == 2


def test_neither_pad_nor_eos_is_refused(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token = None
    folder = export(make_model(0), tokenizer, tmp_path / "bare")
    with pytest.raises(UserError, match=r"model\.path   the tokenizer of .*bare has neither a pad nor an EOS token"):
        load_tokenizer(ModelConfig(kind="hf", path=str(folder)))


def test_chat_template_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "t.jinja").write_text("{{ messages[0]['content'] }}!", encoding="utf-8")
    tokenizer = load_tokenizer(ModelConfig(kind="tiny", chat_template=str(tmp_path / "t.jinja")))
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "hi!"
    with pytest.raises(
        UserError, match=r"model\.chat_template   there is no file .*none\.jinja; give a Jinja chat template"
    ):
        load_tokenizer(ModelConfig(kind="tiny", chat_template=str(tmp_path / "none.jinja")))


def test_export_loads_in_transformers_and_replaces_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    for seed in (0, 1):
        model = make_model(seed)
        assert export(model, make_tokenizer(), folder) == folder
        loaded = AutoModelForCausalLM.from_pretrained(folder)
        for name, tensor in model.state_dict().items():
            assert torch.equal(tensor, loaded.state_dict()[name])
    assert loaded.generation_config.eos_token_id == 2
    # "4" is character 52: 4 special tokens and the newline, then 52 − 32 = 20 characters before it
    assert AutoTokenizer.from_pretrained(folder).encode("4", add_special_tokens=False) == [4 + 1 + 20]
    assert [f.name for f in tmp_path.iterdir()] == ["policy"]  # nothing half-written beside it


def test_export_of_a_generation_config_that_refuses_to_be_saved(tmp_path: Path) -> None:
    model = make_model(0)
    assert model.generation_config is not None
    model.generation_config.temperature = 0.6  # set, but do_sample is not: several published models are like this
    assert (export(model, make_tokenizer(), tmp_path / "p") / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("kind", "path", "sentence"),
    [
        ("hf", None, "model.path   model=hf needs a folder or a hub id; say model.path=<folder or owner/name>"),
        (
            "hf",
            "/no/such/folder",
            "model.path   there is no folder /no/such/folder; give a Hugging Face model folder or a hub id",
        ),
        ("hf", "./nothing", "model.path   there is no folder nothing; give a Hugging Face model folder or a hub id"),
        ("hf", "EMPTY", "model.path   EMPTY has no config.json, so it is no Hugging Face model folder"),
        ("smollm2", "EMPTY", "model   SmolLM2 is not at EMPTY yet; run `make smollm2`"),
    ],
)
def test_missing_models_are_sentences(tmp_path: Path, kind, path: str | None, sentence: str) -> None:
    path = path and path.replace("EMPTY", str(tmp_path))
    with pytest.raises(UserError) as raised:
        load_policy(ModelConfig(kind=kind, path=path), "cpu")
    assert str(raised.value) == sentence.replace("EMPTY", str(tmp_path))


def test_unreachable_hub_id_is_a_sentence() -> None:
    with pytest.raises(UserError, match=r"model\.path   transformers cannot load no-one/nothing: "):
        load_policy(ModelConfig(kind="hf", path="no-one/nothing"), "cpu")


def test_smollm2_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from grpo.models.folders import smollm2_folder

    monkeypatch.setenv("GRPO_MODELS", str(tmp_path))
    assert smollm2_folder() == tmp_path / "smollm2"
    monkeypatch.delenv("GRPO_MODELS")
    assert smollm2_folder().parent.name == "models"
