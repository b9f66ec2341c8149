"""Ending signals: one exception, once; a hang-up that was ignored stays ignored."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from scenarios.errors import InterruptedRunError
from scenarios.interrupts import ENDING, interrupts_raise


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (*ENDING, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_an_ending_signal_is_raised(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_DFL)  # whatever started the tests may ignore hang-ups
    with pytest.raises(InterruptedRunError, match=number.name), interrupts_raise():
        os.kill(os.getpid(), number)


def test_a_hang_up_that_was_ignored_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupts_raise():
        os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


class _Interrupted:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)


def test_an_interrupt_that_a_destructor_drops_comes_again() -> None:
    before = time.monotonic()
    with pytest.raises(InterruptedRunError), interrupts_raise():
        _drop_and_wait()
    assert time.monotonic() - before < 4


def _drop_and_wait() -> None:
    thing = _Interrupted()
    del thing
    time.sleep(5)
