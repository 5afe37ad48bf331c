"""Phases that are runs of `python -m grpo`, each a process of its own: what is measured is what users run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median

from experiments.common import REPOSITORY
from experiments.gpu_check import model
from experiments.gpu_check.check import Context, Failed, Numbers, Skipped, require

QUIET = ("preflight=off", "logger=none", "checkpoint.every=null", "checkpoint.export=false", "samples_every=1000000")
BLIND = ("eval.every=null", "eval.questions=1", "eval.samples=1", "eval.greedy=false", "eval.test_questions=0")
TIMES = {"time/rollout": "rollout_s", "time/update": "update_s", "time/sync": "sync_s"}
SPEEDS = {
    "speed/generated_tokens_per_s": "generated_tokens_per_s",
    "speed/trained_tokens_per_s": "trained_tokens_per_s",
}
MISMATCH = {"mismatch/abs_logp_mean": "mismatch_mean", "mismatch/abs_logp_max": "mismatch_max"}
ACCELERATORS = {"cuda": "gpu", "cpu": "cpu"}
BOUND = 0.1  # nats, mean |log π − log μ| where both compute in bfloat16: about three times what two such passes differ


def smoke(context: Context) -> Numbers:
    """The embedded policy on its task: the reward must rise. On a CPU it goes from 0.33 to 0.60 in 15 steps."""
    steps = 15 if context.small else 40
    folder = train(context, "smoke", *BLIND, f"max_steps={steps}")
    rewards = [row["reward"] for row in rows(folder) if "reward" in row]
    first, last = fmean(rewards[:3]), fmean(rewards[-3:])
    numbers = {"steps": len(rewards), "reward_first_3": round(first, 3), "reward_last_3": round(last, 3)}
    return require(numbers, (len(rewards) == steps, "steps are missing"), (last > first, "the reward did not rise"))


def transformers_speed(context: Context) -> Numbers:
    """The 0.5 B policy, all weights: float32 with bfloat16 autocast on a GPU."""
    return speed(context, "transformers")


def transformers_bf16(context: Context) -> Numbers:
    """The same in pure bfloat16."""
    return speed(context, "bf16", "model.dtype=bfloat16")


def transformers_lora(context: Context) -> Numbers:
    """The same with an adapter over a base in bfloat16."""
    if find_spec("peft") is None:
        raise Skipped("peft is not installed")
    return speed(context, "lora", "model.dtype=bfloat16", "model.lora.r=16")


def vllm_speed(context: Context) -> Numbers:
    """The 0.5 B policy sampled by vLLM; vLLM's pool is not torch's, so memory is not compared."""
    if find_spec("vllm") is None:
        raise Skipped("vLLM is not installed")
    return speed(context, "vllm", "rollout=vllm", "rollout.gpu_memory_utilization=0.3", compare=False)


def ddp(context: Context) -> Numbers:
    """The embedded policy on two GPUs, or in two processes on a CPU."""
    import torch

    gpus = torch.cuda.device_count()
    if context.device == "cuda" and gpus < 2:
        raise Skipped(f"two GPUs are needed, here is {gpus}")
    devices = ("trainer=ddp", "trainer.devices=2", f"trainer.accelerator={ACCELERATORS[context.device]}")
    folder = train(context, "ddp", *BLIND, "max_steps=5", where=devices)
    steps = len([row for row in rows(folder) if "reward" in row])
    return require({"steps": steps}, (steps == 5, "steps are missing"))


def words(context: Context) -> list[str]:
    """Overrides of a run of the policy with random weights; hardly any completion ends before its limit."""
    folder = model.write(context.work / "policy", small=context.small, device=context.device)
    sizes = (2, 4, 8, 256, 64) if context.small else (16, 8, 256, 16_384, 8)
    names = ("prompts_per_step", "group_size", "max_completion_tokens", "tokens_per_microbatch", "max_prompt_tokens")
    target = "reward.functions.own._target_=experiments.gpu_check.rewards.parity"
    given = [f"{name}={size}" for name, size in zip(names, sizes, strict=True)]
    return ["model=hf", f"model.path={folder}", "reward=own", target, "kl=none", *BLIND, *given]


def speed(context: Context, name: str, *extra: str, compare: bool = True) -> Numbers:
    """Three steps: medians of the last two, mismatch, and peak memory against the plan."""
    asked = [*words(context), *extra, "max_steps=3"]
    found = [row for row in rows(train(context, name, *asked)) if "time/update" in row]
    if len(found) < 3:
        raise Failed(f"{len(found)} of 3 steps had an update", {})
    numbers: Numbers = {}
    for metric, key in {**TIMES, **SPEEDS}.items():
        numbers[key] = round(median(row[metric] for row in found[1:] if metric in row), 4)
    for metric, key in MISMATCH.items():
        numbers[key] = float(f"{max(row[metric] for row in found if metric in row):.3g}")
    rules = [(numbers["mismatch_mean"] <= BOUND, f"mean |log π − log μ| is above {BOUND}")]
    if compare and context.device == "cuda":
        numbers |= memory(asked, found[-1]["memory/peak"])
        share = numbers["measured_over_planned"]
        rules.append((0.8 <= share <= 1.2, f"measured memory is {share:.2f} of the plan"))
    return require(numbers, *rules)


def memory(asked: list[str], measured: float) -> Numbers:
    """GB of torch's allocator at their most, and what `python -m grpo.plan` says."""
    from grpo.config.check import load
    from grpo.plan.memory import plan

    planned = plan(load([*asked, "trainer=gpu"])[0]).peak / 1e9
    shown = {"planned_gb": round(planned, 2), "measured_gb": round(measured, 2)}
    return {**shown, "measured_over_planned": round(measured / planned, 3)}


def train(context: Context, name: str, *overrides: str, where: Sequence[str] = ()) -> Path:
    """`python -m grpo` in a process group of its own, ended when the time is; its run folder."""
    folder = context.work / "runs" / name
    where = where or [f"trainer={ACCELERATORS[context.device]}"]
    command = [sys.executable, "-m", "grpo", *where, *QUIET, *overrides, f"run_dir={folder}"]
    child(command, context.left())
    return folder


def child(command: list[str], seconds: float) -> str:
    """Its standard output; `Failed` with the last lines of its errors where it does not end well or in time."""
    pipe = subprocess.PIPE
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}  # nothing is downloaded, and nothing waits for a network
    process = subprocess.Popen(
        command, cwd=REPOSITORY, env=offline, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    try:
        out, errors = process.communicate(timeout=max(1.0, seconds - 2.0))
    except BaseException as error:  # also the alarm of the phase
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise Failed(f"it was not done after {seconds:.0f} s", {}) from error
        raise
    if process.returncode:
        last = " | ".join((errors or out).strip().splitlines()[-4:])
        raise Failed(f"exit code {process.returncode}: {last}", {})
    return out


def rows(folder: Path) -> list[Numbers]:
    """metrics.jsonl of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
