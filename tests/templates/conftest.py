"""Renders units and compiles them with the host's own compiler."""

from __future__ import annotations

import shutil

import pytest

from ckwatch.model.kernel import Unit
from ckwatch.render.engine import Renderer
from gemm_build import HIP_ON_HOST, TEMPLATES, Build, compile_source, render
from gemm_case import GemmCase, GemmLibrary


@pytest.fixture(scope="session")
def renderer() -> Renderer:
    """Renders the built-in templates."""
    return Renderer((TEMPLATES,))


@pytest.fixture(scope="session")
def host_compiler() -> str:
    """The host's C++ compiler; `make` needs one anyway."""
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no host C++ compiler")
    return found


@pytest.fixture(scope="session")
def build(renderer: Renderer, host_compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile a unit to a shared library for the host: HIP sources with the stand-in for HIP's runtime."""
    built: dict[str, GemmLibrary] = {}

    def build_unit(unit: Unit, case: GemmCase) -> GemmLibrary:
        rendered = render(renderer, unit)
        if rendered.symbol in built:
            return built[rendered.symbol]
        folder = tmp_path_factory.mktemp("unit")
        source = folder / "unit.cpp"
        source.write_text(rendered.text)
        library = folder / "unit.so"
        flags = ["-fPIC", "-shared", "-fvisibility=hidden", f"-I{HIP_ON_HOST}"]
        if unit.kernel.template.endswith(".cpp.j2"):
            flags.append("-pthread")
        compile_source(host_compiler, source, library, flags)
        built[rendered.symbol] = GemmLibrary(library, rendered.symbol, case)
        return built[rendered.symbol]

    return build_unit
