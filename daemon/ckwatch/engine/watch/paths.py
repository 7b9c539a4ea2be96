"""Which folders have to be watched: for single files, by the way that their names lead, and for trees of folders.

A name leads through folders and links to a file, or stops where something is missing. Each place on the way that can
make it lead elsewhere by one event is a *turn*: a link, the missing piece, the file itself. Watching the folders of
the turns is enough to notice a save behind a link, a link that is set anew, and a file that appears together with its
folders.

Of a tree only real folders are watched, each once, however many links lead to it. A place is reported under each name
that leads there from a watched root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ckwatch.workspace.kernel_globs import FOLDERS_LIMIT, VIRTUAL_ENVIRONMENT, is_skipped

LINKS_LIMIT = 40
"""As many links in one name as Linux follows."""


@dataclass(frozen=True, slots=True)
class PathResolution:
    """Where a name leads: its turns as (real folder, name in it), the last one being the file or the missing piece."""

    turns: tuple[tuple[str, str], ...]
    exists: bool


@dataclass(frozen=True, slots=True)
class FollowedFiles:
    """Followed files with their turns. Never changed: a new one is made where something changed."""

    resolutions: dict[str, PathResolution] = field(default_factory=dict)
    turns: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """Real folder → name in it → the followed files that take this turn."""
    identities: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """(st_dev, st_ino) of each folder of `turns` from before it was watched; None when it cannot be asked."""
    trimmed: frozenset[str] = frozenset()
    """Names whose last turn is not taken: folders that are watched anyway."""

    def below(self, places: set[str]) -> set[str]:
        """The followed files with a turn in one of these folders, or anywhere below."""
        return {
            path
            for folder, names in self.turns.items()
            if is_below(folder, places)
            for paths in names.values()
            for path in paths
        }


def identity(path: str) -> tuple[int, int] | None:
    """(st_dev, st_ino) of what is at the path, links followed; None when nothing can be found there."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_below(path: str, places: set[str]) -> bool:
    """Whether the path is one of the places or lies below one. Absolute and normal paths."""
    while path not in places:
        parent = os.path.dirname(path)  # noqa: PTH120
        if parent == path:
            return False
        path = parent
    return True


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
                mode = os.lstat(place).st_mode
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


def follow(
    before: FollowedFiles,
    files: frozenset[str],
    anchors: AbstractSet[str],
    again: AbstractSet[str],
    watch: Callable[[str], bool],
    stopped: Callable[[], bool],
) -> tuple[FollowedFiles, set[str]]:
    """Follow the files, and the anchors (roots, links to folders) as far as they can come to lead elsewhere.

    What is new or in `again` is resolved, each folder of a turn watched before the last look at it. Returns also the
    paths that were resolved before and lead elsewhere now, came, or vanished; and those that came while this ran.
    """
    trimmed = frozenset(anchors - files)
    edit = _FollowedFilesEdit(before)
    unwanted = before.resolutions.keys() - files - trimmed
    pending = set((files | trimmed) - before.resolutions.keys())
    pending |= ((again - unwanted) | (before.trimmed ^ trimmed)) & (files | trimmed)
    for path in unwanted | pending:
        edit.leave(path)
    watched = set(edit.turns)
    identities: dict[str, tuple[int, int] | None] = {}
    different: set[str] = set()
    for _ in range(LINKS_LIMIT):
        known: dict[str, str | None] = {}
        fresh: set[str] = set()
        for path in pending:
            found = resolve(path, known)
            if path in trimmed and found.exists and os.path.isdir(path):  # noqa: PTH112
                found = PathResolution(found.turns[:-1], exists=True)  # the folder itself is watched anyway
            old = edit.leave(path) or before.resolutions.get(path)
            if old is not None and old != found and (old.exists or found.exists):
                different.add(path)
            edit.enter(path, found)
            fresh.update(folder for folder, _ in found.turns)
        fresh -= watched
        watched |= fresh
        for folder in fresh:
            identities[folder] = identity(folder)
            watch(folder)
        # What was missing may have come between the look and the watch: look again behind the new watches.
        pending = {path for path in pending if any(folder in fresh for folder, _ in edit.resolutions[path].turns)}
        if not pending or stopped():
            break
    kept = {folder: number for folder, number in before.identities.items() if folder in edit.turns}
    kept.update((folder, number) for folder, number in identities.items() if folder in edit.turns)
    return FollowedFiles(edit.resolutions, edit.turns, kept, trimmed), different


class _FollowedFilesEdit:
    """Copies of the two tables. Only the folders that change are copied in full: ten thousand files may be followed,
    and each compile adds or drops a few."""

    def __init__(self, before: FollowedFiles) -> None:
        self.resolutions = before.resolutions.copy()
        self.turns = before.turns.copy()
        self._own: set[str] = set()

    def leave(self, path: str) -> PathResolution | None:
        resolution = self.resolutions.pop(path, None)
        if resolution is not None:
            for folder, name in dict.fromkeys(resolution.turns):
                names = self._names(folder)
                names[name] = tuple(other for other in names[name] if other != path)
                if not names[name]:
                    del names[name]
                if not names:
                    del self.turns[folder]
        return resolution

    def enter(self, path: str, resolution: PathResolution) -> None:
        self.resolutions[path] = resolution
        for folder, name in dict.fromkeys(resolution.turns):
            names = self._names(folder)
            names[name] = (*names.get(name, ()), path)

    def _names(self, folder: str) -> dict[str, tuple[str, ...]]:
        if folder not in self._own or folder not in self.turns:
            self._own.add(folder)
            self.turns[folder] = self.turns.get(folder, {}).copy()
        return self.turns[folder]


