"""One entry of the store, and its stored form."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from enum import StrEnum
from pathlib import Path

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, SIDE_FILE_LIMIT_BYTES, read_file

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


FORMAT = 1
META = "meta.json"
LOG = "log.txt"


class ProductKind(StrEnum):
    """A kind of file that a compile can produce."""

    SHARED_OBJECT = "shared-object"
    OBJECT = "object"
    CODE_OBJECT = "code-object"
    DEPENDENCIES = "dependencies"
    RUNNER = "runner"
    LINE_TABLES = "line-tables"
    """The code object once more, with line tables; its key does not name it."""


class LostArtifactError(CkwatchError):
    """The store's files of a compile are missing or damaged. `artifact` is `KEY.SET`."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} {why}", "Build the unit again.")
        self.artifact = f"{path.parent.parent.name}.{path.parent.name}"


@dataclass(frozen=True, slots=True)
class CompilerCommand:
    """One process of a compile. `exit_status` is negative for a signal, as in `subprocess`.

    `peak_memory_bytes` is the largest resident set of any process below it; `begun_s` is when it began, after the
    first one: some run side by side.
    """

    arguments: tuple[str, ...]
    exit_status: int
    duration_s: float
    peak_memory_bytes: int
    begun_s: float | None = None


def wall_s(commands: Sequence[CompilerCommand]) -> float:
    """Seconds from the first command's begin to the last one's end."""
    begins = [command.begun_s for command in commands]
    if not commands or None in begins:
        return sum(command.duration_s for command in commands)
    ends = [begun + command.duration_s for command, begun in zip(commands, begins, strict=True) if begun is not None]
    return max(ends) - min(begun for begun in begins if begun is not None)


@dataclass(frozen=True, slots=True)
class ArtifactRecord:
    """The record of a compile, without its files. `language` is `hip` or `cpp`.

    `source` is the name of the entry's source file, `dependencies` are the headers it read, shortened as in a
    `HeaderSet`. A failed compile has `ok` False, its log, and no products.
    """

    ok: bool
    symbol: str
    arch: str
    language: str
    toolchain: str
    source: str
    commands: tuple[CompilerCommand, ...]
    exports: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Wall time of all commands."""
        return wall_s(self.commands)

    @property
    def peak_memory_bytes(self) -> int:
        """The largest resident set of any process."""
        return max((command.peak_memory_bytes for command in self.commands), default=0)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of an entry."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Artifact:
    """An entry: what a unit compiled to, or why it did not (`record.ok`).

    `files` are the names of all files in `folder` other than `meta.json`; `products` maps what they are for
    (`ProductKind`) to those names. `headers` names the header set.
    """

    key: str
    headers: str
    folder: Path
    record: ArtifactRecord
    files: Mapping[str, StoredFile]
    products: Mapping[str, str] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Return True if it compiled."""
        return self.record.ok

    def product(self, name: str) -> Path | None:
        """The file of a product, None if the entry has none."""
        file = self.products.get(name)
        return None if file is None else self.folder / file

    @property
    def shared_object(self) -> Path | None:
        """Exports the kernel's C function; linked against the HIP runtime."""
        return self.product("shared-object")

    @property
    def object(self) -> Path | None:
        """The object file, for linking ahead of time."""
        return self.product("object")

    @property
    def code_object(self) -> Path | None:
        """The AMDGPU ELF file for `record.arch`; None for host code."""
        return self.product("code-object")

    @property
    def source(self) -> Path:
        """The rendered source as it was compiled."""
        return self.folder / self.record.source

    @property
    def log_file(self) -> Path:
        """The file with the compiler's output, if it printed anything."""
        return self.folder / LOG

    @property
    def log(self) -> str:
        """Return the compiler's output; raises OSError if it is gone."""
        if LOG not in self.files:
            return ""
        return read_file(self.log_file, SIDE_FILE_LIMIT_BYTES).decode("utf-8", "replace")

    @property
    def source_text(self) -> str:
        """The text of `source`, newlines as they were compiled; raises OSError when it has gone."""
        return read_file(self.source, SIDE_FILE_LIMIT_BYTES).decode("utf-8", "replace")

    @property
    def size_bytes(self) -> int:
        """Of all files, `meta.json` not counted."""
        return sum(file.size_bytes for file in self.files.values())


def artifact_to_json(artifact: Artifact) -> bytes:
    """The contents of `meta.json`, with a hash of themselves."""
    record = {**_fields(artifact.record), "commands": [_fields(command) for command in artifact.record.commands]}
    value = {
        "format": FORMAT,
        "key": artifact.key,
        "headers": artifact.headers,
        "record": record,
        "files": {name: _fields(file) for name, file in artifact.files.items()},
        "products": dict(artifact.products),
    }
    text = _canonical(value)
    return f'{text[:-1]}, "sha256": "{hashlib.sha256(text.encode()).hexdigest()}"}}'.encode()


def artifact_from_json(content: bytes, folder: Path) -> Artifact:
    """Read `meta.json`; raises ValueError when it is damaged or of another format."""
    try:
        value = json.loads(content)
        claimed = value.pop("sha256")
        if value["format"] != FORMAT or claimed != _digest(value):
            raise ValueError("damaged")
        record = value["record"]
        commands = tuple(
            CompilerCommand(**{**item, "arguments": tuple(item["arguments"])}) for item in record["commands"]
        )
        return Artifact(
            value["key"],
            value["headers"],
            folder,
            ArtifactRecord(**{**record, "commands": commands, "exports": tuple(record["exports"])}),
            {name: StoredFile(**file) for name, file in value["files"].items()},
            value["products"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"damaged: {error}") from error


def read_entry(folder: Path) -> Artifact:
    """The artifact in an entry's folder. Raises OSError, and ValueError for a damaged one."""
    return artifact_from_json(read_file(folder / META), folder)


def verified(path: Path) -> bytes:
    """The contents of the file at `path` in an entry's folder.

    Raises LostArtifactError when they are not the recorded ones, and CkwatchError when the host cannot read them now.
    """
    try:
        entry = read_entry(path.parent)
        content = read_file(path, BINARY_LIMIT_BYTES)
        recorded = entry.files[path.name].sha256
    except (FileNotFoundError, NotADirectoryError, KeyError):
        raise LostArtifactError(path, "is no longer in the store") from None
    except OSError as error:
        raise CkwatchError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError:
        raise LostArtifactError(path.parent / META, "is damaged") from None
    if hashlib.sha256(content).hexdigest() != recorded:
        raise LostArtifactError(path, "is damaged: it is not what was compiled")
    return content


def _fields(value: ArtifactRecord | CompilerCommand | StoredFile) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__slots__}


def _canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, sort_keys=True)


def _digest(value: object) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


class StoreError(CkwatchError):
    """The artifact store cannot be written. `no_space` tells a full file system from a read-only one."""

    def __init__(self, message: str, hint: str | None = None, *, no_space: bool = False) -> None:
        super().__init__(message, hint)
        self.no_space = no_space


@contextmanager
def storing_in(folder: Path) -> Iterator[None]:
    """Turn the host's refusals to write into `StoreError`."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise StoreError(
                f"no space left for the artifact store in {folder}",
                "Free some space, or name another folder or a smaller size limit for the store.",
                no_space=True,
            ) from error
        raise StoreError(
            f"the artifact store in {folder} cannot be written: {error.strerror or error}",
            "Name a folder of your own for the store.",
        ) from error
