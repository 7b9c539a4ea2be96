"""Output of nvcc, its front end and its assembler."""

from __future__ import annotations

from ckwatch.checks.clang_output import ClangMessage, ClangPosition, ClangSeverity, MessageKind, parse_clang_log
from ckwatch.checks.nvcc_output import missing_headers, parse_nvcc_log
from helpers.each_row import each_row

K = MessageKind
S = ClangSeverity

FRONT_END = """\
kernel.cu(4): error: identifier "undefined_name" is undefined
  __attribute__((global)) void k(float* p) { int unused; p[0] = undefined_name + T<128>::v; }
                                                                ^

kernel.cu(3): error: static assertion failed with "N must be divisible"
  template <int N> struct T { static_assert(N % 3 == 0, "N must be divisible"); static constexpr int v = N; };
                              ^
          detected during instantiation of class "T<N> [with N=128]" at line 4

/inc/h.h(2): error: Nope is not a template
  template <int N> struct Inner { static constexpr int value = Nope<N>::x; };
                                                               ^
          detected during:
            instantiation of class "Inner<N> [with N=4]" at line 7
            instantiation of "int deep<N>() [with N=4]" at line 9 of kernel.cu

kernel.cu(3): warning #546-D: transfer of control bypasses initialization of:
            variable "y" (declared at line 3)
  int bad(int x) { switch(x) { case 1: int y = 2; case 2: return y; } }
                   ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

kernel.cu(8): catastrophic error: cannot open source file "x.h"

4 errors detected in the compilation of "kernel.cu".
"""


def test_the_front_end() -> None:
    undefined, assertion, deep, warning, fatal = parse_nvcc_log(FRONT_END)
    # `__global__` was printed as 13 characters more
    assert undefined == ClangMessage(
        S.ERROR, "kernel.cu", ClangPosition(4, 50), (), 'identifier "undefined_name" is undefined'
    )
    assert (assertion.text, assertion.position) == (
        "static assertion failed: N must be divisible",
        ClangPosition(3, 29),
    )
    assert assertion.notes == (
        ClangMessage(
            *(S.NOTE, "kernel.cu", ClangPosition(4, 1), ()),
            'in instantiation of class "T<N> [with N=128]" requested here',
        ),
    )
    assert [(note.path, note.position) for note in deep.notes] == [
        ("/inc/h.h", ClangPosition(7, 1)),
        ("kernel.cu", ClangPosition(9, 1)),
    ]
    assert (warning.severity, warning.option) == (S.WARNING, "546-D")
    assert warning.text == 'transfer of control bypasses initialization of: variable "y" (declared at line 3)'
    assert (fatal.severity, fatal.position) == (S.FATAL, ClangPosition(8, 0))


@each_row("cut", range(0, len(FRONT_END), 7))
def test_a_log_that_is_not_finished(cut: int) -> None:
    whole = parse_nvcc_log(FRONT_END)
    begun = parse_nvcc_log(FRONT_END[:cut])
    assert len(begun) <= len(whole)
    assert begun[:-1] == whole[: max(len(begun) - 1, 0)]


@each_row(
    ("line", "severity", "kind", "text"),
    [
        ("ptxas fatal   : Unresolved extern function '_Z1f'", S.FATAL, K.BACKEND, "Unresolved extern function '_Z1f'"),
        (
            "ptxas temporary/kernel.ptx, line 27; error   : Unknown modifier '.instr'",
            *(S.ERROR, K.BACKEND, "Unknown modifier '.instr'"),
        ),
        ("ptxas error   : Entry function 'k' uses too much shared data", S.ERROR, K.BACKEND, None),
        ("nvlink error   : Undefined reference to 'x' in 'kernel.o'", S.ERROR, K.LINKER, None),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_30'", S.FATAL, K.DRIVER, None),
        ("nvcc warning : no longer used", S.WARNING, K.DRIVER, "no longer used"),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", S.ERROR, K.KILLED, None),
        ("nvcc error   : 'cicc' died due to signal 11", S.ERROR, K.CRASH, None),
        ("ptxas fatal   : Memory allocation failure", S.FATAL, K.OUT_OF_MEMORY, None),
        ('At end of source: error: expected a "}"', S.ERROR, K.COMPILER, 'expected a "}"'),
    ],
)
def test_without_a_place(line: str, severity: ClangSeverity, kind: MessageKind, text: str | None) -> None:
    (found,) = parse_nvcc_log(line + "\n")
    assert (found.severity, found.kind, found.position) == (severity, kind, None)
    assert text is None or found.text == text


def test_the_host_s_compiler_speaks_as_clang_does() -> None:
    log = "kernel.cu:1:10: fatal error: nope/x.h: No such file or directory\n    1 | #include <nope/x.h>\n"
    assert parse_nvcc_log(log + "compilation terminated.\n") == parse_clang_log(log)
    assert missing_headers(log) == ["nope/x.h"]
