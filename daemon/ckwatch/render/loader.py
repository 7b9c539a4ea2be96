"""Loads templates from the workspace first and then the built-ins, and records every lookup.

A template depends on the file it was read from *and* on the files that were looked for before it and not found: one
that appears later would win. Both are recorded for each lookup.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import BaseLoader, Environment, TemplateNotFound
from jinja2.loaders import split_template_path

from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import span

TEMPLATE_SIZE_LIMIT_BYTES = 16 * 1024 * 1024


class UnreadableTemplateError(Exception):
    """A template file that exists and cannot be used; `diagnostic` says where and why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(slots=True)
class Lookups:
    """What one render read (absolute path → SHA-256 of the bytes) and looked for in vain."""

    read: dict[str, str] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """One successful lookup."""

    path: str
    sha256: str
    missed: tuple[str, ...]


StatIdentity = tuple[int, int, int, int]


def stat_identity(path: str) -> StatIdentity | None:
    """Device, inode, size and modification time in ns of a file; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  # on the hot path
    except OSError:
        return None
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class RecordingLoader(BaseLoader):
    """Loads `a/b.j2` from the first folder that has it. `overlays` (absolute path → text) win over files."""

    def __init__(self, folders: Sequence[Path], overlays: Mapping[str, str]) -> None:
        self.folders = tuple(folders)
        self.overlays = dict(overlays)
        self.found: dict[str, FoundTemplate] = {}
        self.last_missed: tuple[str, ...] = ()

    def candidates(self, name: str) -> list[str]:
        """The absolute paths at which `name` is looked for. Raises TemplateNotFound for a name that leads outside."""
        parts = split_template_path(name)
        return [str(folder.joinpath(*parts)) for folder in self.folders]

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:  # noqa: ARG002  # the base names it
        missed: list[str] = []
        for path in self.candidates(template):
            overlay = self.overlays.get(path)
            if overlay is not None:
                self._remember(template, path, overlay.encode(), missed)
                return overlay, path, self._uptodate_overlay(path, overlay, missed)
            identity = stat_identity(path)
            if identity is None or Path(path).is_dir():
                missed.append(path)
                continue
            data = _read(path)
            self._remember(template, path, data, missed)
            return _decode(data, path), path, self._uptodate_file(path, identity, missed)
        self.last_missed = tuple(missed)
        raise TemplateNotFound(template)

    def _remember(self, name: str, path: str, data: bytes, missed: list[str]) -> None:
        self.found[name] = FoundTemplate(path, hashlib.sha256(data).hexdigest(), tuple(missed))

    def _shadowed(self, missed: list[str]) -> bool:
        return any(path in self.overlays or os.path.isfile(path) for path in missed)  # noqa: PTH113  # on the hot path

    def _uptodate_file(self, path: str, identity: StatIdentity, missed: list[str]) -> Callable[[], bool]:
        def uptodate() -> bool:
            return path not in self.overlays and stat_identity(path) == identity and not self._shadowed(missed)

        return uptodate

    def _uptodate_overlay(self, path: str, text: str, missed: list[str]) -> Callable[[], bool]:
        def uptodate() -> bool:
            return self.overlays.get(path) == text and not self._shadowed(missed)

        return uptodate


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(TEMPLATE_SIZE_LIMIT_BYTES + 1)
    except OSError as error:
        raise _unreadable(path, 0, 0, "template/unreadable", f"cannot read this template: {error.strerror}") from error
    if len(data) > TEMPLATE_SIZE_LIMIT_BYTES:
        limit = TEMPLATE_SIZE_LIMIT_BYTES // (1024 * 1024)
        raise _unreadable(path, 0, 0, "template/too-large", f"this template is larger than {limit} MiB")
    return data


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start]
        line = before.count(b"\n")
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace"))
        byte = error.object[error.start]
        raise _unreadable(
            path,
            line,
            column,
            "template/not-utf-8",
            f"byte 0x{byte:02X} is not UTF-8: save this template as UTF-8 (iconv -f latin1 -t utf-8)",
        ) from error


def _unreadable(path: str, line: int, column: int, code: str, message: str) -> UnreadableTemplateError:
    place = span(path, line, column, line, column + 1)
    return UnreadableTemplateError(Diagnostic(Severity.ERROR, Source.JINJA, code, message, place))
