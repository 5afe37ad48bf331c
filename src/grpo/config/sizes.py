"""What follows from the sizes of a configuration: prompts, completions, updates and passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from grpo.config.schema import RunConfig


@dataclass(frozen=True)
class Sizes:
    """Derived sizes; every one of them stands in the start table."""

    prompts_per_step: int
    group_size: int  # completions per prompt
    completions_per_step: int
    epochs: int
    minibatches: int
    prompts_per_minibatch: int
    completions_per_update: int
    updates_per_step: int
    max_completion_tokens: int
    forwards: int  # passes per completion and step: training, log π_old where it is needed, reference, reward bonus
    backwards: int
    steps: int | None  # None: a token budget ends the run, or the size of the data is not known yet
    passes: float | None  # over the training questions; None where unknown
    generated_tokens: int | None  # the budget


def sizes(
    config: RunConfig,
    needs_reference: bool = False,
    train_questions: int | None = None,
    *,
    needs_old: bool = True,
    bonus: bool = False,
) -> Sizes:
    """`train_questions`: size of the training split, where the task knows it; the rest as in `Objective`."""
    updates = config.updates.per_step
    # The first update's log π_old is its own log π.detach(); only later ones need a pass of their own.
    old = int(updates > 1 and needs_old)
    steps = config.max_steps
    if steps is None and config.data.passes is not None and train_questions:
        steps = max(1, int(config.data.passes * train_questions) // config.prompts_per_step)
    passes = config.data.passes
    if passes is None and steps is not None and train_questions:
        passes = steps * config.prompts_per_step / train_questions
    return Sizes(
        prompts_per_step=config.prompts_per_step,
        group_size=config.group_size,
        completions_per_step=config.completions_per_step,
        epochs=config.updates.epochs,
        minibatches=config.updates.minibatches,
        prompts_per_minibatch=config.prompts_per_step // config.updates.minibatches,
        completions_per_update=config.completions_per_step // config.updates.minibatches,
        updates_per_step=updates,
        max_completion_tokens=config.max_completion_tokens,
        forwards=config.updates.epochs + old + int(needs_reference) + int(bonus),
        backwards=config.updates.epochs,
        steps=steps,
        passes=passes,
        generated_tokens=config.budget.generated_tokens,
    )


def train_size(task: Any) -> int | None:
    """Size of the training split where asking is cheap (procedural tasks); None elsewhere."""
    try:
        return int(task.size("train"))
    except Exception:  # a task of the user's own may need its data first; the size is then shown later
        return None
