"""Finds messages of the language server protocol: a header that says how long the body is, an empty line, the body.

Whatever arrives, the next whole message is found. A header that cannot be used is a problem of its own, and what
follows it is passed over up to the next `Content-Length` that ends a line. In JSON a line cannot end like that, so
nothing of a lost body is taken for a header.
"""

from __future__ import annotations

import re

MESSAGE_LIMIT = 128 * 1024 * 1024
"""Bytes of one message."""

HEADER_LIMIT = 16 * 1024
"""Bytes of one header."""

_LENGTH = re.compile(rb"(?<![\w-])content-length[ \t]*:([^\r\n]*)\r?\n", re.IGNORECASE)
_DIGITS = re.compile(rb"[ \t]*0*([0-9]+)[ \t]*")
_TAIL = 64
"""Bytes of what is passed over that may be the beginning of `Content-Length: N`."""


class FramingError(ValueError):
    """A header that does not say how long its message is, or says what cannot be."""


class MessageFramer:
    """Takes bytes as they arrive and gives bodies. No more is kept than has arrived, whatever a header announces."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._searched = 0
        """Up to here there is no line's end that was not seen."""
        self._read = 0
        """The end of the present header's lines that were read."""
        self._length: int | None = None
        """The length in the present header."""
        self._lost = False
        """True if the input belongs to no usable header."""

    def feed(self, data: bytes) -> None:
        """More has arrived."""
        self._bytes += data

    @property
    def rest(self) -> bytes:
        """The input that has not been returned."""
        return bytes(self._bytes)

    def next(self) -> bytes | None:
        """The next body; None until more has arrived. Raises FramingError for a header that cannot be used; the next
        call goes on behind it."""
        while True:
            end = self._bytes.find(b"\n", self._searched) + 1
            if not end:
                self._searched = len(self._bytes)
                if self._lost or len(self._bytes) > HEADER_LIMIT:
                    self._pass_over(max(0, len(self._bytes) - _TAIL), f"no header ends within {HEADER_LIMIT} bytes")
                return None
            line = bytes(self._bytes[self._read : end])
            if line.strip():
                self._take_line(line, end)
            elif self._length is not None:
                body = end + self._length
                if len(self._bytes) < body:
                    return None
                found = bytes(self._bytes[end:body])
                self._drop(body)
                return found
            elif self._read:
                self._pass_over(end, "a header has no Content-Length")
            else:
                self._drop(end)

    def _take_line(self, line: bytes, end: int) -> None:
        found = _LENGTH.search(line)
        if found is None:
            if self._lost or end > HEADER_LIMIT:
                self._pass_over(end, f"a header has more than {HEADER_LIMIT} bytes")
            self._read = self._searched = 0 if self._lost else end
            return
        if self._lost or found.start():
            before = end - len(line) + found.start()
            self._drop(before)
            self._searched = 0
            if not self._lost:
                raise FramingError(f"{before} bytes belong to no message")
            self._lost = False
            end = found.end() - found.start()
        digits = _DIGITS.fullmatch(found[1])
        if digits is None:
            self._pass_over(end, f"Content-Length is not a number of bytes: {_shown(found[1])}")
        elif len(digits[1]) > len(str(MESSAGE_LIMIT)) or int(digits[1]) > MESSAGE_LIMIT:
            self._pass_over(end, f"Content-Length is {_shown(digits[1])}; a message has at most {MESSAGE_LIMIT} bytes")
        elif self._length not in (None, int(digits[1])):
            self._pass_over(end, "a header has two different lengths")
        else:
            self._length = int(digits[1])
            self._read = self._searched = end

    def _pass_over(self, count: int, problem: str) -> None:
        """Look for the next header behind so many bytes. Raises FramingError, but only for the first of them."""
        self._drop(count)
        if not self._lost:
            self._lost = True
            raise FramingError(problem)

    def _drop(self, count: int) -> None:
        del self._bytes[:count]
        self._searched = max(0, self._searched - count)
        self._read = 0
        self._length = None


def _shown(value: bytes) -> str:
    text = value.strip().decode("ascii", "backslashreplace")
    return text if len(text) <= 40 else f"{text[:39]}…"
