"""The commands that hipcc would run: those of a plain HIP compile, and everything else."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from ckwatch.compile.driver_plan import CompilePlan, NoPlanError, PassSide, read_plan
from fakes.fake_hip import PRINTED
from helpers.each_row import each_row

DEVICE, LINK, BUNDLE, HOST = (line for line in PRINTED.splitlines() if line.startswith(' "'))


@pytest.fixture(scope="module")
def plan() -> CompilePlan:
    return read_plan(PRINTED)


def pass_of(plan: CompilePlan, side: PassSide, **more: object) -> list[str]:
    files = {"source": "kernel.hip", "output": "a.o", "headers": "/job/a.txt", "cuid": "7"}
    return plan.pass_command(side, **(files | more))  # type: ignore[arg-type]  # rows are loosely typed


@pytest.mark.parametrize(
    ("side", "triple", "last"),
    [
        (PassSide.DEVICE, "amdgcn-amd-amdhsa", ["-o", "a.o", "-x", "hip", "kernel.hip"]),
        (PassSide.HOST, "x86_64-pc-linux-gnu", ["-o", "a.o", "-x", "hip", "kernel.hip"]),
    ],
)
def test_a_pass(plan: CompilePlan, side: PassSide, triple: str, last: list[str]) -> None:
    command = pass_of(plan, side)
    assert command[:4] == ["/rocm/lib/llvm-22/bin/clang", "-cc1", "-triple", triple]
    assert command[-5:] == last
    assert "-cuid=7" in command
    assert command[command.index("-header-include-file") + 1] == "/job/a.txt"
    assert not [part for part in command if part in ("-dependency-file", "-MT", "-fcuda-include-gpubinary")]
    assert not [part for part in command if part.startswith("/job/") and part != "/job/a.txt"]


@pytest.mark.parametrize(("side", "line"), [(PassSide.DEVICE, DEVICE), (PassSide.HOST, HOST)])
def test_every_other_flag_is_hipccs_own(plan: CompilePlan, side: PassSide, line: str) -> None:
    theirs = shlex.split(line)
    files = {"output": theirs[-4], "headers": "/job/headers.txt", "cuid": "821d557832973ff6"}
    ours = iter(pass_of(plan, side, **files))
    left_out = []
    command = next(ours)
    for part in theirs:
        if part == command:
            command = next(ours, "")
        else:
            left_out.append(part)
    assert command == ""
    dependencies = ["-MT", "kernel.o"]
    bundle = ["-fcuda-include-gpubinary", "/job/temporary/kernel-f3fece.hipfb"]
    host = ["-dependency-file", "kernel.d", *dependencies, *bundle]
    assert left_out == (dependencies if side is PassSide.DEVICE else host)


def test_a_precompiled_header_instead_of_an_object(plan: CompilePlan) -> None:
    command = pass_of(plan, PassSide.DEVICE, source="/p/prefix.hip", emit="-emit-pch", more=("-one", "-two"))
    assert "-emit-obj" not in command
    assert command[-7:] == ["-o", "a.o", "-one", "-two", "-x", "hip", "/p/prefix.hip"]
    assert command[command.index("-main-file-name") + 1] == "/p/prefix.hip"
    assert "-emit-pch" in command


def test_commands_leave_the_plan_as_it_is(plan: CompilePlan) -> None:
    before = plan.device, plan.host
    pass_of(plan, PassSide.DEVICE, more=("-one",))
    pass_of(plan, PassSide.HOST, cuid="8")
    assert (plan.device, plan.host) == before


def test_without_some_folders(plan: CompilePlan) -> None:
    own = ("-iquote", "/ws", "-iquote", "/other", "-idirafter", "/ws")
    wider = replace(plan, host=(*plan.host[:3], *own, *plan.host[3:]))
    without = wider.without_folders(["/ws"])
    assert list(without.host[3:5]) == ["-iquote", "/other"]
    assert wider.without_folders(["/ws", "/other"]) == plan


def test_the_link_and_the_bundle(plan: CompilePlan) -> None:
    link = plan.device_link_command("device.o", "kernel.out")
    assert link[-5:] == ["--whole-archive", "-o", "kernel.out", "device.o", "--no-whole-archive"]
    bundle = plan.bundle_command("kernel.out", "kernel.hipfb")
    assert bundle[-3:] == ["-input=/dev/null", "-input=kernel.out", "-output=kernel.hipfb"]
    assert not [part for part in (*link, *bundle) if part.startswith("/job/")]


LINES = (DEVICE, LINK, BUNDLE, HOST)


def with_part(index: int, old: str, new: str) -> list[str]:
    assert old in LINES[index]
    return [line.replace(old, new) if at == index else line for at, line in enumerate(LINES)]


@each_row(
    ("lines", "reason"),
    [
        ([], "runs 0 programs where 4"),
        (["hipcc: error: unknown argument"], "runs 0 programs where 4"),
        (LINES[:3], "runs 3 programs where 4"),
        ([*LINES, LINK], "runs 5 programs where 4"),
        ([HOST, LINK, BUNDLE, DEVICE], "device pass comes in another order"),
        ([LINK, DEVICE, BUNDLE, HOST], "device pass is not a call of clang"),
        ([DEVICE, LINK, HOST, BUNDLE], "host pass is not a call of clang"),
        ([DEVICE, BUNDLE, LINK, HOST], "code object is linked by an unknown program"),
        (with_part(1, '"-flavor"', '"-style"'), "code object is linked by an unknown program"),
        (with_part(1, '.o"', '.bc"'), "code object is linked by an unknown program"),
        (with_part(2, '"-input=/dev/null"', ""), "fat binary is made by an unknown program"),
        (with_part(2, '"-targets=host', '"-targets=other'), "fat binary is made by an unknown program"),
        (with_part(0, '"-emit-obj"', '"-emit-llvm-bc"'), "device pass makes something other than an object"),
        (with_part(3, '"-x" "hip"', '"-x" "hip-cpp-output"'), "host pass makes something other than an object"),
        (with_part(3, '"kernel.hip"', '"kernel.hip" "two.hip"'), "host pass makes something other than an object"),
        (with_part(0, '"-header-include-file"', '"-no-list"'), "device pass names no output, source or list"),
        (with_part(0, '"-main-file-name"', '"-file"'), "device pass names no output, source or list"),
        (with_part(3, '"-fcuda-include-gpubinary"', '"-include"'), "host pass takes in no fat binary"),
        (with_part(0, '"-O3"', '"-O3" "-fgpu-rdc"'), "device pass writes more files"),
        (with_part(3, '"-O3"', '"-O3" "-split-dwarf-file" "a.dwo"'), "host pass writes more files"),
        (with_part(0, '"-O3"', '"-O3'), "cannot be read"),
    ],
)  # fmt: skip
def test_what_is_no_plan(lines: list[str], reason: str) -> None:
    with pytest.raises(NoPlanError, match=reason):
        read_plan("".join(f"{line}\n" for line in lines))


def test_what_is_said_around_the_commands_is_passed_over(plan: CompilePlan) -> None:
    assert read_plan(f"clang: warning: unused\nInstalledDir: /rocm\n{PRINTED}\n") == plan
