"""Reports as they are kept: whole, by the same code and tools, or not at all."""

from __future__ import annotations

import pytest

from ckwatch.codeobject.report import CodeObjectReport
from ckwatch.engine.handlers.analyze import REPORTS, code_version
from helpers.each_row import each_row
from helpers.kernel_reports import kernel, loop, report

REPORT = report(
    kernel(), kernel(waves=None, symbol="a", with_loop=None, notes=("no loop",)),
    kernel(symbol="b", with_loop=loop(clocks=None, matrix_use=None, waits=("+1 vmcnt(0): ü",))), notes=("a note",),
)  # fmt: skip
KEPT = REPORTS.content(REPORT, made_by=code_version(), tools="clang 1")


def read(content: bytes, tools: str | None, version: int = 0) -> CodeObjectReport | None:
    return REPORTS.value(content, made_by=version or code_version(), tools=tools)


def test_what_is_kept_is_what_was_reported() -> None:
    assert read(KEPT, "clang 1") == REPORT
    assert read(KEPT, None) == REPORT, "where there are no tools any will do"


def test_other_tools_may_say_otherwise() -> None:
    assert read(KEPT, "clang 2") is None


def test_so_may_other_code() -> None:
    assert read(KEPT, "clang 1", code_version() + 1) is None


@each_row("at", range(0, len(KEPT), 97))
def test_what_is_damaged_is_not_read(at: int) -> None:
    assert read(KEPT[:at], "clang 1") is None
    assert read(KEPT[:at] + bytes([KEPT[at] ^ 1]) + KEPT[at + 1 :], "clang 1") is None


@pytest.mark.parametrize("content", [b"", b"\n", b"[]\n", b"{}\n{}", b'{"tools": 1}\n', b"\xff\n\xff", b"null\nnull"])
def test_what_is_no_report_is_not_read(content: bytes) -> None:
    assert read(content, "clang 1") is None
    assert read(content, None) is None
