"""A clang that is kept: which compiles it makes, and when it ends. Its place is taken by a script, hipcc's by none."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from ckwatch.compile.background_pch import BackgroundPch
from ckwatch.compile.build_events import BuildOptions
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.kept_clang import CLANGS_KEPT, FREE_BYTES, SOURCE_NAME, KeptClang, KeptClangs
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain, CompileStatus
from ckwatch.compile.staged_build import StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.system.processes import group_runs
from fakes.fake_hip import PRINTED, WARM, FakeHip, Step, fake_hip, request
from fakes.patience import PATIENCE_S

CLANG = r"""#!/bin/sh
echo "$0.h" > headers.txt
case "$(cat prefix.hip)" in *mistaken*) exit 1;; *long*) touch "$0.long"; read -r _; exit;; *talkative*) echo "/a.h:1:2: warning: so so" >&2;; esac
echo 'ckwatch: ready' >&2
while IFS='	' read -r folder name id limit; do
    [ -z "$folder" ] && continue
    case "$(cat "$folder/$name")" in
    *warns*) echo 'kernel.hip:1:2: warning: hm' >&2; read -r _; echo 'ckwatch: 9 0.1 10' >&2;;
    *hangs*) touch "$0.hangs"; read -r _ || exit; echo 'ckwatch: 9 0.1 10' >&2;;
    *crashes*) echo 'ckwatch: 139 0.1 10' >&2;;
    *ends*) exit;;
    *) echo "$0.more.h" >> headers.txt; printf "$id" > "$folder/device.o"; echo 'ckwatch: 0 0.5 2048' >&2;;
    esac
done
"""


EDITED = WARM.replace("return 1", "return 2")
RUNNING = f"runs/**/{SOURCE_NAME}"
"""The text of a clang that is kept, in the store's folder as long as it lives."""


class Kept:
    """A compiler in parts, and clangs that it keeps."""

    def __init__(self, folder: Path, store: ArtifactStore) -> None:
        self.hip: FakeHip = fake_hip(folder / "hip ü")
        self.program = folder / "clang ü"
        self.program.write_text(CLANG)
        self.program.chmod(0o755)
        self.header, self.more = (Path(f"{self.program}{end}") for end in (".h", ".more.h"))
        for header in (self.header, self.more):
            header.write_text("int a;\n")
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

    async def start(self, asked: CompileRequest) -> KeptClang | None:
        """Keep one that has parsed a source."""
        plan = await self.ladder.plan(asked)
        assert plan is not None
        warming = self.ladder.warming
        warming.built(asked, plan, edited=True)
        best = warming.candidates(asked, PassSide.DEVICE, plan)[0]
        return await warming.keep(best, asked, plan)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[KeptClang]:
        """One that has parsed the source `WARM`; at the end nothing of it is left."""
        found = await self.start(request(WARM))
        assert found is not None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(found.live)
            yield found
            tasks.cancel_scope.cancel()
        assert not group_runs(found.process.pid)
        assert not found.folder.exists()

    async def compile(self, source: str) -> tuple[CompileOutcome, int]:
        """The outcome, and how many device passes were run for it."""
        before = len(self.hip.runs_of(Step.DEVICE))
        outcome = await self.ladder.compile(request(source), self.store.work_folder(), BuildOptions(force=True))
        return outcome, len(self.hip.runs_of(Step.DEVICE)) - before


@pytest.fixture
def kept(tmp_path: Path, store: ArtifactStore) -> Kept:
    return Kept(tmp_path, store)


