"""bfloat16, mixed and pure: which tensors are what, how far log π is from float32, and which updates are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from grpo.config.nodes import ModelConfig
from grpo.models import tail
from grpo.models.load import load_policy
from grpo.rollout import transformers_engine
from grpo.training import logprobs
from grpo.training.assemble import autocast_for
from tests import helpers
from tests.training import worlds

CPU = torch.device("cpu")
KINDS = ("mixed", "pure", "pure, float32 head")


def world(kind: str, lr: float = 1e-6) -> Any:
    """A module around the shipped policy, in one of the precisions."""
    pure = kind.startswith("pure")
    keys = ModelConfig(kind="tiny", dtype="bfloat16" if pure else "auto", fp32_head="head" in kind)
    policy, _ = load_policy(keys, CPU)
    made = worlds.module(policy, worlds.config(optimizer=worlds.adam(lr)))
    precision = "bf16-mixed" if kind == "mixed" else "auto"
    made.passes.autocast = made.engine.autocast = autocast_for(precision, CPU, policy.dtype)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_types_of_weights_gradients_moments_and_log_probs(kind: str) -> None:
    made = world(kind)
    narrow = torch.float32 if kind == "mixed" else torch.bfloat16
    seen: dict[str, torch.dtype] = {}
    made.policy.model.layers[0].mlp.register_forward_hook(lambda *a: seen.__setitem__("inside", a[2].dtype))
    batch = made.score(made.prepare(worlds.sampled(made)))
    scored = made.passes.forward(made.policy, batch)
    assert seen == {"inside": torch.bfloat16}  # both compute in bfloat16 …
    assert scored.logp.dtype == scored.entropy.dtype == torch.float32  # … and say log π in float32
    assert [r.outcome for r in made.update(batch, 0)] == ["updated"]
    parameters = list(made.policy.parameters())
    assert {p.dtype for p in parameters} == {narrow}
    assert {p.grad.dtype for p in parameters} == {narrow}
    moments = made.optimizers().state.values()
    assert {state[name].dtype for state in moments for name in ("exp_avg", "exp_avg_sq")} == {narrow}


# nats, (mean, max) over tokens: bfloat16 rounds a number by up to 2^-9 = 0.2 %, a logit of 10 by 0.02.
BOUNDS = dict.fromkeys(KINDS, (0.01, 0.15))


@pytest.mark.parametrize("kind", KINDS)
def test_log_probs_are_those_of_float32_within_a_bound(kind: str) -> None:
    exact, made = world("float32"), world(kind)
    batch = exact.prepare(worlds.sampled(exact))
    here, there = (m.passes.forward(m.policy, batch).logp.detach() for m in (made, exact))
    gap = (here - there)[batch.mask].abs()
    assert 1e-4 < float(gap.mean()) < BOUNDS[kind][0]
    assert float(gap.max()) < BOUNDS[kind][1]


def test_autocast_is_around_the_forward_passes_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a whole run: drawing tokens, rewards, log-softmax, objective and optimizer are outside."""
    seen: dict[str, set[bool]] = {}

    def watch(module: Any, name: str) -> None:
        real = getattr(module, name)

        def watched(*inputs: Any, **named: Any) -> Any:
            if not any(isinstance(value, Tensor) and value.is_meta for value in inputs):  # those of grpo.plan
                seen.setdefault(name, set()).add(torch.is_autocast_enabled("cpu"))
            return real(*inputs, **named)

        monkeypatch.setattr(module, name, watched)

    watch(transformers_engine, "processed")
    watch(transformers_engine, "draw")
    watch(logprobs, "tempered")
    watch(helpers, "digits")
    watch(torch.optim.AdamW, "step")
    watch(torch.nn.functional, "linear")
    monkeypatch.setattr(tail, "_probed", lambda model: "")  # its one token comes before all that
    few = ("max_steps=1", "prompts_per_step=4", "group_size=4", "max_completion_tokens=8", "eval.questions=1",
           "eval.samples=1", "eval.test_questions=0", "checkpoint.export=false")  # fmt: skip
    code, _ = helpers.run(tmp_path, "trainer.precision=bf16-mixed", *few)
    assert code == 0
    assert seen.pop("linear") == {True}
    assert seen == {name: {False} for name in ("processed", "draw", "tempered", "digits", "step")}


def moved(kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """(|w| before, |gradient|, whether w changed) of every weight in one update at lr = 1e-6."""
    made = world(kind)
    before = torch.cat([p.detach().double().flatten() for p in made.policy.parameters()])
    made.update(made.score(made.prepare(worlds.sampled(made))), 0)
    after = torch.cat([p.detach().double().flatten() for p in made.policy.parameters()])
    return before.abs(), worlds.gradients(made.policy).double().abs(), before != after


def test_pure_bfloat16_loses_the_updates_of_a_small_learning_rate() -> None:
    """AdamW's first step is lr · g / (|g| + eps), 1e-6 for every g well above eps = 1e-8, whatever the gradient.

    bfloat16 keeps 8 bits: between 2^e and 2^(e+1) numbers are 2^(e−7) apart, and 2^(e−8) below 2^e. A step under half
    of that, 2^(e−9), rounds back: with lr = 1e-6 that is every |w| ≥ 2^9 lr = 5.1e-4. float32 keeps 24 bits, and only
    |w| ≥ 2^24 lr = 16 would stay.
    """
    size, gradient, changed = moved("pure")
    large = size >= 2**9 * 1e-6
    assert not changed[large].any()
    assert float(large.double().mean()) > 0.95  # of the shipped policy's weights
    assert changed[(size < 2**8 * 1e-6 * 0.9) & (gradient > 1e-6)].all()  # the few that are small enough move
    size, gradient, changed = moved("mixed")
    reached = gradient > 1e-6
    assert float(size.max()) < 8
    assert changed[reached].all()
    assert float(reached.double().mean()) > 0.5
