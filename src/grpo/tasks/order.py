"""Randomness without state: hashes and permutations that are pure functions of their key.

Python's `hash` changes from process to process and `random` keeps a state; prompts must be the same after a resume,
on every machine, for every arm of a comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


def hash64(*key: str | int) -> int:
    """64 uniform bits of `key`."""
    return int.from_bytes(blake2b("\x1f".join(map(str, key)).encode(), digest_size=8).digest(), "big")


def uniform(*key: str | int) -> float:
    """A number in [0, 1)."""
    return (hash64(*key) >> 11) * 2.0**-53


def pick(options: Sequence[T], *key: str | int) -> T:
    """One of `options`."""
    return options[hash64(*key) % len(options)]


def permuted(position: int, size: int, *key: str | int) -> int:
    """Where `position` goes under the permutation of range(size) that `key` names, in O(1) memory.

    Four Feistel rounds permute the 2h-bit numbers; walking on until the value is below `size` (at most 4 walks are
    expected, since 4^h ≤ 4·size) keeps it a permutation of the smaller range (Black & Rogaway 2002, Ciphers with
    Arbitrary Finite Domains).
    """
    if not 0 <= position < size:
        raise IndexError(f"position {position} is outside a permutation of {size}")
    half = max(1, (size - 1).bit_length() + 1 >> 1)
    low = (1 << half) - 1
    value = position
    while True:
        left, right = value >> half, value & low
        for turn in range(4):
            left, right = right, left ^ (hash64(*key, turn, right) & low)
        value = left << half | right
        if value < size:
            return value
