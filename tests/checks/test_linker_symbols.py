"""Symbols that linkers and assemblers name, found in C++ text."""

from __future__ import annotations

import pytest

from ckwatch.checks.clang_output import ClangMessage, parse_clang_log
from ckwatch.checks.linker_symbols import (
    NamedSymbol,
    SymbolProblem,
    declaration,
    demangled,
    last_name,
    readable,
    symbol_of,
    uses,
)
from ckwatch.checks.nvcc_output import parse_nvcc_log
from helpers.each_row import each_row

TEXT = """\
#include "compute.h"
// compute(3)
int compute(int);
namespace a { struct Planner { int plan(int) const; int twice() { return compute(2); } }; }
static inline int helper(int n) noexcept { const char* s = "compute("; return n; }
__global__ void __launch_bounds__(256) fill_kernel(int* p) { *p = 3; }
int table[] = { 1, 2 };
extern "C" __attribute__((visibility("default"))) int entry() {
    if (true) { return compute(3); }
    a::Planner planner;
    return planner.plan(3) + table[0];
}
struct Base { virtual int run(); };
int second() { return compute(4); }
"""

GNU = "/usr/bin/ld: kernel.o: in function `{where}':\n(.text+0x1c5): undefined reference to `{what}'"
LLD = "lld: error: undefined hidden symbol: {what}\n>>> referenced by kernel.hip\n>>>               device.o:({where})"


def only(log: str) -> ClangMessage:
    (message,) = [*parse_nvcc_log(log)] if "ptxas" in log else parse_clang_log(log)
    return message


@each_row(
    ("log", "lines"),
    [
        (GNU.format(where="entry", what="compute(int)"), [9, 4, 14]),
        (GNU.format(where="second()", what="compute(int)"), [14, 4, 9]),
        (GNU.format(where="elsewhere()", what="compute(int)"), [4, 9, 14]),
        ("kernel.hip:12: undefined reference to `compute(int)'", [4, 9, 14]),
        (LLD.format(where="second()", what="compute(int)"), [14, 4, 9]),
        (GNU.format(where="entry", what="a::Planner::plan(int) const"), [11]),
        (GNU.format(where="entry", what="table"), [11]),
        (GNU.format(where="entry", what="vtable for Base"), [13]),
        (GNU.format(where="entry", what="__device_stub__fill_kernel(int*)"), [6]),
        ("/usr/bin/ld: x.o: in function `helper(int)':\n(.text+0x0): multiple definition of `helper(int)'; kernel.o:(.text+0x0): first defined here", [5]),
        ("ptxas error   : Entry function '_Z11fill_kernelPi' uses too much shared data (0x40000 bytes, 0xc000 max)", [6]),
        ("ptxas fatal   : Unresolved extern function '_Z7computei'", [4, 9, 14]),
        ("ld: error: the source defines no exported function 'entry': declare it", [8]),
        (GNU.format(where="entry", what="elsewhere(int)"), []),
    ],
)  # fmt: skip
def test_uses(log: str, lines: list[int]) -> None:
    symbol = symbol_of(only(log))
    assert symbol is not None
    assert [TEXT.count("\n", 0, one.start) + 1 for one in uses(TEXT, symbol)] == lines


@pytest.mark.parametrize(
    "log", ["clang++: error: unknown argument: '-fnope'", "/usr/bin/ld: cannot find -lnosuch: No such file"]
)
def test_messages_about_something_else(log: str) -> None:
    assert symbol_of(only(log)) is None


def test_the_declaration() -> None:
    found = declaration(TEXT, NamedSymbol(SymbolProblem.UNDEFINED, "compute(int)", "compute"))
    assert found is not None
    assert TEXT.count("\n", 0, found.start) + 1 == 3


@each_row(
    ("symbol", "name"),
    [
        ("compute(int)", "compute"),
        ("a::Planner::plan(int) const", "plan"),
        ("int later<int>(int)", "later"),
        ("(anonymous namespace)::foo(int)", "foo"),
        ("operator+(Box, Box)", "operator+"),
        ("void ns::k<ck::X<(int)3>, 4>(int)", "k"),
        ("_ZN2ns3fooEi", "foo"),
        ("_ZZ6helperPKiiE3sum", "helper"),
        ("_ZN12_GLOBAL__N_13barEv", "bar"),
        ("_Z26__device_stub__fill_kernelPi", "fill_kernel"),
    ],
)
def test_names(symbol: str, name: str) -> None:
    assert last_name(readable(symbol)) == name


def test_names_in_text() -> None:
    assert (
        demangled("Entry function '_Z11fill_kernelPti' uses too much") == "Entry function 'fill_kernel' uses too much"
    )
