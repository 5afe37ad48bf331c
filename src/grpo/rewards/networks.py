"""What rewards share that ask a network of transformers: where it runs, one BOS, rows of a similar length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from grpo.tasks.encoding import encoded

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Place = Literal["auto", "cpu", "gpu"]
"""auto: the GPU if there is one."""


def encoded_template(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Any], **how: Any) -> list[int]:
    """Token ids of a conversation under the tokenizer's chat template."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, **how)
    assert isinstance(text, str)
    return encoded(tokenizer, text)


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
    from grpo.models.load import context_length

    limits = [n for n in (context_length(model), tokenizer.model_max_length) if n is not None and n < 1e9]
    return min(limits, default=None)
