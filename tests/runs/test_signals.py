"""Signals set a flag, and the handlers of others come back."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from grpo.runs.signals import GracefulStop


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_sets_the_flag_and_nothing_else(name: str) -> None:
    said: list[str] = []
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with GracefulStop(said.append) as stop:
        assert stop.requested is None
        os.kill(os.getpid(), number)
        assert stop.requested == name
        os.kill(os.getpid(), signal.SIGTERM)  # a scheduler that insists changes nothing
        assert stop.requested == name
    assert signal.getsignal(number) == before
    assert said == [f"\n{name}: finishing what is under way, then saving; Ctrl-C again stops at once"]


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_after_a_signal_interrupts_at_once(first: signal.Signals) -> None:
    moments = iter([10.0, 10.1, 11.0])  # the echo of a wrapper after 0.1 s, a second press after 1 s
    with GracefulStop(lambda _: None, clock=lambda: next(moments)) as stop:
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested == first.name


def test_installs_nest_around_somebody_elses_handlers() -> None:
    original = signal.getsignal(signal.SIGTERM)
    calls: list[int] = []

    def lightning(number: int, _frame: object) -> None:
        calls.append(number)

    with GracefulStop(lambda _: None) as stop:
        ours = signal.signal(signal.SIGTERM, lightning)  # fit() begins
        stop.install()  # on_train_start
        os.kill(os.getpid(), signal.SIGTERM)
        assert calls == []
        assert stop.requested == "SIGTERM"
        stop.restore()  # on_train_end
        assert signal.getsignal(signal.SIGTERM) is lightning
        signal.signal(signal.SIGTERM, ours)  # fit() has ended
    assert signal.getsignal(signal.SIGTERM) == original


def test_a_handler_set_by_somebody_else_stays() -> None:
    original = signal.getsignal(signal.SIGTERM)
    try:
        with GracefulStop():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, original)


def test_outside_the_main_thread_nothing_happens() -> None:
    before, failures = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        try:
            with GracefulStop():
                failures.extend([] if signal.getsignal(signal.SIGINT) == before else ["installed"])
        except ValueError as error:
            failures.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failures == []