async def until(so: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not so():  # noqa: ASYNC110  # it sets no event
            await anyio.sleep(0.001)


async def until_ended(clang: KeptClang) -> None:
    await until(lambda: clang.has_ended)


async def test_an_edit(kept: Kept) -> None:
    async with kept.one():
        for edit in ("+ 1", "+ 2"):
            outcome, passes = await kept.compile(WARM.replace("return 1", f"return 1 {edit}"))
            assert (outcome.status, outcome.log, passes) == (CompileStatus.OK, "", 0)
            assert {str(kept.header), str(kept.more)} < {*outcome.headers}
            assert 2048 * 1024 in [command.peak_memory_bytes for command in outcome.commands]
            assert not any("-load" in command.arguments for command in outcome.commands)


@pytest.mark.parametrize("what", ["warns", "crashes", "__BASE_FILE__"])
async def test_a_plain_pass_repeats_what_a_fork_says(kept: Kept, what: str) -> None:
    async with kept.one() as clang:
        kept.hip.answer(Step.DEVICE, "kernel.hip:1:2: warning: hm\n")
        outcome, passes = await kept.compile(WARM.replace("1", f"1 /* {what} */"))
        assert (outcome.status, outcome.log, passes) == (CompileStatus.OK, "kernel.hip:1:2: warning: hm\n", 1)
        assert (await kept.compile(WARM))[1] == 0
        assert not clang.has_ended


async def test_one_that_ends(kept: Kept) -> None:
    async with kept.one() as clang:
        outcome, passes = await kept.compile(WARM.replace("1", "1 /* ends */"))
        assert (outcome.status, passes) == (CompileStatus.OK, 1)
        await until_ended(clang)
        assert (await kept.compile(WARM))[1] == 1


async def test_a_cancelled_compile_ends_its_fork(kept: Kept) -> None:
    async with kept.one():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kept.compile, WARM.replace("1", "1 /* hangs */"))
            await until(Path(f"{kept.program}.hangs").exists)
            # The next one meanwhile has a pass of its own.
            assert (await kept.compile(WARM))[1] == 1
            tasks.cancel_scope.cancel()
        assert (await kept.compile(WARM))[1] == 0


async def test_a_header_that_changes_ends_it(kept: Kept) -> None:
    async with kept.one() as clang:
        kept.header.write_text("int b;\n")
        assert (await kept.compile(WARM))[1] == 1
        await until_ended(clang)


async def test_other_flags_do_without_it(kept: Kept) -> None:
    async with kept.one() as clang:
        asked = request(WARM)
        plan = await kept.ladder.plan(asked)
        assert plan is not None
        key = kept.ladder.warming.candidates(asked, PassSide.DEVICE, plan)[0].key
        assert kept.ladder.warming.kept.find(key, plan.device) is clang
        assert kept.ladder.warming.kept.find(key, (*plan.device, "-g")) is None


@pytest.mark.parametrize("what", ["mistaken", "talkative", "no headers", "no plugin", "no memory"])
async def test_none_is_kept(kept: Kept, what: str) -> None:
    kept.has_headers = what != "no headers"
    kept.free_bytes -= what == "no memory"
    if what == "no plugin":
        kept.hip.answer(Step.LINK, "error: no member named 'getSema'\n", 1)
    assert await kept.start(request(WARM.replace("1", f"1 /* {what} */"))) is None
    assert not kept.ladder.warming.kept


async def test_few_are_kept(kept: Kept) -> None:
    found = []
    async with anyio.create_task_group() as tasks:
        for number in range(CLANGS_KEPT + 1):
            clang = await kept.start(request(WARM.replace("1", f"1{number}")))
            assert clang is not None
            found.append(clang)
            tasks.start_soon(clang.live)
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
        assert (len(kept.hip.runs_of(Step.HOST_HEADER)), len(kept.hip.runs_of(Step.DEVICE_HEADER))) == (2, 1)
        assert (await kept.compile(EDITED))[1] == 0
        assert len([*kept.store.folder.glob(RUNNING)]) == 1
        if replaced:
            ladders.append(None)
            background.note(request(WARM), "k/two@gfx942", lambda: ladders[-1], built=True, compiled=True)
            await until(lambda: not clangs and not any(kept.store.folder.glob(RUNNING)))
        tasks.cancel_scope.cancel()
    assert not [*kept.store.folder.glob(RUNNING)]


async def test_one_that_has_not_begun_makes_way_for_a_compile(kept: Kept) -> None:
    """A header is made in its place, which takes what a compile leaves."""
    begun = Path(f"{kept.program}.long")
    background = BackgroundPch(begun.exists, idle_s=0.004)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(background.run)
        for source in (WARM, EDITED.replace("return", "/* long */ return")):
            background.note(request(source), "k/one@gfx942", lambda: kept.ladder, built=True, compiled=True)
            await until(lambda: not background.pending or begun.exists())
        await until(lambda: len(kept.hip.runs_of(Step.DEVICE_HEADER)) == 2)
        await anyio.Path(begun).unlink()
        await until(lambda: not background.pending)
        assert not kept.ladder.warming.kept
        tasks.cancel_scope.cancel()
    assert not [*kept.store.folder.glob(RUNNING)]
