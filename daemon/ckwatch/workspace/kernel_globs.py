"""Finds the kernel files of a workspace by the globs of `[workspace] kernels`.

`**` stands for any number of folders, `*`, `?` and `[…]` for characters within one name. Hidden folders, virtual
environments and their like are never entered. Links are followed as long as they lead to a folder that is searched.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import is_folder, real_path

SKIPPED = frozenset({"node_modules", "site-packages"})
"""Folders that are not entered, besides those whose name begins with `.` or `__`."""

VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
"""The file that makes a folder a virtual environment, which is not entered either."""

FOLDERS_LIMIT = 100_000


def is_skipped(folder: str) -> bool:
    """Return True if a folder of this name is skipped."""
    return folder.startswith((".", "__")) or folder in SKIPPED


def compile_glob(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression for paths relative to the workspace, with `/` between their parts."""
    expression = ""
    parts = _parts(pattern)
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            expression += r".+" if last else r"(?:[^/]+/)*"
        else:
            # fnmatch's `.*` may cross folders: its characters are those of one name here
            expression += _within_one_name(part) + ("" if last else "/")
    return re.compile(expression, re.DOTALL)


def _parts(pattern: str) -> list[str]:
    return [part for part in pattern.split("/") if part not in ("", ".")]


def _within_one_name(part: str) -> str:
    expression = ""
    for piece in re.findall(r"\*+|\?|\[[!^]?\]?[^\]]*\]|[^*?\[]+|\[", part):
        if piece[0] == "*":
            expression += "[^/]*"
        elif piece == "?":
            expression += "[^/]"
        elif piece[0] == "[" and len(piece) > 2:
            expression += "(?!/)" + fnmatch.translate(piece).removeprefix("(?s:").removesuffix(r")\Z")
        else:
            expression += re.escape(piece)
    return expression


@dataclass(frozen=True, slots=True)
class KernelPaths:
    """The kernel files of a workspace: for each pattern the absolute paths that it finds, sorted, with the real ones.

    `outside` maps links that lead out of the folders that are searched to where they lead: links to kernel files, and
    to folders that hold some. They are not followed: who can write there would write this workspace's code.
    """

    by_pattern: Mapping[str, Mapping[str, str]]
    outside: Mapping[str, str]


def kernel_paths(
    root: Path, patterns: Sequence[str], overlays: Iterable[str], further: Sequence[Path] = ()
) -> KernelPaths:
    """Return the files that the patterns find below `root` and the `further` folders, to which they are relative.

    A file that several patterns find belongs to the first. `overlays` are paths of files that an editor holds and that
    need not exist. Of several names of one file the first in order is taken.
    """
    folders = [str(folder) for folder in (root, *further)]
    ends = tuple({_literal_end(pattern) for pattern in patterns})
    search = _Search(ends, tuple(map(real_path, map(str, folders))))
    texts = list(overlays)
    expressions = {pattern: compile_glob(pattern) for pattern in patterns}
    found: dict[str, dict[str, str]] = {pattern: {} for pattern in patterns}
    outside: dict[str, str] = {}
    real_paths: set[str] = set()
    for folder in folders:
        prefix = folder.rstrip(os.sep) + os.sep
        relative = dict(search.files(folder))
        for path in texts:
            if path.startswith(prefix):
                name = path[len(prefix) :]
                if name not in relative and not any(is_skipped(part) for part in name.split("/")[:-1]):
                    relative[name] = real_path(path)
        for name in sorted(relative):
            pattern = next((one for one, expression in expressions.items() if expression.fullmatch(name)), None)
            real = relative[name]
            if pattern is None or real in real_paths:
                continue
            if search.is_inside(real):
                real_paths.add(real)
                found[pattern][prefix + name] = real
            else:
                outside[prefix + name] = real
    return KernelPaths(found, {**search.outside, **outside})


def _literal_end(pattern: str) -> str:
    """Return the literal end of every name that the pattern finds."""
    return re.split(r"[*?\[\]]", _parts(pattern)[-1])[-1] if _parts(pattern) else ""


class _Search:
    """Walks folders for files whose names end in one of `ends`; each real folder once, links within `tops` followed."""

    def __init__(self, ends: tuple[str, ...], tops: tuple[str, ...]) -> None:
        self.outside: dict[str, str] = {}
        self._ends = ends
        self._tops = tuple(top.rstrip(os.sep) + os.sep for top in tops)
        self._seen: set[str] = set()
        self._count = 0

    def is_inside(self, real: str) -> bool:
        """Return True if a real path is one of the searched folders, or below one."""
        return f"{real}{os.sep}".startswith(self._tops)

    def files(self, folder: str) -> Iterator[tuple[str, str]]:
        """The files below `folder`, relative to it, with their real paths.

        A real path is asked for where there is a link only: elsewhere it follows from that of the folder.
        """
        top = real_path(folder)
        if top in self._seen:
            return
        self._seen.add(top)
        waiting = [(folder, "", top)]
        while waiting:
            place, inside, real_place = waiting.pop()
            try:
                with os.scandir(place) as entries:
                    files, folders = _files_and_folders(entries)
            except OSError:
                continue
            self._count += 1
            if self._count > FOLDERS_LIMIT:
                return
            if inside and VIRTUAL_ENVIRONMENT in files:
                continue
            within = real_place if real_place.endswith(os.sep) else real_place + os.sep
            entered = []
            for name in sorted(folders):
                if is_skipped(name):
                    continue
                path = f"{place}{os.sep}{name}"
                real = real_path(path) if folders[name] else within + name
                if not self.is_inside(real):
                    self._note_outside(path, real)
                elif real not in self._seen:
                    self._seen.add(real)
                    entered.append((path, f"{inside}{name}/", real))
            waiting += reversed(entered)
            for name, is_link in files.items():
                if name.endswith(self._ends):
                    real = real_path(f"{place}{os.sep}{name}") if is_link else within + name
                    yield inside + name, real

    def _note_outside(self, path: str, real: str) -> None:
        """Note a link to a folder outside if that folder has kernel files itself; its subfolders are not searched."""
        try:
            with os.scandir(real) as entries:
                if any(entry.name.endswith(self._ends) for entry in entries if self._ends != ("",)):
                    self.outside[path] = real
        except OSError:
            pass


def _files_and_folders(entries: Iterable[os.DirEntry[str]]) -> tuple[dict[str, bool], dict[str, bool]]:
    """The files and the folders among `entries`, with whether they are links."""
    files: dict[str, bool] = {}
    folders: dict[str, bool] = {}
    for entry in entries:
        try:
            is_link = entry.is_symlink()
            leads_in = is_folder(entry.path) if is_link else entry.is_dir()
        except OSError:
            is_link = leads_in = False
        (folders if leads_in else files)[entry.name] = is_link
    return files, folders
