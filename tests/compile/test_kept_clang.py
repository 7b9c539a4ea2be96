"""A clang that is kept: which compiles it makes, and when it ends. Its place is taken by a script, hipcc's by none."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from ckwatch.compile.background_pch import ALONE, BackgroundPch
from ckwatch.compile.build_events import BuildEvent, BuildOptions, CompilerLine, OnBuildEvent, ignore
from ckwatch.compile.driver_plan import CompilePlan, PassSide
from ckwatch.compile.kept_clang import (
    CLANGS_KEPT,
    FREE_BYTES,
    PUBLIC_ONLY,
    SCARCE_BYTES,
    TEXTS_KEPT,
    KeptClang,
    KeptClangs,
)
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain, CompileStatus
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.system.processes import group_runs
from fakes.fake_hip import HOST_OBJECT, PASS_OF, PRINTED, WARM, FakeHip, Step, fake_hip, request
from fakes.patience import PATIENCE_S

CLANG = r"""#!/bin/sh
echo "$0.h" > headers.txt
echo 'ckwatch: ready' >&2
while IFS='	' read -r what number folder side name id limit; do
    case "$what $(cat "$folder/$name" 2>/dev/null)" in
    end*) echo "ckwatch: $number 9 0.1 10" >&2;;
    grow*) case "$(cat "$folder")" in
        *mistaken*) echo "ckwatch: $number 256 0.1 10" >&2;;
        *long*) touch "$0.long";;
        *talkative*) echo "/a.h:1:2: warning: so so
ckwatch: ready" >&2;;
        *) echo "$0.grown.h" >> headers.txt; echo 'ckwatch: ready' >&2;;
        esac;;
    *refuses*) echo "ckwatch: $number 768 0.1 10" >&2;;
    *errs*) echo "ckwatch: $number says kernel.hip:1:2: error: $side
ckwatch: $number 768 0.1 10" >&2;;
    *hangs*) touch "$0.hangs";;
    *crashes*) echo "ckwatch: $number 139 0.1 10" >&2;;
    *ends*) exit;;
    *)
        case "$(cat "$folder/$name")" in
        *warns*) echo "kernel.hip:1:2: warning: $side" > "$folder/$side.txt";;
        *) : > "$folder/$side.txt";;
        esac
        echo "$0.more.h" > "$folder/$side-headers.txt"; cp "$0.$side.o" "$folder/$side.o"
        echo "ckwatch: $number 0 0.5 2048" >&2;;
    esac
done
"""


EDITED = WARM.replace("return 1", "return 2")


def running(store: ArtifactStore) -> int:
    """How many clangs are kept: each writes a list of headers, in the store's folder as long as it lives."""
    return sum("headers.txt" in files for _, _, files in os.walk(store.folder / "runs"))


class Kept:
    """A compiler in parts, and clangs that it keeps."""

    def __init__(self, folder: Path, store: ArtifactStore) -> None:
        self.hip: FakeHip = fake_hip(folder / "hip ü")
        self.program = folder / "clang ü"
        self.program.write_text(CLANG)
        self.program.chmod(0o755)
        self.header, self.grown, self.more = (Path(f"{self.program}{end}") for end in (".h", ".grown.h", ".more.h"))
        for header in (self.header, self.grown, self.more):
            header.write_text("int a;\n")
        for side, content in ((PassSide.HOST, HOST_OBJECT), (PassSide.DEVICE, b"")):
            Path(f"{self.program}.{side}.o").write_bytes(content)
        self.hip.answer(Step.ASK, PRINTED.replace('/rocm/lib/llvm-22/bin/clang" "-cc1', f'{self.program}" "-cc1'))
        self.store = store
        self.ladder = StagedCompiler(self.hip.toolchain, store, self.hip)
        self.has_headers = True
        self.free_bytes = FREE_BYTES
        self.ladder.warming.kept = KeptClangs(
            self.hip.toolchain, store, self.hip, self._headers, lambda: self.free_bytes
        )

    def _headers(self, _toolchain: CompilerToolchain) -> Path | None:
        return self.program.parent if self.has_headers else None

    async def keep(self, asked: CompileRequest, living: TaskGroup, *flags: str) -> bool:
        """Let one parse a source, for passes with more flags."""
        plan, passes = await self.plans(asked, flags)
        return await self.ladder.warming.keep(asked, plan, passes, living)

    async def found(self, asked: CompileRequest, *flags: str, side: PassSide = PassSide.DEVICE) -> KeptClang | None:
        """The one that compiles a source, with more flags."""
        plan, passes = await self.plans(asked, flags)
        return self.ladder.warming.find_kept(asked, side, plan, passes)

    async def plans(self, asked: CompileRequest, flags: tuple[str, ...]) -> tuple[CompilePlan, CompilePlan]:
        """By which headers are made, and passes with more flags."""
        plan = await self.ladder.plan(asked)
        assert plan is not None
        return plan, replace(plan, device=(*plan.device, *flags), host=(*plan.host, *flags))

    @asynccontextmanager
    async def one(self) -> AsyncIterator[KeptClang]:
        """One that has parsed the source `WARM`; at the end nothing of it is left."""
        async with anyio.create_task_group() as tasks:
            assert await self.keep(request(WARM), tasks)
            one = await self.found(request(WARM))
            assert one is not None
            clang = one
            yield clang
            tasks.cancel_scope.cancel()
        assert not group_runs(clang.process.pid)
        assert not clang.folder.exists()

    async def compile(self, source: str, on_event: OnBuildEvent = ignore) -> tuple[CompileOutcome, int]:
        """The outcome, and how many plain passes were run for it, of each side."""
        before = [len(self.hip.runs_of(step)) for step in PASS_OF.values()]
        options = BuildOptions(force=True)
        outcome = await self.ladder.compile(request(source), self.store.work_folder(), options, on_event)
        host, device = (len(self.hip.runs_of(step)) - was for step, was in zip(PASS_OF.values(), before, strict=True))
        assert host == device
        return outcome, device


