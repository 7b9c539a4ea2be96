"""An entry of the store as one file, a ZIP archive: what a shared store keeps of it.

It may come from anywhere: nothing of it is used before all of it is what `meta.json` says, and nothing else is in it.
That is no proof of where it comes from: whoever can write one can write `meta.json`, too.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from ckwatch.compile.store.entries import LOG, META, Artifact, artifact_from_json, artifact_to_json
from ckwatch.compile.store.header_sets import HeaderSet
from ckwatch.model.lazy_dataclass import dataclass

PACKED_LIMIT_BYTES = 256 * 1024**2
"""Of an archive, and of what is in it; larger entries are not shared."""

_META_LIMIT_BYTES = 4 * 1024**2
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_LEVEL = 1
"""Code objects become a quarter of their size with it, and hardly less with a better one."""


@dataclass(frozen=True, slots=True)
class UnpackedEntry:
    """An entry whose files are what `artifact.files` says. The artifact has no folder yet."""

    artifact: Artifact
    contents: Mapping[str, bytes]


def pack(artifact: Artifact, contents: Mapping[str, bytes]) -> bytes:
    """The archive of an entry; `contents` are those of `artifact.files`."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
        for name, content in {META: artifact_to_json(artifact), **contents}.items():
            # without a time: what is equal is packed equally
            archive.writestr(ZipInfo(name), content, ZIP_DEFLATED, _LEVEL)
    return packed.getvalue()


def unpack(packed: bytes, key: str, headers: str) -> UnpackedEntry:
    """Unpack the archive of the entry for `key` and the header set `headers`.

    Raises ValueError, which says what is wrong, when it is not a whole and plain entry of just these.
    """
    try:
        with ZipFile(BytesIO(packed)) as archive:
            return _unpacked(archive, key, headers)
    except (BadZipFile, zlib.error, EOFError, struct.error, RuntimeError, OSError, OverflowError) as error:
        raise ValueError(f"it is not a complete archive: {error}") from error


def header_set_from(content: bytes, name: str) -> HeaderSet:
    """The header set called so. Raises ValueError when it is another, or none."""
    try:
        headers = HeaderSet.from_json(content)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("it is not a header set") from error
    named = (*headers.present, *headers.absent)
    if not all(isinstance(text, str) and "\0" not in text for text in (*named, *headers.present.values())):
        raise ValueError("it is not a header set")
    if headers.key != name:
        raise ValueError("it is another header set than its name says")
    return headers


def _unpacked(archive: ZipFile, key: str, headers: str) -> UnpackedEntry:
    members = {member.filename: member for member in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise ValueError("two files have one name")
    if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members.values()):
        raise ValueError("it is compressed in another way")
    meta = members.get(META)
    if meta is None or meta.file_size > _META_LIMIT_BYTES:
        raise ValueError(f"{META} is missing or too large")
    try:
        artifact = artifact_from_json(archive.read(meta), Path())
    except RecursionError as error:
        raise ValueError(f"{META} is damaged") from error
    if not _is_plain(artifact):
        raise ValueError(f"{META} has something else than an entry has")
    if (artifact.key, artifact.headers) != (key, headers):
        raise ValueError("it is another entry than its name says")
    files = artifact.files
    if set(files) - {LOG} != {artifact.record.source, *artifact.products.values()} or LOG in artifact.products.values():
        raise ValueError(f"{META} names other files than an entry has")
    if set(members) != {META, *files}:
        raise ValueError(f"it holds other files than {META} says")
    if artifact.size_bytes > PACKED_LIMIT_BYTES:
        raise ValueError("it is too large")
    contents = {}
    for name, file in files.items():
        if members[name].file_size != file.size_bytes:
            raise ValueError(f"{name} has another size than {META} says")
        contents[name] = archive.read(members[name])
        if hashlib.sha256(contents[name]).hexdigest() != file.sha256:
            raise ValueError(f"{name} is not what was compiled")
    return UnpackedEntry(artifact, contents)


def _is_plain(artifact: Artifact) -> bool:
    """Return True if everything has its declared type, and no file's name leads out of the entry."""
    record = artifact.record
    texts = (record.symbol, record.arch, record.language, record.toolchain, record.source, *record.exports)
    return (
        isinstance(record.ok, bool)
        and all(isinstance(text, str) for text in texts)
        and all(
            all(isinstance(argument, str) for argument in command.arguments)
            and _is_number(command.exit_status, int)
            and _is_number(command.duration_s, int, float)
            and _is_number(command.peak_memory_bytes, int)
            and (command.begun_s is None or _is_number(command.begun_s, int, float))
            for command in record.commands
        )
        and all(isinstance(name, str) and _FILE_NAME.fullmatch(name) and name != META for name in artifact.files)
        and all(isinstance(file, str) for file in artifact.products.values())
        and all(
            _is_number(file.size_bytes, int) and file.size_bytes >= 0 and isinstance(file.sha256, str)
            for file in artifact.files.values()
        )
    )


def _is_number(value: float, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool) and math.isfinite(value)
