"""Which flags each language is compiled with; `docs/compiling.md` says why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ckwatch.checks.clang_output import CLANG_DIAGNOSTIC_FLAGS
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.store.header_sets import PathRoots
from ckwatch.model.compiler_flags import concerns_linking, flag_groups
from ckwatch.model.targets import Language

HIP_FLAGS: tuple[str, ...] = (
    "-x",
    "hip",
    "-std=c++20",
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-gpu-rdc",
    "-fgpu-flush-denormals-to-zero",
    "-ffast-math",
    "-mllvm",
    "-enable-post-misched=0",
    "--no-offload-compress",
)
"""Those of PyTorch 2.15's Inductor (`torch/_inductor/codegen/rocm/compile_command.py`), and `--no-offload-compress`."""

CPP_FLAGS: tuple[str, ...] = (
    "-x",
    "c++",
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-march=native",
)

CU_FLAGS: tuple[str, ...] = (
    "-x",
    "cu",
    "-std=c++17",
    "-O3",
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-strict-aliasing",
)
"""Those of PyTorch Inductor's CUDA backend (`torch/_inductor/codegen/cuda/compile_utils.py`), without fast math."""

REPRODUCIBLE_FLAGS: tuple[str, ...] = ("-ffile-compilation-dir=.", "-fno-crash-diagnostics")
"""The folder of a compile appears in nothing that it leaves behind, and a crash leaves nothing behind at all."""


LINE_TABLES: tuple[str, ...] = ("-gline-tables-only",)
"""clang's option for lines. They change no instruction."""


def with_portable_lines(request: CompileRequest, roots: PathRoots) -> CompileRequest:
    """Return the request whose code has compressed line tables that name files by their roots."""
    maps = (f"-fdebug-prefix-map={folder}={name}" for folder, name in roots.prefixes)
    return replace(request, flags=(*request.flags, *LINE_TABLES, "-gz=zlib", *maps))


NVCC_LINE_TABLES: tuple[str, ...] = ("--generate-line-info",)
"""nvcc's, in the long form: what begins with `-l` is a library."""


def known_flags(flags: Iterable[str], toolchain: CompilerToolchain) -> list[str]:
    """Return those of our flags that the compiler is new enough for."""
    return [flag for flag in flags if flag not in toolchain.unknown_flags]


def with_lines(request: CompileRequest) -> CompileRequest:
    """Return the request whose code has line tables."""
    flags = NVCC_LINE_TABLES if request.language is Language.CU else LINE_TABLES
    return replace(request, flags=(*request.flags, *flags))


def with_lines_for_linkers(request: CompileRequest) -> CompileRequest:
    """Return the request with which a failed compile is repeated, for its errors to have places. GNU's linker (2.40)
    names the wrong file where the host's lines are those of DWARF 5."""
    of_host = ("-Xarch_host",) if request.language is Language.HIP else ()
    return replace(request, flags=(*request.flags, *LINE_TABLES, *of_host, "-gdwarf-4"))


def user_compile_flags(request: CompileRequest) -> list[str]:
    """The workspace's and kernel file's flags and defines that concern compiling."""
    flags, _ = _split(request.flags)
    return [*flags, *(f"-D{define}" for define in request.defines)]


def chosen_flags(request: CompileRequest) -> list[str]:
    """The language's flags and the workspace's, without those that only concern how messages look."""
    defaults = {Language.HIP: HIP_FLAGS, Language.CU: CU_FLAGS, Language.CPP: CPP_FLAGS}[request.language]
    return [*defaults, *user_compile_flags(request)]


def link_flags(request: CompileRequest) -> list[str]:
    """The workspace's and kernel file's flags that concern linking."""
    return _split(request.flags)[1]


def compile_flags(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    """Everything that decides what a source compiles to, include folders apart: this goes into the key."""
    own = user_compile_flags(request)
    if request.language is Language.CU:
        # Machine code for one arch and nothing that the driver would compile anew.
        return [*CU_FLAGS, f"-gencode=arch={request.arch.replace('sm_', 'compute_')},code={request.arch}", *own]
    if request.language is Language.HIP:
        language = [*known_flags(HIP_FLAGS, toolchain), f"--offload-arch={request.arch}"]
    else:
        # Without clang's runtime library `omp simd` still counts, and parallel regions run on one thread.
        language = [*CPP_FLAGS, "-fopenmp" if toolchain.openmp else "-fopenmp-simd"]
    return [*language, *REPRODUCIBLE_FLAGS, *own, *known_flags(CLANG_DIAGNOSTIC_FLAGS, toolchain)]


def include_flags(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    """The workspace's folders for `#include "…"` before all others, and for `#include <…>` behind them, so that a file
    called `version` or `math.h` hides none of the system's; then CK's, whose warnings are not shown."""
    own = [str(folder) for folder in request.include_folders]
    if request.language is not Language.CU:
        flags = [part for option in _OWN for folder in own for part in (option, folder)]
    elif all(_PLAIN_PATH.fullmatch(folder) for folder in own):
        flags = [f"-Xcompiler={option},{folder}" for option in _OWN for folder in own]
    else:  # nvcc divides what is for the host's compiler at commas and blanks
        flags = [f"-I{folder}" for folder in own]
    for folder in toolchain.include_folders:
        flags += ["-isystem", str(folder)]
    return flags


_OWN = ("-iquote", "-idirafter")
_PLAIN_PATH = re.compile(r"[\w./+@%:~-]+")


def _split(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Flags for compiling and flags for linking."""
    compiling: list[str] = []
    linking: list[str] = []
    for _, group in flag_groups(flags):
        (linking if concerns_linking(group) else compiling).extend(group)
    return compiling, linking
