"""Checks who else can write a file. Templates and kernel files are code: who writes them runs programs as their reader.

Trusting a workspace trusts those who can write its folder, and the folders that its `ckwatch.toml` names: their owners,
and the members of their groups where a group may write. Whoever else can write one of their files, or the folder that
holds it, makes it another user's code. A group that has no other member, as Debian and Fedora give to each user, does
not count.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import file_status, real_path


@dataclass(frozen=True, slots=True)
class Writers:
    """Those who may write what is in `folders` (absolute). `anyone`: the user allows everybody.

    Answers are cached by folder: make a new one for each load of a workspace.
    """

    folders: tuple[str, ...]
    users: frozenset[int]
    groups: frozenset[int]
    anyone: bool = False
    _known: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, folders: Iterable[Path], *, anyone: bool = False) -> Writers:
        """Those who can write the folders themselves, the user and root."""
        names = tuple(str(folder) for folder in folders)
        users, groups = {os.geteuid(), 0}, set()
        for name in names:
            with suppress(OSError):
                status = file_status(name)
                users.add(status.st_uid)
                if status.st_mode & stat.S_IWGRP:
                    groups.add(status.st_gid)
        return cls(names, frozenset(users), frozenset(groups), anyone)

    def refusal(self, path: str, status: os.stat_result | None = None) -> str | None:
        """Why the file at `path` counts as another user's code; None when it is not, or cannot be examined.

        `status` is that of the open file where it has been opened.
        """
        if self.anyone:
            return None
        try:
            found = self._foreign("it", status or file_status(path))
        except OSError:
            return None
        file = real_path(path) if os.path.islink(path) else path  # noqa: PTH114
        return found or self._of_folder(os.path.dirname(file))  # noqa: PTH120

    def foreign(self, paths: Iterable[str], overlays: Container[str], builtin: str) -> tuple[str, str] | None:
        """The first of `paths` that counts as another user's code, and why. Unsaved texts (`overlays`) and what lies in
        the folder `builtin` do not."""
        for path in paths:
            if path not in overlays and not path.startswith(f"{builtin}{os.sep}"):
                refusal = self.refusal(path)
                if refusal is not None:
                    return path, refusal
        return None

    def _of_folder(self, folder: str) -> str | None:
        """The same of the folders around a file, up to one of `folders`: who can write there can replace it."""
        if folder not in self._known:
            self._known[folder] = self._looked_at(real_path(folder))
        return self._known[folder]

    def _looked_at(self, folder: str) -> str | None:
        try:
            status = file_status(folder)
        except OSError:
            return None
        # In a folder with the sticky bit, such as /tmp, only the owner of a file can replace it.
        sticky = bool(status.st_mode & stat.S_ISVTX)
        found = self._foreign(f"its folder {folder}", status, whoever_may_write=not sticky)
        above = os.path.dirname(folder)  # noqa: PTH120
        if found is not None or above == folder or folder in map(os.path.realpath, self.folders):
            return found
        return self._of_folder(above)

    def _foreign(self, what: str, status: os.stat_result, *, whoever_may_write: bool = True) -> str | None:
        if status.st_uid not in self.users:
            return f"{what} belongs to the user {_user_name(status.st_uid)}"
        if not whoever_may_write:
            return None
        if status.st_mode & stat.S_IWOTH:
            return f"every user can write {what}"
        if status.st_mode & stat.S_IWGRP and status.st_gid not in self.groups and (others := _others(status.st_gid)):
            return f"other users can write {what}: {others} of the group {_group_name(status.st_gid)}"
        return None


def _user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


@lru_cache(maxsize=256)
def _others(group: int) -> str:
    """The members of a group apart from the user and root, as names; empty when there is none."""
    own = {_user_name(os.geteuid()), _user_name(0)}
    with suppress(KeyError):
        members = {*grp.getgrgid(group).gr_mem}
        members |= {one.pw_name for one in pwd.getpwall() if one.pw_gid == group}
        others = sorted(members - own)
        return ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
    return "members"  # a group without an entry: who is in it is not known
