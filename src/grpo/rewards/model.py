"""A reward model: any sequence-classification model of transformers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from grpo.config.nodes import Count, Float
from grpo.errors import UserError
from grpo.rewards.exact import text_of
from grpo.rewards.networks import Place, batches, encoded_template, longest, text_of_prompt

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class RewardModel:
    """r = the model's logit for (prompt, completion), with its own tokenizer and chat template

    Loaded at the first call, frozen. Nothing is cut: a conversation longer than the model reads gets `too_long`, and
    metrics count it. Rows are sorted by length; padding changes no score.
    """

    path: str
    """Folder or hub id of a model that AutoModelForSequenceClassification loads, with its tokenizer."""
    form: Literal["auto", "chat", "text", "pair"] = "auto"
    """chat: the tokenizer's template on the messages (a plain prompt is the user's); text: prompt and completion
    joined; pair: two segments, as BERTs take them; auto: chat, and an error where there is no template."""
    label: int | None = None
    """Which logit, ≥ 0, where the model has several; null: the only one."""
    max_tokens: Count | None = None
    """Longest conversation in tokens, ≥ 1; null: what the model can read."""
    too_long: Float | None = None
    """Reward of a longer one; null: this function does not apply to it."""
    rows: Count = 16
    """Conversations in one forward pass, ≥ 1."""
    device: Place = "auto"
    """auto | cpu | gpu; ${trainer.accelerator} in the configuration: beside the policy."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Type of the weights; auto: the saved one."""

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; returns [B]."""
        ids = [self._encoded(p, text_of(c)) for p, c in zip(prompts, completions, strict=True)]
        scores: list[float | None] = [self.too_long] * len(ids)
        fits = [i for i, row in enumerate(ids) if self._limit is None or len(row["input_ids"]) <= self._limit]
        self._counted["too_long"] += len(ids) - len(fits)
        for batch in batches([len(ids[i]["input_ids"]) for i in fits], self.rows):
            chosen = [fits[i] for i in batch]
            for i, score in zip(chosen, self._scores([ids[i] for i in chosen]), strict=True):
                scores[i] = score
        return scores

    def metrics(self) -> dict[str, float]:
        """Conversations that were too long, since the last call."""
        counted = {"too_long": float(self._counted["too_long"])}
        self._counted.clear()
        return counted

    def close(self) -> None:
        """Frees the model's memory; a later call loads it again."""
        for name in ("_loaded", "_limit"):
            self.__dict__.pop(name, None)

    @cached_property
    def _counted(self) -> Counter[str]:
        return Counter()

    @cached_property
    def _limit(self) -> int | None:
        limits = [n for n in (self.max_tokens, longest(*self._loaded)) if n is not None]
        return min(limits, default=None)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        from grpo.models.load import pick_device, quiet, sentence

        with sentence("reward.functions", f"{self.path} as a reward model"), quiet():
            tokenizer = AutoTokenizer.from_pretrained(self.path)
            model, info = AutoModelForSequenceClassification.from_pretrained(
                self.path, dtype=self.dtype, output_loading_info=True
            )
        # transformers makes a missing head up, at random, and only warns.
        if missing := sorted(info["missing_keys"]):
            raise UserError(
                f"reward.functions   {self.path} is no reward model: it has no weights for {', '.join(missing)}; "
                "take a model that was trained as one"
            )
        if self.label is None and model.config.num_labels != 1:
            raise UserError(
                f"reward.functions   {self.path} has {model.config.num_labels} logits and no single score; "
                "say label=<number of the logit>"
            )
        if self.label is not None and not 0 <= self.label < model.config.num_labels:
            raise UserError(f"reward.functions   {self.path} has {model.config.num_labels} logits, none {self.label}")
        if self.form in ("auto", "chat") and not tokenizer.chat_template:
            raise UserError(
                f"reward.functions   the tokenizer of {self.path} has no chat template; say form=text (prompt and "
                "completion joined) or form=pair (two segments)"
            )
        return model.to(pick_device(self.device)).eval().requires_grad_(False), tokenizer

    def _encoded(self, prompt: Any, completion: str) -> dict[str, list[int]]:
        """Token ids, and the types of the two segments where the tokenizer has them."""
        _, tokenizer = self._loaded
        if self.form in ("auto", "chat"):
            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
            return {"input_ids": encoded_template(tokenizer, [*messages, {"role": "assistant", "content": completion}])}
        if self.form == "text":
            return {"input_ids": tokenizer.encode(text_of_prompt(prompt) + completion)}
        both = tokenizer(text_of_prompt(prompt), completion)
        return {name: both[name] for name in ("input_ids", "token_type_ids") if name in both}

    def _scores(self, rows: Sequence[dict[str, list[int]]]) -> list[float]:
        import torch

        model, _ = self._loaded
        pad = _pad_id(model, [row["input_ids"] for row in rows])
        width = max(len(row["input_ids"]) for row in rows)
        inputs = {
            name: _padded([row[name] for row in rows], width, pad if name == "input_ids" else 0) for name in rows[0]
        }
        mask = _padded([[1] * len(row["input_ids"]) for row in rows], width, 0)
        with torch.inference_mode():
            found = model(**{k: v.to(model.device) for k, v in inputs.items()}, attention_mask=mask.to(model.device))
        return found.logits[:, self.label or 0].double().tolist()


def _pad_id(model: Any, rows: Sequence[Sequence[int]]) -> int:
    """The model's own pad token; without one, an id that no row has.

    Decoders are read at the last token that is not the pad token. With eos as a makeshift pad token they would be read
    one token early, and another score come out of a batch than of one row.
    """
    config = model.config.get_text_config()
    if config.pad_token_id is None or getattr(config, "pad_is_made_up", False):
        used = {token for row in rows for token in row}
        config.pad_token_id = next(i for i in range(config.vocab_size) if i not in used)
        config.pad_is_made_up = True
    return config.pad_token_id


def _padded(rows: Sequence[Sequence[int]], width: int, fill: int) -> torch.Tensor:
    """[B, T], padded on the right."""
    import torch

    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])
