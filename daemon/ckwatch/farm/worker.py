"""The dask worker of ckwatch: it compiles with the toolchain of its machine, and times on its devices.

Loaded by `dask worker … --preload ckwatch.farm.worker`, which then listens for no HTTP. The worker announces what it
has as resources, so that the scheduler sends it what it can do. Everything is kept below one folder:
`CKWATCH_FARM_FOLDER`, else `ckwatch/farm` in the user's cache folder. A task that its daemon does not want any more, or
whose daemon is gone, ends with its processes.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import anyio
import dask
import platformdirs
from anyio import CancelScope, to_thread
from distributed import Status, Worker, WorkerPlugin, get_worker

from ckwatch.bench import worker_protocol
from ckwatch.bench.report import Devices
from ckwatch.bench.worker_protocol import HEAD_BYTES, WorkerRequest, message
from ckwatch.bench.worker_session import WorkerStart, find_devices, measure
from ckwatch.compile.background_pch import BackgroundPch
from ckwatch.compile.build_events import BuildOptions
from ckwatch.compile.builder import Builder
from ckwatch.compile.request import BuildOutcome, CompileFault
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.farm import messages
from ckwatch.farm.giving import given_toolchains, install_given, receive, received
from ckwatch.farm.plain_data import decode, encode
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.system.async_processes import Launcher, run_process
from ckwatch.system.durable_files import replace_file
from ckwatch.system.user_files import read_file

FOLDER_VARIABLE = "CKWATCH_FARM_FOLDER"
"""Names the folder that a worker keeps to."""

STORE_LIMIT_BYTES = 5 * 2**30
TREES_KEPT = 50
"""Trees of workspaces' headers, and compilers for them."""

CONTENTS_KEPT = 5000
"""Headers of workspaces, by their content."""

CLEANUP_S = 600.0
POLL_S = 0.05
END_S = 10.0
"""Seconds that running work gets to end."""

NAME = "ckwatch"

log = logging.getLogger(__name__)

dask.config.set({"distributed.worker.http.routes": [], "distributed.comm.compression": False})
"""Of dask, before it makes the worker: HTTP would be open to every user, and daemons take no compressed data."""


async def dask_setup(worker: Worker) -> None:
    """Called by dask before the worker registers."""
    worker.http_server.stop()
    await worker.plugin_add(FarmWorker(), name=NAME, catch_errors=False)


