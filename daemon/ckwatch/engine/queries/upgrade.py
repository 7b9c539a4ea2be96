"""The changes that another toolchain would make: units are built with it and with the present one, and compared.

Nothing of it is a unit's state or in the history: what is compiled, analyzed and verified goes to the store by its
keys, so that it is there after the upgrade.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from anyio import CapacityLimiter, to_thread
from anyio.streams.memory import MemoryObjectSendStream

from ckwatch.checks.class_templates import declared_templates, rewritten_uses, used_templates
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import HeaderFacts
from ckwatch.core.unit_state import UnitState
from ckwatch.core.units import expected_memory_bytes
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.other_toolchains import OtherToolchains
from ckwatch.engine.handlers.verify import VerifyRunner
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.outcomes import BuiltUnit, OutcomeBuilds, ViewedUnit
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.engine.side_work import SideWork
from ckwatch.headers.masked_text import masked
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import read_file
from ckwatch.wire.unit_changes import UnitOutcome, UpgradeLine, unit_change

CANCELLED = "it was cancelled"


@dataclass(eq=False)
class UpgradeQuery:
    """Compares toolchains."""

    _loop: EngineLoop
    _tools: BuildTools
    _toolchains: OtherToolchains
    _verifier: VerifyRunner
    _lookup: UnitLookup
    _side_work: SideWork

    @asynccontextmanager
    async def upgrade(
        self, scope: str, patterns: Sequence[str] | None, to: str, *, verify: bool
    ) -> AsyncIterator[AsyncIterator[UpgradeLine]]:
        """The lines of a comparison; leaving the context ends what it does. Raises UnknownUnitError for a pattern that
        means no unit, ToolchainError without one of the toolchains."""
        await self._lookup.loaded()
        names = await self._lookup.names(scope, patterns)
        units = [unit for name in names if (unit := self._loop.state.seen(scope, name)) is not None]
        present = self._tools.present_compiler()
        other = await self._toolchains.compiler(scope, to)
        common = (self._tools, self._toolchains, self._verifier)
        sides = {name: OutcomeBuilds(*common, one) for name, one in (("present", present), ("other", other))}
        before, after = (_title(one.toolchain) for one in (present, other))
        send, receive = anyio.create_memory_object_stream[UpgradeLine](float("inf"))
        send.send_nowait(UpgradeLine(event="start", units=len(units), before=before, after=after))
        async with plain_errors(), anyio.create_task_group() as tasks, send, receive:
            tasks.start_soon(self._compare_all, units, sides, verify, send)
            yield receive
            tasks.cancel_scope.cancel()

    async def _compare_all(
        self,
        units: Sequence[UnitState],
        sides: Mapping[str, OutcomeBuilds],
        verify: bool,
        send: MemoryObjectSendStream[UpgradeLine],
    ) -> None:
        state = self._loop.state
        memory = max((expected_memory_bytes(state, unit) for unit in units), default=1)
        room = state.jobs if state.memory_bytes is None else min(state.jobs, state.memory_bytes // memory)
        compilers = CapacityLimiter(max(1, room))
        async with anyio.create_task_group() as tasks:
            for unit in units:
                tasks.start_soon(self._compare, unit, sides, compilers, verify, send)
        send.send_nowait(UpgradeLine(event="done"))
        send.close()

    async def _compare(
        self,
        unit: UnitState,
        sides: Mapping[str, OutcomeBuilds],
        compilers: CapacityLimiter,
        verify: bool,
        send: MemoryObjectSendStream[UpgradeLine],
    ) -> None:
        def stage(which: str, text: str) -> None:
            send.send_nowait(UpgradeLine(event="stage", unit=unit.key.unit, text=f"{text} with the {which} toolchain"))

        view = self._loop.state.views[unit.key.scope]
        viewed = ViewedUnit(unit.key, unit.unit, view.overlays.copy(), view.options)
        found: list[BuiltUnit] = []
        with self._side_work.of(unit.key):
            for name, side in sides.items():
                try:
                    found.append(await side.built(viewed, compilers, verify=verify, on_stage=partial(stage, name)))
                except CkwatchError as error:
                    found.append(BuiltUnit(UnitOutcome(outcome="faulted", problem=str(error))))
        found += [BuiltUnit(UnitOutcome(outcome="faulted", problem=CANCELLED))] * (2 - len(found))
        old, new = found
        rewrites: list[str] = []
        if old.outcome.outcome == "built" and old.headers and new.headers and old.headers != new.headers:
            rewrites = await to_thread.run_sync(_rewrites, new.text, old.headers, new.headers)
        change = unit_change(unit.key.unit, old.outcome, new.outcome, rewrites)
        send.send_nowait(UpgradeLine(event="unit", unit=unit.key.unit, change=change))


def _rewrites(text: str, before: HeaderFacts, after: HeaderFacts) -> list[str]:
    """Replacements in a text where templates in headers have other parameters than before. Blocks; call from a worker
    thread."""
    code = masked(text)
    names = used_templates(code)
    old, new = (declared_templates(_texts(one, other), names) for one, other in ((before, after), (after, before)))
    return rewritten_uses(code, old, new)


def _texts(headers: HeaderFacts, others: HeaderFacts) -> list[str]:
    """The headers that are not the same in the other set."""
    same = set(others.present.values())
    found: list[str] = []
    for path, digest in headers.present.items():
        if digest not in same:
            try:
                found.append(read_file(Path(path)).decode("utf-8", "replace"))
            except OSError:
                continue
    return found


def _title(toolchain: Toolchain | NvccToolchain) -> str:
    """`ROCm 7.2.4 at /opt/rocm with CK 1.2.0 at /opt/rocm/include`."""
    if not isinstance(toolchain, Toolchain):
        return str(toolchain.hipcc)
    ck = toolchain.ck or toolchain.ck_tile
    return (
        toolchain.title if ck is None else f"{toolchain.title}, CK {ck.version or 'without a version'} at {ck.folder}"
    )
