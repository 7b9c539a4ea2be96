"""The places where what is watched lies: links followed, missing pieces named, and real folders with their names.

A name leads through folders and links to a file, or stops where something is missing. Each place on the way that can
make it lead elsewhere by one event is a *turn*: a link, the missing piece, the file itself. Watching the folders of
the turns is enough to notice a save behind a link, a link that is set anew, and a file that appears together with its
folders.

`WatchedPlaces` is what one survey found, and says which names an event is about. It remembers no file's state: whether
a file differs from what was read of it is known by `ContentHashes` and the core.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import field
from typing import TypeAlias

from ckwatch.engine.watch.batch import is_temporary
from ckwatch.engine.watch.notify_process import GONE
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import file_status, file_statuses, is_file, is_folder, is_there, real_path
from ckwatch.workspace.files import SETTLED_NS, Clock, stamp_of
from ckwatch.workspace.kernel_globs import FOLDERS_LIMIT, VIRTUAL_ENVIRONMENT, is_skipped

LINKS_LIMIT = 40
"""As many links in one name as Linux follows."""

NAMES_LIMIT = 8
"""Names under which one folder is reported; a tree of links may have more."""

Identity: TypeAlias = tuple[int, int]
"""(st_dev, st_ino)."""

Identities: TypeAlias = Mapping[str, Identity]
"""Folders by their real paths."""

Hints: TypeAlias = Mapping[str, int]
"""Paths at which something may have happened, and what is known of it: `GONE`, and `CLOSED` (`notify_process`)."""


def identity(path: str) -> Identity | None:
    """Return the status of the path, links followed; None if there is nothing."""
    try:
        status = file_status(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def join(folder: str, name: str) -> str:
    """The path of a name in a folder, which may be `/`."""
    return f"{folder}/{name}" if folder != "/" else f"/{name}"


def folder_of(place: str) -> str:
    """The folder in which a path, absolute and normal, lies."""
    return place.rpartition("/")[0] or "/"


def is_below(path: str, places: AbstractSet[str]) -> bool:
    """Return True if the path is one of the places or lies below one. Absolute and normal paths."""
    while path not in places:
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return False
        path = parent
    return True


@dataclass(frozen=True, slots=True)
class PathResolution:
    """The resolution of a name: its turns as (real folder, name in it), the last one being the file or the missing
    piece."""

    turns: tuple[tuple[str, str], ...]
    exists: bool


def resolve(path: str, known: dict[str, str | None] | None = None) -> PathResolution:
    """Follow an absolute path. `known` remembers folders (None), links (their text) and what is missing ("") between
    calls."""
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
        place = join(real, name)
        if place in known:
            target = known[place]
        else:
            try:
                mode = os.lstat(place).st_mode
                target = os.readlink(place) if stat.S_ISLNK(mode) else None  # noqa: PTH115
            except OSError:
                target = known[place] = ""
            if target is None and not stat.S_ISDIR(mode):
                exists = not any(part not in ("", ".") for part in rest)
                return PathResolution((*turns, (real, name)), exists=exists)
            known[place] = target
        if target == "":
            return PathResolution((*turns, (real, name)), exists=False)
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
class WatchRequest:
    """The watched places: folders with everything in them, and single files."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Trees:
    """Folders that are watched with everything in them, as they were walked."""

    roots: dict[str, tuple[str, Identity] | None] = field(default_factory=dict)
    """By the name that was asked for, its real path and what is there; None when there is no folder."""
    links: dict[str, str | None] = field(default_factory=dict)
    """Places of links to folders, and the real paths that they lead to; none for those that lead nowhere."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """Real paths of roots and of links' targets, and what they are called."""
    folders: set[str] = field(default_factory=set)

    def aliases(self, folder: str) -> list[str]:
        """The names of a real folder; none when it is not in a tree, or in a part that is not entered."""
        place, inside = folder, ""
        found: list[str] = []
        while True:
            known = self.names.get(place, ())
            found += [(name + inside) if name != "/" else (inside or "/") for name in known]
            parent, last = os.path.split(place)
            if parent == place or is_skipped(last) or (not known and is_there(join(place, VIRTUAL_ENVIRONMENT))):
                return list(dict.fromkeys(found))[:NAMES_LIMIT]
            place, inside = parent, f"/{last}{inside}"

    def add_root(self, name: str) -> None:
        """Walk a folder that is asked for."""
        found, real = identity(name), real_path(name)
        self.roots[name] = (real, found) if found is not None and is_folder(name) else None
        if self.roots[name] is not None:
            self.names.setdefault(real, []).append(name)
            self.walk(real)

    def walk(self, real: str) -> None:
        """Take in a folder, everything below, and what links in it lead to."""
        waiting = [real]
        while waiting and len(self.folders) < FOLDERS_LIMIT:
            folder = waiting.pop()
            if folder in self.folders:
                continue
            folders, links, virtual = _entries(folder)
            if virtual and folder not in self.names:
                continue
            self.folders.add(folder)
            waiting += folders
            for place in links:
                target = self.links[place] = real_path(place) if is_folder(place) else None
                if target is not None:
                    names = self.names.setdefault(target, [])
                    for alias in sorted(self.aliases(folder)):
                        name = join(alias, os.path.basename(place))  # noqa: PTH119
                        if name not in names and len(names) < NAMES_LIMIT:
                            names.append(name)
                    waiting.append(target)


