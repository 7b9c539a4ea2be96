"""A compiler that is a shell script, the real one, and a store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckwatch.compile.store.artifacts import ArtifactStore
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import ToolchainError
from fakes.fake_compiler import COMPILES, OBJECT, SHARED_OBJECT, FakeToolchain, Script


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    """The real one, without which a test is skipped."""
    try:
        return discover()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Make a toolchain of which hipcc and clang++ are this script; without one they compile."""
    folder = tmp_path / "fake ü"
    folder.mkdir()
    (folder / "o").write_bytes(OBJECT)
    (folder / "so").write_bytes(SHARED_OBJECT)
    (folder / "a b.h").write_text("int a;")
    os.utime(folder / "a b.h", (1, 1))

    def _script(text: str = COMPILES) -> FakeToolchain:
        program = folder / "hipcc"
        program.write_text("#!/bin/sh\n" + text.replace("{folder}", str(folder)))
        program.chmod(0o755)
        return FakeToolchain(program, program, roots={"fake": folder}, include_folders=(folder,))

    return _script


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ArtifactStore]:
    with ArtifactStore(tmp_path / "store", grace_s=0) as store:
        yield store