NAMES_LIMIT = 8
"""Links may multiply names without end (a link to a folder above it); nobody uses more of them than this."""


@dataclass(frozen=True, slots=True)
class WatchedRoot:
    """A watched root as it was found: its real path, and (st_dev, st_ino) of it."""

    real: str
    identity: tuple[int, int]


def find_root(name: str) -> WatchedRoot | None:
    """The folder at an absolute path, or None."""
    found = identity(name)
    return WatchedRoot(os.path.realpath(name), found) if found is not None and os.path.isdir(name) else None  # noqa: PTH112


@dataclass(slots=True)
class WatchedTree:
    """Changed only while it is being made, in one thread; after that it is read."""

    roots: dict[str, WatchedRoot | None] = field(default_factory=dict)
    """Each root by the name that was asked for; None when there is nothing at that name."""
    folders: set[str] = field(default_factory=set)
    links: dict[str, str | None] = field(default_factory=dict)
    """Places of links to folders, and the real paths that they lead to; none for those that lead nowhere."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """Real paths of roots and of links' targets, and what they are called."""
    _aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def copy(self) -> WatchedTree:
        """One that can be changed."""
        names = {real: list(names) for real, names in self.names.items()}
        return WatchedTree(dict(self.roots), set(self.folders), dict(self.links), names)

    def anchors(self) -> set[str]:
        """What can come to lead to another folder: the names of roots, the places of links."""
        return self.roots.keys() | self.links.keys()

    def aliases(self, folder: str) -> tuple[str, ...]:
        """The names of a watched folder; none when it is not in the tree."""
        found = self._aliases.get(folder)
        if found is None:
            found = self._aliases[folder] = tuple(self._named(folder)) if folder in self.folders else ()
        return found

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


def survey_tree(roots: frozenset[str], watch: Callable[[str], bool], stopped: Callable[[], bool]) -> WatchedTree:
    """Walk the roots and watch every folder before its content is looked at.

    So whatever is made in a folder meanwhile is either found or reported. `watch` says whether it could be watched.
    """
    tree = WatchedTree()
    for name in sorted(roots):
        root = tree.roots[name] = find_root(name)
        if root is not None:
            tree.names.setdefault(root.real, []).append(name)
            _walk(tree, root.real, watch, stopped)
    return tree


def grow_tree(
    tree: WatchedTree, gone: set[str], newcomers: set[str], watch: Callable[[str], bool], stopped: Callable[[], bool]
) -> WatchedTree | None:
    """The tree without the folders at or below `gone`, and with those at or below `newcomers` (places in it).

    None when a link went with what is gone: then names are no longer right, and only a new survey tells which.
    """
    arrived = [place for place in newcomers if _is_folder_or_link(place)]
    if gone:
        gone = {place for place in gone if place in tree.folders}
    if not arrived and not gone:
        return tree
    if gone and any(is_below(place, gone) for place in tree.links):
        return None
    tree = tree.copy()
    if gone:
        tree.folders = {folder for folder in tree.folders if not is_below(folder, gone)}
    for place in arrived:
        parent, name = os.path.split(place)
        if parent not in tree.folders or is_skipped(name):
            continue
        target = _take_link(tree, place) if os.path.islink(place) else place  # noqa: PTH114
        if target is not None:
            _walk(tree, target, watch, stopped)
    return tree


def _is_folder_or_link(place: str) -> bool:
    try:
        mode = os.lstat(place).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) or (stat.S_ISLNK(mode) and not os.path.isfile(place))  # noqa: PTH113


def _walk(tree: WatchedTree, real: str, watch: Callable[[str], bool], stopped: Callable[[], bool]) -> None:
    waiting = [real]
    while waiting and not stopped() and len(tree.folders) < FOLDERS_LIMIT:
        folder = waiting.pop()
        if folder in tree.folders or not watch(folder):
            continue
        try:
            with os.scandir(folder) as entries:
                inside = list(entries)
        except OSError:
            continue  # it vanished, or may not be listed
        if folder != real and any(entry.name == VIRTUAL_ENVIRONMENT for entry in inside):
            continue
        tree.folders.add(folder)
        for entry in inside:
            if is_skipped(entry.name):
                continue
            place = f"{folder}/{entry.name}" if folder != "/" else f"/{entry.name}"
            if entry.is_symlink():
                if not os.path.isfile(place):  # noqa: PTH113
                    target = _take_link(tree, place)
                    if target is not None:
                        waiting.append(target)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(place)


def _take_link(tree: WatchedTree, place: str) -> str | None:
    """Note a link that does not lead to a file: where it leads, and what the folder there is called through it."""
    target = os.path.realpath(place) if os.path.isdir(place) else None  # noqa: PTH112
    tree.links[place] = target
    if target is None:
        return None
    parent, name = os.path.split(place)
    names = tree.names.setdefault(target, [])
    for alias in tree.aliases(parent):
        called = f"{alias}/{name}" if alias != "/" else f"/{name}"
        if called not in names and len(names) < NAMES_LIMIT:
            names.append(called)
    tree._aliases.clear()
    return target
