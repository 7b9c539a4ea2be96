"""Finds device code in files of any kind: clang's offload bundles, plain and compressed, and code objects as such.

Formats: "Clang Offload Bundler" in clang's documentation. A plain bundle begins with `__CLANG_OFFLOAD_BUNDLE__` and a
table of its entries; a compressed one begins with `CCOB`, its version (1 to 3) and its method (zlib or zstd), and holds
a plain one. A linked file has one bundle for each object that went into it.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ckwatch.compile import elf
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED = b"CCOB"
_CODE_OBJECT = b"\x7fELF\x02\x01\x01\x40"
"""A 64-bit little-endian ELF file whose ABI is ELFOSABI_AMDGPU_HSA."""
_MOST_ENTRIES = 1024
_HEADERS = {1: struct.Struct("<IQ"), 2: struct.Struct("<IIQ"), 3: struct.Struct("<QQQ")}
"""By the version, what follows the method: the size of it all (not in version 1), that of the content, a hash."""
_METHODS = ("zlib", "zstd")
_PLAUSIBLE_BYTES, _MOST_EXPANDED = 64 * 1024**2, 256
"""The limit above which code cannot take less than a share of this, as packed code takes about a tenth."""
_CHUNK_BYTES = 64 * 1024
_OTHERS = ((b"BC\xc0\xde", "LLVM bitcode"), (b"\x03\x02\x23\x07", "SPIR-V"))


class DeviceCode(NamedTuple):
    """Code for a device at `offset` of the file: `data` for `arch` with its features (`gfx942:xnack-`), which only a
    bundle tells. `within` are words about the bundle; `problem` completes a sentence about it where it cannot be
    read."""

    offset: int
    arch: str = ""
    data: bytes = b""
    within: str = ""
    problem: str = ""


def find_device_code(data: bytes, may_unpack: Callable[[int], bool] = lambda _size: True) -> Iterator[DeviceCode]:
    """Find all code objects in a file, in its order: those of bundles, and those that lie there as such. `may_unpack`
    is asked before so many bytes are unpacked, and given them back, as a negative number, where they are damaged.

    Damage is yielded, not raised. The name of a format in a text looks like damage: what a caller knows to be no bundle
    is for it to drop.
    """
    marks = {mark: data.find(mark) for mark in (_PLAIN, _COMPRESSED, _CODE_OBJECT)}
    while True:
        mark, at = min(((mark, at) for mark, at in marks.items() if at >= 0), key=lambda one: one[1], default=(b"", -1))
        if at < 0:
            return
        end = at + len(mark)
        try:
            if mark == _CODE_OBJECT:
                code = _code_object(data, at)
                if code:
                    yield DeviceCode(at, data=code)
                    end = at + len(code)
            else:
                within = ""
                bundle, size = memoryview(data)[at:], 0
                if mark == _COMPRESSED:
                    unpacked, size, within = _unpacked(data, at, may_unpack)
                    bundle = memoryview(unpacked)
                entries = _entries(bundle)
                for target, offset, length in entries:
                    if length and (arch := _arch_of(target)):
                        yield DeviceCode(at, arch, bytes(bundle[offset : offset + length]), within)
                end = at + max(size or max((offset + length for _, offset, length in entries), default=0), len(mark))
        except ValueError as error:
            yield DeviceCode(at, problem=str(error))
        marks = {one: at if at < 0 or at >= end else data.find(one, end) for one, at in marks.items()}


def why_not_unpacked(size: int, packed: int) -> str:
    """Complete a sentence about what claims so many bytes in so many packed ones, and is not unpacked for that; else
    ""."""
    if size > BINARY_LIMIT_BYTES:
        return f"claims to be of {size / 1024**3:.1f} GiB, and no more than 2 GiB are unpacked"
    if size > max(_PLAUSIBLE_BYTES, packed * _MOST_EXPANDED):
        return f"claims to be of {size >> 20:,} MiB in {packed:,} bytes, which no code is: it is left out"
    return ""


def what_it_is(code: bytes) -> str:
    """Name the format of device code that has no instructions yet, "" for a code object."""
    return next((words for begin, words in _OTHERS if code.startswith(begin)), "")


def device_code(path: Path, arch: str) -> bytes | None:
    """Return the AMDGPU ELF file for `arch` in a HIP object or shared object, None if it holds none.

    Raises ValueError when the file is damaged.
    """
    file = elf.ElfFile(read_file(path, BINARY_LIMIT_BYTES))
    for section in file.sections:
        if section.name == elf.FATBIN_SECTION and section.kind != elf.SHT_NOBITS:
            codes = [*find_device_code(file.content(section))]
            if not codes or codes[0].problem:
                raise ValueError(f"its offload bundle {codes[0].problem if codes else 'is missing'}")
            found = next((one.data for one in codes if one.arch == arch), None)
            if found is not None:
                return found
    return None


def _code_object(data: bytes, at: int) -> bytes:
    """Return the ELF file there, empty if it is not for AMDGPU."""
    if len(data) - at < 64:
        raise ValueError("is cut short")
    header = elf.ElfHeader.read(data[at : at + 64])
    if header.machine != elf.EM_AMDGPU:
        return b""
    end = max(64, header.shoff + header.shnum * header.shentsize, header.phoff + header.phnum * header.phentsize)
    return data[at : at + end]


def _entries(bundle: memoryview) -> Sequence[tuple[str, int, int]]:
    """Return target, offset and size of each entry. Raises ValueError."""
    found = []
    try:
        if bytes(bundle[: len(_PLAIN)]) != _PLAIN:
            raise ValueError("holds no bundle")
        (count,) = struct.unpack_from("<Q", bundle, len(_PLAIN))
        if count > _MOST_ENTRIES:
            raise ValueError("has a damaged table of entries")
        at = len(_PLAIN) + 8
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", bundle, at)
            if offset + size > len(bundle) or at + 24 + length > len(bundle):
                raise ValueError("is cut short")
            found.append((bytes(bundle[at + 24 : at + 24 + length]).decode("ascii", "replace"), offset, size))
            at += 24 + length
        if sum(size for _, _, size in found) > len(bundle):
            raise ValueError("has a damaged table of entries: they overlap")
    except struct.error as error:
        raise ValueError("is cut short") from error
    return found


def _arch_of(target: str) -> str:
    """`gfx942:xnack-` of `hipv4-amdgcn-amd-amdhsa--gfx942:xnack-`; empty for the host's."""
    if not target.startswith("hip"):
        return ""
    _, _, arch = target.partition("-amdhsa-")
    return arch.partition("-")[2] if arch.startswith(("-", "unknown-")) else arch


