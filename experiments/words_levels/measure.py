"""Base accuracy of a model on each level and kind of `words` at temperature 1, and how many groups of 8 vary.

    python experiments/words_levels/measure.py --questions 24 --out table.md

A level is fit for training where accuracy lies between 0.10 and 0.50 and at least half of the groups vary: a group
whose rewards are all equal has no advantage. Rerun it with --model <folder> for another policy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from grpo.config.schema import ModelConfig, RewardConfig
from grpo.data import Prompt, Rollout, Sampling
from grpo.models.load import eos_ids, load_policy
from grpo.rewards.exact import Exact
from grpo.rewards.scoring import Scorer
from grpo.rollout.transformers_engine import TransformersEngine
from grpo.tasks.prompts import PromptBook
from grpo.tasks.words import Words

GROUP = 8
COLUMNS = ("level", "kind", "accuracy", "groups varying", "mean tokens", "cut at limit", "completions")
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--questions", type=int, default=24, help="questions of the train split per level")
    parser.add_argument("--model", default=None, help="model folder; SmolLM2 if left out")
    parser.add_argument("--out", type=Path, default=None, help="Markdown file to write")
    options = parser.parse_args()
    config = ModelConfig(kind="hf" if options.model else "smollm2", path=options.model)
    policy, tokenizer = load_policy(config, "cpu")
    engine = TransformersEngine(
        policy,
        eos_ids=eos_ids(policy, tokenizer),
        pad_id=int(tokenizer.pad_token_id),
        decode=lambda ids: tokenizer.decode(ids, skip_special_tokens=True),
    )
    lines = [HEAD]
    print(HEAD, flush=True)
    for level in options.levels:
        start = time.time()
        task = Words(level=level)
        prompts = PromptBook(task, tokenizer, seed=0, max_prompt_tokens=512).train(0, options.questions)
        sampling = Sampling(max_tokens=task.max_completion_tokens)
        rollouts = engine.generate(prompts, GROUP, sampling, seed=0, stream="words_levels", step=0)
        for row in rows(task, prompts, rollouts):
            lines.append(row)
            print(row, flush=True)
        print(f"  ({time.time() - start:.0f} s)", flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def rows(task: Words, prompts: list[Prompt], rollouts: list[Rollout]) -> Iterator[str]:
    """One line per kind and one for the level."""
    scorer = Scorer(RewardConfig(functions={"exact": Exact(extract=task.extract)}))
    right = scorer.score(prompts, rollouts).accuracy.reshape(len(prompts), GROUP)
    lengths = torch.tensor([r.length for r in rollouts], dtype=torch.float64).reshape(len(prompts), GROUP)
    cut = torch.tensor([r.truncated for r in rollouts], dtype=torch.float64).reshape(len(prompts), GROUP)
    kinds = [prompt.columns["kind"] for prompt in prompts]
    for kind in (*task.kinds, "all"):
        chosen = torch.tensor([kind in (k, "all") for k in kinds])
        if not chosen.any():
            continue
        hits = right[chosen]
        varying = ((hits.sum(1) > 0) & (hits.sum(1) < GROUP)).double().mean()
        yield (
            f"| {task.level} | {kind} | {hits.mean():.2f} | {varying:.2f} | {lengths[chosen].mean():.1f} "
            f"| {cut[chosen].mean():.2f} | {hits.numel()} |"
        )


if __name__ == "__main__":
    main()
