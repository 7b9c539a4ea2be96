"""Reads the further files that kernel files name: references in Python and NumPy arrays.

What was read is known by the digest of its content, so that a load can tell whether reading a kernel file again would
give the same. The digest of an array, which may be large, is known by the file's stamp where that is settled.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field

from ckwatch.model.diagnostics import Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import file_status, is_there, read_with_status, real_path
from ckwatch.workspace.files import Clock, FileText, StampCache, editor_text, read_text, stamp_of
from ckwatch.workspace.writers import Writers

ARRAY_SUFFIX = ".npy"
ARRAY_LIMIT_BYTES = 64 * 1024**2
"""Of a file whose content is a tensor's."""


@dataclass(slots=True)
class NamedFiles:
    """Reads files in `folders` (absolute) for one load of a workspace; `asked` are digests of what was found by path,
    None where nothing was. `digests` are those that loads share."""

    folders: tuple[str, ...]
    writers: Writers | None = None
    overlay: Callable[[str, str], str | None] = lambda _path, _real: None
    digests: StampCache[bytes] = field(default_factory=StampCache)
    clock: Clock = time.time_ns
    asked: dict[str, bytes | None] = field(default_factory=dict)

    def text(self, path: str) -> FileText | None:
        """The text of the Python file at `path`, which an editor may hold; None where there is no such file."""
        unsaved = self.overlay(path, real_path(path))
        found = None
        if unsaved is not None:
            found = editor_text(unsaved)
        elif is_there(path):
            found = read_text(path, Source.REFERENCE, self.writers)
        content = None if found is None else found.text + "".join(f"\0{one}" for one in found.diagnostics)
        self.asked[path] = (
            None if content is None else hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
        )
        return found

    def array(self, path: str) -> tuple[bytes, str]:
        """The content of the NumPy file at `path`, and its SHA-256 in hex. Raises OSError."""
        self.asked[path] = None
        now_ns = self.clock()
        content, status = read_with_status(path, ARRAY_LIMIT_BYTES)
        digest = self.asked[path] = hashlib.sha256(content).digest()
        self.digests.put(path, stamp_of(status), now_ns, digest)
        return content, digest.hex()

    def holds(self, asked: Mapping[str, bytes | None]) -> bool:
        """Return True if reading the same files again would find the same."""
        for path, digest in asked.items():
            if path not in self.asked:
                self._look_at(path)
            if self.asked[path] != digest:
                return False
        return True

    def _look_at(self, path: str) -> None:
        if not path.endswith(ARRAY_SUFFIX):
            self.text(path)
            return
        self.asked[path] = None
        with suppress(OSError):
            known = self.digests.get(path, stamp_of(file_status(path)))
            if known is None:
                self.array(path)
            else:
                self.asked[path] = known

    def is_inside(self, path: str) -> bool:
        """Return True if a file lies in one of the folders, wherever links lead."""
        real = real_path(path)
        return any(real.startswith(real_path(folder).rstrip(os.sep) + os.sep) for folder in self.folders)
