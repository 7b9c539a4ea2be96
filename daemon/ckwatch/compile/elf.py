"""Reads ELF files and clang's offload bundles: sections, symbols, and the device code of a shared object.

Reading them here spares a process per compile. Formats: the ELF-64 specification, and "Clang Offload Bundler" in
clang's documentation (`__CLANG_OFFLOAD_BUNDLE__`; compressed bundles begin with `CCOB`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FATBIN_SECTION = ".hip_fatbin"
EM_AMDGPU = 224

_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED = b"CCOB"
_CODE = (".text", ".rodata", ".hip_fatbin", ".nv_fatbin")
_TEXTS = ".rodata.str"
_SHT_PROGBITS = 1
_SHT_SYMTAB = 2
_SHT_NOBITS = 8
_SHT_DYNSYM = 11
_STB_LOCAL = 0
_STB_GLOBAL = 1
_STB_WEAK = 2
_STV_DEFAULT = 0
_STV_PROTECTED = 3
_SYMBOL_BYTES = 24


class CompressedBundleError(Exception):  # not a fault: the bundler has to unpack it
    """The offload bundle is compressed."""


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    """`section` is 0 for one that is not defined here; the entry begins at `at`."""

    name: str
    binding: int
    visibility: int
    section: int
    at: int


def machine(data: bytes) -> int | None:
    """The `e_machine` of a 64-bit little-endian ELF file, None for anything else."""
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        return None
    return int(struct.unpack_from("<H", data, 18)[0])


def exported_symbols(path: Path) -> tuple[str, ...]:
    """The defined symbols that a shared object exports, sorted. Raises ValueError when it is no ELF-64 file."""
    names = {
        symbol.name
        for symbol in _symbols(path.read_bytes(), _SHT_DYNSYM)
        if symbol.section != 0 and symbol.binding != _STB_LOCAL and symbol.visibility in (_STV_DEFAULT, _STV_PROTECTED)
    }
    return tuple(sorted(names))


def weaken(path: Path, prefix: str) -> None:
    """Make the global symbols whose names begin so weak ones, in place. Raises ValueError when it is no ELF-64 file."""
    data = path.read_bytes()
    changed = bytearray(data)
    for symbol in _symbols(data, _SHT_SYMTAB):
        if symbol.binding == _STB_GLOBAL and symbol.name.startswith(prefix):
            changed[symbol.at + 4] = _STB_WEAK << 4 | data[symbol.at + 4] & 15
    path.write_bytes(changed)


def undefined_symbols(path: Path) -> tuple[str, ...]:
    """The names that an object refers to and does not define, sorted. Raises ValueError when it is no ELF-64 file."""
    return _undefined(path.read_bytes())


def _undefined(data: bytes) -> tuple[str, ...]:
    return tuple(sorted({symbol.name for symbol in _symbols(data, _SHT_SYMTAB) if symbol.section == 0}))


def device_code(path: Path, arch: str) -> bytes | None:
    """The AMDGPU ELF file for `arch` in a HIP object or shared object, None if it holds none.

    Raises ValueError when the file is damaged, CompressedBundle when the bundle has to be unpacked by clang's tool.
    """
    data = path.read_bytes()
    for section in _sections(data):
        if section.name == FATBIN_SECTION and section.kind != _SHT_NOBITS:
            found = _from_bundle(data[section.offset : section.offset + section.size], arch)
            if found is not None:
                return found
    return None


def fat_binary(path: Path) -> bytes | None:
    """The whole offload bundle of a HIP object, None if it holds none. Raises ValueError when it is no ELF-64 file."""
    data = path.read_bytes()
    for section in _sections(data):
        if section.name == FATBIN_SECTION and section.kind != _SHT_NOBITS:
            return data[section.offset : section.offset + section.size]
    return None


def code_digest(data: bytes) -> str:
    """The SHA-256 of all code in an object, the host's and devices', with its constants and what it calls.

    Equal for objects that differ in the names that they export, or in texts that are printed. Raises ValueError when it
    is no ELF-64 file.
    """
    found = hashlib.sha256()
    for section in _sections(data):
        if section.kind == _SHT_PROGBITS and section.name.startswith(_CODE) and not section.name.startswith(_TEXTS):
            found.update(f"{section.name}:{section.size}\n".encode())
            found.update(data[section.offset : section.offset + section.size])
    found.update("\n".join(_undefined(data)).encode())
    return found.hexdigest()


def _from_bundle(bundle: bytes, arch: str) -> bytes | None:
    if bundle.startswith(_COMPRESSED):
        raise CompressedBundleError
    if not bundle.startswith(_MAGIC):
        raise ValueError("no offload bundle")
    try:
        (count,) = struct.unpack_from("<Q", bundle, len(_MAGIC))
        at = len(_MAGIC) + 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", bundle, at)
            target = bundle[at + 24 : at + 24 + length].decode("ascii", "replace")
            at += 24 + length
            if target.startswith("hip") and target.endswith(f"-{arch}"):
                if offset + size > len(bundle):
                    raise ValueError("offload bundle is cut short")
                return bundle[offset : offset + size]
    except struct.error as error:
        raise ValueError("offload bundle is cut short") from error
    return None


def _sections(data: bytes) -> list[_Section]:
    if machine(data) is None:
        raise ValueError("no ELF-64 file")
    try:
        (start,) = struct.unpack_from("<Q", data, 0x28)
        size, count, names = struct.unpack_from("<HHH", data, 0x3A)
        raw = [struct.unpack_from("<IIQQQQIIQQ", data, start + index * size) for index in range(count)]
        if not raw:
            return []
        strings = raw[names][4]
        return [_Section(_string(data, strings + item[0]), item[1], item[4], item[5], item[6]) for item in raw]
    except (struct.error, IndexError) as error:
        raise ValueError("ELF file is cut short") from error


def _symbols(data: bytes, kind: int) -> Iterator[_Symbol]:
    """The symbols that have a name, of the tables of this kind. Raises ValueError when it is no ELF-64 file."""
    sections = _sections(data)
    for section in sections:
        if section.kind != kind:
            continue
        strings = sections[section.link]
        for at in range(section.offset, section.offset + section.size, _SYMBOL_BYTES):
            name, info, other, index = struct.unpack_from("<IBBH", data, at)
            if name:
                yield _Symbol(_string(data, strings.offset + name), info >> 4, other & 3, index, at)


def _string(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    return data[at : end if end >= 0 else len(data)].decode("utf-8", "replace")
