"""How the emulator is built, with a compiler that writes what it is told to."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import ExitReason, ProcessResult, run_process
from ckwatch.verification import library as module
from ckwatch.verification.library import COMPILE_FLAGS, KEPT, LIBRARY, OLDER_NAMES, build_library
from helpers.kept_builds import FOLDER
from references.wave_emulator import ALL_ARCHITECTURES, LANES, WaveEmulator, WaveState, recorded

DATA = Path(__file__).parent.parent / "data" / "instructions"


class FakeCompiler:
    """A launcher; compilers whose names are in `broken` fail."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.commands: list[list[str]] = []

    async def __call__(
        self,
        arguments: list[str],
        *,
        folder: Path,
        **_others: object,
    ) -> ProcessResult:
        self.commands.append(arguments)
        failed = Path(arguments[0]).name in self.broken
        if not failed:
            (folder / arguments[arguments.index("-o") + 1]).write_text("made")
        said = "x.c:1: error: no such flag" if failed else ""
        return ProcessResult(tuple(arguments), ExitReason.EXITED, int(failed), "", said, 0, 0.5, 1 << 20)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "native"
    folder.mkdir()
    for name in ("decode.c", "vector.c", "machine.h"):
        (folder / name).write_text(f"// {name}\n")
    monkeypatch.setattr(module, "SOURCES", folder)
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> dict[str, str]:
    """An environment with a clang and a gcc."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("clang", "gcc"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


async def test_it_is_built_once(tmp_path: Path, sources: Path, programs: dict[str, str]) -> None:
    compiler = FakeCompiler()
    clang = Path(programs["PATH"], "clang")
    built = await build_library(tmp_path / "emulator", clang, environment=programs, launch=compiler)
    assert built.name == LIBRARY
    assert built.read_text() == "made"
    compiled = {Path(command[command.index("-c") + 1]) for command in compiler.commands[:2]}
    assert compiled == {sources / "decode.c", sources / "vector.c"}
    assert all(set(COMPILE_FLAGS) <= set(command) for command in compiler.commands[:2])
    assert compiler.commands[2][1:3] == ["decode.o", "vector.o"]
    assert await build_library(tmp_path / "emulator", clang, environment=programs, launch=compiler) == built
    assert len(compiler.commands) == 3
    assert [path.name for path in (tmp_path / "emulator").iterdir()] == [built.parent.name]
    assert sorted(path.name for path in built.parent.iterdir()) == [*OLDER_NAMES, LIBRARY]
    assert all((built.parent / name).samefile(built) for name in OLDER_NAMES)


async def test_other_sources_are_another_library(tmp_path: Path, sources: Path, programs: dict[str, str]) -> None:
    compiler = FakeCompiler()
    first = await build_library(tmp_path / "emulator", environment=programs, launch=compiler)
    (sources / "machine.h").write_text("// changed\n")
    second = await build_library(tmp_path / "emulator", environment=programs, launch=compiler)
    assert first != second
    assert first.is_file()


async def test_those_used_last_are_kept(tmp_path: Path, sources: Path, programs: dict[str, str]) -> None:
    folder, compiler = tmp_path / "emulator", FakeCompiler()
    built = []
    for version in range(KEPT):
        (sources / "machine.h").write_text(f"// {version}\n")
        built.append(await build_library(folder, environment=programs, launch=compiler))
        os.utime(built[-1].parent, (version, version))  # long ago, in this order
    (sources / "machine.h").write_text("// 0\n")
    assert await build_library(folder, environment=programs, launch=compiler) == built[0]
    (sources / "machine.h").write_text("// new\n")
    newest = await build_library(folder, environment=programs, launch=compiler)
    assert {entry.name for entry in folder.iterdir()} == {path.parent.name for path in (newest, built[0], *built[2:])}


@pytest.mark.usefixtures("sources")
async def test_the_hosts_compiler_is_the_second_choice(tmp_path: Path, programs: dict[str, str]) -> None:
    compiler = FakeCompiler("clang")
    built = await build_library(
        tmp_path / "emulator", Path(programs["PATH"], "clang"), environment=programs, launch=compiler
    )
    assert built.is_file()
    assert Path(compiler.commands[-1][0]).name == "gcc"


@pytest.mark.usefixtures("sources")
async def test_failures_are_told(tmp_path: Path, programs: dict[str, str]) -> None:
    with pytest.raises(CkwatchError, match=r"clang cannot build the emulator: x\.c:1: error: no such flag"):
        await build_library(tmp_path / "emulator", environment=programs, launch=FakeCompiler("clang", "gcc"))
    assert list((tmp_path / "emulator").iterdir()) == []
    with pytest.raises(CkwatchError, match="there is no C compiler"):
        await build_library(tmp_path / "emulator", environment={"PATH": "/nowhere"}, launch=FakeCompiler())
    (tmp_path / "file").write_text("")
    with pytest.raises(CkwatchError, match="cannot be stored"):
        await build_library(tmp_path / "file", environment=programs, launch=FakeCompiler())


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
async def test_what_gcc_builds_computes_the_same(emulator: WaveEmulator) -> None:
    """All other tests run what clang builds, where there is a toolchain."""

    async def unoptimised(arguments: list[str], **options: Any) -> ProcessResult:  # which takes a fifth of the time
        return await run_process(["-O0" if one == "-O3" else one for one in arguments], **options)

    kept = FOLDER / "emulator-by-gcc"  # which is built once for all runs, as that of users is
    clang, gcc = (kept / "bin" / name for name in ("clang", "gcc"))
    clang.parent.mkdir(parents=True, exist_ok=True)
    clang.write_text("#!/bin/sh\nexit 1\n")
    clang.chmod(0o755)
    gcc.unlink(missing_ok=True)
    gcc.symlink_to(str(shutil.which("gcc")))
    environment = os.environ | {"PATH": f"{gcc.parent}:{os.defpath}"}
    other = WaveEmulator(await build_library(kept / "built", clang, environment=environment, launch=unoptimised))
    random = np.random.default_rng(1)
    for arch in ALL_ARCHITECTURES:
        lines = [line for line in recorded(DATA, arch) if re.match("v_(?!mfma|smfmac|wmma|swmmac)", line)]
        for line in lines[::20]:
            # No NaN, whose bits are the compiler's choice.
            halves = random.integers(0, 0x7000, (512, 2 * LANES), dtype=np.uint16)
            state = WaveState(halves.view(np.uint32))
            found, expected = (one.run([line], arch, state) for one in (other, emulator))
            assert np.array_equal(found.vectors, expected.vectors), f"{arch}: {line}"
            assert np.array_equal(found.scalars, expected.scalars), f"{arch}: {line}"
