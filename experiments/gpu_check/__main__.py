"""`python -m experiments.gpu_check`: what no CPU can show, in five minutes and without a download.

Writes results/<device>.json after each phase, prints a table, and ends with 1 where a phase failed. Where there is no
GPU it takes tiny sizes, which shows that the script works and nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from experiments.gpu_check import numerics, report, runs, sleeping
from experiments.gpu_check.check import Context, Numbers, Result, guarded, save
from grpo.runs.environment import cpu, environment

HERE = Path(__file__).resolve().parent
SECONDS = 300.0
PHASES: dict[str, Callable[[Context], Numbers]] = {
    "kernels": numerics.kernels,
    "precision": numerics.precision,
    "smoke": runs.smoke,
    "transformers": runs.transformers_speed,
    "vllm": runs.vllm_speed,
    "sleeping": sleeping.sleeping,
    "lora": runs.transformers_lora,
    "bf16": runs.transformers_bf16,
    "ddp": runs.ddp,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the phases; returns the exit code."""
    args = parser().parse_args(argv)
    gpu = torch.cuda.is_available() and not args.cpu
    device, small = "cuda" if gpu else "cpu", args.small or not gpu
    file = args.out or HERE / "results" / f"{name(gpu=gpu)}{'-small' if small else ''}.json"
    head = {**header(small=small), "device": torch.cuda.get_device_name() if gpu else "CPU"}
    results: list[Result] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu_check_") as work:
        context = Context(device, small, Path(work), began + args.seconds)
        for phase in args.phases:
            print(f"{phase} …", file=sys.stderr, flush=True)
            results.append(guarded(phase, PHASES[phase], context))
            head["seconds"] = round(time.monotonic() - began, 1)
            save(file, head, results)
            print(report.line(results[-1]), file=sys.stderr, flush=True)
    print(report.table([report.read(file)]))
    print(f"written: {file}")
    return 1 if any(result.status == "failed" for result in results) else 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m experiments.gpu_check", description=__doc__)
    made.add_argument("--small", action="store_true", help="tiny sizes, also on a GPU")
    made.add_argument("--cpu", action="store_true", help="on the CPU, also where there is a GPU")
    made.add_argument("--seconds", type=float, default=SECONDS, help="for everything; what is not begun by then failed")
    made.add_argument("--phases", nargs="+", choices=PHASES, default=list(PHASES), metavar="PHASE")
    made.add_argument("--out", type=Path, help="the JSON file; else results/<device>.json beside this script")
    return made


def name(*, gpu: bool) -> str:
    """The device as a file name: NVIDIA-H200, CPU."""
    return "-".join(torch.cuda.get_device_name().split()) if gpu else "CPU"


def header(*, small: bool) -> Numbers:
    """Which code, versions and machine; the command without this machine's folders."""
    facts = environment()
    kept = {key: facts[key] for key in ("started", "git", "python", "packages", "gpu")}
    command = " ".join(["python -m experiments.gpu_check", *sys.argv[1:]])
    cuda = {"cuda": torch.version.cuda, "cores": cpu()["usable"], "small": small}
    return {"command": command, **kept, **cuda}


if __name__ == "__main__":
    sys.exit(main())
