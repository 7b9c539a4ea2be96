"""A HIP compile in its parts: host and device pass side by side, each with a precompiled header, then bundle and link.

What comes of it is what one hipcc call makes: both run the same commands on the same text. The one difference is how
the fat binary gets into the object: the host pass refers to it by the symbol that clang uses for relocatable device
code, and the section is added when the device pass has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ckwatch.compile import elf
from ckwatch.compile.build_events import (
    DEFAULT_OPTIONS,
    BuildOptions,
    BuildWaits,
    OnBuildEvent,
    OnePassLeft,
    ignore,
)
from ckwatch.compile.compile_job import CompileJob, seen_by_device, unfinished, unwritten
from ckwatch.compile.driver_plan import CompilePlan, NoPlanError, PassSide, read_plan
from ckwatch.compile.flags import compile_flags, include_flags, with_lines_for_linkers, with_portable_lines
from ckwatch.compile.keys import flags_depend_on_places
from ckwatch.compile.passes import (
    OBJECT_OF,
    HeaderRefusedError,
    PassResult,
    device_pass_key,
    failed,
    find_device_pass,
    joined_log,
    keep_device_pass,
    run_kept_pass,
    run_pass,
)
from ckwatch.compile.precompiled_headers import HeaderSpec, HeaderWarmup, PrecompiledHeader, PrecompiledHeaderStore
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain, CompileStatus
from ckwatch.compile.single_call import (
    OBJECT,
    compile_command,
    compile_source,
    failed_without_place,
    linked,
    outcome_with_places,
    weaken_source_id,
)
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.compile.work_folder import environment_of, prepare, remove_work_folder
from ckwatch.model.errors import plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import Launcher

HEADERS_WORTH = 3
"""So many compiles that wait are worth the time that precompiling their includes takes: 6 s a side, for 5 s each. Warm
headers (24 s, for 11 s each of the same family) are made in the background only."""

_FATBIN_SYMBOL = "__hip_fatbin"
_BUNDLE = "kernel.hipfb"
_CODE_OBJECT = "kernel.out"
_LINED_CODE_OBJECT = "kernel.lined.hsaco"


@dataclass(slots=True)
class PendingHostPass:
    """A host pass that has ended, and the folder with its object, which is its owner's to remove."""

    folder: Path
    host: PassResult

    @property
    def ok(self) -> bool:
        """Return True if the host pass found no mistake."""
        return self.host.failure is None


