"""Where names lead, by the file system: links followed, missing pieces named, and real folders with their aliases.

A name leads through folders and links to a file, or stops where something is missing. Each place on the way that can
make it lead elsewhere by one event is a *turn*: a link, the missing piece, the file itself. Watching the folders of
the turns is enough to notice a save behind a link, a link that is set anew, and a file that appears together with its
folders.

Of a tree only real folders are listed, each once, however many links lead to it. A place is reported under each name
that leads there from a watched root.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from ckwatch.engine.watch.batch import is_temporary
from ckwatch.system.user_files import file_status, is_file, link_status, real_path
from ckwatch.system.user_files import is_folder as at_folder
from ckwatch.workspace.kernel_globs import FOLDERS_LIMIT, VIRTUAL_ENVIRONMENT, is_skipped

LINKS_LIMIT = 40
"""As many links in one name as Linux follows."""

NAMES_LIMIT = 8
"""Names under which one folder is reported; a tree of links may have more."""

RACY_NS = 10_000_000
"""Two writes within so much time may leave the same time stamp, which the kernel takes from a clock that ticks every
1 to 10 ms."""

Stamp: TypeAlias = tuple[int, int, int, int, int]
"""Kind, inode, size, mtime and ctime (ns). Of a folder only kind and inode count: what happens in it is its own
affair. A ctime that may hide a later write is negative and equals no other."""

Listing: TypeAlias = dict[str, Stamp]
"""What is in a folder, by name; without folders that are not entered and without editors' temporary files."""


