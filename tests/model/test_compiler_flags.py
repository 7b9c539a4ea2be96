"""Flags as they are written: what belongs together, and which folders they name."""

from __future__ import annotations

from ckwatch.model.compiler_flags import absolute_flags, flag_groups, folder_of
from helpers.each_row import each_row


@each_row(
    ("given", "expected"),
    [
        (["-Iinclude"], ["-I/ws/include"]),
        (["-I", "include"], ["-I", "/ws/include"]),
        (["-I../shared/./inc"], ["-I/shared/inc"]),
        (["-isystem", "a b", "-iquote.", "-idirafter", "/abs"], ["-isystem", "/ws/a b", "-iquote/ws", "-idirafter", "/abs"]),
        (["-Llib", "-L", "lib", "-F", "frameworks"], ["-L/ws/lib", "-L", "/ws/lib", "-F", "/ws/frameworks"]),
        (["--sysroot=root", "--include-path=inc"], ["--sysroot=/ws/root", "--include-path=/ws/inc"]),
        (["objects/extra.o", "libx.a"], ["/ws/objects/extra.o", "/ws/libx.a"]),
        (["-I=inc", "-I/abs/inc"], ["-I=inc", "-I/abs/inc"]),
        (["-mllvm", "-Iinclude", "-O2", "-lx.o"], ["-mllvm", "-Iinclude", "-O2", "-lx.o"]),
        (["-include", "common.h"], ["-include", "common.h"]),
        (["-O2", "-I"], ["-O2"]),
    ],
)  # fmt: skip
def test_folders_are_relative_to_the_file_that_names_them(given: list[str], expected: list[str]) -> None:
    assert list(absolute_flags(given, "/ws")) == expected


def test_groups() -> None:
    groups = list(flag_groups(["-O2", "-I", "inc", "-Iinc", "-mllvm"]))
    assert groups == [(0, ("-O2",)), (1, ("-I", "inc")), (3, ("-Iinc",)), (4, ("-mllvm",))]
    assert [folder_of(group) for _, group in groups] == [None, "inc", "inc", None]
