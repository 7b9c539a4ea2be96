"""Opens any file that holds code for AMD GPUs, and yields its code objects with their kernels and arguments.

| file | what is read |
|---|---|
| `.hsaco`, `.co`: a code object | itself |
| `.so`, `.o`, `.a`, programs, fat binaries | every code object, of every arch (`ckwatch.compile.offload_bundles`) |
| an entry of Triton's cache | the `.hsaco` with its JSON (warps, LDS), and the arguments in its `.ttgir` or `.ttir` |
| a package of AOT Inductor (`.pt2`), any zip archive | its members of these kinds |
| a folder | its files of these kinds, at any depth |

Files are distinguished by their content, not by their names. Whatever is damaged becomes a note.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ckwatch.codeobject.code_paths import MOST_FILES, SUFFIXES, TRITON_TEXTS, code_paths
from ckwatch.codeobject.metadata import ArgumentMetadata, CodeObjectMetadata, read_metadata
from ckwatch.compile import elf
from ckwatch.compile.offload_bundles import find_device_code, what_it_is, why_not_unpacked
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, TEXT_LIMIT_BYTES, is_file, is_folder, read_file

_MOST_NOTES = 50
_MOST_WARPS = 64
"""Of a workgroup of 1,024 threads, and more."""
_RELOCATABLE = "__CLANG_OFFLOAD_BUNDLE__hip"
"""Begins the names of sections with relocatable device code."""
_ZIP = b"PK\x03\x04"
_DAMAGED_ZIP = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, OSError, EOFError, ValueError)

Beside = Callable[[str], bytes | None]
"""Reads the file of another suffix beside a code object, None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonMetadata:
    """Facts from Triton's JSON beside a code object: `shared_bytes` of LDS are given to it at its launch, of
    `num_warps` waves, and `scratch_bytes` of global memory to each workgroup. `arguments` are name and type of those
    that its function has in the `.ttgir` (`x_ptr`, `*f32`)."""

    name: str
    num_warps: int
    shared_bytes: int
    scratch_bytes: int = 0
    arguments: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeObject:
    """A code object in a file. `name` tells it apart in messages, `origin` is its place inside the file, empty for the
    file itself. `arch` is without features. Its kernels are in `metadata`, with Triton's LDS and names of arguments."""

    arch: str
    data: bytes = field(repr=False)
    name: str
    origin: str
    metadata: CodeObjectMetadata
    triton: TritonMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFile:
    """A file's code objects in its order; `notes` say what could not be read, and why; `other_archs` are those of code
    that was not asked for."""

    path: Path
    objects: tuple[CodeObject, ...]
    notes: tuple[str, ...] = ()
    other_archs: tuple[str, ...] = ()


class _OtherArch(NamedTuple):
    """Code for an arch that was not asked for."""

    arch: str


_Found = CodeObject | _OtherArch | str
"""A string is a note."""


@dataclass(slots=True)
class _Asked:
    """The arch that is asked for, and the bytes that may still be unpacked: archives and bundles may claim more than
    there is memory."""

    arch: str | None
    bytes_left: int = BINARY_LIMIT_BYTES

    def takes(self, size: int) -> bool:
        """Return True if so many bytes may be unpacked, which count from then on; a negative number gives them back."""
        fits = size <= self.bytes_left
        self.bytes_left -= size if fits else 0
        return fits


def open_code_file(path: Path, arch: str | None = None) -> CodeFile:
    """Read all code objects of a file or folder, or those for an arch. Raises OSError if it cannot be read; nothing
    else."""
    if path.suffix in TRITON_TEXTS and is_file(path.with_suffix(".hsaco")):
        path = path.with_suffix(".hsaco")
    asked = _Asked(arch)
    found = [*(_in_folder(path, asked) if is_folder(path) else _of_path(path, path.name, asked))]
    objects = tuple(one for one in found if isinstance(one, CodeObject))
    notes = tuple(dict.fromkeys(one for one in found if isinstance(one, str)))
    if len(notes) > _MOST_NOTES:
        notes = (*notes[:_MOST_NOTES], f"and {len(notes) - _MOST_NOTES:,} more parts that cannot be read")
    others = tuple(dict.fromkeys(one.arch for one in found if isinstance(one, _OtherArch)))
    if not objects and not notes and not others:
        notes = (f"{path.name} holds no code for AMD GPUs.",)
    return CodeFile(path=path, objects=objects, notes=notes, other_archs=others)


