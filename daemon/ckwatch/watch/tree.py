"""Folders that are watched with everything in them, and the names that a place in them has.

Only real folders are watched, each once, however many links lead to it. A place is reported under each name that leads
there from a watched root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from ckwatch.config.kernel_globs import FOLDERS_LIMIT, VIRTUAL_ENVIRONMENT, is_skipped
from ckwatch.watch.following import identity, is_below

NAMES_LIMIT = 8
"""Links may multiply names without end (a link to a folder above it); nobody uses more of them than this."""


@dataclass(frozen=True, slots=True)
class Root:
    """A watched root as it was found: its real path, and (st_dev, st_ino) of it."""

    real: str
    identity: tuple[int, int]


def find_root(name: str) -> Root | None:
    """The folder at an absolute path, or None."""
    found = identity(name)
    return Root(os.path.realpath(name), found) if found is not None and os.path.isdir(name) else None  # noqa: PTH112


@dataclass(slots=True)
class Tree:
    """Changed only while it is being made, in one thread; after that it is read."""

    roots: dict[str, Root | None] = field(default_factory=dict)
    """Each root by the name that was asked for; None when there is nothing at that name."""
    folders: set[str] = field(default_factory=set)
    links: dict[str, str | None] = field(default_factory=dict)
    """Places of links to folders, and the real paths that they lead to; none for those that lead nowhere."""
    names: dict[str, list[str]] = field(default_factory=dict)
    """Real paths of roots and of links' targets, and what they are called."""
    _aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def copy(self) -> Tree:
        """One that can be changed."""
        names = {real: list(names) for real, names in self.names.items()}
        return Tree(dict(self.roots), set(self.folders), dict(self.links), names)

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


def survey(roots: frozenset[str], watch: Callable[[str], bool], stopped: Callable[[], bool]) -> Tree:
    """Walk the roots and watch every folder before its content is looked at.

    So whatever is made in a folder meanwhile is either found or reported. `watch` says whether it could be watched.
    """
    tree = Tree()
    for name in sorted(roots):
        root = tree.roots[name] = find_root(name)
        if root is not None:
            tree.names.setdefault(root.real, []).append(name)
            _walk(tree, root.real, watch, stopped)
    return tree


def grow(
    tree: Tree, gone: set[str], newcomers: set[str], watch: Callable[[str], bool], stopped: Callable[[], bool]
) -> Tree | None:
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


def _walk(tree: Tree, real: str, watch: Callable[[str], bool], stopped: Callable[[], bool]) -> None:
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


def _take_link(tree: Tree, place: str) -> str | None:
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
