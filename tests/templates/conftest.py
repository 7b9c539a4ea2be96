"""Renders units and compiles them with the host's own compiler."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from ckwatch.model.kernel import Unit  # noqa: E402
from ckwatch.render.engine import Rendered, Renderer  # noqa: E402
from tests.templates.gemm_case import GemmCase, GemmLibrary  # noqa: E402

TEMPLATES = ROOT / "templates" / "ckwatch_templates"
HIP_ON_HOST = Path(__file__).parent / "hip_on_host"

Build = Callable[[Unit, GemmCase], GemmLibrary]


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


def render(renderer: Renderer, unit: Unit) -> Rendered:
    """Render a unit that must be without mistakes."""
    outcome = renderer.render(unit)
    assert outcome.rendered is not None, outcome.diagnostics
    return outcome.rendered


def compile_source(compiler: str, source: Path, output: Path, flags: Sequence[str]) -> None:
    """Compile one source with warnings as errors."""
    warnings = ["-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Werror"]
    command = [compiler, "-std=c++17", "-O1", "-x", "c++", *warnings, *flags, str(source), "-o", str(output)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="session")
def build(renderer: Renderer, host_compiler: str, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile a unit to a shared library for the host: HIP sources with the stand-in for HIP's runtime."""

    def build_unit(unit: Unit, case: GemmCase) -> GemmLibrary:
        rendered = render(renderer, unit)
        folder = tmp_path_factory.mktemp("unit")
        source = folder / "unit.cpp"
        source.write_text(rendered.text)
        library = folder / "unit.so"
        flags = ["-fPIC", "-shared", "-fvisibility=hidden", f"-I{HIP_ON_HOST}"]
        if unit.kernel.template.endswith(".cpp.j2"):
            flags.append("-pthread")
        compile_source(host_compiler, source, library, flags)
        return GemmLibrary(library, rendered.symbol, case)

    return build_unit
