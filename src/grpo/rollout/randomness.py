"""Random numbers as a pure function of what they are for.

u(seed, stream, step, prompt, sample, position) ∈ [0, 1): one hash per completion gives a 64-bit key, splitmix64
(Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014) turns (key, position) into a number.
No global random state is read or written, so a resumed or re-batched run draws the same numbers.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

# splitmix64 constants as signed 64-bit integers: int64 multiplication wraps, which is what the hash wants.
_GAMMA = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX2 = 0x94D049BB133111EB - (1 << 64)


def stable_hash(*parts: int | str) -> int:
    """A signed 64-bit hash of the parts, the same on every machine and in every process."""
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _logical_shift(x: Tensor, bits: int) -> Tensor:
    # >> on int64 copies the sign bit; the mask makes it a logical shift.
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def splitmix64(x: Tensor) -> Tensor:
    """[...] int64 -> [...] int64, a bijection whose output bits look independent of the input's."""
    z = x + _GAMMA
    z = (z ^ _logical_shift(z, 30)) * _MIX1
    z = (z ^ _logical_shift(z, 27)) * _MIX2
    return z ^ _logical_shift(z, 31)


def uniform(keys: Tensor, position: int) -> Tensor:
    """u ∈ [0, 1) with 53 random bits for each key [N] int64 at this position of the completion, float64 [N]."""
    bits = splitmix64(splitmix64(keys) + position)
    return _logical_shift(bits, 11).to(torch.float64) * 2.0**-53
