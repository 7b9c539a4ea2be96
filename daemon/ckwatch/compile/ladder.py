"""A HIP compile in its parts: host and device pass side by side, each with a precompiled header, then bundle and link.

What comes of it is what one hipcc call makes: both run the same commands on the same text. The one difference is how
the fat binary gets into the object: the host pass refers to it by the symbol that clang uses for relocatable device
code, and the section is added when the device pass has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.compile import elf
from ckwatch.compile.devicepass import device_pass_of
from ckwatch.compile.flags import compile_flags, include_flags
from ckwatch.compile.job import OBJECT, compile_command, compile_source, linked
from ckwatch.compile.kept_checks import discard
from ckwatch.compile.passes import OBJECT_OF, OnSaid, Passed, RefusedError, failed, joined_log, run_pass
from ckwatch.compile.plan import CompilePlan, NoPlanError, Side, read_plan
from ckwatch.compile.precompiled import Precompiled, PrecompiledHeaders, Wanted
from ckwatch.compile.processes import Launcher, Verdict
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain, Status
from ckwatch.compile.running import CompileJob, environment_of, prepare, unfinished, unwritten
from ckwatch.compile.warming import Warming
from ckwatch.errors import plain_errors
from ckwatch.model.language import Language
from ckwatch.store import ArtifactStore, Roots
from ckwatch.store.contents import Look

HEADERS_WORTH = 3
"""So many compiles that wait are worth the time that precompiling their includes takes: 6 s a side, for 5 s each. Warm
headers (24 s, for 11 s each of the same family) are made in the background only."""

_SYMBOL = "__hip_fatbin"
_BUNDLE = "kernel.hipfb"
_CODE = "kernel.out"


@dataclass(slots=True)
class Checked:
    """A host pass that has ended, and the folder with its object, which is its owner's to remove."""

    folder: Path
    host: Passed

    @property
    def ok(self) -> bool:
        """Whether the host pass found no mistake."""
        return self.host.failure is None


