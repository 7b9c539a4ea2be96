"""Header sets: roots, shadowing, and changes under the compiler's hands."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from ckwatch.compile.store.content_hashes import ContentHashes, steady_ns
from ckwatch.compile.store.header_sets import HeaderObserver, HeaderSet, PathRoots, shadows

ROOTS = PathRoots({"rocm": Path("/opt/rocm"), "clang": Path("/opt/rocm/lib/clang/22"), "ck": Path("/ck")})


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/rocm/include/hip/hip_runtime.h", "<rocm>/include/hip/hip_runtime.h"),
        ("/opt/rocm/lib/clang/22/include/a.h", "<clang>/include/a.h"),
        ("/opt/rocm-7/a.h", "/opt/rocm-7/a.h"),
        ("/ck/a b/ü.hpp", "<ck>/a b/ü.hpp"),
        ("/usr/include/stdio.h", "/usr/include/stdio.h"),
    ],
)
def test_roots(path: str, expected: str) -> None:
    assert ROOTS.shorten(path) == expected
    assert ROOTS.expand(expected) == path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/ck/a.h:3:4: error: no", "<ck>/a.h:3:4: error: no"),
        ("-I/ck", "-I<ck>"),
        ("-I/opt/rocm/lib/clang/22/include -I/opt/rocm", "-I<clang>/include -I<rocm>"),
        ("/ck-old/a.h /opt/ck/a.h", "/ck-old/a.h /opt/ck/a.h"),
    ],
)
def test_roots_in_text(text: str, expected: str) -> None:
    assert ROOTS.shorten_text(text) == expected
    assert ROOTS.expand_text(expected) == text


def test_unknown_root_stays() -> None:
    assert ROOTS.expand("<gone>/a.h") == "<gone>/a.h"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (["/a/x.h"], set()),
        (["/b/x.h"], {"/a/x.h"}),
        (["/c/y/x.h", "/elsewhere/x.h"], {"/a/y/x.h", "/b/y/x.h"}),
        (["/bb/x.h"], set()),
    ],
)
def test_shadows(headers: list[str], expected: set[str]) -> None:
    assert shadows(headers, [Path("/a"), Path("/b"), Path("/c")]) == expected


def observe(path: Path, begun_ns: int, contents: ContentHashes | None = None) -> HeaderSet | None:
    observer = HeaderObserver(contents or ContentHashes(None), ROOTS)
    return observer.observe((str(path),), ("/none",), (), begun_ns)


def test_header_changed_while_it_was_compiled(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    begin = steady_ns() - 10**9
    assert observe(header, begin) is None
    header.write_text("int a;")
    os.utime(header, (1, 1))
    assert observe(header, begin) is None
    seen = observe(header, 2**62)
    assert seen is not None
    assert (list(seen.present), seen.absent) == ([str(header)], ("/none",))


def test_a_clock_that_was_set_back_decides_nothing(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    header.write_text("int a;")
    contents = ContentHashes(None, clock=lambda: time.time_ns() - 10 * 365 * 86400 * 10**9)
    observe(header, steady_ns(), contents)
    begin = steady_ns()
    assert observe(header, begin, contents) is not None, "seen before, and the same since"
    header.write_text("int b;")
    assert observe(header, begin, contents) is None
    assert observe(header, steady_ns(), contents) is not None
    assert len(contents._new) == 1, "its times are far from the present, so a change would show"


def test_waiting_between_two_clocks_makes_no_file_newer(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    header.write_text("int a;")
    begin = steady_ns()
    waits = [0.2, 0.2]

    def slow() -> int:
        now = time.time_ns()
        if waits:
            time.sleep(waits.pop())
        return now

    assert observe(header, begin, ContentHashes(None, clock=slow)) is not None


def test_stored_form() -> None:
    headers = HeaderSet({"<ck>/ü.h": "1"}, ("<ck>/b.h",))
    assert HeaderSet.from_json(headers.to_json()) == headers
    for damaged in (b"", b"[]", b'{"present": []}', b"\xff"):
        with pytest.raises(ValueError, match=r".*"):
            HeaderSet.from_json(damaged)


def test_same_contents_at_another_time(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    header.write_text("int a;")
    headers = observe(header, 2**62)
    assert headers is not None
    contents = ContentHashes(None)
    look = contents.look()
    assert headers.holds(look, ROOTS)
    header.write_text("int b;")
    assert headers.holds(look, ROOTS), "a look sees each file once"
    assert not headers.holds(contents.look(), ROOTS)
    header.write_text("int a;")
    assert headers.holds(contents.look(), ROOTS)


def test_hashes_are_remembered_once_settled(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    header.write_text("int a;")
    reads = []

    def counted(path: str) -> str:
        reads.append(path)
        return "digest"

    def hashes(**more: Any) -> ContentHashes:
        return ContentHashes(tmp_path / "memo.sqlite", digest_file=counted, **more)

    young = hashes()
    assert (young.digest(str(header)), young.digest(str(header))) == ("digest", "digest")
    assert len(reads) == 2
    settled = hashes(settled_ns=-1)
    settled.digest(str(header))
    settled.digest(str(header))
    assert len(reads) == 3
    settled.save()
    again = hashes(settled_ns=-1)
    assert again.digest(str(header)) == "digest"
    assert len(reads) == 3
    header.write_text("int b;")
    again.digest(str(header))
    assert len(reads) == 4
    again.forget_below(tmp_path)
    hashes().digest(str(header))
    assert len(reads) == 5
