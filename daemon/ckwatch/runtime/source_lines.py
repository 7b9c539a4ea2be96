"""Where a kernel's instructions came from: asked of a second compile of the device code, with line tables."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from ckwatch.analysis.disassembly import Function
from ckwatch.analysis.isa import carried, moved, same_code
from ckwatch.analysis.lines import Frames
from ckwatch.analyze.listing import function_of, lines_of
from ckwatch.build.asking import compile_request
from ckwatch.compile.lined import compile_lined, discard, find_lined
from ckwatch.compile.request import CompileRequest
from ckwatch.diagnostics.places import RenderedFile
from ckwatch.diagnostics.rebase import AnchoredText, mover
from ckwatch.errors import CkwatchError
from ckwatch.events import CompileFacts
from ckwatch.fingerprint import TokenIndex
from ckwatch.machine.state import UnitState
from ckwatch.render.outcome import Rendered
from ckwatch.runtime.runtime import Runtime
from ckwatch.runtime.tools import Tools
from ckwatch.store import Artifact, ArtifactStore
from ckwatch.store.entry import META, artifact_from_json
from ckwatch.toolchain import Toolchain
from ckwatch.toolchain.nvcc import NvccToolchain

if TYPE_CHECKING:
    from ckwatch.compile.ladder import Ladder

STALE = "the kernel is of an earlier input: build it to see its source lines"
DOES_NOT_COMPILE = "no source lines: the device code does not compile with line tables"
NOT_YET = "source lines take a compile of the device code"


@dataclass(slots=True)
class KnownKernel:
    """A kernel of an artifact. `frames` are the call chains by address, in the text `source` that was compiled at
    `path`; None as long as they are not known. `rendered` is the text that was last seen to have the same tokens."""

    function: Function
    frames: dict[int, Frames] | None = None
    source: str = ""
    path: str = ""
    rendered: Rendered | None = None
    notes: tuple[str, ...] = ()
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    def lines(self) -> tuple[dict[int, Frames] | None, RenderedFile | None]:
        """The call chains in the rendered text, and that text; runs in a thread."""
        if self.frames is None or self.rendered is None:
            return self.frames, None
        file = RenderedFile(self.path, self.rendered.source_map)
        if self.rendered.text == self.source:
            return self.frames, file
        move = mover(self.path, old=_anchored(self.source), new=_anchored(self.rendered.text))
        return moved(self.frames, self.path, move), file


class SourceLines:
    """One compile at a time: it is done to understand, and builds come first."""

    def __init__(self, runtime: Runtime, tools: Tools) -> None:
        self._runtime = runtime
        self._tools = tools
        self._turn = anyio.Lock()
        self._failed: dict[str, str] = {}

    async def add(
        self, known: KnownKernel, unit: UnitState, result: CompileFacts, code_object: Path, *, compile_it: bool
    ) -> str:
        """Find out where the instructions of a kernel of `result` came from; why that cannot be told, or "".

        With `compile_it` the device code is compiled when that has not been done. Raises nothing of its own.
        """
        async with known.lock:
            try:
                return await self._add(known, unit, result, code_object, compile_it=compile_it)
            except CkwatchError as error:
                return f"no source lines: {error.message}"
            except (OSError, ValueError) as error:
                return f"no source lines: the artifact cannot be read: {error}"

    async def _add(
        self, known: KnownKernel, unit: UnitState, result: CompileFacts, code_object: Path, *, compile_it: bool
    ) -> str:
        compiler, store = self._tools.compiler, self._tools.store
        fresh = unit.fresh and unit.result is result
        rendered = await self._rendered(unit, result) if fresh else None
        if rendered is None:
            return STALE if known.frames is None else ""
        known.rendered = rendered
        if known.frames is not None:
            return ""
        toolchain = None if compiler is None else compiler.toolchain
        if compiler is None or store is None or toolchain is None or isinstance(toolchain, NvccToolchain):
            return f"no source lines: {self._tools.problem or 'there is no compiler'}"
        if result.artifact in self._failed:
            return self._failed[result.artifact]
        stored = await to_thread.run_sync(_stored, code_object)
        workspace = self._runtime.workshop.loads.workspace(unit.key.scope)
        source = await to_thread.run_sync(lambda: stored.source_text)
        request = replace(compile_request(workspace, unit.unit, rendered), source=source, symbol=stored.record.symbol)
        found = await to_thread.run_sync(find_lined, request, toolchain, store)
        if found is not None:
            return await self._read(known, request, found, toolchain)
        if not compile_it:
            return NOT_YET
        async with self._turn:
            # Another kernel of the same artifact may have waited here, too.
            found = await to_thread.run_sync(find_lined, request, toolchain, store)
            if found is not None:
                return await self._read(known, request, found, toolchain)
            note = await self._compile(known, request, toolchain, compiler.builder.ladder, store)
        if note == DOES_NOT_COMPILE:
            self._failed[result.artifact] = note
        return note

    async def _compile(
        self,
        known: KnownKernel,
        request: CompileRequest,
        toolchain: Toolchain,
        ladder: Ladder | None,
        store: ArtifactStore,
    ) -> str:
        with anyio.CancelScope(shield=True):
            folder = await to_thread.run_sync(store.work_folder)
        try:
            lined = await compile_lined(request, toolchain, store, ladder, folder)
            if lined.code_object is not None:
                return await self._read(known, request, lined.code_object, toolchain)
        finally:
            await discard(folder)
        failure = lined.failure
        if failure is not None and failure.fault is not None:
            return f"no source lines: {failure.message}"
        return DOES_NOT_COMPILE

    async def _read(self, known: KnownKernel, request: CompileRequest, lined: Path, toolchain: Toolchain) -> str:
        function = await function_of(lined, toolchain, known.function.symbol)
        if not await to_thread.run_sync(same_code, function, known.function):
            return "no source lines: with line tables the compiler makes other code of this kernel"
        lines = await lines_of(lined, toolchain, function)
        known.frames = await to_thread.run_sync(carried, lines.frames, function, known.function)
        known.source, known.path = request.source, request.language.source_name
        if lines.innermost_only:
            known.notes = ("there is no llvm-symbolizer: of each instruction only the innermost line is known",)
        return ""

    async def _rendered(self, unit: UnitState, result: CompileFacts) -> Rendered | None:
        """The unit's text, if it still is what the result is of."""
        scope = self._runtime.state.scopes[unit.key.scope]
        overlays = dict(scope.overlays)
        outcome = await self._runtime.workshop.outcome(unit.key, unit.unit, overlays, scope.options)
        found = outcome.rendered
        if found is None or f"{found.symbol}:{found.token_key}" != result.tokens:
            return None
        return found


def _stored(code_object: Path) -> Artifact:
    return artifact_from_json((code_object.parent / META).read_bytes(), code_object.parent)


def _anchored(text: str) -> AnchoredText:
    return AnchoredText(text, TokenIndex(text))
