"""What of a source can be precompiled."""

from __future__ import annotations

import pytest

from ckwatch.compile.prefix import can_warm_up, family_of, include_prefix, warm_text

A, B = "#include <a>\n", '#include "b.h"\n'


@pytest.mark.parametrize(
    ("source", "prefix"),
    [
        ("", ""),
        ("int x;\n", ""),
        ("// only a comment\n", ""),
        ("#define A 1\nint x;\n", ""),
        (A, A),
        ("#include <a>", "#include <a>"),
        (f"{A}int x;\n{B}", A),
        (f"{A}\n{B}\nint x;\n", f"{A}\n{B}"),
        (f"// one\n/* two */\n{A}// three\nint x;\n", f"// one\n/* two */\n{A}"),
        (f"/* a\nint b;\n*/\n{A}int x;\n", f"/* a\nint b;\n*/\n{A}"),
        (f"/* a */ {A}int x;\n", f"/* a */ {A}"),
        (f"/* a */ int x;\n{A}", ""),
        (f"/* a\n*/ int x;\n{A}", ""),
        (f"/*\n{A}*/\nint x;\n", ""),
        (f"// {A}int x;\n", ""),
        (f"#define M 1\n{A}#define N 2\nint x;\n", f"#define M 1\n{A}"),
        (f"#pragma once\n{A}#pragma unroll\nint x;\n", f"#pragma once\n{A}"),
        ("  #  include <a>\nint x;\n", "  #  include <a>\n"),
        (f"#if X\n{A}#endif\nint x;\n", f"#if X\n{A}#endif\n"),
        (f"#ifdef X\n{A}#else\n{B}#endif\nint x;\n", f"#ifdef X\n{A}#else\n{B}#endif\n"),
        (f"#ifdef X\n#if Y\n{A}#endif\n#endif\nint x;\n", f"#ifdef X\n#if Y\n{A}#endif\n#endif\n"),
        (f"{A}#ifdef X\n{B}int x;\n#endif\n", A),
        (f"#ifdef X\nint x;\n#endif\n{A}", ""),
        (f"{A}#ifdef X\n#define Y\n#endif\n{B}int x;\n", f"{A}#ifdef X\n#define Y\n#endif\n{B}"),
        (f"#define M \\\n  int x;\n{A}int y;\n", f"#define M \\\n  int x;\n{A}"),
        (f"// a \\\nint x;\n{A}int y;\n", f"// a \\\nint x;\n{A}"),
        (f"{A.strip()}\r\n{B.strip()}\r\nint x;\r\n", f"{A.strip()}\r\n{B.strip()}\r\n"),
        ('extern "C" {\n#include <a>\n}\n', ""),
        (f"{A}template <class T>\n{B}", A),
    ],
)
def test_prefix(source: str, prefix: str) -> None:
    assert include_prefix(source) == prefix


@pytest.mark.parametrize(
    ("source", "able", "family"),
    [
        ("int x;\n", False, ""),
        ("#ifdef CKWATCH_WARM_UP\n#endif\n", True, ""),
        ("// CKWATCH_WARM_UP: v3 Intrawave\n", True, "v3 Intrawave"),
        ("int x;\n  //CKWATCH_WARM_UP:\tv1  \nint y;\n", True, "v1"),
        ("// CKWATCH_WARM_UP:\nint y;\n", True, ""),
        ("// CKWATCH_WARM_UP: a\n// CKWATCH_WARM_UP: b\n", True, "a"),
    ],
)
def test_taking_part(source: str, able: bool, family: str) -> None:
    assert (can_warm_up(source), family_of(source)) == (able, family)


def test_text_of_a_warm_header() -> None:
    symbol = "k_0123456789ab"
    text = warm_text(A, f"{A}int {symbol}();\nnamespace {symbol}_unit {{}}\n", symbol)
    lines = text.splitlines()
    assert lines[:2] == ["#include <a>", "#define CKWATCH_WARM_UP 1"]
    assert lines[2:5] == ["#include <a>", f"int {symbol}_warm_up();", f"namespace {symbol}_warm_up_unit {{}}"]
    assert lines[-1] == "#undef CKWATCH_WARM_UP"
    assert text.endswith("\n")
