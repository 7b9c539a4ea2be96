"""Reads the text of files, and decides when `stat` alone shows that a file has not changed.

A file that cannot be read, that is not UTF-8 or that others can write gives a diagnostic.

A file that was modified within two seconds of now could change again without its times showing it: file systems
keep them to a few milliseconds at best. So what was read of such a file is not remembered by its stamp.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from itertools import islice
from typing import Generic, TypeVar

from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position, Span
from ckwatch.system.user_files import read_with_status
from ckwatch.workspace.writers import Writers

SHARED_HINT = "make it yours alone (chown, chmod go-w), or `ckwatch trust --shared` a workspace that you share"


BAD_BYTES_SHOWN = 10

_ESCAPED = re.compile("[\udc80-\udcff]")
"""A byte that is not UTF-8, as `surrogateescape` decodes it."""


FILE_SIZE_LIMIT_BYTES = 8 * 1024 * 1024


SETTLED_NS = 2_000_000_000

Stamp = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, times of modification and of change in nanoseconds."""

Clock = Callable[[], int]
"""The time since 1970 in nanoseconds, to compare a file's times with."""

CachedValue = TypeVar("CachedValue")


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of a file."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def is_settled(stamp: Stamp, now_ns: int) -> bool:
    """Return True if a change after the time `now_ns` shows in the stamp."""
    return all(abs(now_ns - at_ns) > SETTLED_NS for at_ns in stamp[3:])


class StampCache(Generic[CachedValue]):
    """Values known of files, for as long as their stamps stay the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Stamp, CachedValue]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, path: str, stamp: Stamp) -> CachedValue | None:
        """Return the value known of the file at `path`, which has this stamp now."""
        found = self._known.get(path)
        return found[1] if found is not None and found[0] == stamp else None

    def put(self, path: str, stamp: Stamp, read_at_ns: int, known: CachedValue) -> None:
        """Remember what was read from the time `read_at_ns` on, if a change since then would show.

        `stamp` was taken before that time.
        """
        if is_settled(stamp, read_at_ns):
            self._known[path] = (stamp, known)
        else:
            self._known.pop(path, None)

    def keep(self, paths: Collection[str]) -> None:
        """Forget all files but `paths`."""
        self._known = {path: known for path, known in self._known.items() if path in paths}


@dataclass(frozen=True, slots=True)
class FileText:
    """A file's text, without a byte order mark, and what is wrong with its bytes."""

    text: str
    diagnostics: tuple[Diagnostic, ...] = ()


def read_text(path: str, source: Source, writers: Writers | None = None) -> FileText:
    """Read a file; what keeps it from being read, and each byte that is not UTF-8, is a diagnostic.

    With `writers`, a file that others can write is not read.
    """
    try:
        content, status = read_with_status(path, FILE_SIZE_LIMIT_BYTES)
    except OSError as error:
        why = error.strerror or str(error)
        return FileText("", (_unreadable(path, source, why if "MiB" in why else why.lower()),))
    refusal = None if writers is None else writers.refusal(path, status)
    if refusal is not None:
        return FileText("", (writable_by_others(path, source, refusal),))
    return decode_text(path, content, source)


def decode_text(path: str, content: bytes, source: Source) -> FileText:
    """UTF-8 text of `content`; bytes that are none are U+FFFD in it, and reported."""
    for mark, name in ((b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16")):
        if content.startswith(mark):
            return FileText("", (_unreadable(path, source, f"written in {name}; save it as UTF-8"),))
    content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return FileText(content.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    escaped = content.decode("utf-8", "surrogateescape")
    text = _ESCAPED.sub("\ufffd", escaped)
    index = LineIndex(text)
    diagnostics = []
    for bad in islice(_ESCAPED.finditer(escaped), BAD_BYTES_SHOWN):
        offset, byte = bad.start(), ord(bad[0]) - 0xDC00
        as_latin_1 = bytes([byte]).decode("latin-1")
        shown = f" (`{as_latin_1}` in Latin-1)" if as_latin_1.isprintable() else ""
        message = f"byte 0x{byte:02X}{shown} is not UTF-8; save the file as UTF-8"
        span = Span(path, index.position(offset), index.position(offset + 1))
        diagnostics.append(Diagnostic(Severity.ERROR, source, f"{source.value}/not-utf-8", message, span))
    return FileText(text, tuple(diagnostics))


def editor_text(text: str) -> FileText:
    """The text that an editor holds; what is no character at all (half of a UTF-16 pair) is U+FFFD in it."""
    return FileText(re.sub("[\ud800-\udfff]", "\ufffd", text.removeprefix("\ufeff")))


def _unreadable(path: str, source: Source, why: str) -> Diagnostic:
    place = Span(path, Position(0, 0), Position(0, 0))
    return Diagnostic(Severity.ERROR, source, f"{source.value}/unreadable", f"cannot be read: {why}", place)


def writable_by_others(path: str, source: Source, refusal: str) -> Diagnostic:
    """A file that another user can write (`Writers.refusal`)."""
    place = Span(path, Position(0, 0), Position(0, 0))
    message = f"not used: {refusal}, and what it says would run here; {SHARED_HINT}"
    kind = "template" if source is Source.JINJA else source.value
    return Diagnostic(Severity.ERROR, source, f"{kind}/writable-by-others", message, place)
