"""A call that does not return is left behind."""

from __future__ import annotations

import threading

import pytest

from ckwatch.system.left_behind import LeftBehindError, TimeLimitedCalls
from fakes.patience import PATIENCE_S


def test_answers_and_errors_are_those_of_the_question() -> None:
    calls = TimeLimitedCalls("asked")
    threads = {calls.ask(threading.current_thread, PATIENCE_S) for _ in range(3)}
    assert [thread.name for thread in threads] == ["asked"]
    with pytest.raises(ZeroDivisionError):
        calls.ask(lambda: 1 / 0, PATIENCE_S)
    with pytest.raises(TimeoutError, match="of its own"):
        calls.ask(_timed_out, PATIENCE_S)
    (thread,) = threads
    assert calls.ask(threading.current_thread, PATIENCE_S) is thread
    calls.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def _timed_out() -> None:
    raise TimeoutError("of its own")


def test_one_that_takes_too_long_is_left_behind() -> None:
    calls, over, found = TimeLimitedCalls("asked"), threading.Event(), []

    def slow() -> None:
        found.append(threading.current_thread())
        over.wait()

    with pytest.raises(LeftBehindError):
        calls.ask(slow, 0.01)
    other = calls.ask(threading.current_thread, PATIENCE_S)
    over.set()
    calls.close()
    for thread in (*found, other):
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert other not in found
