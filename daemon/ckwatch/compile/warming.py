"""Which precompiled headers help a compile, and making them.

For every family of sources the one that was built first is remembered, and the others are warmed up with it. As long
as there is none that of another family of the same kernel helps, or the includes alone are precompiled.

What is said of a source and what comes of it must not depend on them. Included headers are then read once more than
they are without, and those that were precompiled say nothing: where that would be seen, none is made.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.compile.dependencies import parse_header_list
from ckwatch.compile.plan import CompilePlan, Side
from ckwatch.compile.precompiled import (
    FLAGS,
    HEADER,
    INSTANTIATE,
    SOURCE,
    Precompiled,
    PrecompiledHeaders,
    Wanted,
)
from ckwatch.compile.prefix import can_warm_up, family_of, include_prefix, warm_text
from ckwatch.compile.processes import Launcher, Verdict
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.running import environment_of
from ckwatch.diagnostics.clang_text import parse_log
from ckwatch.store import ArtifactStore, StoreError
from ckwatch.store.contents import Look
from ckwatch.store.headers import shadows
from ckwatch.store.locking import try_lock, unlock

NICE = 15
"""Headers are made at low priority (nice(1)), lower than that of compiles."""

TIME_LIMIT_S = 600.0

FAMILIES = 8
"""Families of one kernel that are remembered."""

_REPRESENTATIVES = "representatives"
_Representatives = Mapping[str, tuple[str, str]]
"""For each family the symbol and the source of one that compiles."""


class Warming:
    """The precompiled headers of one compiler and store. One event loop's."""

    def __init__(
        self, toolchain: CompilerToolchain, store: ArtifactStore, headers: PrecompiledHeaders, launch: Launcher
    ) -> None:
        self.headers = headers
        self._toolchain = toolchain
        self._store = store
        self._launch = launch
        self._flights: dict[str, anyio.Lock] = {}
        self._known: dict[str, _Representatives] = {}

    def find(
        self, request: CompileRequest, side: Side, plan: CompilePlan, look: Look | None = None
    ) -> Precompiled | None:
        """The best one there is; runs in a thread."""
        if self.headers.refusal() is not None:
            return None
        found = (self.headers.find(wanted, look) for wanted in self.candidates(request, side, plan))
        return next((header for header in found if header is not None), None)

    def candidates(self, request: CompileRequest, side: Side, plan: CompilePlan, *, warm: bool = True) -> list[Wanted]:
        """Those that would help, the best first; runs in a thread. Without `warm` the includes alone."""
        prefix = include_prefix(request.source)
        if not prefix:
            return []
        texts = []
        if warm and can_warm_up(request.source):
            known = self._representatives(request, prefix, plan)
            family = family_of(request.source)
            for _, (symbol, source) in sorted(known.items(), key=lambda one: one[0] != family):
                texts.append(warm_text(prefix, source, symbol))
        # Twice, as with the header it is read twice: it cannot be made of headers that bear that only once.
        return [self.headers.wanted(side, text, plan) for text in (*texts, prefix + prefix)]

    def lacking(
        self, request: CompileRequest, plan: CompilePlan, sides: Iterable[Side] = Side, *, warm: bool = True
    ) -> list[Wanted]:
        """What to make next for requests like this one; runs in a thread."""
        found = []
        for side in sides:
            candidates = self.candidates(request, side, plan, warm=warm)
            able = [wanted for wanted in candidates if self.headers.worth_trying(wanted)]
            if able and self.headers.find(able[0]) is None:
                found.append(able[0])
        return found

    def built(self, request: CompileRequest, plan: CompilePlan) -> None:
        """Remember the source for its family if none is known yet; runs in a thread."""
        prefix = include_prefix(request.source)
        if not prefix or not can_warm_up(request.source):
            return
        known = self._representatives(request, prefix, plan)
        family = family_of(request.source)
        if family in known or len(known) >= FAMILIES:
            return
        name = self._name(request, prefix, plan)
        file = self._store.folder / _REPRESENTATIVES / name
        temporary = file.with_name(f"{name}.{os.getpid()}")
        self._known[name] = {**known, family: (request.symbol, request.source)}
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(self._known[name]))
            temporary.replace(file)

    async def make(self, wanted: Wanted, request: CompileRequest, plan: CompilePlan) -> bool:
        """Make one unless it is there; whether it can be used. Another process that is at it is not waited for."""
        async with self._flights.setdefault(wanted.key, anyio.Lock()):
            if await anyio.to_thread.run_sync(self.headers.find, wanted) is not None:
                return True
            path = self._store.locks / f"{wanted.key}.lock"
            with anyio.CancelScope(shield=True):
                lock = await anyio.to_thread.run_sync(_lock, path)
            if lock is None:
                return False
            try:
                return await self._make(wanted, request, plan)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(unlock, path, lock)

    async def _make(self, wanted: Wanted, request: CompileRequest, plan: CompilePlan) -> bool:
        begun_ns = time.time_ns()
        try:
            folder = await anyio.to_thread.run_sync(self.headers.prepare, wanted)
            work = await anyio.to_thread.run_sync(self._store.work_folder)
        except (OSError, StoreError):
            return False
        made, listed = folder / f"{HEADER}.{os.getpid()}", work / "headers.txt"
        command = plan.pass_command(
            wanted.side, source=str(folder / SOURCE), output=str(made), headers=str(listed), cuid="",
            emit="-emit-pch", more=(*FLAGS, INSTANTIATE),
        )  # fmt: skip
        try:
            finished = await self._launch(
                command,
                environment=environment_of(self._toolchain.environment, work),
                folder=work,
                timeout_s=TIME_LIMIT_S,
                nice=max(NICE, request.nice),
            )
            if finished.exit_status != 0 or finished.verdict is not Verdict.EXITED:
                if finished.verdict is Verdict.EXITED and finished.exit_status > 0:
                    self.headers.failed(wanted)
                return False
            if _says_more(finished.stderr, wanted):
                self.headers.failed(wanted)
                return False
            take = partial(self._publish, wanted, request, made, listed, begun_ns)
            return await anyio.to_thread.run_sync(take)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(partial(_clear, made, work))

    def _publish(self, wanted: Wanted, request: CompileRequest, made: Path, listed: Path, begun_ns: int) -> bool:
        names = parse_header_list(listed.read_text(encoding="utf-8", errors="surrogateescape"))
        folders = [*request.include_folders, *self._toolchain.include_folders]
        try:
            return self.headers.publish(wanted, made, names, shadows(names, folders), begun_ns)
        except OSError:
            return False

    def _representatives(self, request: CompileRequest, prefix: str, plan: CompilePlan) -> _Representatives:
        name = self._name(request, prefix, plan)
        if name not in self._known:
            try:
                told = json.loads((self._store.folder / _REPRESENTATIVES / name).read_text())
                self._known[name] = {str(family): (str(one[0]), str(one[1])) for family, one in told.items()}
            except (OSError, ValueError, AttributeError, IndexError, TypeError):
                self._known[name] = {}
        return self._known[name]

    def _name(self, request: CompileRequest, prefix: str, plan: CompilePlan) -> str:
        command = self.headers.wanted(Side.DEVICE, prefix, plan)
        return hashlib.sha256(f"{command.key}\0{request.kernel}".encode()).hexdigest()[:40]


def _says_more(log: str, wanted: Wanted) -> bool:
    """Whether a source that uses the header would say less than by itself (a warning in what it includes, that would
    not be read again), or more (a macro that it defines anew)."""
    own = f"/{wanted.key}/{SOURCE}"
    placed = (message for message in parse_log(log) if message.position is not None)
    return any(not message.path.endswith(own) or message.option == "macro-redefined" for message in placed)


def _lock(path: Path) -> int | None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return try_lock(path)
    return None


def _clear(made: Path, work: Path) -> None:
    with suppress(OSError):
        made.unlink(missing_ok=True)
    shutil.rmtree(work, ignore_errors=True)