def default_farm_folder() -> Path:
    """Return the folder in which a worker keeps everything."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(platformdirs.user_cache_dir("ckwatch")) / "farm"


class FarmWorker(WorkerPlugin):
    """One worker's compiler, store and devices. `find_toolchain` and `launch` are the host's; tests pass others."""

    def __init__(
        self,
        folder: Path | None = None,
        *,
        find_toolchain: Callable[[], Toolchain] = discover,
        launch: Launcher = run_process,
        with_devices: bool = True,
    ) -> None:
        self.name = NAME
        self._folder = folder or default_farm_folder()
        self._find_toolchain = find_toolchain
        self._launch = launch
        self._with_devices = with_devices
        self._facts = messages.WorkerFacts(machine=socket.gethostname())
        self._toolchains: dict[str, Toolchain] = {}
        self._store: ArtifactStore | None = None
        self._builders: dict[str, Builder] = {}
        self._running: dict[str, CancelScope] = {}
        self._jobs = 1
        self._background_pch = BackgroundPch(lambda: bool(self._running), lambda: self._jobs)
        self._background: set[asyncio.Task[None]] = set()
        self._known = asyncio.Event()

    def setup(self, worker: Worker) -> None:
        """Find what there is beside the registration, which does not wait. The compiler is offered before the devices,
        as a driver may take a minute to begin."""
        self._jobs = worker.state.nthreads
        worker.handlers |= {
            messages.DESCRIBE: self._describe,
            messages.LOOK_AGAIN: lambda: self.look_again(worker),
            messages.RECEIVED: lambda sha256: to_thread.run_sync(received, self._folder, sha256),
            messages.RECEIVE: lambda sha256, offset, piece: to_thread.run_sync(
                receive, self._folder, sha256, offset, piece
            ),
            messages.INSTALL: lambda sha256, identity: install_given(self._folder, sha256, identity),
        }
        for task in (self._announce(worker), self._clean(), self._background_pch.run()):
            self._background.add(asyncio.ensure_future(task))

    async def _describe(self) -> bytes:
        return encode(await self.facts(), messages.WorkerFacts)

    async def teardown(self, worker: Worker) -> None:  # noqa: ARG002  # dask's signature
        """End what runs, compilers included."""
        for task in self._background:
            task.cancel()
        for scope in self._running.values():
            scope.cancel()
        with anyio.move_on_after(END_S):
            await asyncio.gather(*self._background, return_exceptions=True)
            while self._running:  # noqa: ASYNC110  # dask asks for nothing while it closes
                await anyio.sleep(POLL_S)
        if self._store is not None:
            await to_thread.run_sync(self._store.close)

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:  # noqa: ARG002  # dask's signature
        """Nobody wants a task any more: its client has cancelled it, or is gone."""
        if finish in ("cancelled", "released", "forgotten") and (scope := self._running.get(str(key))) is not None:
            scope.cancel()

    async def _announce(self, worker: Worker) -> None:
        try:
            self._store = store = ArtifactStore(self._folder / "store", STORE_LIMIT_BYTES)
            await to_thread.run_sync(store.remove_leftovers)
            await to_thread.run_sync(self._find_toolchains, store)
        except OSError as error:
            log.error("%s cannot be used: %s", self._folder, error)
        self._known.set()
        await self._offer(worker)
        if not self._with_devices:
            return
        found = await find_devices(WorkerStart(folder=self._folder))
        if isinstance(found, Devices):
            machine = self._facts.machine
            gpus = tuple(replace(device, machine=machine) for device in found.devices if device.kind != "cpu")
            self._facts = replace(self._facts, devices=gpus)
            await self._offer(worker)
        else:
            log.warning("no devices are offered: %s", found.message)

    async def _offer(self, worker: Worker) -> None:
        while worker.status in (Status.undefined, Status.created, Status.init, Status.starting):  # noqa: ASYNC110  # dask has no event for it
            await anyio.sleep(POLL_S)
        if worker.status in (Status.running, Status.paused):
            await worker.set_resources(**self.resources(worker.state.nthreads))

    def _find_toolchains(self, store: ArtifactStore) -> None:
        """The machine's own, and those that it was given. Blocks; call from a worker thread."""
        found = given_toolchains(self._folder)
        with suppress(CkwatchError):
            own = self._find_toolchain()
            identity = messages.toolchain_identity(own, store.contents)
            found = {identity: own} | {name: one for name, one in found.items() if name != identity}
        self._toolchains = found

    async def look_again(self, worker: Worker) -> None:
        """The machine was given a toolchain."""
        await self._known.wait()
        if self._store is not None:
            known = self._toolchains
            await to_thread.run_sync(self._find_toolchains, self._store)
            gone = {messages.compile_resource(identity): 0.0 for identity in known if identity not in self._toolchains}
            await worker.set_resources(**gone, **self.resources(worker.state.nthreads))

    def resources(self, threads: int) -> dict[str, float]:
        found: dict[str, float] = {messages.READY: float(threads)}
        found |= {messages.compile_resource(identity): float(threads) for identity in self._toolchains}
        for device in self._facts.devices:
            name = device_resource(device)
            found[name] = found.get(name, 0.0) + 1.0
        return found

    async def facts(self) -> messages.WorkerFacts:
        """Return the worker's facts as soon as they are known."""
        await self._known.wait()
        first = next(iter(self._toolchains.values()), None)
        version = "" if first is None else first.clang_version
        return replace(self._facts, identities=tuple(self._toolchains), toolchain=version)

    async def compile(self, job: messages.FarmCompile, contents: Mapping[str, bytes]) -> messages.FarmCompiled:
        """Compile, or take what the store has; a fault of this machine is a value. `contents` are those of the
        job's files, by SHA-256, that were not sent before."""
        await self._known.wait()
        with CancelScope() as scope:
            self._running[job.key] = scope
            try:
                return await self._compile(job, contents)
            except CkwatchError as error:
                return messages.FarmCompiled(
                    machine=self._facts.machine, fault=CompileFault.HOST, message=error.message
                )
            except OSError as error:
                message = f"{error.filename or self._folder}: {error.strerror or error}"
                return messages.FarmCompiled(machine=self._facts.machine, fault=CompileFault.HOST, message=message)
            finally:
                del self._running[job.key]
        return messages.FarmCompiled(machine=self._facts.machine, fault=CompileFault.KILLED, message="it was cancelled")

    async def _compile(self, job: messages.FarmCompile, contents: Mapping[str, bytes]) -> messages.FarmCompiled:
        toolchain, store = self._toolchains.get(job.identity), self._store
        if toolchain is None or store is None:
            raise CkwatchError("it no longer has a toolchain")
        tree = await to_thread.run_sync(self._tree, job, contents)
        if isinstance(tree, tuple):
            return messages.FarmCompiled(machine=self._facts.machine, lacks=tree)
        folders = {name: tree / name for name in job.roots} | dict(toolchain.roots)
        roots = PathRoots(folders)
        # What is compiled speaks of the folders that the daemon has.
        maps = [
            f"-ffile-prefix-map={here}={job.roots[name]}"
            for name, here in folders.items()
            if name in job.roots and str(here) != job.roots[name]
        ]
        request = replace(
            job.request,
            flags=tuple(map(roots.expand_text, job.request.flags)),
            include_folders=tuple(
                Path(roots.expand(f"{folder}/").rstrip("/")) for folder in job.request.include_folders
            ),
        )
        mapping = replace(toolchain, hip_arguments=(*toolchain.hip_arguments, *maps))
        options = job.options
        builder = self._builder(f"{tree.name}{options.precompile}{''.join(maps)}", mapping, store, options.precompile)
        result = await builder.build(
            request,
            BuildOptions(force=options.force, side_by_side=self._has_room(), waiting=options.waiting),
        )
        if options.precompile and not result.from_store:
            self._background_pch.note(request, options.unit, lambda: builder.ladder, built=result.ok, compiled=True)
        return await to_thread.run_sync(self._packed, result, roots, PathRoots(toolchain.roots), store)

    def _has_room(self) -> bool:
        """Return True if both passes of a compile have a core."""
        return 2 * len(self._running) <= (os.cpu_count() or 1)

    def _tree(self, job: messages.FarmCompile, contents: Mapping[str, bytes]) -> Path | tuple[str, ...]:
        """The folder with the headers of the workspace that the source may include, made of what was sent now and
        before; or the SHA-256 of contents that never were."""
        listed = [f"{name}\0{digest}\n" for name, digest in job.files]
        name = hashlib.sha256("".join(sorted([*listed, *job.roots])).encode()).hexdigest()[:32]
        parent = self._folder / "trees"
        tree = parent / name
        if tree.is_dir():
            with suppress(OSError):
                os.utime(tree)
            return tree
        kept = {digest: self._kept(digest, contents.get(digest)) for _, digest in job.files}
        if lacking := tuple(digest for digest, content in kept.items() if content is None):
            return lacking
        new = parent / f".{name}-{secrets.token_hex(4)}"
        try:
            for root in job.roots:
                (new / _plain(root)).mkdir(parents=True, exist_ok=True)
            for path, digest in job.files:
                root, _, rest = path.partition("/")
                target = new / _plain(root.strip("<>")) / _plain(rest)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(kept[digest] or b"")
            with suppress(OSError):  # another worker of this machine was first
                new.rename(tree)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        return tree

    def _kept(self, digest: str, sent: bytes | None) -> bytes | None:
        """The content with this SHA-256: what was sent, which is kept, or what has been kept; None for neither."""
        file = self._folder / "contents" / _plain(digest)
        if sent is None:
            try:
                sent = read_file(file)
            except OSError:
                return None
            if hashlib.sha256(sent).hexdigest() != digest:
                return None
            with suppress(OSError):
                os.utime(file)
            return sent
        if hashlib.sha256(sent).hexdigest() != digest:
            raise CkwatchError(f"the file with the SHA-256 {digest} was changed on its way")
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, sent, flushed=False)
        return sent

    def _builder(self, name: str, toolchain: Toolchain, store: ArtifactStore, precompile: bool) -> Builder:
        known = self._builders.pop(name, None)
        if known is None:
            make = partial(self._ladder, toolchain, store, precompile) if isinstance(toolchain, Toolchain) else None
            known = Builder(toolchain, store, launch=self._launch, make_ladder=make)
        self._builders[name] = known
        while len(self._builders) > TREES_KEPT:
            del self._builders[next(iter(self._builders))]
        return known

    def _ladder(self, toolchain: Toolchain, store: ArtifactStore, precompile: bool) -> Any:
        from ckwatch.compile.staged_build import StagedCompiler

        return StagedCompiler(toolchain, store, self._launch, precompile=lambda: precompile)

    def _packed(
        self, result: BuildOutcome, roots: PathRoots, own: PathRoots, store: ArtifactStore
    ) -> messages.FarmCompiled:
        """Pack a result for transport. The store knows the toolchain's folders alone, `own`, by name."""
        artifact = result.artifact
        machine = self._facts.machine
        if artifact is None:
            return messages.FarmCompiled(
                machine=machine, fault=result.fault or CompileFault.HOST, message=result.message, log=result.log
            )
        headers = store.header_set(artifact.headers)
        if headers is None:
            raise CkwatchError("the record of its headers has gone")
        return messages.FarmCompiled(
            machine=machine,
            ok=artifact.ok,
            log=roots.shorten_text(result.log),
            commands=tuple(
                replace(command, arguments=tuple(map(roots.shorten_text, command.arguments)))
                for command in artifact.record.commands
            ),
            headers={roots.shorten(own.expand(name)): digest for name, digest in headers.present.items()},
            exports=artifact.record.exports,
            products={
                ProductKind(kind): (name, store.load(artifact.folder / name))
                for kind, name in artifact.products.items()
            },
        )

    async def measure(self, sent: messages.FarmMeasure) -> messages.FarmMeasured:
        """Time on a device of this machine, as the daemon there would."""
        worker = get_worker()
        ask = worker_protocol.decode(sent.ask)
        if not isinstance(ask, WorkerRequest) or ask.job is None:
            raise CkwatchError("no measurement was asked for")
        with CancelScope() as scope:
            self._running[sent.key] = scope
            try:
                done = await measure(
                    ask.job,
                    sent.artifacts,
                    WorkerStart(folder=self._folder),
                    time_limit_s=sent.time_limit_s,
                    on_message=lambda one: worker.log_event(sent.key, {"said": message(one)[HEAD_BYTES:]}),
                )
                return messages.FarmMeasured(report=message(done)[HEAD_BYTES:])
            finally:
                del self._running[sent.key]
        return messages.FarmMeasured(problem="the measurement was cancelled")

    async def _clean(self) -> None:
        """Now and then, when nothing runs, keep the folder small."""
        while True:
            await anyio.sleep(CLEANUP_S)
            if not self._running and self._store is not None:
                await to_thread.run_sync(self._store.collect_garbage)
                await to_thread.run_sync(self._drop_trees)

    def _drop_trees(self) -> None:
        with suppress(OSError):
            trees = sorted((self._folder / "trees").iterdir(), key=lambda tree: tree.stat().st_mtime)
            for tree in trees[:-TREES_KEPT]:
                shutil.rmtree(tree, ignore_errors=True)
        with suppress(OSError):
            contents = sorted((self._folder / "contents").iterdir(), key=lambda file: file.stat().st_mtime)
            for file in contents[:-CONTENTS_KEPT]:
                file.unlink(missing_ok=True)


