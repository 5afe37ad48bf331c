"""A rank that computes all cases, and what the ranks say to each other: python -m tests.ranks.worker FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from grpo.config.check import load
from grpo.errors import UserError
from grpo.ranks.ranks import Ranks, together
from grpo.training.run import run
from tests import helpers
from tests.ranks.cases import CASES, RUNS, WHOLE


def words(folder: Path, name: str, *more: str) -> list[str]:
    """The command line of a run of two ranks."""
    said = {text.split("=")[0] for text in RUNS[name]}
    small = [text for text in helpers.SMALL if text.split("=")[0] not in said]
    return [*small, *WHOLE, *RUNS[name], f"output_dir={folder / name}", "trainer=ddp", "trainer.devices=2", *more]


def spoken(ranks: Ranks) -> dict[str, Any]:
    """The three collectives, their errors, and sums of tensors of several types in small pieces."""
    found: dict[str, Any] = {
        "all": ranks.all(lambda: ranks.rank * 10),
        "each": ranks.each(lambda: ranks.rank * 10),
        "once": ranks.once(lambda: ranks.rank * 10 + 7),
    }

    def user(at: int) -> None:
        if ranks.rank == at:
            raise UserError(f"key   rank {at} says no")

    def broken() -> None:
        if ranks.rank == 1:
            raise ValueError("odd")

    for name, work in (("user 0", lambda: user(0)), ("user 1", lambda: user(1)), ("broken 1", broken)):
        for collective in (ranks.all, ranks.each):
            try:
                collective(lambda work=work: ranks.each(work))  # one inside another tells it once
            except Exception as error:
                found[f"{name} {collective.__name__}"] = (type(error).__name__, str(error))
    tensors = [torch.full((2, 3), 1.0 + ranks.rank), torch.arange(4.0, dtype=torch.float64), torch.ones(())]
    ranks.sum_(tensors)
    return {**found, "sum": tensors}


def main() -> None:
    """Rank r writes r.pt."""
    folder = Path(sys.argv[1])
    trainer = SimpleNamespace(accelerator="cpu", devices=2)
    with together(trainer) as ranks:
        found = {name: case(ranks) for name, case in CASES.items()}
        found["spoken"] = spoken(ranks)
        for name in RUNS:
            config, resolved = load(words(folder, name))
            found[f"run {name}"] = run(config, resolved)
        config, resolved = load(words(folder, "grpo", f"output_dir={folder / 'stopped'}", "resume=auto"))
        found["run resumed"] = run(config, resolved)
        torch.save(found, folder / f"{ranks.rank}.pt")


if __name__ == "__main__":
    main()
