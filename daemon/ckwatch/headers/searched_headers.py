"""Reads the headers that some folders hold, in the order in which a compiler searches them.

What a header says is kept by its contents, and which contents a file has by its state: a second question about a header
reads nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from ckwatch.headers.declarations import HeaderText
from ckwatch.headers.features import FEATURES, FeatureAnswer, answer
from ckwatch.model.compiler_flags import flag_groups, folder_of
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import file_status, read_file

_KEPT = 256

_State = tuple[int, int, int]
_Value = TypeVar("_Value")
_digests: dict[str, tuple[_State, str]] = {}
_texts: dict[str, HeaderText] = {}


@dataclass(slots=True)
class SearchedHeaders:
    """The headers of `folders`. `read` and `missed` are the files that answers came from, with their SHA-256, and those
    that were looked for and are not there."""

    folders: tuple[str, ...]
    read: dict[str, str] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)
    _folders: dict[str, str | None] = field(init=False, default_factory=dict)

    def folder_of(self, header: str) -> str | None:
        """The first folder that holds `header`."""
        if header not in self._folders:
            held = (folder for folder in self.folders if _state(f"{folder}/{header}") is not None)
            self._folders[header] = next(held, None)
        return self._folders[header]

    def text(self, header: str) -> HeaderText | None:
        """The header that a compiler would read under this name; None where there is none."""
        for folder in self.folders:
            path = f"{folder}/{header}"
            found = _known(path)
            if found is not None:
                digest, text = found
                self.read[path] = digest
                return text
        self.missed.update(f"{folder}/{header}" for folder in self.folders)
        return None

    def feature(self, name: str) -> FeatureAnswer:
        """Return an answer about a feature of the headers. Raises KeyError for a name that is none's."""
        return answer(FEATURES[name], self.text, self.folder_of)

    def has_feature(self, name: str) -> bool:
        """Return whether the headers have a feature: a method, since templates must not get hold of functions. Raises
        KeyError as `feature`."""
        return self.feature(name).has


def searched_headers(flags: Sequence[str], folders: Iterable[Path | str]) -> SearchedHeaders:
    """The headers that a compile with these flags finds in their folders, by absolute paths, and then in `folders`."""
    given = (folder_of(group) or "" for _, group in flag_groups(flags) if group[0].startswith("-I"))
    return SearchedHeaders(tuple(dict.fromkeys((*(one for one in given if one.startswith("/")), *map(str, folders)))))


def _known(path: str) -> tuple[str, HeaderText] | None:
    state = _state(path)
    if state is None:
        return None
    known = _digests.get(path)
    if known is None or known[0] != state:
        try:
            data = read_file(path)
        except OSError:
            return None
        known = state, hashlib.sha256(data).hexdigest()
        _kept(_digests, path, known)
        if known[1] not in _texts:
            _kept(_texts, known[1], HeaderText(data.decode(errors="replace")))
    text = _texts.get(known[1])
    if text is None:  # forgotten meanwhile
        del _digests[path]
        return _known(path)
    return known[1], text


def _state(path: str) -> _State | None:
    try:
        status = file_status(path)
    except (OSError, ValueError):
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _kept(table: dict[str, _Value], key: str, value: _Value) -> None:
    """Keep a value, and forget the oldest of too many."""
    table[key] = value
    if len(table) > _KEPT:
        del table[next(iter(table))]
