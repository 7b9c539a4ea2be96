"""Python files as trees, for tests that say what stands in one place only."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path


def parsed(folder: Path, words: Collection[str] = ()) -> Iterator[tuple[Path, ast.Module]]:
    """The files below a folder; with `words` only those whose text has one of them, as parsing takes long."""
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text()
        if not words or any(word in text for word in words):
            yield path, ast.parse(text)
