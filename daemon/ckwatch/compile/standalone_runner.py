"""Links a runner's source and a unit's object file into one program.

The runner is plain C++ that calls the HIP runtime and the unit's exported function; no device code is compiled. It is
linked with the object, not with the shared object, so that it is one file to copy to another machine.
"""

from __future__ import annotations

from pathlib import Path

import anyio.to_thread

from ckwatch.compile.request import CompilerToolchain
from ckwatch.model.errors import ToolchainError
from ckwatch.model.targets import Language
from ckwatch.system.async_processes import ProcessResult, run_process

TIMEOUT_S = 600.0
_FLAGS = ("-std=c++20", "-O2", "-fPIE", "-D__HIP_PLATFORM_AMD__=1")
# The HIP library of a private toolchain wants a newer C library than the one linked here; it resolves at run time.
_LINK_FLAGS = ("-pie", "-pthread", "-Wl,--allow-shlib-undefined")


async def build_runner(
    source: str, language: Language, object_file: Path, toolchain: CompilerToolchain, *, folder: Path, output: Path
) -> None:
    """Compile `source` in the empty folder `folder` and link it with `object_file` into the program `output`.

    Raises ToolchainError when the runner, which is ours, does not compile or link.
    """
    await anyio.to_thread.run_sync((folder / "runner.cpp").write_text, source)
    hip = language is Language.HIP
    arguments = toolchain.hip_arguments if hip else toolchain.cpp_arguments
    compiler = [str(toolchain.clangxx), *arguments]
    rocm = toolchain.roots.get("rocm") if hip else None
    includes = [] if rocm is None else ["-isystem", str(rocm / "include")]
    compiled = await run_process(
        [*compiler, "-x", "c++", *_FLAGS, *includes, "-c", "runner.cpp", "-o", "runner.o"],
        environment=toolchain.environment,
        folder=folder,
        timeout_s=TIMEOUT_S,
    )
    _require(compiled, "the runner does not compile")
    libraries = ["-lamdhip64"] if hip else (["-fopenmp"] if toolchain.openmp else [])
    linker = [str(toolchain.clangxx), *toolchain.cpp_arguments]
    linked = await run_process(
        [*linker, *_LINK_FLAGS, "runner.o", str(object_file), *toolchain.link_arguments, *libraries, "-o", str(output)],
        environment=toolchain.environment,
        folder=folder,
        timeout_s=TIMEOUT_S,
    )
    _require(linked, "the runner does not link")


def _require(finished: ProcessResult, what: str) -> None:
    if not finished.succeeded:
        lines = [line for line in finished.stderr.splitlines() if "error" in line] or finished.stderr.splitlines()
        raise ToolchainError(
            f"{what}: {lines[0] if lines else finished.exit_reason.value}", finished.stderr[-2000:] or None
        )
