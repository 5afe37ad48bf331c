"""Cases that are computed by one process and by two, whose numbers must agree. Every function takes the ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

from grpo.algorithm.form import build
from grpo.config.check import load
from grpo.config.compose import Composer
from grpo.data import Prompt, Rollout, Sampling
from grpo.ranks.ranks import Ranks
from grpo.training.batch import Batch, microbatches, pad_floats, sampled_mask, shares
from tests.conftest import make_llama
from tests.training import worlds

COMPOSER = Composer()
ALGORITHMS = ("grpo", "dapo", "gspo", "tis", "vespo", "dpo", "two_grpo", "reinforce_pp", "gdpo", "scalerl")
"""All ways of sharing, filtering, refilling, correcting and looking back; the others differ inside the objective."""
PARTS: dict[str, tuple[str, ...]] = {
    **{name: (f"+algo={name}",) for name in ALGORITHMS},
    "kl and entropy in the reward": ("kl=k1_reward", "entropy=reward_bonus"),
    "exact kl, entropy in the loss": ("kl=exact", "entropy=loss_bonus"),
    "top k": ("+algo=dppo", "surrogate=divergence_mask_topk_kl"),
    "the whole update": ("+algo=chapter/dppo", "surrogate.kind=topk_tv", "surrogate.keep=9"),
    "shaping": ("shaping=soft_overlong", "credit=ref_downweight"),
}
RUNS: dict[str, tuple[str, ...]] = {
    "grpo": ("updates.minibatches=2", "updates.epochs=2", "preflight=warn"),
    "dapo": ("+algo=dapo", "rollout.lag=1", "optimizer.lr=1e-3", "updates.minibatches=2", "save_rollouts=true"),
    "lora": ("+algo=dpo", "model.lora.r=2", "model.lora.target_modules=[q_proj,v_proj]", "sampling.temperature=1.2"),
}
WHOLE = ("model.dtype=float64", "samples_every=1", "tokens_per_microbatch=100", "max_steps=2")
"""Of every run; five short completions and their prompts are a micro-batch."""


def trained(parts: tuple[str, ...], ranks: Ranks) -> dict[str, Any]:
    """Two steps of two off-policy updates of a random policy: metrics, sample rows, gradient of the last, weights."""
    settings, _ = load(list(parts), COMPOSER)
    objective = build(settings)
    policy = make_llama()
    made = worlds.module(
        policy,
        worlds.config(updates=worlds.updates(epochs=2, minibatches=2), optimizer=worlds.adam(1e-3)),
        objective,
        reference=make_llama(seed=1) if objective.needs_reference else None,
        group_size=settings.group_size,
        ranks=ranks,
    )
    seen = []
    for step in range(2):
        made.training_step(step, 0)
        seen.append((made.metrics, made.samples))
    return {"steps": seen, "gradient": worlds.gradients(policy), "weights": weights(policy)}


def weights(policy: Any) -> torch.Tensor:
    """All of them as one vector."""
    return torch.cat([value.detach().flatten() for value in policy.parameters()])


def by_hand(lengths: list[int], advantages: list[float]) -> Batch:
    """Completions of two each of the questions, of given lengths; a 0 is a completion without weight."""
    prompts = tuple(Prompt(f"q{i // 2}", (1, 3 + i // 2), "") for i in range(len(lengths)))
    rollouts = tuple(
        Rollout(p.id, i // 2, i % 2, tuple(3 + (i + t) % 20 for t in range(n)), (-1.0,) * n, (True,) * n, "stop", "", 0)
        for i, (p, n) in enumerate(zip(prompts, lengths, strict=True))
    )
    mask, values = sampled_mask(rollouts), torch.tensor(advantages, dtype=torch.float64)
    return Batch(
        prompts=prompts,
        rollouts=rollouts,
        mask=mask,
        in_loss=torch.ones(len(lengths), dtype=torch.bool),
        advantages=values,
        groups=torch.arange(len(lengths)) // 2,
        rewards=values,
        active=values != 0,
        logp_rollout=pad_floats([r.logp_rollout for r in rollouts], mask.shape[1]),
    )


HANDS: dict[str, tuple[list[int], list[float]]] = {
    # With 2 prompt tokens 18 and 5 × 5 tokens, the longest first and each to the rank with the fewest: 18 | 5, 10, 15,
    # 20, then 18 + 5. Micro-batches of 20 padded tokens: the long row and the short one alone, 2 | 4 × 5 = 20 in 1.
    "unequal": ([16, 3, 3, 3, 3, 3], [1, -1, 1, -1, 1, -1]),
    "one rank has nothing": ([5, 6], [1.0, 0.0]),
    "nobody has anything": ([5, 6, 4, 4], [0.0, 0.0, 0.0, 0.0]),
}


def updated(name: str, ranks: Ranks) -> dict[str, Any]:
    """One update on a batch made by hand."""
    policy, batch = make_llama(), by_hand(*HANDS[name])
    made = worlds.module(policy, worlds.config(tokens_per_microbatch=20, optimizer=worlds.adam(1e-2)), ranks=ranks)
    calls = []
    optimizer: Any = made.optimizers()
    step = optimizer.step
    optimizer.step = lambda: calls.append(step())
    result = made.update(batch, 0)
    mine = shares(batch, ranks.world)[ranks.rank]
    return {
        "outcomes": [r.outcome for r in result],
        "optimizer calls": len(calls),
        "gradient": worlds.gradients(policy),
        "weights": weights(policy),
        "meters": made.meters.compute(),
        "micro-batches": len(microbatches(batch, 20, mine)),
    }


class Wrong(worlds.EvenSum):
    """The same for everyone, so that no group is informative."""

    def score(self, prompts: Any, rollouts: Any, **_: Any) -> Any:
        scores = super().score(prompts, rollouts)
        zero = torch.zeros_like(scores.rewards)
        return replace(scores, rewards=zero, accuracy=zero[:, 0])


def uninformative(ranks: Ranks) -> dict[str, Any]:
    """Two steps without a reward that differs."""
    policy = make_llama()
    made = worlds.module(policy, scorer=Wrong(), ranks=ranks)
    for step in range(2):
        made.training_step(step, 0)
    return {"metrics": made.metrics, "weights": weights(policy)}


def unreached(ranks: Ranks) -> dict[str, Any]:
    """A parameter that no completion uses has no gradient: weight decay must leave it alone on every rank."""
    policy = make_llama()
    policy.unused = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    settings = worlds.config(optimizer=SimpleNamespace(lr=0.1, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.5))
    made = worlds.module(policy, settings, ranks=ranks)
    made.training_step(0, 0)
    return {"unused": policy.unused.detach().clone(), "weights": weights(policy)}


def repeated(ranks: Ranks) -> dict[str, Any]:
    """Where two passes over few questions meet in one step: four groups, two of them of one question."""
    a, b, c = worlds.Book().train(0, 3)
    engine = worlds.module(make_llama(), ranks=ranks).engine
    drawn = engine.generate([a, a, b, c], 3, Sampling(max_tokens=6), seed=0, stream="train/0", step=0)
    return {"rollouts": [vars(rollout) for rollout in drawn]}


CASES: dict[str, Callable[[Ranks], dict[str, Any]]] = {
    **{name: lambda ranks, parts=parts: trained(parts, ranks) for name, parts in PARTS.items()},
    **{name: lambda ranks, name=name: updated(name, ranks) for name in HANDS},
    "uninformative": uninformative,
    "unreached": unreached,
    "repeated": repeated,
}
