"""Races between workgroups in `memory_races.hip`, compiled by the real hipcc: every mistake, and none of its twins."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.compile.toolchain.discover import discover

SOURCE = Path(__file__).with_name("memory_races.hip")
KERNELS = frozenset(re.findall(r"__global__ void (\w+)\(", SOURCE.read_text("utf-8")))
ARCHS = ("gfx90a", "gfx942", "gfx1100")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    toolchain, made = discover(), tmp_path_factory.mktemp("races") / "memory_races"
    command = [str(toolchain.hipcc), *toolchain.hip_arguments, *(f"--offload-arch={arch}" for arch in ARCHS)]
    command += ["-O2", str(SOURCE), "-o", str(made), *toolchain.link_arguments]
    subprocess.run(command, env=dict(toolchain.environment), check=True)
    return made


@pytest.mark.toolchain
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_mistake_and_no_twin(program: Path, capfd: pytest.CaptureFixture[str], arch: str) -> None:
    capfd.readouterr()
    assert main(["emulate", "--arch", arch, str(program)]) == 1
    printed = capfd.readouterr()
    assert printed.out == "0 wrong\n"
    found = [line for line in printed.err.splitlines() if "(emulated)" in line]
    assert all("workgroup" in line and "(emulated)" in line for line in found)
    assert {kernel for kernel in KERNELS if any(re.search(rf"\b{kernel}\b", line) for line in found)} == {
        kernel for kernel in KERNELS if kernel.startswith("race_")
    }


def test_the_program_has_mistakes_and_twins() -> None:
    mistakes = {kernel for kernel in KERNELS if kernel.startswith("race_")}
    assert len(mistakes) >= 14
    assert len(KERNELS - mistakes) >= 18
    assert all(kernel.startswith("right_") for kernel in KERNELS - mistakes)
