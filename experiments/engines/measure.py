"""Generated tokens per second of both engines at G = 8, side by side: the same prompts, weights and lengths.

    python -m experiments.engines.measure                        # the embedded policy and SmolLM2 (make smollm2)
    python -m experiments.engines.measure --rounds 9

The engines sample each training step in turn, after one that is not counted, so that a slow minute hits both. A round's
ratio is vLLM's rate over that of transformers; the median and the range of the rounds are printed and written to speed.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

from grpo.config.check import load
from grpo.training.assemble import Run, assemble, cpu_threads, training_sampling, transformers_engine
from grpo.training.vllm import vllm_engine

HERE = Path(__file__).resolve().parent
POLICIES = {"tiny": (), "SmolLM2-135M": ("model=smollm2", "task=words", "prompts_per_step=4")}
HEAD = "| policy | prompts × G, new tokens | transformers | vLLM | vLLM / transformers |\n|---|---|---|---|---|"


def rate(engine: Any, run: Run, step: int) -> float:
    """Tokens per second of one training step's sampling; the sync of the weights is not in it."""
    config = run.config
    prompts = run.book.train(step, config.prompts_per_step)
    begun = time.perf_counter()
    drawn = engine.generate(
        prompts, config.group_size, training_sampling(config), seed=0, stream="train/0", step=step
    )
    return sum(r.length for r in drawn) / (time.perf_counter() - begun)


def row(name: str, overrides: tuple[str, ...], rounds: int) -> str:
    """One line of the table."""
    config, _ = load(["rollout=vllm", "group_size=8", "logger=none", *overrides])
    run = assemble(config)
    engines = {"transformers": transformers_engine(run, run.policy), "vllm": vllm_engine(run, run.policy)}
    found = [{name: rate(engine, run, step) for name, engine in engines.items()} for step in range(1 + rounds)][1:]
    engines["vllm"].close()
    plain, fast = (statistics.median(r[engine] for r in found) for engine in engines)
    ratios = sorted(r["vllm"] / r["transformers"] for r in found)
    size = f"{config.prompts_per_step} × {config.group_size}, ≤ {config.max_completion_tokens}"
    ratio = f"**{statistics.median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})"
    return f"| {name} | {size} | {plain:,.0f} tokens/s | {fast:,.0f} tokens/s | {ratio} |"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    table = "\n".join([HEAD, *(row(name, overrides, rounds) for name, overrides in POLICIES.items())])
    print(f"{table}\n\nfloat32 on CPU, {cpu_threads()} threads, {rounds} rounds")
    (HERE / "speed.md").write_text(table + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
