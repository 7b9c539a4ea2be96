"""The files of a result. Five thousand results have twenty thousand of them: a path is put together when asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path


class Products(Mapping[str, str]):
    """Absolute paths by kind: files called `names` in `folder`, as they are now; for a thread."""

    __slots__ = ("_folder", "_names", "_stamp")

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        self._folder = str(folder)
        self._names = _shared(tuple(names.items()))
        self._stamp = self._look()

    def __getitem__(self, kind: str) -> str:
        return f"{self._folder}{os.sep}{self._names[kind]}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def untouched(self) -> bool:
        """Whether the files are there and, as far as their times and sizes tell, nobody has written to them since."""
        return self._stamp == self._look() is not None

    def _look(self) -> int | None:
        try:
            states = [os.stat(path) for path in self.values()]  # noqa: PTH116  # thousands of these are made
        except OSError:
            return None
        return hash(tuple((one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for one in states))


@lru_cache(maxsize=64)
def _shared(names: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(names)
