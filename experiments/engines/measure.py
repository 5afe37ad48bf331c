"""Generated tokens per second of both engines at G = 8, side by side: the same prompts, weights and lengths.

    python -m experiments.engines.measure                        # the embedded policy
    python -m experiments.engines.measure model=smollm2 task=words

Each engine samples `ROUNDS` steps in turn, after one that is not counted; a rate is tokens over CPU seconds of the
process on CPU (what else runs does not matter) and over seconds on GPU. Prints the line that goes into table.md.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from grpo.config.check import load
from grpo.training.assemble import Run, assemble, training_sampling, transformers_engine
from grpo.training.vllm import vllm_engine

ROUNDS = 3


def rate(engine: Any, run: Run, rounds: range, clock: Any) -> tuple[int, float]:
    """(tokens, seconds) of training steps."""
    config, tokens, begun = run.config, 0, clock()
    for step in rounds:
        prompts = run.book.train(step, config.prompts_per_step)
        drawn = engine.generate(
            prompts, config.group_size, training_sampling(config), seed=0, stream="train/0", step=step
        )
        tokens += sum(r.length for r in drawn)
    return tokens, clock() - begun


def main(argv: list[str]) -> None:
    """Measure and print."""
    config, _ = load(["rollout=vllm", "group_size=8", "logger=none", *argv])
    run = assemble(config)
    clock = time.process_time if run.device.type == "cpu" else time.perf_counter
    found: dict[str, list[float]] = {}
    engines = {"transformers": transformers_engine(run, run.policy), "vllm": vllm_engine(run, run.policy)}
    for name, engine in engines.items():
        rate(engine, run, range(1), clock)
        found[name] = [0.0, 0.0]
    for step in range(1, 1 + ROUNDS):  # in turn, so that a slow minute hits both
        for name, engine in engines.items():
            tokens, seconds = rate(engine, run, range(step, step + 1), clock)
            found[name] = [found[name][0] + tokens, found[name][1] + seconds]
    engines["vllm"].close()
    speeds = {name: tokens / seconds for name, (tokens, seconds) in found.items()}
    ratio = speeds["vllm"] / speeds["transformers"]
    size = f"{config.prompts_per_step} × {config.group_size}, ≤ {config.max_completion_tokens}"
    print("| policy, step | transformers tokens/s | vLLM tokens/s | vLLM / transformers |\n|---|---|---|---|")
    print(f"| {config.model.kind}, {size} | {speeds['transformers']:,.0f} | {speeds['vllm']:,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