def device_resource(device: DeviceFacts) -> str:
    """The resource of workers that time on such a device: `hip:gfx942`."""
    return f"{device.kind}:{device.arch.partition(':')[0]}"


def _plain(name: str) -> PurePosixPath:
    """A path below a folder. Raises CkwatchError for one that leads elsewhere."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise CkwatchError(f"`{name}` is not a path below a folder")
    return path


def _own(worker: Worker) -> FarmWorker:
    found = worker.plugins.get(NAME)
    if not isinstance(found, FarmWorker):
        raise CkwatchError("the worker was started without `--preload ckwatch.farm.worker`")
    return found


async def compile_task(message: bytes) -> bytes:
    """A task: `FarmWorker.compile` of a `CompileTask`; a `FarmCompiled`. Errors are answers: dask would pickle them."""
    try:
        sent = decode(message, messages.CompileTask)
        done = await _own(get_worker()).compile(sent.job, sent.contents)
    except Exception as error:
        log.exception("a compile has failed")
        done = messages.FarmCompiled(machine=socket.gethostname(), fault=CompileFault.CRASHED, message=_words(error))
    return encode(done, messages.FarmCompiled)


async def measure_task(message: bytes) -> bytes:
    """A task: `FarmWorker.measure` of a `FarmMeasure`; a `FarmMeasured`."""
    try:
        done = await _own(get_worker()).measure(decode(message, messages.FarmMeasure))
    except Exception as error:
        log.exception("a measurement has failed")
        done = messages.FarmMeasured(problem=_words(error))
    return encode(done, messages.FarmMeasured)


def _words(error: Exception) -> str:
    return error.message if isinstance(error, CkwatchError) else f"{type(error).__name__}: {error}"