def _in_folder(folder: Path, asked: _Asked) -> Iterator[_Found]:
    for path in (paths := code_paths(folder)):
        name = path.relative_to(folder).as_posix()
        try:
            yield from _of_path(path, name, asked, name)
        except OSError as error:
            yield f"{name}: {error.strerror or error}"
    if len(paths) == MOST_FILES:
        yield f"No more than {MOST_FILES:,} files of a folder are read."


def _of_path(path: Path, name: str, asked: _Asked, origin: str = "") -> Iterator[_Found]:
    def beside(suffix: str) -> bytes | None:
        other = path.with_suffix(suffix)
        return read_file(other, TEXT_LIMIT_BYTES) if is_file(other) else None

    if path.suffix == ".pt2" and is_file(path):  # its weights may be larger than anything that is read
        yield from _in_archive(path, name, asked)
    elif (data := read_file(path, BINARY_LIMIT_BYTES)).startswith(_ZIP):
        yield from _in_archive(BytesIO(data), name, asked)
    else:
        yield from _of_content(data, name, asked, origin, beside)


def _of_content(data: bytes, name: str, asked: _Asked, origin: str, beside: Beside) -> Iterator[_Found]:
    if data[:4] == b"\x7fELF" and data[18:20] == elf.EM_AMDGPU.to_bytes(2, "little"):
        yield from _code_object(data, name, asked, origin, "", beside)
    else:
        yield from _in_host_file(data, name, asked, origin)


def _in_archive(file: BytesIO | Path, name: str, asked: _Asked) -> Iterator[_Found]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = {one.filename: one for one in archive.infolist()}

            def read(member: str) -> bytes:
                info = members[member]
                if problem := why_not_unpacked(info.file_size, min(info.compress_size, archive.start_dir)):
                    raise ValueError(problem)
                if not asked.takes(info.file_size):
                    raise ValueError("is left out: with it, more is unpacked than fits into memory")
                try:
                    with archive.open(info) as file:
                        return file.read(info.file_size)
                except _DAMAGED_ZIP as error:
                    asked.takes(-info.file_size)
                    raise ValueError(f"is damaged: {error}") from error

            def beside(member: str) -> bytes | None:
                info = members.get(member)
                return read(member) if info is not None and info.file_size <= TEXT_LIMIT_BYTES else None

            for member in [one for one in members if one.endswith(SUFFIXES)]:
                try:
                    content = b"" if member.endswith(".pt2") else read(member)
                    if content.startswith(_ZIP) or member.endswith(".pt2"):
                        yield f"{name}: {member} is an archive itself: unpack it"
                        continue
                    stem = PurePosixPath(member)
                    yield from _of_content(
                        content,
                        stem.name,
                        asked,
                        member,
                        lambda suffix, stem=stem: beside(str(stem.with_suffix(suffix))),  # type: ignore[misc]
                    )
                except ValueError as error:
                    yield f"{name}: {member} {error}"
    except _DAMAGED_ZIP as error:
        yield f"{name} is a damaged archive: {error}"


def _in_host_file(data: bytes, name: str, asked: _Asked, origin: str) -> Iterator[_Found]:
    try:
        sections = elf.ElfFile(data).sections if data[:4] == b"\x7fELF" else ()
    except elf.ElfError as error:
        yield f"{name} {error.problem}: its code objects are searched for."
        sections = ()
    for one in sections:
        if one.name.startswith(_RELOCATABLE):
            arch = one.name.rpartition("-")[2]
            yield f"{name} has LLVM bitcode for {arch}, which becomes instructions only when it is linked (-fgpu-rdc)."
    for found in find_device_code(data, asked.takes):
        if asked.arch is not None and found.arch and found.arch.partition(":")[0] != asked.arch:
            yield _OtherArch(found.arch.partition(":")[0])
            continue
        section = next(
            (
                one
                for one in sections
                if one.offset <= found.offset < one.offset + one.size and one.kind != elf.SHT_NOBITS
            ),
            None,
        )
        if found.problem:
            if not found.offset or (section is not None and section.name == elf.FATBIN_SECTION):
                yield f"{name}: the offload bundle at {found.offset:#x} {found.problem}."
            continue
        where = f"{section.name if section else 'at'} {found.offset:#x}"
        features = found.arch if ":" in found.arch else ""
        place = ", ".join(part for part in (origin, where, features, found.within) if part)
        if other := what_it_is(found.data):
            yield f"{name} has {other} for {found.arch}, which becomes instructions only when it is linked or loaded."
        else:
            yield from _code_object(found.data, name, asked, place, found.arch, lambda _suffix: None)


