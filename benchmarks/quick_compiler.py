"""A compiler that is done in a millisecond, or sleeps first: what is measured then is what ckwatch does around it.

It is a C program, so that its own start costs as little as that of any process. Each run notes the moment at which it
began, reads nothing, names a thousand headers as CK's instances do, and leaves an object of the right form.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from benchmarks.saving import save
from ckwatch.engine.build_tools import FindToolchain
from ckwatch.system.async_processes import ExitReason, ProcessResult

if TYPE_CHECKING:
    from ckwatch.compile.toolchain.model import Toolchain

HEADERS = 1000
HEADER_FOLDERS = 50
_SYMBOL_BYTES = 120
_SYMBOL_OFFSET = 1

PROGRAM = r"""
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *slurp(const char *folder, const char *name, long *size) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    FILE *file = fopen(path, "rb");
    if (!file) exit(9);
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    char *data = calloc(1, *size + 1);
    if (fread(data, 1, *size, file) != (size_t)*size) exit(9);
    fclose(file);
    return data;
}

static void spill(const char *path, const char *mode, const char *data, long size) {
    FILE *file = fopen(path, mode);
    if (!file || fwrite(data, 1, size, file) != (size_t)size || fclose(file)) exit(9);
}

int main(int count, char **arguments) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const char *folder = getenv("QUICK_COMPILER");
    int shared = 0;
    for (int i = 1; i < count; i++) shared |= !strcmp(arguments[i], "-shared");
    char line[4200];
    int length = snprintf(line, sizeof line, "%s %lld\n", shared ? "link" : "compile",
                          now.tv_sec * 1000000000LL + now.tv_nsec);
    char log[4096];
    snprintf(log, sizeof log, "%s/runs", folder);
    spill(log, "ab", line, length);
    long size;
    if (shared) {
        char *exports = slurp("", "exports.map", &size);
        char *name = strstr(exports, "global: ") + 8;
        char *data = slurp(folder, "so", &size);
        char *slot = memmem(data, size, "SYMBOL", 6);
        memset(slot, 0, 6);
        memcpy(slot, name, strchr(name, ';') - name);
        spill(arguments[count - 1], "wb", data, size);
    } else {
        char *asleep = slurp(folder, "asleep_ms", &size);
        poll(0, 0, atoi(asleep));
        char *headers = slurp(folder, "headers", &size);
        spill(getenv("CC_PRINT_HEADERS_FILE"), "ab", headers, size);
        char *data = slurp(folder, "object", &size);
        spill(arguments[count - 1], "wb", data, size);
    }
    return 0;
}
"""


@dataclass(frozen=True)
class QuickToolchain:
    """Fits what the daemon asks of a toolchain."""

    hipcc: Path
    folder: Path
    include: Path

    hip_arguments: tuple[str, ...] = ()
    cpp_arguments: tuple[str, ...] = ()
    link_arguments: tuple[str, ...] = ()
    identity: str = "quick compiler 1"
    openmp: bool = False
    clang_version: str = "0 (quick)"
    hip_version: str = "0"
    environment: Mapping[str, str] = field(default_factory=dict)
    workspace: Path | None = None
    unknown_flags: frozenset[str] = frozenset()

    @property
    def clangxx(self) -> Path:
        """Never called."""
        return self.hipcc

    @property
    def include_folders(self) -> tuple[Path, ...]:
        """The folder of the headers."""
        return (self.include,)

    feature_folders = include_folders

    @property
    def roots(self) -> Mapping[str, Path]:
        """As a toolchain has them."""
        return {"ck": self.include}


class QuickCompiler:
    """The program and what it needs, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "hipcc"
        self._include = folder / "include"
        self._runs = folder / "runs"

    def make(self) -> None:
        """Write and compile everything. Needs a C compiler."""
        self.folder.mkdir(parents=True)
        headers = [self._include / f"ck/d{n % HEADER_FOLDERS:02}/h{n:03}.hpp" for n in range(HEADERS)]
        for header in headers:
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(f"#pragma once\n// {header.name}\n")
        (self.folder / "headers").write_text("".join(f"{header}\n" for header in headers))
        self.sleep(0)
        (self.folder / "object").write_bytes(_elf({}))
        (self.folder / "so").write_bytes(_elf(_one_symbol()))
        source = self.folder / "hipcc.c"
        source.write_text(PROGRAM)
        compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
        subprocess.run([compiler, "-O2", "-D_GNU_SOURCE", "-o", self.program, source], check=True)

    def sleep(self, seconds: float) -> None:
        """From now on each compile sleeps so long."""
        save(self.folder / "asleep_ms", f"{seconds * 1000:.0f}")

    @property
    def toolchain(self) -> Toolchain:
        """The compiler as builders take it."""
        environment = {"PATH": os.defpath, "QUICK_COMPILER": str(self.folder)}
        return cast("Toolchain", QuickToolchain(self.program, self.folder, self._include, environment=environment))

    @property
    def find_toolchain(self) -> FindToolchain:
        """For `open_engine`."""
        toolchain = self.toolchain
        return cast("FindToolchain", lambda _choice, _environment: toolchain)

    def started_ns(self) -> list[int]:
        """When each compile since `forget` began, by the monotonic clock; links are left out."""
        if not self._runs.exists():
            return []
        runs = (line.split() for line in self._runs.read_text().splitlines())
        return [int(moment) for kind, moment in runs if kind == "compile"]

    def forget(self) -> None:
        """Forget the runs so far."""
        self._runs.unlink(missing_ok=True)

    def inside(self) -> _Inside:
        """A launcher that does in this process what the program does, for filling a store."""
        read = {name: (self.folder / name).read_bytes() for name in ("headers", "object", "so")}
        return _Inside(read["headers"], read["object"], read["so"])


