"""A clang that has parsed an instance and goes on: it compiles each edit of the instance in a fork of itself.

A precompiled header is read by every compile, piece by piece; a clang that has parsed the same text has it in memory.
A plugin (`kept_clang.cpp`) stops a pass behind that text, with its templates instantiated, and forks. All else is
clang's own: the object is the one that hipcc makes, byte for byte. The host and the device pass have one each.

Such a clang stands in for the headers that sources with the same includes have, for one command and the headers that
it has read. It begins with the includes and grows by the text of each instance that is edited or looked at. What the
optimizer and the code generator warn of comes from a fork word for word. One that would warn of anything else, fails
or is killed has compiled nothing: a plain pass does, and reports. Its first error is handed on the moment that it is
found. The plugin takes the C++ headers of that very clang (`toolchain/clang_headers.py`); without them there is none.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import count
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ckwatch.compile.dependencies import opens_again, outside, parse_header_list
from ckwatch.compile.driver_plan import CompilePlan, PassSide
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.content_hashes import steady_ns
from ckwatch.compile.store.entries import StoreError
from ckwatch.compile.store.header_sets import HeaderObserver, HeaderSet, PathRoots
from ckwatch.compile.toolchain.clang_headers import find_clang_headers
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.work_folder import TEMPORARY, environment_of, remove_work_folder
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.async_processes import AsyncProcess, Launcher, OnLine, lower_priority, start_process
from ckwatch.system.memory import available_bytes
from ckwatch.system.processes import PIPE, ProcessStartError, signal_group
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file

log = logging.getLogger(__name__)

PLUGIN_SOURCE = Path(__file__).with_suffix(".cpp")
PLUGIN_FLAGS = ("-std=c++17", "-fno-rtti", "-fPIC", "-shared", "-O1", "-w")
PUBLIC_ONLY = "-DCKWATCH_PUBLIC_ONLY"
"""For a clang whose private members have other names than those that the plugin uses."""
USE_PLUGIN = ("-add-plugin", "ckwatch-keep")
PLUGINS = "plugins"
PRAGMA = 'static_assert(true, "");\n#pragma ckwatch_keep\n'
"""clang sees it before it acts on the declaration in front of it."""
PCH_FLAGS = ("-fno-cxx-modules",)
"""Flags with which headers are made and used, and clangs are kept."""

CLANGS_KEPT = 4
"""One for each pass of two sets of includes and flags."""

TEXTS_KEPT = 12
"""Texts by which one grows, 40 to 200 MB each; with the next one another begins, with the last of each family."""

FREE_BYTES = 4 * 2**30
"""One is started or grows only while so much memory is available: it takes 0.6 GB, and the compilers beside it too."""

SCARCE_BYTES = 2**30
"""All that compile nothing end when a compile comes while less memory is available."""

_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
"""Fewer faults where forks write: measured, 4 to 12 % of a pass, and no more memory."""

START_LIMIT_S = 600.0
_END_S = 10.0
_DOUBTS = re.compile("__(?:BASE_FILE|INCLUDE_LEVEL|COUNTER)__")
"""Names of what has another value behind what was parsed."""

_REPORT = "ckwatch: "
_READY = "ready"
_SAYS = "says "
_START = "start"
_LIST = "headers.txt"
SOURCE_NAME = "prefix.hip"
_OWN_ID = "ckwatch"
"""In place of a source's: if it is used for a name, no fork compiles."""


