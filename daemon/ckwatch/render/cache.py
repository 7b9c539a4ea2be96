"""A cache of renders on disk, valid while nothing that they read has changed.

An entry is keyed by what goes into a render (the template and its contents, operation, parameters, arch, search paths
of templates and headers, and this version of the renderer and checks), so that each branch of a repository has its own.
It holds while every template that was read has the same contents and none has appeared where one was looked for. So
does every header that a template asked for a feature. Only renders without diagnostics are kept.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ckwatch.model.kernels import Operation, Unit
from ckwatch.render.outcome import PackedSourceMap, Rendered, RenderOutcome, packed_bytes, plain_values
from ckwatch.system.durable_files import overwrite_file
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file

FORMAT = 5

DIGEST_BYTES = hashlib.sha256().digest_size
"""An entry begins with the SHA-256 of the rest, which is MessagePack: reading one executes nothing."""

SIZE_LIMIT_BYTES = 400_000_000
"""The size to which `prune` reduces the cache: ten thousand entries."""

Digest = Callable[[str], str | None]
"""The SHA-256 of a file's contents now; None when it cannot be read."""


class RenderCache:
    """Renders in `folder`, one file each. A file that cannot be read or written is a miss."""

    def __init__(self, folder: Path, template_folders: tuple[Path, ...], digest: Digest) -> None:
        self._folder = folder
        self._template_folders = template_folders
        self._digest = digest
        self._last: tuple[Operation, str] | None = None
        self._asked: tuple[Unit, Path] | None = None

    def get(self, unit: Unit, header_folders: Sequence[Path] = ()) -> RenderOutcome | None:
        """The render of `unit` with headers of these folders, if it would come out the same now."""
        self._asked = (unit, self._file(unit, header_folders))
        try:
            data = read_file(self._asked[1], SIDE_FILE_LIMIT_BYTES)
            digest, body = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
            if hashlib.sha256(body).digest() != digest:
                return None
            text, map_bytes, symbol, token_key, mentioned, folders, read, missed, headers = plain_values(body)
        except (OSError, ValueError):  # a damaged entry is a miss
            return None
        if any(self._digest(path) != digest for path, digest in read.items()):
            return None
        if any(os.path.lexists(path) for path in missed):
            return None
        source_map = PackedSourceMap(text, map_bytes)
        rendered = Rendered(text, source_map, symbol, token_key, frozenset(mentioned), tuple(folders))
        return RenderOutcome(rendered, (), read, frozenset(missed), headers=frozenset(headers))

    def put(self, unit: Unit, outcome: RenderOutcome, header_folders: Sequence[Path] = ()) -> None:
        """Keep `outcome` if it has no diagnostics."""
        rendered = outcome.rendered
        if rendered is None or outcome.diagnostics or not isinstance(rendered.source_map, PackedSourceMap):
            return
        body = packed_bytes(
            (
                *(rendered.text, rendered.source_map.packed, rendered.symbol, rendered.token_key),
                *(sorted(rendered.mentioned), rendered.folders, dict(outcome.read), sorted(outcome.missed)),
                sorted(outcome.headers),
            )
        )
        asked = self._asked
        target = asked[1] if asked is not None and asked[0] is unit else self._file(unit, header_folders)
        with suppress(OSError):
            if not self._folder.exists():
                self._folder.mkdir(parents=True)
            overwrite_file(target, hashlib.sha256(body).digest() + body)  # one that is half-written is damaged: a miss

    def _file(self, unit: Unit, header_folders: Sequence[Path]) -> Path:
        template = unit.kernel.template
        if self._last is None or self._last[0] is not unit.kernel.operation:
            self._last = (unit.kernel.operation, repr(unit.kernel.operation))
        contents = next(filter(None, (self._digest(f"{folder}/{template}") for folder in self._template_folders)), "")
        parts = (
            *(FORMAT, renderer_identity(), template, contents, unit.arch, self._last[1]),
            *(sorted(unit.instance.parameters.items()), self._template_folders, tuple(header_folders)),
        )
        return self._folder / hashlib.sha256(repr(parts).encode()).hexdigest()


def prune(folder: Path, size_limit_bytes: int = SIZE_LIMIT_BYTES) -> None:
    """Remove the oldest entries in `folder` until the limit holds."""
    with suppress(OSError):
        sizes = {file: file.stat() for file in folder.iterdir()}
        size = sum(status.st_size for status in sizes.values())
        for file in sorted(sizes, key=lambda file: sizes[file].st_mtime):
            if size <= size_limit_bytes:
                break
            file.unlink(missing_ok=True)
            size -= sizes[file].st_size


@cache
def renderer_identity() -> str:
    """Changes whenever the code that renders or checks does."""
    package = Path(__file__).parents[1]
    files = sorted(file for room in ("model", "headers", "render", "checks") for file in (package / room).rglob("*.py"))
    states = [(str(file), (status := file.stat()).st_size, status.st_mtime_ns) for file in files]
    jinja2 = find_spec("jinja2")
    library = Path(jinja2.origin).stat() if jinja2 is not None and jinja2.origin else None
    return repr((jinja2 and jinja2.origin, library and (library.st_size, library.st_mtime_ns), states))
