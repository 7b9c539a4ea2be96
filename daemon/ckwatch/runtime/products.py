"""The files of a result. Five thousand results have twenty thousand of them: a path is put together when asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path


class Products(Mapping[str, str]):
    """Absolute paths by kind: files called `names` in `folder`."""

    __slots__ = ("_folder", "_names")

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        self._folder = str(folder)
        self._names = _shared(tuple(names.items()))

    def __getitem__(self, kind: str) -> str:
        return f"{self._folder}{os.sep}{self._names[kind]}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@lru_cache(maxsize=64)
def _shared(names: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(names)
