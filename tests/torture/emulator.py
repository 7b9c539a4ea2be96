"""Code objects with changed bytes, in an emulator with sanitizers: headers, notes, descriptors, instructions.

Each is loaded and its kernels are launched. Whatever they are, the emulator answers within `ANSWER_S`, with an error or
with findings: no sanitizer has anything to say, and it does not end. Without a C compiler that has AddressSanitizer nothing
is tried, and without LLVM's disassembler no instruction is executed.
"""

from __future__ import annotations

import os
import random
import re
import select
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from helpers.code_objects import OBJECTS
from helpers.code_objects import content as code_object
from helpers.kept_builds import content, identity, kept
from torture.rounds import Rounds

ANSWER_S = 120.0
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
NATIVE = Path(__file__).parents[2] / "daemon/ckwatch/verification/native"
INSTRUCTIONS = Path(__file__).parents[1] / "data/instructions"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-O0", "-g1", "-fno-math-errno", "-fno-strict-aliasing", "-ffp-contract=off")
LIMIT = "50000"
"""Instructions of a workgroup: most changed kernels end by it."""

_KERNEL = re.compile(rb"(\w+)\.kd\0")
_EDGES = (0, 1, 3, 4, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF8, 0xFFFFFFFF)
_WIDE_EDGES = (*_EDGES, 1 << 32, 1 << 46, 1 << 63, (1 << 64) - 4096, (1 << 64) - 8, (1 << 64) - 1)


