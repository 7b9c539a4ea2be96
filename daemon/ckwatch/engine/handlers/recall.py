"""Recall: sees which results that are remembered hold, all units at once.

Each file is looked at once, however many units depend on it: a unit takes some microseconds in place of the
milliseconds of a render and a look-up. A few units take these, those that were compiled last: their texts are needed
soon, and precompiled headers are made for them.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio.lowlevel
from anyio import CapacityLimiter, to_thread

import ckwatch_templates
from ckwatch.bench.history.database import HistoryError
from ckwatch.bench.history.results import ResultFiles, StoredResult
from ckwatch.compile.store.content_hashes import ContentSnapshot
from ckwatch.core.effects import Recall
from ckwatch.core.events import MAIN, CompileFacts, HeaderFacts, RecalledUnit, RecallFinished, RenderFacts
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.compile_facts import ArtifactFiles
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.remembered_results import UnitInputs, is_remembered
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.model.kernels import Outcome
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.writers import Writers

if TYPE_CHECKING:
    from ckwatch.compile.store.artifacts import ArtifactStore

KERNELS_RENDERED = 16
"""Of so many kernels, those compiled last, one unit each is rendered and looked up."""

UNITS_AT_ONCE = 1000
"""Units that are noted before other tasks get the event loop: a millisecond."""


@dataclass(eq=False)
class RecallHandler:
    """Compares remembered results with files."""

    _root: str
    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _recorder: HistoryRecorder
    _threads: CapacityLimiter

    async def run(self, effect: Recall) -> RecallFinished:
        """The units of which the results hold."""
        found = await to_thread.run_sync(self._recall, effect, limiter=self._threads)
        for count, one in enumerate(found.values()):
            if count % UNITS_AT_ONCE == UNITS_AT_ONCE - 1:
                await anyio.lowlevel.checkpoint()
            self._renders.note_passed(one.unit)
            self._renders.note_worked(one.unit)
        return RecallFinished(effect.work, found)

    def _recall(self, effect: Recall) -> dict[str, RecalledUnit]:
        stored, results = self._tools.store, self._recorder.results
        if stored is None or results is None:
            return {}
        try:
            remembered = results.all()
        except HistoryError:
            return {}  # opening the history has warned the user
        inputs = UnitInputs(self._root, effect.settings)
        files = _Files(self._tools, stored, self._view_loader.workspace(MAIN).writers)
        found: dict[str, RecalledUnit] = {}
        newest: dict[str, tuple[float, str]] = {}
        for unit in effect.units:
            if unit.id not in remembered or not is_remembered(unit):
                continue
            unit_input = inputs.of(unit)
            for result in remembered[unit.id]:
                facts = files.facts_of(result) if result.has_input(unit_input) else None
                if facts is not None:
                    found[unit.id] = RecalledUnit(unit, *facts)
                    last = (result.finished_at, unit.id)
                    newest[unit.kernel.name] = max(newest.get(unit.kernel.name, last), last)
                    break
        for _, name in heapq.nlargest(KERNELS_RENDERED, newest.values()):
            del found[name]
        return found


class _Files:
    """The files that results depend on, each looked at once."""

    def __init__(self, tools: BuildTools, store: ArtifactStore, writers: Writers) -> None:
        self._tools = tools
        self._store = store
        self._writers = writers
        self._look: ContentSnapshot = store.contents.look()
        self._builtin = f"{ckwatch_templates.ROOT}{os.sep}"
        self._refused: dict[str, bool] = {}
        self._headers: dict[str, HeaderFacts | None] = {}
        self._known: dict[int, tuple[HeaderFacts, frozenset[str]] | None] = {}
        self._missed: dict[frozenset[str], frozenset[str]] = {}

    def facts_of(self, result: StoredResult) -> tuple[RenderFacts, CompileFacts] | None:
        """Return the facts of the result, if all its inputs are unchanged."""
        files = result.files
        number = id(files)
        if number not in self._known:
            self._known[number] = self._of(files)
        known = self._known[number]
        if known is None:
            return None
        headers, missed = known
        folder = self._store.entry_folder(result.key, files.headers)
        products = ArtifactFiles(folder, files.products, files.entry)
        if products.stamp != result.stamp:
            return None
        self._store.use(folder)
        compiled = CompileFacts(
            *(Outcome.BUILT, result.tokens, result.key, (), products, headers),
            from_store=True,
            without_output=True,
            seconds=result.seconds,
            peak_memory_bytes=result.peak_memory_bytes,
            finished_at=result.finished_at,
        )
        return RenderFacts(True, (), files.reads, missed, result.tokens, compiled.symbol), compiled

    def _of(self, files: ResultFiles) -> tuple[HeaderFacts, frozenset[str]] | None:
        """The set of headers and the paths at which no template was, if all files are what they were."""
        if files.headers not in self._headers:
            self._headers[files.headers] = self._held_set(files.headers)
        headers = self._headers[files.headers]
        if headers is None or not self._are_read(files.reads) or any(map(self._look.exists, files.missed)):
            return None
        missed = frozenset(files.missed)
        return headers, self._missed.setdefault(missed, missed)

    def _held_set(self, name: str) -> HeaderFacts | None:
        headers = self._tools.header_set(name)
        if headers is None or any(map(self._look.exists, headers.absent)):
            return None
        digest = self._look.digest
        return headers if all(digest(path) == one for path, one in headers.present.items()) else None

    def _are_read(self, reads: Mapping[str, str]) -> bool:
        return all(self._look.digest(path) == one and not self._is_refused(path) for path, one in reads.items())

    def _is_refused(self, path: str) -> bool:
        """Return True if other users can write the template: its results are not used."""
        if path not in self._refused:
            own = path.startswith(self._builtin)
            self._refused[path] = not own and self._writers.refusal(path) is not None
        return self._refused[path]
