"""Builds the stand-ins for AMD's libraries (tests/data/hip_stand_in) and runs things on them.

HIP's is the emulator's library with calls that fail. No time taken on it means anything.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ckwatch.verification.library import COMPILE_FLAGS, LINK_FLAGS
from ckwatch.verification.library import SOURCES as EMULATOR
from fakes.patience import PATIENCE_S
from helpers.kept_builds import content, identity, kept

SOURCES = Path(__file__).parent.parent / "data/hip_stand_in"
SCENARIOS = Path(__file__).parent.parent / "cases/hip_scenarios.py"
DESCRIPTION = "stand-in for HIP in tests (host memory, no GPU)"
PCI = "0000:c1:00.0"

_UNOPTIMIZED = [flag for flag in COMPILE_FLAGS if flag not in ("-O3", "-march=native")]  # the quickest to compile
_FLAGS = ("-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden")


def build_hip(rocm: Path, *, without: str = "") -> Path:
    """libamdhip64.so under the folder `rocm`, which becomes ROCM_PATH; `without` a function, if one is named."""
    library = rocm / "lib/libamdhip64.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    name = without.encode()
    library.write_bytes(_hip().replace(name, b"-" * len(name)))
    return rocm


@functools.cache
def _hip() -> bytes:
    sources = [*sorted(EMULATOR.glob("*.c")), SOURCES / "hip_failures.c"]

    def make(library: Path) -> None:
        _run(["cc", *_UNOPTIMIZED, f"-I{EMULATOR}", *map(str, sources), "-o", str(library), *LINK_FLAGS])

    flags = [flag.replace(str(EMULATOR), "") for flag in (*_UNOPTIMIZED, *LINK_FLAGS)]  # wherever this checkout is
    return kept("stand-ins", (*_made_of(), "hip", *flags), make).read_bytes()


def build_blas(rocm: Path, *names: str) -> None:
    """librocblas.so and libhipblaslt.so beside it."""
    for name in names:
        _compile(rocm / f"lib/{name}.so", f"{name}.c", *_linked(rocm))


def build_kernels(rocm: Path, target: Path) -> Path:
    """The shared object with the tests' kernels."""
    _compile(target, "kernels.c", *_linked(rocm))
    return target


def build_amdsmi(rocm: Path) -> None:
    """libamd_smi.so with everything that the amdsmi package looks for when it is imported."""
    found = importlib.util.find_spec("amdsmi")
    if found is None or found.origin is None:
        pytest.skip("the amdsmi package is not installed")
    wrapper = (Path(found.origin).parent / "amdsmi_wrapper.py").read_text()
    ours = (SOURCES / "libamd_smi.c").read_text()
    names = sorted(set(re.findall(r"_libraries\['libamd_smi.so'\]\.(\w+)", wrapper)))
    missing = [name for name in names if f" {name}(" not in ours]
    rest = rocm / "rest.c"
    rest.write_text("".join(f"int {name}(void) {{ return 2; }}\n" for name in missing))
    flags = [flag for flag in _FLAGS if flag != "-fvisibility=hidden"]
    _run(["cc", *flags, "-o", str(rocm / "lib/libamd_smi.so"), str(SOURCES / "libamd_smi.c"), str(rest)])


def environment(rocm: Path, **settings: str) -> dict[str, str]:
    """The environment in which HIP is the stand-in; `settings` are its own, such as FAIL and DEVICES."""
    others = ("HIP_", "ROCM_", "ROCR_", "CKWATCH_EMULATOR_")
    usual = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    own = {f"HIP_STAND_IN_{name}": value for name, value in settings.items()}
    return usual | own | {"ROCM_PATH": str(rocm), "CKWATCH_EMULATOR_UNCHECKED": "1"}


def scenario(name: str, environment: Mapping[str, str], *arguments: Any) -> Any:
    """Return the result of a function of hip_scenarios.py, run in a process of its own: HIP is never unloaded."""
    command = [sys.executable, str(SCENARIOS), name, *(json.dumps(argument) for argument in arguments)]
    done = subprocess.run(
        command,
        env={**environment, "PYTHONPATH": str(SCENARIOS.parents[1])},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _linked(rocm: Path) -> tuple[str, ...]:
    return (f"-L{rocm / 'lib'}", "-lamdhip64")


def _compile(target: Path, source: str, *flags: str) -> None:
    def make(library: Path) -> None:
        _run(["cc", *_FLAGS, "-o", str(library), str(SOURCES / source), *flags])

    linked = [flag for flag in flags if not flag.startswith("-L")]
    shutil.copy(kept("stand-ins", (*_made_of(), source, *_FLAGS, *linked), make), target)


def _made_of() -> tuple[str, ...]:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler for the stand-ins")
    return (*identity(compiler), content(EMULATOR), content(SOURCES))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