def _code_object(data: bytes, name: str, asked: _Asked, origin: str, arch: str, beside: Beside) -> Iterator[_Found]:
    where = f"{name} ({origin})" if origin and origin != name else name
    try:
        metadata = read_metadata(data)
    except ValueError as error:
        yield f"{where}: {error}"
        return
    if asked.arch not in (None, metadata.arch or arch.partition(":")[0]):
        yield _OtherArch(metadata.arch)
        return
    triton = None
    info = beside(".json")
    if info is not None:
        triton = _triton_metadata(info)
        if triton is None:
            yield f"{where}: the JSON beside it is not Triton's."
        elif triton.name not in {one.symbol for one in metadata.kernels}:
            yield f"{where}: the JSON beside it is about `{triton.name[:80]}`, which is not a kernel here."
            triton = None
        else:
            signature = beside(".ttgir") or beside(".ttir") or b""
            triton = replace(triton, arguments=_signature(signature.decode("utf-8", "replace"), triton.name))
            metadata = _with_triton(metadata, triton, _accesses(beside(".llir") or b"", triton.name))
    yield CodeObject(
        arch=metadata.arch or arch.partition(":")[0],
        data=data,
        name=name,
        origin=origin,
        metadata=metadata,
        triton=triton,
    )


def _triton_metadata(data: bytes) -> TritonMetadata | None:
    try:
        value: Any = json.loads(data)
        if not (0 < int(value["num_warps"]) <= _MOST_WARPS and int(value["shared"]) <= BINARY_LIMIT_BYTES):
            return None
        return TritonMetadata(
            name=str(value["name"]),
            num_warps=int(value["num_warps"]),
            shared_bytes=max(0, int(value["shared"])),
            scratch_bytes=max(0, int(value.get("global_scratch_size") or 0)),
        )
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return None


_PARAMETER = re.compile(
    r"%(?P<value>[\w$.-]+): (?P<type>!tt\.[\w.]+<[^\n{}()]*?>|\w+)(?= |,|\)|$)(?: \{[^\n{}]*\})?"
    r'(?: loc\("(?P<name>[\w.]+)"\()?'
)
_POINTER = re.compile(r"!tt\.ptr<(\w+)(?:, \d+)?>")


def _signature(text: str, function: str) -> tuple[tuple[str, str], ...]:
    """Name and type of the parameters of a function in Triton's MLIR; empty where it is not there."""
    _, found, rest = text.partition(f"tt.func public @{function}(")
    line = rest.partition("\n")[0] if found else ""
    return tuple((one["name"] or one["value"], _POINTER.sub(r"*\1", one["type"])) for one in _PARAMETER.finditer(line))


def _accesses(text: bytes, function: str) -> list[str]:
    """How each argument of a function in LLVM's text is accessed, as `.actual_access` says it; empty where that is not
    known."""
    _, found, rest = text.partition(b" @" + function.encode() + b"(")
    line = rest.partition(b"\n")[0].partition(b") local_unnamed_addr")[0] if found else b""
    words = [set(one.split()) for one in line.split(b", ")]
    return [next((name for word, name in _ACCESSES.items() if word in one), "") for one in words]


_ACCESSES = {b"readonly": "read_only", b"writeonly": "write_only"}
SCRATCH = ("global_scratch", "profile_scratch")
"""Pointers that Triton appends to a kernel's arguments."""


def _with_triton(metadata: CodeObjectMetadata, triton: TritonMetadata, accesses: Sequence[str]) -> CodeObjectMetadata:
    """Give the kernel the LDS of its launch, and its arguments their names and how they are accessed."""
    arguments: dict[str, tuple[ArgumentMetadata, ...]] = dict(metadata.arguments)
    there = [one for one in arguments.get(triton.name, ()) if not one.hidden]
    names: list[tuple[str, str]] = [*triton.arguments, *((name, "*i8") for name in SCRATCH)][: len(there)]
    if triton.arguments and len(there) >= len(triton.arguments):
        if len(accesses) != len(there):
            accesses = [""] * len(there)
        info = zip(there, names, accesses, strict=False)
        named = [replace(one, name=name, type_name=kind, access=how) for one, (name, kind), how in info]
        arguments[triton.name] = (*named, *arguments[triton.name][len(named) :])
    kernels = tuple(
        replace(one, lds_bytes=max(one.lds_bytes, triton.shared_bytes)) if one.symbol == triton.name else one
        for one in metadata.kernels
    )
    return replace(metadata, kernels=kernels, arguments=arguments)
