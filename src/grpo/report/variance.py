"""Where the spread between blocks comes from: seed, question, sampling.

One arm, block b with Q fresh questions and k samples of each; ȳ_b is the mean of its right flags:

    Var ȳ_b = σ²_seed + σ²_question / Q + σ²_sampling / (Q k)

    σ²_sampling   pooled variance of the flags of one question, Σ Q_b (k_b − 1) degrees of freedom
    σ²_question   pooled variance of the question means, Σ (Q_b − 1) of them, less σ²_sampling / k
    σ²_seed       variance of the block means, B − 1, less the other two terms

These are the moments of a nested analysis of variance; with unequal Q or k the terms are averaged over blocks. An
estimate below 0 is 0, and shares are of the sum that is left, so they always add up to 1. With one sample per question
(k = 1) sampling cannot be told from question, and the two together stand under `question`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grpo.errors import UserError

WANTED = 1 / 3
"""Evaluation noise (standard deviation) per spread between seeds that a test set should not exceed."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Shares of the variance between blocks; they add up to 1, or are all 0 where nothing varies."""

    seed: float
    question: float
    sampling: float
    deviation: float = 0.0
    """Standard deviation of the block means, as observed."""
    seed_deviation: float = 0.0
    """Standard deviation due to seeds alone."""
    noise_deviation: float = 0.0
    """Standard deviation due to questions and sampling."""
    blocks: int = 0
    questions: float = 0.0
    """Q, averaged over blocks."""

    @property
    def shares(self) -> str:
        """seeds 71 %, questions 22 %, sampling 7 %"""
        parts = (("seeds", self.seed), ("questions", self.question), ("sampling", self.sampling))
        return ", ".join(f"{name} {100 * share:.0f} %" for name, share in parts)

    @property
    def enough(self) -> bool | None:
        """True if evaluation noise is at most a third of the spread between seeds; None where nothing varies."""
        if self.deviation == 0.0:
            return None
        return self.noise_deviation <= WANTED * self.seed_deviation * (1 + 1e-9)

    @property
    def questions_needed(self) -> int | None:
        """Questions per block, at the same k, at which `enough` would hold; None where seeds have no spread to see."""
        if self.seed_deviation == 0.0:
            return None
        return ceil(self.questions * (self.noise_deviation / (WANTED * self.seed_deviation)) ** 2 - 1e-9)

    @property
    def sentence(self) -> str:
        """The check of the test set's size, in words."""
        if self.blocks < 2:
            return f"{self.blocks or 'no'} block: no spread to split"
        if self.deviation == 0.0:
            return "all blocks have the same score: nothing to split"
        noise, seed = f"±{self.noise_deviation:.4f}", f"±{self.seed_deviation:.4f}"
        if self.seed_deviation == 0.0:
            return f"evaluation noise ({noise}) hides the spread between seeds: ask more questions"
        if self.enough:
            return f"evaluation noise ({noise}) is at most a third of the spread between seeds ({seed})"
        needed = f"about {self.questions_needed:,} questions per block would do"
        return f"evaluation noise ({noise}) is more than a third of the spread between seeds ({seed}): {needed}"


def variance_split(right: Sequence[ArrayLike]) -> Split:
    """Split of one arm's spread between blocks; right[b] is [Q, k], 1 where a completion is right. Q, k may differ."""
    blocks = [_block(array) for array in right]
    sampling = _sampling(blocks)
    return _split([block.mean(axis=1) for block in blocks], [sampling / block.shape[1] for block in blocks])


def difference_split(right: Sequence[ArrayLike], baseline: Sequence[ArrayLike]) -> Split:
    """The same for the paired difference of two arms; right[b] and baseline[b] are [Q, k] over the *same* questions.

    What is hard about a question is hard for both arms and cancels; `question` is what is left of it: questions that
    one arm learned and the other did not. `seed` is the spread of the paired difference itself.
    """
    if len(right) != len(baseline):
        raise UserError(f"difference_split   {len(right)} blocks against {len(baseline)}; give the pairs")
    ours, theirs = [_block(array) for array in right], [_block(array) for array in baseline]
    for b, (x, y) in enumerate(zip(ours, theirs, strict=True)):
        if len(x) != len(y):
            raise UserError(f"difference_split   block {b} has {len(x)} and {len(y)} questions; give the shared ones")
    means = [x.mean(axis=1) - y.mean(axis=1) for x, y in zip(ours, theirs, strict=True)]
    s, t = _sampling(ours), _sampling(theirs)
    return _split(means, [s / x.shape[1] + t / y.shape[1] for x, y in zip(ours, theirs, strict=True)])


def _block(array: ArrayLike) -> Floats:
    block = np.asarray(array, dtype=float)
    if block.ndim != 2 or 0 in block.shape or not np.isfinite(block).all():
        raise UserError(
            f"variance   a block of shape {block.shape} holds no [questions, samples] of right (1) or wrong (0)"
        )
    return block


def _sampling(blocks: Sequence[Floats]) -> float:
    """σ²_sampling of one flag; 0 where every question has one sample (it is then inside the question term)."""
    squares = sum(float(((block - block.mean(axis=1, keepdims=True)) ** 2).sum()) for block in blocks)
    dof = sum(block.shape[0] * (block.shape[1] - 1) for block in blocks)
    return squares / dof if dof else 0.0


def _split(means: Sequence[Floats], sampling: Sequence[float]) -> Split:
    """means[b] [Q_b]: one number per question; sampling[b]: variance of such a number due to sampling."""
    if len(means) < 2:
        return Split(0.0, 0.0, 0.0, blocks=len(means), questions=float(np.mean([len(m) for m in means] or [0])))
    dofs = np.array([len(m) - 1 for m in means])
    squares = sum(float(((m - m.mean()) ** 2).sum()) for m in means)
    inside = squares / dofs.sum() - float(np.average(sampling, weights=dofs)) if dofs.sum() else 0.0
    counts = np.array([len(m) for m in means])
    total = float(np.var([m.mean() for m in means], ddof=1))
    question = max(0.0, float(inside)) * float(np.mean(1 / counts))
    noise = float(np.mean(np.asarray(sampling) / counts))
    total = 0.0 if total < 1e-24 else total
    seed = max(0.0, total - question - noise)
    whole = seed + question + noise
    if total == 0.0 or whole == 0.0:
        return Split(0.0, 0.0, 0.0, blocks=len(means), questions=float(counts.mean()))
    return Split(
        seed=seed / whole,
        question=question / whole,
        sampling=noise / whole,
        deviation=sqrt(total),
        seed_deviation=sqrt(seed),
        noise_deviation=sqrt(question + noise),
        blocks=len(means),
        questions=float(counts.mean()),
    )
