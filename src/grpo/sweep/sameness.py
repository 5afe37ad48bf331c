"""Arms that are the same algorithm: equal settings outside the objective, equal ways to collect groups, and gradients
that are proportional on batches as the run will see them.

What could differ and cannot be seen on such a batch (a part of one's own, DPPO's top-k forms, an account that fails)
makes two arms different.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from grpo.algorithm.form import build
from grpo.algorithm.shaping import NoShaping
from grpo.config.hashing import UNHASHED
from grpo.config.schema import AXES
from grpo.explain.account import account
from grpo.explain.compare import TOLERANCE, flat, proportion
from grpo.rewards.exact import Exact
from grpo.sweep.manifest import Sameness
from grpo.sweep.synthetic import LONGEST, Scene, numbers

if TYPE_CHECKING:
    from grpo.config.schema import RunConfig

log = logging.getLogger(__name__)
TRUNCATING = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}


@dataclass(frozen=True)
class Signature:
    """What tells two algorithms apart. gradients: on all batches, one after the other; None: cannot be seen."""

    collection: str
    gradients: Tensor | None


def signature(config: RunConfig, name: str = "it") -> Signature:
    """The objective of a configuration on the synthetic batches of its run."""
    objective = build(config)
    own = [axis for axis in AXES if not type(getattr(config, axis)).__module__.startswith("grpo.")]
    if own or objective.top_k:
        return Signature(collection(config), None)
    try:
        parts = [
            flat(account(objective, numbers(seed, scene), LONGEST, name)) for scene in scenes(config) for seed in (1, 2)
        ]
    except Exception as error:
        log.warning("%s is taken for an algorithm of its own: its gradient cannot be computed here (%s)", name, error)
        return Signature(collection(config), None)
    gradients = torch.cat(parts)
    return Signature(collection(config), gradients if bool(gradients.isfinite().all()) else None)


def collection(config: RunConfig) -> str:
    """How groups are collected; empty where every sampled group is used. And shaping, whose fractions of the length
    limit may be finer than the synthetic lengths."""
    rule = config.filter
    shaping = "" if isinstance(config.shaping, NoShaping) else repr(config.shaping)
    again = rule.resamples and getattr(rule, "max_rounds", 2) > 1
    ends = getattr(rule, "when_exhausted", "train") != "train"
    used = repr(rule) if again or ends or getattr(rule, "solved_at", None) is not None else ""
    return used + shaping


def scenes(config: RunConfig) -> list[Scene]:
    """The kinds of update in a run: the first after a rollout, and those after it where there are any."""
    names = list(config.reward.functions)
    judge = config.reward.accuracy or names[0]
    weights = config.reward.weights
    graded = len(names) > 1 or not isinstance(config.reward.functions[names[0]], Exact)
    common: dict[str, Any] = {
        "group_size": config.group_size,
        "apart": not same_numbers(config),
        "weights": tuple(float(weights.get(name, 1.0)) for name in names),
        "accuracy": names.index(judge),
    }
    found = [Scene(**common)]
    if config.updates.per_step > 1:
        found += [Scene(**common, moved=True), Scene(**common, moved=True, wild=True)]
    elif common["apart"]:
        found.append(Scene(**common, wild=True))
    if graded:
        found.append(Scene(**common, moved=config.updates.per_step > 1, graded=True))
    return found


def same_numbers(config: RunConfig) -> bool:
    """True if log μ is log π_old: the engine samples in float32 from the very weights that the trainer scores."""
    cpu = config.trainer.accelerator == "cpu" or not torch.cuda.is_available()
    plain = config.model.dtype in ("auto", "float32", "float64") and config.trainer.precision == "auto" and cpu
    whole = all(getattr(config.sampling, key) == off for key, off in TRUNCATING.items())
    rollout = config.rollout
    return plain and whole and not rollout.perturbed and rollout.kind == "transformers" and rollout.lag == 0


def factor(first: Signature, second: Signature) -> float | None:
    """c > 0 with second = c · first; None where they are not the same."""
    if first.collection != second.collection or first.gradients is None or second.gradients is None:
        return None
    a, b = first.gradients, second.gradients
    if a.shape != b.shape:
        return None
    if not a.any() and not b.any():
        return 1.0
    found = proportion(a, b)
    return found if found is not None and found > TOLERANCE else None


def settings(resolved: Mapping[str, Any], tuned: Collection[str] = ()) -> str:
    """Everything that changes a run's numbers, but the objective and what is tuned."""
    left = {key: value for key, value in resolved.items() if key not in UNHASHED and key not in AXES}
    return json.dumps(_without(left, tuned), sort_keys=True, default=str)


def _without(node: Mapping[str, Any], keys: Collection[str], prefix: str = "") -> dict[str, Any]:
    kept = {}
    for key, value in node.items():
        path = f"{prefix}{key}"
        if path not in keys:
            kept[key] = _without(value, keys, f"{path}.") if isinstance(value, Mapping) else value
    return kept


def objective_of(resolved: Mapping[str, Any], tuned: Collection[str] = ()) -> str:
    """The parts as they are written."""
    return json.dumps(_without({axis: resolved[axis] for axis in AXES}, tuned), sort_keys=True, default=str)


def find(arms: Sequence[tuple[str, RunConfig, Mapping[str, Any]]], tuned: Collection[str] = ()) -> list[Sameness]:
    """Pairs (an arm, the first one that it equals). arms: name, configuration, the same as plain types."""
    groups: dict[str, list[tuple[str, RunConfig, Mapping[str, Any]]]] = {}
    for arm in arms:
        groups.setdefault(settings(arm[2], tuned), []).append(arm)
    found = [pair for group in groups.values() if len(group) > 1 for pair in _within(group, tuned)]
    order = [name for name, _, _ in arms]
    return sorted(found, key=lambda pair: order.index(pair.second))


def _real_factor(first: RunConfig, second: RunConfig, found: float) -> float:
    """The factor at the run's own length limit, by which some aggregations divide."""
    batch = numbers(1, scenes(second)[-1])
    one, two = (flat(account(build(config), batch, config.max_completion_tokens)) for config in (first, second))
    return proportion(one, two) or found


def _within(group: Sequence[tuple[str, RunConfig, Mapping[str, Any]]], tuned: Collection[str]) -> list[Sameness]:
    firsts: list[tuple[str, RunConfig, str, Signature]] = []
    found = []
    for name, config, resolved in group:
        mine, written = signature(config, name), objective_of(resolved, tuned)
        for other, its_config, its_text, theirs in firsts:
            equal = written == its_text
            scale = 1.0 if equal else factor(theirs, mine)
            if scale is not None:
                scale = scale if equal else _real_factor(its_config, config, scale)
                found.append(Sameness(other, name, scale, _sentence(other, name, scale, equal, config)))
                break
        else:
            firsts.append((name, config, written, mine))
    return found


def _sentence(first: str, second: str, scale: float, equal: bool, config: RunConfig) -> str:
    if equal:
        return f"{second} is {first}: every setting that changes numbers is equal"
    how = "equal gradients" if abs(scale - 1) < TOLERANCE else f"gradients equal up to ×{scale:.6g}"
    why = ""
    if config.updates.per_step == 1:
        why = "; with one update per rollout ratios and clips do nothing (updates.minibatches=4 gives them work)"
    return f"{second} is the same algorithm as {first} in these runs: equal settings, {how}{why}"
