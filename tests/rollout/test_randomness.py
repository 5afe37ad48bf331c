"""Random numbers are pure functions of what they are for."""

import torch

from grpo.rollout.randomness import splitmix64, stable_hash, uniform


def test_splitmix64_equals_the_reference_sequence() -> None:
    # The published generator seeded with 0 yields these first two outputs; its state after k draws is k·γ, and
    # splitmix64(x) here is the output for state x + γ.
    gamma = 0x9E3779B97F4A7C15
    states = torch.tensor([0, gamma - (1 << 64)])
    outputs = [value % (1 << 64) for value in splitmix64(states).tolist()]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def test_stable_hash_is_the_same_in_every_process() -> None:
    # blake2b-64 of the joined parts: a fixed number, unlike Python's hash() of strings.
    assert stable_hash(0, "train/0", 3, "37+5", 2) == stable_hash("0", "train/0", "3", "37+5", "2")
    assert stable_hash("a") == int.from_bytes(bytes.fromhex("40f89e395b66422f"), "little", signed=True)


def test_uniform_is_uniform_and_differs_by_position_and_key() -> None:
    keys = torch.tensor([stable_hash(0, "s", 0, "p", i) for i in range(20_000)])
    u = uniform(keys, 0)
    assert u.dtype == torch.float64
    assert float(u.min()) >= 0
    assert float(u.max()) < 1
    # mean 1/2 ± 5·sqrt(1/12/20000) = ± 0.0102, variance 1/12 = 0.0833
    assert abs(float(u.mean()) - 0.5) < 0.0102
    assert abs(float(u.var()) - 1 / 12) < 0.003
    other = uniform(keys, 1)
    correlation = float(torch.corrcoef(torch.stack([u, other]))[0, 1])
    assert abs(correlation) < 5 / 20_000**0.5
    assert len(set(u.tolist())) == len(keys)
