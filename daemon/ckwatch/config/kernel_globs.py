"""Which files of a workspace are kernel files: the globs of `[workspace] kernels`.

`**` stands for any number of folders, `*`, `?` and `[…]` for characters within one name. Hidden folders, virtual
environments and their like are never entered; links to folders are followed, each folder once.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping, Sequence
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
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            expression += r".+" if last else r"(?:[^/]+/)*"
        else:
            # fnmatch's `.*` may cross folders: its characters are those of one name here
            expression += _within_one_name(part) + ("" if last else "/")
    return re.compile(expression, re.DOTALL)


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


def kernel_paths(root: Path, patterns: Sequence[str], overlays: Iterable[str]) -> Mapping[str, list[str]]:
    """The absolute paths that each pattern finds, sorted; a file that several patterns find belongs to the first.

    `overlays` are paths of files that an editor holds and that need not exist. Of several names of one file the first
    in order is taken.
    """
    expressions = {pattern: compiled(pattern) for pattern in patterns}
    relative = dict.fromkeys(_relative_files(root))
    prefix = f"{root}{os.sep}" if str(root) != os.sep else os.sep
    for path in overlays:
        if path.startswith(prefix):
            name = path[len(prefix) :]
            if not any(is_skipped(folder) for folder in name.split("/")[:-1]):
                relative.setdefault(name)
    found: dict[str, list[str]] = {pattern: [] for pattern in patterns}
    real_paths: set[str] = set()
    for name in sorted(relative):
        for pattern, expression in expressions.items():
            if not expression.fullmatch(name):
                continue
            real = os.path.realpath(prefix + name)
            if real not in real_paths:
                real_paths.add(real)
                found[pattern].append(prefix + name)
            break
    return found


def _relative_files(root: Path) -> Iterable[str]:
    seen = {os.path.realpath(root)}
    count = 0
    for place, folders, files in os.walk(root, followlinks=True):
        count += 1
        if count > FOLDERS_LIMIT:
            return
        if VIRTUAL_ENVIRONMENT in files and place != str(root):
            folders.clear()
            continue
        inside = os.path.relpath(place, root)
        inside = "" if inside == "." else inside + "/"
        entered = []
        for folder in sorted(folders):
            if is_skipped(folder):
                continue
            real = os.path.realpath(os.path.join(place, folder))  # noqa: PTH118  # strings all the way: this is a hot loop
            if real not in seen:
                seen.add(real)
                entered.append(folder)
        folders[:] = entered
        for file in files:
            yield inside + file
