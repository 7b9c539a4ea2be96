"""From the store, or compiled once."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from ckwatch.compile.build_events import (
    BuildEvent,
    BuildOptions,
    BuildStored,
    BuildWaits,
    CompilerLine,
    CompilersEnded,
    CompilerStarting,
    OnePassLeft,
    ProcessorUsed,
)
from ckwatch.compile.builder import Builder
from ckwatch.compile.request import BuildOutcome, CompileFault, CompileRequest
from ckwatch.compile.store import content_hashes
from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.store.entries import StoreError
from ckwatch.compile.store.shared_store import SharedStore, SharedStoreTimes
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import ProcessResult, run_process
from ckwatch.system.user_files import digest_file
from fakes.fake_compiler import COMPILES, REQUEST, FakeToolchain, Script, request_with
from fakes.patience import PATIENCE_S


@dataclass
class Counting:
    """Launches real processes and counts them."""

    started: list[str] = field(default_factory=list)

    async def __call__(self, arguments: Sequence[str], *, environment: Mapping[str, str], **more: Any) -> ProcessResult:
        self.started.append(" ".join(arguments))
        return await run_process(arguments, environment=environment, **more)


@pytest.fixture
def launch() -> Counting:
    return Counting()


@pytest.fixture
def toolchain(script: Script) -> FakeToolchain:
    return script()


@pytest.fixture
def builder(toolchain: FakeToolchain, store: ArtifactStore, launch: Counting) -> Builder:
    return Builder(toolchain, store, launch=launch)


FAILS = 'echo "$PWD/kernel.hip:1:5: error: no" >&2; exit 1'


async def test_compiled_once(builder: Builder, launch: Counting) -> None:
    told: list[BuildEvent] = []
    first = await builder.build(REQUEST, on_event=told.append)
    assert (first.ok, first.from_store, first.fault) == (True, False, None)
    assert len(launch.started) == 2
    said = CompilerLine(None, "kernel.hip:1:2: warning: said in kernel.hip")
    expected = [CompilerStarting(), OnePassLeft(), said, CompilersEnded(), BuildStored(first)]
    assert [event for event in told if not isinstance(event, ProcessorUsed)] == expected
    second = await builder.build(REQUEST, on_event=told.append)
    assert (second.ok, second.from_store, second.artifact) == (True, True, first.artifact)
    assert (second.log, second.source_text) == (first.log, REQUEST.source)
    assert (len(launch.started), told[-1]) == (2, expected[-1])


async def test_another_process_finds_it(builder: Builder, store: ArtifactStore, toolchain: FakeToolchain) -> None:
    first = await builder.build(REQUEST)
    with ArtifactStore(store.folder) as other:
        again = await Builder(toolchain, other, launch=never).build(REQUEST)
    assert again.artifact == first.artifact


async def never(*_: object, **__: object) -> ProcessResult:
    raise AssertionError("no process may be started")


@pytest.mark.parametrize(
    ("changes", "compiles"),
    [
        ({"source": "// a comment\nint  k_1() { return 1; /* one */ }"}, False),
        ({"source": "int k_1() { return 2; }"}, True),
        ({"flags": ("-O1",)}, True),
        ({"flags": ("-lm",)}, True),
        ({"defines": ("A=1",)}, True),
        ({"arch": "gfx90a"}, True),
        ({"include_folders": (Path("/elsewhere"),)}, True),
        ({"more_exports": ("std",)}, True),
        ({"timeout_s": 9.0}, False),
    ],
)
async def test_what_makes_a_compile(
    builder: Builder, launch: Counting, changes: dict[str, object], compiles: bool
) -> None:
    first = await builder.build(REQUEST)
    second = await builder.build(request_with(**changes))
    assert second.from_store is not compiles
    assert (second.key != first.key) is compiles
    assert len(launch.started) == (4 if compiles else 2)


async def test_log_speaks_of_the_text_that_was_compiled(builder: Builder) -> None:
    await builder.build(REQUEST)
    second = await builder.build(request_with(source="\n\nint k_1() { return 1; }"))
    assert (second.from_store, second.source_text) == (True, REQUEST.source)


async def test_a_header_that_is_no_file_starts_no_compiler(builder: Builder, launch: Counting, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.h")
    request = request_with(source='#include "fifo.h"\nint k_1() { return 1; }', include_folders=(tmp_path,))
    result = await builder.build(request)
    assert (result.fault, launch.started) == (CompileFault.UNREADABLE_HEADER, [])
    assert result.log == f"kernel.hip:1:10: error: '{tmp_path}/fifo.h' cannot be included: not a regular file\n"
    (tmp_path / "fifo.h").unlink()
    (tmp_path / "fifo.h").write_text("")
    assert (await builder.build(request)).ok


async def test_debug_information_makes_lines_count(builder: Builder) -> None:
    first = await builder.build(request_with(flags=("-g",)))
    second = await builder.build(request_with(flags=("-g",), source=f"\n{REQUEST.source}"))
    assert first.key != second.key


async def test_another_compiler_compiles(builder: Builder, toolchain: FakeToolchain, store: ArtifactStore) -> None:
    first = await builder.build(REQUEST)
    second = await Builder(replace(toolchain, identity="compiler 2"), store).build(REQUEST)
    assert (second.from_store, second.key != first.key) == (False, True)


async def test_edited_header_compiles(builder: Builder, toolchain: FakeToolchain, launch: Counting) -> None:
    header = toolchain.include_folders[0] / "a b.h"
    first = await builder.build(REQUEST)
    header.write_text("int b;")
    second = await builder.build(REQUEST)
    assert (second.from_store, second.key) == (False, first.key)
    header.write_text("int a;")
    assert (await builder.build(REQUEST)).artifact == first.artifact
    assert len(launch.started) == 4


async def test_header_that_appears_compiles(script: Script, store: ArtifactStore, tmp_path: Path) -> None:
    toolchain = script()
    mine = tmp_path / "mine"
    mine.mkdir()
    request = request_with(include_folders=(mine,))
    await Builder(toolchain, store).build(request)
    assert (await Builder(toolchain, store).build(request)).from_store
    (mine / "a b.h").write_text("int c;")
    assert not (await Builder(toolchain, store).build(request)).from_store


async def test_missing_header_that_appears_compiles(script: Script, store: ArtifactStore) -> None:
    toolchain = script("echo \"kernel.hip:1:1: fatal error: 'ck/no.hpp' file not found\" >&2; exit 1")
    first = await Builder(toolchain, store).build(REQUEST)
    assert (first.ok, first.artifact is None) == (False, False)
    assert (await Builder(toolchain, store).build(REQUEST)).from_store
    (toolchain.include_folders[0] / "ck").mkdir()
    (toolchain.include_folders[0] / "ck" / "no.hpp").touch()
    assert not (await Builder(toolchain, store).build(REQUEST)).from_store


async def test_failures_are_kept(script: Script, store: ArtifactStore) -> None:
    toolchain = script(FAILS)
    first = await Builder(toolchain, store).build(REQUEST)
    assert (first.ok, first.fault, first.log) == (False, None, "kernel.hip:1:5: error: no\n")
    second = await Builder(toolchain, store, launch=never).build(REQUEST)
    assert (second.ok, second.from_store, second.log) == (False, True, first.log)


@pytest.mark.parametrize(
    "text", ["kill -9 $$", "kill -SEGV $$", "echo 'LLVM ERROR: out of memory' >&2; exit 1", "exit 5"]
)
async def test_faults_of_the_host_are_not_kept(script: Script, store: ArtifactStore, text: str) -> None:
    result = await Builder(script(text), store).build(REQUEST)
    assert result.artifact is None
    assert result.fault is not None
    assert result.message
    assert (await Builder(script(COMPILES), store).build(REQUEST)).ok


async def test_force(builder: Builder, launch: Counting) -> None:
    first = await builder.build(REQUEST)
    second = await builder.build(REQUEST, BuildOptions(force=True))
    assert (second.from_store, second.ok, len(launch.started)) == (False, True, 4)
    assert first.artifact is not None
    assert second.artifact is not None
    assert second.artifact.folder == first.artifact.folder
    assert (await builder.build(REQUEST)).artifact == second.artifact


async def test_damaged_entry_is_rebuilt(builder: Builder, launch: Counting) -> None:
    first = await builder.build(REQUEST)
    assert first.artifact is not None
    assert first.artifact.shared_object is not None
    first.artifact.shared_object.write_bytes(b"")
    second = await builder.build(REQUEST)
    assert (second.from_store, second.ok, len(launch.started)) == (False, True, 4)


async def test_many_who_ask_at_once_share_one_compile(script: Script, store: ArtifactStore, launch: Counting) -> None:
    builder = Builder(script("sleep 0.2; " + COMPILES), store, launch=launch)
    results: list[BuildOutcome] = []
    waits: list[str] = []

    async def ask(request: CompileRequest) -> None:
        results.append(
            await builder.build(
                request, on_event=lambda event: waits.append(event.what) if isinstance(event, BuildWaits) else None
            )
        )

    async with anyio.create_task_group() as group:
        for blanks in range(6):
            group.start_soon(ask, request_with(source=REQUEST.source + " " * blanks))
    assert (len(launch.started), len(results)) == (2, 6)
    assert sum(result.from_store for result in results) == 5
    assert sorted(waits) == [""] * 5 + ["another unit with the same text"] * 5


async def test_many_processes_share_one_compile(script: Script, store: ArtifactStore, launch: Counting) -> None:
    """Two builders know nothing of each other, as two processes."""
    toolchain = script("sleep 0.3; " + COMPILES)
    with ArtifactStore(store.folder) as other:
        async with anyio.create_task_group() as group:
            for place in (store, other):
                group.start_soon(Builder(toolchain, place, launch=launch).build, REQUEST)
    assert len(launch.started) == 2
    assert list(store.locks.iterdir()) == []


async def test_cancelled_compile_leaves_nothing_and_the_next_takes_over(script: Script, store: ArtifactStore) -> None:
    asked = anyio.Event()
    slow = Builder(script("echo asked >&2; sleep 1000"), store)
    async with anyio.create_task_group() as group:
        group.start_soon(
            lambda: slow.build(REQUEST, on_event=lambda event: asked.set() if isinstance(event, CompilerLine) else None)
        )
        with anyio.fail_after(PATIENCE_S):
            await asked.wait()
        group.cancel_scope.cancel()
    assert list(store.locks.iterdir()) == []
    assert (await Builder(script(), store).build(REQUEST)).ok
    store.close()
    assert list((store.folder / "runs").iterdir()) == []


async def test_header_edited_during_a_compile(script: Script, store: ArtifactStore, launch: Counting) -> None:
    """The first compile may have read either text; its result is not kept."""
    edit = 'test -e "{folder}/edited" || { sleep 0.05; echo "int b;" > "{folder}/a b.h"; : > "{folder}/edited"; }\n'
    builder = Builder(script(edit + COMPILES), store, launch=launch)
    result = await builder.build(REQUEST)
    assert (result.ok, len(launch.started)) == (True, 4)
    assert (await builder.build(REQUEST)).from_store


async def test_header_edited_again_and_again(script: Script, store: ArtifactStore) -> None:
    edit = 'echo "int b;" >> "{folder}/a b.h"\n'
    result = await Builder(script(edit + COMPILES), store).build(REQUEST)
    assert (result.ok, result.fault) == (False, CompileFault.HEADERS_CHANGED)


async def test_the_store_is_deleted_under_a_living_builder(
    builder: Builder, store: ArtifactStore, launch: Counting
) -> None:
    """As `rm -rf` of the cache does: everything is built again, and nobody waits for a lock that is gone."""
    await builder.build(REQUEST)
    for _ in range(2):
        shutil.rmtree(store.folder)
        with anyio.fail_after(PATIENCE_S):
            results = [
                await builder.build(REQUEST),
                await builder.build(request_with(source="int k_1() { return 2; }")),
            ]
        assert [(result.ok, result.from_store) for result in results] == [(True, False)] * 2
    assert (await builder.build(REQUEST)).from_store
    assert len(launch.started) == 2 * (1 + 2 + 2)


async def test_the_store_is_deleted_while_something_compiles(
    script: Script, store: ArtifactStore, launch: Counting
) -> None:
    """Messages of a compiler in a deleted folder do not count against the kernel."""
    once = f'test -e "{{folder}}/once" || {{ : > "{{folder}}/once"; rm -rf "{store.folder}"; {FAILS}; }}\n'
    result = await Builder(script(once + COMPILES), store, launch=launch).build(REQUEST)
    assert (result.ok, result.from_store, len(launch.started)) == (True, False, 3)


async def test_the_store_is_deleted_before_it_is_written(
    builder: Builder, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch, launch: Counting
) -> None:
    publish = ArtifactStore.publish
    deleted: list[Path] = []

    def deleting(self: ArtifactStore, *arguments: Any, **options: Any) -> Any:
        if not deleted:
            shutil.rmtree(self.folder)
            deleted.append(self.folder)
        return publish(self, *arguments, **options)

    monkeypatch.setattr(ArtifactStore, "publish", deleting)
    result = await builder.build(REQUEST)
    assert (result.ok, len(launch.started), deleted) == (True, 4, [store.folder])


async def test_a_store_that_fails_keeps_no_lock(
    builder: Builder, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    with monkeypatch.context() as patch:
        patch.setattr(ArtifactStore, "lookup", broken)
        with pytest.raises(RuntimeError):
            await builder.build(REQUEST)
    with anyio.fail_after(PATIENCE_S):
        assert (await builder.build(REQUEST)).ok


async def test_no_space_to_store(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("ckwatch.compile.store.artifacts.write_flushed", full)
        result = await builder.build(REQUEST)
    assert (result.ok, result.artifact, result.fault) == (False, None, CompileFault.NO_SPACE)
    assert "no space left for the artifact store" in result.message
    assert (await builder.build(REQUEST)).ok


async def test_store_that_cannot_be_written(toolchain: FakeToolchain, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with ArtifactStore(tmp_path / "file") as store, pytest.raises(StoreError, match="cannot be written"):
        await Builder(toolchain, store).build(REQUEST)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedStore]:
    (tmp_path / "shared").mkdir()
    shared = SharedStore(str(tmp_path / "shared"), replace(SharedStoreTimes(*[PATIENCE_S] * 6), absent_s=0.0))
    yield shared
    shared.close()


def shared_entries(shared: SharedStore) -> list[Path]:
    return [*Path(shared.location).rglob("*.zip")]


@pytest.mark.parametrize("text", [COMPILES, FAILS])
async def test_what_others_have_compiled_is_found(
    text: str, script: Script, store: ArtifactStore, shared: SharedStore, tmp_path: Path
) -> None:
    toolchain = script(text)
    first = await Builder(toolchain, store, shared=lambda: shared).build(REQUEST)
    await anyio.to_thread.run_sync(shared.close, PATIENCE_S)
    for name in ("built", "found"):
        with ArtifactStore(tmp_path / name) as other:
            builder = Builder(toolchain, other, launch=never, shared=lambda: shared)
            result = await (builder.build if name == "built" else builder.find)(REQUEST)
            assert result is not None
            assert (result.ok, result.from_store, result.log) == (first.ok, True, first.log)
            assert result.artifact is not None
            assert result.artifact.folder.is_relative_to(other.folder)
            assert await Builder(toolchain, other).find(REQUEST) == result, "the local store has it now"


async def test_force_does_not_ask_others(
    script: Script, store: ArtifactStore, shared: SharedStore, tmp_path: Path
) -> None:
    toolchain = script()
    await Builder(toolchain, store, shared=lambda: shared).build(REQUEST)
    await anyio.to_thread.run_sync(shared.close, PATIENCE_S)
    with ArtifactStore(tmp_path / "other") as other:
        assert not (
            await Builder(toolchain, other, shared=lambda: shared).build(REQUEST, BuildOptions(force=True))
        ).from_store


async def test_faults_of_the_host_are_not_shared(script: Script, store: ArtifactStore, shared: SharedStore) -> None:
    await Builder(script("kill -9 $$"), store, shared=lambda: shared).build(REQUEST)
    await anyio.to_thread.run_sync(shared.close, PATIENCE_S)
    assert shared_entries(shared) == []


CLANG_FOR_THE_HOST = """\
case "$*" in *-###*) echo ' "-target-cpu" "znver3" "-target-feature" "+avx2"' >&2; echo >> "{folder}/asked"; exit 0 ;; esac
"""


async def test_host_processor_is_asked_for_once(script: Script, store: ArtifactStore, launch: Counting) -> None:
    toolchain = script(CLANG_FOR_THE_HOST + COMPILES)
    request = request_with(language=Language.CPP, arch="host")
    first = await Builder(toolchain, store, launch=launch).build(request)
    with ArtifactStore(store.folder) as other:
        second = await Builder(toolchain, other, launch=never).build(request)
    assert (first.ok, second.from_store) == (True, True)
    assert (toolchain.hipcc.parent / "asked").read_text() == "\n"
    another = script(CLANG_FOR_THE_HOST.replace("znver3", "znver4") + COMPILES)
    third = await Builder(replace(another, identity="compiler 2"), store).key(request)
    assert third != first.key


async def test_a_second_build_starts_nothing_and_reads_no_file_twice(
    builder: Builder, store: ArtifactStore, launch: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is why it takes milliseconds for eight units."""
    requests = [request_with(source=f"int k_1() {{ return {number}; }}") for number in range(8)]
    for request in requests:
        await builder.build(request)
    old = time.time() - 100
    for file in store.folder.glob("artifacts/*/*/*/*"):
        os.utime(file, (old, old))
    started = len(launch.started)
    read: list[str] = []

    def noted(path: str) -> str:
        read.append(path)
        return digest_file(path)

    monkeypatch.setattr(content_hashes, "digest_file", noted)
    look = builder.look()
    results = [await builder.build(request, BuildOptions(look=look)) for request in requests]
    assert all(result.from_store for result in results)
    assert len(launch.started) == started
    assert len(read) == len(set(read))