class _Inside:
    """Has the signature of `run_process`."""

    def __init__(self, headers: bytes, compiled: bytes, linked: bytes) -> None:
        self._headers, self._compiled, self._linked = headers, compiled, linked

    async def __call__(
        self, arguments: list[str], *, environment: Mapping[str, str], folder: Path, **_: object
    ) -> ProcessResult:
        output = folder / arguments[-1]
        if "-shared" in arguments:
            found = re.search(r"global: *([^;]*);", (folder / "exports.map").read_text())
            assert found is not None
            name = found[1].encode()
            _write(output, self._linked.replace(b"SYMBOL".ljust(len(name), b"\0"), name))
        else:
            _write(environment["CC_PRINT_HEADERS_FILE"], self._headers)
            _write(output, self._compiled)
        return ProcessResult(tuple(arguments), ExitReason.EXITED, 0, "", "", 0, 0.001, 1_000_000)


def _write(path: str | Path, content: bytes) -> None:
    """As a program in C does it: what `open` of Python costs is none of the compiler's."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    os.write(descriptor, content)
    os.close(descriptor)


def _one_symbol() -> dict[str, bytes]:
    """A symbol table with one exported function, with room for any name."""
    strings = b"\0" + b"SYMBOL".ljust(_SYMBOL_BYTES, b"\0")
    symbol = struct.pack("<IBBHQQ", _SYMBOL_OFFSET, 1 << 4 | 2, 0, 5, 0, 0)
    return {".dynsym": bytes(24) + symbol, ".dynstr": strings}


def _elf(sections: Mapping[str, bytes]) -> bytes:
    """An ELF-64 file with these sections; the symbol table links to the strings behind it."""
    names = ["", *sections, ".shstrtab"]
    table = b"".join(name.encode() + b"\0" for name in names)
    contents = [b"", *sections.values(), table]
    offsets, at = [], 64
    for content in contents:
        offsets.append(at)
        at += len(content)
    counts = (0, 64, 0, 0, 64, len(names), len(names) - 1)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, 62, 1, 0, 0, at, *counts)
    rows = []
    for name, content, offset in zip(names, contents, offsets, strict=True):
        kind, link = (11, names.index(".dynstr")) if name == ".dynsym" else (1, 0)
        where = table.index(name.encode() + b"\0") if name else 0
        rows.append(struct.pack("<IIQQQQIIQQ", where, kind, 0, 0, offset, len(content), link, 0, 1, 0))
    return header + b"".join(contents) + b"".join(rows)
