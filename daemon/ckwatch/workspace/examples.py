"""The example workspaces that ship with ckwatch: kernel files with instances for each built-in template."""

from __future__ import annotations

from pathlib import Path

from ckwatch.workspace.discovery import FILE_NAME

_PACKAGE = Path(__file__).parents[1]
_PLACES = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")
"""In an installed package, and in the source tree."""


def example_folders() -> tuple[Path, ...]:
    """The folders of the examples, in alphabetical order; none where they are not installed."""
    for place in _PLACES:
        found = tuple(sorted(path.parent for path in place.glob(f"*/{FILE_NAME}")))
        if found:
            return found
    return ()
