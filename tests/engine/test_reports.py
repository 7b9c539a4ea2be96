"""Reports as they are kept: whole, by the same code and tools, or not at all."""

from __future__ import annotations

import pytest

from ckwatch.engine.handlers.analyze import code_version, report_from_bytes, report_to_bytes
from helpers.kernel_reports import kernel, loop, report

REPORT = report(
    kernel(), kernel(waves=None, symbol="a", with_loop=None, notes=("no loop",)),
    kernel(symbol="b", with_loop=loop(clocks=None, matrix_use=None, waits=("+1 vmcnt(0): ü",))), notes=("a note",),
)  # fmt: skip
KEPT = report_to_bytes(REPORT, "clang 1")


def test_what_is_kept_is_what_was_reported() -> None:
    assert report_from_bytes(KEPT, "clang 1") == REPORT
    assert report_from_bytes(KEPT, "") == REPORT, "where there are no tools any will do"


def test_other_tools_may_say_otherwise() -> None:
    assert report_from_bytes(KEPT, "clang 2") is None


def test_so_may_other_code() -> None:
    assert report_from_bytes(KEPT, "clang 1", code_version() + 1) is None


@pytest.mark.parametrize("at", range(0, len(KEPT), 97))
def test_what_is_damaged_is_not_read(at: int) -> None:
    assert report_from_bytes(KEPT[:at], "clang 1") is None
    assert report_from_bytes(KEPT[:at] + bytes([KEPT[at] ^ 1]) + KEPT[at + 1 :], "clang 1") is None


@pytest.mark.parametrize("content", [b"", b"\n", b"[]\n", b"{}\n{}", b'{"tools": 1}\n', b"\xff\n\xff", b"null\nnull"])
def test_what_is_no_report_is_not_read(content: bytes) -> None:
    assert report_from_bytes(content, "clang 1") is None
    assert report_from_bytes(content, "") is None
