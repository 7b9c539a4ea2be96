"""Compilers stand back for other programs."""

from __future__ import annotations

import os

import anyio
import pytest

from ckwatch.compile.priority import stand_back


def niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


async def test_the_whole_session_stands_back() -> None:
    async with await anyio.open_process(["cat"], start_new_session=True) as process:
        await stand_back(process.pid, 3)
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, niceness() + 3)
        group = anyio.Path("/proc", str(process.pid), "autogroup")
        if await group.exists():
            assert (await group.read_text()).split()[-1] == str(min(19, niceness() + 3))
        process.kill()


async def test_a_process_that_has_gone_is_no_error() -> None:
    async with await anyio.open_process(["true"], start_new_session=True) as process:
        await process.wait()
    before = niceness()
    await stand_back(process.pid, 3)
    assert niceness() == before


async def test_zero_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[object] = []
    monkeypatch.setattr(os, "setpriority", lambda *arguments: changed.append(arguments))
    await stand_back(os.getpid(), 0)
    assert changed == []