def build(folder: Path) -> Path | None:
    """The program of emulator.c with the emulator and sanitizers; None where no compiler has them."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    own = Path(__file__).with_suffix(".c")
    made_of = (*identity(compiler), *FLAGS, *SANITIZERS, own.read_text(), content(NATIVE))

    def make(program: Path) -> None:
        sources = [own, *sorted(NATIVE.glob("*.c"))]
        objects = [folder / f"{source.stem}-{number}.o" for number, source in enumerate(sources)]
        compiling = [
            subprocess.Popen([compiler, *FLAGS, *SANITIZERS, "-c", str(source), "-o", str(target)])
            for source, target in zip(sources, objects, strict=True)
        ]
        failed = [process.args for process in compiling if process.wait()]
        if failed:
            raise subprocess.CalledProcessError(1, failed[0])
        libraries = ("-lm", "-lpthread", "-ldl")
        subprocess.run([compiler, *SANITIZERS, *map(str, objects), "-o", str(program), *libraries], check=True)

    with suppress(subprocess.CalledProcessError):
        return kept("sanitized-emulator", made_of, make)
    return None


def disassembler() -> str:
    """That of the toolchain in the user's own cache; what cannot be run where there is none."""
    find = "from ckwatch.compile.toolchain.discover import discover; print(discover(None).objdump)"
    environment = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    found = subprocess.run([sys.executable, "-c", find], env=environment, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "there-is-no-objdump"


class Emulator:
    """A process of `program` for an arch, started again when it has ended."""

    def __init__(self, program: Path, arch: str, objdump: str) -> None:
        self._command = [str(program)]
        self._environment = os.environ | {
            "CKWATCH_EMULATOR_ARCH": arch,
            "CKWATCH_EMULATOR_OBJDUMP": objdump,
            "CKWATCH_EMULATOR_LIMIT": LIMIT,
            "CKWATCH_EMULATOR_THREADS": "1",
            # What lies beyond the stated limits is refused, or is NULL, as where memory is short.
            "ASAN_OPTIONS": "allocator_may_return_null=0:max_allocation_size_mb=8192:detect_leaks=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        self._errors: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, path: Path, kernels: list[str], errors: Path) -> str:
        """Return what is wrong with its reading of the code object at `path`; empty if nothing is."""
        if self._process is None:
            self._errors = errors.open("w+b")
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(
                self._command, stdin=pipe, stdout=pipe, stderr=self._errors, env=self._environment
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\t{','.join(kernels)}\n".encode())
        process.stdin.flush()
        readable, _, _ = select.select([process.stdout], [], [], ANSWER_S)
        if readable and process.stdout.readline():
            return ""
        return self.close() or "the emulator ended" if readable else self.close(hangs=True)

    def close(self, *, hangs: bool = False) -> str:
        """End it; what its sanitizers say of it."""
        if self._process is None or self._errors is None:
            return ""
        process, self._process = self._process, None
        if hangs:
            process.kill()
        process.communicate()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")
        self._errors.close()
        if hangs:
            return f"no answer within {ANSWER_S:g} s"
        if process.returncode == 0:
            return ""
        first = next((line for line in said.splitlines() if "ERROR" in line or "runtime error" in line), said[-200:])
        return f"{first.strip()}\n{said[-8000:]}"


Layout = Mapping[str, tuple[int, int, int]]
"""Offset, size and address of each section."""

Change = Callable[[random.Random, bytearray, str, Layout], None]


def _put(chance: random.Random, data: bytearray, at: int) -> None:
    """A value at or near an edge."""
    wide = chance.random() < 0.5 and at % 8 == 0
    value = chance.choice(_WIDE_EDGES if wide else _EDGES)
    if chance.random() < 0.3:
        value = chance.getrandbits(64 if wide else 32) >> chance.randrange(32)
    mask, form = ((1 << 64) - 1, "<Q") if wide else ((1 << 32) - 1, "<I")
    if at + struct.calcsize(form) <= len(data):
        struct.pack_into(form, data, at, value & mask)


def sections(data: bytes) -> Layout:
    """Those of a sound code object."""
    start, count, names = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3C)
    rows = [struct.unpack_from("<IIQQQQ", data, start + 64 * number) for number in range(count)]
    strings = rows[names][4]
    found = {}
    for name, _, _, address, offset, size in rows:
        end = data.index(b"\0", strings + name)
        found[data[strings + name : end].decode()] = (offset, size, address)
    return found


def change_header(chance: random.Random, data: bytearray, _arch: str, _layout: Layout) -> None:
    """Of the file, its segments or sections."""
    tables = {0x20: (0x38, 56), 0x28: (0x3C, 64)}
    start, (count, size) = chance.choice([*tables.items()])
    if chance.random() < 0.2:
        _put(chance, data, chance.randrange(16, 64, 4))
    else:
        table = struct.unpack_from("<Q", data, start)[0]
        entries = struct.unpack_from("<H", data, count)[0]
        _put(chance, data, table + size * chance.randrange(max(entries, 1)) + chance.randrange(0, size, 4))


def change_metadata(chance: random.Random, data: bytearray, _arch: str, layout: Layout) -> None:
    """Keys twice, numbers and lengths."""
    offset, size, _ = layout[".note"]
    keys = [b".args", b".symbol", b".offset", b".size", b".value_kind", b".name", b"amdhsa.kernels", b"amdhsa.version"]
    places = [
        match.start() + offset for key in keys for match in re.finditer(re.escape(key), data[offset : offset + size])
    ]
    if places and chance.random() < 0.4:  # the key of another value: a field twice
        at, key = chance.choice(places), chance.choice(keys)
        data[at - 1] = 0xA0 | len(key)
        data[at : at + len(key)] = key
    else:
        data[offset + chance.randrange(size)] = chance.choice((0x80, 0x8F, 0x9F, 0xC6, 0xCF, 0xDB, 0xDD, 0xDF, 0xFF, 1))


def change_descriptor(chance: random.Random, data: bytearray, _arch: str, layout: Layout) -> None:
    """Of a kernel: registers, LDS, scratch, where it begins."""
    offset, size, _ = layout[".rodata"]
    _put(chance, data, offset + chance.randrange(0, max(size - 3, 1), 4))


def change_symbols(chance: random.Random, data: bytearray, _arch: str, layout: Layout) -> None:
    """And relocations, strings, tables of what is linked."""
    offset, size, _ = layout[
        chance.choice([name for name in layout if name.startswith((".dyn", ".rela", ".hash", ".gnu"))])
    ]
    _put(chance, data, offset + chance.randrange(0, max(size - 3, 1), 4))


def change_instructions(chance: random.Random, data: bytearray, arch: str, layout: Layout) -> None:
    """To others of the arch, with registers of all kinds, to branches anywhere, to bits."""
    offset, size, _ = layout[".text"]
    lines = (INSTRUCTIONS / f"{arch}.txt").read_text().splitlines()
    for _ in range(chance.choice((1, 4, 40, 400))):
        at = offset + chance.randrange(0, min(size, 2048), 4)
        kind = chance.random()
        if kind < 0.6:
            words = [int(word, 16) for word in chance.choice(lines).partition(" // ")[2].split()]
            if chance.random() < 0.3:
                words[chance.randrange(len(words))] ^= 1 << chance.randrange(32)
        elif kind < 0.75:
            words = [0xBF820000 + (chance.randrange(10) << 16) + chance.choice((0xFFFF, 1, 0x7FFF, 0x8000, 0xFFF0, 64))]
        elif kind < 0.9:  # s_setpc, s_swappc, s_movrel…, s_set_gpr_idx_on, s_getpc
            words = (
                [0xBE800000 | chance.getrandbits(23)]
                if chance.random() < 0.7
                else [0xBF110000 | chance.getrandbits(16)]
            )
        else:
            words = [chance.getrandbits(32)]
        for number, word in enumerate(words):
            if at + 4 * number + 4 <= offset + size:
                struct.pack_into("<I", data, at + 4 * number, word)


def change_anything(chance: random.Random, data: bytearray, _arch: str, _layout: Layout) -> None:
    """Bytes anywhere, or the end is missing."""
    if chance.random() < 0.2:
        del data[chance.randrange(len(data)) :]
    for _ in range(chance.choice((1, 10, 100))):
        if data:
            data[chance.randrange(len(data))] = chance.randrange(256)


CHANGES: tuple[Change, ...] = (
    *(change_header, change_metadata, change_descriptor, change_symbols, change_anything),
    *(change_instructions,) * 5,
)


def compressed(chance: random.Random, data: bytes) -> bytes:
    """In a compressed bundle whose header says anything."""
    version, method = chance.choice((1, 2, 3, 4)), chance.choice((0, 1))
    sizes = [chance.choice((*_WIDE_EDGES, len(data))) for _ in range(2)]
    form = {1: "<I", 2: "<II"}.get(version, "<QQ")
    masked = [size & (0xFFFFFFFF if version < 3 else (1 << 64) - 1) for size in sizes]
    return b"CCOB" + struct.pack("<HH", version, method) + struct.pack(form, *masked[: len(form) - 1]) + bytes(8) + data


def run(rounds: Rounds) -> None:
    """One changed code object a round."""
    program = build(rounds.folder)
    if program is None:
        rounds.report("emulator: no C compiler with AddressSanitizer; nothing was tried")
        rounds.done = rounds.limit or 0
        return
    objdump = disassembler()
    emulators = {arch: Emulator(program, arch, objdump) for arch in ARCHS}
    named = [name for name in OBJECTS if name.rpartition(".")[2] in ARCHS]
    path, errors = rounds.folder / "changed.hsaco", rounds.folder / "errors"
    for chance in rounds:
        name = chance.choice(named)
        arch, data = name.rpartition(".")[2], bytearray(code_object(name))
        kernels = sorted({found.decode() for found in _KERNEL.findall(data)})
        layout = sections(bytes(data))
        for change in sorted(chance.sample(CHANGES, chance.choice((1, 1, 2))), key=lambda one: one is change_anything):
            change(chance, data, arch, layout)
        whole = compressed(chance, bytes(data)) if chance.random() < 0.03 else bytes(data)
        rounds.using(whole)
        path.write_bytes(whole)
        chosen = chance.sample(kernels, min(2, len(kernels)))
        if found := emulators[arch].run(path, chosen, errors.with_suffix(f".{arch}")):
            rounds.add(f"{name}: {found}")
    for arch, emulator in emulators.items():
        if found := emulator.close():
            rounds.add(f"{arch}: {found}")
