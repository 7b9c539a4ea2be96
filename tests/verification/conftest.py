"""The emulator's library, built once and kept between runs of the tests."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from ckwatch.verification.library import HOST_COMPILERS, build_library
from references.wave_emulator import WaveEmulator


@pytest.fixture(scope="session")
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built here, or, to try one with sanitizers, what CKWATCH_EMULATOR_LIBRARY names."""
    if named := os.environ.get("CKWATCH_EMULATOR_LIBRARY"):
        return Path(named)
    if not any(shutil.which(name) for name in HOST_COMPILERS):
        pytest.skip("there is no C compiler")
    cache: pytest.Cache | None = getattr(request.config, "cache", None)  # there is none with -p no:cacheprovider
    folder = tmp_path_factory.mktemp("emulator") if cache is None else Path(cache.mkdir("emulator"))
    return asyncio.run(build_library(folder))


@pytest.fixture(scope="session")
def emulator(library: Path) -> WaveEmulator:
    return WaveEmulator(library)
