"""The private folder of one compile: what the compiler finds in it, its environment, and the folder's removal.

The compiler runs in it, everything is written into it and temporary files go to it, so that removing the folder removes
every trace.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.compile.request import CompileRequest
from ckwatch.render.tokens import without_line_markers

TEMPORARY = "temporary"


EXPORTS = "exports.map"


HEADER_LIST = "headers.txt"


async def remove_work_folder(folder: Path) -> None:
    """Remove the folder of a compile, also for a task that is being cancelled."""
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))


@lru_cache(maxsize=8)
def _resolved(folder: Path) -> Path:
    return folder.resolve()


def _prefixes(folder: Path) -> tuple[str, ...]:
    """The spellings of `folder` in what a compiler prints: with and without links, and as fix-its escape them."""
    plain = dict.fromkeys(f"{path}/{folder.name}/" for path in (folder.parent, _resolved(folder.parent)))
    escaped = (
        "".join(chr(byte) if byte < 128 else f"\\{byte:03o}" for byte in prefix.encode("utf-8", "surrogateescape"))
        for prefix in plain
    )
    return tuple(dict.fromkeys([*plain, *escaped]))


def prepare(request: CompileRequest, folder: Path) -> tuple[tuple[str, ...], OSError | None]:
    """Write what the compiler reads; the folder's spellings, and why it could not be written."""
    prefixes = _prefixes(folder)
    names = " ".join(f"{name};" for name in request.exports)
    try:
        source = without_line_markers(request.source).encode("utf-8", "surrogateescape")
        (folder / request.language.source_name).write_bytes(source)
        (folder / EXPORTS).write_text(f"{{ global: {names} local: *; }};\n")
        (folder / TEMPORARY).mkdir()
    except OSError as error:
        return prefixes, error
    return prefixes, None


def environment_of(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The whole environment of a compiler in `folder`."""
    return {
        **environment,
        "TMPDIR": str(folder / TEMPORARY),
        "CC_PRINT_HEADERS": "1",
        "CC_PRINT_HEADERS_FILE": str(folder / HEADER_LIST),
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": "0",  # __DATE__ and __TIME__ would make two compiles of one source differ
    }
