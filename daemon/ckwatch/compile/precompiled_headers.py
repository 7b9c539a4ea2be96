"""Precompiled headers: which ones help a compile, how they are made, and where they are kept.

They are made once per text, side, flags, arch and compiler, kept in the store's folder, and never stale: one is used
only while every header that it was made of has the contents it had then; clang itself checks sizes and times once more.
`clang -fno-cxx-modules` is given wherever they are made or used: with the modules of C++20 clang 22 merges declarations
of a precompiled header that look alike, and CK's `MfmaSelector` then picks another instruction.

What is precompiled of a source: its leading includes, and more where the template takes part in it. A source that
mentions CKWATCH_WARM_UP promises that, with this macro defined, it defines no kernel and nothing under a name that
another source may define too, apart from names with `KERNEL_NAME` or `DEVICE_CODE_NAME` in them; and that it makes the
compiler instantiate the templates that it will need. Then it is put behind the includes of a precompiled header, and a
source that differs in some parameters finds most of its instantiations done. Where sources of one kernel have little in
common, a comment names the family: `// CKWATCH_WARM_UP: v3 Intrawave`. Of every family some sources that were built are
remembered: the first ones, and in their place those that were edited and built, as they will be edited again. A source
is warmed up with the one that has most lines in common with it. As long as there is none, that of another family of the
same kernel helps, or the includes alone are precompiled.

What is reported of a source and what comes of it must not depend on them. A header of another text never replaces what
a source includes, it only has been read before. Included headers are then read once more than they are without, and
those that were precompiled say nothing: where that would be seen, none is made. Everything works without them, only
slower.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.compile.compile_job import source_id
from ckwatch.compile.dependencies import INCLUDED, opens_again, parse_header_list
from ckwatch.compile.driver_plan import CompilePlan, PassSide
from ckwatch.compile.kept_clang import PCH_FLAGS, SOURCE_NAME, KeptClang, KeptClangs
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.content_hashes import ContentSnapshot, steady_ns
from ckwatch.compile.store.entries import StoreError
from ckwatch.compile.store.header_sets import HeaderObserver, HeaderSet, PathRoots
from ckwatch.compile.work_folder import environment_of, remove_work_folder
from ckwatch.model.errors import plain_errors
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.async_processes import ExitReason, Launcher
from ckwatch.system.durable_files import replace_file
from ckwatch.system.file_locks import try_lock, unlock
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, digest_file, read_file

WARM_UP = "CKWATCH_WARM_UP"
HASH_DIGITS = 12
"""At the end of names that `fingerprint.kernel_symbol` makes."""

_FAMILY = re.compile(rf"//\s*{WARM_UP}:[ \t]*(.*)")
_DIRECTIVE = re.compile(r"\s*#\s*(\w*)")
_OPENING = frozenset({"if", "ifdef", "ifndef"})
_BRANCHES = frozenset({"else", "elif", "elifdef", "elifndef"})
_PUSHES = frozenset({"push", "push_macro", "begin"})
_POPS = frozenset({"pop", "pop_macro", "end"})
_NAME = re.compile(r"\b[A-Za-z_]\w*")
_ABSENT = re.compile(r"\s*#\s*(?:ifndef|if\s*!\s*defined)[\s(]+(\w+)[\s)]*")
_COMMENTS = re.compile(r"/\*.*?(?:\*/|\Z)|//[^\n]*", re.DOTALL)


def include_prefix(source: str) -> str:
    """The leading lines of `source` up to its last include before any code, empty when there is none.

    They are blank lines, comments and directives that mean the same when they are read once more: every condition and
    all that pragmas push is closed, and no condition asks for a macro that is defined below it.
    """
    lines = source.splitlines(keepends=True)
    codes = _COMMENTS.sub(lambda comment: re.sub(r"\S", " ", comment[0]), source).splitlines()
    end = depth = 0
    included = continued = False
    for number, line in enumerate(lines, 1):
        if continued:
            before, codes[number - 2] = codes[number - 2].rstrip(), ""
            codes[number - 1] = f"{before[:-1]} {codes[number - 1]}" if before.endswith("\\") else before  # a comment
        continued = line.rstrip("\r\n").endswith("\\")
        code = codes[number - 1]
        directive = _DIRECTIVE.match(code)
        if continued or not code.strip():
            continue
        word = "" if directive is None else directive[1]
        names = _NAME.findall(code) if word == "pragma" else ()
        depth += (word in _OPENING) - (word == "endif") + sum((name in _PUSHES) - (name in _POPS) for name in names)
        if directive is None or depth < 0:
            break
        included = included or word == "include"
        if included and depth == 0 and (word in ("include", "endif") or not _POPS.isdisjoint(names)):
            end = number
    decided = _decided_below(codes[:end])
    return "".join(lines[:end]) if decided is None else include_prefix("".join(lines[:decided]))


def _decided_below(codes: Sequence[str]) -> int | None:
    """The index of the first condition that would choose other lines once those below it have been read, if any."""
    conditions: list[tuple[int, str]] = []
    """Of those that are open: its index, and the macro whose absence is all that it asks for."""
    asked: dict[str, int] = {}
    defined: dict[str, int] = {}
    for index, code in enumerate(codes):
        directive = _DIRECTIVE.match(code)
        word = "" if directive is None else directive[1]
        names = _NAME.findall(code)[1:]
        if word in _OPENING:
            absent = _ABSENT.fullmatch(code)
            conditions.append((index, "" if absent is None else absent[1]))
            asked = {**dict.fromkeys(names if absent is None else (), index), **asked}
        elif word in _BRANCHES and conditions:
            opened, name = conditions[-1]
            if defined.get(name, -1) > opened:
                return opened
            asked = {**dict.fromkeys((*names, name), opened), **asked}
        elif word == "endif" and conditions:
            conditions.pop()
        elif word in ("define", "undef") and names:
            if names[0] in asked:
                return asked[names[0]]
            defined[names[0]] = index
    return None


def warm_text(prefix: str, source: str, symbol: str) -> str:
    """A precompiled header's text: the includes, and `source` under other names than its own."""
    # The function's name and that of the device code are made of the same words and a hash each.
    names = re.compile(rf"{re.escape(symbol[:-HASH_DIGITS])}[0-9a-f]{{{HASH_DIGITS}}}")
    renamed = names.sub(lambda match: f"{match[0]}_warm_up", source)
    return f"{prefix}#define {WARM_UP} 1\n{renamed}\n#undef {WARM_UP}\n"


