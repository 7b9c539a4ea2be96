"""What the core learns of a compile: the outcome, its diagnostics, and where its files are.

Five thousand results have twenty thousand files: their paths are put together on demand.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from ckwatch.checks.compiler_diagnostics import CompilerInputs
from ckwatch.compile.rendered_unit import build_diagnostics
from ckwatch.compile.request import BuildOutcome
from ckwatch.compile.store.entries import META
from ckwatch.core.effects import Compile, LookUp
from ckwatch.core.events import CompileFacts
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.compiler_messages import line_reader
from ckwatch.model.kernels import Outcome
from ckwatch.render.outcome import Rendered


class ArtifactFiles(Mapping[str, str]):
    """Absolute paths by kind: files called `names` in `folder`, as they are now; for a thread."""

    __slots__ = ("_folder", "_names", "_stamp")

    def __init__(self, folder: Path, names: Mapping[str, str]) -> None:
        self._folder = str(folder)
        self._names = _shared_names(tuple(names.items()))
        self._stamp = self._look()

    def __getitem__(self, kind: str) -> str:
        return f"{self._folder}{os.sep}{self._names[kind]}"

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def untouched(self) -> bool:
        """Whether the files exist and, by their times and sizes, have not been written since."""
        return self._stamp == self._look() is not None

    def _look(self) -> int | None:
        try:
            states = [os.stat(path) for path in self.values()]  # noqa: PTH116  # thousands of these are made
        except OSError:
            return None
        return hash(tuple((one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for one in states))


@lru_cache(maxsize=64)
def _shared_names(names: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(names)


def facts_of(
    tools: BuildTools,
    effect: LookUp | Compile,
    text: Rendered,
    header_warnings: bool,
    inputs: CompilerInputs,
    result: BuildOutcome,
) -> CompileFacts:
    """What the core learns of `result`; for a thread."""
    quiet = result.ok and not result.log.strip()
    diagnostics = (
        ()
        if quiet
        else build_diagnostics(
            *(effect.unit, text, result, line_reader(effect.overlays)), header_warnings=header_warnings, inputs=inputs
        )
    )
    artifact = result.artifact
    outcome = Outcome.BUILT if result.ok else Outcome.FAILED
    if result.fault is not None:
        outcome = Outcome.FAULTED
    if artifact is None:
        return CompileFacts(
            outcome, effect.work.tokens, result.key, diagnostics, without_output=quiet, finished_at=time.time(),
            seconds=0.0 if result.outcome is None else result.outcome.duration_s,
        )  # fmt: skip
    return CompileFacts(
        outcome,
        effect.work.tokens,
        result.key,
        diagnostics,
        ArtifactFiles(artifact.folder, artifact.products),
        tools.headers_of(artifact),
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
