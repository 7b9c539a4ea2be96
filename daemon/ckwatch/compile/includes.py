"""Finds headers that a compiler would never finish to read, before it is started.

A compiler that opens a FIFO waits until its time is over. What is included under a condition is left to the compiler:
whether it is read is not known here.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ckwatch.system.user_files import BINARY_LIMIT_BYTES, file_status, read_file

FILES_LIMIT = 500
"""So many headers are looked into."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)[ \t]*(.*)$", re.MULTILINE)
_NAME = re.compile(r'"([^"\n]+)"|<([^>\n]+)>')


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
    """What a compiler would say of includes that lead to what is no header, as a log; empty where there are none.

    `folders` are searched in this order, and for the files in them it is looked into what they include. For a thread.
    """
    said: list[str] = []
    waiting: list[tuple[str, str | None, str]] = [(source_name, None, source)]
    seen: set[str] = set()
    while waiting:
        name, folder, text = waiting.pop()
        for line, column, wanted, quoted in _includes(text):
            path = _found(wanted, folder if quoted else None, folders)
            if path is None or (key := os.path.normpath(path)) in seen:
                continue
            seen.add(key)
            reason = unreadable(path)
            if reason is not None:
                said.append(f"{name}:{line}:{column}: error: '{path}' cannot be included: {reason}\n")
            elif len(seen) < FILES_LIMIT:
                try:
                    inside = read_file(path).decode("utf-8", "replace")
                except OSError:
                    continue
                waiting.append((path, os.path.dirname(path), inside))  # noqa: PTH120
    return "".join(said)


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


def _includes(text: str) -> Iterator[tuple[int, int, str, bool]]:
    """The includes that are read for sure: line and column (from one), the name, and whether it is in quotes."""
    plain = _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    depth = 0
    first = True
    for directive in _DIRECTIVE.finditer(plain):
        word, rest = directive[1], directive[2].strip()
        if word in ("if", "ifdef", "ifndef"):
            guard = (
                first
                and word == "ifndef"
                and re.match(rf"\s*#\s*define\s+{re.escape(rest)}\b", plain[directive.end() :])
            )
            depth += 0 if guard else 1
        elif word == "endif":
            depth = max(0, depth - 1)
        elif word == "include" and depth == 0 and (name := _NAME.match(plain, directive.start(2))):
            line = plain.count("\n", 0, directive.start()) + 1
            column = name.start() - plain.rfind("\n", 0, name.start())
            yield line, column, name[1] or name[2], name[1] is not None
        first = False
