"""A compile in its parts: what runs, in which order, and what comes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from ckwatch.compile.build_events import BuildEvent, BuildOptions, CompilerLine, OnBuildEvent, OnePassLeft, ignore
from ckwatch.compile.driver_plan import PassSide
from ckwatch.compile.request import CompileFault, CompileOutcome, CompileRequest, CompileStatus
from ckwatch.compile.staged_build import HEADERS_WORTH, StagedCompiler
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import ProductKind
from ckwatch.compile.work_folder import remove_work_folder
from ckwatch.model.errors import ToolchainError
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import ExitReason
from fakes.fake_compiler import DEVICE_CODE, OBJECT
from fakes.fake_hip import (
    HEADER_OF,
    HOST_OBJECT,
    PASS_OF,
    PLAIN_OBJECT,
    PRINTED,
    SHARED_OBJECT,
    SYMBOL,
    WARM,
    FakeHip,
    Run,
    Step,
    fake_hip,
    request,
)
from fakes.patience import PATIENCE_S

REST = [Step.DEVICE_LINK, Step.BUNDLE, Step.EMBED, Step.LINK]


@pytest.fixture
def hip(tmp_path: Path) -> FakeHip:
    return fake_hip(tmp_path)


@pytest.fixture
def ladder(hip: FakeHip, store: ArtifactStore) -> StagedCompiler:
    return StagedCompiler(hip.toolchain, store, hip)


async def compiled(
    ladder: StagedCompiler,
    store: ArtifactStore,
    asked: CompileRequest | None = None,
    *,
    on_event: OnBuildEvent = ignore,
    **how: Any,
) -> CompileOutcome:
    return await ladder.compile(asked or request(), store.work_folder(), BuildOptions(**how), on_event)


def narrowing(steps: list[list[Step]], hip: FakeHip) -> OnBuildEvent:
    """Notes what has been run when one pass is left."""
    return lambda event: steps.append(hip.steps) if event == OnePassLeft() else None


async def precompiled(ladder: StagedCompiler, asked: CompileRequest | None = None) -> None:
    """Make all headers that are lacking."""
    asked = asked or request()
    plan = await ladder.plan(asked)
    assert plan is not None
    for wanted in ladder.warming.lacking(asked, plan):
        assert await ladder.warming.make(wanted, asked, plan)


async def test_what_runs_and_what_comes_of_it(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    for side in PassSide:
        hip.answer(PASS_OF[side], f"kernel.hip:1:2: warning: by the {side}\n")
    outcome = await compiled(ladder, store)
    assert (outcome.status, outcome.fault, outcome.exports) == (CompileStatus.OK, None, (SYMBOL, "std"))
    assert hip.steps[0] is Step.ASK
    assert set(hip.steps[1:3]) == {Step.HOST, Step.DEVICE}
    assert hip.steps[3:] == REST
    assert outcome.log == "".join(f"kernel.hip:1:2: warning: by the {side}\n" for side in ("host", "device"))
    assert [Path(header).name for header in outcome.headers] == ["a.h", "device.h", "host.h"]
    assert {kind: path.name for kind, path in outcome.files.items()} == {
        ProductKind.OBJECT: "kernel.o",
        ProductKind.SHARED_OBJECT: "kernel.so",
        ProductKind.CODE_OBJECT: "kernel.gfx942.hsaco",
        ProductKind.DEPENDENCIES: "kernel.d",
    }
    contents = {kind: path.read_bytes() for kind, path in outcome.files.items()}
    assert contents[ProductKind.CODE_OBJECT] == DEVICE_CODE
    assert (contents[ProductKind.OBJECT], contents[ProductKind.SHARED_OBJECT]) == (OBJECT, SHARED_OBJECT)
    assert all(name in contents[ProductKind.DEPENDENCIES].decode() for name in ("a.h", "device.h", "host.h"))
    assert len(outcome.commands) == 6
    assert all(command.begun_s is not None for command in outcome.commands)


async def test_what_each_program_is_given(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    outcome = await compiled(ladder, store)
    folder = outcome.files[ProductKind.OBJECT].parent
    link, bundle, embed = (hip.runs_of(step)[0] for step in REST[:3])
    assert "device.o" in link.arguments
    assert f"-input={link.output.name}" in bundle.arguments
    assert {"-r", "-nostdlib", "host.o", "bundle.s"} <= set(embed.arguments)
    assembly = (folder / "bundle.s").read_text()
    assert f'.incbin "{bundle.output.name}"' in assembly
    assert "__hip_fatbin_821d557832973ff6:\n" in assembly
    assert '.section .hip_fatbin,"a",@progbits' in assembly
    ids = {part for side in PassSide for part in hip.runs_of(PASS_OF[side])[0].arguments if part.startswith("-cuid=")}
    assert len(ids) == 1
    for run in hip.runs[1:]:
        assert run.folder == folder


async def test_hipcc_is_asked_once_for_all_sources_of_the_same_flags(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore
) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(compiled, ladder, store, request(f"int {SYMBOL}() {{ return {number}; }}\n"))
    assert len(hip.runs_of(Step.ASK)) == 1
    await compiled(ladder, store, request(flags=("-O1",)))
    await compiled(ladder, store, request(arch="gfx90a"))
    assert len(hip.runs_of(Step.ASK)) == 3
    assert all(not run.folder.exists() for run in hip.runs_of(Step.ASK))


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("", "0 programs"),
        (PRINTED.replace('"-O3"', '"-O3" "-fgpu-rdc"', 1), "more files"),
        (PRINTED.replace('"-flavor"', '"-flavour"'), "unknown program"),
    ],
)
async def test_one_call_of_hipcc_where_its_commands_are_others(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, printed: str, reason: str
) -> None:
    hip.answer(Step.ASK, printed)
    hip.answer(Step.WHOLE, "kernel.hip:1:2: warning: by both\n")
    told: list[BuildEvent] = []
    outcome = await compiled(ladder, store, on_event=told.append, waiting=99)
    assert (outcome.status, hip.steps) == (CompileStatus.OK, [Step.ASK, Step.WHOLE, Step.LINK])
    assert told == [OnePassLeft(), CompilerLine(None, "kernel.hip:1:2: warning: by both")]
    assert ladder.no_plan is not None
    assert reason in ladder.no_plan
    assert await ladder.check(request(), store.work_folder(), ignore) is None


@pytest.mark.parametrize(
    ("said", "exit_status", "exit_reason"),
    [
        ("clang: error: unknown argument: '-fno-such'\n", 1, ExitReason.EXITED),
        ("", -9, ExitReason.SIGNALLED),
        ("", -15, ExitReason.TIMED_OUT),
    ],
)
async def test_hipcc_that_cannot_tell_is_asked_again(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, said: str, exit_status: int, exit_reason: ExitReason
) -> None:
    """One call tells what is wrong; nothing is known yet of how compiles go here."""
    hip.answer(Step.ASK, said, exit_status, exit_reason=exit_reason)
    await compiled(ladder, store)
    assert (hip.steps, ladder.no_plan) == ([Step.ASK, Step.WHOLE, Step.LINK], None)
    hip.answer(Step.ASK, PRINTED)
    await compiled(ladder, store)
    assert hip.steps[-len(REST) :] == REST


async def test_a_host_source_is_compiled_by_one_call(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore
) -> None:
    outcome = await compiled(ladder, store, request(language=Language.CPP, arch="host"))
    assert (outcome.status, hip.steps, ladder.no_plan) == (CompileStatus.OK, [Step.WHOLE, Step.LINK], None)


async def test_a_source_without_a_kernel(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    hip.answer(Step.HOST, content=PLAIN_OBJECT)
    outcome = await compiled(ladder, store)
    assert (outcome.status, hip.steps[3:]) == (CompileStatus.OK, [Step.LINK])
    assert ProductKind.CODE_OBJECT not in outcome.files
    assert outcome.files[ProductKind.OBJECT].read_bytes() == PLAIN_OBJECT


@pytest.mark.parametrize("damaged", [b"", HOST_OBJECT[:100]])
async def test_a_damaged_host_object(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, damaged: bytes
) -> None:
    hip.answer(Step.HOST, content=damaged)
    outcome = await compiled(ladder, store)
    assert (outcome.status, outcome.fault) == (CompileStatus.TRANSIENT, CompileFault.HOST)


@pytest.mark.parametrize("step", REST)
@pytest.mark.parametrize(
    ("said", "exit_status", "exit_reason", "status"),
    [
        ("lld: error: undefined symbol: x\n", 1, ExitReason.EXITED, CompileStatus.FAILED),
        ("", -9, ExitReason.SIGNALLED, CompileStatus.TRANSIENT),
        ("", 1, ExitReason.EXITED, CompileStatus.TRANSIENT),
    ],
)
async def test_a_later_program_that_fails(
    ladder: StagedCompiler,
    hip: FakeHip,
    store: ArtifactStore,
    step: Step,
    said: str,
    exit_status: int,
    exit_reason: ExitReason,
    status: CompileStatus,
) -> None:
    hip.answer(Step.HOST, "kernel.hip:1:2: warning: w\n")
    hip.answer(step, said, exit_status, exit_reason=exit_reason)
    outcome = await compiled(ladder, store)
    assert (outcome.status, outcome.log) == (status, f"kernel.hip:1:2: warning: w\n{said}")
    assert hip.steps[-1] is step
    assert [Path(header).name for header in outcome.headers] == ["a.h", "device.h", "host.h"]


@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("wrong", [(PassSide.HOST,), (PassSide.DEVICE,), (PassSide.HOST, PassSide.DEVICE)])
async def test_errors_of_each_pass(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, side_by_side: bool, wrong: tuple[PassSide, ...]
) -> None:
    """Both are run to their ends, for all that is wrong to be told."""
    for side in wrong:
        hip.answer(PASS_OF[side], f"kernel.hip:1:1: error: {side}\n", 1)
    told: list[BuildEvent] = []
    outcome = await compiled(ladder, store, side_by_side=side_by_side, on_event=told.append)
    assert outcome.status is CompileStatus.FAILED
    assert outcome.log == "".join(f"kernel.hip:1:1: error: {side}\n" for side in wrong)
    said = [(event.side, event.line) for event in told if isinstance(event, CompilerLine)]
    assert sorted(said) == sorted((side, f"kernel.hip:1:1: error: {side}") for side in wrong)
    assert len(hip.steps) == 3


async def test_both_passes_at_a_time(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    """Each waits for the other here: one after the other they would never end."""
    device_begun, host_ended = anyio.Event(), anyio.Event()

    async def during_device(_: Run) -> None:
        device_begun.set()
        await host_ended.wait()

    hip.answer(Step.HOST, during=lambda _: device_begun.wait())
    hip.answer(Step.DEVICE, during=during_device)
    with anyio.fail_after(PATIENCE_S):
        outcome = await compiled(
            ladder, store, on_event=lambda event: host_ended.set() if event == OnePassLeft() else None
        )
    assert (outcome.status, hip.together) == (CompileStatus.OK, 2)


async def test_one_pass_at_a_time(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    narrow: list[list[Step]] = []
    outcome = await compiled(ladder, store, side_by_side=False, on_event=narrowing(narrow, hip))
    assert (outcome.status, hip.together) == (CompileStatus.OK, 1)
    assert narrow == [[Step.ASK, Step.HOST]]


@pytest.mark.parametrize("missing", [[Step.HOST], [Step.DEVICE], [Step.HOST, Step.DEVICE], [Step.LINK], [Step.ASK]])
async def test_a_program_that_cannot_be_started(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, missing: list[Step]
) -> None:
    async def cannot(_: Run) -> None:
        raise ToolchainError("cannot start clang")

    for step in missing:
        hip.answer(step, during=cannot)
    with pytest.raises(ToolchainError, match="cannot start clang"):
        await compiled(ladder, store)
    assert hip.running == []


async def test_headers_that_are_there_are_used(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    await precompiled(ladder)
    outcome = await compiled(ladder, store)
    assert outcome.status is CompileStatus.OK
    assert [Path(header).name for header in outcome.headers] == ["a.h", "device.h", "host.h"]
    used = {step: hip.runs_of(step)[0].precompiled for step in PASS_OF.values()}
    made = {Path(run.arguments[-1]).with_name("header.pch") for step in HEADER_OF.values() for run in hip.runs_of(step)}
    assert {Path(path or "") for path in used.values()} == made
    assert len(made) == 2


async def test_none_is_used_where_none_is_wanted(hip: FakeHip, store: ArtifactStore) -> None:
    on = True
    ladder = StagedCompiler(hip.toolchain, store, hip, precompile=lambda: on)
    await precompiled(ladder)
    on = False
    await compiled(ladder, store, request(WARM), waiting=99)
    assert [run.precompiled for run in hip.runs if run.step in PASS_OF.values()] == [None, None]
    assert len(hip.runs_of(Step.HOST_HEADER)) == 1
    assert not (store.folder / "representatives").exists()


@pytest.mark.parametrize(("waiting", "made"), [(0, 0), (HEADERS_WORTH - 1, 0), (HEADERS_WORTH, 2), (99, 2)])
@pytest.mark.parametrize("built", [False, True])
async def test_includes_are_precompiled_first_when_many_wait(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, waiting: int, made: int, built: bool
) -> None:
    asked = request(WARM)
    if built:  # a warm header could be made; that takes too long for those who wait
        await compiled(ladder, store, asked)
        hip.runs.clear()
    outcome = await compiled(ladder, store, asked, waiting=waiting)
    assert outcome.status is CompileStatus.OK
    sources = [run.text for step in HEADER_OF.values() for run in hip.runs_of(step)]
    assert len(sources) == made
    assert not any("_warm_up" in source for source in sources)
    assert all((run.precompiled is not None) is (made > 0) for run in hip.runs_of(Step.DEVICE))
    await compiled(ladder, store, asked, waiting=waiting)
    assert len([run for step in HEADER_OF.values() for run in hip.runs_of(step)]) == made, "they are there"


async def test_what_is_built_represents_its_family_what_fails_does_not(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore
) -> None:
    plan = await ladder.plan(request(WARM))
    assert plan is not None
    hip.answer(Step.HOST, "kernel.hip:1:1: error: no\n", 1)
    await compiled(ladder, store, request(WARM))
    assert len(ladder.warming.candidates(request(WARM), PassSide.HOST, plan)) == 1
    hip.answer(Step.HOST)
    await compiled(ladder, store, request(WARM))
    assert len(ladder.warming.candidates(request(WARM), PassSide.HOST, plan)) == 2


@pytest.mark.parametrize(
    ("complaint", "refused"),
    [
        ("error: PCH file '{header}' is of another version", True),
        ("fatal error: malformed or corrupted precompiled file: '{header}'", True),
        ("error: unknown argument: '-fno-cxx-modules'", True),
        ("fatal error: file 'a.h' has been modified since the precompiled file '{header}' was built", False),
        ("error: unable to read PCH file {header}: 'No such file or directory' [AST Deserialization Issue]", False),
        (
            "warning: unknown option\nfatal error: file 'a.h' has been modified since the precompiled file '{header}' was built",
            False,
        ),
        ("error: PCH file '{header}' not found: module file not found", False),
    ],
)
async def test_a_compiler_that_does_not_take_them(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore, complaint: str, refused: bool
) -> None:
    """The pass is repeated without, and says nothing of it."""
    await precompiled(ladder)
    hip.refuse = f"{complaint}\n"
    hip.runs.clear()
    outcome = await compiled(ladder, store)
    assert (outcome.status, outcome.log) == (CompileStatus.OK, "")
    tried = [[run.precompiled is not None for run in hip.runs_of(step)] for step in PASS_OF.values()]
    assert [True, False] in tried
    assert not refused or all(one in ([True, False], [False]) for one in tried)  # the second may know of it
    assert refused or tried == [[True, False], [True, False]]
    assert [Path(header).name for header in outcome.headers] == ["a.h", "device.h", "host.h"]
    assert len(outcome.commands) == 6
    message = ladder.warming.headers.refusal()
    assert (message is not None) is refused
    assert message is None or "error: " in message
    hip.runs.clear()
    await compiled(ladder, store, waiting=99)
    passes = hip.runs_of(Step.DEVICE)
    assert len(passes) == (1 if refused else 2)
    assert (hip.runs_of(Step.DEVICE_HEADER), passes[-1].precompiled) == ([], None)


async def test_another_compiler_may_take_them(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    await precompiled(ladder)
    hip.refuse = "error: unknown argument: '-fno-cxx-modules'\n"
    await compiled(ladder, store)
    hip.refuse = ""
    other = StagedCompiler(replace(hip.toolchain, identity="compiler 2"), store, hip)
    await precompiled(other)
    hip.runs.clear()
    await compiled(other, store)
    assert all(hip.runs_of(step)[0].precompiled for step in PASS_OF.values())


async def test_a_check_and_its_compile(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    folder = store.work_folder()
    narrow: list[list[Step]] = []
    checked = await ladder.check(request(), folder, ignore)
    assert checked is not None
    assert (checked.ok, hip.steps) == (True, [Step.ASK, Step.HOST])
    outcome = await ladder.compile(request(), folder, on_event=narrowing(narrow, hip), checked=checked)
    assert (outcome.status, hip.steps[2:]) == (CompileStatus.OK, [Step.DEVICE, *REST])
    assert [Path(header).name for header in outcome.headers] == ["a.h", "device.h", "host.h"]
    assert narrow == [[Step.ASK, Step.HOST]]
    assert len(outcome.commands) == 6


async def test_a_check_that_found_a_mistake(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    hip.answer(Step.HOST, "kernel.hip:1:1: error: host\n", 1)
    hip.answer(Step.DEVICE, "kernel.hip:1:1: error: device\n", 1)
    folder = store.work_folder()
    checked = await ladder.check(request(), folder, ignore)
    assert checked is not None
    assert (checked.ok, checked.host.log) == (False, "kernel.hip:1:1: error: host\n")
    outcome = await ladder.compile(request(), folder, checked=checked)
    assert outcome.log == "kernel.hip:1:1: error: host\nkernel.hip:1:1: error: device\n"
    await remove_work_folder(checked.folder)
    assert not folder.exists()


async def test_line_tables_beside_what_is_loaded(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    outcome = await compiled(ladder, store, request(lines=True))
    plain, lined = hip.runs_of(Step.ASK)
    (folder,) = hip.toolchain.include_folders
    more = {"-gline-tables-only", "-gz=zlib", f"-fdebug-prefix-map={folder}/=<fake>/"}
    added = {*lined.arguments} - {*plain.arguments}
    assert {part for part in added if not part.startswith("-cuid=")} == more
    links = {run.output.name: run.arguments for run in hip.runs_of(Step.DEVICE_LINK)}
    assert set(links) == {"kernel.out", "kernel.lined.hsaco"}
    assert "--strip-debug" in links["kernel.out"]
    assert "--strip-debug" not in links["kernel.lined.hsaco"]
    assert outcome.files[ProductKind.LINE_TABLES].name == "kernel.lined.hsaco"
    assert len(outcome.commands) == 6, "what is recorded is the same"
    again = await compiled(ladder, store)
    assert set(outcome.files) - set(again.files) == {ProductKind.LINE_TABLES}


async def test_line_tables_that_a_flag_asks_for_stay_in_the_code(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore
) -> None:
    outcome = await compiled(ladder, store, request(lines=True, flags=("-g",)))
    (link,) = hip.runs_of(Step.DEVICE_LINK)
    assert "--strip-debug" not in link.arguments
    assert ProductKind.LINE_TABLES not in outcome.files
    assert len(hip.runs_of(Step.ASK)) == 1


async def test_a_linker_that_cannot_write_them(ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore) -> None:
    async def refuse(run: Run) -> None:
        hip.answer(Step.DEVICE_LINK, "zlib", 0 if "--strip-debug" in run.arguments else 1, during=refuse)

    hip.answer(Step.DEVICE_LINK, during=refuse)
    outcome = await compiled(ladder, store, request(lines=True))
    assert outcome.status is CompileStatus.OK
    assert ProductKind.LINE_TABLES not in outcome.files


UNPLACED = "error: <unknown>:0:0: stack frame size (9) exceeds limit (8) in function 'k' [Backend Issue]\n"


async def test_a_pass_whose_error_has_no_place_is_repeated_alone(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore
) -> None:
    async def place(_run: Run) -> None:
        if hip.steps.count(Step.DEVICE) == 2:
            hip.answer(Step.DEVICE, UNPLACED.replace("<unknown>:0:0", "kernel.hip:2:0"), 1)

    hip.answer(Step.DEVICE, UNPLACED, 1, during=place)
    outcome = await compiled(ladder, store)
    assert outcome.status is CompileStatus.FAILED
    assert (hip.steps.count(Step.DEVICE), hip.steps.count(Step.HOST)) == (2, 1)
    assert "-gline-tables-only" in hip.runs_of(Step.ASK)[-1].arguments
    assert outcome.log == UNPLACED.replace("<unknown>:0:0", "kernel.hip:2:0")


async def test_an_undefined_symbol_repeats_the_host_pass_with_lines(
    ladder: StagedCompiler, hip: FakeHip, store: ArtifactStore
) -> None:
    hip.answer(Step.LINK, "/usr/bin/ld: kernel.o: in function `f':\n(.text+0x1): undefined reference to `g'\n", 1)
    outcome = await compiled(ladder, store)
    assert outcome.status is CompileStatus.FAILED
    assert (hip.steps.count(Step.DEVICE), hip.steps.count(Step.HOST)) == (1, 2)
    assert outcome.log.count("undefined reference") == 1
