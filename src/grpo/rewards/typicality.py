"""How typical an answer is of a reference model: the bias of human preferences, as a reward."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from grpo.config.nodes import Count
from grpo.errors import UserError
from grpo.rewards.exact import text_of
from grpo.rewards.networks import Place, batches, encoded_template
from grpo.tasks.encoding import encoded


@dataclass(frozen=True, config=ConfigDict(extra="forbid", use_attribute_docstrings=True))
class Typicality:
    """r = log π_ref(o | q) = Σ_t log π_ref(o_t | q, o_<t), at temperature 1; its weight is α

    r_human = r_true + α log π_ref + ε, Zhang et al., arXiv:2510.01171 eq. 2, who measure α = 0.57 … 0.65 in human
    preferences and find in it the cause of mode collapse. A negative weight rewards the untypical. The reference is
    loaded at the first call and frozen: by default the weights that the run starts from.
    """

    kind: Literal["tiny", "smollm2", "hf"]
    """Where the reference is from, as model.kind; ${model.kind} in the configuration."""
    path: str | None = None
    """Its folder or hub id, as model.path."""
    chat_template: str | None = None
    """Jinja file instead of its tokenizer's template, as model.chat_template."""
    tokens: Literal["policy", "own"] = "policy"
    """policy: the sampled ids, end token included, for a reference with the policy's tokenizer; own: the text encoded
    anew by the reference's tokenizer and ended by its end token."""
    mean: bool = False
    """Mean over the answer's tokens instead of the sum, so that length does not count."""
    rows: Count = 16
    """Completions in one forward pass, ≥ 1."""
    device: Place = "auto"
    """auto | cpu | gpu; ${trainer.accelerator} in the configuration: beside the policy."""

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        **columns: Any,
    ) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; completion_ids: [B] token ids; returns [B]."""
        asked = [self._asked(prompt) for prompt in prompts]
        said = [self._said(text_of(c), ids) for c, ids in zip(completions, completion_ids, strict=True)]
        found: list[float | None] = [0.0] * len(said)
        for batch in batches([len(q) + len(o) for q, o in zip(asked, said, strict=True)], self.rows):
            some = [i for i in batch if said[i]]
            sums = self._logps([asked[i] for i in some], [said[i] for i in some]) if some else []
            for i, logp in zip(some, sums, strict=True):
                found[i] = logp / len(said[i]) if self.mean else logp
        return found

    def close(self) -> None:
        """Frees the model's memory; a later call loads it again."""
        self.__dict__.pop("_loaded", None)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        from grpo.config.nodes import ModelConfig
        from grpo.models.load import load_reference, load_tokenizer, pick_device

        config = ModelConfig(kind=self.kind, path=self.path, chat_template=self.chat_template)
        return load_reference(config, pick_device(self.device)), load_tokenizer(config)

    def _asked(self, prompt: Any) -> list[int]:
        """The prompt as the policy sees it: one BOS, and the assistant's header at the end of a conversation."""
        _, tokenizer = self._loaded
        if not isinstance(prompt, str):
            return encoded_template(tokenizer, prompt, add_generation_prompt=True)
        return encoded(tokenizer, prompt)

    def _said(self, text: str, ids: Sequence[int]) -> list[int]:
        model, tokenizer = self._loaded
        if self.tokens == "own":
            return [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
        if ids and max(ids) >= model.config.get_text_config().vocab_size:
            raise UserError(
                "reward.functions   the reference of typicality has fewer tokens than the policy; say tokens=own"
            )
        return list(ids)

    def _logps(self, asked: Sequence[Sequence[int]], said: Sequence[Sequence[int]]) -> list[float]:
        """Σ_t log π_ref, [B]."""
        import torch

        from grpo.data import Prompt, Rollout
        from grpo.training.logprobs import completion_logps

        model, tokenizer = self._loaded
        prompts = [Prompt(str(i), tuple(ids), "") for i, ids in enumerate(asked)]
        rollouts = [
            Rollout(str(i), i, 0, tuple(ids), (0.0,) * len(ids), (True,) * len(ids), "stop", "", 0)
            for i, ids in enumerate(said)
        ]
        with torch.inference_mode():
            scored = completion_logps(model, prompts, rollouts, temperature=1.0, pad_id=tokenizer.pad_token_id)
        return scored.logp.double().sum(dim=1).tolist()
