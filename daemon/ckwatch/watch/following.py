"""Single files that are followed by name, and where the file system decides what that name means.

A name leads through folders and links to a file, or stops where something is missing. Each place on the way that can
make it lead elsewhere by one event is a *turn*: a link, the missing piece, the file itself. Watching the folders of the
turns is enough to notice a save behind a link, a link that is set anew, and a file that appears together with its
folders.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

LINKS_LIMIT = 40
"""As many links in one name as Linux follows."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """Where a name leads: its turns as (real folder, name in it), the last one being the file or the missing piece."""

    turns: tuple[tuple[str, str], ...]
    exists: bool


@dataclass(frozen=True, slots=True)
class Following:
    """Followed files with their turns. Never changed: a new one is made where something changed."""

    resolutions: dict[str, Resolution] = field(default_factory=dict)
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


def resolve(path: str, known: dict[str, str | None] | None = None) -> Resolution:
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
                return Resolution(tuple(turns), exists=False)
            if target is None and not stat.S_ISDIR(mode):
                turns.append((real, name))
                return Resolution(tuple(turns), exists=not any(part not in ("", ".") for part in rest))
            known[place] = target
        if target is None:
            if not rest:
                turns.append((real, name))
            real = place
        else:
            turns.append((real, name))
            links += 1
            if links > LINKS_LIMIT:
                return Resolution(tuple(turns), exists=False)
            if target.startswith("/"):
                real = "/"
            rest += target.split("/")[::-1]
    return Resolution(tuple(turns), exists=True)


def follow(
    before: Following,
    files: frozenset[str],
    anchors: AbstractSet[str],
    again: AbstractSet[str],
    watch: Callable[[str], bool],
    stopped: Callable[[], bool],
) -> tuple[Following, set[str]]:
    """Follow the files, and the anchors (roots, links to folders) as far as they can come to lead elsewhere.

    What is new or in `again` is resolved, each folder of a turn watched before the last look at it. Returns also the
    paths that were resolved before and lead elsewhere now, came, or vanished; and those that came while this ran.
    """
    trimmed = frozenset(anchors - files)
    edit = _Edit(before)
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
                found = Resolution(found.turns[:-1], exists=True)  # the folder itself is watched anyway
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
    return Following(edit.resolutions, edit.turns, kept, trimmed), different


class _Edit:
    """Copies of the two tables. Only the folders that change are copied in full: ten thousand files may be followed,
    and each compile adds or drops a few."""

    def __init__(self, before: Following) -> None:
        self.resolutions = before.resolutions.copy()
        self.turns = before.turns.copy()
        self._own: set[str] = set()

    def leave(self, path: str) -> Resolution | None:
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

    def enter(self, path: str, resolution: Resolution) -> None:
        self.resolutions[path] = resolution
        for folder, name in dict.fromkeys(resolution.turns):
            names = self._names(folder)
            names[name] = (*names.get(name, ()), path)

    def _names(self, folder: str) -> dict[str, tuple[str, ...]]:
        if folder not in self._own or folder not in self.turns:
            self._own.add(folder)
            self.turns[folder] = self.turns.get(folder, {}).copy()
        return self.turns[folder]
