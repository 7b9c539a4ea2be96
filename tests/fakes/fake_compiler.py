"""A compiler that is a shell script, and object files made by hand."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ckwatch.compile.request import CompileRequest
from ckwatch.model.targets import Language

REQUEST = CompileRequest("int k_1() { return 1; }\n", "k_1", Language.HIP, "gfx942")


@dataclass(frozen=True)
class FakeToolchain:
    """Shell scripts in a folder; fits `CompilerToolchain`."""

    hipcc: Path
    clangxx: Path
    hip_arguments: tuple[str, ...] = ("--rocm-path=/rocm",)
    cpp_arguments: tuple[str, ...] = ()
    link_arguments: tuple[str, ...] = ("-L/rocm/lib",)
    include_folders: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": os.defpath})
    identity: str = "compiler 1"
    roots: Mapping[str, Path] = field(default_factory=dict)
    openmp: bool = True
    unknown_flags: tuple[str, ...] = ()
    workspace: Path | None = None

    @property
    def feature_folders(self) -> tuple[Path, ...]:
        """The folders of headers that are asked for features."""
        return self.include_folders


_SYMBOL_TABLES = {".dynsym": (11, ".dynstr"), ".symtab": (2, ".strtab")}


def elf(sections: Mapping[str, bytes], machine: int = 62) -> bytes:
    """An ELF-64 file with these sections; symbol tables link to `.dynstr` and `.strtab`."""
    names = ["", *sections, ".shstrtab"]
    table = b"".join(name.encode() + b"\0" for name in names)
    contents = [b"", *sections.values(), table]
    offsets, at = [], 64
    for content in contents:
        offsets.append(at)
        at += len(content)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        3,
        machine,
        1,
        0,
        0,
        at,
        0,
        64,
        0,
        0,
        64,
        len(names),
        len(names) - 1,
    )
    rows = []
    for name, content, offset in zip(names, contents, offsets, strict=True):
        kind, strings = _SYMBOL_TABLES.get(name, (1, ""))
        link = names.index(strings)
        where = table.index(name.encode() + b"\0") if name else 0
        rows.append(struct.pack("<IIQQQQIIQQ", where, kind, 0, 0, offset, len(content), link, 0, 1, 0))
    return header + b"".join(contents) + b"".join(rows)


def dynamic_symbols(*symbols: tuple[str, int, int, int]) -> dict[str, bytes]:
    """`.dynsym` and `.dynstr` for (name, binding, visibility, section index)."""
    rows, strings = _symbols(*symbols)
    return {".dynsym": rows, ".dynstr": strings}


def object_symbols(*symbols: tuple[str, int, int, int]) -> dict[str, bytes]:
    """`.symtab` and `.strtab`, as an object has them."""
    rows, strings = _symbols(*symbols)
    return {".symtab": rows, ".strtab": strings}


def _symbols(*symbols: tuple[str, int, int, int]) -> tuple[bytes, bytes]:
    strings, rows = b"\0", [bytes(24)]
    for name, binding, visibility, index in symbols:
        rows.append(struct.pack("<IBBHQQ", len(strings), binding << 4 | 2, visibility, index, 0, 0))
        strings += name.encode() + b"\0"
    return b"".join(rows), strings


def bundle(*entries: tuple[str, bytes]) -> bytes:
    """An offload bundle as clang writes it."""
    head = 32 + sum(24 + len(target) for target, _ in entries)
    table, body = b"", b""
    for target, code in entries:
        table += struct.pack("<QQQ", head + len(body), len(code), len(target)) + target.encode()
        body += code
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(entries)) + table + body


DEVICE_CODE = elf({}, machine=224)
OBJECT = elf({".hip_fatbin": bundle(("host-x86_64-", b""), ("hipv4-amdgcn-amd-amdhsa--gfx942", DEVICE_CODE))})
SHARED_OBJECT = elf(dynamic_symbols(("k_1", 1, 0, 5), ("std", 2, 0, 5), ("hidden", 1, 2, 5), ("undefined", 1, 0, 0)))

COMPILES = """\
for last; do :; done
case "$*" in
*-shared*) cp "{folder}/so" "$last" ;;
*) echo "kernel.hip:1:2: warning: said in $PWD/kernel.hip" >&2; echo "{folder}/a b.h" >> "$CC_PRINT_HEADERS_FILE"
   cp "{folder}/o" "$last" ;;
esac
"""

Script = Callable[..., FakeToolchain]


def request_with(**changes: object) -> CompileRequest:
    return replace(REQUEST, **changes)  # type: ignore[arg-type]
