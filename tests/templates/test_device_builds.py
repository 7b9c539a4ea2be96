"""The HIP template under the real compiler: it builds for every arch, fits its registers, and its runner links."""

from __future__ import annotations

import re
import subprocess

import pytest

from cases.gemm_case import GemmCase
from ckwatch.compile.flags import compile_flags
from ckwatch.compile.request import CompileRequest
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.targets import Language
from ckwatch.render.renderer import Renderer
from helpers.gemm_build import render
from helpers.hip_compiles import compiled

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]

TEMPLATE = "hip/gemm_tiled.hip.j2"
PARAMETERS = {"BlockSize": 256, "MPerBlock": 128, "NPerBlock": 128, "KPerBlock": 16, "MPerThread": 8, "NPerThread": 8}


CASES = {
    "gfx90a": GemmCase("f64", "f64", "f64", accumulator="f64", arch="gfx90a"),
    "gfx942": GemmCase("f8", "bf8", "f8", scale_a="row", scale_b="row", bias="row", activation="gelu", arch="gfx942"),
    "gfx950": GemmCase("f8", "f8", "bf16", scale_a="tensor", scale_b="tensor", activation="silu", arch="gfx950"),
    "gfx1100": GemmCase("i8", "i8", "f16", accumulator="i32", bias="full row", alpha=0.5, arch="gfx1100"),
}


@pytest.mark.parametrize("arch", CASES)
def test_builds_without_a_warning_and_without_spills(arch: str, toolchain: Toolchain, renderer: Renderer) -> None:
    text = render(renderer, CASES[arch].unit(TEMPLATE, PARAMETERS)).text
    flags = compile_flags(CompileRequest(text, "unit", Language.HIP, arch), toolchain)
    flags += ["-Wall", "-Wextra", "-Werror", "-Wno-unused-command-line-argument", "-Wno-nan-infinity-disabled"]
    compiled(text, toolchain, *flags, "--offload-host-only", "-fsyntax-only")
    code_object = compiled(text, toolchain, *flags, "--offload-device-only", "--no-gpu-bundle-output")
    command = [str(toolchain.readelf), "--notes", str(code_object)]
    notes = subprocess.run(command, env=dict(toolchain.environment), capture_output=True, text=True, check=True).stdout
    assert re.findall(r"\.vgpr_spill_count: *(\d+)", notes) == ["0", "0"]
    accumulator_bytes = 8 if arch == "gfx90a" else 4
    lds = max(map(int, re.findall(r"\.group_segment_fixed_size: *(\d+)", notes)))
    assert lds == 16 * (128 + 4) * 2 * accumulator_bytes
