"""Folders of the store that are made once by what they are made of, of which those used last are kept."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def use(product: Path) -> bool:
    """Return True if the file is there, which counts as a use of its folder."""
    with suppress(OSError):
        os.utime(product.parent)
    return product.is_file()


def take(work: Path, product: Path, kept: int) -> None:
    """Put the finished folder of a product in place in one step, and keep as many folders as `kept` beside it.

    Another process may have been first. Raises OSError if the product is not there afterwards.
    """
    with suppress(OSError):
        work.rename(product.parent)
    if not product.is_file():
        raise OSError(f"{product.parent} cannot be made")
    with suppress(OSError):
        made = sorted(product.parent.parent.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in made[kept:]:
            shutil.rmtree(entry, ignore_errors=True)
