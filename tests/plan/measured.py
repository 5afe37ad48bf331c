"""What a step really allocates."""

from __future__ import annotations

from typing import Any

import torch

from grpo.data import Prompt, Sampling
from grpo.models.load import load_policy, training_mode
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.training.assemble import make_reference
from grpo.training.logprobs import completion_logps
from tests.training.memory import Live


def measured_peak(config: Any) -> int:
    """Two steps with the trainer's own functions, every prompt and completion at its limit."""
    policy, _ = load_policy(config.model, "cpu")
    reference = make_reference(config.model, policy, torch.device("cpu"))
    live = Live()
    for model in (policy, reference):
        for parameter in model.parameters():
            live.add(parameter)
    ids = (1, *(3 + i % 20 for i in range(config.max_prompt_tokens - 1)))
    prompts = [Prompt(f"p{i}", ids, "") for i in range(config.prompts_per_step)]
    # No id ends a completion, so that all of them reach the limit.
    engine = TransformersEngine(
        policy, eos_ids=(-1,), pad_id=0, decode=lambda ids: "", max_rows=config.rollout.max_rows
    )
    sampling = Sampling(max_tokens=config.max_completion_tokens)
    optimizer = torch.optim.AdamW([p for p in policy.parameters() if p.requires_grad], lr=1e-6)
    rows = max(1, config.tokens_per_microbatch // (config.max_prompt_tokens + config.max_completion_tokens))
    with live:
        for step in range(2):
            rollouts = engine.generate(prompts, config.group_size, sampling, seed=0, stream="train", step=step)
            pairs = [(prompts[r.group], r) for r in rollouts]
            optimizer.zero_grad(set_to_none=True)
            for start in range(0, len(pairs), rows):
                part = pairs[start : start + rows]
                asked: dict[str, Any] = {"temperature": 1.0, "pad_id": 0}
                these, answers = [p for p, _ in part], [r for _, r in part]
                with torch.no_grad():
                    completion_logps(reference, these, answers, **asked)
                with training_mode(policy):
                    completion_logps(policy, these, answers, **asked).logp.sum().backward()
            optimizer.step()
    return live.peak
