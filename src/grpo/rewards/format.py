r"""Whether an answer stands where it should, not whether it is right. Plain string searches, linear in the length.

Only the completion is read. A prompt decides one thing: whether it ends with the opening tag, so that the policy must
not open it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from grpo.config.nodes import Positive
from grpo.rewards.exact import text_of
from grpo.rewards.extract import last_boxed

STRICT = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True, config=STRICT)
class Boxed:
    r"""r = 1 if the completion's last \boxed{…} or \fbox{…} is closed and holds something, else 0."""

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """completions: [B] strings or message lists; returns [B]."""
        return [float(bool(last_boxed(text_of(c)))) for c in completions]


@dataclass(frozen=True, config=STRICT)
class BoxedChapter:
    r"""r = bonus · [the characters "\boxed{" stand in the completion]

    The chapter's format_reward_fn, which also pays an empty box, one that is never closed, and a hundred of them.
    """

    bonus: Positive = 0.5
    """Reward for the characters, > 0."""

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        r"""completions: [B] strings or message lists ("\boxed{" in a message list would be False for every one)."""
        return [self.bonus if r"\boxed{" in text_of(c) else 0.0 for c in completions]


@dataclass(frozen=True, config=STRICT)
class Think:
    """r = 1 if the completion is <think> reasoning </think> answer, each tag once and neither part empty, else 0

    The shape of DeepSeek-R1, arXiv:2501.12948 §2.2.2. Templates that end the prompt with <think> leave the policy only
    the closing tag; a reward that asks for both is 0 for a whole run (opened).
    """

    opened: Literal["auto", "policy", "template"] = "auto"
    """Who writes the opening tag; auto: the template where the prompt's text ends with it, either for message lists,
    whose rendered text a reward does not see, else the policy."""
    answer: Literal["free", "boxed", "tagged"] = "free"
    r"""What follows the reasoning; boxed: a filled \boxed{} in it; tagged: <answer>…</answer> and nothing else."""
    opening: str = "<think>"
    """Opening tag."""
    closing: str = "</think>"
    """Closing tag."""

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """prompts, completions: [B] strings or message lists; returns [B]."""
        return [float(self._fits(text_of(c), self._who(p))) for p, c in zip(prompts, completions, strict=True)]

    def _who(self, prompt: Any) -> str:
        if self.opened != "auto":
            return self.opened
        if not isinstance(prompt, str):
            return "either"
        return "template" if prompt.rstrip().endswith(self.opening) else "policy"

    def _fits(self, text: str, who: str) -> bool:
        reasoning, closed, answer = text.partition(self.closing)
        reasoning = reasoning.lstrip()
        opens = reasoning.startswith(self.opening)
        if not closed or (who == "policy" and not opens) or (who == "template" and opens):
            return False
        reasoning = reasoning.removeprefix(self.opening)
        once = self.opening not in reasoning and self.opening not in answer and self.closing not in answer
        return once and bool(reasoning.strip()) and self._answers(answer.strip())

    def _answers(self, text: str) -> bool:
        if self.answer == "boxed":
            return bool(last_boxed(text))
        if self.answer == "tagged":
            inside = text.removeprefix("<answer>").removesuffix("</answer>")
            once = text == f"<answer>{inside}</answer>" and "<answer>" not in inside and "</answer>" not in inside
            return once and bool(inside.strip())
        return bool(text)
