"""What `ckwatch doctor` says of compiling in parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.cli.toolchain import parts_check
from ckwatch.compile.precompiled_headers import PrecompiledHeaderStore
from ckwatch.compile.store.artifacts import ArtifactStore, default_folder
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.doctor import CheckState
from ckwatch.compile.toolchain.model import FixedToolchainChoice, Toolchain
from rocm_trees import make_program, make_rocm

PLAN = Path(__file__).parent.parent / "data/hipcc/commands.txt"


@pytest.fixture
def toolchain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    """A tree whose hipcc prints the commands of a real one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = make_rocm(tmp_path / "rocm", "7.2.0", ck=True)
    hipcc = tmp_path / "hipcc"
    make_program(hipcc, f"cat {PLAN} >&2")
    found = discover(FixedToolchainChoice(rocm=root), {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    return replace(found, hipcc=hipcc)


async def test_a_compiler_that_can(toolchain: Toolchain) -> None:
    check = await parts_check(None, toolchain)
    assert (check.state, "side by side" in check.detail) == (CheckState.OK, True)


async def test_commands_of_another_kind(toolchain: Toolchain) -> None:
    make_program(toolchain.hipcc, """echo ' "clang" "-cc1" "kernel.hip"' >&2""")
    check = await parts_check(None, toolchain)
    assert check.state is CheckState.NOTE
    assert "cannot run separately: hipcc runs 1 programs where 4 were expected" in check.detail


async def test_a_compiler_that_refuses(toolchain: Toolchain) -> None:
    store = ArtifactStore(default_folder())
    PrecompiledHeaderStore(store, PathRoots(toolchain.roots), toolchain.identity).refuse(
        "error: PCH file uses another format"
    )
    check = await parts_check(None, toolchain)
    assert (check.state, "uses another format" in check.detail) == (CheckState.NOTE, True)
    other = await parts_check(None, replace(toolchain, identity="another compiler"))
    assert other.state is CheckState.OK
