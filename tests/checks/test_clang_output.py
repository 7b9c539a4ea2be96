"""Output of clang, its driver and linkers, read line by line."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.checks.clang_output import (
    ClangFixit,
    ClangMessage,
    ClangPosition,
    ClangRange,
    ClangSeverity,
    ClangTextParser,
    Inclusion,
    MessageKind,
    byte_column,
    code_point_column,
    parse_clang_log,
    transient_kind,
)
from helpers.clang_logs import LOGS
from helpers.each_row import each_row

K = MessageKind
S = ClangSeverity


def message(log: str) -> ClangMessage:
    found = parse_clang_log(log)
    assert len(found) == 1, found
    return found[0]


def test_a_located_error_with_ranges_option_and_category() -> None:
    found = message(
        "/ws/a b.hip:3:10:{3:5-3:12}{3:14-3:15}: warning: unused 'x[3]' [-Werror,-Wunused-value,Unused Entity Issue]"
    )
    assert found == ClangMessage(
        severity=S.WARNING,
        path="/ws/a b.hip",
        position=ClangPosition(3, 10),
        ranges=(
            ClangRange(ClangPosition(3, 5), ClangPosition(3, 12)),
            ClangRange(ClangPosition(3, 14), ClangPosition(3, 15)),
        ),
        text="unused 'x[3]'",
        option="unused-value",
        category="Unused Entity Issue",
    )


@pytest.mark.parametrize(
    ("line", "text", "option", "category"),
    [
        ("a.c:1:1: error: bad [Semantic Issue]", "bad", "", "Semantic Issue"),
        ("a.c:1:1: error: no 'f[abi:cxx11]'", "no 'f[abi:cxx11]'", "", ""),
        ("a.c:1:1: error: index [3]", "index [3]", "", ""),
        ("a.c:1:1: warning: old [-Wdeprecated-declarations,Deprecations]", "old", "deprecated-declarations", "Deprecations"),
        ("a.c:1:1: warning: cpp [-W#pragma-messages]", "cpp", "#pragma-messages", ""),
        ("a.c:1:1: remark: vectorised [-Rpass=loop-vectorize,Backend Issue]", "vectorised", "pass=loop-vectorize", "Backend Issue"),
        ("a.c:1:1: error: f [with T = int]", "f [with T = int]", "", ""),
    ],
)  # fmt: skip
def test_suffix(line: str, text: str, option: str, category: str) -> None:
    found = message(line)
    assert (found.text, found.option, found.category) == (text, option, category)


@each_row(
    ("line", "kind", "severity", "text"),
    [
        ("clang++: error: unsupported option '-bogus'", K.DRIVER, S.ERROR, "unsupported option '-bogus'"),
        ("/rocm/bin/clang++: error: no such file or directory: 'x'", K.DRIVER, S.ERROR, "no such file or directory: 'x'"),
        ("clang++: error: cannot find ROCm device library; provide its path via '--rocm-path'", K.DRIVER, S.ERROR, "cannot find ROCm device library; provide its path via '--rocm-path'"),
        ("clang-22: error: unable to execute command: Killed", K.KILLED, S.ERROR, "unable to execute command: Killed"),
        ("clang++: error: unable to execute command: Segmentation fault (core dumped)", K.CRASH, S.ERROR, "unable to execute command: Segmentation fault (core dumped)"),
        ("clang++: error: clang frontend command failed with exit code 139 (use -v to see invocation)", K.CRASH, S.ERROR, "clang frontend command failed with exit code 139 (use -v to see invocation)"),
        ("clang++: error: linker command failed with exit code 1 (use -v to see invocation)", K.LINKER, S.ERROR, "linker command failed with exit code 1 (use -v to see invocation)"),
        ("ld.lld: error: undefined symbol: f(int)", K.LINKER, S.ERROR, "undefined symbol: f(int)"),
        ("lld: error: undefined hidden symbol: g", K.LINKER, S.ERROR, "undefined hidden symbol: g"),
        ("/usr/bin/ld: cannot find -lamdhip64: No such file or directory", K.LINKER, S.ERROR, "cannot find -lamdhip64: No such file or directory"),
        ("/usr/bin/ld: warning: x.o: missing .note.GNU-stack section", K.LINKER, S.WARNING, "x.o: missing .note.GNU-stack section"),
        ("collect2: error: ld returned 1 exit status", K.LINKER, S.ERROR, "ld returned 1 exit status"),
        ("fatal error: error in backend: Cannot select: t1: i32", K.BACKEND, S.FATAL, "error in backend: Cannot select: t1: i32"),
        ("error: local memory (73728) exceeds limit (65536) in function 'f'", K.BACKEND, S.ERROR, "local memory (73728) exceeds limit (65536) in function 'f'"),
        ("<unknown>:0:0: error: ran out of registers during register allocation in function 'f'", K.BACKEND, S.ERROR, "ran out of registers during register allocation in function 'f'"),
        ("LLVM ERROR: out of memory", K.OUT_OF_MEMORY, S.FATAL, "out of memory"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", K.OUT_OF_MEMORY, S.FATAL, "terminate called after throwing an instance of 'std::bad_alloc'"),
        ("LLVM ERROR: IO failure on output stream: No space left on device", K.NO_SPACE, S.FATAL, "IO failure on output stream: No space left on device"),
        ("error: unable to open output file 'x.o': 'No space left on device'", K.NO_SPACE, S.ERROR, "unable to open output file 'x.o': 'No space left on device'"),
        ("Killed", K.KILLED, S.FATAL, "Killed"),
        ("cc: fatal error: Killed signal terminated program cc1plus", K.KILLED, S.FATAL, "Killed signal terminated program cc1plus"),
        ("cc: fatal error: Terminated signal terminated program as", K.KILLED, S.FATAL, "Terminated signal terminated program as"),
        ("c++: fatal error: Segmentation fault signal terminated program cc1plus", K.CRASH, S.FATAL, "Segmentation fault signal terminated program cc1plus"),
        ("collect2: fatal error: ld terminated with signal 9 [Killed]", K.KILLED, S.FATAL, "ld terminated with signal 9 [Killed]"),
        ("collect2: fatal error: ld terminated with signal 11 [Segmentation fault]", K.CRASH, S.FATAL, "ld terminated with signal 11 [Segmentation fault]"),
        ("c++: internal compiler error: Killed (program cc1plus)", K.KILLED, S.FATAL, "c++: internal compiler error: Killed (program cc1plus)"),
    ],
)  # fmt: skip
def test_messages_without_a_place(line: str, kind: MessageKind, severity: ClangSeverity, text: str) -> None:
    found = message(line)
    assert (found.kind, found.severity, found.text, found.path, found.position) == (kind, severity, text, "", None)
    assert transient_kind([found]) == (kind if kind in (K.KILLED, K.CRASH, K.OUT_OF_MEMORY, K.NO_SPACE) else None)


@pytest.mark.parametrize(
    "line",
    [
        "2 warnings and 1 error generated when compiling for gfx942.",
        "1 error generated when compiling for host.",
        "1 error generated.",
        "fatal error: too many errors emitted, stopping now [-ferror-limit=]",
        "   12 |   /ws/x.hip:3:4: error: in a source line",
        "failed to execute:/rocm/bin/clang++ -c x.hip: error: not one",
        "",
        "Some tool chatter",
        "/usr/bin/ld: x.o: in function `run':",
    ],
)
def test_no_messages(line: str) -> None:
    assert parse_clang_log(line) == []


CRASH = """\
/ws/x.hip:1:1: warning: before
PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/ and include the crash backtrace.
Stack dump:
0.\tProgram arguments: clang++ -cc1 x.hip
1.\t/ws/x.hip:7:3: current parser token ';'
 #0 0x00007f llvm::sys::PrintStackTrace(llvm::raw_ostream&)
