"""Which files of a workspace are kernel files: the globs of `[workspace] kernels`.

`**` stands for any number of folders, `*`, `?` and `[…]` for characters within one name. Hidden folders, virtual
environments and their like are never entered; links to folders are followed, each folder once.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

SKIPPED = frozenset({"node_modules", "site-packages"})
"""Folders that are not entered, besides those whose name begins with `.` or `__`."""

VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
"""The file that makes a folder a virtual environment, which is not entered either."""

FOLDERS_LIMIT = 100_000


def is_skipped(folder: str) -> bool:
    """Whether a folder of this name is not entered."""
    return folder.startswith((".", "__")) or folder in SKIPPED


def compiled(pattern: str) -> re.Pattern[str]:
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


def kernel_paths(root: Path, patterns: Sequence[str], overlays: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
    """The absolute paths that each pattern finds, sorted, with their real paths.

    A file that several patterns find belongs to the first. `overlays` are paths of files that an editor holds and that
    need not exist. Of several names of one file the first in order is taken.
    """
    expressions = {pattern: compiled(pattern) for pattern in patterns}
    relative = dict(_relative_files(root, tuple({_literal_end(pattern) for pattern in patterns})))
    prefix = f"{root}{os.sep}" if str(root) != os.sep else os.sep
    for path in overlays:
        if path.startswith(prefix):
            name = path[len(prefix) :]
            if name not in relative and not any(is_skipped(folder) for folder in name.split("/")[:-1]):
                relative[name] = os.path.realpath(path)
    found: dict[str, dict[str, str]] = {pattern: {} for pattern in patterns}
    real_paths: set[str] = set()
    for name in sorted(relative):
        for pattern, expression in expressions.items():
            if not expression.fullmatch(name):
                continue
            real = relative[name]
            if real not in real_paths:
                real_paths.add(real)
                found[pattern][prefix + name] = real
            break
    return found


def _literal_end(pattern: str) -> str:
    """What every name that the pattern finds ends in."""
    return re.split(r"[*?\[\]]", _parts(pattern)[-1])[-1] if _parts(pattern) else ""


def _relative_files(root: Path, ends: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The files whose names end in one of `ends`, relative to `root`, with their real paths.

    A real path is asked for where there is a link only: elsewhere it follows from that of the folder.
    """
    top = os.path.realpath(root)
    seen = {top}
    count = 0
    waiting = [(str(root), "", top)]
    while waiting:
        place, inside, real_place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                files, folders = _parted(entries)
        except OSError:
            continue
        count += 1
        if count > FOLDERS_LIMIT:
            return
        if inside and VIRTUAL_ENVIRONMENT in files:
            continue
        within = real_place if real_place.endswith(os.sep) else real_place + os.sep
        entered = []
        for name in sorted(folders):
            if is_skipped(name):
                continue
            path = f"{place}{os.sep}{name}"
            real = os.path.realpath(path) if folders[name] else within + name
            if real not in seen:
                seen.add(real)
                entered.append((path, f"{inside}{name}/", real))
        waiting += reversed(entered)
        for name, is_link in files.items():
            if name.endswith(ends):
                real = os.path.realpath(f"{place}{os.sep}{name}") if is_link else within + name
                yield inside + name, real


def _parted(entries: Iterable[os.DirEntry[str]]) -> tuple[dict[str, bool], dict[str, bool]]:
    """The files and the folders among `entries`, with whether they are links."""
    files: dict[str, bool] = {}
    folders: dict[str, bool] = {}
    for entry in entries:
        try:
            is_folder = entry.is_dir()
        except OSError:  # a link to itself, for one
            is_folder = False
        (folders if is_folder else files)[entry.name] = entry.is_symlink()
    return files, folders
