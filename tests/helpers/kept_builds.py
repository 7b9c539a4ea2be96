"""Files that compilers make for tests, each made once by what it is made of: later runs and other processes take it.

They stand beside the store in the user's cache, which `make test` may find filled or empty.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from ckwatch.compile.store.artifacts import default_folder
from ckwatch.system.file_locks import locked

FOLDER = default_folder().parent / "test-builds"  # found on import: tests set variables that lead elsewhere
LIMIT_BYTES = 300_000_000
"""Size of the files of each kind that stay, those used last; a run needs a tenth of it."""


def kept(kind: str, made_of: Iterable[str], make: Callable[[Path], None], folder: Path = FOLDER) -> Path:
    """Return the file that `make` writes at the path it is given, made now if no earlier call had the same `made_of`."""
    digest = hashlib.sha256("\0".join([kind, *made_of]).encode()).hexdigest()[:32]
    path = folder / kind / digest
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        work = folder / f"{kind}-{digest[0]}"
        with locked(work.with_suffix(".lock")):
            if not path.is_file():
                shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
                work.mkdir()
                try:
                    make(work / digest)
                    (work / digest).rename(path)
                finally:
                    shutil.rmtree(work)
                _forget(path.parent)
    os.utime(path)
    return path


def _forget(folder: Path) -> None:
    size_bytes = 0
    with suppress(FileNotFoundError):  # another process does the same
        for status, path in sorted(((path.stat(), path) for path in folder.iterdir()), key=_use, reverse=True):
            size_bytes += status.st_size
            if size_bytes > LIMIT_BYTES:
                path.unlink()


def _use(entry: tuple[os.stat_result, Path]) -> int:
    return entry[0].st_mtime_ns


@cache
def identity(compiler: str) -> tuple[str, ...]:
    """What says of a compiler that it makes the same: its path, file and version."""
    status = Path(compiler).resolve().stat()
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return (compiler, str(status.st_size), str(status.st_mtime_ns), *said.splitlines(), os.uname().machine)


@cache
def content(folder: Path, pattern: str = "*") -> str:
    """The digest of the files below a folder that no test changes."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob(pattern) if path.is_file()):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(folder)}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()
