"""A command that a signal ends leaves nothing running."""

from __future__ import annotations

import os
import signal

import anyio
import pytest

from ckwatch.cli.signals import TerminatedError, stoppable


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_cancels_the_body_and_waits_for_its_end(number: signal.Signals) -> None:
    tidied = False
    with pytest.raises(TerminatedError) as ended:  # noqa: PT012  # the context under test has a body
        async with stoppable():
            try:
                os.kill(os.getpid(), number)
                await anyio.sleep(30)
            finally:
                tidied = True
    assert (ended.value.number, tidied) == (number, True)
    assert signal.getsignal(number) is signal.SIG_DFL


async def test_without_a_signal_nothing_happens() -> None:
    async with stoppable():
        value = 1
    assert value == 1
