"""Follows the includes of a source before a compiler is started: to find headers that it would never finish to read,
and those that it needs on another machine.

A compiler that opens a FIFO waits until its time is over. What is included under a condition is left to the compiler:
whether it is read is not known here.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from ckwatch.headers.includes import COMMENT, sure_includes
from ckwatch.system.user_files import BINARY_LIMIT_BYTES, file_status, read_file

FILES_LIMIT = 500
"""So many headers are looked into."""


_POSSIBLE = re.compile(
    r"(?:^[ \t]*#[ \t]*(?P<how>include(?:_next)?|embed|import)|\b__has_(?:include(?:_next)?|embed)[ \t]*\()[ \t]*"
    r'(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>|(?P<macro>[^\n]*))',
    re.MULTILINE,
)


def unreadable(path: str) -> str | None:
    """Why the file at `path` cannot be read as a header; None where it can, or where there is none."""
    try:
        status = file_status(path)
    except TimeoutError as error:
        return error.strerror
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        limit = f"larger than {BINARY_LIMIT_BYTES // 1024**2} MiB"
        return limit if stat.S_ISREG(status.st_mode) and status.st_size > BINARY_LIMIT_BYTES else None
    return "not a regular file"


def unreadable_includes(source: str, source_name: str, folders: Sequence[Path]) -> str:
    """Return a compiler's message about includes that lead to something other than a header, as a log; empty if there
    are none.

    `folders` are searched in this order, and for the files in them it is looked into what they include. Blocks; call
    from a worker thread.
    """
    printed: list[str] = []
    waiting: list[tuple[str, str | None, str]] = [(source_name, None, source)]
    seen: set[str] = set()
    while waiting:
        name, folder, text = waiting.pop()
        for line, column, wanted, quoted in sure_includes(text):
            path = _found(wanted, folder if quoted else None, folders)
            if path is None or (key := os.path.normpath(path)) in seen:
                continue
            seen.add(key)
            reason = unreadable(path)
            if reason is not None:
                printed.append(f"{name}:{line}:{column}: error: '{path}' cannot be included: {reason}\n")
            elif len(seen) < FILES_LIMIT:
                try:
                    inside = read_file(path).decode("utf-8", "replace")
                except OSError:
                    continue
                waiting.append((path, os.path.dirname(path), inside))  # noqa: PTH120
    return "".join(printed)


def possible_includes(source: str, folders: Sequence[Path]) -> list[str]:
    """Absolute paths of all files that `source` may include from `folders`, or from beside what it includes: conditions
    are not looked at, and where several folders have a name all of them count. Blocks; call from a worker thread.

    Raises ValueError, which says why, where that is unknown: a name that a macro makes up, or too many files.
    """
    found: dict[str, None] = {}
    waiting: list[tuple[str | None, str]] = [(None, source)]
    while waiting:
        own_folder, text = waiting.pop()
        plain = COMMENT.sub(" ", text)
        for match in _POSSIBLE.finditer(plain):
            name = match["quoted"] or match["angled"]
            if name is None:
                if match["how"] is not None:
                    raise ValueError(f"`#{match['how']} {match['macro']}` names a file by a macro")
                continue
            places = [*([own_folder] if own_folder is not None else []), *map(str, folders)]
            for path in [name] if os.path.isabs(name) else [f"{place}/{name}" for place in places]:  # noqa: PTH117
                normal = os.path.normpath(path)
                if normal in found or not _is_regular(normal):
                    continue
                found[normal] = None
                if len(found) > FILES_LIMIT:
                    raise ValueError(f"it includes more than {FILES_LIMIT} files of the workspace")
                waiting.append((os.path.dirname(normal), read_file(normal).decode("utf-8", "replace")))  # noqa: PTH120
    return sorted(found)


def _is_regular(path: str) -> bool:
    try:
        return stat.S_ISREG(file_status(path).st_mode)
    except (OSError, ValueError):
        return False


def _found(name: str, own_folder: str | None, folders: Sequence[Path]) -> str | None:
    if os.path.isabs(name):  # noqa: PTH117
        return name
    places = [own_folder, *map(str, folders)] if own_folder is not None else map(str, folders)
    for place in places:
        path = f"{place}/{name}"
        try:
            if not stat.S_ISDIR(file_status(path).st_mode):
                return path
        except TimeoutError:
            return path
        except (OSError, ValueError):
            continue
    return None
