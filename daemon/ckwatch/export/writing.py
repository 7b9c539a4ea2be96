"""An exported module and its shared object in a folder of the user's."""

from __future__ import annotations

import keyword
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ckwatch.errors import CkwatchError
from ckwatch.export.assembling import MARK, identifier, module_text
from ckwatch.export.describing import Exported

SHADOWED = frozenset({"torch", "numpy", "ckwatch", *sys.stdlib_module_names})
"""Modules that an exported one must not stand in for."""


def module_name(kernel: str, instance: str, arch: str) -> str:
    """The name of a unit's module where none is given; units of one kernel have different ones."""
    place = "" if arch == "host" else f" {arch}"
    return identifier(f"{kernel} {instance}{place}")


def checked_name(name: str) -> str:
    """A name that the user gives a module. Raises CkwatchError for one that cannot be imported."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise CkwatchError(
            f"'{name}' cannot be a module's name", f"a name that can be imported is `{identifier(name)}`"
        )
    if name in SHADOWED:
        raise CkwatchError(f"a module called '{name}' would stand in for Python's own", "give it another name")
    return name


def write_module(exported: Exported, shared_object: bytes, folder: Path) -> tuple[Path, Path]:
    """Write the shared object and the module to `folder`, which is made; their paths.

    The shared object comes first: a module of before then says that it is another export's. Raises CkwatchError where a
    file cannot be written, or one that is no exported module is in the way.
    """
    module, library = folder / f"{exported.name}.py", folder / exported.library
    text = module_text(exported)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_own(module)
        _replace(library, lambda path: _write(shared_object, path))
        _replace(module, lambda path: _write(text.encode(), path))
    except OSError as error:
        raise CkwatchError(f"cannot write to {folder}: {error.strerror or error}") from error
    return library, module


def _require_own(module: Path) -> None:
    try:
        with module.open(encoding="utf-8", errors="replace") as file:
            is_own = file.readline().startswith(MARK)
    except FileNotFoundError:
        return
    if not is_own:
        raise CkwatchError(f"{module} is there, and ckwatch did not write it", "choose another --name or --out")


def _write(content: bytes, target: Path) -> None:
    target.write_bytes(content)


def _replace(target: Path, write: Callable[[Path], None]) -> None:
    """Write a file by way of another, so that it is never half there."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        write(partial)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