@pytest.fixture
def kept(tmp_path: Path, store: ArtifactStore) -> Kept:
    return Kept(tmp_path, store)


async def until(so: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not so():  # noqa: ASYNC110  # it sets no event
            await anyio.sleep(0.001)


def lines_of(said: list[tuple[PassSide | None, str]]) -> OnBuildEvent:
    """Note all lines that are handed on, and the passes that they are of."""

    def hear(event: BuildEvent) -> None:
        if isinstance(event, CompilerLine):
            said.append((event.side, event.line))

    return hear


async def until_ended(clang: KeptClang) -> None:
    await until(lambda: clang.has_ended)


async def test_an_edit(kept: Kept) -> None:
    async with kept.one():
        for edit in ("+ 1", "+ 2"):
            outcome, passes = await kept.compile(WARM.replace("return 1", f"return 1 {edit}"))
            assert (outcome.status, outcome.log, passes) == (CompileStatus.OK, "", 0)
            assert {str(kept.header), str(kept.grown), str(kept.more)} == {*outcome.headers}
            assert 2048 * 1024 in [command.peak_memory_bytes for command in outcome.commands]
            assert not any("-load" in command.arguments for command in outcome.commands)


async def test_a_fork_warns(kept: Kept) -> None:
    said: list[tuple[PassSide | None, str]] = []
    async with kept.one():
        outcome, passes = await kept.compile(WARM.replace("1", "1 /* warns */"), lines_of(said))
        warnings = [f"kernel.hip:1:2: warning: {side}" for side in (PassSide.HOST, PassSide.DEVICE)]
        assert (outcome.status, outcome.log.splitlines(), passes) == (CompileStatus.OK, warnings, 0)
        assert sorted(line for _, line in said) == sorted(warnings)


@pytest.mark.parametrize("what", ["refuses", "crashes", "__BASE_FILE__"])
async def test_a_plain_pass_takes_the_place_of_a_fork(kept: Kept, what: str) -> None:
    async with kept.one() as clang:
        kept.hip.answer(Step.DEVICE, "kernel.hip:1:2: warning: hm\n")
        outcome, passes = await kept.compile(WARM.replace("1", f"1 /* {what} */"))
        assert (outcome.status, outcome.log, passes) == (CompileStatus.OK, "kernel.hip:1:2: warning: hm\n", 1)
        assert (await kept.compile(WARM))[1] == 0
        assert not clang.has_ended


async def test_the_first_error_of_a_fork_is_reported_before_that_of_the_pass(kept: Kept) -> None:
    said: list[tuple[PassSide | None, str]] = []
    async with kept.one():
        kept.hip.answer(Step.HOST, "kernel.hip:1:2: error: host\nkernel.hip:2:2: error: more\n", 1)
        kept.hip.answer(Step.DEVICE, "kernel.hip:1:2: error: device\n", 1)
        outcome, passes = await kept.compile(WARM.replace("1", "1 /* errs */"), lines_of(said))
        assert (outcome.status, passes) == (CompileStatus.FAILED, 1)
        assert outcome.log.count("error: ") == 3
        for side in PassSide:
            lines = [line for of, line in said if of is side]
            assert lines[:1] == [f"kernel.hip:1:2: error: {side}"]


async def test_one_that_ends(kept: Kept) -> None:
    async with kept.one() as clang:
        outcome, passes = await kept.compile(WARM.replace("1", "1 /* ends */"))
        assert (outcome.status, passes) == (CompileStatus.OK, 1)
        await until_ended(clang)
        assert (await kept.compile(WARM.replace("1", "1 /* ends */")))[1] == 1
        assert (await kept.compile(WARM))[1] == 1


async def test_a_cancelled_compile_ends_its_fork(kept: Kept) -> None:
    async with kept.one():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept.compile, WARM.replace("1", "1 /* hangs */"))
            await until(Path(f"{kept.program}.hangs").exists)
            assert (await kept.compile(WARM))[1] == 0  # by another, meanwhile
            tasks.cancel_scope.cancel()
        assert (await kept.compile(WARM))[1] == 0