def _unpacked(data: bytes, at: int, may_unpack: Callable[[int], bool]) -> tuple[bytearray, int, str]:
    """Return the plain bundle in a compressed one, the bytes that this takes (0: not known), and words about it. Raises
    ValueError."""
    try:
        version, method = struct.unpack_from("<HH", data, at + 4)
        header = _HEADERS.get(version)
        if header is None or method >= len(_METHODS):
            raise ValueError(f"is compressed in a way that is not known (version {version}, method {method})")
        *total, size, _ = header.unpack_from(data, at + 8)
    except struct.error as error:
        raise ValueError("is cut short") from error
    begin = at + 8 + header.size
    taken = total[0] if total else 0
    if taken and not 8 + header.size <= taken <= len(data) - at:
        raise ValueError("is cut short")
    content = memoryview(data)[begin : at + taken if taken else None]
    if problem := why_not_unpacked(size, len(content)):
        raise ValueError(problem)
    if not may_unpack(size):
        raise ValueError("is left out: with it, more is unpacked than fits into memory; choose one arch, or unpack it")
    unpacker, error_of_it = _UNPACKERS[method]()
    unpacked, read = bytearray(), 0
    try:
        while read < len(content) and len(unpacked) <= size and not unpacker.eof:
            unpacked += unpacker.decompress(content[read : read + _CHUNK_BYTES], size + 1 - len(unpacked))
            read += _CHUNK_BYTES
        if len(unpacked) != size or not unpacker.eof:
            raise ValueError("is damaged: its content is not of the size that it claims")
    except (error_of_it, EOFError, MemoryError) as error:
        may_unpack(-size)
        raise ValueError(f"is damaged: {error}") from error
    except ValueError:
        may_unpack(-size)
        raise
    end = begin + min(read, len(content)) - len(unpacker.unused_data)
    return unpacked, taken or end - at, f"{_METHODS[method]}, version {version}"


def _zlib_unpacker() -> tuple[Any, type[Exception]]:
    return zlib.decompressobj(), zlib.error


def _zstd_unpacker() -> tuple[Any, type[Exception]]:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdDecompressor(), zstd.ZstdError


_UNPACKERS = (_zlib_unpacker, _zstd_unpacker)
