"""What is known of everything that is watched, compared with the disk.

For each folder that is watched with everything in it the snapshot has a listing with a stamp of each name, for each
file that is followed by its name a stamp and its turns. Whether an event named a place or a scan came to it, it is
reported exactly when it differs from the snapshot, which then has what is there now. So an event may come twice, late,
under another name or not at all: what it says is found out anyway, once.

Nothing here knows of time or events: `Snapshot` is used by one worker thread at a time.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from ckwatch.engine.watch.paths import (
    Listing,
    PathResolution,
    Stamp,
    WatchedTree,
    identity,
    is_below,
    is_folder,
    is_listed,
    join,
    resolve,
    stamp_of,
    survey_tree,
)
from ckwatch.system.user_files import file_status, is_file, link_status
from ckwatch.system.user_files import is_folder as at_folder

Identities: TypeAlias = dict[str, tuple[int, int]]
"""Real paths of folders, with (st_dev, st_ino) of each."""

Hints: TypeAlias = Mapping[str, bool]
"""Paths at which something may have happened, and whether what was there is known to have gone."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What is to be watched: folders with everything in them, and single files."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Coverage:
    """Folders from which events are needed: of everything in them, or of what lies directly in them."""

    trees: Identities = field(default_factory=dict)
    singles: Identities = field(default_factory=dict)

    def of(self, recursive: bool) -> Identities:
        """Those of everything in them, or the others."""
        return self.trees if recursive else self.singles

    def is_outdated(self) -> bool:
        """Whether another folder is at the place of one of these, or none."""
        folders = {**self.trees, **self.singles}
        return any(identity(folder) != known for folder, known in folders.items())


@dataclass(slots=True)
class Differences:
    """What is not as it was."""

    paths: set[str] = field(default_factory=set)
    """By the names that are watched."""
    lost: bool = False
    """A root came back, or was replaced by a different folder."""
    renew: bool = False
    """Something that events came from is gone, or a link leads elsewhere: events may be missing from now on."""
    new_folders: set[str] = field(default_factory=set)
    """Real paths. Events of what was made in them at first may be missing."""
    young: set[str] = field(default_factory=set)
    """Places that changed a moment ago, and may be changing still."""
    newest_ns: int = 0
    """The time of day of the last change, in ns."""

    def add(self, other: Differences) -> None:
        """Merge what was found after this."""
        self.paths |= other.paths
        self.lost |= other.lost
        self.renew |= other.renew
        self.new_folders |= other.new_folders
        self.young |= other.young
        self.newest_ns = max(self.newest_ns, other.newest_ns)


