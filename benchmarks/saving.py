"""Saving a file as editors do."""

from __future__ import annotations

from pathlib import Path


def save(path: Path, text: str) -> None:
    """Write a temporary file beside it and rename that."""
    temporary = path.with_name(f"{path.name}~")
    temporary.write_text(text)
    temporary.rename(path)
