"""The first half of a step: prompts → rollout → rewards → (filter, resample)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from grpo.data import Prompt, Rollout, Sampling, Scores
from grpo.errors import UserError
from grpo.recording.meters import Timer
from grpo.rewards.log import RewardLog
from grpo.rollout.base import Engine
from grpo.training.batch import subset, with_column


@dataclass
class Experience:
    """What a step sampled.

    prompts, rollouts, scores: the completions that the update sees, groups whole, in order
    sampled, sampled_scores: everything that was generated, discarded groups included
    log: what the reward functions said beside their scores
    solved: questions so far that are not asked again; None where all are
    """

    prompts: list[Prompt]
    rollouts: list[Rollout]
    scores: Scores
    sampled: list[Rollout]
    sampled_scores: Scores
    rounds: int = 1
    exhausted: bool = False
    log: RewardLog = field(default_factory=RewardLog)
    solved: int | None = None

    @property
    def generated_tokens(self) -> int:
        """Tokens the policy sampled in this step, discarded groups included."""
        return sum(r.length for r in self.sampled)

    @property
    def discarded_tokens(self) -> int:
        """Tokens of groups that the update does not see."""
        return self.generated_tokens - sum(r.length for r in self.rollouts)


def concatenate(parts: Sequence[Scores]) -> Scores:
    """Scores of several sampling rounds as one."""
    return Scores(
        rewards=torch.cat([p.rewards for p in parts]),
        weights=parts[0].weights,
        groups=torch.cat([p.groups for p in parts]),
        accuracy=torch.cat([p.accuracy for p in parts]),
    )


SPARE = 1000  # rounds of prompts that take the places of solved ones


class Solved:
    """Questions that the policy has solved, by id: their last group had a pass rate of `at` or more.

    A checkpoint carries them. at None: none is ever solved.
    """

    def __init__(self, at: float | None) -> None:
        self.at = at
        self.ids: set[str] = set()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.ids)

    def open(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Those that are not solved."""
        return [prompt for prompt in prompts if prompt.id not in self.ids]

    def note(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        """Judge the groups just sampled; completions of unknown accuracy say nothing."""
        if self.at is None:
            return
        judged: dict[str, list[float]] = {}
        for rollout, right in zip(rollouts, scores.accuracy.tolist(), strict=True):
            if right == right:
                judged.setdefault(rollout.prompt_id, []).append(right)
        self.ids |= {id_ for id_, values in judged.items() if sum(values) / len(values) >= self.at - 1e-9}


class Collector:
    """Samples and scores the completions of a step."""

    def __init__(
        self,
        *,
        book: Any,
        scorer: Any,
        engine: Engine,
        objective: Any,
        sampling: Sampling,
        prompts_per_step: int,
        group_size: int,
        seed: int,
        on_rollouts: Callable[[int, str, list[Rollout]], None] | None = None,
    ) -> None:
        self.book, self.scorer, self.engine, self.objective = book, scorer, engine, objective
        self.sampling, self.seed = sampling, seed
        self.prompts_per_step, self.group_size = prompts_per_step, group_size
        self.on_rollouts = on_rollouts
        self.solved = Solved(objective.filter.solved_at)

    def sample(self, prompts: Sequence[Prompt], *, step: int, stream: str, first_group: int = 0) -> list[Rollout]:
        """`group_size` completions of each prompt; groups are numbered from `first_group`."""
        rollouts = self.engine.generate(
            prompts, self.group_size, self.sampling, seed=self.seed, stream=stream, step=step
        )
        return [replace(r, group=r.group + first_group) for r in rollouts]

    def ask(self, step: int, round_: int, n: int) -> list[Prompt]:
        """The step's prompts; a solved one gives its place to one of another permutation that is not."""
        asked = self.book.train(step, n) if round_ == 0 else self.book.refill(step, round_, n)
        open_ = self.solved.open(asked)
        if len(open_) == n:
            return asked
        size = self.book.size("train")
        others = self.solved.open(self.book.refill(step, SPARE + round_, min(size, n + self.solved.count)))
        taken = {prompt.id for prompt in open_}
        open_ += [prompt for prompt in others if prompt.id not in taken][: n - len(open_)]
        return open_ or asked  # all are solved: the run goes on with what it has

    def collect(self, step: int, timer: Timer) -> Experience:
        """The completions of a step; a filter refills dropped groups, in rounds, until all places are taken."""
        rule = self.objective.filter
        wanted, rounds = self.prompts_per_step, 0
        allowed = rule.max_rounds if rule.resamples else 1
        prompts: list[Prompt] = []
        rollouts: list[Rollout] = []
        parts: list[Scores] = []
        kept: list[int] = []  # group ids, in order of sampling
        log = RewardLog()
        while len(kept) < wanted and rounds < allowed:
            missing = wanted - len(kept)
            asked = self.ask(step, rounds, missing)
            with timer("rollout"):
                new = self.sample(asked, step=step, stream=f"train/{rounds}", first_group=len(prompts))
            if self.on_rollouts is not None:
                self.on_rollouts(step, f"train/{rounds}", new)
            with timer("reward"):
                scores = score(
                    self.scorer, self.objective.shaping, asked, new, self.sampling.max_tokens, step=step, log=log
                )
            self.solved.note(new, scores)
            kept += sorted(group for group, worth in rule.keep(scores).items() if worth)
            prompts += asked
            rollouts += new
            parts.append(scores)
            rounds += 1
        refills = rule.resamples and (allowed > 1 or rule.when_exhausted != "train")
        full = not refills or len(kept) >= wanted
        experience = self._experience(step, prompts, rollouts, concatenate(parts), kept[:wanted], rounds, full)
        return replace(experience, log=log, solved=None if self.solved.at is None else self.solved.count)

    def _experience(
        self,
        step: int,
        prompts: list[Prompt],
        rollouts: list[Rollout],
        scores: Scores,
        kept: list[int],
        rounds: int,
        full: bool,
    ) -> Experience:
        exhausted = not full
        if exhausted and self.objective.filter.when_exhausted == "stop":
            raise UserError(
                f"filter.max_rounds   step {step} found {len(kept)} of {self.prompts_per_step} informative groups in "
                f"{rounds} rounds; raise filter.max_rounds, choose easier or harder prompts, or say "
                "filter.when_exhausted=train"
            )
        if exhausted and self.objective.filter.when_exhausted == "skip":
            kept = []
        chosen = set(kept)
        rows = torch.tensor([i for i, r in enumerate(rollouts) if r.group in chosen], dtype=torch.long)
        return Experience(
            prompts=[prompts[rollouts[i].group] for i in rows.tolist()],
            rollouts=[rollouts[i] for i in rows.tolist()],
            scores=subset(scores, rows),
            sampled=rollouts,
            sampled_scores=scores,
            rounds=rounds,
            exhausted=exhausted,
        )


def score(
    scorer: Any,
    shaping: Any,
    prompts: Sequence[Prompt],
    rollouts: Sequence[Rollout],
    max_completion_tokens: int,
    *,
    step: int = 0,
    log: RewardLog | None = None,
) -> Scores:
    """Rewards [B, R] of the completions, the shaping's column last."""
    scores = scorer.score(prompts, rollouts, step=step, log=log)
    lengths = torch.tensor([r.length for r in rollouts])
    truncated = torch.tensor([r.truncated for r in rollouts])
    column = shaping(lengths, max_completion_tokens, truncated)
    return scores if column is None else with_column(scores, column, shaping.weight)