async def test_it_grows(kept: Kept) -> None:
    async with kept.one() as clang, anyio.create_task_group() as tasks:
        assert not await kept.keep(request(WARM), tasks)
        host = "#if !defined(__HIP_DEVICE_COMPILE__)\nint host = 1;\n#endif\n"
        assert await kept.keep(request(EDITED + host), tasks)
        assert not await kept.keep(request(EDITED + host.replace("= 1", "= 2")), tasks)
        assert await kept.found(request(EDITED)) is clang
        assert len(clang.texts) == 4


async def test_it_begins_again_with_the_last_of_each_family(kept: Kept) -> None:
    other = WARM.replace("v3", "v4").replace("return 1", "return 4")
    async with kept.one() as clang, anyio.create_task_group() as tasks:
        for source in (other, *(WARM.replace("return 1", f"return {10 + each}") for each in range(TEXTS_KEPT - 1))):
            assert await kept.found(request(WARM)) is clang
            assert await kept.keep(request(source), tasks)
        again = await kept.found(request(WARM))
        assert again is not None
        assert (len(again.texts), again is clang) == (3, False)
        assert (await kept.compile(other))[1] == 0
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("what", ["mistaken", "long"])
async def test_what_it_had_parsed_stays(kept: Kept, what: str) -> None:
    """Also if it cannot parse another text, or is cancelled."""
    async with kept.one() as clang:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept.keep, request(EDITED.replace("2", f"2 /* {what} */")), tasks)
            if what == "long":
                await until(Path(f"{kept.program}.long").exists)
                tasks.cancel_scope.cancel()
        assert (await kept.compile(EDITED))[1] == 0
        assert len(clang.texts) == 2


async def test_other_families_do_without_it(kept: Kept) -> None:
    async with kept.one():
        assert (await kept.compile(WARM.replace("v3", "v4")))[1] == 1


async def test_a_header_that_changes_ends_it(kept: Kept) -> None:
    async with kept.one() as clang:
        kept.header.write_text("int b;\n")
        assert (await kept.compile(WARM))[1] == 1
        await until_ended(clang)


async def test_it_ends_where_memory_is_scarce(kept: Kept) -> None:
    """But for one that compiles."""
    async with kept.one() as clang:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept.compile, WARM.replace("1", "1 /* hangs */"))
            await until(Path(f"{kept.program}.hangs").exists)
            kept.free_bytes = SCARCE_BYTES - 1
            assert await kept.found(request(WARM)) is None
            kept.free_bytes = SCARCE_BYTES
            assert await kept.found(request(WARM)) is clang
            tasks.cancel_scope.cancel()
        kept.free_bytes = SCARCE_BYTES - 1
        assert (await kept.compile(WARM))[1] == 1
        await until_ended(clang)


async def test_other_flags_do_without_it(kept: Kept) -> None:
    async with kept.one() as clang:
        assert await kept.found(request(WARM)) is clang
        assert await kept.found(request(WARM), "-g") is None


