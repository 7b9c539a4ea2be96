"""A clang that has parsed an instance and goes on: it compiles each edit of the instance in a fork of itself.

A precompiled header is read by every compile, piece by piece; a clang that has parsed the same text has it in memory.
A plugin (`kept_clang.cpp`) stops the device pass behind that text, with its templates instantiated, and forks. All else
is clang's own: the object is the one that hipcc makes, byte for byte.

Such a clang stands in for one precompiled header, for one command, and for the headers that it has read. A fork that
prints anything, fails or is killed has compiled nothing: a plain pass does, and reports. The plugin takes the C++
headers of that very clang (`toolchain/clang_headers.py`); without them there is none.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.compile.dependencies import outside, parse_header_list
from ckwatch.compile.driver_plan import CompilePlan, PassSide
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.content_hashes import ContentSnapshot, steady_ns
from ckwatch.compile.store.entries import StoreError
from ckwatch.compile.store.header_sets import HeaderObserver, HeaderSet, PathRoots
from ckwatch.compile.toolchain.clang_headers import find_clang_headers
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.work_folder import TEMPORARY, environment_of, remove_work_folder
from ckwatch.system.async_processes import AsyncProcess, Launcher, lower_priority, start_process
from ckwatch.system.memory import available_bytes
from ckwatch.system.processes import PIPE, ProcessStartError, signal_group
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file

log = logging.getLogger(__name__)

PLUGIN_SOURCE = Path(__file__).with_suffix(".cpp")
PLUGIN_FLAGS = ("-std=c++17", "-fno-rtti", "-fPIC", "-shared", "-O1", "-w")
USE_PLUGIN = ("-add-plugin", "ckwatch-keep")
PLUGINS = "plugins"
PRAGMA = "#pragma ckwatch_keep\n"

CLANGS_KEPT = 2
FREE_BYTES = 4 * 2**30
"""One is started only while so much memory is available: it takes 0.6 GB, and the compilers beside it as much."""

START_LIMIT_S = 600.0
_END_S = 10.0
_DOUBTS = re.compile("__(?:BASE_FILE|INCLUDE_LEVEL|COUNTER)__")
"""Names of what has another value behind what was parsed."""

_REPORT = "ckwatch: "
_READY = f"{_REPORT}ready"
_LIST = "headers.txt"
SOURCE_NAME = "prefix.hip"
_OWN_ID = "ckwatch"
"""In place of a source's: if it is used for a name, no fork compiles."""


@dataclass(frozen=True, slots=True)
class ForkEnd:
    """A fork that has written its object: seconds of the processor, peak memory, and the headers that it opened."""

    processor_s: float
    peak_memory_bytes: int
    opened: tuple[str, ...]


