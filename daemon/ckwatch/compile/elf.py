"""Reads ELF files: sections, notes, symbols. Reading them here spares a process per compile. Format: the ELF-64
specification."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, read_file

FATBIN_SECTION = ".hip_fatbin"
LINE_TABLES = b".debug_line\0"
"""The name of a section that code with line tables has."""

EM_AMDGPU = 224
SHT_SYMTAB, SHT_NOTE, SHT_NOBITS, SHT_DYNSYM = 2, 7, 8, 11

_ET_EXEC, _ET_DYN = 2, 3
_PT_DYNAMIC, _PT_INTERP, _PT_NOTE = 2, 3, 4
_SHT_PROGBITS, _SHT_DYNAMIC = 1, 6
_DT_NEEDED = 1
EM_X86_64 = 62
STB_LOCAL, _STB_GLOBAL, _STB_WEAK = 0, 1, 2
STT_NOTYPE, STT_FUNC = 0, 2
SYMBOL_SECTION_AT = 6
"""Offset of the number of its section in a symbol's entry."""
_STV_DEFAULT, _STV_PROTECTED = 0, 3

_CODE = (".text", ".rodata", ".hip_fatbin", ".nv_fatbin")
_TEXTS = ".rodata.str"
_LONGEST_SECTION = 4096
"""Characters of a section's name."""


class ElfError(ValueError):
    """A file is no ELF file, or a damaged one; `problem` completes a sentence about it: "is cut short"."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the file {problem}")
        self.problem = problem


class ElfHeader(NamedTuple):
    """The header of a 64-bit little-endian ELF file, from its type on; the fields are the specification's."""

    type: int
    machine: int
    version: int
    entry: int
    phoff: int
    shoff: int
    flags: int
    ehsize: int
    phentsize: int
    phnum: int
    shentsize: int
    shnum: int
    shstrndx: int

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Raises ElfError."""
        if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
            raise ElfError("is not an ELF-64 file")
        return cls._make(_HEADER.unpack_from(data, 16))


@dataclass(frozen=True, slots=True)
class ElfSection:
    """A section by its header; `name` is empty where the file has no names."""

    name: str
    kind: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True, slots=True)
class ElfSegment:
    """A segment by its header: what a stripped file is left with."""

    kind: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class ElfNote:
    owner: str
    kind: int
    content: bytes


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    """`section` is 0 for one that is not defined here; its entry in the file begins at `entry_offset`. `kind` is its
    type: STT_NOTYPE of a label."""

    name: str
    value: int
    size: int
    binding: int
    visibility: int
    section: int
    entry_offset: int
    kind: int = STT_NOTYPE


_NAMES_OF_NAMES, _SHORTEST_LIMIT = 16, 2**20
"""Names may share their ends; those of a file made to exhaust memory share all that there is."""

_HEADER: Final = struct.Struct("<HHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_NOTE: Final = struct.Struct("<III")


class ElfFile:
    """A 64-bit little-endian ELF file in memory. Whatever is damaged raises ElfError, here and in the methods."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.header = ElfHeader.read(data)
        self.abi_version = data[8]
        self.sections = self._sections()
        self.segments = self._segments()

    def bounded(self, offset: int, size: int) -> bytes:
        """So many bytes of the file, all of them."""
        if offset + size > len(self.data):
            raise ElfError("is cut short")
        return self.data[offset : offset + size]

    def content(self, section: ElfSection) -> bytes:
        """Return the bytes of a section; empty for one that is made when the file is loaded."""
        return b"" if section.kind == SHT_NOBITS else self.bounded(section.offset, section.size)

    def symbols(self, kind: int) -> Iterator[ElfSymbol]:
        """The symbols that have a name, of the tables of this kind."""
        for section in self.sections:
            if section.kind != kind:
                continue
            if section.link >= len(self.sections) or section.size % _SYMBOL.size:
                raise ElfError("has a damaged table of symbols")
            strings = self.content(self.sections[section.link])
            characters = 0
            for index, entry in enumerate(_SYMBOL.iter_unpack(self.content(section))):
                name, info, other, defined_in, value, size = entry
                if name:
                    at = section.offset + index * _SYMBOL.size
                    text = _string(strings, name)
                    characters += len(text)
                    if characters > _NAMES_OF_NAMES * len(strings) + _SHORTEST_LIMIT:
                        raise ElfError("has a damaged table of symbols")
                    yield ElfSymbol(text, value, size, info >> 4, other & 3, defined_in, at, info & 15)

    def notes(self) -> Iterator[ElfNote]:
        """Of the segments, which a stripped file has too; of the sections where there are none."""
        places = [(segment.offset, segment.size) for segment in self.segments if segment.kind == _PT_NOTE]
        places = places or [(section.offset, section.size) for section in self.sections if section.kind == SHT_NOTE]
        for at, size in places:
            self.bounded(at, size)
            end = at + size
            while at + _NOTE.size <= end:
                owner, length, kind = _NOTE.unpack_from(self.data, at)
                at += _NOTE.size
                name = self.bounded(at, owner).rstrip(b"\0").decode("ascii", "replace")
                at += owner + 3 & ~3
                if at + length > end:
                    raise ElfError("is cut short")
                yield ElfNote(name, kind, self.bounded(at, length))
                at += length + 3 & ~3

    def _sections(self) -> tuple[ElfSection, ...]:
        header = self.header
        if not header.shoff or not header.shnum:
            return ()
        if header.shentsize != _SECTION.size:
            raise ElfError("has a damaged table of sections")
        rows = [*_SECTION.iter_unpack(self.bounded(header.shoff, header.shnum * _SECTION.size))]
        names = b""
        if header.shstrndx < len(rows):
            _, _, _, _, offset, size, *_ = rows[header.shstrndx]
            names = self.bounded(offset, size)
        return tuple(
            ElfSection(_string(names, name, _LONGEST_SECTION), kind, address, offset, size, link)
            for name, kind, _, address, offset, size, link, *_ in rows
        )

    def _segments(self) -> tuple[ElfSegment, ...]:
        header = self.header
        if not header.phoff or not header.phnum:
            return ()
        if header.phentsize != _SEGMENT.size:
            raise ElfError("has a damaged table of segments")
        rows = _SEGMENT.iter_unpack(self.bounded(header.phoff, header.phnum * _SEGMENT.size))
        return tuple(ElfSegment(kind, offset, size) for kind, _, offset, _, _, size, *_ in rows)


