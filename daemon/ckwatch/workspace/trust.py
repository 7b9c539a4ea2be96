"""The list of trusted workspaces. Templates and compiler flags are code, and the daemon runs them without being asked.

The user's list is a file with one absolute real path per line, `~/.config/ckwatch/trusted`, or the one that
CKWATCH_TRUST_FILE names. A folder on it covers all below it, as in editors: who trusts a checkout trusts the workspaces
in it. A second line, `shared` before the path, is for a folder that others may write to as well: there no file is
refused for who could have written it (`ckwatch.workspace.writers`). Other lines are skipped and kept.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from ckwatch.model.errors import CkwatchError, UntrustedError
from ckwatch.system.durable_files import replace_file
from ckwatch.system.file_locks import locked

FILE_VARIABLE = "CKWATCH_TRUST_FILE"
SHARED = b"shared "


def trusted_folders() -> tuple[Path, ...]:
    """The folders on the list. Raises CkwatchError when others could have written it, or when it cannot be read."""
    return tuple(Path(os.fsdecode(line)) for line in _read(_trust_file()) if line.startswith(b"/"))


def is_trusted(root: Path) -> bool:
    """Whether the real folder behind `root`, or one above it, is on the list."""
    real = _real(root)
    return any(real.is_relative_to(folder) for folder in trusted_folders())


def is_shared(root: Path) -> bool:
    """Whether the user has declared that others may write to the real folder behind `root`, or to one above it."""
    real = _real(root)
    lines = (line.removeprefix(SHARED) for line in _read(_trust_file()) if line.startswith(SHARED + b"/"))
    return any(real.is_relative_to(os.fsdecode(line)) for line in lines)


def require_trusted(root: Path) -> None:
    """Raises UntrustedError unless `is_trusted`."""
    if not is_trusted(root):
        raise UntrustedError(
            f"{root} is not trusted: its templates and compiler flags are code that would run here",
            f"`ckwatch trust {shlex.quote(str(root))}` trusts it.",
        )


def trust(root: Path, *, shared: bool = False) -> None:
    """Put `root` on the list, with `shared` as a folder that others may write to as well.

    Raises CkwatchError when the list cannot be written.
    """
    line = os.fsencode(_real(root))
    if b"\n" in line:
        raise CkwatchError(f"{root!s} cannot be trusted: its name has a line break", "Rename the folder.")
    wanted = [line, SHARED + line] if shared else [line]
    _edit(lambda lines: [*lines, *(one for one in wanted if one not in lines)])


def distrust(root: Path) -> None:
    """Take `root` off the list.

    Raises CkwatchError when a folder above keeps it trusted, or when the list cannot be written.
    """
    real = _real(root)
    _edit(lambda lines: [line for line in lines if line.removeprefix(SHARED) != os.fsencode(real)])
    above = next((folder for folder in trusted_folders() if real.is_relative_to(folder)), None)
    if above is not None:
        raise CkwatchError(f"{root} is still trusted, as part of {above}", f"Take {above} off the list too.")


def _real(root: Path) -> Path:
    return Path(os.path.realpath(root))


def _trust_file() -> Path:
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    from platformdirs import user_config_path  # not needed where the variable is set

    return user_config_path("ckwatch", appauthor=False) / "trusted"


def _read(path: Path) -> list[bytes]:
    """The file's lines."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_uid not in (os.getuid(), 0) or found.st_mode & 0o022:
                raise CkwatchError(
                    f"the list of trusted workspaces {path} is not used: others could have written it",
                    f"Look at what it says, then make it yours: `chown $USER {path}; chmod 600 {path}`",
                )
            return file.read().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CkwatchError(f"the list of trusted workspaces {path} cannot be read: {error.strerror}") from error


def _edit(change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Replace the file in one step, under a lock that keeps other processes from editing it."""
    path = _trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f".{path.name}.lock")):
            lines = _read(path)
            changed = change(lines)
            if changed != lines:
                replace_file(path, b"".join(line + b"\n" for line in changed), mode=0o600)
    except OSError as error:
        raise CkwatchError(f"the list of trusted workspaces {path} cannot be written: {error.strerror}") from error
