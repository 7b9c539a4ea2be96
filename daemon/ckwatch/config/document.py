"""A TOML file as values *and* places: every key and value has an exact span.

Values come from `tomllib`, places from tree-sitter, both of the same text (`ckwatch.config.syntax` has blanked what is
broken). tree-sitter counts columns in UTF-8 bytes; spans count code points.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import tree_sitter
import tree_sitter_toml

from ckwatch.config.syntax import SyntaxMistake, parse
from ckwatch.model.diagnostic import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.text import Position, Span
from ckwatch.sourcemap import LineIndex
from ckwatch.writers import Writers

FILE_SIZE_LIMIT_BYTES = 8 * 1024 * 1024
BAD_BYTES_SHOWN = 10

SHARED_HINT = "make it yours alone (chown, chmod go-w), or `ckwatch trust --shared` a workspace that you share"

KeyPath = tuple[str | int, ...]
"""Keys of tables and indices of arrays, from the top: `("instance", 2, "MPerBlock")`."""

_LANGUAGE = tree_sitter.Language(tree_sitter_toml.language())
_DOCUMENTS_KEPT = 64


@dataclass(slots=True)
class _Place:
    """Byte ranges of a key and its value; a table's value is its header. `span` is kept once it was asked for."""

    key: tuple[int, int] | None
    value: tuple[int, int]
    children: dict[str | int, _Place] | None = None
    span: Span | None = None

    def inner(self) -> dict[str | int, _Place]:
        """The children, to be added to."""
        if self.children is None:
            self.children = {}
        return self.children


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text, without a byte order mark, and what is wrong with its bytes."""

    text: str
    diagnostics: tuple[Diagnostic, ...] = ()


class Document:
    """A TOML file. `values` is empty where nothing could be read; it is shared and must not be changed."""

    def __init__(self, path: str, text: str, source: Source) -> None:
        parsed = parse(text)
        self.path = path
        self.text = text
        self.source = source
        self.values: dict[str, Any] = parsed.values
        self._bytes = parsed.text.encode("utf-8", "replace")
        self._ascii = len(self._bytes) == len(text)
        self._line_bytes: list[int] = [0]
        self._line_bytes += [found.end() for found in re.finditer(b"\n", self._bytes)]
        self._lines = LineIndex(text)
        self._top = _Place(None, (0, 0))
        self._read_places()
        self.diagnostics = tuple(self._syntax_diagnostic(mistake, text) for mistake in parsed.mistakes)

    def __contains__(self, path: KeyPath) -> bool:
        """Whether something is written at `path`."""
        return self._find(path)[1]

    def span_of(self, path: KeyPath) -> Span:
        """Where the value at `path` stands; of a table its header; where nothing stands, the nearest table around."""
        place = self._find(path)[0]
        if place.span is None:
            place.span = self._span(place.value)
        return place.span

    def key_span_of(self, path: KeyPath) -> Span:
        """Where the key at `path` stands; of an array's element the element."""
        place, found = self._find(path)
        return self._span(place.key if found and place.key is not None else place.value)

    def span_within(self, path: KeyPath, start: int, end: int) -> Span:
        """Characters [`start`, `end`) of the string at `path`; the whole value where the string holds escapes."""
        whole = self.span_of(path)
        begin, stop = self._lines.offset(whole.start), self._lines.offset(whole.end)
        written = self.text[begin:stop]
        if whole.start.line != whole.end.line or "\\" in written or written[:3] in ('"""', "'''"):
            return whole
        first = min(begin + 1 + start, stop)
        return Span(self.path, self._lines.position(first), self._lines.position(min(begin + 1 + end, stop)))

    @property
    def beginning(self) -> Span:
        """The empty span at the start of the file."""
        return Span(self.path, Position(0, 0), Position(0, 0))

    def _find(self, path: KeyPath) -> tuple[_Place, bool]:
        place = self._top
        for step in path:
            inner = place.children.get(step) if place.children is not None else None
            if inner is None:
                return place, False
            place = inner
        return place, True

    def _span(self, bounds: tuple[int, int]) -> Span:
        start, end = self._position(bounds[0]), self._position(bounds[1])
        return Span(self.path, start, end)

    def _position(self, at: int) -> Position:
        line = bisect_right(self._line_bytes, at) - 1
        start = self._line_bytes[line]
        return Position(line, at - start if self._ascii else len(self._bytes[start:at].decode("utf-8", "replace")))

    def _read_places(self) -> None:
        for node in tree_sitter.Parser(_LANGUAGE).parse(self._bytes).root_node.named_children:
            if node.type == "pair":
                self._read_pair(self._top, node)
            elif node.type in ("table", "table_array_element"):
                self._read_table(node)

    def _read_table(self, node: tree_sitter.Node) -> None:
        parts = node.children
        header_end = next((part.end_byte for part in parts if part.type in ("]", "]]")), node.end_byte)
        header = (node.start_byte, header_end)
        keys = list(_keys(parts[1])) if len(parts) > 1 else []
        place = self._top
        for depth, (name, bounds) in enumerate(keys):
            last = depth == len(keys) - 1
            inner = place.inner().get(name)
            if inner is None:
                inner = place.inner()[name] = _Place(bounds, header)
            if last and node.type == "table_array_element":
                element = _Place(bounds, header)
                inner.inner()[len(inner.inner())] = element
                inner = element
            elif not last and inner.children and all(isinstance(step, int) for step in inner.children):
                inner = inner.children[len(inner.children) - 1]
            place = inner
        for part in parts:
            if part.type == "pair":
                self._read_pair(place, part)

    def _read_pair(self, place: _Place, node: tree_sitter.Node) -> None:
        parts = [part for part in node.named_children if part.type != "comment"]
        if len(parts) < 2:
            return
        keys = list(_keys(parts[0]))
        for name, bounds in keys[:-1]:
            place = place.inner().setdefault(name, _Place(bounds, (bounds[0], parts[1].end_byte)))
        name, bounds = keys[-1]
        if name not in place.inner():
            place.inner()[name] = self._value(parts[1], bounds)

    def _value(self, node: tree_sitter.Node, key: tuple[int, int] | None) -> _Place:
        place = _Place(key, (node.start_byte, node.end_byte))
        if node.type == "array":
            elements = [part for part in node.named_children if part.type != "comment"]
            for index, element in enumerate(elements):
                place.inner()[index] = self._value(element, None)
        elif node.type == "inline_table":
            for part in node.named_children:
                if part.type == "pair":
                    self._read_pair(place, part)
        return place

    def _syntax_diagnostic(self, mistake: SyntaxMistake, text: str) -> Diagnostic:
        span = Span(self.path, self._lines.position(mistake.start), self._lines.position(mistake.end))
        related: tuple[Related, ...] = ()
        code = "syntax"
        if mistake.repeated:
            code = "duplicate-key"
            related = self._first_of(mistake, text)
        elif mistake.noticed is not None:
            position = self._lines.position(mistake.noticed)
            related = (Related("noticed here", Span(self.path, position, position)),)
        fixes = (Fix(span, mistake.replacement),) if mistake.replacement is not None else ()
        return Diagnostic(
            Severity.ERROR, self.source, f"{self.source.value}/{code}", mistake.message, span, related, fixes=fixes
        )

    def _first_of(self, mistake: SyntaxMistake, text: str) -> tuple[Related, ...]:
        """Where the key or table that stands twice was given first: the nearest same text before it."""
        written = text[mistake.start : mistake.end]
        section = text.rfind("\n[", 0, mistake.start) + 1
        sought = re.compile(rf"^[ \t]*({re.escape(written)})[ \t]*(?=[=#\r\n]|$)", re.MULTILINE)
        within = 0 if written.startswith("[") else section
        first = sought.search(text, within, mistake.start)
        if first is None:
            return ()
        span = Span(self.path, self._lines.position(first.start(1)), self._lines.position(first.end(1)))
        return (Related("first given here", span),)