class StagedCompiler:
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
        self._roots = PathRoots(toolchain.roots)
        self._store = store
        self._launch = launch
        headers = PrecompiledHeaderStore(store, self._roots, toolchain.identity)
        self.warming = HeaderWarmup(toolchain, store, headers, launch)
        self._plans: dict[tuple[str, ...], CompilePlan | None] = {}
        self._planning = anyio.Lock()
        self.no_plan: str | None = None
        """Why a compile was not taken apart; None as long as none was not."""

    async def plan(self, request: CompileRequest) -> CompilePlan | None:
        """How hipcc compiles requests of these flags; None when that is not known, or cannot be taken apart."""
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
            return done.stderr if done.succeeded else None
        finally:
            await remove_work_folder(folder)

    async def check(self, request: CompileRequest, folder: Path, on_event: OnBuildEvent) -> PendingHostPass | None:
        """Run the host pass alone, in the empty `folder`; None when compiles cannot be taken apart here."""
        plan = await self.plan(request)
        if plan is None:
            return None
        prefixes, problem = await anyio.to_thread.run_sync(prepare, request, folder)
        if problem is not None:
            return None
        job = CompileJob(request, self._toolchain, folder, self._launch, prefixes, on_event, PassSide.HOST)
        return PendingHostPass(folder, await self.one_pass(job, PassSide.HOST, plan))

    async def compile(
        self,
        request: CompileRequest,
        folder: Path,
        options: BuildOptions = DEFAULT_OPTIONS,
        on_event: OnBuildEvent = ignore,
        *,
        checked: PendingHostPass | None = None,
    ) -> CompileOutcome:
        """Compile in `folder`, which is that of `checked` when the host pass is done already.

        With `force` the device pass is not taken from the store. Raises ToolchainError when a program cannot be
        started, CkwatchError for a product that cannot be made.
        """
        plan = await self.plan(request)
        if plan is None:
            return await compile_source(request, self._toolchain, folder=folder, launch=self._launch, on_event=on_event)
        if options.waiting >= HEADERS_WORTH and self.precompile():
            await self._make_headers(request, plan, on_event)
        if checked is None:
            prefixes, problem = await anyio.to_thread.run_sync(prepare, request, folder)
        else:
            prefixes, problem = checked.host.job.prefixes, None
        how = (request, self._toolchain, folder, self._launch, prefixes, on_event)
        jobs = {side: CompileJob(*how, side) for side in PassSide}
        if problem is not None:
            return unwritten(jobs[PassSide.HOST], problem)
        passes: dict[PassSide, PassResult] = {} if checked is None else {PassSide.HOST: checked.host}

        lined = await self.plan_with_lines(request, plan)

        async def one(side: PassSide) -> None:
            if side is PassSide.DEVICE:
                passes[side] = await self._device_pass(jobs[side], plan, lined, keeping, force=options.force)
            elif side not in passes:
                passes[side] = await self.one_pass(jobs[side], side, plan)
            if side is PassSide.HOST:
                on_event(OnePassLeft())

        async with plain_errors(), anyio.create_task_group() as keeping:
            if options.side_by_side and checked is None:
                async with plain_errors(), anyio.create_task_group() as tasks:
                    for side in (PassSide.DEVICE, PassSide.HOST):
                        tasks.start_soon(one, side)
            else:
                for side in PassSide:
                    await one(side)
            both = list(passes.values())
            logs = {side: one.log for side, one in passes.items()}
            outcome = failed(both) or await self._joined(jobs[PassSide.DEVICE], plan, both)
            if failed_without_place(request, outcome):
                outcome = outcome_with_places(outcome, await self._with_places(outcome, plan, passes, logs))
        if outcome.status is CompileStatus.OK and self.precompile():
            await anyio.to_thread.run_sync(self.warming.built, request, plan)
        return outcome

    async def plan_with_lines(self, request: CompileRequest, plan: CompilePlan) -> CompilePlan:
        """The plan with line tables in the device pass, if the request wants them beside the artifact; else `plan`."""
        if not request.lines or flags_depend_on_places(request.flags):
            return plan
        lined = await self.plan(with_portable_lines(request, self._roots))
        return plan if lined is None else replace(plan, device=lined.device)

    async def _with_places(
        self,
        outcome: CompileOutcome,
        plan: CompilePlan,
        passes: dict[PassSide, PassResult],
        logs: dict[PassSide, str],
    ) -> CompileOutcome:
        """Repeat the pass that was wrong, or whose object the linker refused, with line tables; `logs` are those of the
        passes alone."""
        request = with_lines_for_linkers(passes[PassSide.HOST].job.request)
        lined = await self.plan(request)
        if lined is None:
            return outcome
        sides = [side for side, one in passes.items() if one.failure is not None]
        if not sides:
            of_device = bool(outcome.commands) and "-flavor" in outcome.commands[-1].arguments
            sides = [PassSide.DEVICE if of_device else PassSide.HOST]
        again = dict(passes)
        for side, one in passes.items():
            one.job.log[:] = [logs[side]]
        for side in sides:
            known = passes[side].job
            job = CompileJob(request, self._toolchain, known.folder, self._launch, known.prefixes, side=side)
            again[side] = await self.one_pass(job, side, lined, plan)
        both = list(again.values())
        return failed(both) or await self._joined(again[sides[0]].job, lined, both)

    async def _make_headers(self, request: CompileRequest, plan: CompilePlan, on_event: OnBuildEvent) -> None:
        def lacking() -> list[HeaderSpec]:
            found = {side: self.warming.find(request, side, plan) for side in PassSide}
            sides = [side for side, header in found.items() if header is None]
            return self.warming.lacking(request, plan, sides, warm=False)

        wanted = await anyio.to_thread.run_sync(lacking)
        if wanted:
            on_event(BuildWaits("headers that are precompiled"))
            async with plain_errors(), anyio.create_task_group() as tasks:
                for one in wanted:
                    tasks.start_soon(self.warming.make, one, request, plan, request.nice)
            on_event(BuildWaits(""))

    async def _device_pass(
        self, job: CompileJob, plan: CompilePlan, lined: CompilePlan, keeping: TaskGroup, *, force: bool
    ) -> PassResult:
        """The device pass, from the store where only host code changed since an earlier compile; else it is run by the
        plan `lined` and put there while the compile goes on."""
        text = seen_by_device(job.request)
        is_apart = text != job.request.source
        key = device_pass_key(job.request, self._toolchain, text) if is_apart else ""
        if is_apart and not force:
            found = await anyio.to_thread.run_sync(find_device_pass, job, key, text, self._store)
            if found is not None:
                return found
        done = replace(await self.one_pass(job, PassSide.DEVICE, lined, plan), lined=lined is not plan)
        if is_apart and done.failure is None and not done.log.strip():
            keep = partial(keep_device_pass, self._store, key, job, done.headers, tuple(job.commands), text)
            keeping.start_soon(anyio.to_thread.run_sync, keep)
        return done

    async def one_pass(
        self, job: CompileJob, side: PassSide, plan: CompilePlan, of_headers: CompilePlan | None = None
    ) -> PassResult:
        """Run one pass with a precompiled header, if there is one; `of_headers` is the plan that these are made by,
        where it is another."""
        header = None
        if self.precompile():
            kept = await anyio.to_thread.run_sync(self.warming.find_kept, job.request, side, of_headers or plan, plan)
            done = None if kept is None else await run_kept_pass(job, plan, kept)
            if done is not None:
                return done
            header = await anyio.to_thread.run_sync(self.warming.find, job.request, side, of_headers or plan)
        try:
            return await run_pass(job, side, plan, header)
        except HeaderRefusedError as error:
            self._refused(header, str(error))
            job.log.clear()
            job.commands.clear()
            return await run_pass(job, side, plan, None)

    def _refused(self, header: PrecompiledHeader | None, message: str) -> None:
        """Tell a header that has been overtaken from a compiler that takes none at all."""
        if header is not None and not any(word in message for word in _OVERTAKEN):
            self.warming.headers.refuse(message)

    async def _joined(self, job: CompileJob, plan: CompilePlan, passes: list[PassResult]) -> CompileOutcome:
        """The code object into the host's object, and that linked."""
        log = joined_log(passes)
        earlier = [one.job for one in passes if one.job is not job]
        job.log[:] = [log] if log else []
        for other in earlier:
            offset_s = other.clock_s - job.clock_s
            job.commands[:0] = [other.command_at(command, offset_s) for command in other.commands]
        job.begun_ns = min([job.begun_ns, *(other.begun_ns for other in earlier)])
        headers = tuple(sorted({header for one in passes for header in one.headers}))
        host = job.folder / OBJECT_OF[PassSide.HOST]
        try:
            symbols = await anyio.to_thread.run_sync(elf.undefined_symbols, host)
        except (OSError, ValueError) as error:
            return unwritten(job, error if isinstance(error, OSError) else OSError(0, str(error)))
        symbol = next((name for name in symbols if name.startswith(_FATBIN_SYMBOL)), None)
        if symbol is None:  # no kernel in it
            await anyio.to_thread.run_sync(host.rename, job.folder / OBJECT)
            await anyio.to_thread.run_sync(weaken_source_id, job.folder / OBJECT)
            return await linked(job, headers, None)
        async with plain_errors(), anyio.create_task_group() as beside:
            if job.request.lines and any(one.lined for one in passes):
                beside.start_soon(self._link_with_lines, job, plan)
            for command in await self._embed_commands(job, plan, symbol):
                done = await job.run(command)
                if not done.succeeded:
                    return unfinished(job, done, headers)
            await anyio.to_thread.run_sync(weaken_source_id, job.folder / OBJECT)
            outcome = await linked(job, headers, job.folder / _CODE_OBJECT)
        lined = job.folder / _LINED_CODE_OBJECT
        if outcome.status is CompileStatus.OK and await anyio.to_thread.run_sync(lined.is_file):
            return replace(outcome, files={**outcome.files, ProductKind.LINE_TABLES: lined})
        return outcome

    async def _link_with_lines(self, job: CompileJob, plan: CompilePlan) -> None:
        """Make the code object with line tables; without one they take a compile later."""
        more = ("--compress-debug-sections=zlib",)
        command = plan.device_link_command(OBJECT_OF[PassSide.DEVICE], _LINED_CODE_OBJECT, *more)
        done = await replace(job, commands=[], log=[], on_event=ignore).run(command)
        if not done.succeeded:
            await anyio.to_thread.run_sync((job.folder / _LINED_CODE_OBJECT).unlink, True)

    async def _embed_commands(self, job: CompileJob, plan: CompilePlan, symbol: str) -> list[list[str]]:
        assembly = job.folder / "bundle.s"
        await anyio.to_thread.run_sync(assembly.write_text, _ASSEMBLY.format(symbol=symbol, file=_BUNDLE))
        clang = [str(self._toolchain.clangxx), *self._toolchain.cpp_arguments]
        # Line tables stand beside what is loaded, unless they were asked for by a flag.
        bare = () if flags_depend_on_places(job.request.flags) else ("--strip-debug",)
        return [
            plan.device_link_command(OBJECT_OF[PassSide.DEVICE], _CODE_OBJECT, *bare),
            plan.bundle_command(_CODE_OBJECT, _BUNDLE),
            [*clang, "-r", "-nostdlib", OBJECT_OF[PassSide.HOST], assembly.name, "-o", OBJECT],
        ]


_OVERTAKEN = ("has been modified", "not found", "unable to read PCH file")

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