@pytest.mark.parametrize("what", ["mistaken", "talkative", "no guard", "no headers", "no plugin", "no memory"])
async def test_none_is_kept(kept: Kept, what: str) -> None:
    kept.has_headers = what != "no headers"
    kept.free_bytes -= what == "no memory"
    if what == "no guard":
        listing = 'echo "$0.h" > headers.txt'
        assert listing in kept.program.read_text()
        kept.program.write_text(kept.program.read_text().replace(listing, f"{listing}; {listing.replace('>', '>>')}"))
    if what == "no plugin":
        kept.hip.answer(Step.LINK, "error: no member named 'getSema'\n", 1)
    asked = request(WARM.replace("1", f"1 /* {what} */").replace("<a.h>", f'"{kept.header.name}"'))
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            assert not await kept.keep(asked, tasks)
            assert await kept.found(asked) is None
        assert running(kept.store) <= 2
        tasks.cancel_scope.cancel()
    if what == "no plugin":
        compiled = kept.hip.runs_of(Step.LINK)
        assert [PUBLIC_ONLY in run.arguments for run in compiled] == [False, True]


async def test_few_are_kept(kept: Kept) -> None:
    found = []
    async with anyio.create_task_group() as tasks:
        for number in range(CLANGS_KEPT // len(PassSide) + 1):
            assert await kept.keep(request(WARM), tasks, f"-DN={number}")
            clang = await kept.found(request(WARM), f"-DN={number}")
            assert clang is not None
            found.append(clang)
        await until_ended(found[0])
        assert not any(clang.has_ended for clang in found[1:])
        tasks.cancel_scope.cancel()
    assert len(kept.hip.runs_of(Step.LINK)) == 1  # the plugin, which the store has


@pytest.mark.parametrize("replaced", [False, True])
async def test_what_is_edited_is_kept_in_place_of_a_header(kept: Kept, replaced: bool) -> None:
    """As long as the daemon lives, and has this compiler."""
    ladders: list[StagedCompiler | None] = [kept.ladder]
    background = BackgroundPch(lambda: False, idle_s=0.004)
    clangs = kept.ladder.warming.kept
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(background.run)
        for source in (WARM, EDITED):
            background.note(request(source), "k/one@gfx942", lambda: ladders[-1], built=True, compiled=True)
            await until(lambda: not background.pending)
        assert (len(kept.hip.runs_of(Step.HOST_HEADER)), len(kept.hip.runs_of(Step.DEVICE_HEADER))) == (1, 1)
        assert (await kept.compile(EDITED))[1] == 0
        assert running(kept.store) == 2
        if replaced:
            ladders.append(None)
            background.note(request(WARM), "k/two@gfx942", lambda: ladders[-1], built=True, compiled=True)
            await until(lambda: not clangs and not running(kept.store))
        tasks.cancel_scope.cancel()
    assert not running(kept.store)


@pytest.mark.parametrize("jobs", [1, 16])
@pytest.mark.parametrize("count", [ALONE, ALONE + 1])
async def test_of_many_that_are_edited_together_one_of_a_family_is_parsed(kept: Kept, count: int, jobs: int) -> None:
    sources = [WARM.replace("return 1", f"return {number}") for number in range(count)]
    background = BackgroundPch(lambda: busy, lambda: jobs, idle_s=0.004)
    busy = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(background.run)
        for _ in range(2):
            for number, source in enumerate(sources):
                background.note(request(source), f"k/{number}@gfx942", lambda: kept.ladder, built=True, compiled=True)
        busy = False
        await until(lambda: not background.pending)
        clang = await kept.found(request(sources[-1]))
        assert clang is not None
        # the includes, and the texts
        assert len(clang.texts) == 1 + (count if count <= ALONE else 1)
        for source in sources:
            assert (await kept.compile(source))[1] == 0
        assert len(kept.hip.runs_of(Step.DEVICE_HEADER)) == 1
        tasks.cancel_scope.cancel()


async def test_one_that_has_not_begun_makes_way_for_a_compile(kept: Kept) -> None:
    """It begins again when there is none."""
    begun, waiting = Path(f"{kept.program}.long"), [True]
    background = BackgroundPch(lambda: waiting[0] and begun.exists(), idle_s=0.004)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(background.run)
        for source in (WARM, EDITED.replace("return", "/* long */ return")):
            background.note(request(source), "k/one@gfx942", lambda: kept.ladder, built=True, compiled=True)
            await until(lambda: not background.pending or begun.exists())
        clang = await kept.found(request(WARM))
        assert clang is None  # it has parsed the includes alone
        await anyio.Path(begun).unlink()
        waiting.clear()
        waiting.append(False)
        await until(begun.exists)
        tasks.cancel_scope.cancel()
    assert not running(kept.store)