class Snapshot:
    """What is watched, as it was when it was last compared. `stopped` ends a scan early, which counts for nothing.

    What changed within the last `settle_s` is reported as young.
    """

    def __init__(self, settle_s: float, stopped: Callable[[], bool] = lambda: False) -> None:
        self.request = WatchRequest()
        self.tree = WatchedTree()
        self.one_by_one = False
        """Whether folders are covered one by one, as something in one of them cannot be."""
        self._settle_ns = int(settle_s * 1e9)
        self._stopped = stopped
        self._resolutions: dict[str, PathResolution] = {}
        """Of followed files, and of roots and links, as far as they may come to lead elsewhere."""
        self._stamps: dict[str, Stamp | None] = {}
        """Of followed files."""
        self._turns: dict[str, dict[str, set[str]]] = {}
        """Real folder → name in it → what takes this turn."""
        self._needed = Coverage()
        self._moved = True
        """Whether other folders may be needed."""

    def follow(self, request: WatchRequest) -> Differences:
        """Watch something else; what differs of that which was watched before and still is."""
        found = Differences()
        before, self.request = self.request, request
        self._moved = True
        if request.folders != before.folders:
            self._survey(found)
            kept = before.folders & request.folders
            found.paths = {path for path in found.paths if is_below(path, kept)}
            found.new_folders.clear()
        anchors = self.tree.anchors()
        for path in self._resolutions.keys() - request.files - anchors:
            self._leave(path)
        for path in self._stamps.keys() - request.files:
            del self._stamps[path]
        known = self._resolutions.keys() & (self._stamps.keys() | (anchors - request.files))
        self._resolve((request.files | anchors) - known, found)
        return found

    def scan(self) -> Differences:
        """Compare everything."""
        found = Differences()
        self._moved = True
        self._survey(found)
        now_ns = time.time_ns()
        other = {path for path, old in self._stamps.items() if old is None or _stamp(path, now_ns) != old}
        self._resolve(other | self.tree.anchors(), found)
        return found

    def look(self, hints: Hints) -> Differences:
        """Compare these places; folders with everything below."""
        found = Differences()
        again: set[str] = set()
        moved: set[str] = set()
        walked: set[str] = set()
        lost_tops: set[str] = set()
        survey = False
        tops = self.tree.tops()
        self._moved |= any(hints.values())
        for path, gone in hints.items():
            folder, name = os.path.split(path)
            folder = self._real(folder)
            place = join(folder, name)
            again |= self._turns.get(folder, {}).get(name, set())
            if path in self._stamps:
                again.add(path)
            if gone and place in tops:
                lost_tops.add(place)
            if gone or place in self._turns:
                moved.add(place)
                found.renew |= gone and (place in tops or place in self._turns or self.one_by_one)
            if folder in self.tree.folders:
                survey |= self._look_at(folder, name, gone, found, walked)
            elif place in self.tree.folders:
                walked.add(place)
        if moved:
            again |= {
                path
                for folder, names in self._turns.items()
                if is_below(folder, moved)
                for paths in names.values()
                for path in paths
            }
        survey |= bool(lost_tops or again & self.tree.anchors()) or any(
            is_below(link, walked) for link in self.tree.links
        )
        self._resolve(again, found)
        if survey:
            self._survey(found, lost_tops)
            self._resolve(self.tree.anchors(), found)
        elif walked:
            self._walk(walked, found)
        return found

    def concerns(self, path: str) -> bool:
        """Whether something may differ if something happens there. Not known while a comparison runs."""
        folder, name = os.path.split(path)
        return (
            folder in self.tree.folders
            or name in self._turns.get(folder, ())
            or path in self._turns
            or path in self.tree.folders
            or (bool(self.tree.links) and is_below(folder, self.tree.links.keys()))
        )

    def needed(self) -> Coverage:
        """The folders from which events are needed, as they were when something differed last."""
        if not self._moved:
            return self._needed
        self._moved = False
        tops = self.tree.tops()
        singles = set(self._turns)
        if self.one_by_one:
            singles |= self.tree.folders.keys()
            tops.clear()
        tops = {top for top in tops if top in self.tree.folders and not is_below(os.path.dirname(top), tops - {top})}  # noqa: PTH120
        # One folder that may not be read would end the beginning of all.
        singles = {folder for folder in singles if not is_below(folder, tops) and os.access(folder, os.R_OK)}
        self._needed = Coverage(_identities(tops), _identities(singles))
        return self._needed

    # Folders with everything in them

    def _survey(self, found: Differences, lost_tops: AbstractSet[str] = frozenset()) -> None:
        """Walk all. A folder of `lost_tops` that exists is a new one, even if it has the inode of the old one."""
        old, new = self.tree, survey_tree(self.request.folders, self._stopped, self.tree.folders)
        if self._stopped():
            return
        self.tree, self._moved = new, True
        self._compare(old.folders, new.folders, old, found)
        for name, root in new.roots.items():
            if name in old.roots and (old.roots[name] != root or (root is not None and root.real in lost_tops)):
                found.paths.add(name)
                found.lost |= root is not None
        for place, target in new.links.items():
            if target in lost_tops:
                found.paths |= new.names_of(place)
        if old.links != new.links:
            found.renew = True
            for place in old.links.keys() & new.links.keys():
                if old.links[place] != new.links[place]:
                    found.paths |= new.names_of(place)
        for path in old.anchors() - new.anchors() - self.request.files:
            self._leave(path)

    def _compare(
        self, old: Mapping[str, Listing], new: Mapping[str, Listing], before: WatchedTree, found: Differences
    ) -> None:
        now_ns = time.time_ns()
        for folder in old.keys() & new.keys():
            was, there = old[folder], new[folder]
            if was != there:
                for name in was.keys() | there.keys():
                    if was.get(name) != there.get(name):
                        place = join(folder, name)
                        self._note(
                            before.names_of(place) | self.tree.names_of(place), place, there.get(name), now_ns, found
                        )
        removed, added = old.keys() - new.keys(), new.keys() - old.keys()
        for folder in removed:
            if os.path.dirname(folder) not in removed:  # noqa: PTH120
                found.paths.update(before.aliases(folder))
        for folder in added:
            if os.path.dirname(folder) not in added:  # noqa: PTH120
                found.new_folders.add(folder)
                found.paths.update(self.tree.aliases(folder))

    def _look_at(self, folder: str, name: str, gone: bool, found: Differences, walked: set[str]) -> bool:
        """Compare a name in a watched folder. Folders are left to be walked; true when it is a matter of links."""
        place = join(folder, name)
        listing = self.tree.folders[folder]
        now_ns = time.time_ns()
        old, new = listing.get(name), _entry(place, now_ns)
        if new is not None and not is_listed(name, new):
            new = None
        if old != new or (gone and is_folder(old)):
            self._note(self.tree.names_of(place), place, new, now_ns, found)
            if new is None:
                listing.pop(name, None)
            else:
                listing[name] = new
        if is_folder(old) or is_folder(new):
            walked.add(place)
        leads = new is not None and stat.S_ISLNK(new[0]) and old != new and not is_file(place)
        return leads or place in self.tree.links

    def _walk(self, places: set[str], found: Differences) -> None:
        """Compare folders with everything below that are in a watched folder or are watched themselves."""
        self._moved = True
        links = len(self.tree.links)
        old = self.tree.drop(places)
        new: dict[str, Listing] = {}
        for place in places:
            folder, name = os.path.split(place)
            if is_folder(self.tree.folders.get(folder, {}).get(name)) or place in self.tree.names:
                new |= self.tree.walk(place, self._stopped, old)
        self._compare(old, new, self.tree, found)
        if len(self.tree.links) != links:
            found.renew = True
            self._resolve(self.tree.anchors() - self._resolutions.keys(), found)

    def _real(self, folder: str) -> str:
        if folder in self.tree.folders or not self.tree.links or not is_below(folder, self.tree.links.keys()):
            return folder
        return os.path.realpath(folder)

    # Files that are followed by name, and what may come to lead elsewhere

    def _resolve(self, paths: Iterable[str], found: Differences) -> None:
        now_ns = time.time_ns()
        known: dict[str, str | None] = {}
        anchors = self.tree.anchors()
        for path in paths:
            resolution = resolve(path, known)
            if path in self.request.files:
                stamp = _stamp(path, now_ns)
                if path in self._stamps and stamp != self._stamps[path]:
                    self._note({path}, path, stamp, now_ns, found)
                self._stamps[path] = stamp
            elif path in anchors and resolution.exists and at_folder(path):
                resolution = PathResolution(resolution.turns[:-1], exists=True)  # the folder itself is covered anyway
            if self._resolutions.get(path) != resolution:
                self._moved = True
                self._leave(path)
                self._resolutions[path] = resolution
                for folder, name in resolution.turns:
                    self._turns.setdefault(folder, {}).setdefault(name, set()).add(path)

    def _leave(self, path: str) -> None:
        resolution = self._resolutions.pop(path, None)
        for folder, name in dict.fromkeys(resolution.turns if resolution is not None else ()):
            names = self._turns[folder]
            names[name].discard(path)
            if not names[name]:
                del names[name]
            if not names:
                del self._turns[folder]

    def _note(self, names: AbstractSet[str], place: str, stamp: Stamp | None, now_ns: int, found: Differences) -> None:
        if not names:
            return
        found.paths |= names
        changed_ns = now_ns if stamp is None else min(abs(stamp[4]), now_ns) or now_ns
        found.newest_ns = max(found.newest_ns, changed_ns)
        if now_ns - changed_ns < self._settle_ns:
            found.young.add(place)


def _stamp(path: str, now_ns: int) -> Stamp | None:
    """Of what the path leads to."""
    try:
        return stamp_of(file_status(path), now_ns)
    except OSError:
        return None


def _entry(place: str, now_ns: int) -> Stamp | None:
    try:
        return stamp_of(link_status(place), now_ns)
    except OSError:
        return None


def _identities(folders: AbstractSet[str]) -> Identities:
    return {folder: found for folder in folders if (found := identity(folder)) is not None}
