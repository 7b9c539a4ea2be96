"""Standard output that says why it cannot be written, and standard error that never fails."""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
from typing import TextIO

from ckwatch.model.errors import CkwatchError

_ESCAPED = "ckwatch-escaped"


class ReaderGoneError(Exception):
    """Nobody reads our output any more (`| head`)."""


class _StandardOutput(io.FileIO):
    """Raises ReaderGoneError, and CkwatchError for a disk that is full or a terminal that has gone."""

    def write(self, data: object) -> int:
        try:
            # a terminal or pipe that another program made non-blocking takes nothing now and then
            while (written := super().write(data)) is None:  # type: ignore[arg-type]  # whatever a buffer writes
                select.select([], [self], [])
        except BrokenPipeError:
            raise ReaderGoneError from None
        except OSError as error:
            raise CkwatchError(f"standard output cannot be written: {error.strerror}") from None
        return written


class _StandardError(io.FileIO):
    """Standard error, or nothing if it is closed."""

    def write(self, data: object) -> int:
        try:
            return super().write(data) or 0  # type: ignore[arg-type]  # whatever a buffer writes
        except OSError:
            return len(data)  # type: ignore[arg-type]


def standard_output(descriptor: int, like: TextIO | None = None) -> TextIO:
    """A text file that writes to `descriptor` with the encoding of `like`."""
    return _text(_StandardOutput(descriptor, "wb", closefd=False), like)


def guard() -> None:
    """Replace `sys.stdout` and `sys.stderr`. What was closed is opened: else a file of ours would take its number."""
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free
    sys.stdout = standard_output(1, sys.stdout)
    sys.stderr = _text(_StandardError(2, "wb", closefd=False), sys.stderr)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    r"""Escape what an encoding has no character for as `\u00b5`, which JSON's readers know, too."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high << 8 | low:04x}" for high, low in zip(units[::2], units[1::2], strict=True)), error.end


def _text(file: io.FileIO, like: TextIO | None) -> TextIO:
    encoding, errors = ("utf-8", "backslashreplace") if like is None else (like.encoding, like.errors)
    if codecs.lookup(encoding).name != "utf-8":
        errors = _ESCAPED
    unbuffered = file.isatty() or isinstance(file, _StandardError)
    return io.TextIOWrapper(io.BufferedWriter(file), encoding=encoding, errors=errors, line_buffering=unbuffered)


codecs.register_error(_ESCAPED, _escaped)
