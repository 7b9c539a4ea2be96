"""Whatever bytes arrive, in whatever pieces: every whole message is found, and every bad header is a problem."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.system.message_framing import HEADER_LIMIT, MESSAGE_LIMIT, FramingError, MessageFramer
from helpers.each_row import each_row

GOOD = b"Content-Length: 2\r\n\r\n{}"


def read(data: bytes, pieces: int = 1 << 30) -> list[bytes | str]:
    """Bodies, and what was wrong in between; a problem begins with `!`."""
    framer = MessageFramer()
    found: list[bytes | str] = []
    for start in range(0, len(data), pieces):
        framer.feed(data[start : start + pieces])
        while True:
            try:
                body = framer.next()
            except FramingError as error:
                found.append(f"!{error}")
                continue
            if body is None:
                break
            found.append(body)
    return found


WELL_FORMED = [
    (GOOD, [b"{}"]),
    (b"content-length:2\n\n{}", [b"{}"]),
    (b"Content-Length: 0002 \r\nContent-Type: x; charset=utf-8\r\n\r\n{}", [b"{}"]),
    (b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
    (b"X-Content-Length: 9\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
    (b"\xc3\xa9: \xff\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
    (b"\r\n\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
    (b"Content-Length: 0\r\n\r\n", [b""]),
]

BROKEN = [
    (b"Content-Length: " + b"9" * 4300 + b"\r\n\r\n", "at most"),
    (b"Content-Length: %d\r\n\r\n" % (MESSAGE_LIMIT + 1), "at most"),
    (b"Content-Length: -5\r\n\r\n", "not a number of bytes: -5"),
    (b"Content-Length: 1_0\r\n\r\n", "not a number of bytes"),
    (b"Content-Length: 5.0\r\n\r\n", "not a number of bytes"),
    (b"Content-Length: \xd9\xa5\r\n\r\n", "not a number of bytes"),
    (b"Content-Length:\r\n\r\n", "not a number of bytes"),
    (b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "two different lengths"),
    (b"Content-Type: text/plain\r\n\r\n", "no Content-Length"),
    (b'{"id": 1}\r\n\r\n', "no Content-Length"),
    (b"{}", "belong to no message"),
    (b"{" * (HEADER_LIMIT + 1), "belong to no message"),
    (b"}" * HEADER_LIMIT + b"}\n", "more than"),
    (b"X: y\r\n" * HEADER_LIMIT, "more than"),
]


@pytest.mark.parametrize(("data", "bodies"), WELL_FORMED)
def test_messages(data: bytes, bodies: list[bytes]) -> None:
    for pieces in (1, 7, len(data)):
        assert read(data + GOOD, pieces) == [*bodies, b"{}"]


@each_row(("data", "problem"), BROKEN)
def test_a_bad_header_is_one_problem_and_the_next_message_is_found(data: bytes, problem: str) -> None:
    bodies = (b"", b'{"jsonrpc": "2.0", "text": "a\\r\\n\\r\\nb"}', b"\n\n{\n}\n")
    for body in bodies if data.endswith(b"\n") else bodies[:1]:
        first, *others = read(GOOD + data + body + GOOD + GOOD)[1:]
        assert isinstance(first, str)
        assert problem in first
        assert others == [b"{}", b"{}"]


def test_what_is_announced_is_not_allocated() -> None:
    framer = MessageFramer()
    framer.feed(b"Content-Length: %d\r\n\r\n" % MESSAGE_LIMIT)
    assert framer.next() is None
    assert len(framer.rest) < 100


def test_what_no_header_announced_is_not_kept() -> None:
    framer = MessageFramer()
    framer.feed(b"x" * (HEADER_LIMIT + 1))
    with pytest.raises(FramingError, match="no header ends"):
        framer.next()
    for _ in range(100):
        framer.feed(b"x" * 10_000)
        assert framer.next() is None
        assert len(framer.rest) < 100


@given(st.binary(max_size=200), st.integers(1, 30))
def test_any_bytes(data: bytes, pieces: int) -> None:
    found = read(data, pieces)
    assert len(b"".join(each for each in found if isinstance(each, bytes))) <= len(data)
    assert found == read(data)
