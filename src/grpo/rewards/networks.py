"""What rewards share that ask a network of transformers: where it runs, one BOS, rows of a similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from grpo.errors import UserError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

Place = Literal["auto", "cpu", "gpu"]
"""auto: the GPU if there is one."""


def device_of(place: Place) -> torch.device:
    """The device that a reward's network runs on."""
    import torch

    gpu = place == "gpu" or (place == "auto" and torch.cuda.is_available())
    return torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")


def encoded_template(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Any], **how: Any) -> list[int]:
    """Token ids of a conversation under the tokenizer's chat template."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, **how)
    assert isinstance(text, str)
    return encoded_text(tokenizer, text)


def encoded_text(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Token ids with exactly one BOS where the tokenizer uses one, whoever writes it, and no end token."""
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    bos = tokenizer.bos_token_id
    if isinstance(bos, int) and ids[:1] != [bos] and tokenizer.encode("1")[0] == bos:
        ids.insert(0, bos)
    return ids


def text_of_prompt(prompt: Any) -> str:
    """A plain prompt, or the contents of a message list with an empty line between them."""
    return prompt if isinstance(prompt, str) else "\n\n".join(str(message["content"]) for message in prompt)


def batches(lengths: Sequence[int], rows: int) -> Iterator[list[int]]:
    """Indices in batches of at most `rows`, longest first: little padding, and too little memory shows at once."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    for start in range(0, len(order), rows):
        yield order[start : start + rows]


def longest(model: Any, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Tokens that the network reads at most; None where neither config nor tokenizer says."""
    positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    limits = [n for n in (positions, tokenizer.model_max_length) if n is not None and n < 1e9]
    return min(limits, default=None)


@contextmanager
def loading(what: str, path: str) -> Iterator[None]:
    """transformers' errors as one sentence."""
    from grpo.models.load import quiet

    try:
        with quiet():
            yield
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"reward.functions   transformers cannot load {path} as {what}: {reason[:300]}") from error
