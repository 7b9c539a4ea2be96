"""Sets of headers that a compile read, and whether they still are what they were.

Paths below a named root (the toolchain, the CK tree) are kept relative to it, so that a set outlives a move of the
root. A set also names files that must *not* appear: where an include folder comes before the one in which a header was
found, a new file of that name would be read instead.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ckwatch.compile.store.content_hashes import ContentHashes, ContentSnapshot
from ckwatch.model.keys import header_set_key

_PATH_BEGINS = r"(?:(?<![\w./-])|(?<=-[ILFB])|(?<=-iquote)|(?<=-isystem)|(?<=-idirafter))"


class PathRoots:
    """Named folders, longest first, that stand for themselves in stored paths: `<ck>/ck/ck.hpp`."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = sorted(
            ((name, f"{str(path).rstrip(os.sep)}{os.sep}") for name, path in roots.items()),
            key=lambda root: (-len(root[1]), root[0]),
        )
        self._by_name = {f"<{name}>": path for name, path in self._roots}
        self._in_text = [
            (re.compile(rf"{_PATH_BEGINS}{re.escape(path.rstrip(os.sep))}(?=[/\s:'\",)]|\Z)"), f"<{name}>")
            for name, path in self._roots
            if path != os.sep
        ]

    def shorten(self, path: str) -> str:
        """`path` with its root's name in place of the root; unchanged outside of all roots."""
        for name, root in self._roots:
            if path.startswith(root):
                return f"<{name}>/{path[len(root) :]}"
        return path

    def expand(self, path: str) -> str:
        """The inverse of `shorten`; a path below a root that is not known here stays as it is, and does not exist."""
        if path.startswith("<"):
            name, _, rest = path.partition("/")
            root = self._by_name.get(name)
            if root is not None:
                return root + rest
        return path

    def shorten_text(self, text: str) -> str:
        """`text` with the roots' names in place of the roots wherever one begins a path."""
        for pattern, name in self._in_text:
            text = pattern.sub(name, text)
        return text

    def expand_text(self, text: str) -> str:
        """The inverse of `shorten_text`."""
        for name, root in self._by_name.items():
            text = text.replace(name, root.rstrip(os.sep))
        return text


@dataclass(frozen=True, slots=True)
class HeaderSet:
    """What was read (shortened path → SHA-256), and shortened paths that must not exist."""

    present: Mapping[str, str]
    absent: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The set's name in the store."""
        return header_set_key(self.present, self.absent)

    def holds(self, look: ContentSnapshot, roots: PathRoots) -> bool:
        """True when every header has the same contents and nothing has appeared."""
        return all(look.digest(roots.expand(path)) == digest for path, digest in self.present.items()) and not any(
            look.exists(roots.expand(path)) for path in self.absent
        )

    def changed(self, look: ContentSnapshot, roots: PathRoots) -> list[str]:
        """Absolute paths of headers that were changed or removed, or that have appeared where they would be read."""
        changed = [path for name, digest in self.present.items() if look.digest(path := roots.expand(name)) != digest]
        return changed + [path for name in self.absent if look.exists(path := roots.expand(name))]

    def to_json(self) -> bytes:
        """The stored form."""
        value = {"present": dict(self.present), "absent": list(self.absent)}
        return json.dumps(value, ensure_ascii=True, indent=0).encode()

    @classmethod
    def from_json(cls, content: bytes) -> HeaderSet:
        """Read the stored form; raises ValueError when it is damaged."""
        value = json.loads(content)
        if not isinstance(value, dict) or not isinstance(value.get("present"), dict):
            raise ValueError("no header set")
        return cls(value["present"], tuple(value["absent"]))

    @classmethod
    def observe(
        cls, headers: Iterable[str], missing: Iterable[str], contents: ContentHashes, roots: PathRoots, begun_ns: int
    ) -> HeaderSet | None:
        """The set of the absolute paths `headers`, read by a compile that began at `begun_ns` (`steady_ns`).

        None when one of them is gone or was changed since then: the compile may have read another text.
        """
        found = {roots.shorten(header): contents.digest_since(header, begun_ns) for header in sorted(set(headers))}
        present = {name: digest for name, digest in found.items() if digest is not None}
        if len(present) < len(found):
            return None
        return cls(present, tuple(sorted({roots.shorten(path) for path in missing} - present.keys())))


def shadows(headers: Iterable[str], folders: Sequence[Path]) -> set[str]:
    """Files that would be read in place of one of `headers`, if they existed: `folders` are searched in this order."""
    prefixes = [f"{str(folder).rstrip(os.sep)}{os.sep}" for folder in folders]
    found: set[str] = set()
    for header in headers:
        for index, prefix in enumerate(prefixes):
            if header.startswith(prefix):
                found.update(earlier + header[len(prefix) :] for earlier in prefixes[:index])
                break
    return found
