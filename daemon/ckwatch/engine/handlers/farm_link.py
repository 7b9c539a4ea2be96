"""Keeps the connection with the farm that `[farm]` names, and tells the core how much room there is."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from ckwatch.bench.job import Job
from ckwatch.bench.report import BenchmarkFailure, BenchmarkReport
from ckwatch.bench.worker_session import OnMessage
from ckwatch.compile.request import CompileOutcome, CompileRequest
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.events import MAIN, FarmChanged, WarningChanged
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.compiler_messages import PostEvent
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.model.amounts import memory
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.wire.state import FarmStatus
from ckwatch.workspace.settings import FarmSection

if TYPE_CHECKING:
    from ckwatch.farm.connection import FarmConnection, ListedWorker

log = logging.getLogger(__name__)

TOPIC = "farm"
POLL_S = 1.0
"""How often it is seen which workers there are."""

LONGEST_PAUSE_S = 10.0
"""Between two tries to reach a scheduler."""


class FarmLink:
    """The farm, while it can be reached; where none is set, nothing of `ckwatch.farm` is loaded."""

    def __init__(self, root: Path, view_loader: ViewLoader, tools: BuildTools, post: PostEvent) -> None:
        self._root = root
        self._view_loader = view_loader
        self._tools = tools
        self._post = post
        self._address = ""
        self._identity: tuple[Toolchain, str] | None = None
        self._slots = 0
        self._warning: str | None = None
        self._given: dict[str, str] = {}
        """Machines that were or are given the toolchain, each with a note."""
        self._tasks: TaskGroup | None = None
        self._packing = anyio.Lock()
        self._loaded = anyio.Event()
        self._devices: tuple[DeviceFacts, ...] = ()
        self.connection: FarmConnection | None = None
        self.on_devices: Callable[[], Awaitable[None]] | None = None
        """Called when there are other devices than before."""

    @property
    def _settings(self) -> FarmSection:
        workspace = self._view_loader.workspaces.get(MAIN)
        return FarmSection() if workspace is None else workspace.settings.farm

    async def run(self) -> None:
        """Until cancelled."""
        async with plain_errors(), anyio.create_task_group() as self._tasks:
            await self._keep_connected()

    async def _keep_connected(self) -> None:
        pause_s = POLL_S
        self._view_loader.on_loaded = lambda: self._loaded.set()
        try:
            while True:
                self._loaded = anyio.Event()
                settings, warning = self._settings, None
                has_farm = settings.scheduler is not None or settings.cluster is not None
                try:
                    if has_farm:
                        warning = await self._follow(settings)
                    else:
                        await self._leave()
                    pause_s = POLL_S
                except CkwatchError as error:
                    await self._leave()
                    warning = f"{error}; compiles run on this machine"
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                self._tell(self._room(), warning)
                if (devices := tuple(self.devices())) != self._devices:
                    self._devices = devices
                    if self.on_devices is not None:
                        await self.on_devices()
                if has_farm:
                    await anyio.sleep(pause_s)
                else:
                    await self._loaded.wait()  # the next load may set one
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave()

    async def _follow(self, settings: FarmSection) -> str | None:
        """Connect where that is not done, and learn which workers there are; what the user should know of them."""
        from ckwatch.farm.cluster import farm_address, farm_security

        address = await to_thread.run_sync(farm_address, settings, self._root)
        if address is None:
            await self._leave()
            return "the farm is not up: `ckwatch farm up` starts it; until then compiles run on this machine"
        if self.connection is None or address != self._address:
            await self._leave()
            kind = await to_thread.run_sync(_connection_class)
            security = None
            if address.startswith("tls:"):
                security = await to_thread.run_sync(farm_security, settings)
            self.connection = await kind.open(address, security)
            self._address = address
        await self.connection.refresh()
        await self._identify()
        if settings.give_toolchain and self._identity is not None:
            self._give_one(self._identity[1])
        connection = self.connection
        if note := [*connection.refused.values(), *connection.unfit.values(), *filter(None, self._given.values())]:
            return "; ".join(note)
        if self._identity is not None and not self._room():
            return (
                f"no worker of the farm has this toolchain ({self._identity[0].clang_version}): compiles run on this "
                "machine; `ckwatch farm status` shows what they have"
            )
        return None

    def _give_one(self, identity: str) -> None:
        """Begin to give the toolchain to a machine that lacks it."""
        if self.connection is None or self._tasks is None:
            return
        present = {one.facts.machine for one in self.connection.workers}
        self._given = {machine: note for machine, note in self._given.items() if machine in present}
        machines = {one.facts.machine for one in self.connection.workers if identity in one.facts.identities}
        for worker in self.connection.workers:
            machine = worker.facts.machine
            if machine not in machines and machine not in self._given:
                self._given[machine] = f"{machine} is given the toolchain"
                self._tasks.start_soon(self._give, self.connection, worker, identity)
                return

    async def _give(self, connection: FarmConnection, worker: ListedWorker, identity: str) -> None:
        from ckwatch.farm.giving import pack_toolchain

        machine, store = worker.facts.machine, self._tools.store
        packed = None
        try:
            if store is None or self._identity is None or not isinstance(self._identity[0], Toolchain):
                return
            pack = partial(pack_toolchain, self._identity[0], identity, store.folder / "given")
            async with self._packing:
                packed = await to_thread.run_sync(pack)
            size = packed.size_bytes

            def sent(done: int) -> None:
                self._given[machine] = f"{machine} is given the toolchain, {memory(done)} of {memory(size)}"

            await connection.give(worker, packed, sent)
            self._given[machine] = ""
            connection.forget(machine)
        except (CkwatchError, OSError) as error:
            self._given[machine] = f"{machine} cannot be given the toolchain: {error}"
        finally:
            if packed is not None:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(partial(packed.path.unlink, missing_ok=True))

    async def _identify(self) -> None:
        compiler, store = self._tools.compiler, self._tools.store
        toolchain = None if compiler is None else compiler.toolchain
        if toolchain is None or isinstance(toolchain, NvccToolchain) or store is None:
            self._identity = None
        elif self._identity is None or self._identity[0] != toolchain:
            from ckwatch.farm.messages import toolchain_identity

            self._identity = toolchain, await to_thread.run_sync(toolchain_identity, toolchain, store.contents)

    def _room(self) -> int:
        if self.connection is None or self._identity is None:
            return 0
        slots = self.connection.slots(self._identity[1])
        most = self._settings.most_workers  # a cluster grows while more waits than it has room for
        return slots if most is None or not slots else max(slots, most)

    def status(self, compiling: int) -> FarmStatus | None:
        """Return the farm's status while it can be reached; `compiling` counts its compiles."""
        if self.connection is None:
            return None
        workers = len(self.connection.workers)
        return FarmStatus(address=self._address, workers=workers, slots=self._slots, compiling=compiling)

    def _tell(self, slots: int, warning: str | None) -> None:
        if slots != self._slots:
            self._slots = slots
            self._post(FarmChanged(slots))
        if warning != self._warning:
            self._warning = warning
            self._post(WarningChanged(TOPIC, warning))

    async def _leave(self) -> None:
        connection, self.connection, self._address = self.connection, None, ""
        if connection is not None:
            try:
                await connection.close()
            except Exception as error:  # noqa: BLE001  # of the library; the connection is given up in any case
                log.info("the farm's connection did not close: %s", error)

    def devices(self) -> Sequence[DeviceFacts]:
        """Those that workers have."""
        return () if self.connection is None else self.connection.devices()

    async def measure(
        self,
        job: Job,
        artifacts: Sequence[bytes],
        device: DeviceFacts,
        *,
        time_limit_s: float,
        on_message: OnMessage | None = None,
    ) -> BenchmarkReport | BenchmarkFailure:
        """Time on a worker's device, as `DeviceFarm.measure`."""
        if self.connection is None:
            raise CkwatchError(f"the connection with {device.machine} is gone")
        return await self.connection.measure(job, artifacts, device, time_limit_s=time_limit_s, on_message=on_message)

    async def compile(
        self, request: CompileRequest, folder: Path, *, unit: str, waiting: int, force: bool
    ) -> CompileOutcome:
        """Compile on a worker, as `FarmConnection.compile`. Raises FarmError where there is none."""
        from ckwatch.farm.messages import CompileOptions
        from ckwatch.farm.packing import FarmError

        store = self._tools.store
        if self.connection is None or self._identity is None or store is None:
            raise FarmError("the connection with the farm is lost")
        toolchain, identity = self._identity
        options = CompileOptions(unit=unit, waiting=waiting, force=force, precompile=self._tools.precompiles)
        return await self.connection.compile(request, folder, toolchain, identity, store.contents, options)


def _connection_class() -> type[FarmConnection]:
    """Blocks; call from a worker thread: dask takes half a second to load."""
    import distributed  # noqa: F401

    from ckwatch.farm import worker  # noqa: F401
    from ckwatch.farm.connection import FarmConnection

    return FarmConnection
