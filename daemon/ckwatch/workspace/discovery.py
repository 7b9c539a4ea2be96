"""Finds the workspace that a path belongs to.

Every command needs this, so it imports nothing slow.
"""

from __future__ import annotations

import os
from pathlib import Path

from ckwatch.model.errors import CkwatchError

FILE_NAME = "ckwatch.toml"


def working_folder() -> Path:
    """The folder that a command is run in. Raises CkwatchError if it has been deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise CkwatchError("the folder that this is run in has been deleted", "Go to one that exists.") from None


def in_workspace(folder: Path) -> bool:
    """Tell whether there is a `ckwatch.toml` in `folder` or above it."""
    return _nearest(folder) is not None


def _nearest(folder: Path) -> Path | None:
    return next((one for one in (folder, *folder.parents) if (one / FILE_NAME).is_file()), None)


def find_workspace(start: Path) -> Path:
    """The folder of the nearest `ckwatch.toml`, in `start` (or the folder of the file `start`) or above. Raises
    CkwatchError if there is none."""
    # lexically, so that a workspace reached through a link keeps the path it was given by
    begin = Path(os.path.abspath(start))  # noqa: PTH100
    if not os.path.exists(begin):  # noqa: PTH110  # Path.exists raises where a name is too long
        raise CkwatchError(f"there is no {begin}")
    if (found := _nearest(begin)) is not None:
        return found
    raise CkwatchError(
        f"no {FILE_NAME} in {begin} or above it", "`ckwatch init` writes one, with a kernel file to begin with"
    )
