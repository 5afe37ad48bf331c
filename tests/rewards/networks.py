"""Small random reward models, written into a folder like a published one."""

from __future__ import annotations

from pathlib import Path

TINY = Path(__file__).parents[2] / "src/grpo/models/tiny"


def decoder(folder: Path, *, seed: int = 0, labels: int = 1, pad: int | None = 0, template: bool = True) -> str:
    """A Llama that scores, with the embedded policy's tokenizer (a character is a token); its path."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForSequenceClassification

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=100,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.5,
        num_labels=labels,
        pad_token_id=pad,
        bos_token_id=1,
        eos_token_id=2,
    )
    LlamaForSequenceClassification(config).save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    if not template:
        tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    return str(folder)


def encoder(folder: Path) -> str:
    """A BERT that scores a pair of segments; its path."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    torch.manual_seed(5)
    folder.mkdir(parents=True, exist_ok=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three", "and"]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=16).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
        initializer_range=0.5,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return str(folder)