def _entries(folder: str) -> tuple[list[str], list[str], bool]:
    """The folders to enter, the links that do not lead to files, and whether it is a virtual environment."""
    folders: list[str] = []
    links: list[str] = []
    virtual = False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                virtual = virtual or entry.name == VIRTUAL_ENVIRONMENT
                if is_skipped(entry.name):
                    continue
                if entry.is_symlink():
                    if not is_temporary(entry.name) and not is_file(entry.path):
                        links.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    except OSError:
        pass  # it has vanished, or may not be listed
    return folders, links, virtual


def has_links(folder: str) -> bool:
    """Return True if a new folder contains links to other folders, or to nothing."""
    trees = _Trees(names={folder: [folder]})
    trees.walk(folder)
    return bool(trees.links)


@dataclass(slots=True)
class LookedAt:
    """Result of checking hints, or of another survey."""

    paths: set[str] = field(default_factory=set)
    """Paths that may have changed, by their watched names."""
    lost: bool = False
    """A root came back, or was replaced by a different folder."""
    moved: bool = False
    """Names may lead elsewhere now."""
    renew: bool = False
    """Something that events came from is gone, or a link leads elsewhere: events may be missing from now on."""
    new_folders: set[str] = field(default_factory=set)
    """Real paths. Events of what was made in them at first may be missing."""


