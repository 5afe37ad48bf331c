"""vLLM's start and end in the trainer's process.

Build it in LightningModule.setup, never before: LLM() initialises torch.distributed where nobody has, and reseeds all
global random states.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch

from grpo.errors import UserError


@contextmanager
def kept_random_states() -> Iterator[None]:
    """Python's, NumPy's and torch's global random states are afterwards what they were before."""
    python, array, cpu = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(array)
        torch.set_rng_state(cpu)
        if gpus is not None:
            torch.cuda.set_rng_state_all(gpus)


@contextmanager
def quiet() -> Iterator[None]:
    """What the libraries write to stderr while vLLM starts is shown only if it fails."""
    with tempfile.TemporaryFile() as kept, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.stderr.flush()
        terminal = os.dup(2)
        os.dup2(kept.fileno(), 2)  # also of C++ and of vLLM's own processes
        try:
            yield
        except BaseException:
            os.dup2(terminal, 2)
            kept.seek(0)
            sys.stderr.write(kept.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def start_vllm(source: str, **settings: Any) -> Any:
    """An LLM in this very process that uses no tokenizer; settings: as in vllm.LLM."""
    # Read when vllm is imported: without the first, the engine is another process that no weights reach.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # The last: on CPU each of several workers would ask for a NUMA node of its own.
    quieter = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    for name, value in quieter.items():
        os.environ.setdefault(name, value)
    with kept_random_states(), quiet():
        import vllm  # pyright: ignore[reportMissingImports]

        try:
            return vllm.LLM(
                model=source,
                skip_tokenizer_init=True,
                generation_config="vllm",
                logprobs_mode="processed_logprobs",
                disable_log_stats=True,
                use_tqdm_on_load=False,
                **settings,
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise UserError(
                f"rollout.kind   vLLM cannot start {source}: {' '.join(str(error).split())[:300]}"
            ) from error


def stop_vllm(llm: Any, *, owns_group: bool) -> None:
    """Shut vLLM down; owns_group: and torch.distributed with it, which vLLM had begun."""
    from vllm.distributed import parallel_state  # pyright: ignore[reportMissingImports]

    core = getattr(llm.llm_engine.engine_core, "engine_core", llm.llm_engine.engine_core)
    core.shutdown()
    parallel_state.destroy_model_parallel()
    if owns_group:
        parallel_state.destroy_distributed_environment()
    gc.collect()
