"""The emulator's library, built once for all tests and runs of them."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from ckwatch.compile.store.artifacts import default_folder
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.errors import ToolchainError
from ckwatch.system.file_locks import locked
from ckwatch.verification.library import FOLDER, HOST_COMPILERS, build_library
from references.wave_emulator import WaveEmulator


@pytest.fixture(scope="session")
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The one that `ckwatch verify` builds; by the host's compiler where there is no toolchain.

    To try one with sanitizers: what CKWATCH_EMULATOR_LIBRARY names.
    """
    if named := os.environ.get("CKWATCH_EMULATOR_LIBRARY"):
        return Path(named)
    with locked(tmp_path_factory.getbasetemp().parent / "emulator.lock"):  # the run's other processes wait for it
        try:
            return asyncio.run(build_library(default_folder() / FOLDER, discover().clang))
        except ToolchainError:
            return _by_the_host(request, tmp_path_factory)


def _by_the_host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not any(shutil.which(name) for name in HOST_COMPILERS):
        pytest.skip("there is no C compiler")
    cache: pytest.Cache | None = getattr(request.config, "cache", None)  # there is none with -p no:cacheprovider
    folder = tmp_path_factory.mktemp("emulator") if cache is None else Path(cache.mkdir("emulator"))
    return asyncio.run(build_library(folder))


@pytest.fixture(scope="session")
def emulator(library: Path) -> WaveEmulator:
    return WaveEmulator(library)