def _keys(node: tree_sitter.Node) -> Iterator[tuple[str, tuple[int, int]]]:
    """The parts of a bare, quoted or dotted key."""
    if node.type == "dotted_key":
        for part in node.named_children:
            yield from _keys(part)
        return
    written = (node.text or b"").decode("utf-8", "replace")
    if node.type == "quoted_key":
        try:
            written = next(iter(tomllib.loads(f"{written} = 0")))
        except (tomllib.TOMLDecodeError, StopIteration):
            written = written.strip("\"'")
    yield written, (node.start_byte, node.end_byte)


def read_text(path: str, source: Source, writers: Writers | None = None) -> FileText:
    """Read a file; what keeps it from being read, and each byte that is not UTF-8, is a diagnostic.

    With `writers`, a file that others can write is not read.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return FileText("", (_unreadable(path, source, "not a regular file"),))
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > FILE_SIZE_LIMIT_BYTES:
                limit = FILE_SIZE_LIMIT_BYTES // 1024**2
                return FileText("", (_unreadable(path, source, f"larger than {limit} MiB"),))
            refusal = None if writers is None else writers.refusal(path, status)
            if refusal is not None:
                return FileText("", (not_used(path, source, refusal),))
            content = file.read()
    except OSError as error:
        return FileText("", (_unreadable(path, source, (error.strerror or str(error)).lower()),))
    return decode(path, content, source)


def decode(path: str, content: bytes, source: Source) -> FileText:
    """UTF-8 text of `content`; bytes that are none are U+FFFD in it, and reported."""
    for mark, name in ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):
        if content.startswith(mark):
            return FileText("", (_unreadable(path, source, f"written in {name}; save it as UTF-8"),))
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return FileText(content.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    found = []
    text = ""
    at = 0
    while at < len(content):
        try:
            text += content[at:].decode("utf-8")
            break
        except UnicodeDecodeError as error:
            text += content[at : at + error.start].decode("utf-8") + "\ufffd"
            found.append((len(text) - 1, content[at + error.start]))
            at += error.start + 1
            if len(found) == BAD_BYTES_SHOWN:
                text += content[at:].decode("utf-8", "replace")
                break
    index = LineIndex(text)
    diagnostics = []
    for offset, byte in found:
        as_latin_1 = bytes([byte]).decode("latin-1")
        shown = f" (`{as_latin_1}` in Latin-1)" if as_latin_1.isprintable() else ""
        message = f"byte 0x{byte:02X}{shown} is not UTF-8; save the file as UTF-8"
        span = Span(path, index.position(offset), index.position(offset + 1))
        diagnostics.append(Diagnostic(Severity.ERROR, source, f"{source.value}/not-utf-8", message, span))
    return FileText(text, tuple(diagnostics))


def of_editor(text: str) -> FileText:
    """The text that an editor holds; what is no character at all (half of a UTF-16 pair) is U+FFFD in it."""
    return FileText(re.sub("[\ud800-\udfff]", "\ufffd", text.removeprefix("\ufeff")))


def _unreadable(path: str, source: Source, why: str) -> Diagnostic:
    place = Span(path, Position(0, 0), Position(0, 0))
    return Diagnostic(Severity.ERROR, source, f"{source.value}/unreadable", f"cannot be read: {why}", place)


def not_used(path: str, source: Source, refusal: str) -> Diagnostic:
    """A file that somebody else can write (`Writers.refusal`)."""
    place = Span(path, Position(0, 0), Position(0, 0))
    message = f"not used: {refusal}, and what it says would run here; {SHARED_HINT}"
    kind = "template" if source is Source.JINJA else source.value
    return Diagnostic(Severity.ERROR, source, f"{kind}/writable-by-others", message, place)


@lru_cache(maxsize=_DOCUMENTS_KEPT)
def document_of(path: str, text: str, source: Source) -> Document:
    """The document of a text; recent ones are kept, so that a language server parses only what changed."""
    return Document(path, text, source)