def _string(strings: bytes, at: int, longest: int | None = None) -> str:
    last = len(strings) if longest is None else at + longest
    end = strings.find(b"\0", at, last)
    return strings[at : end if end >= 0 else last].decode("utf-8", "replace")


def names_interpreter(path: Path) -> bool | None:
    """Return True if a dynamically linked file names a program that loads it; None for any other file. Reads only its
    header and its table of segments."""
    with path.open("rb") as file:
        try:
            header = ElfHeader.read(file.read(64))
        except ElfError:
            return None
        if header.type not in (_ET_EXEC, _ET_DYN) or header.phentsize != _SEGMENT.size:
            return None
        file.seek(header.phoff)
        table = file.read(header.phnum * _SEGMENT.size)
    kinds = {row[0] for row in _SEGMENT.iter_unpack(table[: len(table) // _SEGMENT.size * _SEGMENT.size])}
    return _PT_INTERP in kinds if _PT_DYNAMIC in kinds else None


def exported_symbols(path: Path) -> tuple[str, ...]:
    """The defined symbols that a shared object exports, sorted. Raises ElfError."""
    names = {
        symbol.name
        for symbol in ElfFile(read_file(path, BINARY_LIMIT_BYTES)).symbols(SHT_DYNSYM)
        if symbol.section != 0 and symbol.binding != STB_LOCAL and symbol.visibility in (_STV_DEFAULT, _STV_PROTECTED)
    }
    return tuple(sorted(names))


def imported_symbols(data: bytes) -> tuple[str, ...]:
    """The names that a shared object takes from others when it is loaded, sorted. Raises ElfError."""
    return tuple(sorted({symbol.name for symbol in ElfFile(data).symbols(SHT_DYNSYM) if symbol.section == 0}))


def defined_symbols(data: bytes) -> tuple[str, ...]:
    """The global names that a shared object defines for others, weak ones apart, sorted. Raises ElfError."""
    symbols = ElfFile(data).symbols(SHT_DYNSYM)
    return tuple(sorted({one.name for one in symbols if one.section and one.binding == _STB_GLOBAL}))


def needed_libraries(data: bytes) -> tuple[str, ...]:
    """The libraries that a shared object is linked with, in their order. Raises ElfError."""
    file = ElfFile(data)
    found = []
    for section in file.sections:
        if section.kind == _SHT_DYNAMIC and section.link < len(file.sections):
            strings = file.content(file.sections[section.link])
            entries = struct.iter_unpack("<qQ", file.content(section)[: section.size // 16 * 16])
            found += [_string(strings, value) for tag, value in entries if tag == _DT_NEEDED]
    return tuple(found)


def weaken(path: Path, prefix: str) -> None:
    """Make the global symbols whose names begin so weak ones, in place. Raises ElfError."""
    data = read_file(path, BINARY_LIMIT_BYTES)
    named = (one for one in ElfFile(data).symbols(SHT_SYMTAB) if one.name.startswith(prefix))
    places = [symbol.entry_offset + 4 for symbol in named if symbol.binding == _STB_GLOBAL]
    if places:
        with path.open("r+b") as file:
            for info in places:
                file.seek(info)
                file.write(bytes([_STB_WEAK << 4 | data[info] & 15]))


def undefined_symbols(path: Path) -> tuple[str, ...]:
    """The names that an object refers to and does not define, sorted. Raises ElfError."""
    return _undefined(ElfFile(read_file(path, BINARY_LIMIT_BYTES)))


def _undefined(file: ElfFile) -> tuple[str, ...]:
    return tuple(sorted({symbol.name for symbol in file.symbols(SHT_SYMTAB) if symbol.section == 0}))


def code_digest(data: bytes) -> str:
    """The SHA-256 of all code in an object, the host's and devices', with its constants and what it calls.

    Equal for objects that differ in the names that they export, or in texts that are printed. Raises ElfError.
    """
    file = ElfFile(data)
    found = hashlib.sha256()
    for section in file.sections:
        if section.kind == _SHT_PROGBITS and section.name.startswith(_CODE) and not section.name.startswith(_TEXTS):
            found.update(f"{section.name}:{section.size}\n".encode())
            found.update(file.content(section))
    found.update("\n".join(_undefined(file)).encode())
    return found.hexdigest()
