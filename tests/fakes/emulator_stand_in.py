"""Builds the stand-in for the emulator's library (tests/data/emulator_stand_in)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.kept_builds import content, identity, kept

SOURCE = Path(__file__).parent.parent / "data/emulator_stand_in/libamdhip64.c"


def build_stand_in(folder: Path) -> Path:
    """The library in `folder`. Its name for the linker is not HIP's, so that nothing else in this process meets it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    target = folder / "libamdhip64.so.7"
    flags = ("-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden")
    command = (compiler, *flags, "-Wl,-soname,libemulator-stand-in.so", str(SOURCE), "-o")

    def make(library: Path) -> None:
        subprocess.run([*command, library], check=True)

    made = kept("stand-ins", (*identity(compiler), *command, content(SOURCE.parent)), make)
    shutil.copy(made, target)
    return target
