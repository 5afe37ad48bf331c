"""The tiny policy before training: a Llama of 0.45 M parameters and a character-level tokenizer.

Head size 32 (vLLM wants a multiple of 32), untied embeddings, 2,048 positions, 100 tokens:
pad, bos, eos, unk, newline and the 95 printable ASCII characters. Every character is one token, so text ↔ ids is
lossless and a completion's length in tokens is its length in characters plus one for the end of sequence.
"""

from __future__ import annotations

import torch
from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import WordLevel
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

POSITIONS = 2048
SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")  # ids 0, 1, 2, 3
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))

# A minimal template, so that chat tasks run on the tiny policy too. It writes the BOS itself, as Llama's do: the
# rendered text must be encoded with add_special_tokens=False or the prompt begins with two.
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}"
)


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per character; other characters become unk; encoding puts one BOS in front."""
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *CHARACTERS])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    # Not ".": it does not match the newline, which would glue to its neighbour and become unk.
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    backend.decoder = decoders.Fuse()
    backend.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A $B", special_tokens=[("<bos>", vocabulary["<bos>"])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
        model_max_length=POSITIONS,
        padding_side="left",
        clean_up_tokenization_spaces=False,  # "4 ." must not come back as "4."
        chat_template=CHAT_TEMPLATE,
    )


def make_config() -> LlamaConfig:
    """hidden 128 = 4 heads × 32, 2 layers, MLP 384: 452,224 parameters."""
    return LlamaConfig(
        vocab_size=len(SPECIAL) + len(CHARACTERS),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=POSITIONS,
        tie_word_embeddings=False,
        pad_token_id=SPECIAL.index("<pad>"),
        bos_token_id=SPECIAL.index("<bos>"),
        eos_token_id=SPECIAL.index("<eos>"),
    )


def make_model(seed: int) -> LlamaForCausalLM:
    """Random weights from `seed`, without touching the caller's random state."""
    config = make_config()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=config.eos_token_id, pad_token_id=config.pad_token_id
    )
    return model
