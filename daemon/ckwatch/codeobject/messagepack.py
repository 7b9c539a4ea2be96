"""Reading MessagePack, as far as code objects use it for their metadata.

The format: the MessagePack specification (https://github.com/msgpack/msgpack/blob/master/spec.md). All of it but the
extension types, which metadata never holds.
"""

from __future__ import annotations

import struct

Value = None | bool | int | float | str | bytes | list["Value"] | dict[str, "Value"]

_DEEPEST = 64
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
    0xD3: ">q",
}  # fmt: skip
_BYTES = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I"}
_TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_LISTS = {0xDC: ">H", 0xDD: ">I"}
_MAPS = {0xDE: ">H", 0xDF: ">I"}


def unpack(data: bytes) -> Value:
    """The value that `data` begins with; what follows it is padding. Raises ValueError when it is damaged."""
    value, _ = _value(data, 0, 0)
    return value


def _value(data: bytes, at: int, depth: int) -> tuple[Value, int]:
    """The value at `at`, and where the next begins."""
    if depth > _DEEPEST:
        raise ValueError("MessagePack is nested too deeply")
    (tag,) = _raw(data, at, 1)
    at += 1
    if tag < 0x80:
        return tag, at
    if tag >= 0xE0:
        return tag - 256, at
    if tag <= 0x8F:
        return _map(data, at, tag & 15, depth)
    if tag <= 0x9F:
        return _list(data, at, tag & 15, depth)
    if tag <= 0xBF:
        return _text(data, at, tag & 31)
    if tag in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[tag], at
    if tag in _NUMBERS:
        return _number(data, at, _NUMBERS[tag])
    if tag in _BYTES:
        size, at = _count(data, at, _BYTES[tag])
        return _raw(data, at, size), at + size
    if tag in _TEXTS:
        size, at = _count(data, at, _TEXTS[tag])
        return _text(data, at, size)
    if tag in _LISTS:
        size, at = _count(data, at, _LISTS[tag])
        return _list(data, at, size, depth)
    if tag in _MAPS:
        size, at = _count(data, at, _MAPS[tag])
        return _map(data, at, size, depth)
    raise ValueError(f"MessagePack has a value of the unknown kind {tag:#x}")


def _raw(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("MessagePack is cut short")
    return data[at : at + size]


def _number(data: bytes, at: int, kind: str) -> tuple[int | float, int]:
    size = struct.calcsize(kind)
    (number,) = struct.unpack(kind, _raw(data, at, size))
    return number, at + size


def _count(data: bytes, at: int, kind: str) -> tuple[int, int]:
    number, at = _number(data, at, kind)
    return int(number), at


def _text(data: bytes, at: int, size: int) -> tuple[str, int]:
    return _raw(data, at, size).decode("utf-8", "replace"), at + size


def _list(data: bytes, at: int, size: int, depth: int) -> tuple[list[Value], int]:
    values: list[Value] = []
    for _ in range(size):
        value, at = _value(data, at, depth + 1)
        values.append(value)
    return values, at


def _map(data: bytes, at: int, size: int, depth: int) -> tuple[dict[str, Value], int]:
    """Keys that are no texts are told apart by their `repr`: metadata has none of them."""
    values: dict[str, Value] = {}
    for _ in range(size):
        key, at = _value(data, at, depth + 1)
        value, at = _value(data, at, depth + 1)
        values[key if isinstance(key, str) else repr(key)] = value
    return values, at
