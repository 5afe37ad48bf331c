"""What ranks say to each other. `Ranks` itself is a world of one, so that nobody has to ask how many there are.

Each method but `first` is a collective: all ranks must call it, in the same order, and whether they call it must not
depend on anything that only some of them know. `all`, `each` and `once` also share errors, so that a failure on one
rank ends all of them where they stand: rank 0 raises it and tells it, the others raise `Elsewhere`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from grpo.errors import UserError
from grpo.ranks.place import Place, joined

T = TypeVar("T")
PIECE = 1 << 25  # numbers in one all-reduce: the copy that it needs stays small beside the gradients
TIMEOUT = timedelta(days=1)  # slow rewards are no hang: of a rank that died, its launcher and its connections tell


class Elsewhere(Exception):
    """This rank ends because of an error that rank 0 tells."""


class RankFailed(RuntimeError):
    """Another rank's error that is not the user's mistake; its traceback is in that rank's output."""


@dataclass(frozen=True)
class _Failure:
    """An error on its way to the other ranks."""

    rank: int
    text: str
    users: bool  # a UserError: its sentence, else the repr


class Ranks:
    """One process."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """True on the rank that writes files and talks to the terminal."""
        return self.rank == 0

    def all(self, work: Callable[[], T]) -> list[T]:
        """What `work` returns on each rank, rank by rank."""
        return [work()]

    def each(self, work: Callable[[], T]) -> T:
        """What `work` returns here."""
        return work()

    def once(self, work: Callable[[], T]) -> T:
        """What `work` returns on rank 0, which alone does it."""
        return work()

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Sum over the ranks, in place; shapes and types must agree."""


ALONE = Ranks()


class Several(Ranks):
    """One of several processes, over torch.distributed."""

    def __init__(self, place: Place) -> None:
        self.rank, self.world = place.rank, place.world

    def all(self, work: Callable[[], T]) -> list[T]:
        """See `Ranks.all`; what `work` returns is pickled."""
        return self._shared(work)[1]

    def each(self, work: Callable[[], T]) -> T:
        """See `Ranks.each`; an error on any rank is raised on all."""
        return self._shared(work, tell=False)[0]

    def once(self, work: Callable[[], T]) -> T:
        """See `Ranks.once`."""
        return self._shared(work if self.first else lambda: None)[1][0]  # pyright: ignore[reportReturnType]

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """See `Ranks.sum_`."""
        for piece in pieces(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in piece])
            distributed.all_reduce(flat)
            for tensor, summed in zip(piece, flat.split([tensor.numel() for tensor in piece]), strict=True):
                tensor.copy_(summed.view_as(tensor))

    def _shared(self, work: Callable[[], Any], *, tell: bool = True) -> tuple[Any, list[Any]]:
        """(own result, everyone's: None each unless `tell`), or the error of the lowest rank that has one."""
        value, error, said = None, None, None
        try:
            value = work()
            said = value if tell else None
        except Exception as raised:
            if isinstance(raised, Elsewhere) or getattr(raised, "shared", False):
                raise  # from another collective inside `work`: everybody knows
            error = raised
            users = isinstance(raised, UserError)
            said = _Failure(self.rank, str(raised) if users else repr(raised), users)
        heard: list[Any] = [None] * self.world
        distributed.all_gather_object(heard, said)
        failed = [one for one in heard if isinstance(one, _Failure)]
        if failed:
            raise self._raised(error, failed[0]) from error
        return value, heard

    def _raised(self, error: Exception | None, failure: _Failure) -> Exception:
        """What this rank raises."""
        if error is not None and (self.first or not isinstance(error, UserError)):
            found = error
        elif not self.first:
            return Elsewhere(f"rank {failure.rank}: {failure.text}")
        elif failure.users:
            found = UserError(failure.text)
        else:
            found = RankFailed(f"rank {failure.rank}: {failure.text}")
        found.shared = True  # pyright: ignore[reportAttributeAccessIssue]
        return found


def pieces(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Consecutive tensors of one type and device, together at most PIECE numbers; one tensor at least."""
    piece: list[Tensor] = []
    for tensor in tensors:
        same = not piece or (tensor.dtype, tensor.device) == (piece[0].dtype, piece[0].device)
        if piece and (not same or sum(t.numel() for t in piece) + tensor.numel() > PIECE):
            yield piece
            piece = []
        piece.append(tensor)
    if piece:
        yield piece


def backend(gpu: bool) -> str:
    """What carries tensors between ranks. Objects go over gloo also on GPUs: nccl takes them through GPU memory."""
    return "cpu:gloo,cuda:nccl" if gpu else "gloo"


@contextmanager
def together(trainer: Any) -> Iterator[Ranks]:
    """The ranks of a run. Their group is made here, before Lightning, which like us takes over the one it finds."""
    place = joined(trainer)
    if place is None:
        yield ALONE
        return
    gpu = trainer.accelerator != "cpu" and torch.cuda.is_available()  # trainer=gpu without one is refused later
    if gpu:
        torch.cuda.set_device(place.local_rank)
    own = not distributed.is_initialized()
    if own:
        distributed.init_process_group(backend(gpu), rank=place.rank, world_size=place.world, timeout=TIMEOUT)
    yield Several(place)
    if own and distributed.is_initialized():  # vLLM's end may have taken it along
        distributed.destroy_process_group()  # not after an error: others may wait inside a collective
