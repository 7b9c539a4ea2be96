"""Which flag a message is about."""

from __future__ import annotations

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.checks.flag_places import blamed_flag
from ckwatch.checks.nvcc_output import parse_nvcc_log
from ckwatch.model.compiler_flags import GivenFlag
from ckwatch.model.text import span
from helpers.each_row import each_row


@each_row(
    ("flags", "log", "blamed"),
    [
 (["-Wall","-fnope"], "clang++: error: unknown argument: '-fnope'", 1),
 (["-O2","-std=c++99"], "error: invalid value 'c++99' in '-std=c++99'\nnote: use 'c++98'", 1),
 (["-O2","-lnosuch"], "/usr/bin/ld: cannot find -lnosuch: No such file or directory\nclang++: error: linker command failed with exit code 1", 1),
 (["-O2","-l", "nosuch"], "/usr/bin/ld: cannot find -lnosuch: No such file or directory", 2),
 (["--offload-arch=gfx1"], "clang++: error: unsupported HIP gpu architecture: gfx1", 0),
 (["-include","no_such.h"], "<built-in>:2:10:{970:10-970:21}: fatal error: 'no_such.h' file not found [Lexical or Preprocessor Issue]", 1),
 (["-O2","-Wl,--no-such-option"], "/usr/bin/ld: unrecognized option '--no-such-option'\n/usr/bin/ld: use the --help option for usage information", 1),
 (["-mllvm","-no-such-pass=1"], "clang (LLVM option parsing): Unknown command line argument '-no-such-pass=1'.  Try: 'clang (LLVM option parsing) --help'\nclang (LLVM option parsing): Did you mean '--debug-pass=1'?", 1),
 (["-O3", "-D1X=3"], "In file included from <built-in>:966:\n<command line>:1:9: error: macro name must be an identifier [Lexical or Preprocessor Issue]", 1),
 (["nothing.o"], "clang++: error: no such file or directory: 'nothing.o'", 0),
 (["-O9x"], "clang++: error: invalid integral value '9x' in '-O9x'", 0),
 (["-march=pentium99"], "error: unknown target CPU 'pentium99'", 0),
 (["-Werror","-Wno-such-warning-x"], "error: unknown warning option '-Wno-such-warning-x'; did you mean '-Wno-#warnings'? [-Werror,-Wunknown-warning-option]", 1),
 (["-mllvm","-amdgpu-early-inline-all=maybe"], "clang (LLVM option parsing): for the --amdgpu-early-inline-all option: 'maybe' is invalid value for boolean argument! Try 0 or 1", 1),
 (["-fuse-ld=nope"], "clang++: error: invalid linker name in argument '-fuse-ld=nope'", 0),
 (["-x","foo"], "clang++: error: language not recognized: 'foo'", 1),
 (["-Wl,-T,nothing.ld"], "/usr/bin/ld: cannot open linker script file nothing.ld: No such file or directory", 0),
 (["-Xlinker","nothing.a"], "/usr/bin/ld: cannot find nothing.a: No such file or directory", 1),
 (["-l:libno.a"], "/usr/bin/ld: cannot find -l:libno.a: No such file or directory", 0),
 (["-ffast-maths"], "clang++: error: unknown argument '-ffast-maths'; did you mean '-ffast-math'?", 0),
 (["-target","foo-bar"], "error: unknown target triple 'foo-bar'", 1),
 (["-O2"], "clang++: error: unknown argument: '-fnope'", None),
 (["-DX=3 +"], "kernel.hip:3:4: error: expected expression [Parse Issue]\n<command line>:1:13: note: expanded from macro 'X'", 0),
    (["-O2"], "kernel.hip:3:4: error: use of undeclared identifier 'O2'", None),
        (["-std=c++99"], "nvcc fatal   : Value 'c++99' is not defined for option 'std'", 0),
        (["--no-such-flag"], "nvcc fatal   : Unknown option '--no-such-flag'", 0),
    ],
)  # fmt: skip
def test_blamed(flags: list[str], log: str, blamed: int | None) -> None:
    given = [GivenFlag(text, span("/ws/ckwatch.toml", at, 0, at, 1)) for at, text in enumerate(flags)]
    first = (parse_nvcc_log(log) if log.startswith("nvcc") else parse_clang_log(log))[0]
    assert blamed_flag(first, given) == (None if blamed is None else given[blamed])
