"""Keys are equal where programs are, and never where they are not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.model.text import Position
from ckwatch.render.tokens import (
    TokenIndex,
    device_text,
    kernel_symbol,
    token_key,
    without_line_markers,
)
from helpers.each_row import each_row
from references.executed_lines import executed_lines

EQUAL = {
    "blanks": ("int a=1;", "int  a = 1 ;"),
    "newlines": ("int a;\nint b;", "int a;\n\n\n  int b;\r\n"),
    "line comment": ("int a;", "int a; // one\n"),
    "block comment": ("int a;", "/* one\n two */ int /**/ a;"),
    "comment that is continued": ("int a;", "int a; // one \\\n two\n"),
    "comment marks in each other": ("int a;", "// /* \nint a; /* // */"),
    "comment behind a directive": ("#if A\n#endif\n", "#if A // one\n#endif /* two */\n"),
    "comment over lines in a directive": ("#if A B\n#endif", "#if A /* \n */ B\n#endif"),
    "blanks in a directive": ("#include <a.h>\n", "  # include  <a.h>\n\n"),
    "continued macro": ("#define F(x) x + 1\n", "#define F(x) \\\n    x + 1\n"),
    "blanks in a macro's parameters": ("#define F(x,y) x\n", "#define F( x, y ) x\n"),
    "instance emission": ("/* MPerBlock */ 128, 64", "/* tile */128,\n64"),
    "quote in a disabled block": ("#if 0\ndon't\n#endif\nint a;", "#if 0\n  don't\n#endif\nint  a;"),
    "static_assert": ("static_assert(a == 1);", "static_assert( a == 1 );\n"),
    "digit separators": ("int a = 1'000'000; char b = 'x';", "int a = 1'000'000;char b='x';"),
}

DIFFERENT = {
    "names": ("int a;", "int b;"),
    "glued names": ("int a;", "inta;"),
    "glued operators": ("a + +b", "a ++b"),
    "shift and two brackets": ("a >> b", "a > > b"),
    "blanks in a string": ('"a  b"', '"a b"'),
    "comment in a string": ('"a // b"', '"a // c"'),
    "comment mark behind an escaped quote": (r'"\" // a"', r'"\" // b"'),
    "blanks in a character": ("' '", "'  '"),
    "blanks in a raw string": ('R"(a  b)"', 'R"(a b)"'),
    "newlines in a raw string": ('R"(a\n\nb)"', 'R"(a\nb)"'),
    "comment in a raw string": ('R"x( /* )" */ )x"', 'R"x( )" )x"'),
    "raw string with a prefix": ('u8R"( // )" a', 'u8R"( // )" b'),
    "literal with a suffix": ('"a"_s', '"a" _s'),
    "literal with a prefix": ('u8"a"', 'u8 "a"'),
    "end of a directive": ("#define A\nB", "#define A B\n"),
    "function-like macro": ("#define F(x) 1\n", "#define F (x) 1\n"),
    "comment makes a macro object-like": ("#define F(x) 1\n", "#define F/**/(x) 1\n"),
    "header's name": ("#include <a b.h>\n", "#include <ab.h>\n"),
    "comment marks in a header's name": ("#include <a//b.h>\n", "#include <a//c.h>\n"),
    "asked for a header": ("#if __has_include(<a//b>)\n#endif", "#if __has_include(<a//c>)\n#endif"),
    "word glued by a continuation": ("int a\\\nb;", "int a b;"),
    "comment glued by a continuation": ('/\\\n/ "a  b"\n', '/\\\n/ "a b"\n'),
    "error's text opens no comment": ("#error a /* b\nint c; // */", "#error a /* b\nint d; // */"),
    "comment without end": ("int a; /* b", "int a; /* c"),
    "comment ended by a lone carriage return": ("// a\rint b;", "// a\rint c;"),
    "zero byte": ("a\0b", "a b"),
    "line numbers": ("f(__LINE__);", "\nf(__LINE__);"),
    "assertion": ("assert(a);", "\nassert(a);"),
    "assertion of another kind": ("CK_CHECK(a + b);", "CK_CHECK(a+b);"),
    "source_location": ("g(std::source_location::current());", " g(std::source_location::current());"),
    "line marker": ("#line 4\nint a;", "#line 4\n\nint a;"),
    "macro that makes a string": ("#define S(x) #x\nS(a+b)", "#define S(x) #x\nS(a + b)"),
}


@each_row(("first", "second"), EQUAL.values())
def test_equal(first: str, second: str) -> None:
    assert token_key(first) == token_key(second)


@each_row(("first", "second"), DIFFERENT.values())
def test_different(first: str, second: str) -> None:
    assert token_key(first) != token_key(second)


def test_places_on_request() -> None:
    assert token_key("int a;") == token_key("\nint a;")
    assert token_key("int a;", places=True) != token_key("\nint a;", places=True)
    assert token_key("int a; // b", places=True) == token_key("int a;", places=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("static_assert(a);", False),
        ("_Static_assert(a, b);", False),
        ("int my_assert;", True),
        ("float LOG2E;", False),
        ("#define F(x) g(__LINE__, x)\n", True),
        ("#define JOIN(a, b) a##b\n", False),
        ("#pragma unroll\nfor(;;);", False),
    ],
)
def test_depends_on_places(text: str, expected: bool) -> None:
    assert (token_key(text) != token_key(f"\n{text}")) is expected


TOKENS = st.one_of(
    st.sampled_from(["+", "+=", "->", "::", "<<", ">>=", "...", "{", "}", ";", ",", "(", ")", "/", "*", "<", "<=>"]),
    st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True).filter(lambda name: "assert" not in name),
    st.from_regex(r"[0-9](?:[0-9.]|'[0-9]|e[+-]){0,4}", fullmatch=True),
    st.from_regex(r'(?:u8|L)?"(?:[ a-z/*\']|\\["n\\]){0,8}"(?:_k)?', fullmatch=True),
    st.from_regex(r"'(?:[ a-z/*]|\\'){1,2}'", fullmatch=True),
    st.from_regex(r'R"ab\([ a-z/*"\n)]{0,10}\)ab"', fullmatch=True).filter(lambda raw: raw.count(')ab"') == 1),
)
BORDERS = st.one_of(
    st.sampled_from([" ", "\n", "\t", "\r\n", " \\\n ", " /**/ ", " // it's\n"]),
    st.from_regex(r" /\*[ a-z\"'/\n]{0,8}\*/ ", fullmatch=True),
)
LINES = st.sampled_from(["#include <a/b.h>", "#if A > B", "#endif", "#define F(x) x", "#pragma unroll"]).map(
    "\n{}\n".format
)


@given(st.lists(st.one_of(TOKENS, LINES), min_size=1, max_size=12), st.data())
def test_blanks_and_comments_never_count(tokens: list[str], data: st.DataObject) -> None:
    def spelled() -> str:
        return "".join(token + data.draw(BORDERS) for token in tokens)

    assert token_key(spelled()) == token_key(" ".join(tokens))


@given(st.lists(TOKENS, min_size=1, max_size=12), TOKENS, st.data())
def test_each_token_counts(tokens: list[str], other: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(tokens) - 1))
    changed = [*tokens[:at], other, *tokens[at + 1 :]]
    assert (token_key(" ".join(changed)) == token_key(" ".join(tokens))) is (changed == tokens)


@given(st.text(alphabet="ab\"'\\/*#R(){}<>%:\r\n \t0", max_size=40))
def test_any_text_has_a_key_and_places(text: str) -> None:
    index = TokenIndex(text)
    token_key(text)
    for line in range(text.count("\n") + 1):
        place = Position(line, 1)
        moved = index.position(index.anchor(place))
        assert index.position(index.anchor(moved)) == moved


SOURCE = """\
#include "a.h"   // first
template <int MPerBlock> struct Tile {};
#define TWICE(x) \\
    ((x) + (x))
