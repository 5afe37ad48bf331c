"""What a step's completions say before any update: rewards, groups, lengths and the rows of the sample table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from grpo.data import Scores
from grpo.recording.meters import Meters
from grpo.training.batch import Batch
from grpo.training.collect import Experience

# A group counts as one reward value up to the round-off of the rewards' size.
_TOLERANCE = 1e-8


def group_rows(groups: Tensor) -> dict[int, Tensor]:
    """Row indices by group id, in order of first appearance."""
    rows: dict[int, list[int]] = {}
    for row, group in enumerate(groups.tolist()):
        rows.setdefault(group, []).append(row)
    return {group: torch.tensor(members) for group, members in rows.items()}


def measure_rewards(meters: Meters, scores: Scores, names: Sequence[str]) -> None:
    """reward, reward_std, rewards/<name>/mean, groups/*: over everything sampled, discarded groups included."""
    total, scored = scores.total, scores.scored
    meters.add_mean("reward", float(total[scored].sum()), int(scored.sum()))
    meters.add_mean("rewards/unscored", float((~scored).sum()), len(scored))
    for name, values in zip(names, scores.rewards.T, strict=False):
        applies = ~values.isnan()
        meters.add_mean(f"rewards/{name}/mean", float(values[applies].sum()), int(applies.sum()))
    judged = ~scores.accuracy.isnan()
    meters.add_mean("accuracy", float((scores.accuracy[judged] == 1).sum()), int(judged.sum()))
    for rows in group_rows(scores.groups).values():
        values, accuracy = total[rows][scored[rows]], scores.accuracy[rows]
        spread = float(values.std(unbiased=False)) if len(values) > 1 else 0.0
        scale = max(1.0, float(values.mean().abs())) if len(values) else 1.0
        dead = spread <= _TOLERANCE * scale
        right = accuracy == 1
        meters.add_mean("reward_std", spread, 1)
        meters.add_mean("groups/zero_std", float(dead), 1)
        meters.add_mean("groups/all_right", float(dead and bool(right.all())), 1)
        meters.add_mean("groups/all_wrong", float(dead and not bool(right.any())), 1)


def measure_samples(meters: Meters, experience: Experience) -> None:
    """length/*, sampling/*: over everything sampled; token means are token-weighted."""
    accuracy = experience.sampled_scores.accuracy
    for rollout, value in zip(experience.sampled, accuracy.tolist(), strict=True):
        meters.add_mean("length/mean", rollout.length, 1)
        meters.add_max("length/max", rollout.length)
        meters.add_mean("length/truncated", float(rollout.truncated), 1)
        if value == value:  # not nan: the completion was judged
            meters.add_mean("length/right" if value == 1 else "length/wrong", rollout.length, 1)
        nll = -sum(p for p, counts in zip(rollout.logp_rollout, rollout.sampled, strict=True) if counts)
        meters.add_mean("sampling/nll", nll, rollout.length)
    meters.add_sum("sampling/rounds", experience.rounds)
    meters.add_sum("sampling/exhausted", float(experience.exhausted))
    meters.add_sum("sampling/discarded_tokens", experience.discarded_tokens)
    if experience.solved is not None:
        meters.add_sum("sampling/solved", experience.solved)


def measure_training_groups(meters: Meters, batch: Batch) -> None:
    """groups/informative: groups of the update whose advantages are not all zero; advantage/abs_mean."""
    meters.add_sum("groups/informative", 0.0)
    for rows in group_rows(batch.groups).values():
        meters.add_sum("groups/informative", float((batch.advantages[rows] != 0).any()))
    meters.add_mean("advantage/abs_mean", float(batch.advantages.abs().sum()), len(batch))


def sample_rows(
    batch: Batch,
    scores: Scores,
    names: Sequence[str],
    weights: Mapping[int, Tensor],
    old_logps: Mapping[int, Tensor],
    groups: int,
    columns: Mapping[tuple[int, int], Mapping[str, object]] | None = None,
) -> list[dict[str, object]]:
    """The first `groups` groups of a step for samples.jsonl: text, ids, log-probs, weights, advantage and rewards.

    columns: what reward functions logged, by (group, sample).
    """
    shown = [rows for _, rows in zip(range(groups), group_rows(batch.groups).values(), strict=False)]
    table, total = [], scores.total
    for row in torch.cat(shown).tolist() if shown else []:
        rollout, length = batch.rollouts[row], len(batch.rollouts[row].token_ids)
        values = scores.rewards[row].tolist()
        extra = (columns or {}).get((rollout.group, rollout.sample))
        table.append(
            {
                "prompt_id": rollout.prompt_id,
                "group": rollout.group,
                "sample": rollout.sample,
                "prompt": batch.prompts[row].text,
                "completion": rollout.text,
                "token_ids": list(rollout.token_ids),
                "logp_old": old_logps[row][:length].tolist() if row in old_logps else None,
                "logp_rollout": list(rollout.logp_rollout),
                "weight": weights[row][:length].tolist() if row in weights else [0.0] * length,
                "advantage": float(batch.advantages[row]),
                "rewards": {name: (None if v != v else v) for name, v in zip(names, values, strict=False)},
                "reward": None if total[row].isnan() else float(total[row]),
                "finish": rollout.finish_reason,
                **({"extra": dict(extra)} if extra else {}),
            }
        )
    return table


def with_ess(metrics: dict[str, float]) -> dict[str, float]:
    """correction/ess = (Σw)² / (n Σw²), the effective share of the tokens, in place of the mean of squares."""
    square = metrics.pop("correction/square", None)
    if square is not None:
        metrics["correction/ess"] = metrics["correction/mean"] ** 2 / square if square else 0.0
    return metrics
