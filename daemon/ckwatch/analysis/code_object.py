"""The little of ELF that is needed of an AMDGPU code object: its arch, its metadata, symbols and kernel descriptors.

Formats: the ELF-64 specification, and "ELF Code Object" in LLVM's User Guide for AMDGPU Backend (AMDGPUUsage).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

NT_AMDGPU_METADATA = 32
"""The note of code object versions 3 and later."""
NT_AMD_HSA_METADATA = 10
"""The note of code object version 2, whose content is YAML."""

_EM_AMDGPU = 224
_PT_NOTE = 4
_SHT_SYMTAB = 2
_SHT_NOTE = 7
_SHT_NOBITS = 8
_SHT_DYNSYM = 11
_SECTION_BYTES = 64
_SYMBOL_BYTES = 24
_DESCRIPTOR_BYTES = 64
_VERSIONS = {1: 3, 2: 4, 3: 5, 4: 6}
_MACHINES = {
    0x2C: "gfx900", 0x2F: "gfx906", 0x30: "gfx908", 0x3F: "gfx90a", 0x4C: "gfx942", 0x4F: "gfx950",
    0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x42: "gfx1013",
    0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3E: "gfx1034", 0x3D: "gfx1035",
    0x45: "gfx1036",
    0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103",
    0x43: "gfx1150", 0x4A: "gfx1151", 0x55: "gfx1152", 0x58: "gfx1153", 0x48: "gfx1200", 0x4E: "gfx1201",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Note:
    owner: str
    kind: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """`section` is 0 for one that is not defined here."""

    name: str
    value: int
    size: int
    section: int


@dataclass(frozen=True, slots=True)
class _Section:
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class CodeObject:
    """A code object, taken apart as far as anything here looks at it.

    `version` is that of the code object's format, None for one that is not known. `machine` is the processor that the
    file's header names, empty for one that is not known.
    """

    version: int | None
    machine: str
    notes: tuple[Note, ...]
    symbols: Mapping[str, Symbol]
    descriptors: Mapping[str, bytes]
    """The 64 bytes of each kernel's descriptor, by the kernel's symbol (without `.kd`)."""


def read(data: bytes) -> CodeObject:
    """Takes a code object apart. Raises ValueError, with a sentence, for what is none and for a damaged one."""
    _check(data)
    try:
        sections = list(_sections(data))
        symbols = {
            symbol.name: symbol for kind in (_SHT_DYNSYM, _SHT_SYMTAB) for symbol in _symbols(data, sections, kind)
        }
        (flags,) = struct.unpack_from("<I", data, 0x30)
        return CodeObject(
            version=_VERSIONS.get(data[8]),
            machine=_MACHINES.get(flags & 0xFF, ""),
            notes=tuple(_notes(data, sections)),
            symbols=symbols,
            descriptors=dict(_descriptors(data, sections, symbols)),
        )
    except (struct.error, IndexError, OverflowError) as error:
        raise ValueError("The code object is cut short.") from error


def _check(data: bytes) -> None:
    if data[:24] == b"__CLANG_OFFLOAD_BUNDLE__" or data[:4] == b"CCOB":
        raise ValueError("This is an offload bundle, not a code object.")
    if data[:4] != b"\x7fELF":
        raise ValueError("This is no ELF file, so no code object.")
    if len(data) < 64:
        raise ValueError("The code object is cut short.")
    if data[4:6] != b"\x02\x01":
        raise ValueError("This is no 64-bit little-endian ELF file, so no code object.")
    (machine,) = struct.unpack_from("<H", data, 18)
    if machine != _EM_AMDGPU:
        raise ValueError(f"This is an ELF file for another machine ({machine}), not for AMDGPU ({_EM_AMDGPU}).")


def _sections(data: bytes) -> Iterator[_Section]:
    (start,) = struct.unpack_from("<Q", data, 0x28)
    each, count = struct.unpack_from("<HH", data, 0x3A)
    if start and count and each != _SECTION_BYTES:
        raise ValueError("The code object's table of sections is damaged.")
    for index in range(count if start else 0):
        _, kind, _, address, offset, size, link, *_ = struct.unpack_from("<IIQQQQIIQQ", data, start + index * each)
        yield _Section(kind, address, offset, size, link)


def _notes(data: bytes, sections: list[_Section]) -> Iterator[Note]:
    """Of the segments, which a stripped file has too; of the sections where there are none."""
    (start,) = struct.unpack_from("<Q", data, 0x20)
    each, count = struct.unpack_from("<HH", data, 0x36)
    places = []
    for index in range(count if start else 0):
        kind, _, offset, _, _, size = struct.unpack_from("<IIQQQQ", data, start + index * each)
        if kind == _PT_NOTE:
            places.append((offset, size))
    places = places or [(section.offset, section.size) for section in sections if section.kind == _SHT_NOTE]
    for offset, size in places:
        yield from _notes_of(_slice(data, offset, size))


def _notes_of(data: bytes) -> Iterator[Note]:
    at = 0
    while at + 12 <= len(data):
        owner, size, kind = struct.unpack_from("<III", data, at)
        at += 12
        name = _slice(data, at, owner).rstrip(b"\0").decode("ascii", "replace")
        at += owner + 3 & ~3
        yield Note(name, kind, _slice(data, at, size))
        at += size + 3 & ~3


def _symbols(data: bytes, sections: list[_Section], kind: int) -> Iterator[Symbol]:
    for section in sections:
        if section.kind != kind:
            continue
        names = sections[section.link]
        strings = _slice(data, names.offset, names.size)
        for at in range(section.offset, section.offset + section.size, _SYMBOL_BYTES):
            name, _, _, index, value, size = struct.unpack_from("<IBBHQQ", data, at)
            if name:
                end = strings.find(b"\0", name)
                yield Symbol(strings[name : max(end, name)].decode("utf-8", "replace"), value, size, index)


def _descriptors(data: bytes, sections: list[_Section], symbols: Mapping[str, Symbol]) -> Iterator[tuple[str, bytes]]:
    for name, symbol in symbols.items():
        if not name.endswith(".kd") or not 0 < symbol.section < len(sections):
            continue
        section = sections[symbol.section]
        offset = section.offset + symbol.value - section.address
        if section.kind != _SHT_NOBITS and section.offset <= offset:
            yield name.removesuffix(".kd"), _slice(data, offset, _DESCRIPTOR_BYTES)


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("The code object is cut short.")
    return data[at : at + size]
