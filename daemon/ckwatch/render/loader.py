"""Loads templates from the workspace first and then the built-ins, and records every lookup.

A template depends on the file it was read from *and* on the files that were looked for before it and not found: one
that appears later would win. Both are recorded for each lookup.
"""

from __future__ import annotations

import errno
import hashlib
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from jinja2 import BaseLoader, Environment, TemplateNotFound
from jinja2.loaders import split_template_path

from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import span
from ckwatch.system.user_files import file_status, is_file, read_file
from ckwatch.workspace.files import Stamp, stamp_of


class UnreadableTemplateError(Exception):
    """A template file that exists and cannot be used; `diagnostic` says where and why."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


@dataclass(frozen=True, slots=True)
class FoundTemplate:
    """One successful lookup; of a file that cannot be read there is no `sha256`."""

    path: str
    sha256: str | None
    missed: tuple[str, ...]


def _stamp(path: str) -> Stamp | None:
    """The stamp of a file; None if there is none or a folder."""
    try:
        status = file_status(path)
    except TimeoutError:
        return (0, 0, 0, 0, 0)  # whoever reads it says so
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(status.st_mode) else stamp_of(status)


class RecordingLoader(BaseLoader):
    """Loads `a/b.j2` from the first folder that has it. `overlays` (absolute path → text) win over files.

    `on_found` gets the name of each template that is read, before anything is done with its text.
    """

    def __init__(self, folders: Sequence[Path], overlays: Mapping[str, str]) -> None:
        self.folders = tuple(folders)
        self.overlays = dict(overlays)
        self.found: dict[str, FoundTemplate] = {}
        self.last_missed: tuple[str, ...] = ()
        self.on_found: Callable[[str], None] = lambda _name: None

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
                return overlay, path, partial(self._is_uptodate, path, overlay, missed)
            stamp = _stamp(path)
            if stamp is None:
                missed.append(path)
                continue
            try:
                data = _read(path)
            except UnreadableTemplateError:
                self.found[template] = FoundTemplate(path, None, tuple(missed))
                self.on_found(template)
                raise
            self._remember(template, path, data, missed)
            return _decode(data, path), path, partial(self._is_uptodate, path, stamp, missed)
        self.last_missed = tuple(missed)
        raise TemplateNotFound(template)

    def _remember(self, name: str, path: str, data: bytes, missed: list[str]) -> None:
        self.found[name] = FoundTemplate(path, hashlib.sha256(data).hexdigest(), tuple(missed))
        self.on_found(name)

    def _is_uptodate(self, path: str, was: str | Stamp, missed: list[str]) -> bool:
        """Return True if the overlay, or else the file, is as it `was`, and no other has the name."""
        shadowed = any(one in self.overlays or is_file(one) for one in missed)
        return not shadowed and (self.overlays[path] if path in self.overlays else _stamp(path)) == was


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise _unreadable(path, 0, 0, "template/too-large", f"this template is {error.strerror}") from error
        raise _unreadable(path, 0, 0, "template/unreadable", f"cannot read this template: {error.strerror}") from error


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
