"""Listings by the daemon: when source lines are compiled for, and what is said where there are none."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import SECONDS, TEMPLATE
from benches.isa_bench import CODE, FIRST, INSTRUCTIONS, SYMBOL, UNIT, IsaBench, disassembly
from ckwatch.compile.store.entries import META, StoredFile, artifact_to_json, read_entry
from ckwatch.core.events import MAIN
from ckwatch.engine.answers import Daemon
from ckwatch.engine.queries.listings import CANCELLED, DOES_NOT_COMPILE, NOT_YET, STALE
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.wire.analysis import Isa
from helpers.in_own_task import in_own_task


@pytest.fixture
def bench(tmp_path: Path) -> IsaBench:
    return IsaBench(tmp_path)


@pytest.fixture
async def daemon(bench: IsaBench) -> AsyncIterator[Daemon]:
    async with in_own_task(bench.open()) as daemon:
        await built(daemon)
        yield daemon


async def built(daemon: Daemon) -> None:
    async with daemon.builds.build(MAIN, [UNIT], force=False, check_only=False) as lines:
        assert [line.event async for line in lines][-1] == "done"


async def isa(daemon: Daemon, symbol: str | None = None, *, lines: bool = True) -> Isa:
    return await daemon.isa(MAIN, UNIT, symbol, lines=lines)


def mapped(found: Isa) -> dict[str, tuple[int | None, str, int | None]]:
    """By mnemonic: the rendered line, and the file and line that it came from."""
    return {
        line.mnemonic: (
            line.rendered,
            "" if line.span is None else Path(line.span.path).name,
            None if line.span is None else line.span.start.line,
        )
        for line in found.lines
    }


async def test_lines_from_a_second_compile(daemon: Daemon, bench: IsaBench) -> None:
    found = await isa(daemon)
    assert (found.unit, found.fresh, found.has_lines) == (UNIT, True, True)
    assert found.kernel.startswith("gemm_universal<")
    assert found.kernels == (found.kernel,)
    assert mapped(found) == {
        "v_mov_b32_e32": (None, "", None),
        "v_mfma_f32_32x32x8_f16": (2, "k.hip.j2", 1),
        "s_cbranch_scc1": (None, "", None),
        "s_endpgm": (None, "h.h", 0),
    }
    (header,) = (line.header for line in found.lines if line.header)
    assert header == f"{bench.header}:1"
    texts = found.text.split("\n")
    assert all(line.mnemonic in texts[line.line] for line in found.lines)
    assert "; kernel.hip:3 f ← k.hip.j2:2:5" in found.text
    assert [(fold.kind, fold.main) for fold in found.folds] == [("function", False), ("loop", True), ("block", False)]
    assert found.mnemonics["s_endpgm"].startswith("end of the kernel")
    (compiled,) = bench.lined
    assert "-gline-tables-only" in compiled
    assert bench.runs == ["1"]


async def test_lines_that_stand_beside_the_artifact(daemon: Daemon, bench: IsaBench) -> None:
    artifact = await daemon.units.artifact(MAIN, UNIT)
    assert artifact is not None
    folder = Path(artifact.products["code-object"]).parent
    entry, name = read_entry(folder), "kernel.lined.hsaco"
    (folder / name).write_bytes(CODE)
    files = {**entry.files, name: StoredFile(len(CODE), hashlib.sha256(CODE).hexdigest())}
    more = replace(entry, files=files, products={**entry.products, "line-tables": name})
    (folder / META).write_bytes(artifact_to_json(more))
    below = bench.header.relative_to(bench.folder)
    bench.print_lines((FIRST + 4, "./kernel.hip", 3, 5), (FIRST + 16, f"./<rocm>/{below}", 1, 1))
    found = await isa(daemon)
    assert mapped(found)["v_mfma_f32_32x32x8_f16"] == (2, "k.hip.j2", 1)
    assert mapped(found)["s_endpgm"] == (None, "h.h", 0)
    assert found.has_lines
    assert bench.lined == []


async def test_a_second_look_compiles_nothing(daemon: Daemon, bench: IsaBench) -> None:
    first = await isa(daemon)
    assert await isa(daemon) == first
    assert await isa(daemon, first.kernel) == first
    assert await isa(daemon, SYMBOL, lines=False) == first
    assert len(bench.lined) == 1


async def test_neither_does_the_next_daemon(bench: IsaBench) -> None:
    with anyio.fail_after(SECONDS):
        async with bench.open() as daemon:
            await built(daemon)
            first = await isa(daemon)
        async with bench.open() as daemon:
            await built(daemon)
            assert await isa(daemon, lines=False) == first
    assert len(bench.lined) == 1


async def test_two_at_once_are_one_compile(daemon: Daemon, bench: IsaBench) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(isa, daemon)
        tasks.start_soon(isa, daemon)
    assert len(bench.lined) == 1


async def test_without_lines_nothing_is_compiled(daemon: Daemon, bench: IsaBench) -> None:
    found = await isa(daemon, lines=False)
    assert (found.has_lines, found.notes, bench.lined) == (False, (NOT_YET,), [])
    assert len(found.lines) == len(INSTRUCTIONS)


async def test_a_kernel_that_is_not_there(daemon: Daemon) -> None:
    with pytest.raises(CkwatchError, match="has no kernel 'other'") as raised:
        await isa(daemon, "other")
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("it has gemm_universal<")
    with pytest.raises(UnknownUnitError):
        await daemon.isa(MAIN, "k/on@gfx942", None, lines=True)


async def test_a_unit_that_was_not_built(daemon: Daemon) -> None:
    with pytest.raises(CkwatchError, match="cannot be inspected"):
        await daemon.isa(MAIN, "k/two@gfx942", None, lines=True)


async def test_other_code_has_no_lines(daemon: Daemon, bench: IsaBench) -> None:
    (bench.folder / "other").write_text(disassembly(INSTRUCTIONS[0], *INSTRUCTIONS))
    found = await isa(daemon)
    assert not found.has_lines
    assert found.notes == ("no source lines: with line tables the compiler makes other code of this kernel",)


async def test_the_same_code_elsewhere(daemon: Daemon, bench: IsaBench) -> None:
    (bench.folder / "other").write_text(disassembly(*INSTRUCTIONS, first=0x2100))
    bench.print_lines((0x2104, "./kernel.hip", 3, 5))
    assert mapped(await isa(daemon))["v_mfma_f32_32x32x8_f16"] == (2, "k.hip.j2", 1)


async def test_a_compile_that_fails_is_not_tried_again(daemon: Daemon, bench: IsaBench) -> None:
    bench.will("broken")
    found = await isa(daemon)
    assert (found.has_lines, found.notes) == (False, (DOES_NOT_COMPILE,))
    assert (await isa(daemon)).notes == (DOES_NOT_COMPILE,)
    assert len(bench.lined) == 1


async def test_a_compiler_that_is_killed_is_tried_again(daemon: Daemon, bench: IsaBench) -> None:
    bench.will("killed")
    found = await isa(daemon)
    assert found.notes == ("no source lines: hipcc was killed (SIGKILL)",)
    bench.will("killed", now=False)
    assert (await isa(daemon)).has_lines


async def test_tools_that_fail(daemon: Daemon, bench: IsaBench) -> None:
    (bench.folder / "tools/llvm-symbolizer").write_text("#!/bin/sh\necho 'error: bad file' >&2; exit 1\n")
    assert (await isa(daemon)).notes == ("no source lines: llvm-symbolizer failed: error: bad file",)
    (bench.folder / "tools/llvm-symbolizer").unlink()
    assert (await isa(daemon)).notes == ("no source lines: the toolchain has no llvm-symbolizer",)


async def test_cancelled_with_its_client(daemon: Daemon, bench: IsaBench) -> None:
    bench.will("slow")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(isa, daemon)
        await bench.started(1)
        tasks.cancel_scope.cancel()
    assert bench.alive == []
    bench.will("slow", now=False)
    assert (await isa(daemon)).has_lines


async def test_cancelled_by_another_client(daemon: Daemon, bench: IsaBench) -> None:
    bench.will("slow")
    found: list[Isa] = []
    async with anyio.create_task_group() as tasks:

        async def ask() -> None:
            found.append(await isa(daemon))

        tasks.start_soon(ask)
        await bench.started(1)
        assert await daemon.builds.cancel(MAIN, None) == [UNIT]
    assert bench.alive == []
    assert (found[0].has_lines, found[0].notes) == (False, (CANCELLED,))
    bench.will("slow", now=False)
    assert (await isa(daemon)).has_lines


async def test_an_edit_of_blanks_moves_the_lines(daemon: Daemon, bench: IsaBench) -> None:
    await isa(daemon)
    bench.write("templates/k.hip.j2", TEMPLATE.replace("int tile", "\n\n  int tile"))
    await built(daemon)
    found = await isa(daemon)
    assert mapped(found)["v_mfma_f32_32x32x8_f16"] == (4, "k.hip.j2", 3)
    assert (found.fresh, len(bench.lined), bench.runs) == (True, 1, ["1"])


async def test_of_an_earlier_input(daemon: Daemon, bench: IsaBench) -> None:
    client = "ann"
    before = await isa(daemon)
    await daemon.requests.overlay(client, str(bench.root / "templates/k.hip.j2"), TEMPLATE + "int more;\n")
    async with daemon.builds.build(client, [UNIT], force=False, check_only=True) as lines:
        assert [line.event async for line in lines][-1] == "done"
    found = await daemon.isa(client, UNIT, None, lines=True)
    assert not found.fresh
    assert (found.has_lines, mapped(found)) == (True, mapped(before))
    assert len(bench.lined) == 1


async def test_of_an_earlier_input_without_a_listing(daemon: Daemon, bench: IsaBench) -> None:
    await daemon.requests.overlay("ann", str(bench.root / "templates/k.hip.j2"), TEMPLATE + "int more;\n")
    async with daemon.builds.build("ann", [UNIT], force=False, check_only=True) as lines:
        assert [line.event async for line in lines][-1] == "done"
    found = await daemon.isa("ann", UNIT, None, lines=True)
    assert (found.fresh, found.has_lines, found.notes, bench.lined) == (False, False, (STALE,), [])
