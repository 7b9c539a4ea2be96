"""Renders units and compiles them with the host's own compiler."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cases.gemm_case import GemmCase, GemmLibrary
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import ToolchainError
from ckwatch.model.kernels import Unit
from ckwatch.render.renderer import Renderer
from fakes.host_compiler import WARNINGS, HostCompiler
from helpers.gemm_build import CK_ON_HOST, HIP_ON_HOST, TEMPLATES, Build, render


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """The real one, without which a test is skipped."""
    try:
        return discover()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def renderer() -> Renderer:
    """Renders the built-in templates."""
    return Renderer((TEMPLATES,))


@pytest.fixture(scope="session")
def compiler_path() -> str:
    """The host's C++ compiler; `make` needs one anyway."""
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no host C++ compiler")
    return found


@pytest.fixture(scope="session")
def objects() -> Iterator[Path]:
    """Folder of compiled files; precompiled headers are large, hence not kept as pytest keeps its own folders."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def host_compiler(compiler_path: str, objects: Path) -> HostCompiler:
    """Compiles for libraries and executables, HIP sources with the stand-in for HIP's runtime."""
    flags = ["-std=c++17", "-O1", *WARNINGS, "-fPIC", "-fvisibility=hidden", "-pthread", f"-I{HIP_ON_HOST}"]
    return HostCompiler(compiler_path, flags, objects)


@pytest.fixture(scope="session")
def ck_compiler(compiler_path: str, objects: Path) -> HostCompiler:
    """Compiles with the stand-ins for HIP and CK."""
    folder = objects / "ck"
    folder.mkdir()
    flags = ["-std=c++20", "-O0", *WARNINGS, "-Wno-unused-parameter", "-Wno-unused-but-set-parameter", "-fPIC"]
    flags += ["-fvisibility=hidden", "-D__HIP_DEVICE_COMPILE__=1", f"-I{HIP_ON_HOST}", f"-I{CK_ON_HOST}"]
    return HostCompiler(compiler_path, flags, folder)


@pytest.fixture(scope="session")
def build(renderer: Renderer, host_compiler: HostCompiler, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile a unit to a shared library for the host."""
    built: dict[str, GemmLibrary] = {}

    def build_unit(unit: Unit, case: GemmCase) -> GemmLibrary:
        rendered = render(renderer, unit)
        if rendered.symbol not in built:
            library = tmp_path_factory.mktemp("unit") / "unit.so"
            host_compiler.link([host_compiler.compile(rendered.text)], library, "-shared")
            built[rendered.symbol] = GemmLibrary(library, rendered.symbol, case)
        return built[rendered.symbol]

    return build_unit
