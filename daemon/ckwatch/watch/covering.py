"""Which folders `watchfiles` has to be given, and from when on it can be relied upon for one of them.

It takes a fixed set of paths: another set is another instance of it, whose constructor walks all folders. So a folder
that matters is polled first, and left to watchfiles only when an instance has covered it for a moment: nothing that
happens before is lost, however long that takes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ckwatch.watch.following import identity, is_below
from ckwatch.watch.happening import APPEARED, CHANGED, FOLDER, VANISHED, Happening, Reading
from ckwatch.watch.looking import Chore, Look, Looker, Seen, Wanted
from ckwatch.watch.polling import Polling

Folders = dict[str, tuple[int, int]]
"""Real paths of folders with (st_dev, st_ino) of each from before it was watched."""


@dataclass(slots=True)
class Cover:
    """Folders that are watched with everything in them, and single ones outside of those."""

    trees: Folders = field(default_factory=dict)
    singles: Folders = field(default_factory=dict)

    def covers(self, folder: str) -> bool:
        """Whether what happens in this folder (a real path) is told. Asks the file system."""
        known = self.singles.get(folder)
        place = folder
        while known is None and (known := self.trees.get(place)) is None:
            place, below = os.path.dirname(place), place  # noqa: PTH120
            if place == below:
                return False
        return identity(place) == known

    def lose(self, gone: set[str]) -> None:
        """Forget what is at or below these places; another folder may be there by now."""
        for folders in (self.trees, self.singles):
            for folder in [folder for folder in folders if is_below(folder, gone)]:
                del folders[folder]


class CoveredLooker(Looker):
    """Looks at the disk as for inotify, but polls each folder until it is known to be covered."""

    def __init__(self, polling: Polling, stopped: Callable[[], bool]) -> None:
        super().__init__(polling, stopped)
        self.cover = Cover()
        """What is watched now."""
        self.wanted = Cover()
        """What was found to be needed by the last look."""
        self.one_by_one = False
        """Whether folders are named one by one, because what is in one of them may not be watched."""
        self.due: frozenset[str] = frozenset()
        """Polled folders that have been covered for long enough, if they are covered at all."""
        self.lost: set[str] = set()
        """Where folders were deleted or moved since the last look began."""
        self._sure: set[str] = set()

    def look(self, before: Seen, wanted: Wanted, chore: Chore) -> Look:
        """Bring what was seen before up to date, and find out what has to be covered for it."""
        self.lost = set()
        look = super().look(before, wanted, chore)
        self.wanted = self._needed(look.seen)
        return look

    def watch(self, folder: str) -> bool:
        """Poll a folder unless it is known to be covered; false when it cannot be read or has vanished."""
        if folder in self._sure and self.cover.covers(folder):
            return True
        self._sure.discard(folder)
        try:
            self._polling.add(folder)
        except OSError:
            return False
        return True

    def lose(self, gone: set[str]) -> None:
        """Rely no more on what is at or below these places."""
        self.lost |= gone
        self.cover.lose(gone)
        self._sure = {folder for folder in self._sure if not is_below(folder, gone)}

    def promote(self, folders: Iterable[str]) -> Reading:
        """Poll the covered ones of these no more, after a last look at them."""
        taken = [folder for folder in folders if self.cover.covers(folder)]
        reading = self._polling.scan(taken, self._stopped)
        self._polling.remove(taken)
        self._sure.update(taken)
        return reading

    def _promote(self) -> Reading:
        return self.promote(self._polling.watched() & self.due)

    def _needed(self, seen: Seen) -> Cover:
        tree = seen.tree
        tops = {root.real for root in tree.roots.values() if root is not None}
        tops.update(target for target in tree.links.values() if target is not None)
        singles = set(seen.following.turns)
        if self.one_by_one:
            singles |= tree.folders
            tops.clear()
        tops = {top for top in tops if top in tree.folders and not is_below(os.path.dirname(top), tops - {top})}  # noqa: PTH120
        # One folder without permission would end the walk over all of them.
        singles = {folder for folder in singles if not is_below(folder, tops) and os.access(folder, os.R_OK)}
        return Cover(_identified(tops), _identified(singles))


def _identified(folders: set[str]) -> Folders:
    return {folder: found for folder in folders if (found := identity(folder)) is not None}


def translate(changes: dict[str, int], seen: Seen) -> Reading:
    """What happened in the folders that matter. `changes`: paths and the bits of what was said of each.

    The library tells neither the order of changes nor what is a folder, and names places behind links as it came
    across them: all of that is asked of the file system, in a worker thread.
    """
    tree, following = seen.tree, seen.following
    links = set(tree.links)
    real: dict[str, str] = {}
    happenings: list[Happening] = []
    for path, what in changes.items():
        folder, name = os.path.split(path)
        if folder not in real:
            real[folder] = os.path.realpath(folder) if is_below(folder, links) else folder
        folder = real[folder]
        place = f"{folder}/{name}" if folder != "/" else f"/{name}"
        known = place in tree.folders or place in following.turns
        if known or folder in tree.folders or folder in following.turns:
            happenings += _happened(folder, name, place, what, known=known)
    return Reading(happenings)


def _happened(folder: str, name: str, place: str, what: int, *, known: bool) -> list[Happening]:
    there = os.path.lexists(place)
    is_folder = there and os.path.isdir(place) and not os.path.islink(place)  # noqa: PTH112, PTH114
    happened: list[Happening] = []
    if known and (what & (APPEARED | VANISHED) or not is_folder):
        happened.append((folder, name, VANISHED | FOLDER))
    if is_folder:
        if not known or what & (APPEARED | VANISHED):
            happened.append((folder, name, FOLDER | (APPEARED if what & (APPEARED | VANISHED) else CHANGED)))
    elif there:
        happened.append((folder, name, what))
    elif not known:
        happened.append((folder, name, VANISHED))
    return happened
