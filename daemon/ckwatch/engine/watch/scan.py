"""Scans the disk in a worker thread: which folders there are, and where names lead."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ckwatch.engine.watch.events import WatchEvents
from ckwatch.engine.watch.inotify import Inotify
from ckwatch.engine.watch.paths import (
    FollowedFiles,
    WatchedTree,
    find_root,
    follow,
    grow_tree,
    identity,
    is_below,
    survey_tree,
)
from ckwatch.engine.watch.polling import FolderPoller

EXHAUSTED_ERRORS = frozenset({errno.ENOSPC, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSYS})
"""Errors that say that inotify has no more to give, not that there is something wrong with the folder."""


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What is to be watched: folders with everything in them, and single files."""

    folders: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()


@dataclass(slots=True)
class RescanTask:
    """What has to be looked at, gathered from events until there is time for it."""

    everything: bool = False
    """Walk all roots again."""
    promote: bool = False
    """Try to watch what is polled."""
    gone: set[str] = field(default_factory=set)
    """Places of folders that were deleted or moved; another may be there by now."""
    newcomers: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)
    """Followed files whose names may lead elsewhere now."""

    def __bool__(self) -> bool:
        return self.everything or self.promote or bool(self.gone or self.newcomers or self.again)


@dataclass(frozen=True, slots=True)
class WatchedState:
    """What there is, every folder of it watched."""

    wanted: WatchRequest = field(default_factory=WatchRequest)
    tree: WatchedTree = field(default_factory=WatchedTree)
    following: FollowedFiles = field(default_factory=FollowedFiles)
    above: frozenset[str] = frozenset()
    """Folders above those that are watched. Renamed or deleted, they take the watched ones with them; what else
    happens in them is nobody's business."""

    def folders(self) -> set[str]:
        """All folders that have to be watched for something."""
        return self.tree.folders | self.following.turns.keys() | self.above


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The outcome of a look."""

    seen: WatchedState
    changed: frozenset[str]
    """What was found to be different from the last look, events or not."""
    lost: bool
    """A root came back, or is another folder now."""
    polled: WatchEvents
    """The last that polling saw of folders that inotify has taken over."""


class Scanner:
    """Looks, and watches each folder before it does. One look at a time."""

    def __init__(self, polling: FolderPoller, stopped: Callable[[], bool]) -> None:
        self.inotify: Inotify | None = None
        self.shortage: OSError | None = None
        """Why the last folder that had to be polled could not be watched."""
        self._polling = polling
        self._stopped = stopped

    def look(self, before: WatchedState, wanted: WatchRequest, chore: RescanTask) -> ScanResult:
        """Bring what was seen before up to date. Cheap when little is asked for."""
        promoted = self._promote() if chore.promote else WatchEvents([])
        tree: WatchedTree | None = None
        if not chore.everything and wanted.folders == before.wanted.folders:
            tree = grow_tree(before.tree, chore.gone, chore.newcomers, self.watch, self._stopped)
        if tree is None:
            tree = survey_tree(wanted.folders, self.watch, self._stopped)
        changed, lost = _compare_roots(before.tree, tree, chore.gone)
        changed |= _compare_links(before.tree, tree)
        again = chore.again
        if tree is not before.tree:
            again = again | _moved_anchors(before.tree, tree)
        following, different = before.following, set[str]()
        if again or wanted != before.wanted or tree.links.keys() != before.tree.links.keys():
            following, different = follow(following, wanted.files, tree.anchors(), again, self.watch, self._stopped)
        changed |= different & wanted.files
        above = before.above
        if tree is not before.tree or following is not before.following:
            above = self._watch_above(
                before.above if not chore.everything else frozenset(), chore.gone, tree, following
            )
        return ScanResult(WatchedState(wanted, tree, following, above), frozenset(changed), lost, promoted)

    def watch(self, folder: str) -> bool:
        """Watch one folder by inotify, else by polling; false when it cannot be read or has vanished."""
        if self.inotify is not None:
            try:
                self.inotify.add(folder)
            except OSError as error:
                if error.errno not in EXHAUSTED_ERRORS:
                    return False
                self.shortage = error
            else:
                return True
        try:
            self._polling.add(folder)
        except OSError:
            return False
        return True

    def stale(self, seen: WatchedState) -> tuple[bool, set[str]]:
        """Whether a root is not what it was, and which folders of followed files are not."""
        identities = seen.following.identities
        folders = {folder for folder, known in identities.items() if identity(folder) != known}
        return any(find_root(name) != root for name, root in seen.tree.roots.items()), folders

    def _watch_above(
        self, before: frozenset[str], gone: set[str], tree: WatchedTree, following: FollowedFiles
    ) -> frozenset[str]:
        watched = tree.folders | following.turns.keys()
        tops = {root.real for root in tree.roots.values() if root is not None}
        tops.update(target for target in tree.links.values() if target is not None)
        above: set[str] = set()
        for folder in tops | following.turns.keys():
            place = os.path.dirname(folder)  # noqa: PTH120
            while place not in above:
                above.add(place)
                place = os.path.dirname(place)  # noqa: PTH120
        above -= watched
        if self.inotify is not None:
            for place in above - {place for place in before if not is_below(place, gone)}:
                with contextlib.suppress(OSError):  # the check finds out, only later
                    self.inotify.add(place, only_itself=True)
        return frozenset(above)

    def _promote(self) -> WatchEvents:
        taken: list[str] = []
        if self.inotify is not None:
            for folder in self._polling.watched():
                try:
                    self.inotify.add(folder)
                except OSError as error:
                    if error.errno in EXHAUSTED_ERRORS:
                        self.shortage = error
                        break
                else:
                    taken.append(folder)
        reading = self._polling.scan(taken, self._stopped)
        self._polling.remove(taken)
        return reading


def _compare_roots(before: WatchedTree, now: WatchedTree, gone: set[str]) -> tuple[set[str], bool]:
    """The names of known roots that came, went or are other folders; whether one of them is there now.

    A folder that was deleted and made again may have its inode number again: `gone` tells.
    """
    different = set[str]()
    for name, root in now.roots.items():
        if name in before.roots and (before.roots[name] != root or (root is not None and is_below(root.real, gone))):
            different.add(name)
    return different, any(now.roots[name] is not None for name in different)


def _compare_links(before: WatchedTree, now: WatchedTree) -> set[str]:
    """The names of links that lead to another folder, to one at last, or to none any more."""
    if before is now or before.links == now.links:
        return set()
    changed = set[str]()
    for place, target in before.links.items():
        if place in now.links and now.links[place] != target:
            parent, name = os.path.split(place)
            changed.update(f"{alias}/{name}" for alias in now.aliases(parent))
    return changed


def _moved_anchors(before: WatchedTree, now: WatchedTree) -> set[str]:
    roots = {name for name, root in now.roots.items() if before.roots.get(name) != root}
    return roots | {place for place, target in now.links.items() if before.links.get(place) != target}
