"""Open documents: changes as editors send them, and what a document is by its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from ckwatch.model.text import Position
from ckwatch_lsp.protocol.uris import path_of, uri_of
from ckwatch_lsp.session.documents import DocumentKind, TextDocument, kind_of

URI = "file:///w/a.hip.j2"
TEXTS = st.text(st.sampled_from("ab\n\r é𝒳{"), max_size=30)


def edit(start: tuple[int, int], end: tuple[int, int], text: str) -> types.TextDocumentContentChangePartial:
    return types.TextDocumentContentChangePartial(types.Range(types.Position(*start), types.Position(*end)), text)


CHANGES = [
    ("abc", (0, 1), (0, 2), "X", "aXc"),
    ("ab\ncd\nef", (0, 1), (2, 1), "", "af"),
    ("ab\ncd\n", (2, 0), (2, 0), "end", "ab\ncd\nend"),
    ("ab\ncd\n", (9, 9), (9, 9), "\nend\n", "ab\ncd\n\nend\n"),
    ("ab", (0, 1), (0, 1), "\n\n", "a\n\nb"),
    ("ab\r\ncd", (0, 2), (1, 0), " ", "ab cd"),
    ("a\rb", (1, 0), (1, 1), "X", "a\rX"),
    ("é𝒳b", (0, 3), (0, 4), "c", "é𝒳c"),
    ("ab\ncd", (1, 1), (0, 1), "-", "a-d"),
]


@pytest.mark.parametrize(("text", "start", "end", "new", "expected"), CHANGES)
def test_changes(text: str, start: tuple[int, int], end: tuple[int, int], new: str, expected: str) -> None:
    document = TextDocument(URI, text, 1, "utf-16")
    document.change([edit(start, end, new)], 2)
    assert document.text == expected
    assert document.version == 2


@given(TEXTS, st.lists(st.tuples(*[st.integers(0, 6)] * 4, TEXTS), max_size=5), st.sampled_from(["utf-8", "utf-16"]))
def test_changes_one_by_one_are_the_text_at_once(
    text: str, changes: list[tuple[int, int, int, int, str]], encoding: str
) -> None:
    document = TextDocument(URI, text, 1, encoding)
    for first, start, last, end, new in changes:
        before = document.text
        change = edit((first, start), (last, end), new)
        [made] = document.change([change], None)
        lines = before.split("\n")
        head = offset(lines, made.before.start)
        tail = offset(lines, made.before.end)
        assert document.text == before[:head] + new + before[tail:]
        assert offset(document.text.split("\n"), made.end) == head + len(new)
        fresh = TextDocument(URI, document.text, 1, encoding)
        assert fresh.line_count == document.line_count
        assert list(fresh.codec.lines) == list(document.codec.lines)
        assert fresh.codec.lone_returns == document.codec.lone_returns


@given(TEXTS, TEXTS)
def test_a_whole_text_is_an_edit_of_what_differs(old: str, new: str) -> None:
    document = TextDocument(URI, old, 1, "utf-16")
    [made] = document.change([types.TextDocumentContentChangeWholeDocument(new)], 2)
    assert document.text == new
    head, tail = offset(old.split("\n"), made.before.start), offset(old.split("\n"), made.before.end)
    end = offset(new.split("\n"), made.end)
    assert old[:head] + new[head:end] + old[tail:] == new


def offset(lines: list[str], position: Position) -> int:
    return sum(len(line) + 1 for line in lines[: position.line]) + position.column


def test_lines_without_their_ends() -> None:
    document = TextDocument(URI, "ab\r\ncd\n", 1, "utf-16")
    assert [document.line(number) for number in range(4)] == ["ab", "cd", "", ""]


KINDS = [
    ("file:///w/gemm.hip.j2", DocumentKind.TEMPLATE),
    ("file:///w/part.j2", DocumentKind.TEMPLATE),
    ("file:///w/gemm.kernel.toml", DocumentKind.KERNEL_FILE),
    ("file:///w/ckwatch.toml", DocumentKind.SETTINGS),
    ("file:///w/other.toml", DocumentKind.OTHER),
    ("untitled:a.hip.j2", DocumentKind.OTHER),
    ("ckwatch://isa/k/i@gfx942.s?folder=/w", DocumentKind.VIRTUAL),
    ("", DocumentKind.OTHER),
    ("file://[", DocumentKind.OTHER),
]


@pytest.mark.parametrize(("uri", "kind"), KINDS)
def test_kinds(uri: str, kind: DocumentKind) -> None:
    assert kind_of(uri) is kind


PATHS = [
    ("file:///a/b%20c", "/a/b c"),
    ("file://localhost/a", "/a"),
    ("file:///a/../b", "/b"),
    ("file:///é%E2%82%AC", "/é€"),
    ("file://host/a", None),
    ("file:///a%00b", None),
    ("file:relative", None),
    ("git:/a", None),
    ("http://[::1", None),
]


@pytest.mark.parametrize(("uri", "path"), PATHS)
def test_paths(uri: str, path: str | None) -> None:
    assert path_of(uri) == path


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_paths_there_and_back(name: str) -> None:
    path = path_of(uri_of(f"/folder/{name}"))
    assert path == ("/folder" if name == "." else "/" if name == ".." else f"/folder/{name}")
