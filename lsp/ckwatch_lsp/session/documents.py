"""Open documents and their edits, and the texts of files that are not open."""

from __future__ import annotations

import enum
import os
from collections import UserDict, deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from lsprotocol import types

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position, Range, advance, common_prefix
from ckwatch.system.user_files import read_file
from ckwatch_lsp.protocol.position_encoding import PositionCodec, has_lone_return, split_lines
from ckwatch_lsp.protocol.uris import SCHEME, parse_virtual_uri, path_of

SIZE_LIMIT = 16 * 1024 * 1024
"""Bytes of a file that is read for an answer."""

EDITS_KEPT = 2000
"""Edits of a document that are kept; the daemon is never so far behind."""

COMPARED = 500_000
"""Characters of a text of which it is found out what of it differs from what is saved."""


class DocumentKind(enum.Enum):
    """The kind of a document, by its name."""

    TEMPLATE = "template"
    KERNEL_FILE = "kernel-file"
    SETTINGS = "settings"
    VIRTUAL = "virtual"
    HEADER = "header"
    """A file that C++ includes; its name does not tell."""
    OTHER = "other"


WORKSPACE_KINDS = frozenset({DocumentKind.TEMPLATE, DocumentKind.KERNEL_FILE, DocumentKind.SETTINGS})
"""Kinds of documents that make up a workspace: the daemon gets their unsaved text."""


@dataclass(frozen=True, slots=True)
class TextChange:
    """A change of a text: what was at `before` ends at `end` now."""

    before: Range
    end: Position


def kind_of(uri: str) -> DocumentKind:
    """Return the kind of the document at `uri`."""
    if uri.startswith(f"{SCHEME}:"):
        return DocumentKind.VIRTUAL
    name = os.path.basename(path_of(uri) or "")  # noqa: PTH119  # Path cannot hold every name
    if name == "ckwatch.toml":
        return DocumentKind.SETTINGS
    if name.endswith(".kernel.toml"):
        return DocumentKind.KERNEL_FILE
    return DocumentKind.TEMPLATE if name.endswith(".j2") else DocumentKind.OTHER


class TextDocument:
    """A text and its places. `version` is the editor's, None for a file that is not open."""

    def __init__(
        self, uri: str, text: str, version: int | None, encoding: types.PositionEncodingKind | str, language: str = ""
    ) -> None:
        self.uri = uri
        self.path = path_of(uri)
        self.kind = kind_of(uri)
        self.virtual = parse_virtual_uri(uri)
        """The virtual document that it shows, if it is no file, or a file of ours that shows it."""
        self.language = language
        self.version = version
        self.revision = 0
        """Counts changes, also those that come without a version."""
        self.saved = text
        """The text that the file has, as far as is known."""
        self._edits: deque[tuple[int, TextChange]] = deque(maxlen=EDITS_KEPT)
        """Each with the revision that it led to."""
        self._text: str | None = text
        self._lines = split_lines(text)
        self.codec = PositionCodec(self._lines, encoding, lone_returns=has_lone_return(text))

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = "".join(self._lines)
        return self._text

    @property
    def line_count(self) -> int:
        """Lines as the editor counts them, at least one."""
        return len(self._lines)

    def line(self, number: int) -> str:
        """One of our lines without its end; empty past the last."""
        lines = self.text.split("\n") if self.codec.lone_returns else self._lines
        return lines[number].rstrip("\r\n") if number < len(lines) else ""

    def change(self, changes: Sequence[types.TextDocumentContentChangeEvent], version: int | None) -> list[TextChange]:
        """Take changes as an editor sends them, in its order; the edits that they are, each in terms of the text before
        it."""
        self.version = version
        self.revision += 1
        edits = [self._replace(change) for change in changes]
        self._edits.extend((self.revision, edit) for edit in edits)
        return edits

    def edits_since(self, revision: int) -> list[TextChange]:
        """The edits after a revision, in order."""
        return [edit for at, edit in self._edits if at > revision]

    def edits_since_saved(self) -> list[TextChange]:
        """The edits that make the saved text the present one: one that covers all differences, or none."""
        if self.text == self.saved or max(len(self.text), len(self.saved)) > COMPARED:
            return []
        return [difference(self.saved, self.text)]

    def _replace(self, change: types.TextDocumentContentChangeEvent) -> TextChange:
        if not isinstance(change, types.TextDocumentContentChangePartial):
            whole = self.text
            self._set(change.text)
            return difference(whole, change.text)
        before = self.codec.decode_range(change.range)
        first, last = before.start, before.end
        if self.codec.lone_returns or "\r" in change.text:
            index = LineIndex(self.text)
            self._set(self.text[: index.offset(first)] + change.text + self.text[index.offset(last) :])
        else:
            lines = split_lines(
                self._lines[first.line][: first.column] + change.text + self._lines[last.line][last.column :]
            )
            if last.line < len(self._lines) - 1:
                lines.pop()  # what follows the end of the last replaced line is the next line
            self._lines[first.line : last.line + 1] = lines
            self._text = None
        return TextChange(before, advance(before.start, change.text))

    def _set(self, text: str) -> None:
        self._text = text
        self._lines[:] = split_lines(text)
        self.codec.lone_returns = has_lone_return(text)


def difference(old: str, new: str) -> TextChange:
    """The smallest single edit from one text to another, so that what it does not touch keeps its place."""
    first = common_prefix(old, new)
    last = common_prefix(old[first:][::-1], new[first:][::-1])
    before = LineIndex(old).range(first, len(old) - last)
    return TextChange(before, advance(before.start, new[first : len(new) - last]))


def editor_range(document: TextDocument | None, given: Range) -> types.Range:
    """Our range in the editor's units; as it is where the text cannot be read."""
    if document is not None:
        return document.codec.encode_range(given)
    start, end = given.start, given.end
    return types.Range(types.Position(start.line, start.column), types.Position(end.line, end.column))


class OpenDocuments(UserDict[str, TextDocument]):
    """Open documents by URI, as the editor writes it. Two URIs may be of one file."""

    def __init__(self) -> None:
        self._by_path: dict[str, dict[str, TextDocument]] = {}
        super().__init__()

    def __setitem__(self, uri: str, document: TextDocument) -> None:
        if uri in self.data:
            del self[uri]
        self.data[uri] = document
        if document.path is not None:
            self._by_path.setdefault(document.path, {})[uri] = document

    def __delitem__(self, uri: str) -> None:
        document = self.data.pop(uri)
        if document.path is not None:
            del self._by_path[document.path][uri]
            if not self._by_path[document.path]:
                del self._by_path[document.path]

    def at(self, path: str) -> list[TextDocument]:
        """Those of the file at `path`."""
        return list(self._by_path.get(path, {}).values())

    def paths(self) -> AbstractSet[str]:
        """The files that are open."""
        return self._by_path.keys()


def is_saved(path: str, text: str) -> bool:
    """Return True if the file at `path` has this text."""
    try:
        return read_text(path) == text
    except OSError:
        return False


def read_text(path: str) -> str:
    """The text of a file, U+FFFD for what is no UTF-8. Raises OSError, also for one that is too large."""
    return read_file(path, SIZE_LIMIT).decode("utf-8", "replace")
