"""The dependency graph: which units depend on a file, as a template, a header, or a file that must not exist.

All of it was observed by a render or a compile. Sets of headers are shared: a thousand units that read the same
thousand headers share one set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

from ckwatch.core.events import HeaderFacts, UnitKey
from ckwatch.model.lazy_dataclass import dataclass

_SetKey = tuple[str, str]
"""Another toolchain (empty: the workspace's own), as sets of equal names lie elsewhere for it; and the set's name."""


@dataclass(slots=True)
class _HeaderSet:
    facts: HeaderFacts
    alone: tuple[_SetKey, ...]
    """The sets of a unit that has no other: one object for all such units."""
    units: dict[UnitKey, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileDependents:
    """Units that a changed file concerns; `recompile` where the file is no template, so that equal tokens prove
    nothing; `recheck` with other toolchains, by their names."""

    rerender: tuple[UnitKey, ...]
    recompile: tuple[UnitKey, ...]
    recheck: tuple[tuple[UnitKey, str], ...] = ()


class DependencyGraph:
    """The dependencies of all units of all scopes. `version` grows whenever the set of files does or shrinks."""

    def __init__(self) -> None:
        self._readers: dict[str, dict[UnitKey, str | None]] = {}
        """Path → its readers, each with the SHA-256 that it read, None for no file."""
        self._reads: dict[UnitKey, tuple[Mapping[str, str], frozenset[str]]] = {}
        self._header_sets: dict[_SetKey, _HeaderSet] = {}
        self._header_of: dict[UnitKey, tuple[_SetKey, ...]] = {}
        """At most one set for each toolchain."""
        self._sets_with: dict[str, dict[_SetKey, None]] = {}
        """Path → the sets with it. Paths that are in one set alone share a dict."""
        self._known: dict[str, str | None] = {}
        self._disputed: set[str] = set()
        self._unverified: set[UnitKey] = set()
        self.version = 0

    def set_reads(self, key: UnitKey, reads: Mapping[str, str], missed: frozenset[str]) -> None:
        """Note which files the unit's last render read (path → SHA-256), and where it found none."""
        self._unverified.discard(key)
        old_reads, old_missed = self._reads.get(key, ({}, frozenset()))
        self._reads[key] = (reads, missed)
        for path, digest in (*reads.items(), *dict.fromkeys(missed).items()):
            self._learn(path, digest)
            readers = self._readers.get(path)
            if readers is None:
                readers = self._readers[path] = {}
                self.version += 1
            readers[key] = digest
        if old_reads.keys() != reads.keys() or old_missed != missed:
            self._leave(key, {*old_reads, *old_missed} - {*reads, *missed})

    def set_headers(self, key: UnitKey, headers: HeaderFacts | None, toolchain: str = "") -> None:
        """Note which headers the unit's last compile read; with another toolchain, all files that it depends on."""
        name = None if headers is None else (toolchain, headers.name)
        old = self._header_set_of(key, toolchain)
        if name == old:
            return
        others = tuple(one for one in self._header_of.pop(key, ()) if one != old)
        if others:
            self._header_of[key] = others
        if old is not None:
            self._leave_set(key, old)
        if headers is None or name is None:
            return
        known = self._header_sets.get(name)
        if known is None:
            known = self._header_sets[name] = _HeaderSet(headers, (name,))
            self.version += 1
            alone: dict[_SetKey, None] = {name: None}
            for path in (*headers.present, *headers.absent):
                names = self._sets_with.setdefault(path, alone)
                if len(names) == 1 and name not in names:
                    self._sets_with[path] = {**names, name: None}
                else:
                    names[name] = None
                self._learn(path, headers.present.get(path))
        known.units[key] = None
        self._header_of[key] = (*others, name) if others else known.alone

    def _header_set_of(self, key: UnitKey, toolchain: str) -> _SetKey | None:
        return next((one for one in self._header_of.get(key, ()) if one[0] == toolchain), None)

    def mark_unverified(self, key: UnitKey) -> None:
        """The unit may have read other contents than noted: until its next render every change of its files counts."""
        self._unverified.add(key)

    def remove(self, key: UnitKey) -> None:
        """Forget the unit."""
        reads, missed = self._reads.pop(key, ({}, frozenset()))
        self._leave(key, {*reads, *missed})
        for toolchain, _ in self._header_of.get(key, ()):
            self.set_headers(key, None, toolchain)
        self._unverified.discard(key)

    def reads_of(self, key: UnitKey) -> Mapping[str, str]:
        """The files that the unit's last render read, with their SHA-256."""
        return self._reads[key][0] if key in self._reads else {}

    def contradicts(self, reads: Mapping[str, str], missed: frozenset[str], headers: HeaderFacts | None) -> bool:
        """Return True if another unit has read one of these files with other contents, or found one where there was
        none."""
        known = self._known
        if any(known.get(path, digest) != digest for path, digest in reads.items()):
            return True
        if any(known.get(path) is not None for path in missed):
            return True
        if headers is None or ("", headers.name) in self._header_sets:
            return False
        return any(known.get(path, digest) != digest for path, digest in headers.present.items()) or any(
            known.get(path) is not None for path in headers.absent
        )

    def differs(self, key: UnitKey, texts: Mapping[str, str | None]) -> bool:
        """Return True if the unit's last render read or looked for one of `texts` (path → SHA-256) and found
        another."""
        reads, missed = self._reads.get(key, ({}, frozenset()))
        return any(path in missed or (path in reads and reads[path] != digest) for path, digest in texts.items())

    def readers(self, path: str) -> Collection[UnitKey]:
        """The units whose last render read `path` or looked for it."""
        return self._readers.get(path, ())

    def includers(self, path: str) -> Collection[UnitKey]:
        """The units whose last compile read the header at `path`, or must not find one there."""
        return {key for name in self._sets_with.get(path, ()) if not name[0] for key in self._header_sets[name].units}

    def dependents_of_change(self, path: str, digest: str | None) -> FileDependents:
        """The units that read `path` with other contents than `digest` (None: no file)."""
        unverified = self._unverified
        readers = self._readers.get(path, {})
        rerender = [key for key, seen in readers.items() if seen != digest or (unverified and key in unverified)]
        recompile: dict[UnitKey, None] = {}
        recheck: list[tuple[UnitKey, str]] = []
        for name in self._sets_with.get(path, ()):
            known, toolchain = self._header_sets[name], name[0]
            if known.facts.present.get(path) != digest and toolchain:
                recheck += ((key, toolchain) for key in known.units)
            elif known.facts.present.get(path) != digest:
                recompile |= known.units
            elif unverified and not toolchain:
                recompile |= dict.fromkeys(key for key in known.units if key in unverified)
        return FileDependents(tuple(rerender), tuple(recompile), tuple(recheck))

    def note_change(self, path: str, digest: str | None) -> bool:
        """The file was seen with these contents, later than it was last read. Whether it was last known otherwise, or
        units may have read it otherwise."""
        if path not in self._known:
            return True
        former, self._known[path] = self._known[path], digest
        return former != digest or path in self._disputed or bool(self._unverified)

    @property
    def templates(self) -> list[str]:
        """Every path that a render read or looked for."""
        return list(self._readers)

    @property
    def headers(self) -> list[str]:
        """Every path that a compile read or that must not appear."""
        return list(self._sets_with)

    def header_count(self, key: UnitKey) -> int:
        """How many headers the unit's last compile read."""
        name = self._header_set_of(key, "")
        return 0 if name is None else len(self._header_sets[name].facts.present)

    def known_digests(self) -> tuple[dict[str, str | None], frozenset[str]]:
        """Return the last digest of each file (None: it must not exist), and files of which units may have read
        different contents."""
        return self._known.copy(), frozenset(self._disputed)

    def _learn(self, path: str, digest: str | None) -> None:
        if self._known.setdefault(path, digest) != digest:
            self._known[path] = digest
            self._disputed.add(path)

    def _forget_unread(self, path: str) -> None:
        if path not in self._readers and path not in self._sets_with:
            self._known.pop(path, None)
            self._disputed.discard(path)

    def _leave(self, key: UnitKey, paths: Iterable[str]) -> None:
        for path in paths:
            readers = self._readers[path]
            del readers[key]
            if not readers:
                del self._readers[path]
                self._forget_unread(path)
                self.version += 1

    def _leave_set(self, key: UnitKey, name: _SetKey) -> None:
        known = self._header_sets[name]
        known.units.pop(key, None)
        if known.units:
            return
        del self._header_sets[name]
        self.version += 1
        for path in (*known.facts.present, *known.facts.absent):
            names = self._sets_with[path]
            if len(names) == 1:
                del self._sets_with[path]
                self._forget_unread(path)
            else:
                del names[name]