@dataclass(eq=False, slots=True)
class KeptClang:
    """One that is running. `command` is that of the passes that it makes, `headers` the paths of what it has read, and
    `read` their contents."""

    command: tuple[str, ...]
    folder: Path
    process: AsyncProcess
    headers: tuple[str, ...] = ()
    read: HeaderSet | None = None
    has_ended: bool = False
    _in_use: anyio.Lock = field(default_factory=anyio.Lock)
    _list_bytes: int = 0
    _pending: bytes = b""

    async def ready(self) -> bool:
        """Wait until it has parsed its text; False if it ends before, or prints what no fork would repeat."""
        with anyio.move_on_after(START_LIMIT_S):
            if await self._line() == _READY:
                self._list_bytes = (self.folder / _LIST).stat().st_size
                self.headers = self._opened(0)
                return True
        return False

    async def compile(self, request: CompileRequest, folder: Path, source_id: str) -> ForkEnd | None:
        """Compile the source in `folder` for the device; None if a plain pass has to."""
        if self._in_use.locked() or self.has_ended or not str(folder).isprintable() or _DOUBTS.search(request.source):
            return None
        limit_s = max(1, round(request.timeout_s))
        asked = f"{folder}\t{request.language.source_name}\t{source_id}\t{limit_s}\n"
        answer: str | None = None
        self._in_use.acquire_nowait()
        try:
            os.truncate(self.folder / _LIST, self._list_bytes)
            if await self.process.write(asked.encode()):
                with anyio.move_on_after(request.timeout_s + request.stalled_s):
                    answer = await self._line()
            report = (answer or "").removeprefix(_REPORT).split()
            if answer is None or not answer.startswith(_REPORT) or report[0] != "0":
                return None
            opened = await anyio.to_thread.run_sync(self._opened, self._list_bytes)
            return ForkEnd(float(report[1]), int(report[2]) * 1024, opened)
        except OSError:
            return None
        finally:
            if answer is None or not answer.startswith(_REPORT):
                await self._end_fork()
            self._in_use.release()

    def end(self) -> None:
        """Let it end; for any thread."""
        if not self.has_ended:
            signal_group(self.process.pid, signal.SIGKILL)

    async def live(self) -> None:
        """Wait for its end, or end it when cancelled; then nothing of it is left."""
        try:
            await self.process.wait()
        finally:
            self.has_ended = True
            with anyio.CancelScope(shield=True):
                await self.process.kill()
                async with self._in_use:  # a compile sees it first
                    pass
                await anyio.to_thread.run_sync(self.process.reap)
                self.process.close()
                await remove_work_folder(self.folder.parent)

    async def _end_fork(self) -> None:
        """End the fork that runs, and what it has printed; else all of this."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_END_S):
            if await self.process.write(b"\n"):
                while (line := await self._line()) is not None:
                    if line.startswith(_REPORT):
                        return
        self.end()

    async def _line(self) -> str | None:
        while b"\n" not in self._pending:
            more = await self.process.read_stderr()
            if not more:
                return None
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode(errors="replace")

    def _opened(self, begin: int) -> tuple[str, ...]:
        content = read_file(self.folder / _LIST, SIDE_FILE_LIMIT_BYTES)[begin:]
        return tuple(sorted(outside(parse_header_list(os.fsdecode(content)), self.folder)))


def _find_headers(toolchain: CompilerToolchain) -> Path | None:
    return find_clang_headers(toolchain, toolchain.environment) if isinstance(toolchain, Toolchain) else None


class KeptClangs:
    """Those of one compiler and store, by the keys of the headers that they stand in for. One event loop's."""

    def __init__(
        self,
        toolchain: CompilerToolchain,
        store: ArtifactStore,
        launch: Launcher,
        find_headers: Callable[[CompilerToolchain], Path | None] = _find_headers,
        available: Callable[[], int | None] = available_bytes,
    ) -> None:
        self._find_headers = find_headers
        self._available = available
        self._toolchain = toolchain
        self._store = store
        self._launch = launch
        self._roots = PathRoots(toolchain.roots)
        self._kept: dict[str, KeptClang] = {}
        self._failed: set[str] = set()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: str) -> bool:
        return key in self._kept and not self._kept[key].has_ended

    def find(self, key: str, command: Sequence[str], look: ContentSnapshot | None = None) -> KeptClang | None:
        """The one for passes of this command, if all that it has read is as it was; else it ends. Runs in a thread."""
        kept = self._kept.get(key)
        if kept is None or kept.has_ended or kept.read is None or kept.command != tuple(command):
            return None
        if not kept.read.holds(look or self._store.contents.look(), self._roots):
            kept.end()
            return None
        return kept

    async def start(
        self, key: str, text: str, plan: CompilePlan, request: CompileRequest, flags: Sequence[str]
    ) -> KeptClang | None:
        """Start one that has parsed `text` with more `flags`, for device passes by `plan`; the caller has it `live`.

        None where that is not possible."""
        if key in self._failed or (self._available() or 0) < FREE_BYTES:
            return None
        try:
            plugin = await self.plugin(request.nice)
            if plugin is None:
                return None
            self._kept = {name: kept for name, kept in self._kept.items() if not kept.has_ended}
            while len(self._kept) >= CLANGS_KEPT:
                self._kept.pop(next(iter(self._kept))).end()
            begun_ns = steady_ns()
            kept = await self._start(key, text, plan, request, (*flags, "-load", str(plugin), *USE_PLUGIN))
        except (OSError, StoreError, ProcessStartError) as error:
            log.info("no clang is kept: %s", error)
            return None
        try:
            await lower_priority(kept.process.pid, request.nice)
            if await kept.ready():
                folders = (*request.include_folders, *self._toolchain.include_folders)
                observer = HeaderObserver(self._store.contents, self._roots)
                kept.read = await anyio.to_thread.run_sync(observer.observe, kept.headers, (), folders, begun_ns)
            if kept.read is None:
                self._failed.add(key)
        except OSError as error:  # the store has gone
            log.info("no clang is kept: %s", error)
        finally:
            if kept.read is None:
                kept.end()
                with anyio.CancelScope(shield=True):
                    await kept.live()
        if kept.read is None:
            return None
        self._kept[key] = kept
        return kept

    def end(self) -> None:
        """Let all end."""
        while self._kept:
            self._kept.popitem()[1].end()

    async def _start(
        self, key: str, text: str, plan: CompilePlan, request: CompileRequest, flags: Sequence[str]
    ) -> KeptClang:
        work = await anyio.to_thread.run_sync(self._store.work_folder)
        folder = work / key
        command = plan.pass_command(
            PassSide.DEVICE, source=request.language.source_name, output="-", headers=_LIST, cuid=_OWN_ID, more=flags
        )
        command[-1] = SOURCE_NAME
        try:
            await anyio.to_thread.run_sync(_write, folder / SOURCE_NAME, text)
            environment = environment_of(self._toolchain.environment, folder)
            process = await start_process(command, environment=environment, folder=folder, stdin=PIPE)
        except BaseException:
            await remove_work_folder(work)
            raise
        return KeptClang(plan.device, folder, process)

    def plugin_name(self, source: bytes, headers: Path) -> str:
        """Return the file name of the plugin that is made of a source and clang's headers."""
        parts = (
            source,
            *(flag.encode() for flag in PLUGIN_FLAGS),
            self._toolchain.identity.encode(),
            os.fsencode(headers),
        )
        return f"{hashlib.sha256(bytes(1).join(parts)).hexdigest()[:40]}.so"

    async def plugin(self, nice: int) -> Path | None:
        """The plugin for this clang, which is compiled where it is not in the store. None without clang's headers."""
        toolchain = self._toolchain
        headers = await anyio.to_thread.run_sync(self._find_headers, toolchain)
        if headers is None:
            return None
        content = await anyio.to_thread.run_sync(read_file, PLUGIN_SOURCE)
        plugin = self._store.folder / PLUGINS / self.plugin_name(content, headers)
        if plugin.exists() or plugin.name in self._failed:
            return plugin if plugin.exists() else None
        work = await anyio.to_thread.run_sync(self._store.work_folder)
        try:
            (work / TEMPORARY).mkdir()
            command = [str(toolchain.clangxx), *toolchain.cpp_arguments, *PLUGIN_FLAGS, "-isystem", str(headers)]
            environment = environment_of(toolchain.environment, work)
            made = await self._launch(
                [*command, str(PLUGIN_SOURCE), "-o", "plugin.so"], environment=environment, folder=work, nice=nice,
                timeout_s=START_LIMIT_S,
            )  # fmt: skip
            if not made.succeeded:
                self._failed.add(plugin.name)
                log.info("the plugin that keeps a clang does not compile: %s", made.stderr[:2000])
                return None
            plugin.parent.mkdir(exist_ok=True)
            (work / "plugin.so").replace(plugin)
        finally:
            await remove_work_folder(work)
        return plugin


def _write(file: Path, text: str) -> None:
    (file.parent / TEMPORARY).mkdir(parents=True)
    file.write_bytes(f"{text}\n{PRAGMA}".encode("utf-8", "surrogateescape"))