clang++: error: clang frontend command failed with exit code 134 (use -v to see invocation)
clang++: note: diagnostic msg:
"""


def test_a_crash_keeps_its_stack() -> None:
    before, crash = parse_clang_log(CRASH)
    assert before.text == "before"
    assert crash.kind is MessageKind.CRASH
    assert [line.split()[0] for line in crash.tail] == ["Stack", "0.", "1.", "#0", "clang++:"]


def test_further_references_belong_to_the_linker_error() -> None:
    found = message(
        "/usr/bin/ld: x.o: in function `f':\n/usr/bin/ld: x.cpp:6: undefined reference to `g(int)'\n"
        "/usr/bin/ld: x.o:/ws/x.cpp:7: more undefined references to `g(int)' follow\n"
    )
    assert found.text == "undefined reference to `g(int)'"
    assert found.tail == ("/usr/bin/ld: x.o:/ws/x.cpp:7: more undefined references to `g(int)' follow",)


def test_a_linker_error_keeps_who_refers() -> None:
    found = message("ld.lld: error: undefined symbol: f\n>>> referenced by x.o:(run)\n")
    assert found.tail == (">>> referenced by x.o:(run)",)


def test_include_stack_is_remembered_for_the_next_message_of_the_file() -> None:
    first, second, third = parse_clang_log((LOGS / "missing_header.host.log").read_text())
    chain = (Inclusion("/ws/missing_header.hip", 2), Inclusion("/ws/deep.hpp", 2))
    assert (first.path, first.include_chain) == ("/ws/deeper.hpp", chain)
    assert (second.path, second.include_chain) == ("/ws/deeper.hpp", chain)
    assert (third.severity, third.include_chain) == (S.FATAL, ())


def test_notes_and_fixits_belong_to_their_error() -> None:
    errors = [found for found in parse_clang_log((LOGS / "fixit.host.log").read_text()) if found.is_error]
    assert [(found.text, [note.text for note in found.notes]) for found in errors] == [
        ("use of undeclared identifier 'grösse'; did you mean 'größe'?", ["'größe' declared here"]),
        ("use of undeclared identifier 'nn'", []),
        ("use of undeclared identifier 'coundd'; did you mean 'cound'?", ["'cound' declared here"]),
    ]
    assert errors[0].fixits == (
        ClangFixit("/ws/fixit.hip", ClangRange(ClangPosition(10, 18), ClangPosition(10, 25)), "größe"),
    )


@pytest.mark.parametrize(
    ("log", "errors", "warnings", "notes"),
    [
        ("bad_tile.device", 4, 0, 21),
        ("asm.device", 1, 0, 1),
        ("range.host", 1, 3, 3),
        ("undefined_host.full", 2, 0, 0),
        ("undefined_device.device", 2, 0, 0),
        ("warning.host", 0, 3, 0),
    ],
)
def test_saved_logs(log: str, errors: int, warnings: int, notes: int) -> None:
    found = parse_clang_log((LOGS / f"{log}.log").read_text())
    assert sum(entry.is_error for entry in found) == errors
    assert sum(entry.severity is S.WARNING for entry in found) == warnings
    assert sum(len(entry.notes) for entry in found) == notes


def test_messages_are_returned_as_the_stream_goes_on() -> None:
    parser = ClangTextParser()
    assert parser.feed("a.c:1:1: error: one\n") == []
    assert parser.feed("a.c:2:1: note: more\r\n") == []
    assert [found.text for found in parser.feed("a.c:3:1: error: two\n")] == ["one"]
    assert [found.text for found in parser.feed("1 error generated.\n")] == ["two"]
    assert parser.close() == []


@each_row("log", sorted(path.name for path in LOGS.glob("*.log")))
def test_chatter_between_lines_changes_nothing_that_has_a_place(log: str) -> None:
    lines = (LOGS / log).read_text().split("\n")
    expected = [found for found in parse_clang_log("\n".join(lines)) if found.position is not None]
    chance = random.Random(7)  # noqa: S311 - reproducible chatter
    chatter = ["", "some chatter", "\x00\ufffd::: {1:2}", "   | not a caret", "warning", "note 12:3"]
    noisy = [entry for line in lines for entry in (line, chance.choice(chatter))]
    assert [found for found in parse_clang_log("\n".join(noisy)) if found.position is not None] == expected


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert all(found.severity for found in parse_clang_log(text))


@each_row(
    ("line", "column", "expected"),
    [
        ("abc", 1, 0),
        ("abc", 3, 2),
        ("abc", 99, 3),
        ("abc", 0, 0),
        ("\t\tabc", 3, 2),
        ("größe x", 9, 6),
        ("é", 2, 0),
        ("∑x", 4, 1),
        ("😀x", 5, 1),
        ("", 1, 0),
    ],
)
def test_code_point_column(line: str, column: int, expected: int) -> None:
    assert code_point_column(line, column) == expected


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.integers(0, 40))
def test_there_and_back(line: str, column: int) -> None:
    column = min(column, len(line))
    assert code_point_column(line, byte_column(line, column)) == column
