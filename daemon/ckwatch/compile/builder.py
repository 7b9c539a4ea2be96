"""Builds a source: from the store if it is there, else compiled and stored, once however many ask.

A builder with hipcc makes one with nvcc when the first CUDA source is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from ckwatch.compile import build_events
from ckwatch.compile.flags import link_flags
from ckwatch.compile.includes import unreadable, unreadable_includes
from ckwatch.compile.keys import native_cpu, request_key
from ckwatch.compile.pending_host_passes import HostPassReport, PendingHostPasses
from ckwatch.compile.request import (
    BuildOutcome,
    CompileFault,
    CompileOutcome,
    CompileRequest,
    CompilerToolchain,
    CompileStatus,
    record_of,
)
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.content_hashes import ContentSnapshot, steady_ns
from ckwatch.compile.store.entries import Artifact, StoreError
from ckwatch.compile.store.header_sets import HeaderObserver, PathRoots
from ckwatch.compile.store.turns import Turns
from ckwatch.compile.toolchain.nvcc import NvccToolchain, find_nvcc
from ckwatch.compile.work_folder import remove_work_folder
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import Launcher, run_process
from ckwatch.system.file_locks import try_lock, unlock

if TYPE_CHECKING:
    from ckwatch.compile.staged_build import PendingHostPass, StagedCompiler
    from ckwatch.compile.store.shared_store import SharedStore  # loaded where one is set


_ATTEMPTS = 3
_GONE = "the artifact store was deleted while this was being compiled"
_UNREADABLE = "a header is included that cannot be read"
_POLL_S = 0.1
_STORED_TOGETHER = 32
_LOOKS_APART_S = 0.25
"""Compiles that end faster share a look at the headers, at most so many: each is a thousand `stat` calls."""

_KEYS_KEPT = 8192
"""Requests of which the key is remembered: a look-up is followed by the compile, when those before it are done."""

_Taken = TypeVar("_Taken")


@dataclass(frozen=True, slots=True)
class _Build:
    """A build under its key."""

    key: str
    request: CompileRequest
    options: build_events.BuildOptions
    on_event: build_events.OnBuildEvent

    def outcome(self, artifact: Artifact | None, compiled: CompileOutcome) -> BuildOutcome:
        """The outcome of a compile."""
        return BuildOutcome(self.key, artifact, compiled, False, compiled.log, self.request.source)


@dataclass(slots=True)
class _Claim:
    """A key that this build has locked: what the store has of it, or an empty folder to compile in."""

    lock: int | None
    found: BuildOutcome | None
    folder: Path | None = None
    refused: str | None = None
    """The problem with headers that a compiler would not finish reading; None if they were not examined."""


class Builder:
    """Builds sources with one toolchain into one store. One event loop's; safe to call from many tasks.

    What the store lacks is looked for in the `shared` one, where there is one at that time; what is compiled is added.
    """

    def __init__(
        self,
        toolchain: CompilerToolchain,
        store: ArtifactStore,
        *,
        launch: Launcher = run_process,
        make_ladder: Callable[[], StagedCompiler] | None = None,
        shared: Callable[[], SharedStore | None] = lambda: None,
        find_nvcc: Callable[[Mapping[str, str]], NvccToolchain] = find_nvcc,
    ) -> None:
        self._find_nvcc = find_nvcc
        self._toolchain = toolchain
        self._make_ladder = make_ladder
        self._ladder_made: StagedCompiler | None = None
        self.store = self._store = store
        self._shared = shared
        self._launch = launch
        self._roots = PathRoots(toolchain.roots)
        self._observer = HeaderObserver(store.contents, self._roots)
        self._flights: dict[str, anyio.Event] = {}
        self._storing = Turns(_LOOKS_APART_S, _STORED_TOGETHER, lambda: len(self._flights))
        self._keys: dict[CompileRequest, str] = {}
        self._host_arch = anyio.Lock()
        self._host: str | None = None
        self.compiled = 0
        """Compiles that this builder has run; none means that the store has not grown."""
        self._checks = PendingHostPasses(toolchain, store)
        self._cuda: Builder | None = None
        self._finding_nvcc = anyio.Lock()

    async def _other(self, language: Language) -> Builder | None:
        """The builder with nvcc that `language` needs, None where this one will do.

        Raises ToolchainError where the language's compiler is not there; it is looked for again each time.
        """
        has_nvcc = isinstance(self._toolchain, NvccToolchain)
        if has_nvcc == (language is Language.CU):
            return None
        if has_nvcc:
            raise ToolchainError(
                f"there is no compiler for *.{language}.j2 templates, only {self._toolchain.hipcc}",
                "Run `ckwatch toolchain install`, or set ROCM_PATH.",
            )
        async with self._finding_nvcc:
            if self._cuda is None:
                nvcc = await anyio.to_thread.run_sync(self._find_nvcc, self._toolchain.environment)
                nvcc = replace(nvcc, workspace=self._toolchain.roots.get("workspace"))
                self._cuda = Builder(nvcc, self._store, launch=self._launch, shared=self._shared)
        return self._cuda

    def rest(self) -> None:
        """Nothing is to be built: forget what can be worked out again."""
        self._keys.clear()

    @property
    def ladder(self) -> StagedCompiler | None:
        """The compiler that takes compiles apart, if enabled. Most builds find everything in the store; it is loaded
        when something must be compiled."""
        if self._ladder_made is None and self._make_ladder is not None:
            self._ladder_made = self._make_ladder()
        return self._ladder_made

    @property
    def takes_apart(self) -> bool:
        """Return True if there is a ladder, and nothing is known that it cannot take apart."""
        made = self._ladder_made
        return self._make_ladder is not None and (made is None or made.no_plan is None)

    async def key(self, request: CompileRequest) -> str:
        """The first-level key of `request`; for C++ this may ask clang once which processor this is."""
        if (other := await self._other(request.language)) is not None:
            return await other.key(request)
        arch = await self._arch(request)
        known = self._keys.get(request)
        if known is not None:
            return known
        return await anyio.to_thread.run_sync(self._key, request, arch)

    def look(self) -> ContentSnapshot:
        """One view of the header files, for all the units of one command."""
        return self._store.contents.look()

    async def find(self, request: CompileRequest, look: ContentSnapshot | None = None) -> BuildOutcome | None:
        """Return the outcome of `request` in the store, or the shared one; nothing is compiled."""
        return await self.find_and(request, lambda found: found, look)

    async def find_and(
        self, request: CompileRequest, take: Callable[[BuildOutcome], _Taken], look: ContentSnapshot | None = None
    ) -> _Taken | None:
        """Return what `take` makes of the stored outcome of `request`. It runs in the thread that has looked."""
        if (other := await self._other(request.language)) is not None:
            return await other.find_and(request, take, look)
        arch = await self._arch(request)

        def found() -> _Taken | None:
            result = self._find_now(self._key(request, arch), look)
            return None if result is None else take(result)

        return await anyio.to_thread.run_sync(found)

    async def build(
        self,
        request: CompileRequest,
        options: build_events.BuildOptions = build_events.DEFAULT_OPTIONS,
        on_event: build_events.OnBuildEvent = build_events.ignore,
    ) -> BuildOutcome:
        """The artifact of `request`, from the store or compiled now; `on_event` gets events of compiles only.

        Raises ToolchainError when the compiler cannot be started, StoreError when the store cannot be written (a full
        one is a `fault`).
        """
        if (other := await self._other(request.language)) is not None:
            compiled = other.compiled
            result = await other.build(request, replace(options, elsewhere=None), on_event)
            self.compiled += other.compiled - compiled
            return result
        build = _Build(await self.key(request), request, options, on_event)
        async with self._flight(build.key, on_event):
            # Between threads and the event loop this goes once: every turn takes a millisecond on a busy machine.
            claim = await self._claim(build)
            try:
                if claim.found is not None:
                    return claim.found
                self.compiled += 1
                on_event(build_events.CompilerStarting())
                return await self._compile(build, claim)
            finally:
                if claim.folder is not None or claim.lock is not None:
                    with anyio.CancelScope(shield=True):
                        await anyio.to_thread.run_sync(self._release, build.key, claim)

    def _key(self, request: CompileRequest, arch: str) -> str:
        known = self._keys.get(request)
        if known is None:
            more = ["link:", *link_flags(request), "exports:", *request.exports]
            products = [product.value for product in request.products]
            known = request_key(request, self._toolchain, self._roots, arch=arch, more=more, products=products)
            if len(self._keys) >= _KEYS_KEPT:
                self._keys.clear()
            self._keys[request] = known
        return known

    async def _arch(self, request: CompileRequest) -> str:
        if request.language is not Language.CPP:
            return request.arch
        async with self._host_arch:
            if self._host is None:
                self._host = await anyio.to_thread.run_sync(native_cpu, self._toolchain, self._store.folder)
            return self._host

    def _find_now(self, key: str, look: ContentSnapshot | None) -> BuildOutcome | None:
        look = look or self._store.contents.look()
        artifact = self._store.lookup(key, self._roots, look)
        if artifact is None and (shared := self._shared()) is not None:
            artifact = shared.find(key, self._store, self._roots, look)
        if artifact is None:
            return None
        try:
            log = self._roots.expand_text(artifact.log)
            return BuildOutcome(key, artifact, None, True, log, artifact.source_text)
        except OSError:  # evicted by another process at this moment
            return None

    async def _compile(self, build: _Build, claim: _Claim) -> BuildOutcome:
        for _ in range(_ATTEMPTS):
            artifact: Artifact | None = None
            checked = await self._checks.take(build.key, build.request)
            folder = claim.folder if checked is None else checked.folder
            try:
                if folder is None:
                    folder = await anyio.to_thread.run_sync(self._store.work_folder)
            except StoreError as error:
                if not error.no_space:
                    raise
                return build.outcome(None, _transient(CompileFault.NO_SPACE, str(error)))
            if checked is None:
                claim.folder = None
            try:
                outcome = await self._undisturbed(build, claim, folder, checked)
                claim.refused = None
                build.on_event(build_events.CompilersEnded())
                if outcome.status is not CompileStatus.TRANSIENT:
                    store = partial(self._stored, build, outcome, folder, claim, steady_ns())
                    # What has been compiled is stored, even when no client waits for it any more.
                    artifact, outcome = await self._storing.run(store)
            finally:
                if artifact is None:
                    await remove_work_folder(folder)
            if artifact is not None or outcome.fault not in (CompileFault.HEADERS_CHANGED, CompileFault.STORE_GONE):
                break
        return build.outcome(artifact, outcome)

    def _stored(
        self, build: _Build, outcome: CompileOutcome, folder: Path, claim: _Claim, ended_ns: int
    ) -> tuple[Artifact | None, CompileOutcome]:
        """Store what came of a compile; then nothing is left of it elsewhere. Blocks; call from a worker thread."""
        artifact, outcome = self._publish(build, outcome, folder, ended_ns)
        if artifact is not None:
            shutil.rmtree(folder, ignore_errors=True)
            self._release(build.key, claim)
            build.on_event(build_events.BuildStored(build.outcome(artifact, outcome)))
            if (shared := self._shared()) is not None:
                shared.add(artifact, self._store)
        return artifact, outcome

    async def _undisturbed(
        self, build: _Build, claim: _Claim, folder: Path, checked: PendingHostPass | None
    ) -> CompileOutcome:
        """Return the outcome of a compile, unless the store was deleted under it: then its messages do not count."""
        try:
            outcome = await self._compile_in(build, folder, checked, claim.refused)
        except (OSError, CkwatchError):
            if not await anyio.to_thread.run_sync(self._store.disturbed, folder):
                raise
            return _transient(CompileFault.STORE_GONE, _GONE)
        if outcome.status is not CompileStatus.OK and await anyio.to_thread.run_sync(self._store.disturbed, folder):
            return _transient(CompileFault.STORE_GONE, _GONE, outcome)
        return outcome

    async def _compile_in(
        self, build: _Build, folder: Path, checked: PendingHostPass | None, refused: str | None
    ) -> CompileOutcome:
        request, options, on_event = build.request, build.options, build.on_event
        if refused is None:
            refused = await anyio.to_thread.run_sync(_unreadable, request)
        if refused:
            on_event(build_events.OnePassLeft())
            return _transient(CompileFault.UNREADABLE_HEADER, _UNREADABLE, log=refused)
        if options.elsewhere is not None:
            on_event(build_events.OnePassLeft())
            return await options.elsewhere(request, folder)
        if (ladder := self.ladder) is not None:
            return await ladder.compile(request, folder, options, on_event, checked=checked)
        from ckwatch.compile.single_call import compile_source  # loaded when something must be compiled

        return await compile_source(request, self._toolchain, folder=folder, launch=self._launch, on_event=on_event)

    async def check(
        self, request: CompileRequest, on_event: build_events.OnBuildEvent = build_events.ignore
    ) -> HostPassReport | None:
        """Report the host pass, which the next `build` of the same request does not repeat.

        None where a compile cannot be taken apart. Raises ToolchainError when the compiler cannot be started.
        """
        ladder = self.ladder
        if ladder is None or request.language is not Language.HIP:
            return None
        if await anyio.to_thread.run_sync(_unreadable, request):
            return None
        key = await self.key(request)
        async with self._flight(key):
            return await self._checks.check(key, request, ladder, on_event)

    def _publish(
        self, build: _Build, outcome: CompileOutcome, folder: Path, ended_ns: int
    ) -> tuple[Artifact | None, CompileOutcome]:
        request = build.request
        folders = (*request.include_folders, *self._toolchain.include_folders)
        headers = self._observer.observe(outcome.headers, outcome.missing, folders, outcome.begun_ns, ended_ns)
        if headers is None:
            found = ((path, unreadable(path)) for path in outcome.headers)
            path, reason = next((one for one in found if one[1] is not None), ("", None))
            if reason is not None:
                message = f"'{path}' was included, which is {reason}"
                return None, _transient(CompileFault.UNREADABLE_HEADER, message, outcome)
            message = "headers changed while they were being compiled"
            return None, _transient(CompileFault.HEADERS_CHANGED, message, outcome)
        ok = outcome.status is CompileStatus.OK
        record = record_of(request, self._toolchain, outcome.commands, ok=ok, exports=outcome.exports)
        try:
            artifact = self._store.publish(
                build.key,
                headers,
                record,
                source=request.source.encode("utf-8", "surrogateescape"),
                log=self._roots.shorten_text(outcome.log),
                products={kind.value: path for kind, path in outcome.files.items()},
                work_folder=folder,
                replace_existing=build.options.force,
            )
        except StoreError as error:
            if self._store.disturbed(folder):
                return None, _transient(CompileFault.STORE_GONE, _GONE, outcome)
            if not error.no_space:
                raise
            return None, _transient(CompileFault.NO_SPACE, str(error), outcome)
        return artifact, outcome

    @asynccontextmanager
    async def _flight(self, key: str, on_event: build_events.OnBuildEvent = build_events.ignore) -> AsyncIterator[None]:
        """One task of this process at a time per key."""
        waits = key in self._flights
        if waits:
            on_event(build_events.BuildWaits("another unit with the same text"))
        while (other := self._flights.get(key)) is not None:
            await other.wait()
        if waits:
            on_event(build_events.BuildWaits(""))
        ended = self._flights[key] = anyio.Event()
        try:
            yield
        finally:
            del self._flights[key]
            ended.set()

    async def _claim(self, build: _Build) -> _Claim:
        """Return the stored outcome, or the right to compile: one process at a time per key.

        A store that cannot be locked is written without: publishing bears it.
        """
        look, waited = build.options.look, False
        while True:
            with anyio.CancelScope(shield=True):
                claim = await anyio.to_thread.run_sync(self._claim_now, build, look)
            if claim is not None:
                if waited:
                    build.on_event(build_events.BuildWaits(""))
                return claim
            look = None
            if not waited:
                waited = True
                build.on_event(build_events.BuildWaits("another process that compiles the same text"))
            await anyio.sleep(_POLL_S)

    def _claim_now(self, build: _Build, look: ContentSnapshot | None) -> _Claim | None:
        lockable, lock = _try_lock(self._lock_path(build.key))
        if lock is None and lockable:
            return None
        claim = _Claim(lock, None)
        try:
            claim.found = None if build.options.force else self._find_now(build.key, look)
            if claim.found is None:
                # Where there is none it is asked for again, which says why.
                with suppress(StoreError):
                    claim.folder = self._store.work_folder()
                claim.refused = _unreadable(build.request)
        except BaseException:
            self._release(build.key, claim)
            raise
        return claim

    def _release(self, key: str, claim: _Claim) -> None:
        folder, claim.folder = claim.folder, None
        lock, claim.lock = claim.lock, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            unlock(self._lock_path(key), lock)

    def _lock_path(self, key: str) -> Path:
        return self._store.locks / f"{key}.lock"


def _unreadable(request: CompileRequest) -> str:
    """Return the problem with headers that a compiler would not finish reading, as a log. Blocks; call from a worker
    thread."""
    folders = [Path(flag[2:]) for flag in request.flags if flag.startswith("-I/")]
    return unreadable_includes(request.source, request.language.source_name, [*request.include_folders, *folders])


def _try_lock(path: Path) -> tuple[bool, int | None]:
    """Return two values: locks are supported, and the lock unless another process has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return True, try_lock(path)
    except OSError:
        return False, None


def _transient(
    fault: CompileFault, message: str, outcome: CompileOutcome | None = None, log: str = ""
) -> CompileOutcome:
    """An outcome, or none of which anything is known, as one that says nothing of the kernel."""
    outcome = outcome or CompileOutcome(CompileStatus.TRANSIENT, log, (), 0)
    return replace(outcome, status=CompileStatus.TRANSIENT, fault=fault, message=message)
