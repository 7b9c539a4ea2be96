"""Results that can be taken for known later: which ones there are, and what their inputs are.

A result holds as long as the unit's input is the same, the templates and headers are what they were, nothing has
appeared where something was looked for, and the files in the store are untouched. The input is what a render and a
compile are given besides files: the unit's parts that `RenderCache` and the compile's key are made of, the settings and
the compiler (`LoadedWorkspace.settings`), and the code that renders, checks and compiles.

Only units without any message are remembered: messages have places, which the text of the kernel file decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ckwatch.bench.history.results import ResultFiles, StoredResult
from ckwatch.core.events import CompileFacts, RenderFacts
from ckwatch.core.state import State
from ckwatch.engine.handlers.compile_facts import ArtifactFiles
from ckwatch.model.kernels import Kernel, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language, language_of
from ckwatch.render.cache import renderer_identity

FORMAT = 1


class UnitInputs:
    """The inputs of units under the same settings, as digests. Units of one kernel are best asked for in a row."""

    def __init__(self, root: str, settings: str) -> None:
        parts = (FORMAT, code_identity(), root, settings)
        self._workspace = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass"))
        self._kernel: Kernel | None = None
        self._of_kernel = self._workspace

    def of(self, unit: Unit) -> bytes:
        """The unit's."""
        kernel = unit.kernel
        if self._kernel is not kernel:
            parts = (kernel.path, kernel.template, kernel.operation, kernel.flags)
            self._of_kernel = self._workspace.copy()
            self._of_kernel.update(repr(parts).encode("utf-8", "surrogatepass"))
            self._kernel = kernel
        digest = self._of_kernel.copy()
        parameters = sorted(unit.instance.parameters.items())
        digest.update(repr((unit.arch, parameters)).encode("utf-8", "surrogatepass"))
        return digest.digest()


def is_remembered(unit: Unit) -> bool:
    """Return True if results of the unit are remembered: those for the host depend on its processor, and CUDA has
    another compiler."""
    return language_of(unit.kernel.template) is Language.HIP


@dataclass(frozen=True, slots=True)
class SettledUnit:
    """A settled unit and the settings that its result holds for."""

    settings: str
    unit: Unit
    render: RenderFacts
    result: CompileFacts


def settled_unit(state: State, name: str) -> SettledUnit | None:
    """The workspace's unit as it is now, if it is built and its result can be remembered."""
    unit, workspace = state.main.units.get(name), state.main.workspace
    if unit is None or workspace is None or unit.key in state.invalidated or not is_remembered(unit.unit):
        return None
    render, result = unit.render.facts, unit.built
    if render is None or render.diagnostics or render.lacks or result is None or not unit.compile.reusable:
        return None
    if not result.without_output or result.diagnostics or result.tokens != render.tokens:
        return None
    return SettledUnit(workspace.settings, unit.unit, render, result)


def stored_results(root: str, units: Iterable[SettledUnit]) -> list[StoredResult]:
    """Return the results of the units to keep. Blocks; call from a worker thread."""
    inputs: dict[str, UnitInputs] = {}
    shared: dict[object, ResultFiles] = {}
    found = []
    for one in units:
        result, products = one.result, one.result.products
        if not isinstance(products, ArtifactFiles) or products.stamp is None or result.headers is None:
            continue
        parts = (frozenset(one.render.reads.items()), one.render.missed, result.headers.name, id(products.names))
        files = shared.get((*parts, products.every))
        if files is None:
            files = shared[(*parts, products.every)] = ResultFiles(
                one.render.reads, tuple(one.render.missed), result.headers.name, products.names, products.every
            )
        if one.settings not in inputs:
            inputs[one.settings] = UnitInputs(root, one.settings)
        stored = StoredResult(
            *(one.unit.id, files, one.render.tokens, result.key, products.stamp),
            *(result.finished_at, result.seconds, result.peak_memory_bytes),
        )
        found.append(stored.sealed(inputs[one.settings].of(one.unit)))
    return found


@cache
def code_identity() -> str:
    """Changes whenever the code that renders, checks or compiles does."""
    files = sorted((Path(__file__).parents[1] / "compile").rglob("*.py"))
    states = [(str(file), (status := file.stat()).st_size, status.st_mtime_ns) for file in files]
    return repr((renderer_identity(), states))
