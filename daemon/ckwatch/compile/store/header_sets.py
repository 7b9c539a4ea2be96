"""Sets of headers that a compile read, and whether they still are what they were.

Paths below a named root (the toolchain, the CK tree) are kept relative to it, so that a set outlives a move of the
root. A set also names files that must *not* appear: where an include folder comes before the one in which a header was
found, a new file of that name would be read instead.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from ckwatch.compile.store.content_hashes import ContentHashes, ContentSnapshot, steady_ns
from ckwatch.model.lazy_dataclass import dataclass

_PATH_BEGINS = r"(?:(?<![\w./-])|(?<=-[ILFB])|(?<=-iquote)|(?<=-isystem)|(?<=-idirafter))"


_OBSERVED = 64
"""Different lists of headers that are remembered."""


def digest(value: object) -> str:
    """SHA-256, in hex, of a value as JSON."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


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

    @property
    def prefixes(self) -> list[tuple[str, str]]:
        """The beginnings of paths and what `shorten` puts in their place, the longest last."""
        return [(path, f"<{name}>/") for name, path in reversed(self._roots) if path != os.sep]

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


@dataclass(frozen=True)
class HeaderSet:
    """The headers that were read (shortened path → SHA-256), and shortened paths that must not exist."""

    present: Mapping[str, str]
    absent: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """The set's name in the store."""
        return digest({"absent": sorted({*self.absent}), "present": sorted(self.present.items())})

    def holds(self, look: ContentSnapshot, roots: PathRoots) -> bool:
        """True when every header has the same contents and nothing has appeared."""
        return all(look.digest(roots.expand(path)) == digest for path, digest in self.present.items()) and not any(
            look.exists(roots.expand(path)) for path in self.absent
        )

    def to_json(self) -> bytes:
        """The stored form."""
        return json.dumps({"present": dict(self.present), "absent": list(self.absent)}, ensure_ascii=True).encode()

    @classmethod
    def from_json(cls, content: bytes) -> HeaderSet:
        """Read the stored form; raises ValueError when it is damaged."""
        value = json.loads(content)
        if not isinstance(value, dict) or not isinstance(value.get("present"), dict):
            raise ValueError("not a header set")
        return cls(value["present"], tuple(value["absent"]))


@dataclass(slots=True)
class _Observed:
    """Headers that some compiles have read, and the last look at them."""

    paths: tuple[str, ...]
    names: tuple[str, ...]
    """Their paths, shortened."""
    absent: tuple[str, ...]
    looked_ns: int = -1
    """When the last look began."""
    unchanged_ns: int = 0
    """Since when all are as it found them."""
    digests: list[str | None] | None = None
    headers: HeaderSet | None = None


class HeaderObserver:
    """Makes the sets of the headers that compiles have read; one thread's at a time.

    A thousand compiles of one kernel read the same thousand headers: one look at them serves all compiles that had
    ended when it began, and is compared with the last one.
    """

    def __init__(self, contents: ContentHashes, roots: PathRoots) -> None:
        self._contents = contents
        self._roots = roots
        self._observed: dict[tuple[object, ...], _Observed] = {}

    def observe(
        self,
        headers: tuple[str, ...],
        missing: tuple[str, ...],
        folders: tuple[Path, ...],
        begun_ns: int,
        ended_ns: int = 0,
    ) -> HeaderSet | None:
        """The set of the absolute paths `headers`, read by a compile that began at `begun_ns` (`steady_ns`) and has not
        found `missing`; `folders` are those that it searched. A look that began at `ended_ns` or later is not repeated.

        None when one of them is gone or was changed since it began: the compile may have read another text.
        """
        observed = self._known(headers, missing, folders)
        if observed.looked_ns < ended_ns:
            observed.looked_ns = steady_ns()
            self._look(observed)
        return observed.headers if observed.unchanged_ns < begun_ns else None

    def _known(self, headers: tuple[str, ...], missing: tuple[str, ...], folders: tuple[Path, ...]) -> _Observed:
        key = (headers, missing, folders)
        known = self._observed.get(key)
        if known is None:
            paths = tuple(sorted(set(headers)))
            names = tuple(map(self._roots.shorten, paths))
            absent = {self._roots.shorten(path) for path in not_there(paths, missing, folders)}
            known = _Observed(paths, names, tuple(sorted(absent - set(names))))
            self._observed[key] = known
            if len(self._observed) > _OBSERVED:
                del self._observed[next(iter(self._observed))]
        return known

    def _look(self, observed: _Observed) -> None:
        digests, observed.unchanged_ns = self._contents.digests(observed.paths)
        if digests == observed.digests:
            return
        observed.digests = digests
        present = {name: digest for name, digest in zip(observed.names, digests, strict=True) if digest is not None}
        observed.headers = HeaderSet(present, observed.absent) if len(present) == len(digests) else None


def not_there(headers: Iterable[str], missing: Iterable[str], folders: Sequence[Path]) -> set[str]:
    """Files that a compile would have read, had they existed: those `missing`, and any ahead of those it found."""
    looked_for = {f"{folder}/{name}" for name in missing if not name.startswith("/") for folder in folders}
    return looked_for | {name for name in missing if name.startswith("/")} | shadows(headers, folders)


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
