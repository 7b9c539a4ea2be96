"""The core's facts about a compile: the outcome, its diagnostics, and the paths of its files.

Five thousand results have twenty thousand files: their paths are put together on demand.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from sys import intern

from ckwatch.checks.compiler.sources import CompilerInputs
from ckwatch.compile.rendered_unit import build_diagnostics
from ckwatch.compile.request import BuildOutcome
from ckwatch.compile.store.entries import META
from ckwatch.core.events import CompileFacts
from ckwatch.engine.build_tools import BuildTools, CompilerWithStore
from ckwatch.engine.handlers.compiler_messages import line_reader
from ckwatch.model.kernels import Outcome, Unit
from ckwatch.render.outcome import Rendered


class ArtifactFiles(Mapping[str, str]):
    """Absolute paths by kind: files called `names` in `folder`, as they are now. Blocks; call from a worker thread.

    `every` are the names of all files of the entry. `stamp` is the same as long as, by their times and sizes, none of
    them has been written, and for all processes; None where one is missing.
    """

    __slots__ = ("_entry", "_folder", "stamp")

    def __init__(self, folder: Path | str, names: Mapping[str, str], every: Iterable[str]) -> None:
        self._folder = str(folder)
        self._entry = _shared_entry(tuple(names.items()), tuple(every))
        self.stamp = self._look()

    def __getitem__(self, kind: str) -> str:
        return f"{self._folder}{os.sep}{self._entry[0][kind]}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._entry[0])

    def __len__(self) -> int:
        return len(self._entry[0])

    @property
    def names(self) -> Mapping[str, str]:
        """The names by kind."""
        return self._entry[0]

    @property
    def every(self) -> tuple[str, ...]:
        """The names of all files of the entry."""
        return self._entry[1]

    def untouched(self) -> bool:
        """Return True if the files exist and, by their times and sizes, have not been written since."""
        return self.stamp == self._look() is not None

    def _look(self) -> int | None:
        prefix, stat = f"{self._folder}{os.sep}", os.stat
        try:
            states = [stat(prefix + name) for name in self._entry[1]]
        except OSError:
            return None
        return hash(tuple([(one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for one in states]))


@lru_cache(maxsize=64)
def _shared_entry(
    names: tuple[tuple[str, str], ...], every: tuple[str, ...]
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    return dict(names), every


def facts_of(
    tools: BuildTools,
    unit: Unit,
    text: Rendered,
    overlays: Mapping[str, str],
    header_warnings: bool,
    inputs: Callable[[], CompilerInputs],
    result: BuildOutcome,
    compiler: CompilerWithStore | None = None,
) -> CompileFacts:
    """Return the core's facts about `result` of a compiler, by default the workspace's. Blocks; call from a worker
    thread."""
    tokens = intern(f"{text.symbol}:{text.token_key}")  # that of the render
    quiet = result.ok and not result.log.strip()
    diagnostics = (
        ()
        if quiet
        else build_diagnostics(
            *(unit, text, result, line_reader(overlays)), header_warnings=header_warnings, inputs=inputs()
        )
    )
    artifact = result.artifact
    outcome = Outcome.BUILT if result.ok else Outcome.FAILED
    if result.fault is not None:
        outcome = Outcome.FAULTED
    if artifact is None:
        return CompileFacts(
            outcome, tokens, result.key, diagnostics, without_output=quiet, finished_at=time.time(),
            seconds=0.0 if result.outcome is None else result.outcome.duration_s,
        )  # fmt: skip
    return CompileFacts(
        outcome,
        tokens,
        result.key,
        diagnostics,
        ArtifactFiles(artifact.folder, artifact.products, (META, *artifact.files)),
        tools.header_set(artifact.headers, compiler),
        result.from_store,
        quiet,
        artifact.record.duration_s,
        artifact.record.peak_memory_bytes,
        _finished_at(artifact.folder / META) if result.from_store else time.time(),
    )


def _finished_at(meta: Path) -> float:
    try:
        return meta.stat().st_mtime
    except OSError:  # evicted at this moment
        return time.time()
