"""HIP's functions against AMD's: names and versions, layouts of structures, and a program that hipcc compiles."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from ckwatch.cli import main
from ckwatch.cli.emulate import REPORT_VARIABLE
from ckwatch.compile.toolchain.discover import discover
from ckwatch.verification.device import ARCH_VARIABLE, OBJDUMP_VARIABLE
from ckwatch.verification.library import SOURCES
from helpers import hip_compiles

CASES = Path(__file__).parents[1] / "cases"
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(600)]


def compiled(source: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    toolchain = discover()
    command = [str(toolchain.hipcc), *toolchain.hip_arguments, *flags, str(source)]
    return subprocess.run(command, env=dict(toolchain.environment), capture_output=True, text=True, check=False)


def test_structures_are_laid_out_as_in_hips_headers(tmp_path: Path) -> None:
    flags = ("--offload-host-only", "-fsyntax-only", "-Wno-invalid-offsetof", f"-I{SOURCES}")
    good = compiled(CASES / "hip_layouts.cpp", *flags)
    assert good.returncode == 0, good.stderr
    (tmp_path / "wrong.cpp").write_text((CASES / "hip_layouts.cpp").read_text() + "SAME(hipPos, PitchedPointer);\n")
    assert "hipPos" in compiled(tmp_path / "wrong.cpp", *flags).stderr


def exports(library: Path) -> set[str]:
    """HIP's functions of a library with their versions."""
    command = ["nm", "-D", "--with-symbol-versions", "--defined-only", str(library)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" [TW] (\w*hip\w*@@hip_[\d.]+)$", lines, re.MULTILINE))


def test_the_library_has_every_function_of_rocm_in_its_version(library: Path) -> None:
    toolchain = discover()
    found = re.search(r"-L(\S+)", " ".join(toolchain.link_arguments))
    assert found is not None
    theirs = exports(Path(found[1], "libamdhip64.so"))
    assert len(theirs) > 500
    assert theirs <= exports(library)


def test_graphs_and_cooperative_launches_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program"
    made = compiled(
        CASES / "hip_launches.hip", "--offload-arch=gfx942", "-O1", "-o", str(program), *discover().link_arguments
    )
    assert made.returncode == 0, made.stderr
    assert main(["emulate", str(program)]) == 0
    said = capfd.readouterr()
    assert said.out == "done\n"
    assert said.err in ("", "Building the emulator (once) …\n")


def started(program: Path, library: Path, report: Path, *arguments: str, **told: str) -> subprocess.Popen[str]:
    environment = {
        "LD_LIBRARY_PATH": str(library.parent),
        ARCH_VARIABLE: "gfx942",
        OBJDUMP_VARIABLE: str(discover().objdump),
        REPORT_VARIABLE: str(report),
    }
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [program, *arguments], env=os.environ | environment | told, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


MUCH_MEMORY = {
    "much": ("4e9", 0, "right\n", ""),
    "without room for races": ("160e6", 0, "right\n", "from here on races between workgroups are not looked for"),
    "without room": ("105e6", 1, "", "1 allocations the one that takes most is that of 50331648 bytes"),
    "without that much": ("90e6", 3, "hipErrorOutOfMemory\n", "hipErrorOutOfMemory for 50331648 bytes"),
}


@pytest.fixture(scope="module")
def much_memory() -> Path:
    toolchain = discover()
    text = (CASES / "much_memory.hip").read_text()
    return hip_compiles.compiled(text, toolchain, "--offload-arch=gfx942", *toolchain.link_arguments)


@pytest.mark.parametrize("case", MUCH_MEMORY)
def test_a_program_that_takes_much_memory(case: str, much_memory: Path, library: Path, tmp_path: Path) -> None:
    memory, status, printed, said = MUCH_MEMORY[case]
    with started(much_memory, library, tmp_path / "report", "48", CKWATCH_EMULATOR_MEMORY=memory) as program:
        out, err = program.communicate()
    assert (program.returncode, out) == (status, printed)
    assert said in err


def test_a_program_that_takes_long_says_what_is_at_work(much_memory: Path, library: Path, tmp_path: Path) -> None:
    with started(much_memory, library, tmp_path / "report", "1", CKWATCH_EMULATOR_PROGRESS_S="0.1") as program:
        assert program.stderr is not None
        line = next(line for line in program.stderr if "1 launch has ended" in line)
        program.communicate()
    assert line.endswith("; none is at work, the program's own code is\n")


def test_accesses_in_the_same_moment_are_found_on_several_threads(library: Path, tmp_path: Path) -> None:
    """Each of 300 launches has 64 races, in whatever order the two threads come there; the right twin has none."""
    toolchain, report = discover(), tmp_path / "report"
    text = (CASES / "same_moment.hip").read_text()
    source = hip_compiles.compiled(text, toolchain, "--offload-arch=gfx942", *toolchain.link_arguments)
    with started(source, library, report, CKWATCH_EMULATOR_THREADS="3") as program:
        program.communicate()
    assert program.returncode == 0
    found = [json.loads(line) for line in report.read_text().splitlines()]
    assert {(one["kind"], one["kernel"], one["count"]) for one in found} == {
        ("memory-race", "_Z10both_writePiS_", 300 * 64),
        ("memory-race", "_Z9one_readsPiS_", 300 * 64),
    }