def shared_plan(plan: CompilePlan, prefix: str, request: CompileRequest) -> CompilePlan:
    """How what `prefix` includes is precompiled: without the workspace's folders where nothing in them can be meant, so
    that workspaces share it. Looks at the folders."""
    first_parts = {name.partition("/")[0] for _, name in INCLUDED.findall(prefix)}
    own = [str(folder) for folder in request.include_folders]
    if "" in first_parts or any(os.path.lexists(f"{folder}/{part}") for folder in own for part in first_parts):
        return plan
    return plan.without_folders(own)


def can_warm_up(source: str) -> bool:
    """Return True if the template takes part."""
    return WARM_UP in source


def family_of(source: str) -> str:
    """Which sources of the same kernel `source` has most in common with."""
    named = _FAMILY.search(source)
    return "" if named is None else named[1].strip()


def _kept_family(source: str) -> str:
    """By which a clang is found; a source that does not take part needs no more than the includes."""
    return f"{WARM_UP}:{family_of(source)}" if can_warm_up(source) else ""


def differing_lines(source: str, other: str) -> int:
    """In how many lines the two differ; a parameter that an instantiation depends on usually has one of its own."""
    return len({*source.splitlines()} ^ {*other.splitlines()})


INSTANTIATE_FLAG = "-fpch-instantiate-templates"
"""Templates are instantiated when the header is made, not by each source that uses it."""

SIZE_LIMIT_BYTES = 2 * 2**30
COUNT_LIMIT = 24
_IN_USE_S = 600.0
"""A header that was used so recently may be in use: a compile takes less."""

_RULES = 2
"""Changes with what a header may be made of; 2: nothing that has no guard."""

