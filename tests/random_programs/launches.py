"""`python launches.py LIBRARY`: compute kernels on the host and launch them on the emulator; JSON in and out.

In a process of its own, since a device has one arch for a process's life, and a program may crash it. Each line that is
read is a request: the host's library, code objects, kernels, the input's file; each answer tells the kernels that
differ or that something was found in.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

PATTERN = 0xA5
"""The byte that outputs are filled with at first."""

FIRST_COUNTERS = bytes(range(1, 256)) + b"\0"


class _Emulator:
    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        for told in ("hipGetErrorName", "ckwatch_emulator_problem", "ckwatch_emulator_finding"):
            getattr(self.library, told).restype = ctypes.c_char_p

    def memory(self, content: bytes) -> ctypes.c_void_p:
        address = ctypes.c_void_p()
        self.demand(self.library.hipMalloc(ctypes.byref(address), ctypes.c_size_t(len(content))))
        self.demand(self.library.hipMemcpy(address, content, ctypes.c_size_t(len(content)), 1))
        return address

    def content(self, address: ctypes.c_void_p, size: int) -> bytes:
        found = ctypes.create_string_buffer(size)
        self.demand(self.library.hipMemcpy(found, address, ctypes.c_size_t(size), 2))
        return found.raw

    def demand(self, error: int) -> None:
        if error:
            name = self.library.hipGetErrorName(error).decode()
            raise RuntimeError(f"{name} {(self.library.ckwatch_emulator_problem() or b'').decode()}".strip())

    def launched(
        self, module: ctypes.c_void_p, kernel: str, source: bytes, sizes: tuple[int, int], grid: tuple[int, int]
    ) -> tuple[bytes, bytes, list[Any]]:
        """The output, the counters and the findings of a kernel."""
        library, function = self.library, ctypes.c_void_p()
        library.ckwatch_emulator_clear()
        self.demand(library.hipModuleGetFunction(ctypes.byref(function), module, kernel.encode()))
        held = [self.memory(content) for content in (source, bytes([PATTERN]) * sizes[0], FIRST_COUNTERS[: sizes[1]])]
        arguments = (ctypes.c_void_p * 3)(*(one.value for one in held))
        size = ctypes.c_size_t(ctypes.sizeof(arguments))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(arguments), 2, ctypes.addressof(size), 3)
        try:
            self.demand(library.hipModuleLaunchKernel(function, grid[0], 1, 1, grid[1], 1, 1, 0, None, None, extra))
            self.demand(library.hipDeviceSynchronize())
            output, counters = self.content(held[1], sizes[0]), self.content(held[2], sizes[1])
        finally:
            for one in held:
                library.hipFree(one)
        return output, counters, self.findings()

    def findings(self) -> list[Any]:
        count = self.library.ckwatch_emulator_finding_count()
        return [json.loads(self.library.ckwatch_emulator_finding(number)) for number in range(count)]


def _expected(host: ctypes.CDLL, kernel: str, source: bytes, asked: dict[str, Any]) -> tuple[bytes, bytes]:
    output = ctypes.create_string_buffer(bytes([PATTERN]) * asked["output_bytes"], asked["output_bytes"])
    counters = ctypes.create_string_buffer(FIRST_COUNTERS[: asked["counter_bytes"]], asked["counter_bytes"])
    getattr(host, kernel)(source, output, counters, asked["groups"], asked["lanes"])
    return output.raw, counters.raw


def _answer(emulator: _Emulator, asked: dict[str, Any]) -> list[dict[str, Any]]:
    source = Path(asked["input"]).read_bytes()
    host = ctypes.CDLL(asked["host"])
    right = {kernel: _expected(host, kernel, source, asked) for kernel in asked["kernels"]}
    told = []
    for level, path in asked["objects"].items():
        module = ctypes.c_void_p()
        emulator.library.ckwatch_emulator_clear()
        emulator.demand(emulator.library.hipModuleLoad(ctypes.byref(module), path.encode()))
        for kernel, (output, counters) in right.items():
            one: dict[str, Any] = {"level": level, "kernel": kernel, "findings": [], "places": [], "error": ""}
            try:
                sizes = (asked["output_bytes"], asked["counter_bytes"])
                grid = (asked["groups"], asked["threads"])
                found = emulator.launched(module, kernel, source, sizes, grid)
                one["findings"] = found[2]
                both = ((output, found[0]), (counters, found[1]))
                one["places"] = [
                    (part, at, expected[at : at + 8].hex(), actual[at : at + 8].hex())
                    for part, (expected, actual) in enumerate(both)
                    if expected != actual
                    for at in [n for n in range(0, len(expected), 8) if expected[n : n + 8] != actual[n : n + 8]][:40]
                ]
            except RuntimeError as error:
                one |= {"error": str(error), "findings": emulator.findings()}
            if one["findings"] or one["places"] or one["error"]:
                told.append(one)
        emulator.library.hipModuleUnload(module)
    return told


def main() -> None:
    """Answer until there is no request left."""
    emulator = _Emulator(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(_answer(emulator, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