def stamp_of(status: os.stat_result, now_ns: int) -> Stamp:
    """What a change alters. `now_ns`: the time of day just before the status was read."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        return kind, status.st_ino, 0, 0, 0
    changed_ns = status.st_ctime_ns if abs(now_ns - status.st_ctime_ns) > RACY_NS else -now_ns
    return kind, status.st_ino, status.st_size, status.st_mtime_ns, changed_ns


def is_folder(stamp: Stamp | None) -> bool:
    """Whether there is a folder; false for links to one."""
    return stamp is not None and stamp[0] == stat.S_IFDIR


def is_listed(name: str, stamp: Stamp) -> bool:
    """Whether something of this name counts in a folder that is watched with everything in it."""
    return not (is_skipped(name) if stamp[0] == stat.S_IFDIR else is_temporary(name))


def identity(path: str) -> tuple[int, int] | None:
    """(st_dev, st_ino) of what is at the path, links followed; None when nothing can be found there."""
    try:
        status = file_status(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def join(folder: str, name: str) -> str:
    """The path of a name in a folder, which may be `/`."""
    return f"{folder}/{name}" if folder != "/" else f"/{name}"


def is_below(path: str, places: AbstractSet[str]) -> bool:
    """Whether the path is one of the places or lies below one. Absolute and normal paths."""
    while path not in places:
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return False
        path = parent
    return True


@dataclass(frozen=True, slots=True)
class PathResolution:
    """Where a name leads: its turns as (real folder, name in it), the last one being the file or the missing piece."""

    turns: tuple[tuple[str, str], ...]
    exists: bool


def resolve(path: str, known: dict[str, str | None] | None = None) -> PathResolution:
    """Follow an absolute path. `known` remembers folders (None) and links (their text) between calls."""
    known = {} if known is None else known
    turns: list[tuple[str, str]] = []
    rest = path.split("/")[::-1]
    real = "/"
    links = 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        if name == "..":
            real = os.path.dirname(real)  # noqa: PTH120
            continue
        place = f"{real}/{name}" if real != "/" else f"/{name}"
        if place in known:
            target = known[place]
        else:
            try:
                mode = link_status(place).st_mode
                target = os.readlink(place) if stat.S_ISLNK(mode) else None  # noqa: PTH115
            except OSError:
                turns.append((real, name))
                return PathResolution(tuple(turns), exists=False)
            if target is None and not stat.S_ISDIR(mode):
                turns.append((real, name))
                return PathResolution(tuple(turns), exists=not any(part not in ("", ".") for part in rest))
            known[place] = target
        if target is None:
            if not rest:
                turns.append((real, name))
            real = place
        else:
            turns.append((real, name))
            links += 1
            if links > LINKS_LIMIT:
                return PathResolution(tuple(turns), exists=False)
            if target.startswith("/"):
                real = "/"
            rest += target.split("/")[::-1]
    return PathResolution(tuple(turns), exists=True)


@dataclass(frozen=True, slots=True)
class WatchedRoot:
    """A watched root as it was found: its real path, and (st_dev, st_ino) of it."""

    real: str
    identity: tuple[int, int]


def find_root(name: str) -> WatchedRoot | None:
    """The folder at an absolute path, or None."""
    found = identity(name)
    return WatchedRoot(real_path(name), found) if found is not None and at_folder(name) else None


@dataclass(slots=True)
class WatchedTree:
    """The folders at and below some roots, with what is in each."""

    roots: dict[str, WatchedRoot | None] = field(default_factory=dict)
    """Each root by the name that was asked for; None when there is no folder of that name."""
    folders: dict[str, Listing] = field(default_factory=dict)
    """By real paths."""
    links: dict[str, str | None] = field(default_factory=dict)
    """Places of links to folders, and the real paths that they lead to; none for those that lead nowhere."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """Real paths of roots and of links' targets, and what they are called."""
    _aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def anchors(self) -> AbstractSet[str]:
        """What can come to lead to another folder: the names of roots, the places of links."""
        return self.roots.keys() | self.links.keys()

    def tops(self) -> set[str]:
        """The real folders below which all others are."""
        tops = {root.real for root in self.roots.values() if root is not None}
        return tops | {target for target in self.links.values() if target is not None}

    def aliases(self, folder: str) -> tuple[str, ...]:
        """The names of a watched folder; none when it is not in the tree."""
        if folder not in self.folders:
            return ()
        found = self._aliases.get(folder)
        if found is None:
            found = self._aliases[folder] = tuple(self._named(folder))
        return found

    def names_of(self, place: str) -> set[str]:
        """What a place in a watched folder is called."""
        folder, name = os.path.split(place)
        return {join(alias, name) for alias in self.aliases(folder)}

    def _named(self, folder: str) -> dict[str, None]:
        found: dict[str, None] = {}
        place, inside = folder, ""
        while True:
            for name in self.names.get(place, ()):
                if len(found) < NAMES_LIMIT:
                    found[(name + inside) if name != "/" else (inside or "/")] = None
            parent, last = os.path.split(place)
            if parent == place or is_skipped(last):
                return found
            inside = f"/{last}{inside}"
            place = parent

    def drop(self, places: AbstractSet[str]) -> dict[str, Listing]:
        """Take the folders at and below these places out; what was in them."""
        self._aliases.clear()
        return {folder: self.folders.pop(folder) for folder in list(self.folders) if is_below(folder, places)}

    def walk(
        self, real: str, stopped: Callable[[], bool], before: Mapping[str, Listing] = MappingProxyType({})
    ) -> dict[str, Listing]:
        """Take a folder in, with everything below that is not there yet; what was found. `before`: what was there."""
        found: dict[str, Listing] = {}
        roots = {root.real for root in self.roots.values() if root is not None}
        waiting = [real]
        while waiting and not stopped() and len(self.folders) < FOLDERS_LIMIT:
            folder = waiting.pop()
            if folder in self.folders:
                continue
            known = before.get(folder, {})
            listing: Listing = {}
            inside: list[str] = []
            try:
                now_ns = time.time_ns()
                with os.scandir(folder) as entries:
                    for entry in entries:
                        try:
                            stamp = stamp_of(entry.stat(follow_symlinks=False), now_ns)
                        except OSError:
                            continue  # it has vanished
                        old = known.get(entry.name)
                        if old == stamp:
                            stamp = old  # equal stamps that are the same take no memory, and are quickly compared
                        elif not is_listed(entry.name, stamp):
                            continue
                        listing[entry.name] = stamp
                        if stamp[0] != stat.S_IFREG:
                            inside.append(entry.name)
            except OSError:
                continue  # it has vanished, or may not be listed
            if folder not in roots and VIRTUAL_ENVIRONMENT in listing:
                continue
            self.folders[folder] = found[folder] = listing
            for name in inside:
                place = join(folder, name)
                if is_folder(listing[name]):
                    waiting.append(place)
                elif stat.S_ISLNK(listing[name][0]) and not is_skipped(name) and not is_file(place):
                    target = self._take_link(place)
                    if target is not None:
                        waiting.append(target)
        return found

    def _take_link(self, place: str) -> str | None:
        """Note a link that does not lead to a file: where it leads, and what the folder there is called through it."""
        target = real_path(place) if at_folder(place) else None
        self.links[place] = target
        if target is not None:
            names = self.names.setdefault(target, [])
            for name in sorted(self.names_of(place)):
                if name not in names and len(names) < NAMES_LIMIT:
                    names.append(name)
            self._aliases.clear()
        return target


def survey_tree(
    roots: AbstractSet[str], stopped: Callable[[], bool], before: Mapping[str, Listing] = MappingProxyType({})
) -> WatchedTree:
    """Walk the roots. `before`: what was found the last time."""
    tree = WatchedTree()
    for name in sorted(roots):
        root = tree.roots[name] = find_root(name)
        if root is not None:
            tree.names.setdefault(root.real, []).append(name)
            tree.walk(root.real, stopped, before)
    return tree