HEADER_NAME = "header.pch"
META_NAME = "meta.json"
REFUSED_NAME = "refused.json"


@dataclass(frozen=True, slots=True)
class HeaderSpec:
    """A precompiled header that would help: its text, and the command that makes it, files apart."""

    side: PassSide
    text: str
    command: tuple[str, ...]
    identity: str

    @property
    def key(self) -> str:
        """Its name."""
        parts = [_RULES, self.side.value, self.text, list(self.command), self.identity]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class PrecompiledHeader:
    """One that can be used. `headers` are the absolute paths of what it was made of."""

    file: Path
    source: Path
    headers: tuple[str, ...]

    @property
    def use(self) -> tuple[str, ...]:
        """Arguments for clang."""
        return (*PCH_FLAGS, "-include-pch", str(self.file))


class PrecompiledHeaderStore:
    """Those in the store's folder. For use from threads; several processes may share the folder."""

    def __init__(self, store: ArtifactStore, roots: PathRoots, identity: str) -> None:
        self.folder = store.folder / "precompiled"
        self._store = store
        self._roots = roots
        self._identity = identity
        self._failed: dict[str, float] = {}

    def wanted(self, side: PassSide, text: str, plan: CompilePlan) -> HeaderSpec:
        """Describe the header that `text`, precompiled for one side, would be."""
        command = plan.pass_command(
            side,
            source=SOURCE_NAME,
            output="",
            headers="",
            cuid="",
            emit="-emit-pch",
            more=(*PCH_FLAGS, INSTANTIATE_FLAG),
        )
        return HeaderSpec(side, text, tuple(command), self._identity)

    def find(self, wanted: HeaderSpec, look: ContentSnapshot | None = None) -> PrecompiledHeader | None:
        """The header, if it is what was made and nothing that it was made of has changed."""
        folder = self.folder / wanted.key
        try:
            meta = read_file(folder / META_NAME)
            headers, digest = HeaderSet.from_json(meta), json.loads(meta)["header"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        look = look or self._store.contents.look()
        if not headers.holds(look, self._roots) or self._store.contents.digest(str(folder / HEADER_NAME)) != digest:
            self._remove(folder)
            return None
        with suppress(OSError):
            os.utime(folder / META_NAME)
        expand = self._roots.expand
        return PrecompiledHeader(folder / HEADER_NAME, folder / SOURCE_NAME, tuple(map(expand, headers.present)))

    def prepare(self, wanted: HeaderSpec) -> Path:
        """The folder in which to make it, with its text. Raises OSError."""
        folder = self.folder / wanted.key
        folder.mkdir(parents=True, exist_ok=True)
        source = folder / SOURCE_NAME
        data = wanted.text.encode("utf-8", "surrogateescape")
        # The header remembers the time of its source: an equal one is left alone.
        if not source.exists() or read_file(source) != data:
            source.write_bytes(data)
        return folder

    def publish(
        self, wanted: HeaderSpec, made: Path, headers: Sequence[str], folders: tuple[Path, ...], begun_ns: int
    ) -> bool:
        """Take in the file `made`, from the headers named, that were found in `folders`; False when one of them has
        changed meanwhile."""
        folder = self.folder / wanted.key
        opened = tuple(path for path in headers if path != str(folder / SOURCE_NAME))
        observer = HeaderObserver(self._store.contents, self._roots)
        observed = observer.observe(opened, (), folders, begun_ns)
        if observed is None:
            return False
        digest = digest_file(made)
        (folder / META_NAME).unlink(missing_ok=True)
        made.rename(folder / HEADER_NAME)
        temporary = made.with_name("meta")
        temporary.write_bytes(json.dumps({**json.loads(observed.to_json()), "header": digest}).encode())
        temporary.rename(folder / META_NAME)
        return True

    def failed(self, wanted: HeaderSpec) -> None:
        """It cannot be made of the headers as they are."""
        self._failed[wanted.key] = time.monotonic()

    def worth_trying(self, wanted: HeaderSpec) -> bool:
        """Return True if it has not failed lately, and the compiler has not refused it."""
        since = self._failed.get(wanted.key)
        return (since is None or time.monotonic() - since > _IN_USE_S) and self.refusal() is None

    def refuse(self, message: str) -> None:
        """The compiler does not take what it has made: none is made or used until the compiler changes."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            content = json.dumps({"identity": self._identity, "message": message})
            replace_file(self.folder / REFUSED_NAME, content.encode(), flushed=False)

    def refusal(self) -> str | None:
        """Why this compiler's precompiled headers are not used, None when they are."""
        try:
            found = json.loads(read_file(self.folder / REFUSED_NAME))
            return str(found["message"]) if found["identity"] == self._identity else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def tidy(self, *, size_limit_bytes: int = SIZE_LIMIT_BYTES, count_limit: int = COUNT_LIMIT) -> int:
        """Remove those used longest ago beyond the limits, and what was left half-made; how many went."""
        kept: list[tuple[float, int, Path]] = []
        now = time.time()
        removed = 0
        with suppress(OSError):
            for folder in self.folder.iterdir():
                if not folder.is_dir():
                    continue
                try:
                    used = (folder / META_NAME).stat().st_mtime
                except OSError:
                    used = 0.0
                    if abs(now - folder.stat().st_mtime) < _IN_USE_S:
                        continue  # being made
                size = sum(file.stat().st_size for file in folder.iterdir())
                kept.append((used, size, folder))
        total = sum(size for _, size, _ in kept)
        count = len(kept)
        for used, size, folder in sorted(kept):
            if (total <= size_limit_bytes and count <= count_limit and used) or abs(now - used) < _IN_USE_S:
                continue
            self._remove(folder)
            total, count, removed = total - size, count - 1, removed + 1
        return removed

    def discard(self, specs: Iterable[HeaderSpec]) -> None:
        """Remove headers that will not be wanted again. A compile that is about to read one goes on without."""
        for wanted in specs:
            self._remove(self.folder / wanted.key)

    def _remove(self, folder: Path) -> None:
        with suppress(OSError):
            (folder / META_NAME).unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


WARMUP_NICE = 15
"""Headers that no compile waits for are made at low priority (nice(1)), lower than that of compiles."""

WARMUP_TIME_LIMIT_S = 600.0

FAMILIES = 8
"""Families of one kernel that are remembered."""

REPRESENTATIVES = 4
"""Sources of one family that are remembered: two that are edited in turns, and the earlier edition of each, whose
headers are used until the new one has some."""

_FOLDER = "representatives"
_Representatives = Mapping[str, tuple[tuple[str, str], ...]]
"""For each family the symbols and the sources of some that compile, the newest first."""


class HeaderWarmup:
    """The precompiled headers of one compiler and store. One event loop's."""

    def __init__(
        self, toolchain: CompilerToolchain, store: ArtifactStore, headers: PrecompiledHeaderStore, launch: Launcher
    ) -> None:
        self.headers = headers
        self.kept = KeptClangs(toolchain, store, launch)
        self._toolchain = toolchain
        self._store = store
        self._launch = launch
        self._flights: dict[str, anyio.Lock] = {}
        self._known: dict[str, _Representatives] = {}

    def find(
        self, request: CompileRequest, side: PassSide, plan: CompilePlan, look: ContentSnapshot | None = None
    ) -> PrecompiledHeader | None:
        """The best one there is; runs in a thread."""
        if self.headers.refusal() is not None:
            return None
        found = (self.headers.find(wanted, look) for wanted in self.candidates(request, side, plan))
        return next((header for header in found if header is not None), None)

    def find_kept(
        self, request: CompileRequest, side: PassSide, plan: CompilePlan, passes: CompilePlan
    ) -> KeptClang | None:
        """The clang that has parsed a text of the source's family, if there is one for this pass by `passes`. Runs in a
        thread."""
        if not self.kept or self.headers.refusal() is not None:
            return None
        texts = self._texts(request, side, plan)
        return None if not texts else self.kept.find(texts[0].key, passes.command(side), _kept_family(request.source))

    async def keep(
        self, request: CompileRequest, plan: CompilePlan, passes: CompilePlan, living: TaskGroup, *, again: bool = True
    ) -> bool:
        """Let a clang for each pass, which lives in the task group, parse the source for further `passes`; False where
        that is not possible, or was done before, without `again` for another source of its family."""
        if self.headers.refusal() is not None:
            return False
        family, seen = _kept_family(request.source), source_id(request)
        grown: list[bool] = []

        async def grow(side: PassSide) -> None:
            texts = await anyio.to_thread.run_sync(self._texts, request, side, plan)
            how = (family, seen, passes, request, living)
            grown.append(bool(texts) and await self.kept.grow(texts[0], texts[-1], *how, again=again))

        async with plain_errors(), anyio.create_task_group() as tasks:
            for side in PassSide:
                tasks.start_soon(grow, side)
        return any(grown)

    def _texts(self, request: CompileRequest, side: PassSide, plan: CompilePlan) -> list[HeaderSpec]:
        """The includes, and the source as a header has it, if it can be one; runs in a thread."""
        prefix = include_prefix(request.source)
        if not prefix:
            return []
        plan = shared_plan(plan, prefix, request)
        texts = [prefix + prefix]
        if can_warm_up(request.source):
            texts.append(warm_text(prefix, request.source, request.symbol))
        return [self.headers.wanted(side, text, plan) for text in texts]

    def candidates(
        self, request: CompileRequest, side: PassSide, plan: CompilePlan, *, warm: bool = True
    ) -> list[HeaderSpec]:
        """Those that would help, the best first; runs in a thread. Without `warm` the includes alone."""
        prefix = include_prefix(request.source)
        if not prefix:
            return []
        plan = shared_plan(plan, prefix, request)
        texts = []
        if warm and can_warm_up(request.source):
            known = self._representatives(request, prefix, plan)
            family = family_of(request.source)
            for name in sorted(known, key=lambda name: name != family):
                nearest = sorted(known[name], key=lambda one: differing_lines(one[1], request.source))
                texts += [warm_text(prefix, source, symbol) for symbol, source in nearest]
        # Twice, as with the header it is read twice: it cannot be made of headers that bear that only once.
        return [self.headers.wanted(side, text, plan) for text in (*texts, prefix + prefix)]

    def lacking(
        self, request: CompileRequest, plan: CompilePlan, sides: Iterable[PassSide] = PassSide, *, warm: bool = True
    ) -> list[HeaderSpec]:
        """Return the headers to make next for requests like this one: of a family that a kept clang knows only the
        first, for when the daemon begins anew. Blocks; call from a worker thread."""
        found = []
        family = family_of(request.source)
        for side in sides:
            candidates = self.candidates(request, side, plan, warm=warm)
            able = [wanted for wanted in candidates if self.headers.worth_trying(wanted)]
            kept = bool(able) and self.kept.has(candidates[-1].key, _kept_family(request.source))
            kept = kept and any(self._is_there(wanted) for wanted in able if family_of(wanted.text) == family)
            if able and not kept and self.headers.find(able[0]) is None:
                found.append(able[0])
        return found

    def _is_there(self, wanted: HeaderSpec) -> bool:
        return (self.headers.folder / wanted.key / META_NAME).exists()

    def built(self, request: CompileRequest, plan: CompilePlan, *, edited: bool = False) -> None:
        """Remember the source for its family if few are known yet, or if it was `edited`; runs in a thread."""
        prefix = include_prefix(request.source)
        if not prefix or not can_warm_up(request.source):
            return
        plan = shared_plan(plan, prefix, request)
        known = self._representatives(request, prefix, plan)
        family = family_of(request.source)
        others = known.get(family, ())
        new = (request.symbol, request.source)
        room = len(others) < REPRESENTATIVES if others else len(known) < FAMILIES
        if new in others or not (room or (edited and others)):
            return
        name = self._name(request, prefix, plan)
        file = self._store.folder / _FOLDER / name
        for symbol, source in others[REPRESENTATIVES - 1 :]:
            text = warm_text(prefix, source, symbol)
            self.headers.discard(self.headers.wanted(side, text, plan) for side in PassSide)
        self._known[name] = {**known, family: (new, *others[: REPRESENTATIVES - 1])}
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps(self._known[name]).encode(), flushed=False)

    async def make(
        self, wanted: HeaderSpec, request: CompileRequest, plan: CompilePlan, nice: int = WARMUP_NICE
    ) -> bool:
        """Make one unless it is there; whether it can be used. Another process that is at it is not waited for."""
        async with self._flights.setdefault(wanted.key, anyio.Lock()):
            if await anyio.to_thread.run_sync(self.headers.find, wanted) is not None:
                return True
            path = self._store.locks / f"{wanted.key}.lock"
            with anyio.CancelScope(shield=True):
                lock = await anyio.to_thread.run_sync(_try_lock_at, path)
            if lock is None:
                return False
            try:
                return await self._make(wanted, request, plan, max(nice, request.nice))
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(unlock, path, lock)

    async def _make(self, wanted: HeaderSpec, request: CompileRequest, plan: CompilePlan, nice: int) -> bool:
        begun_ns = steady_ns()
        plan = await anyio.to_thread.run_sync(shared_plan, plan, include_prefix(request.source), request)
        try:
            folder = await anyio.to_thread.run_sync(self.headers.prepare, wanted)
            work = await anyio.to_thread.run_sync(self._store.work_folder)
        except (OSError, StoreError):
            return False
        made, listed = work / HEADER_NAME, work / "headers.txt"
        command = plan.pass_command(
            wanted.side, source=str(folder / SOURCE_NAME), output=str(made), headers=str(listed), cuid="",
            emit="-emit-pch", more=(*PCH_FLAGS, INSTANTIATE_FLAG),
        )  # fmt: skip
        try:
            finished = await self._launch(
                command,
                environment=environment_of(self._toolchain.environment, work),
                folder=work,
                timeout_s=WARMUP_TIME_LIMIT_S,
                nice=nice,
            )
            if not finished.succeeded:
                if finished.exit_reason is ExitReason.EXITED and finished.exit_status > 0:
                    self.headers.failed(wanted)
                return False
            if _says_more(finished.stderr, wanted):
                self.headers.failed(wanted)
                return False
            take = partial(self._publish, wanted, request, made, listed, begun_ns)
            return await anyio.to_thread.run_sync(take)
        finally:
            await remove_work_folder(work)

    def _publish(self, wanted: HeaderSpec, request: CompileRequest, made: Path, listed: Path, begun_ns: int) -> bool:
        text = os.fsdecode(read_file(listed, SIDE_FILE_LIMIT_BYTES))
        if opens_again(wanted.text, text, request.include_folders):
            self.headers.failed(wanted)
            return False
        names = parse_header_list(text)
        folders = (*request.include_folders, *self._toolchain.include_folders)
        try:
            return self.headers.publish(wanted, made, names, folders, begun_ns)
        except OSError:
            return False

    def _representatives(self, request: CompileRequest, prefix: str, plan: CompilePlan) -> _Representatives:
        name = self._name(request, prefix, plan)
        if name not in self._known:
            try:
                manifest = json.loads(read_file(self._store.folder / _FOLDER / name, SIDE_FILE_LIMIT_BYTES))
                self._known[name] = {
                    str(family): tuple((str(symbol), str(source)) for symbol, source in sources)
                    for family, sources in manifest.items()
                }
            except (OSError, ValueError, AttributeError, IndexError, TypeError):
                self._known[name] = {}
        return self._known[name]

    def _name(self, request: CompileRequest, prefix: str, plan: CompilePlan) -> str:
        command = self.headers.wanted(PassSide.DEVICE, prefix, plan)
        return hashlib.sha256(f"{command.key}\0{request.kernel}".encode()).hexdigest()[:40]


def _says_more(log: str, wanted: HeaderSpec) -> bool:
    """Return True if a source that uses the header would print other messages: fewer (a warning in what it includes,
    which would not be read again), or more (a macro that it redefines)."""
    own = f"/{wanted.key}/{SOURCE_NAME}"
    placed = (message for message in parse_clang_log(log) if message.position is not None)
    return any(not message.path.endswith(own) or message.option == "macro-redefined" for message in placed)


def _try_lock_at(path: Path) -> int | None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        return try_lock(path)
    return None
