"""The templates of one workspace: found in its template folders, read once, read again when they are others."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ckwatch_lsp.documents import read_text
from ckwatch_lsp.jinja.index import File, Index
from ckwatch_lsp.jinja.words import Words

LOOK_S = 2.0
"""Folders are looked through again when the last time was so long ago."""

FILE_LIMIT = 5_000
"""Templates of one workspace."""

SIZE_LIMIT = 2 * 1024 * 1024
"""Bytes of a template that is read from disk; larger ones are known by name only."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The text of a document that is open, and the count of its changes."""

    text: str
    revision: int


@dataclass(frozen=True, slots=True)
class Shelf:
    """The templates at one moment. `names` are those that kernel files and includes use, with the paths."""

    index: Index
    names: Mapping[str, str]

    def name_of(self, path: str) -> str:
        """What the template at `path` is called."""
        return next((name for name, own in self.names.items() if own == path), os.path.basename(path))  # noqa: PTH119


class TemplateFiles:
    """Used by one thread at a time."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._folders: tuple[str, ...] = ()
        self._looked_at = -1.0
        self._files: dict[str, tuple[object, File]] = {}
        self._shelf: Shelf | None = None
        self._made_of: object = None

    def shelf(self, folders: Sequence[str], opened: Mapping[str, Opened], words: Words, *, look: bool = False) -> Shelf:
        """The templates as they are on disk or open. `look`: look through the folders whenever that was last done."""
        now = time.monotonic()
        if look or tuple(folders) != self._folders or now - self._looked_at > LOOK_S:
            self._names = dict(_found(folders))
            self._folders, self._looked_at = tuple(folders), now
            self._read_all(opened)
        self._read_opened(opened)
        files = {path: file for path, (_, file) in self._files.items()}
        names = {name: path for name, path in self._names.items() if path in files}
        made_of = (tuple(files.items()), tuple(names.items()), id(words))
        if self._shelf is None or made_of != self._made_of:
            self._shelf = Shelf(Index(files, names.get, words), names)
            self._made_of = made_of
        return self._shelf

    def _read_all(self, opened: Mapping[str, Opened]) -> None:
        paths = dict.fromkeys(self._names.values())
        for path in [path for path in self._files if path not in paths and path not in opened]:
            del self._files[path]
        for path in paths:
            if path in opened:
                continue
            try:
                status = os.stat(path)  # noqa: PTH116  # Path cannot hold every name
                stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
                if status.st_size > SIZE_LIMIT:
                    self._files[path] = (stamp, File(path, ""))
                elif path not in self._files or self._files[path][0] != stamp:
                    self._files[path] = (stamp, File(path, read_text(path)))
            except OSError:
                self._files.pop(path, None)

    def _read_opened(self, opened: Mapping[str, Opened]) -> None:
        for path, one in opened.items():
            known = self._files.get(path)
            if known is None or known[0] != one.revision or known[1].template.text != one.text:
                self._files[path] = (one.revision, File(path, one.text))
        closed = [path for path, (stamp, _) in self._files.items() if isinstance(stamp, int) and path not in opened]
        for path in closed:
            del self._files[path]
        if closed:
            self._read_all(opened)


def _found(folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Names and paths; of two with one name the first counts."""
    seen: set[str] = set()
    for folder in folders:
        for parent, below, files in os.walk(folder):
            below[:] = sorted(name for name in below if not name.startswith(".") and name != "__pycache__")
            for file in sorted(files):
                path = os.path.join(parent, file)  # noqa: PTH118  # as above
                name = Path(os.path.relpath(path, folder)).as_posix()
                if file.endswith(".j2") and name not in seen:
                    seen.add(name)
                    yield name, path
                    if len(seen) >= FILE_LIMIT:
                        return
