"""`ckwatch emulate`: what the program gets, and what is told of it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ckwatch.cli import emulate, main
from hip_stand_in import build_hip

PROGRAM = f"""
import contextlib, ctypes, os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from wave_emulator import WaveEmulator, WaveState
emulator = WaveEmulator(Path("libamdhip64.so.7"))  # as the linker finds it
if sys.argv[1] == "wrong":
    with contextlib.suppress(AssertionError):
        emulator.run(["v_foo v0, v1 // 7E000301"], "gfx90a", WaveState())
print(os.environ["CKWATCH_EMULATOR_ARCH"], os.environ["CKWATCH_EMULATOR_OBJDUMP"], sys.argv[2:])
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A toolchain, and a library that is built."""
    library = build_hip(tmp_path) / "lib/libamdhip64.so.7"
    library.with_name("libamdhip64.so").rename(library)

    async def build_library(folder: Path, clang: Path) -> Path:
        assert (folder.name, clang) == ("emulator", Path("/clang"))
        return library

    found = SimpleNamespace(clang=Path("/clang"), objdump=Path("/objdump"))
    monkeypatch.setattr(emulate, "discover", lambda _choice: found)
    monkeypatch.setattr(emulate, "build_library", build_library)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> int:
    return main(["emulate", "--arch", "gfx90a", sys.executable, "-c", PROGRAM, *arguments])


def test_a_program_gets_the_emulator(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("right", "0", "--arch", "-C") == 0
    assert capfd.readouterr() == ("gfx90a /objdump ['0', '--arch', '-C']\n", "")


@pytest.mark.parametrize(("ends", "status"), [("0", 1), ("3", 3)])
def test_what_was_found_is_told_at_the_end(capfd: pytest.CaptureFixture[str], ends: str, status: int) -> None:
    assert run("wrong", ends) == status
    said = capfd.readouterr()
    assert said.out == f"gfx90a /objdump ['{ends}']\n"
    assert said.err.startswith("gfx90a (emulated): ")
    assert "the emulator does not know `v_foo v0, v1`" in said.err


def test_the_status_of_a_program_that_is_killed() -> None:
    assert main(["emulate", "sh", "-c", "kill -9 $$"]) == 137


def test_what_cannot_be_run(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", "./nothing"]) == 2
    assert "./nothing cannot be run: No such file or directory" in capfd.readouterr().err
