"""Places of back ends and linkers, as they print them for code with line tables."""

from __future__ import annotations

import pytest

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.checks.compiler.diagnose import diagnose
from ckwatch.checks.compiler.sources import CompilerInputs
from ckwatch.checks.line_table_places import lacks_place, with_line_table_places
from ckwatch.model.diagnostics import Diagnostic
from helpers.clang_logs import TEMPLATE, mapped, unit_of
from helpers.each_row import each_row

ILLEGAL = "error: Illegal instruction detected: Invalid dpp_ctrl value [Backend Issue]\nrenamable $vgpr0 = V_MOV_B32_dpp undef $vgpr0(tied-def 0), 322, implicit $exec"
FRAME = "error: {}: stack frame size (280016) exceeds limit (131056) in function '_Z1kPfi' [Backend Issue]\n"
DEVICE = "lld: error: undefined symbol: other(float)\n{}>>>               device.o:(k(float*))\n"
HOST = "/usr/bin/ld: kernel.o: in function `twice(int)':\n{}: undefined reference to `project_abort'\n"
SELECT = "fatal error: error in backend: Cannot select: intrinsic %llvm.amdgcn.mfma.f32.16x16x32.bf16\n"

TEXT = """\
#include "../outside/part.hpp"
__device__ float other(float);
__global__ void k(float* p, int n) {
  p[0] = other(p[1]);
}
"""
HEADER = """\
#pragma once
#define CHECK_LEN(n) if ((n) < 0) project_abort(__FILE__, __LINE__)
extern "C" void project_abort(const char* file, int line);
inline void twice(int n) {
  CHECK_LEN(n); CHECK_LEN(n + 1);
  project_abort("", n);
}
"""
OUTSIDE = "/ws/outside/part.hpp"


def diagnosed(log: str, header: str = HEADER) -> list[Diagnostic]:
    def read_line(path: str, number: int) -> str | None:
        return dict(enumerate(header.split("\n"))).get(number) if path == OUTSIDE else None

    return list(
        diagnose(
            with_line_table_places(parse_clang_log(log)),
            unit=unit_of(TEXT),
            source_path="kernel.hip",
            source_map=mapped(TEXT),
            read_line=read_line,
            inputs=CompilerInputs(folders=("/ws/templates",)),
        )
    )


@each_row(
    ("log", "path", "line", "column", "related"),
    [
        (f"{ILLEGAL}, debug-location !23; kernel.hip:4:10\n", TEMPLATE, 4, 10, ["the instruction is renamable"]),
        (f"{ILLEGAL}, debug-location !23; /opt/a.h:2:53 @[ kernel.hip:4:10 ]\n", TEMPLATE, 4, 10, ["Illegal instruction", "the instruction is", "inlined here"]),
        (FRAME.format("kernel.hip:3:0"), TEMPLATE, 3, 17, []),
        (FRAME.format("<unknown>:0:0"), TEMPLATE, 3, 17, []),
        (DEVICE.format(">>> referenced by kernel.hip:4 (./kernel.hip:4)\n"), TEMPLATE, 4, 10, []),
        (DEVICE.format(">>> referenced by kernel.hip:4\n"), TEMPLATE, 4, 10, []),
        (DEVICE.format(""), TEMPLATE, 4, 10, ["declared here, and defined nowhere"]),
        (HOST.format(f"{OUTSIDE}:5"), OUTSIDE, 5, 3, ["the macro 'CHECK_LEN' uses 'project_abort' here", "included here"]),
        (HOST.format("/ws/templates/../outside/part.hpp:6"), OUTSIDE, 6, 3, ["included here"]),
        (HOST.format("(.text+0x1c5)"), OUTSIDE, 6, 3, ["included here"]),
    ],
)  # fmt: skip
def test_the_place(log: str, path: str, line: int, column: int, related: list[str]) -> None:
    (found,) = diagnosed(log)
    assert (found.span.path, found.span.start.line + 1, found.span.start.column + 1) == (path, line, column)
    assert [one.message[: len(begin)] for one, begin in zip(found.related, related, strict=True)] == related


def test_a_macro_without_line_tables() -> None:
    (found,) = diagnosed(HOST.format("(.text+0x1c5)"), HEADER.replace('  project_abort("", n);\n', ""))
    assert (found.span.path, found.span.start.line + 1) == (OUTSIDE, 5)


def test_all_uses_of_a_symbol_are_one_error() -> None:
    log = HOST.format(f"{OUTSIDE}:5") + f"/usr/bin/ld: {OUTSIDE}:6: undefined reference to `project_abort'\n"
    (found,) = diagnosed(log)
    assert found.related[-1].message == "also here"
    assert found.related[-1].span is not None
    assert found.related[-1].span.start.line + 1 == 6


def test_an_intrinsic_that_cannot_be_selected_is_at_its_call() -> None:
    header = '__device__ f4 mma(b8, f4) __asm("llvm.amdgcn.mfma.f32.16x16x32.bf16");\n__device__ void tile(f4* p) {\n  p[0] = mma(q, p[0]);\n}\n'
    (found,) = diagnosed(SELECT, header)
    assert (found.span.path, found.span.start.line + 1, found.span.start.column + 1) == (OUTSIDE, 3, 10)


def test_the_assembler_says_what_it_got() -> None:
    log = "kernel.hip:4:10: error: not a valid operand. [Inline Assembly Issue]\n<inline asm>:1:19: note: instantiated into assembly here\n    1 |         v_mov_b32 v1, v1 bogus:1\n      |                          ^\n"
    (found,) = diagnosed(log)
    assert [one.message for one in found.related] == ["instantiated into assembly here: v_mov_b32 v1, v1 bogus:1"]


@pytest.mark.parametrize(
    ("log", "lacks"),
    [
        (ILLEGAL, True),
        (f"{ILLEGAL}, debug-location !2; kernel.hip:4:10\n", False),
        (FRAME.format("<unknown>:0:0"), True),
        (DEVICE.format(""), True),
        (DEVICE.format(">>> referenced by kernel.hip:4\n"), False),
        (HOST.format("(.text+0x1)"), True),
        (SELECT, False),
        ("kernel.hip:1:2: error: expected ';'\n", False),
        ("clang++: error: unknown argument: '-fno'\n/usr/bin/ld: cannot find -lx: No such file\n", False),
    ],
)
def test_whether_line_tables_would_help(log: str, lacks: bool) -> None:
    assert lacks_place(with_line_table_places(parse_clang_log(log))) is lacks
