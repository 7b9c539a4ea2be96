"""The compiler that is really there: it compiles CK, ck_tile and host C++, and runs host programs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.doctor import CheckState, examine
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.model.errors import ToolchainError
from references.executed_lines import executed_lines

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    try:
        return discover()
    except ToolchainError as error:
        pytest.skip(error.message)


def compile_with(toolchain: Toolchain, program: Path, arguments: Sequence[str | Path], folder: Path) -> None:
    done = subprocess.run(
        [program, *arguments], env=dict(toolchain.environment), cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


async def test_the_doctor_is_content() -> None:
    report = await examine(None, os.environ, smoke=True)
    assert [check for check in report.checks if check.state is CheckState.MISSING] == []
    assert {"gfx90a", "gfx942", "gfx950"} <= set(report.archs)


def test_finding_it_again_is_little_work_and_starts_nothing(
    toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    found: list[Toolchain] = []
    assert executed_lines(lambda: found.append(discover())) < 100_000
    assert found[0].identity == toolchain.identity


@pytest.mark.parametrize("program", ["hipcc", "clangxx"])
def test_an_executable_with_ck_tile_can_be_linked(toolchain: Toolchain, tmp_path: Path, program: str) -> None:
    folder = tmp_path / "ein Ordner ü"
    folder.mkdir()
    source = folder / "tile.hip"
    source.write_text("#include <ck_tile/core.hpp>\n__global__ void k() {}\nint main() { k<<<1, 64>>>(); }\n")
    includes = [part for include in toolchain.include_folders for part in ("-isystem", str(include))]
    flags = ["-x", "hip", "-std=c++17", "-O1", "-w", "--offload-arch=gfx90a", "--hip-link"]
    output = ["tile.hip", "-o", "tile", *toolchain.link_arguments]
    compile_with(toolchain, getattr(toolchain, program), [*toolchain.hip_arguments, *includes, *flags, *output], folder)
    assert (folder / "tile").exists()


def test_an_openmp_program_runs_on_this_host(toolchain: Toolchain, tmp_path: Path) -> None:
    if not toolchain.openmp:
        pytest.skip("no OpenMP runtime")
    (tmp_path / "sum.cpp").write_text(
        "#include <omp.h>\n#include <vector>\nint main() {\n  long sum = 0;\n"
        "  std::vector<int> v(1000, 3);\n"
        "#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 7) num_threads(4)\n"
        "  for (int i = 0; i < 1000; ++i) sum += v[i];\n"
        "  return sum == 3000 && omp_get_max_threads() > 0 ? 42 : 1;\n}\n"
    )
    command = [
        *toolchain.cpp_arguments,
        "-fopenmp",
        "-O2",
        "-Werror",
        "sum.cpp",
        "-o",
        "sum",
        *toolchain.link_arguments,
    ]
    compile_with(toolchain, toolchain.clangxx, command, tmp_path)
    assert subprocess.run([tmp_path / "sum"]).returncode == 42
