"""Text to token ids with exactly one BOS, whoever writes it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def encoded(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids with exactly one BOS where the tokenizer uses one, and no end token.

    Many templates write the BOS themselves, many tokenizers add one: both would be two. A tokenizer that would
    append its EOS must not end the completion before it begins either, hence add_special_tokens=False.
    """
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    bos = tokenizer.bos_token_id
    if isinstance(bos, int) and ids[:1] != [bos] and _adds_bos(tokenizer):
        ids.insert(0, bos)
    return ids


@lru_cache(maxsize=8)
def _adds_bos(tokenizer: PreTrainedTokenizerBase) -> bool:
    return tokenizer.encode("1")[0] == tokenizer.bos_token_id
