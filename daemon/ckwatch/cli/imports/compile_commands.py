"""Include folders and defines of a file from a `compile_commands.json`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from ckwatch.model.errors import CkwatchError
from ckwatch.system.user_files import read_file

FILE_NAME = "compile_commands.json"
_WITH_FOLDER = ("-I", "-isystem", "-iquote", "-idirafter")
_JOINED = ("-D", "-U")


def nearest_database(source: Path) -> Path | None:
    """The database in the folder of a file, in one above it, or in `build` below one of these."""
    for folder in source.absolute().parents:
        for place in (folder / FILE_NAME, folder / "build" / FILE_NAME):
            if place.is_file():
                return place
    return None


def flags_for(database: Path, source: Path) -> list[str] | None:
    """The flags in a database that say what a file includes, with absolute folders; None if it has no such file. Raises
    CkwatchError for a file that is no such database."""
    try:
        entries = json.loads(read_file(database))
        real = os.path.realpath(source)
        for one in entries:
            folder = str(one["directory"])
            if os.path.realpath(os.path.join(folder, one["file"])) == real:  # noqa: PTH118
                words = one["arguments"] if "arguments" in one else shlex.split(one["command"])
                return _chosen([str(word) for word in words], folder)
    except OSError as error:
        raise CkwatchError(f"cannot read {database}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CkwatchError(f"{database} is not a database of compile commands: {error}") from None
    return None


def _chosen(words: Sequence[str], folder: str) -> list[str]:
    found: list[str] = []
    following = iter(words)
    for word in following:
        flag = next((one for one in (*_WITH_FOLDER, *_JOINED, "-include") if word.startswith(one)), None)
        if flag is None:
            continue
        value = word.removeprefix(flag) or next(following, "")
        if flag in _JOINED:
            found.append(f"{flag}{value}")
        else:
            path = os.path.normpath(os.path.join(folder, value))  # noqa: PTH118
            found += [f"{flag}{path}"] if flag == "-I" else [flag, path]
    return found
