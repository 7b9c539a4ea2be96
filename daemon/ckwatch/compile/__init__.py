"""Running hipcc and clang++: from a rendered source to an artifact, or to what the compiler said.

`Builder` is the way in. `job` knows how one source is compiled and nothing of the store, `processes` how a process is
run so that nothing of it survives, `flags` what is passed and `docs/compiling.md` why.
"""

from ckwatch.compile.builder import Builder, build_artifact
from ckwatch.compile.host import host_arch
from ckwatch.compile.job import compile_source
from ckwatch.compile.processes import Finished, Verdict, run_process
from ckwatch.compile.request import (
    USUAL_PRODUCTS,
    BuildResult,
    CompileOutcome,
    CompileRequest,
    CompilerToolchain,
    Fault,
    ProductKind,
    Status,
)

__all__ = [
    "USUAL_PRODUCTS",
    "BuildResult",
    "Builder",
    "CompileOutcome",
    "CompileRequest",
    "CompilerToolchain",
    "Fault",
    "Finished",
    "ProductKind",
    "Status",
    "Verdict",
    "build_artifact",
    "compile_source",
    "host_arch",
    "run_process",
]
