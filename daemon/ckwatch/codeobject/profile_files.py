"""A profile as files of other tools: speedscope's JSON, and pprof's protocol buffer."""

from __future__ import annotations

import gzip
import json

from ckwatch.model.profiles import KernelProfile

_SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"


def speedscope(profile: KernelProfile, title: str) -> bytes:
    """The stacks of inlined functions with their issues (https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources)."""
    numbers: dict[str, int] = {}
    for stack in profile.stacks:
        for function in stack.functions:
            numbers.setdefault(function, len(numbers))
    total = sum(stack.issued for stack in profile.stacks)
    content = {
        "$schema": _SPEEDSCOPE,
        "exporter": "ckwatch",
        "name": title,
        "shared": {"frames": [{"name": name} for name in numbers]},
        "profiles": [
            {
                "type": "sampled",
                "name": f"{profile.name}: instructions issued, counted",
                "unit": "none",
                "startValue": 0,
                "endValue": total,
                "samples": [[numbers[function] for function in stack.functions] for stack in profile.stacks],
                "weights": [stack.issued for stack in profile.stacks],
            }
        ],
    }
    return json.dumps(content).encode()


def pprof(profile: KernelProfile, title: str) -> bytes:
    """The same for `pprof` (https://github.com/google/pprof/blob/main/proto/profile.proto), compressed by gzip."""
    strings = {"": 0}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    functions: dict[str, int] = {}
    samples = []
    for stack in profile.stacks:
        ids = [functions.setdefault(function, len(functions) + 1) for function in reversed(stack.functions)]
        samples.append(_packed(1, ids) + _packed(2, [stack.issued]))
    body = _message(1, _number(1, text("instructions")) + _number(2, text("count")))
    body += b"".join(_message(2, sample) for sample in samples)
    for name, number in functions.items():
        body += _message(4, _number(1, number) + _message(4, _number(1, number)))  # a location of one line
        body += _message(5, _number(1, number) + _number(2, text(name)))
    body += _packed(13, [text(f"{title}: counted, not timed")])
    body += b"".join(_bytes(6, string.encode()) for string in strings)
    return gzip.compress(body, mtime=0)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


_message = _bytes


def _packed(field: int, values: list[int]) -> bytes:
    return _bytes(field, b"".join(_varint(value) for value in values))