class TextToParse(Protocol):
    """A text for one pass, and the key of the header that is precompiled of it."""

    @property
    def side(self) -> PassSide: ...

    @property
    def text(self) -> str: ...

    @property
    def key(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ForkEnd:
    """A fork that has written its object: seconds of the processor, peak memory, what it has printed, and the headers
    that it opened."""

    processor_s: float
    peak_memory_bytes: int
    log: str
    opened: tuple[str, ...]


@dataclass(eq=False, slots=True)
class _Fork:
    report: tuple[str, ...] = ()
    """Its wait status, seconds of the processor and peak memory in KiB; the word "ready" where it has grown."""
    ended: anyio.Event = field(default_factory=anyio.Event)
    on_line: OnLine | None = None
    """Gets the lines of its first error."""


@dataclass(eq=False, slots=True)
class KeptClang:
    """One that is running. `texts` are what it has parsed by their keys, with the families of instances that these
    belong to, `headers` the paths of what it has read, and `read` their contents."""

    side: PassSide
    folder: Path
    process: AsyncProcess
    texts: dict[str, tuple[str, TextToParse]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    """Ids of what the device can see of them: two with the same would define the same names."""
    headers: tuple[str, ...] = ()
    read: HeaderSet | None = None
    has_ended: bool = False
    has_spoken: bool = False
    """It has printed what no fork would repeat, so that it ends."""
    begun_ns: int = field(default_factory=steady_ns)
    _forks: dict[str, _Fork] = field(default_factory=lambda: {_START: _Fork()})
    _growing: str = _START
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def rests(self) -> bool:
        """Return True if it neither compiles nor parses anything; for any thread."""
        return all(fork.ended.is_set() for fork in list(self._forks.values()))

    def knows(self, family: str) -> bool:
        """Return True if it has parsed a text of the family."""
        return any(family == known for known, _ in self.texts.values())

    async def ready(self) -> bool:
        """Wait until it has parsed its first text; False if it ends before."""
        with anyio.move_on_after(START_LIMIT_S):
            await self._forks[_START].ended.wait()
        return not self.has_ended and not self.has_spoken

    async def grow(self, text: str) -> bool:
        """Parse one more text; False if that is not possible. What it has parsed before stays so, also if cancelled."""
        number = self._growing = str(next(self._numbers))
        source = self.folder / f"{number}.hip"
        try:
            await anyio.to_thread.run_sync(_write, source, text)
        except OSError:  # the store has gone, or is full
            return False
        grown = await self._ask("grow", number, source.name, limit_s=START_LIMIT_S) == (_READY,)
        return grown and not self.has_spoken

    async def compile(
        self, request: CompileRequest, folder: Path, source_id: str, on_line: OnLine | None = None
    ) -> ForkEnd | None:
        """Compile the source in `folder`; None if a plain pass has to. `on_line` gets the lines of its first error."""
        if not str(folder).isprintable() or _DOUBTS.search(request.source):
            return None
        limit_s = str(max(1, round(request.timeout_s)))
        words = (str(folder), self.side.value, request.language.source_name, source_id, limit_s)
        number = str(next(self._numbers))
        fork = _Fork(on_line=on_line)
        report = await self._ask("compile", number, *words, limit_s=request.timeout_s + request.stalled_s, fork=fork)
        if len(report) < 3 or report[0] != "0":
            log.info("a plain %s pass compiles %s: its fork reports %s", self.side, request.symbol, report or "nothing")
            return None
        try:
            return await anyio.to_thread.run_sync(_end_of, report, folder, self.side)
        except OSError:
            return None

    def end(self) -> None:
        """Let it end; for any thread."""
        if not self.has_ended:
            signal_group(self.process.pid, signal.SIGKILL)

    async def live(self) -> None:
        """Take its reports until it ends, or end it when cancelled; then nothing of it is left."""
        pending = b""
        try:
            while more := await self.process.read_stderr():
                *lines, pending = (pending + more).split(b"\n")
                for line in lines:
                    self._take(line.decode(errors="replace"))
        finally:
            self.has_ended = True
            with anyio.CancelScope(shield=True):
                for fork in self._forks.values():
                    fork.ended.set()
                await self.process.kill()
                await anyio.to_thread.run_sync(self.process.reap)
                self.process.close()
                await remove_work_folder(self.folder.parent)

    def _take(self, line: str) -> None:
        """A line of its standard error."""
        if not line.startswith(_REPORT):
            self.has_spoken = True
            self.end()
            return
        number, _, rest = line.removeprefix(_REPORT).partition(" ")
        report, says = rest.split(), rest.removeprefix(_SAYS)
        if says != rest:
            if (fork := self._forks.get(number)) is not None and fork.on_line is not None:
                fork.on_line(says)
            return
        if number == _READY:
            number, report = self._growing, [_READY]
        fork = self._forks.get(number)
        if fork is not None:
            fork.report = tuple(report)
            fork.ended.set()

    async def _ask(
        self, what: str, number: str, *words: str, limit_s: float, fork: _Fork | None = None
    ) -> tuple[str, ...]:
        """The report of a fork; empty when it has ended otherwise. Cancelled, it ends the fork, or else all of this."""
        fork = fork or _Fork()
        self._forks[number] = fork
        try:
            if self.has_ended or not await self._write(what, number, *words):
                return ()
            with anyio.move_on_after(limit_s):
                await fork.ended.wait()
            return fork.report
        finally:
            if not fork.ended.is_set() and not self.has_ended:
                with anyio.CancelScope(shield=True), anyio.move_on_after(_END_S):
                    if await self._write("end", number):
                        await fork.ended.wait()
                if fork.report in ((), (_READY,)):
                    self.end()
            del self._forks[number]

    async def _write(self, *words: str) -> bool:
        return await self.process.write("\t".join(words).encode() + b"\n")


def _end_of(report: Sequence[str], folder: Path, side: PassSide) -> ForkEnd:
    opened = read_file(folder / f"{side.value}-headers.txt", SIDE_FILE_LIMIT_BYTES)
    printed = read_file(folder / f"{side.value}.txt", SIDE_FILE_LIMIT_BYTES).decode(errors="replace")
    headers = tuple(sorted(outside(parse_header_list(os.fsdecode(opened)), folder)))
    return ForkEnd(float(report[1]), int(report[2]) * 1024, printed, headers)


def _find_headers(toolchain: CompilerToolchain) -> Path | None:
    return find_clang_headers(toolchain, toolchain.environment) if isinstance(toolchain, Toolchain) else None


class KeptClangs:
    """Those of one compiler and store, by the keys of the headers of the includes that they begin with. One event
    loop's."""

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
        self._kept: dict[tuple[str, tuple[str, ...]], KeptClang] = {}
        self._failed: set[str] = set()
        self._making = anyio.Lock()
        self._beginning = 0
        """Those that are to be kept once they have parsed what they begin with."""

    def __len__(self) -> int:
        return len(self._kept)

    def has(self, key: str, family: str) -> bool:
        """Return True if one of this key knows the family."""
        return any(kept.knows(family) for (name, _), kept in self._kept.items() if name == key and not kept.has_ended)

    def find(self, key: str, command: Sequence[str], family: str | None = None) -> KeptClang | None:
        """The one for passes of this command that knows the family, if all that it has read is as it was; else it
        ends, as all that rest do where memory is scarce. Runs in a thread."""
        if (free := self._available()) is not None and free < SCARCE_BYTES:
            for one in list(self._kept.values()):
                if one.rests:
                    one.end()
            return None
        kept = self._kept.get((key, tuple(command)))
        if kept is None or kept.has_ended or kept.read is None:
            return None
        if family is not None and not kept.knows(family):
            return None
        if not kept.read.holds(self._store.contents.look(), self._roots):
            kept.end()
            return None
        return kept

    async def grow(
        self,
        begin: TextToParse,
        text: TextToParse,
        family: str,
        seen: str,
        plan: CompilePlan,
        request: CompileRequest,
        living: TaskGroup,
        *,
        again: bool = True,
    ) -> bool:
        """Let the one that begins with a text, or a new one that lives in the task group, parse another, for passes by
        `plan`. False where that is not possible, or was done before, without `again` for the family."""
        if {begin.key, text.key} & self._failed or (self._available() or 0) < FREE_BYTES:
            return False
        kept = await anyio.to_thread.run_sync(self.find, begin.key, plan.command(begin.side))
        if kept is not None and (text.key in kept.texts or seen in kept.seen):
            kept.texts.setdefault(text.key, (family, text))
            return False
        if kept is not None and kept.knows(family) and not again:
            return False
        wanted = {family: text}
        if kept is not None and len(kept.texts) > TEXTS_KEPT:
            wanted = {**{known: one for known, one in kept.texts.values() if one.key != begin.key}, **wanted}
            kept.end()
            kept = None
        kept = kept or await self._start(begin, plan, request, living)
        for family, text in wanted.items():
            if kept is None or (text.key != begin.key and not await kept.grow(text.text)):
                if kept is not None and (kept.has_spoken or not kept.has_ended):
                    self._failed.add(text.key)
                return False
            if not await self._observed(kept, text, family, request):
                return False
        if kept is not None:
            kept.seen.add(seen)
        return True

    async def _start(
        self, begin: TextToParse, plan: CompilePlan, request: CompileRequest, living: TaskGroup
    ) -> KeptClang | None:
        try:
            async with self._making:
                plugin = await self.plugin(request.nice)
            if plugin is None:
                return None
            self._kept = {key: kept for key, kept in self._kept.items() if not kept.has_ended}
            while self._kept and len(self._kept) + self._beginning >= CLANGS_KEPT:
                self._kept.pop(next(iter(self._kept))).end()
            self._beginning += 1
            try:
                flags = (*PCH_FLAGS, "-load", str(plugin), *USE_PLUGIN)
                return await self._begun(await self._run(begin, plan, request, flags), begin, plan, request, living)
            finally:
                self._beginning -= 1
        except (OSError, StoreError, ProcessStartError) as error:
            log.info("no clang is kept: %s", error)
            return None

    async def _begun(
        self, kept: KeptClang, begin: TextToParse, plan: CompilePlan, request: CompileRequest, living: TaskGroup
    ) -> KeptClang | None:
        living.start_soon(kept.live)
        begun = False
        try:
            await lower_priority(kept.process.pid, request.nice)
            if await kept.ready():
                begun = await self._observed(kept, begin, "", request)
            else:
                self._failed.add(begin.key)
        finally:
            if not begun:
                kept.end()
        if not begun:
            return None
        self._kept[begin.key, plan.command(begin.side)] = kept
        return kept

    async def _observed(self, kept: KeptClang, text: TextToParse, family: str, request: CompileRequest) -> bool:
        """Note what it has read; it ends if that has changed meanwhile."""
        folders = (*request.include_folders, *self._toolchain.include_folders)
        observer = HeaderObserver(self._store.contents, self._roots)

        def observe() -> HeaderSet | None:
            listed = os.fsdecode(read_file(kept.folder / _LIST, SIDE_FILE_LIMIT_BYTES))
            if not kept.texts and opens_again(text.text, listed, request.include_folders):
                self._failed.add(text.key)
                return None
            kept.headers = tuple(sorted(outside(parse_header_list(listed), kept.folder)))
            return observer.observe(kept.headers, (), folders, kept.begun_ns)

        try:
            kept.read = await anyio.to_thread.run_sync(observe)
        except OSError as error:  # the store has gone
            log.info("no clang is kept: %s", error)
            kept.read = None
        if kept.read is None:
            kept.end()
            return False
        kept.texts[text.key] = family, text
        return True

    def end(self) -> None:
        """Let all end."""
        while self._kept:
            self._kept.popitem()[1].end()

    async def _run(
        self, begin: TextToParse, plan: CompilePlan, request: CompileRequest, flags: Sequence[str]
    ) -> KeptClang:
        work = await anyio.to_thread.run_sync(self._store.work_folder)
        folder = work / begin.key
        command = plan.pass_command(
            begin.side, source=request.language.source_name, output="-", headers=_LIST, cuid=_OWN_ID, more=flags
        )
        try:
            await anyio.to_thread.run_sync((folder / TEMPORARY).mkdir, 0o777, True)
            await anyio.to_thread.run_sync(_write, folder / command[-1], begin.text)
            environment = {**_HUGE_PAGES, **environment_of(self._toolchain.environment, folder)}
            process = await start_process(command, environment=environment, folder=folder, stdin=PIPE)
        except BaseException:
            await remove_work_folder(work)
            raise
        return KeptClang(begin.side, folder, process)

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
            environment = environment_of(toolchain.environment, work)
            command = [str(toolchain.clangxx), *toolchain.cpp_arguments, *PLUGIN_FLAGS, "-isystem", str(headers)]
            command += [str(PLUGIN_SOURCE), "-o", "plugin.so"]
            for flags in ((), (PUBLIC_ONLY,)):
                made = await self._launch(
                    [*command, *flags], environment=environment, folder=work, nice=nice, timeout_s=START_LIMIT_S
                )
                if made.succeeded:
                    break
            else:
                self._failed.add(plugin.name)
                log.info("the plugin that keeps a clang does not compile: %s", made.stderr[:2000])
                return None
            plugin.parent.mkdir(exist_ok=True)
            (work / "plugin.so").replace(plugin)
        finally:
            await remove_work_folder(work)
        return plugin


def _write(file: Path, text: str) -> None:
    file.write_bytes(f"{text}\n{PRAGMA}".encode("utf-8", "surrogateescape"))
