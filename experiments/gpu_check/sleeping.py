"""vLLM asleep gives its memory back, and awake it samples again: python -m experiments.gpu_check.sleeping FOLDER"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec

import torch

from experiments.gpu_check import model
from experiments.gpu_check.check import Context, Numbers, Skipped, require
from experiments.gpu_check.runs import child

SHARE = 0.3  # of the GPU, for vLLM


def sleeping(context: Context) -> Numbers:
    """In a process of its own: sleep(1) moves the weights to the host and drops keys and values."""
    if context.device != "cuda":
        raise Skipped("vLLM sleeps on GPUs only")
    if find_spec("vllm") is None:
        raise Skipped("vLLM is not installed")
    folder = model.write(context.work / "policy", small=context.small, device=context.device)
    out = child([sys.executable, "-m", "experiments.gpu_check.sleeping", str(folder)], context.left())
    numbers = json.loads(next(line for line in reversed(out.splitlines()) if line.startswith("{")))
    freed = numbers["awake_gb"] - numbers["asleep_gb"]
    return require(
        numbers | {"freed_gb": round(freed, 2)},
        (freed >= 0.8 * numbers["awake_gb"], "sleep gave back less than 0.8 of what vLLM held"),
        (numbers["same_after_waking"], "the greedy completion is another one after waking"),
    )


def main(folder: str) -> None:
    """GB that vLLM holds awake, asleep and awake again, as the driver counts them."""
    from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

    from grpo.rollout.vllm_start import start_vllm

    def held() -> float:
        free, total = torch.cuda.mem_get_info()
        return round((total - free) / 1e9 - before, 2)

    torch.zeros(1, device="cuda")  # the context is not vLLM's
    before = 0.0
    before = held()
    llm = start_vllm(
        folder, dtype="bfloat16", max_model_len=512, gpu_memory_utilization=SHARE, enable_sleep_mode=True,
        enforce_eager=True,
    )  # fmt: skip
    greedy = SamplingParams(temperature=0.0, max_tokens=16, detokenize=False)

    def sample() -> list[int]:
        (answer,) = llm.generate([{"prompt_token_ids": [4, 5, 6, 7]}], greedy, use_tqdm=False)
        return list(answer.outputs[0].token_ids)

    first, awake = sample(), held()
    llm.sleep(level=1)
    asleep = held()
    llm.wake_up()
    again = sample()
    numbers = {"awake_gb": awake, "asleep_gb": asleep, "awake_again_gb": held(), "same_after_waking": first == again}
    print(json.dumps(numbers))


if __name__ == "__main__":
    main(sys.argv[1])
