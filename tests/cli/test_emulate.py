"""`ckwatch emulate`: what the program gets, and what is told of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from ckwatch.cli import main
from ckwatch.cli.emulate import folded
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.text import Position, Span
from fakes.hip_stand_in import build_hip
from helpers.code_objects import content

PROGRAM = f"""
import contextlib, ctypes, os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from references.wave_emulator import WaveEmulator, WaveState
emulator = WaveEmulator(Path("libamdhip64.so.7"))  # as the linker finds it
if sys.argv[1] == "wrong":
    with contextlib.suppress(AssertionError):
        emulator.run(["v_foo v0, v1 // 7E000301"], "gfx90a", WaveState())
print(os.environ["CKWATCH_EMULATOR_ARCH"], os.environ["CKWATCH_EMULATOR_OBJDUMP"], sys.argv[2:])
sys.exit(int(sys.argv[2]))
"""


Emulate = Callable[..., int]


@pytest.fixture
def emulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Emulate:
    """The command, with a toolchain and a library that is built; returns its exit status."""
    library = build_hip(tmp_path) / "lib/libamdhip64.so.7"
    library.with_name("libamdhip64.so").rename(library)

    async def build_library(folder: Path, clang: Path, on_build: Callable[[], None]) -> Path:
        assert (folder.name, clang) == ("emulator", Path("/clang"))
        if not library.with_name("built").exists():
            library.with_name("built").touch()
            on_build()
        return library

    found = SimpleNamespace(clang=Path("/clang"), objdump=Path("/objdump"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> int:
        return main(["emulate", *words], discover=lambda _choice: found, build_library=build_library)

    return run


@pytest.fixture
def run(emulate: Emulate) -> Emulate:
    """`PROGRAM` on the emulator."""
    return partial(emulate, "--arch", "gfx90a", sys.executable, "-c", PROGRAM)


def test_a_program_gets_the_emulator(run: Emulate, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("right", "0", "--arch", "-C") == 0
    printed, said = capfd.readouterr()
    assert printed == "gfx90a /objdump ['0', '--arch', '-C']\n"
    assert said == "Building the emulator (once) …\n"
    assert run("right", "0") == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("ends", "status"), [("0", 1), ("3", 3)])
def test_what_was_found_is_told_at_the_end(
    run: Emulate, capfd: pytest.CaptureFixture[str], ends: str, status: int
) -> None:
    assert run("wrong", ends) == status
    said = capfd.readouterr()
    assert said.out == f"gfx90a /objdump ['{ends}']\n"
    assert said.err.splitlines()[-1].startswith("gfx90a (emulated): ")
    assert "the emulator does not know `v_foo v0, v1`" in said.err


def test_the_status_of_a_program_that_is_killed(emulate: Emulate) -> None:
    assert emulate("sh", "-c", "kill -9 $$") == 137


NO_PROGRAMS = {
    "./nothing": "No such file or directory",
    "nothing-on-path": "no such program on PATH",
    "./folder": "it is a folder",
    "./plain": "it is not executable; see `chmod +x`",
    "./words": "it is neither a program (ELF) nor a script that begins with #!",
    "./object": "it is an object file, not a program",
    "./code.hsaco": "it is device code of an AMD GPU, not a program of this machine",
}


@pytest.mark.parametrize("name", NO_PROGRAMS)
def test_what_cannot_be_run_is_said_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    program = Path(sys.executable).read_bytes()[:64]
    files = {"plain": program, "words": b"words\n", "object": program[:16] + b"\1\0" + program[18:]}
    for entry, text in (files | {"code.hsaco": content("limits.gfx942")}).items():
        (tmp_path / entry).write_bytes(text)
        (tmp_path / entry).chmod(0o644 if entry == "plain" else 0o755)
    assert main(["emulate", name], discover=None) == 2
    assert f"{name} cannot be run: {NO_PROGRAMS[name]}" in capfd.readouterr().err


def test_findings_of_one_place_are_one() -> None:
    def finding(line: int, instruction: str) -> Diagnostic:
        span = Span("/p/a.hip", Position(line, 0), Position(line, 1))
        return Diagnostic(Severity.ERROR, Source.VERIFY, "verify/lds-race", f"a race at `{instruction}`", span)

    found: list[tuple[str, Diagnostic | str]] = [
        ("k", finding(3, "ds_read_u16 v5")),
        ("k", "no line"),
        ("k", finding(3, "ds_read_u16 v6")),
        ("k", finding(4, "ds_write_b16 v5")),
        ("other", finding(3, "ds_read_u16 v5")),
        ("k", "no line"),
    ]
    assert [one if isinstance(one, str) else one.message for one in folded(found)] == [
        "a race at `ds_read_u16 v5`; also at 1 other instruction of this place",
        "no line",
        "a race at `ds_write_b16 v5`",
        "a race at `ds_read_u16 v5`",
    ]
