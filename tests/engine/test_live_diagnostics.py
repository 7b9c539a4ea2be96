"""What compilers say while they run."""

from __future__ import annotations

import re
from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from ckwatch.compile.driver_plan import PassSide
from ckwatch.engine.handlers import compile
from ckwatch.engine.handlers.compile import LiveDiagnostics
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.errors import ToolchainError
from ckwatch.model.text import span
from patience import PATIENCE_S

Told = tuple[Diagnostic, ...]


def place(log: str) -> Told:
    """One diagnostic per line with an error, in the order of the log, each text once."""
    texts = dict.fromkeys(re.findall(r"error: (.*)", log))
    return tuple(Diagnostic(Severity.ERROR, Source.CLANG, "clang/x", text, span("/k", 0, 0, 0, 1)) for text in texts)


class Heard:
    """What was told, to wait for."""

    def __init__(self) -> None:
        self.told: list[list[str]] = []
        self.logs: list[str] = []
        self._news = anyio.Event()
        self.listener = LiveDiagnostics(self.place, self.tell)

    def place(self, log: str) -> Told:
        self.logs.append(log)
        return place(log)

    def tell(self, found: Told) -> None:
        self.told.append([one.message for one in found])
        self._news.set()

    async def until(self, so: Callable[[], bool]) -> None:
        """Return when it is so; looked at whenever something is told."""
        with anyio.fail_after(PATIENCE_S):
            while not so():
                await self._news.wait()
                self._news = anyio.Event()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    monkeypatch.setattr(compile, "REPORT_INTERVAL_S", 0.0)
    return Heard()


async def test_an_error_is_told_while_the_compiler_runs(heard: Heard) -> None:
    async with heard.listener.listening():
        heard.listener.said(PassSide.HOST, "kernel.hip:1:1: error: one")
        await heard.until(lambda: heard.told == [["one"]])


async def test_lines_that_come_together_are_told_together(heard: Heard) -> None:
    """The host's come first; notes belong to what they follow."""
    async with heard.listener.listening():
        heard.listener.said(PassSide.DEVICE, "error: two")
        heard.listener.said(PassSide.HOST, "error: one")
        heard.listener.said(PassSide.DEVICE, "note: of two")
        await heard.until(lambda: bool(heard.told))
    assert heard.told == [["one", "two"]]
    assert heard.logs == ["error: one\nerror: two\nnote: of two\n"]


async def test_one_call_for_both_passes(heard: Heard) -> None:
    async with heard.listener.listening():
        heard.listener.said(None, "error: one")
        await heard.until(lambda: heard.told == [["one"]])


async def test_what_the_second_pass_repeats_is_not_told_again(heard: Heard) -> None:
    async with heard.listener.listening():
        heard.listener.said(PassSide.HOST, "error: one")
        await heard.until(lambda: len(heard.told) == 1)
        heard.listener.said(PassSide.DEVICE, "error: one")
        heard.listener.said(PassSide.DEVICE, "error: two")
        await heard.until(lambda: len(heard.told) == 2)
    assert heard.told == [["one"], ["one", "two"]]


async def test_only_errors_are_told_before_the_end(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    """What came after the last of them is told by the result."""
    monkeypatch.setattr(compile, "COALESCE_S", 0.0)
    async with heard.listener.listening():
        heard.listener.said(PassSide.HOST, "warning: w")
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert heard.logs == []
        heard.listener.said(PassSide.HOST, "error: one")
        await heard.until(lambda: heard.told == [["one"]])
    assert heard.logs == ["warning: w\nerror: one\n"]


async def test_an_error_of_the_body_comes_through_as_itself(heard: Heard) -> None:
    with pytest.raises(ToolchainError, match="cannot start"):
        async with heard.listener.listening():
            raise ToolchainError("cannot start")


async def test_cancelled_while_listening(heard: Heard) -> None:
    with anyio.CancelScope() as scope:
        async with heard.listener.listening():
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