void f() { Tile</* MPerBlock */ 128> tile; undeclared(tile); }
"""


def test_places_move_with_their_tokens() -> None:
    moved = re.sub(r"//.*|/\*.*?\*/", "", SOURCE).replace("void f() {", "\n\nvoid f()\n{\n     /* note */")
    assert token_key(moved) == token_key(SOURCE)
    old, new = TokenIndex(SOURCE), TokenIndex(moved)

    def word(text: str, pattern: str) -> Position:
        offset = text.index(pattern)
        return Position(text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset) - 1)

    for pattern in ("128", "undeclared", "Tile {}", "a.h", "TWICE", "tile)", "(x) + (x)"):
        assert new.position(old.anchor(word(SOURCE, pattern))) == word(moved, pattern)
    inside = word(SOURCE, "undeclared")
    there = word(moved, "undeclared")
    assert new.position(old.anchor(Position(inside.line, inside.column + 5))) == Position(there.line, there.column + 5)
    end = Position(inside.line, inside.column + len("undeclared"))
    assert new.position(old.anchor(end)) == Position(there.line, there.column + len("undeclared"))


def test_place_behind_a_directive_is_the_end_of_its_last_token() -> None:
    index = TokenIndex("#include <a.h>   // b\nint c;")
    assert index.position(index.anchor(Position(0, 18))) == Position(0, 14)
    assert index.position(index.anchor(Position(9, 9))) == Position(1, 6)
    assert TokenIndex("  // only a comment").anchor(Position(0, 4)) == (-1, 0)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("ck/gemm_universal.hip.j2", "ck_gemm_universal_0123456789ab"),
        ("cpp/blocked gemm.cpp.j2", "cpp_blocked_gemm_0123456789ab"),
        ("2d.hip.j2", "kernel_2d_0123456789ab"),
        ("größe.hip.j2", "gr_e_0123456789ab"),
        ("__x__.hip.j2", "x_0123456789ab"),
        ("é.hip.j2", "kernel_0123456789ab"),
        ("plain", "plain_0123456789ab"),
    ],
)
def test_kernel_symbol(template: str, expected: str) -> None:
    assert kernel_symbol(template, "0123456789abcdef") == expected


@given(st.text(max_size=100))
def test_kernel_symbol_is_an_identifier(template: str) -> None:
    symbol = kernel_symbol(template, "0123456789abcdef")
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,79}", symbol)


def test_the_work_grows_with_the_text_and_no_faster() -> None:
    line = "    ck::tensor_operation::device::DeviceGemm<S<4, 64, 1>, /* MPerBlock */ 128>{}; // tile\n"
    once, ten_times = (executed_lines(lambda count=count: token_key(line * count)) for count in (100, 1000))  # type: ignore[misc]
    assert once < 100 * 100
    assert ten_times <= 11 * once


GUARDED = """\
#include <a.h>
#if !defined(__HIP_DEVICE_COMPILE__)
int host() {
#if X
  return 1;
#endif
}
#else
int device();
#endif
__global__ void kernel();
"""


def test_comments_within_a_line_are_no_doubt() -> None:
    assert "host" not in device_text("int /* a */ x;\n#if !defined(__HIP_DEVICE_COMPILE__)\nint host;\n#endif\n")


def test_what_is_the_hosts_alone_is_gone_and_lines_stay() -> None:
    seen = device_text(GUARDED)
    assert seen.count("\n") == GUARDED.count("\n")
    assert "host()" not in seen
    assert "return 1" not in seen
    assert [line for line in seen.split("\n") if line] == [
        "#include <a.h>",
        "#if !defined(__HIP_DEVICE_COMPILE__)",
        "#else",
        "int device();",
        "#endif",
        "__global__ void kernel();",
    ]


@each_row(
    "condition",
    [
        "#if !defined(__HIP_DEVICE_COMPILE__)",
        "#if !defined __HIP_DEVICE_COMPILE__  // host",
        "# if ! defined ( __HIP_DEVICE_COMPILE__ )",
        "#ifndef __HIP_DEVICE_COMPILE__",
        "#if !__HIP_DEVICE_COMPILE__",
        "#if !defined(__HIP_DEVICE_COMPILE__) && X",
        "#if VERSION(1, 2) >= 3\n#elif X && !(__HIP_DEVICE_COMPILE__ || Y)",
        "#if X\n#elifndef __HIP_DEVICE_COMPILE__",
        "#ifdef __HIP_DEVICE_COMPILE__\nint device;\n#else",
        "#if X || __HIP_DEVICE_COMPILE__\n#if X\n#endif\n#elif Y",
        '/* It\'s by\n   "us". */\n#if !defined(__HIP_DEVICE_COMPILE__)  // "',
        "auto text = R\"(\n#if X\n)\";\nint n = 1'000, c = '\"';\n#ifndef __HIP_DEVICE_COMPILE__",
        "#error it's not /* a comment */\n/*\n*/\n#ifndef __HIP_DEVICE_COMPILE__",
    ],
)
def test_ways_to_say_it(condition: str) -> None:
    source = f"{condition}\nint host;\n#endif\nint both;\n"
    seen = device_text(source)
    assert [at for at, line in enumerate(source.split("\n")) if line != seen.split("\n")[at]] == [
        condition.count("\n") + 1
    ]


@each_row(
    "source",
    [
        "int host;\n",
        "#if defined(__HIP_DEVICE_COMPILE__)\nint device;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__) || X\nint both;\n#endif\n",
        "#if !(defined(__HIP_DEVICE_COMPILE__) && X)\nint both;\n#endif\n",
        "#if X\nint a;\n#elif defined(__HIP_DEVICE_COMPILE__)\nint b;\n#endif\n",
        "#if __HIP_DEVICE_COMPILE__ - 1\nint both;\n#endif\n",
        "#if F(__HIP_DEVICE_COMPILE__) && !__HIP_DEVICE_COMPILE__(1)\nint both;\n#endif\n",
        "#undef __HIP_DEVICE_COMPILE__\n#if !defined(__HIP_DEVICE_COMPILE__)\nint both;\n#endif\n",
        '#pragma push_macro("X")\n#if !defined(__HIP_DEVICE_COMPILE__)\nint both;\n#endif\n',
        "#define TEXT \\\n#if !defined(__HIP_DEVICE_COMPILE__)\nint both;\n#endif\n",
        "// on \\\n#if !defined(__HIP_DEVICE_COMPILE__)\nint both;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__) /* or\n*/ || X\nint both;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__)\nint a;\n/*\n*/ #else\nint b;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__)\nint a;\n# /**/ else\nint b;\n#endif\n",
        "#if !defined(__HIP_DEVICE_COMPILE__)\nint unclosed;\n",
        "#endif\n#if !defined(__HIP_DEVICE_COMPILE__)\nint a;\n#endif\n",
        "/*\n#if !defined(__HIP_DEVICE_COMPILE__)\n*/ int seen; /*\n#endif\n*/\n",
        'auto text = R"(\n#if !defined(__HIP_DEVICE_COMPILE__)\n)"; int seen; auto more = R"(\n#endif\n)";\n',
        "#if !defined(__HIP_DEVICE_COMPILE__) \\\n || X\nint both;\n#endif\n",
    ],
)
def test_what_is_in_doubt_counts(source: str) -> None:
    assert device_text(source) == source


@each_row(
    ("text", "expected"),
    [
        ('a\n#line 7 "b c"\nd', "a\n             \nd"),
        ('  # 12 "f" 1 3\nx', "              \nx"),
        ("#line 1 // why\nx", " " * 14 + "\nx"),
        ("#line \\\n 3\nx", "       \n  \nx"),
        ("/* a */ #line 3\r\nx", "/* a */ #line 3\r\nx"),
        ('auto text = R"(\n#line 3\n)";', 'auto text = R"(\n#line 3\n)";'),
        ("// \\\n#line 3\n", "// \\\n#line 3\n"),
        ("/*\n#line 3\n*/", "/*\n#line 3\n*/"),
        ("#line three\n#line\n#line 3 x\n# pragma 3\n", "#line three\n#line\n#line 3 x\n# pragma 3\n"),
        ("x = a # 3;\n", "x = a # 3;\n"),
    ],
)
def test_line_markers_are_blanks(text: str, expected: str) -> None:
    """Lines and columns stay, and so does what only looks like a marker or is a wrong one."""
    assert without_line_markers(text) == expected
