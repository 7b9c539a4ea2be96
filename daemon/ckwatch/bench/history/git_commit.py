"""The git commit that a workspace is at, recorded with each timing.

It says where to look; what was measured is identified by its artifact's key. So there are no errors here: without git,
without a repository, or with one that does not answer in time or belongs to another user, there is no commit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import anyio

from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import ExitReason, Launcher, run_process
from ckwatch.system.git import GIT, git_environment

TIME_LIMIT_S = 3.0
"""For all of it. A repository on a slow file system may take longer; its timings have no commit."""

OUTPUT_LIMIT_BYTES = 64 * 1024
"""Of each call; the commit comes first."""

DIRTY = "-dirty"

SOURCES = ("*.j2", "*.toml", "*.h", "*.hpp", "*.inc", "*.inl", "*.cuh")
"""Files of these names in the workspace make it dirty also when git does not know them."""

_STATUS = (*GIT, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")
_UNKNOWN = (*GIT, "ls-files", "--others", "--exclude-standard", "--", *SOURCES)

_OID = "# branch.oid "


async def commit_of(
    root: Path,
    environment: Mapping[str, str] = os.environ,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    launch: Launcher = run_process,
) -> str | None:
    """The commit of the repository that the folder `root` is in, 40 or 64 hexadecimal digits; None where there is none.

    `-dirty` follows where a file of the repository differs from it, or the workspace has sources that are not in it.
    """
    own = git_environment(environment)
    with anyio.move_on_after(time_limit_s):
        status = await _output(launch, _STATUS, root, own)
        if status is None:
            return None
        lines = status.splitlines()
        oid = next((line.removeprefix(_OID) for line in lines if line.startswith(_OID)), "")
        if not oid or oid.strip("0123456789abcdef"):  # `(initial)` before the first commit
            return None
        dirty = any(not line.startswith("#") for line in lines)
        if not dirty:
            unknown = await _output(launch, _UNKNOWN, root, own)
            if unknown is None:
                return None
            dirty = bool(unknown)
        return oid + (DIRTY if dirty else "")
    return None


async def _output(
    launch: Launcher, arguments: tuple[str, ...], root: Path, environment: Mapping[str, str]
) -> str | None:
    """Return git's output, or None if it fails."""
    try:
        finished = await launch(
            arguments, environment=environment, folder=root, output_limit_bytes=OUTPUT_LIMIT_BYTES, grace_s=0.5
        )
    except (CkwatchError, OSError):
        return None
    return finished.stdout if finished.exit_reason is ExitReason.EXITED and finished.exit_status == 0 else None
