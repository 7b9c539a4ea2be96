"""The list of trusted workspaces. Templates and compiler flags are code, and the daemon runs them without being asked.

The user's list is a file with one absolute real path per line, `~/.config/ckwatch/trusted`, or the one that
CKWATCH_TRUST_FILE names. A folder on it covers all below it, as in editors: who trusts a checkout trusts the workspaces
in it, whatever they come to say. A second line, `shared` before the path, is for a folder that others may write to as
well: there no file is refused for who could have written it (`ckwatch.workspace.writers`).

A workspace that is on the list itself is trusted with what its `ckwatch.toml` said then: a third line, `names` before a
JSON object, holds the settings that name code or programs (`named_programs`). Those that have changed since are asked
for again. A folder that held no `ckwatch.toml` then has a line `below` instead. Other lines are skipped and kept.

What is trusted for one run (`trust_once`) has the same lines in the memory of this process alone.
"""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ckwatch.model.diagnostics import Source
from ckwatch.model.errors import CkwatchError, UntrustedError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.durable_files import replace_file
from ckwatch.system.file_locks import locked
from ckwatch.system.user_files import read_with_status
from ckwatch.workspace.discovery import FILE_NAME
from ckwatch.workspace.files import read_text

FILE_VARIABLE = "CKWATCH_TRUST_FILE"
SHARED = b"shared "
SHOWN_CHARACTERS = 200


NAMES = b"names "
BELOW = b"below "

PROGRAM_KEYS = (
    *(("compile", "flags"), ("toolchain", "rocm"), ("toolchain", "ck"), ("toolchain", "ck_tile")),
    *(("toolchain", "clangd"), ("toolchain", "also")),
    *(("bench", "launcher"), ("bench", "worker"), ("store", "folder")),
    *(("store", "shared"), ("farm", "scheduler"), ("farm", "cluster"), ("farm", "hosts"), ("farm", "options")),
    ("farm", "certificates"),
)
"""Settings that name what is run or loaded."""

FOLDER_KEYS = (("workspace", "templates"), ("workspace", "kernel_folders"))
"""Settings that name folders with code; those inside of the workspace are a part of it."""

Programs = Mapping[str, object]
"""Values in JSON by key, as `[compile] flags`."""

_once: list[bytes] = []
"""The lines of workspaces that this process trusts until it ends."""


@dataclass(frozen=True, slots=True)
class TrustState:
    """The trust in a workspace: `listed`, and the names that the user has not been asked about, in words by key."""

    listed: bool
    changed: Mapping[str, str]

    @property
    def trusted(self) -> bool:
        """Return True if all that the workspace names may run."""
        return self.listed and not self.changed


def trusted_folders() -> tuple[Path, ...]:
    """The folders on the list. Raises CkwatchError when others could have written it, or when it cannot be read."""
    return tuple(Path(os.fsdecode(line)) for line in _read(trust_file()) if line.startswith(b"/"))


def trust_file() -> Path:
    """The list."""
    named = os.environ.get(FILE_VARIABLE)
    if named:
        return Path(named)
    from platformdirs import user_config_path  # not needed where the variable is set

    return user_config_path("ckwatch", appauthor=False) / "trusted"


def is_trusted(root: Path) -> bool:
    """Return True if the real folder behind `root`, or one above it, is on the list, with all that it names."""
    return trust_state(root).trusted


def trust_state(root: Path, programs: Programs | None = None) -> TrustState:
    """Return what the list says of the real folder behind `root`, which names `programs` (default: as its file
    says)."""
    real = _real(root)
    lines = [*_once, *_read(trust_file())]
    folders = [Path(os.fsdecode(line)) for line in lines if line.startswith(b"/")]
    above = any(folder != real and real.is_relative_to(folder) for folder in folders)
    if above or real not in folders or BELOW + os.fsencode(real) in lines:
        return TrustState(above or real in folders, {})
    recorded = _recorded(lines, real)
    now = named_programs(root) if programs is None else programs
    return TrustState(True, {
        key: f"{key} = {_shown(value)}" + (f", which was {_shown(recorded[key])}" if key in recorded else "")
        for key, value in now.items()
        if recorded.get(key) != value
    })  # fmt: skip


def named_programs(root: Path, values: Mapping[str, Any] | None = None) -> dict[str, object]:
    """Return the values in `ckwatch.toml` that are run or loaded and do not lie in the workspace. `values`: its tables,
    if they have been read."""
    if values is None:
        values = _tables(str(root / FILE_NAME))
    found: dict[str, object] = {}
    for section, key in (*PROGRAM_KEYS, *FOLDER_KEYS):
        table = values.get(section)
        value = table.get(key) if isinstance(table, dict) else None
        if (section, key) in FOLDER_KEYS and isinstance(value, list):
            value = [real for one in value if isinstance(one, str) and (real := _outside(root, one)) is not None]
        if value:
            found[f"[{section}] {key}"] = json.loads(json.dumps(value, default=str))
    return found


