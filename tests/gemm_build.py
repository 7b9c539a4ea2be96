"""Renders GEMM units and compiles them with the host's own compiler."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ckwatch.model.kernels import Unit
from ckwatch.render.outcome import Rendered
from ckwatch.render.renderer import Renderer
from gemm_case import GemmCase, GemmLibrary

ROOT = Path(__file__).parents[1]
TEMPLATES = ROOT / "templates" / "ckwatch_templates"
HIP_ON_HOST = Path(__file__).parent / "templates" / "hip_on_host"
"""Include folder of the stand-in for HIP's runtime."""

Build = Callable[[Unit, GemmCase], GemmLibrary]


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
