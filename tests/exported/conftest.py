"""Units compiled by the host's own compiler, exported, and imported."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from cases.export_case import Export, ExportCustom, exported_of, imported
from cases.gemm_case import GemmCase
from cases.gemm_rows import BLOCKED_SMALL, TILED_SMALL
from ckwatch.model.kernels import Operation
from ckwatch.render.renderer import Renderer
from helpers.gemm_build import HIP_ON_HOST, TEMPLATES, compile_source, render

TEMPLATE_OF = {
    "cpp": ("cpp/gemm_blocked.cpp.j2", BLOCKED_SMALL),
    "hip": ("hip/gemm_tiled.hip.j2", TILED_SMALL),
}


@pytest.fixture(scope="session")
def compiler() -> str:
    """The host's C++ compiler."""
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("no host C++ compiler")
    return found


@pytest.fixture(scope="session")
def export(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Export a GEMM; one of HIP is compiled with the stand-in for HIP's runtime, so that its GPU is the host."""
    renderer = Renderer((TEMPLATES,))
    made: dict[tuple[str, str], object] = {}

    def export_case(case: GemmCase, language: str = "cpp") -> object:
        template, parameters = TEMPLATE_OF[language]
        unit = case.unit(template, parameters)
        rendered = render(renderer, unit)
        if (known := made.get((language, rendered.symbol))) is not None:
            return known
        folder = tmp_path_factory.mktemp("exported")
        source, library = folder / "unit.cpp", folder / "unit.so"
        source.write_text(rendered.text)
        flags = ["-fPIC", "-shared", "-fvisibility=hidden", f"-I{HIP_ON_HOST}"]
        compile_source(compiler, source, library, [*flags, "-pthread"])
        exported = exported_of(case.operation(), language, rendered.text, rendered.symbol, parameters)
        made[language, rendered.symbol] = imported(exported, library, folder)
        return made[language, rendered.symbol]

    return export_case


@pytest.fixture(scope="session")
def export_custom(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> ExportCustom:
    """Export a C++ source as a kernel of an operation, for the host or for a GPU that is the host."""

    def export_source(operation: Operation, text: str, language: str = "cpp", **names: str) -> object:
        folder = tmp_path_factory.mktemp("exported")
        source, library = folder / "unit.cpp", folder / "unit.so"
        source.write_text(text)
        compile_source(compiler, source, library, ["-fPIC", "-shared"])
        nothing: Mapping[str, int] = {}
        return imported(exported_of(operation, language, text, "symbol", nothing, **names), library, folder)

    return export_source


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name has a space and non-ASCII letters."""
    return tmp_path / "kernels für größe"
