"""Dependency files as clang writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.compile.dependencies import (
    format_dependency_file,
    missing_headers,
    opens_again,
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


@pytest.mark.parametrize(
    ("text", "opened", "again"),
    [
        ('#include "a.h"\n', ["/x/a.h", "/y/b.h", "/y/b.h"], False),
        ('#include "a.h"\n', ["/x/a.h", "/x/a.h"], True),
        ('#include "a.h"\n', ["/x/ba.h", "/x/ba.h"], False),
        ('  #  include "b/a.h"\n', ["b/a.h", "b/a.h"], True),
        ("#include <cassert>\n", ["/usr/c++/cassert", "/usr/assert.h"] * 2, False),
        ("#include <a.h>\n", ["/own/a.h", "/own/a.h"], True),
        ("#include <a.h>\n", ["/owner/a.h", "/owner/a.h"], False),
    ],
)
def test_headers_without_a_guard(text: str, opened: list[str], again: bool) -> None:
    assert opens_again(text, "".join(f"{path}\n" for path in opened), [Path("/own")]) == again


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
