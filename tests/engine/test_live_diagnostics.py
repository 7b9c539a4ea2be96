"""Diagnostics that are reported while the compiler runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.slow_compile import SLOW_COMPILE
from ckwatch.engine.handlers.compiler_messages import LiveDiagnostics, line_reader
from ckwatch.model.delays import COMPILER_MESSAGES
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.errors import ToolchainError
from ckwatch.model.text import span
from fakes.patience import PATIENCE_S

Diagnostics = tuple[Diagnostic, ...]


def place(log: str) -> Diagnostics:
    """One diagnostic per line with an error, in the order of the log, each text once."""
    texts = dict.fromkeys(re.findall(r"error: (.*)", log))
    return tuple(Diagnostic(Severity.ERROR, Source.CLANG, "clang/x", text, span("/k", 0, 0, 0, 1)) for text in texts)


class Reports:
    """Reported diagnostics, to wait for."""

    def __init__(self, coalesce_s: float = COMPILER_MESSAGES.seconds) -> None:
        self.messages: list[list[str]] = []
        self.logs: list[str] = []
        self._news = anyio.Event()
        self.live = LiveDiagnostics(self.place, self.report, coalesce_s=coalesce_s, interval_s=0.0)

    def place(self, log: str) -> Diagnostics:
        self.logs.append(log)
        return place(log)

    def report(self, found: Diagnostics) -> None:
        self.messages.append([one.message for one in found])
        self._news.set()

    async def until(self, so: Callable[[], bool]) -> None:
        """Return when it is so; checked after every report."""
        with anyio.fail_after(PATIENCE_S):
            while not so():
                await self._news.wait()
                self._news = anyio.Event()


@pytest.fixture
def reports() -> Reports:
    return Reports()


async def test_an_error_is_reported_while_the_compiler_runs(reports: Reports) -> None:
    async with reports.live.reporting():
        reports.live.add_line(PassSide.HOST, "kernel.hip:1:1: error: one")
        await reports.until(lambda: reports.messages == [["one"]])


async def test_lines_that_come_together_are_reported_together(reports: Reports) -> None:
    """The host's come first; notes belong to what they follow."""
    async with reports.live.reporting():
        reports.live.add_line(PassSide.DEVICE, "error: two")
        reports.live.add_line(PassSide.HOST, "error: one")
        reports.live.add_line(PassSide.DEVICE, "note: of two")
        await reports.until(lambda: bool(reports.messages))
    assert reports.messages == [["one", "two"]]
    assert reports.logs == ["error: one\nerror: two\nnote: of two\n"]


async def test_early_messages_go_when_the_pass_reports_them(reports: Reports) -> None:
    async with reports.live.reporting():
        for side in PassSide:
            reports.live.add_line(side, f"error: {side}", early=True)
        await reports.until(lambda: reports.messages == [["host", "device"]])
        reports.live.add_line(PassSide.HOST, "error: host; did you mean the other?")
        await reports.until(lambda: reports.messages[1:] == [["host; did you mean the other?", "device"]])


async def test_one_call_for_both_passes(reports: Reports) -> None:
    async with reports.live.reporting():
        reports.live.add_line(None, "error: one")
        await reports.until(lambda: reports.messages == [["one"]])


async def test_what_the_second_pass_repeats_is_not_reported_again(reports: Reports) -> None:
    async with reports.live.reporting():
        reports.live.add_line(PassSide.HOST, "error: one")
        await reports.until(lambda: len(reports.messages) == 1)
        reports.live.add_line(PassSide.DEVICE, "error: one")
        reports.live.add_line(PassSide.DEVICE, "error: two")
        await reports.until(lambda: len(reports.messages) == 2)
    assert reports.messages == [["one"], ["one", "two"]]


async def test_only_errors_are_reported_before_the_end() -> None:
    """The result reports what came after the last of them."""
    reports = Reports(coalesce_s=0.0)
    async with reports.live.reporting():
        reports.live.add_line(PassSide.HOST, "warning: w")
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        assert reports.logs == []
        reports.live.add_line(PassSide.HOST, "error: one")
        await reports.until(lambda: reports.messages == [["one"]])
    assert reports.logs == ["warning: w\nerror: one\n"]


async def test_a_slow_compile_is_reported_beside_its_errors(reports: Reports) -> None:
    def slow(text: str) -> Diagnostic:
        return Diagnostic(Severity.WARNING, Source.HOST, SLOW_COMPILE, text, span("/k", 0, 0, 0, 1))

    async with reports.live.reporting():
        reports.live.add_slow(slow("for 90 s"))
        await reports.until(lambda: reports.messages == [["for 90 s"]])
        reports.live.add_line(PassSide.DEVICE, "error: one")
        await reports.until(lambda: len(reports.messages) == 2)
        reports.live.add_slow(slow("for 3 min"))
        await reports.until(lambda: len(reports.messages) == 3)
    assert reports.messages[1:] == [["one", "for 90 s"], ["one", "for 3 min"]]


async def test_an_error_of_the_body_comes_through_as_itself(reports: Reports) -> None:
    with pytest.raises(ToolchainError, match="cannot start"):
        async with reports.live.reporting():
            raise ToolchainError("cannot start")


async def test_cancelled_while_reporting(reports: Reports) -> None:
    with anyio.CancelScope() as scope:
        async with reports.live.reporting():
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "empty.h").touch()
    read_line = line_reader({str(tmp_path / "unsaved.h"): "int a;\r\nint b;"})
    assert read_line(str(tmp_path / "missing.h"), 0) is None
    assert read_line(str(tmp_path / "empty.h"), 0) == ""
    assert [read_line(str(tmp_path / "unsaved.h"), line) for line in range(3)] == ["int a;", "int b;", None]