class WatchedPlaces:
    """Result of a survey for one request.

    `one_by_one`: events are needed of folders one by one, as something in one of them may not be read.
    """

    def __init__(
        self,
        request: WatchRequest,
        *,
        one_by_one: bool = False,
        before: WatchedPlaces | None = None,
        clock: Clock = time.time_ns,
    ) -> None:
        """Survey the disk. The trees are those of `before` if it is given and has them."""
        self.request = request
        self.one_by_one = one_by_one
        self.trees = _Trees()
        self._began_ns = clock()
        if before is not None and before.request.folders == request.folders:
            self.trees, self._began_ns = before.trees, before._began_ns
        else:
            for name in sorted(request.folders):
                self.trees.add_root(name)
        self.files: dict[str, dict[str, tuple[str, ...]]] = {}
        """Folders of turns → names in them → the followed files that are found there."""
        self.movable: set[str] = set()
        """Places where a new entry could make a name lead elsewhere: links, missing pieces, watched folders."""
        self.found: dict[str, str | None] = {}
        """The place of each followed file, links followed; None for no file."""
        self.holders: dict[str, Identity | None] = {}
        """The folders that hold them."""
        anchors = self.trees.roots.keys() | self.trees.links.keys()
        self._resolve(request.files, anchors)
        self.tops = {root[0] for root in self.trees.roots.values() if root is not None}
        self.tops |= {target for target in self.trees.links.values() if target is not None}
        self.reported = self.tops | self.trees.links.keys()
        """Events below these are reported: the library follows links."""
        self.needed = {True: self._identities(self._needed_trees()), False: self._identities(self._needed_singles())}
        """The folders from which events are needed: of everything in them (True), of what lies directly in them."""
        self._ended_ns = clock()
        self._entries = self._entries_now()

    def _resolve(self, files: AbstractSet[str], anchors: AbstractSet[str]) -> None:
        known: dict[str, str | None] = {}
        for path in files | anchors:
            resolution = resolve(path, known)
            turns = resolution.turns
            if path in anchors and resolution.exists and is_folder(path):
                turns = turns[:-1]  # the folder itself is covered anyway
            for folder, name in turns:
                self.files.setdefault(folder, {}).setdefault(name, ())
            fixed = resolution.exists and path not in anchors
            self.movable.update(join(*turn) for turn in (turns[:-1] if fixed else turns))
            if path in files:
                self.found[path] = None
                if resolution.exists and turns:
                    folder, name = turns[-1]
                    self.files[folder][name] += (path,)
                    if folder not in self.holders:
                        self.holders[folder] = identity(folder)
                    place = join(folder, name)
                    self.found[path] = path if place == path else place

    def _needed_trees(self) -> set[str]:
        if self.one_by_one:
            return set()
        return {top for top in self.tops if not is_below(os.path.dirname(top), self.tops - {top})}  # noqa: PTH120

    def _needed_singles(self) -> set[str]:
        folders = {*self.files, *self.trees.folders} if self.one_by_one else set(self.files)
        tops = self._needed_trees()
        # One folder that may not be read would end the beginning of all.
        return {folder for folder in folders if not is_below(folder, tops) and os.access(folder, os.R_OK)}

    def _identities(self, folders: AbstractSet[str]) -> Identities:
        return {folder: found for folder in folders if (found := identity(folder)) is not None}

    def _entries_now(self) -> int | None:
        """A hash of the stamps of all folders that the survey went through, in which every other entry shows; None
        where an entry that was changed during the survey might not."""
        entries = 0
        for status in file_statuses((*self.trees.roots, *self.trees.folders, *self.files)):
            stamp = None if status is None else stamp_of(status)
            times = () if stamp is None else stamp[3:]
            if any(self._began_ns - SETTLED_NS <= at_ns <= self._ended_ns + SETTLED_NS for at_ns in times):
                return None
            entries = hash((entries, stamp))
        return entries

    def may_differ(self) -> bool:
        """Return True unless another survey would find the same."""
        return self._entries is None or self._entries_now() != self._entries

    def is_outdated(self) -> bool:
        """Return True if a watched folder was replaced or removed."""
        return any(identity(folder) != known for one in self.needed.values() for folder, known in one.items())

    def concerns(self, path: str) -> bool:
        """Return True if events there may matter."""
        folder, name = os.path.split(path)
        return name in self.files.get(folder, ()) or path in self.files or is_below(path, self.reported)

    def look(self, hints: Hints) -> LookedAt:
        """The subject of hints."""
        found = LookedAt()
        aliases: dict[str, list[str]] = {}
        for path, hint in hints.items():
            gone = bool(hint & GONE)
            folder, name = os.path.split(path)
            if is_below(folder, self.trees.links.keys()):
                folder = real_path(folder)
            place = join(folder, name)
            top, turned = place in self.tops, place in self.files
            found.moved |= place in self.movable or turned or (gone and top)
            found.renew |= gone and (top or turned or self.one_by_one)
            found.paths.update(self.files.get(folder, {}).get(name, ()))
            if gone and top:
                found.paths.update(self.trees.names[place])
                found.lost = True
            if gone and turned:
                holders = {holder for holder in self.holders if is_below(holder, {place})}
                found.paths.update(path for path, was in self.found.items() if was and folder_of(was) in holders)
            if folder not in aliases:
                aliases[folder] = self.trees.aliases(folder)
            if aliases[folder]:
                self._look_in_tree(place, name, aliases[folder], found)
        return found

    def _look_in_tree(self, place: str, name: str, aliases: list[str], found: LookedAt) -> None:
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            mode = 0
        if is_skipped(name) if stat.S_ISDIR(mode) else is_temporary(name):
            return
        found.paths.update(join(alias, name) for alias in aliases)
        if stat.S_ISDIR(mode):
            found.new_folders.add(place)
            found.moved |= self.one_by_one or has_links(place)
        elif stat.S_ISLNK(mode):
            found.moved |= not is_file(place)
        found.moved |= any(is_below(link, {place}) for link in self.trees.links)

    def compare(self, before: WatchedPlaces, found: LookedAt) -> None:
        """Add to `found` what leads elsewhere than before."""
        other = {holder for holder, was in before.holders.items() if self.holders.get(holder, was) != was}
        for path, was in before.found.items():
            if path in self.found and (self.found[path] != was or (was and folder_of(was) in other)):
                found.paths.add(path)
        if before.request.folders != self.request.folders:
            return
        for name, root in self.trees.roots.items():
            if before.trees.roots[name] != root:
                found.paths.add(name)
                found.lost |= root is not None
        old, new = before.trees.links, self.trees.links
        for place in old.keys() | new.keys():
            if (place in old, old.get(place)) != (place in new, new.get(place)):
                folder, name = os.path.split(place)
                found.paths.update(join(alias, name) for alias in self.trees.aliases(folder))
                found.renew = True


def newest_change_ns(paths: Iterable[str], missing_ns: int) -> int:
    """The time of day at which one of these files changed last; `missing_ns` where one is missing."""
    newest_ns = 0
    for path in paths:
        try:
            newest_ns = max(newest_ns, file_status(path).st_ctime_ns)
        except OSError:
            newest_ns = max(newest_ns, missing_ns)
    return min(newest_ns, time.time_ns())
