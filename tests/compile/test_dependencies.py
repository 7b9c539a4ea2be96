"""Dependency files as clang writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.compile.dependencies import (
    format_dependency_file,
    missing_headers,
    parse_dependency_file,
    parse_header_list,
    read_headers,
)
from ckwatch.compile.store.header_sets import not_there


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k.o: k.hip /a/b.h\n", ["k.hip", "/a/b.h"]),
        ("k.o: k.hip \\\n  /a/b.h \\\n  /a/c.h\n", ["k.hip", "/a/b.h", "/a/c.h"]),
        ("k.o: /a\\ b\\ ü/hdr\\ one.h /c\\#d.h /e$$f.h\n", ["/a b ü/hdr one.h", "/c#d.h", "/e$f.h"]),
        ("k\\ l.o: /a/x:y.h\r\n", ["/a/x:y.h"]),
        ("/out/k.o: \\\r\n  /a.h\r\n", ["/a.h"]),
        ("k.o: /a\\b.h\n", ["/a\\b.h"]),
        ("k.o: /a.h /a.h\n\n/a.h:\n", ["/a.h"]),
        ("k.o:\n", []),
        ("", []),
    ],
)
def test_parse(text: str, expected: list[str]) -> None:
    assert parse_dependency_file(text) == expected


def test_written_as_read() -> None:
    headers = ["/a b/c.h", "/d#e$f.h", "/ü.h", "/g\\h.h"]
    assert parse_dependency_file(format_dependency_file("k l.so", tuple(headers))) == headers


def test_header_list() -> None:
    assert parse_header_list("/a b.h\n/c.h\n/a b.h\n") == ["/a b.h", "/c.h"]


def test_missing() -> None:
    log = "kernel.hip:1:10: fatal error: 'ck/none.hpp' file not found [Lexical or Preprocessor Issue]\n   'x' file not found"
    assert missing_headers(log) == ["ck/none.hpp"]
    log = log.replace("kernel.hip:1", "/ws/inc/own.h:1")
    assert missing_headers(log) == ["ck/none.hpp", "/ws/inc/ck/none.hpp"]
    assert not_there([], ["x.h", "/ws/x.h"], [Path("/a"), Path("/b")]) == {"/a/x.h", "/b/x.h", "/ws/x.h"}


def test_both_lists_are_read_and_the_source_left_out(tmp_path: Path) -> None:
    (tmp_path / "k.d").write_text(f"k.o: kernel.hip {tmp_path}/kernel.hip /host.h /both.h\n")
    (tmp_path / "headers.txt").write_text("/device only.h\n/both.h\n./local.h\n")
    assert read_headers(tmp_path, "k.d", "headers.txt") == ("/both.h", "/device only.h", "/host.h")
    assert read_headers(tmp_path, "none", "headers.txt") == ("/both.h", "/device only.h")
    assert read_headers(tmp_path, "none", "none") == ()
