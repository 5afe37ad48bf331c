"""Accumulation over a step."""

import math
from types import SimpleNamespace

import pytest
import torch

from grpo.recording import meters
from grpo.recording.meters import Meters, Timer, peak_memory, speeds


def test_means_are_weighted_and_not_means_of_means() -> None:
    meters = Meters()
    meters.add_mean("length/mean", total=10.0, count=1)
    meters.add_mean("length/mean", total=torch.tensor(2.0, requires_grad=True), count=torch.tensor(2))
    assert meters.compute()["length/mean"] == (10 + 2) / 3  # the mean of means would be (10 + 1)/2


def test_how_a_step_is_cut_changes_nothing() -> None:
    values = [0.1 * 3**i for i in range(12)]
    results = set()
    for size in (1, 5, 12):
        meters = Meters()
        for start in range(0, 12, size):
            part = Meters()
            for value in values[start : start + size]:
                part.add_mean("m", value)
                part.add_sum("s", value)
                part.add_max("high", value)
                part.add_min("low", value)
            meters.merge(part)
        results.add(tuple(meters.compute().items()))
    assert len(results) == 1
    assert results.pop() == (
        ("s", math.fsum(values)),
        ("m", math.fsum(values) / 12),
        ("high", values[-1]),
        ("low", 0.1),
    )


def test_a_mean_over_nothing_is_not_zero() -> None:
    meters = Meters()
    meters.add_mean("length/right", total=0.0, count=0)
    assert math.isnan(meters.compute()["length/right"])


@pytest.mark.parametrize("order", [[1.0, math.nan], [math.nan, 1.0]])
def test_nan_shows_in_extremes_and_means(order: list[float]) -> None:
    meters = Meters()
    for value in order:
        meters.add_max("high", value)
        meters.add_min("low", torch.tensor(value))
        meters.add_mean("mean", value)
    meters.add_sum("sum", math.inf)
    meters.add_sum("sum", -math.inf)
    assert all(map(math.isnan, meters.compute().values()))


def test_a_tensor_is_taken_when_it_is_added() -> None:
    meters, buffer = Meters(), torch.tensor(1.0)
    meters.add_sum("s", buffer)
    buffer.add_(5)
    assert meters.compute() == {"s": 1.0}


def test_phases_exclude_each_other_and_the_step_is_the_whole() -> None:
    ticks = iter([0.0, 1.0, 3.0, 7.0, 12.0, 20.0])
    timer = Timer(clock=lambda: next(ticks))
    with timer("step"), timer("rollout"), timer("sync"):  # step from 0, rollout from 1, sync 3–7, rollout –12, step –20
        pass
    # rollout: (3 − 1) + (12 − 7) = 7; sync: 7 − 3 = 4; step: 20 − 0
    assert timer.compute() == {"time/rollout": 7.0, "time/sync": 4.0, "time/step": 20.0}
    assert speeds(generated=70, trained=5, timer=timer) == {"speed/generated_tokens_per_s": 10.0}
    timer.reset()
    assert timer.compute() == {}


def test_a_phase_that_raises_is_booked_too() -> None:
    ticks = iter([0.0, 2.0])
    timer = Timer(clock=lambda: next(ticks))
    with pytest.raises(KeyError), timer("reward"):
        raise KeyError
    assert timer.seconds("reward") == 2.0


def test_peak_memory_is_plausible() -> None:
    assert 0.02 < peak_memory() < 500  # GB; a process with torch takes more than 20 MB


def test_a_run_does_not_inherit_the_peak_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = [9e9]
    cuda = SimpleNamespace(
        reset_peak_memory_stats=lambda: peaks.append(1e9), max_memory_allocated=lambda *device: peaks[-1]
    )
    monkeypatch.setattr(meters, "_cuda", lambda: cuda)
    assert meters.peak_memory() == 9.0
    meters.reset_peak_memory()
    assert meters.peak_memory() == 1.0
