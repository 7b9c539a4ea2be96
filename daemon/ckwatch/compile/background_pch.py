"""Makes precompiled headers in the background, before they are needed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.driver_plan import CompilePlan, PassSide
from ckwatch.compile.precompiled_headers import HeaderSpec, family_of
from ckwatch.compile.request import CompileRequest
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language
from ckwatch.system.memory import available_bytes

if TYPE_CHECKING:
    from ckwatch.compile.staged_build import StagedCompiler

log = logging.getLogger(__name__)

IDLE_S = 1.0
"""How long nothing must be compiled before a header is made."""

KERNELS_KEPT = 16
"""Units that were compiled, and families of units that were found, whose headers are made: the last ones."""

ALONE = 2
"""Edited units up to which a clang parses each. Of more it parses one of a family: what another tile has instantiated
helps no further tile, and takes 30 to 140 MB."""

UNIT_BYTES = 2**30
"""Memory that must be available for each unit whose headers are made side by side: both passes take 0.8 GB."""

UNITS_KEPT = 256
"""Units of which it is known that they were built before."""


LadderOf = Callable[[], "StagedCompiler | None"]
"""Returns the compiler that takes apart the compiles of a request, if there is one."""


@dataclass(frozen=True, slots=True)
class _Noted:
    request: CompileRequest
    unit: str
    family: tuple[object, ...]
    """With kernel, arch and flags: the same for those that a clang which has parsed one of them can compile."""
    built: bool
    compiled: bool
    edited: bool
    ladder_of: LadderOf
    alone: bool = True
    """No more than `ALONE` were edited together."""

    @property
    def kernel(self) -> tuple[str, str]:
        """Its name and arch."""
        return self.request.kernel, self.request.arch

    @property
    def is_kept(self) -> bool:
        """Return True if a clang is to parse its source, where that is possible."""
        return self.built and self.compiled and (self.edited or self.request.lines)


class BackgroundPch:
    """Notes what is compiled, and makes the headers that it needs while not `is_busy`.

    Those of both passes, and of several units, are made side by side where all but one of `jobs` cores are enough for
    that, also beside the one text that a clang parses at a time. A compile that comes while headers are being made does
    not wait for them.
    """

    def __init__(
        self,
        is_busy: Callable[[], bool],
        jobs: Callable[[], int] = lambda: 1,
        idle_s: float = IDLE_S,
        available: Callable[[], int | None] = available_bytes,
    ) -> None:
        self._is_busy = is_busy
        self._jobs = jobs
        self._idle_s = idle_s
        self._available = available
        self._noted: dict[tuple[object, ...], _Noted] = {}
        self._built: dict[str, None] = {}
        self._news = anyio.Event()
        self._living: TaskGroup
        self._ladder: StagedCompiler | None = None
        self._made_now: list[tuple[_Noted, anyio.CancelScope]] = []
        self._remembering = anyio.Lock()
        self._parsing = anyio.Lock()

    @property
    def making(self) -> bool:
        """Return True if a header is being made."""
        return bool(self._made_now)

    @property
    def pending(self) -> bool:
        """Return True if there may be headers to make."""
        return self.making or bool(self._noted)

    def note(
        self, request: CompileRequest, unit: str, ladder_of: LadderOf | None, *, built: bool, compiled: bool
    ) -> None:
        """Expect a request of `unit` like this again. `built`: its source compiles; `compiled`: it was just now.
        `ladder_of` is called when headers are to be made; None where none are.

        Templates are instantiated ahead only for kernels that were compiled just now: that takes half a minute. A unit
        that was built before and is compiled again is one that somebody edits: it is instantiated itself.
        """
        if request.language is not Language.HIP or ladder_of is None:
            return
        shared = (request.kernel, request.arch, request.flags, request.defines, family_of(request.source))
        own = (*shared, unit)
        key = own if compiled or own in self._noted else shared
        was = self._noted.pop(key, None)
        edited = built and compiled and unit in self._built
        if built:
            self._built.pop(unit, None)
            self._built[unit] = None
            while len(self._built) > UNITS_KEPT:
                del self._built[next(iter(self._built))]
        built |= was is not None and was.built
        compiled |= was is not None and was.compiled
        self._noted[key] = _Noted(request, unit, shared, built, compiled, edited, ladder_of)
        while len(self._noted) > KERNELS_KEPT:
            del self._noted[next(iter(self._noted))]
        self._news.set()

    def cancel(self, kernels: Collection[tuple[str, str]]) -> list[str]:
        """Make no headers for these kernels (name and arch) until they are compiled again.

        Returns the units whose headers were being made.
        """
        self._noted = {key: one for key, one in self._noted.items() if one.kernel not in kernels}
        made_now = [(noted.unit, scope) for noted, scope in self._made_now if noted.kernel in kernels]
        for _, scope in made_now:
            scope.cancel()
        return list(dict.fromkeys(unit for unit, _ in made_now))

    async def run(self) -> None:
        """Run until cancelled."""
        async with plain_errors(), anyio.create_task_group() as self._living:
            await self._run()

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            rested_s = 0.0
            while rested_s < self._idle_s:
                await anyio.sleep(self._idle_s / 4)
                rested_s = 0.0 if self._is_busy() else rested_s + self._idle_s / 4
            if not self._noted:
                self._news = anyio.Event()
                continue
            edited = [key for key, one in self._noted.items() if one.edited]
            if len(edited) > ALONE:
                self._noted.update({key: replace(self._noted[key], alone=False) for key in edited})
            async with plain_errors(), anyio.create_task_group() as tasks:
                for key, noted in self._next():
                    tasks.start_soon(self._make_of, key, noted)

    def _next(self) -> list[tuple[tuple[object, ...], _Noted]]:
        """The last noted, and those before it for whose two passes cores and memory stay free: of those that a clang
        may parse one of a family, as the others may lack nothing then."""
        room = min((self._jobs() - 1) // len(PassSide), (self._available() or 0) // UNIT_BYTES)
        families = set()
        chosen = []
        for key, noted in reversed(self._noted.items()):
            if not (noted.is_kept and noted.family in families):
                chosen.append((key, noted))
            families.add(noted.family)
        return chosen[: max(1, room)]

    async def _make_of(self, key: tuple[object, ...], noted: _Noted) -> None:
        """Make headers of one that was noted, which is forgotten when it has all."""
        made = False
        with anyio.CancelScope() as scope:
            self._made_now.append((noted, scope))
            try:
                made = await self._make(noted)
            except CkwatchError as error:  # a compile would meet it too, and report it
                log.info("no precompiled header: %s", error)
            finally:
                self._made_now.remove((noted, scope))
        if not made and self._noted.get(key) is noted:
            self._noted.pop(key, None)

    async def _make(self, noted: _Noted) -> bool:
        """Make missing headers; False when none is missing, or none can be made."""
        request, compiled = noted.request, noted.compiled
        ladder = noted.ladder_of()
        if self._ladder is not None and self._ladder is not ladder:
            self._ladder.warming.kept.end()  # another compiler, or none
        self._ladder = ladder
        plan = None if ladder is None else await ladder.plan(request)
        if ladder is None or plan is None:
            return False
        warming = ladder.warming
        if noted.built and compiled:
            async with self._remembering:
                await anyio.to_thread.run_sync(partial(warming.built, edited=noted.edited), request, plan)
        if noted.is_kept:
            again = noted.alone or request.lines
            async with self._parsing:
                parsed = await self._keep(ladder, request, plan, again=again)
            if parsed and self._is_busy():
                return True
        lacking = await anyio.to_thread.run_sync(partial(warming.lacking, warm=compiled), request, plan)
        if not lacking:
            await anyio.to_thread.run_sync(warming.headers.tidy)
            return False
        made: list[bool] = []

        async def make(header: HeaderSpec) -> None:
            made.append(await warming.make(header, request, plan))

        async with plain_errors(), anyio.create_task_group() as tasks:
            for header in lacking[: max(1, self._jobs() - 1)]:
                tasks.start_soon(make, header)
        return any(made)

    async def _keep(self, ladder: StagedCompiler, request: CompileRequest, plan: CompilePlan, *, again: bool) -> bool:
        """Let a clang parse the source. It has the priority of a compile, and is given up for one that comes, until
        there is none."""
        passes = await ladder.plan_with_lines(request, plan)
        kept: list[bool] = []
        async with plain_errors(), anyio.create_task_group() as tasks:

            async def give_up() -> None:
                while not self._is_busy():  # noqa: ASYNC110  # it sets no event
                    await anyio.sleep(self._idle_s / 4)
                tasks.cancel_scope.cancel()

            tasks.start_soon(give_up)
            kept.append(await ladder.warming.keep(request, plan, passes, self._living, again=again))
            tasks.cancel_scope.cancel()
        return not kept or kept[0]
