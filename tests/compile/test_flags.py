"""Compiler flags and their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.checks.clang_output import CLANG_DIAGNOSTIC_FLAGS
from ckwatch.compile.flags import CPP_FLAGS, HIP_FLAGS, compile_flags, include_flags, link_flags, user_compile_flags
from ckwatch.model.targets import Language
from fakes.fake_compiler import FakeToolchain, request_with

TOOLCHAIN = FakeToolchain(Path("hipcc"), Path("clang++"), include_folders=(Path("/ck"), Path("/ck tile")))


@pytest.mark.parametrize(
    ("flags", "compiling", "linking"),
    [
        (("-O2", "-lfoo", "-g"), ["-O2", "-g"], ["-lfoo"]),
        (("-L/a b", "-Wl,-z,now", "-Wall"), ["-Wall"], ["-L/a b", "-Wl,-z,now"]),
        (("-Xlinker", "-Map=x", "-DX"), ["-DX"], ["-Xlinker", "-Map=x"]),
        (("-Xlinker", "-Xlinker", "-DX"), ["-DX"], ["-Xlinker", "-Xlinker"]),
        (("-mllvm", "-lx", "-lx"), ["-mllvm", "-lx"], ["-lx"]),
        (("-L", "lib", "-I", "inc", "-l", "x"), ["-I", "inc"], ["-L", "lib", "-l", "x"]),
        (("-isystem", "-lx", "more/extra.o", "-lineinfo"), ["-isystem", "-lx", "-lineinfo"], ["more/extra.o"]),
    ],
)
def test_own_flags(flags: tuple[str, ...], compiling: list[str], linking: list[str]) -> None:
    request = request_with(flags=flags)
    assert (user_compile_flags(request), link_flags(request)) == (compiling, linking)


def test_own_flags_come_after_the_defaults() -> None:
    flags = compile_flags(request_with(flags=("-O1",), defines=("A", "B=a b")), TOOLCHAIN)
    assert flags[: len(HIP_FLAGS) + 1] == [*HIP_FLAGS, "--offload-arch=gfx942"]
    assert flags[-len(CLANG_DIAGNOSTIC_FLAGS) - 3 :] == ["-O1", "-DA", "-DB=a b", *CLANG_DIAGNOSTIC_FLAGS]


def test_an_old_compiler_gets_no_flag_that_it_does_not_know() -> None:
    unknown = ("--no-offload-compress", CLANG_DIAGNOSTIC_FLAGS[0])
    flags = compile_flags(request_with(), FakeToolchain(Path("h"), Path("c"), unknown_flags=unknown))
    assert flags == [flag for flag in compile_flags(request_with(), TOOLCHAIN) if flag not in unknown]


@pytest.mark.parametrize(("openmp", "expected"), [(True, "-fopenmp"), (False, "-fopenmp-simd")])
def test_host(openmp: bool, expected: str) -> None:
    toolchain = FakeToolchain(Path("h"), Path("c"), openmp=openmp)
    flags = compile_flags(request_with(language=Language.CPP, arch="host"), toolchain)
    assert flags[: len(CPP_FLAGS) + 1] == [*CPP_FLAGS, expected]
    assert not [flag for flag in flags if "offload" in flag or "amdgpu" in flag]


@pytest.mark.parametrize(
    ("language", "folder", "own"),
    [
        (Language.HIP, "/mine", ["-iquote", "/mine", "-idirafter", "/mine"]),
        (Language.CPP, "/my own", ["-iquote", "/my own", "-idirafter", "/my own"]),
        (Language.CU, "/mine", ["-Xcompiler=-iquote,/mine", "-Xcompiler=-idirafter,/mine"]),
        (Language.CU, "/my own", ["-I/my own"]),
    ],
)
def test_own_folders_come_before_ck(language: Language, folder: str, own: list[str]) -> None:
    flags = include_flags(request_with(language=language, include_folders=(Path(folder),)), TOOLCHAIN)
    assert flags == [*own, "-isystem", "/ck", "-isystem", "/ck tile"]