def _tables(path: str) -> Mapping[str, Any]:
    text = read_text(path, Source.WORKSPACE).text
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        from ckwatch.workspace.toml_document import document_of  # reads what is there, and takes longer to load

        return document_of(path, text, Source.WORKSPACE).values


def _outside(root: Path, folder: str) -> str | None:
    """The real path of a folder that a workspace names, unless it lies in the workspace."""
    real = os.path.realpath(root / os.path.expanduser(folder))  # noqa: PTH111
    return None if Path(real).is_relative_to(_real(root)) else real


def _recorded(lines: Sequence[bytes], real: Path) -> dict[str, object]:
    records = (_recorded_for(line, real) for line in lines if line.startswith(NAMES))
    return next((one for one in records if one is not None), {})


def _recorded_for(line: bytes, real: Path) -> dict[str, object] | None:
    """Return what a line records of the folder; None for a line about another, or a damaged one."""
    try:
        found = json.loads(line.removeprefix(NAMES))
        return dict(found["programs"]) if found["folder"] == str(real) else None
    except (ValueError, KeyError, TypeError):
        return None


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


CODE = "templates and compiler flags"


def untrusted_words(root: Path, state: TrustState, code: str = CODE) -> str:
    """Why the `code` of the workspace at `root` may not run, as a sentence."""
    if not state.listed:
        return f"{root} is not trusted: its {code} are code that would run here"
    return f"{root} names what it did not when you trusted it: {'; '.join(state.changed.values())}"


def is_shared(root: Path) -> bool:
    """Return True if the user has declared that others may write to the real folder behind `root`, or to one above
    it."""
    real = _real(root)
    lines = (line.removeprefix(SHARED) for line in _read(trust_file()) if line.startswith(SHARED + b"/"))
    return any(real.is_relative_to(os.fsdecode(line)) for line in lines)


def require_trusted(root: Path) -> None:
    """Raises UntrustedError unless `is_trusted`."""
    state = trust_state(root)
    if not state.trusted:
        raise UntrustedError(untrusted_words(root, state), f"`ckwatch trust {shlex.quote(str(root))}` trusts it.")


def trust(root: Path, *, shared: bool = False) -> None:
    """Put `root` on the list, with what it names now, with `shared` as a folder that others may write to as well.
    Raises CkwatchError when the list cannot be written."""
    wanted = _lines_of(root)
    if shared:
        wanted.append(SHARED + wanted[0])

    def add(lines: list[bytes]) -> list[bytes]:
        kept = _without_names(lines, root)
        return [*kept, *(one for one in wanted if one not in kept)]

    _edit(add)


def trust_once(root: Path) -> None:
    """Trust `root`, with what it names now, in this process alone, until `end_trust_once`. Nothing is written."""
    _once[:0] = _lines_of(root)


def end_trust_once() -> None:
    """Go back to what the list says."""
    _once.clear()


def _lines_of(root: Path) -> list[bytes]:
    """The lines that say that `root` is trusted, with what it names now; the first is its path."""
    line = os.fsencode(_real(root))
    if b"\n" in line:
        raise CkwatchError(f"{root!s} cannot be trusted: its name has a line break", "Rename the folder.")
    if not (root / FILE_NAME).is_file():
        return [line, BELOW + line]
    record = {"folder": str(_real(root)), "programs": named_programs(root)}
    return [line, NAMES + json.dumps(record).encode()]


def distrust(root: Path) -> None:
    """Take `root` off the list. Raises CkwatchError when a folder above keeps it trusted, or when the list cannot be
    written."""
    real = _real(root)
    _edit(
        lambda lines: [
            line
            for line in _without_names(lines, root)
            if line.removeprefix(SHARED).removeprefix(BELOW) != os.fsencode(real)
        ]
    )
    above = next((folder for folder in trusted_folders() if real.is_relative_to(folder)), None)
    if above is not None:
        raise CkwatchError(f"{root} is still trusted, as part of {above}", f"Take {above} off the list too.")


def _without_names(lines: Sequence[bytes], root: Path) -> list[bytes]:
    real = _real(root)
    return [line for line in lines if not line.startswith(NAMES) or _recorded_for(line, real) is None]


def _real(root: Path) -> Path:
    return Path(os.path.realpath(root))


def _read(path: Path) -> list[bytes]:
    """The file's lines."""
    try:
        content, found = read_with_status(path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CkwatchError(f"the list of trusted workspaces {path} cannot be read: {error.strerror}") from error
    if found.st_uid not in (os.getuid(), 0) or found.st_mode & 0o022:
        raise CkwatchError(
            f"the list of trusted workspaces {path} is not used: others could have written it",
            f"Look at what it says, then make it yours: `chown $USER {path}; chmod 600 {path}`",
        )
    return content.splitlines()


def _edit(change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Replace the file in one step, under a lock that keeps other processes from editing it."""
    path = trust_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f".{path.name}.lock")):
            lines = _read(path)
            changed = change(lines)
            if changed != lines:
                replace_file(path, b"".join(line + b"\n" for line in changed), mode=0o600)
    except OSError as error:
        raise CkwatchError(f"the list of trusted workspaces {path} cannot be written: {error.strerror}") from error
