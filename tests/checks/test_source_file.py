"""Diagnostics of source files that no template renders."""

from __future__ import annotations

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.checks.compiler.source_file import source_file_diagnostics
from ckwatch.model.diagnostics import Severity
from ckwatch.model.text import Position, Span

LINES = ["int main() { return undefned; }"]
ERROR = """/p/a.hip:1:21:{1:21-1:29}: error: use of undeclared identifier 'undefned' [Semantic Issue]
    1 | int main() { return undefned; }
      |                     ^~~~~~~~
"""
LINK = """/usr/bin/ld: /tmp/a.o: in function `main':
a.hip:(.text+0x5): undefined reference to `elsewhere()'
clang++: error: linker command failed with exit code 1 (use -v to see invocation)
"""


def read_line(path: str, line: int) -> str | None:
    return LINES[line] if path == "/p/a.hip" and line < len(LINES) else None


def test_what_both_passes_say_is_said_once() -> None:
    (found,) = source_file_diagnostics(parse_clang_log(ERROR + ERROR), "/p/a.hip", read_line)
    assert found.span == Span("/p/a.hip", Position(0, 20), Position(0, 28))
    assert (found.severity, found.code) == (Severity.ERROR, "clang/undeclared-identifier")


def test_a_linker_speaks_of_the_file_and_not_of_itself() -> None:
    (found,) = source_file_diagnostics(parse_clang_log(LINK), "/p/a.hip", read_line)
    assert (found.code, found.message) == ("linker/undefined-symbol", "undefined reference to `elsewhere()'")
    assert found.span == Span("/p/a.hip", Position(0, 0), Position(0, 0))