class Ladder:
    """Compiles in parts with one toolchain. One event loop's; safe to call from many tasks."""

    def __init__(
        self,
        toolchain: CompilerToolchain,
        store: ArtifactStore,
        launch: Launcher,
        *,
        precompile: Callable[[], bool] = lambda: True,
    ) -> None:
        self.precompile = precompile
        self._toolchain = toolchain
        self._store = store
        self._launch = launch
        headers = PrecompiledHeaders(store, Roots(toolchain.roots), toolchain.identity)
        self.warming = Warming(toolchain, store, headers, launch)
        self._plans: dict[tuple[str, ...], CompilePlan | None] = {}
        self._planning = anyio.Lock()
        self.no_plan: str | None = None
        """Why a compile was not taken apart; None as long as none was not."""

    async def plan(self, request: CompileRequest) -> CompilePlan | None:
        """How hipcc compiles requests of these flags; None when that cannot be told, or not taken apart."""
        if request.language is not Language.HIP:
            return None
        # All of the command that differs between requests, but for the id of the source.
        named = (*compile_flags(request, self._toolchain), *include_flags(request, self._toolchain))
        if named in self._plans:
            return self._plans[named]
        async with self._planning:
            if named not in self._plans:
                printed = await self._ask(request, compile_command(request, self._toolchain))
                if printed is None:  # asked again by the next compile: what is wrong may be a flag, or the host
                    return None
                try:
                    self._plans[named] = read_plan(printed)
                except NoPlanError as error:
                    self._plans[named] = None
                    self.no_plan = str(error)
        return self._plans[named]

    async def _ask(self, request: CompileRequest, command: list[str]) -> str | None:
        folder = await anyio.to_thread.run_sync(self._store.work_folder)
        try:
            await anyio.to_thread.run_sync(prepare, request, folder)
            done = await self._launch(
                [command[0], "-###", *command[1:]],
                environment=environment_of(self._toolchain.environment, folder),
                folder=folder,
                timeout_s=60.0,
                nice=request.nice,
            )
            return done.stderr if done.exit_status == 0 and done.verdict is Verdict.EXITED else None
        finally:
            await discard(folder)

    async def check(self, request: CompileRequest, folder: Path, on_said: OnSaid | None) -> Checked | None:
        """Run the host pass alone, in the empty `folder`; None when compiles cannot be taken apart here."""
        plan = await self.plan(request)
        if plan is None:
            return None
        prefixes, problem = await anyio.to_thread.run_sync(prepare, request, folder)
        if problem is not None:
            return None
        job = self._job(request, folder, prefixes, Side.HOST, on_said)
        return Checked(folder, await self._pass(job, Side.HOST, plan, None))

    async def compile(
        self,
        request: CompileRequest,
        folder: Path,
        *,
        on_said: OnSaid | None = None,
        checked: Checked | None = None,
        side_by_side: bool = True,
        on_narrow: Callable[[], None] = lambda: None,
        look: Look | None = None,
        waiting: int = 0,
        force: bool = False,
    ) -> CompileOutcome:
        """Compile in `folder`, which is that of `checked` when the host pass is done already.

        `on_narrow` is called when from now on only one process runs at a time. `waiting`: so many others wait for a
        compiler; for many it is worth to make precompiled headers first. With `force` the device pass is not taken from
        the store. Raises ToolchainError when a program cannot be
        started, CkwatchError for a product that cannot be made.
        """
        plan = await self.plan(request)
        if plan is None:
            on_narrow()
            on_line = None if on_said is None else partial(on_said, None)
            return await compile_source(
                request, self._toolchain, folder=folder, on_line=on_line, launch=self._launch
            )  # fmt: skip
        if waiting >= HEADERS_WORTH and self.precompile():
            await self._make_headers(request, plan)
        if checked is None:
            prefixes, problem = await anyio.to_thread.run_sync(prepare, request, folder)
        else:
            prefixes, problem = checked.host.job.prefixes, None
        jobs = {side: self._job(request, folder, prefixes, side, on_said) for side in Side}
        if problem is not None:
            return unwritten(jobs[Side.HOST], problem)
        passes: dict[Side, Passed] = {} if checked is None else {Side.HOST: checked.host}

        async def one(side: Side) -> None:
            if side is Side.DEVICE:
                passes[side] = await self._device_pass(jobs[side], plan, look, force=force)
            elif side not in passes:
                passes[side] = await self._pass(jobs[side], side, plan, look)
            if side is Side.HOST:
                on_narrow()

        if side_by_side and checked is None:
            async with plain_errors(), anyio.create_task_group() as tasks:
                for side in (Side.DEVICE, Side.HOST):
                    tasks.start_soon(one, side)
        else:
            for side in Side:
                await one(side)
        both = list(passes.values())
        outcome = failed(both) or await self._joined(jobs[Side.DEVICE], plan, both)
        if outcome.status is Status.OK and self.precompile():
            await anyio.to_thread.run_sync(self.warming.built, request, plan)
        return outcome

    async def _make_headers(self, request: CompileRequest, plan: CompilePlan) -> None:
        def lacking() -> list[Wanted]:
            found = {side: self.warming.find(request, side, plan) for side in Side}
            sides = [side for side, header in found.items() if header is None]
            return self.warming.lacking(request, plan, sides, warm=False)

        wanted = await anyio.to_thread.run_sync(lacking)
        if wanted:
            async with plain_errors(), anyio.create_task_group() as tasks:
                for one in wanted:
                    tasks.start_soon(self.warming.make, one, request, plan)

    async def _device_pass(self, job: CompileJob, plan: CompilePlan, look: Look | None, *, force: bool) -> Passed:
        """The device pass, from the store where only host code is another than in an earlier compile."""
        reuse = device_pass_of(job.request, self._toolchain, self._store)
        if reuse is None:
            return await self._pass(job, Side.DEVICE, plan, look)
        if not force:
            found = await anyio.to_thread.run_sync(reuse.find, job, look)
            if found is not None:
                return found
        done = await self._pass(job, Side.DEVICE, plan, look)
        if done.failure is None and not done.log.strip():
            await anyio.to_thread.run_sync(reuse.keep, done)
        return done

    async def _pass(self, job: CompileJob, side: Side, plan: CompilePlan, look: Look | None) -> Passed:
        header = None
        if self.precompile():
            header = await anyio.to_thread.run_sync(self.warming.find, job.request, side, plan, look)
        try:
            return await run_pass(job, side, plan, header)
        except RefusedError as error:
            self._refused(header, str(error))
            job.log.clear()
            job.commands.clear()
            return await run_pass(job, side, plan, None)

    def _refused(self, header: Precompiled | None, message: str) -> None:
        """Tell a header that has been overtaken from a compiler that takes none at all."""
        if header is not None and not any(word in message for word in ("has been modified", "not found")):
            self.warming.headers.refuse(message)

    def _job(
        self, request: CompileRequest, folder: Path, prefixes: tuple[str, ...], side: Side, on_said: OnSaid | None
    ) -> CompileJob:
        on_line = None if on_said is None else partial(on_said, side)
        return CompileJob(request, self._toolchain, folder, self._launch, on_line, prefixes)

    async def _joined(self, job: CompileJob, plan: CompilePlan, passes: list[Passed]) -> CompileOutcome:
        """The code object into the host's object, and that linked."""
        log = joined_log(passes)
        earlier = [one.job for one in passes if one.job is not job]
        job.log[:] = [log] if log else []
        for other in earlier:
            offset_s = other.clock_s - job.clock_s
            job.commands[:0] = [other.command_at(command, offset_s) for command in other.commands]
        job.begun_ns = min([job.begun_ns, *(other.begun_ns for other in earlier)])
        headers = tuple(sorted({header for one in passes for header in one.headers}))
        host = job.folder / OBJECT_OF[Side.HOST]
        try:
            symbols = await anyio.to_thread.run_sync(elf.undefined_symbols, host)
        except (OSError, ValueError) as error:
            return unwritten(job, error if isinstance(error, OSError) else OSError(0, str(error)))
        symbol = next((name for name in symbols if name.startswith(_SYMBOL)), None)
        code = None
        if symbol is None:  # no kernel in it
            await anyio.to_thread.run_sync(host.rename, job.folder / OBJECT)
        else:
            for command in await self._embed_commands(job, plan, symbol):
                done = await job.run(command)
                if done.exit_status != 0 or done.verdict is not Verdict.EXITED:
                    return unfinished(job, done, headers)
            code = job.folder / _CODE
        return await linked(job, headers, code)

    async def _embed_commands(self, job: CompileJob, plan: CompilePlan, symbol: str) -> list[list[str]]:
        assembly = job.folder / "bundle.s"
        await anyio.to_thread.run_sync(assembly.write_text, _ASSEMBLY.format(symbol=symbol, file=_BUNDLE))
        clang = [str(self._toolchain.clangxx), *self._toolchain.cpp_arguments]
        return [
            plan.device_link_command(OBJECT_OF[Side.DEVICE], _CODE),
            plan.bundle_command(_CODE, _BUNDLE),
            [*clang, "-r", "-nostdlib", OBJECT_OF[Side.HOST], assembly.name, "-o", OBJECT],
        ]


_ASSEMBLY = """\
    .section .hip_fatbin,"a",@progbits
    .weak {symbol}
    .hidden {symbol}
    .p2align 12
{symbol}:
    .incbin "{file}"
    .size {symbol}, . - {symbol}
    .section .note.GNU-stack,"",@progbits
"""
