"""Hashes and permutations are pure functions of their key."""

from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.tasks.order import hash64, permuted, pick, uniform


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 300), key=st.integers(0, 10**6))
def test_permuted_is_a_permutation(size: int, key: int) -> None:
    assert sorted(permuted(i, size, key) for i in range(size)) == list(range(size))


def test_permutations_of_two_keys_differ() -> None:
    orders = {tuple(permuted(i, 100, seed) for i in range(100)) for seed in range(20)}
    assert len(orders) == 20


def test_hash_is_fixed_for_ever() -> None:
    # blake2b of "a\x1f1" with 8 bytes, big-endian: a change would silently give every run another prompt order.
    assert hash64("a", 1) == int.from_bytes(__import__("hashlib").blake2b(b"a\x1f1", digest_size=8).digest(), "big")
    assert hash64("a", 1) != hash64("a1")


def test_uniform_and_pick_are_even() -> None:
    draws = [uniform("u", i) for i in range(4000)]
    assert all(0 <= u < 1 for u in draws)
    # mean of 4000 uniforms: 0.5 with standard error 0.289/63 = 0.0046; five of them is 0.023
    assert abs(sum(draws) / 4000 - 0.5) < 0.023
    # 4000 picks of 4: 1000 each, standard deviation sqrt(4000·¼·¾) = 27; five of them is 137
    picks = [pick("abcd", "p", i) for i in range(4000)]
    assert all(abs(picks.count(c) - 1000) < 137 for c in "abcd")
