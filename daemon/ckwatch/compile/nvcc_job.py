"""One compile by nvcc: an object, a shared object that exports the kernel's function alone, and the device's code.

The CUDA runtime is linked statically (nvcc's own way): the shared object needs the driver and nothing else, and uses
the primary context of the current device, as whoever loads it does.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import anyio.to_thread

from ckwatch.compile import elf
from ckwatch.compile.dependencies import read_headers
from ckwatch.compile.flags import compile_flags, include_flags, link_flags
from ckwatch.compile.job import DEPENDENCIES, OBJECT, SHARED_OBJECT, ended, write_dependencies
from ckwatch.compile.processes import Finished, Launcher, OnLine, Verdict, run_process
from ckwatch.compile.request import CompileOutcome, CompileRequest, CompilerToolchain, Fault, ProductKind, Status
from ckwatch.compile.running import (
    EXPORTS,
    HEADER_LIST,
    TEMPORARY,
    CompileJob,
    fault_of,
    prepare,
    unwritten,
)
from ckwatch.diagnostics.nvcc_text import missing_headers, parse_nvcc_log
from ckwatch.toolchain.nvcc import NvccToolchain


async def compile_cu(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    *,
    folder: Path,
    on_line: OnLine | None = None,
    launch: Launcher = run_process,
) -> CompileOutcome:
    """Compile in the empty folder `folder`; see `compile_source`. Raises ToolchainError when nvcc cannot be started."""
    prefixes, problem = await anyio.to_thread.run_sync(prepare, request, folder)
    job = CompileJob(request, toolchain, folder, launch, on_line, prefixes)
    if problem is not None:
        return unwritten(job, problem)
    compiled = await job.run(compile_command(request, toolchain))
    headers = await anyio.to_thread.run_sync(_headers, folder)
    if compiled.exit_status != 0 or compiled.verdict is not Verdict.EXITED:
        return _unfinished(job, compiled, headers)
    linked = await job.run(link_command(request, toolchain))
    if linked.exit_status != 0 or linked.verdict is not Verdict.EXITED:
        return _unfinished(job, linked, headers)
    files = {kind: folder / name for kind, name in _FILES.items()}
    try:
        exports = await anyio.to_thread.run_sync(elf.exported_symbols, files[ProductKind.SHARED_OBJECT])
        await anyio.to_thread.run_sync(write_dependencies, files[ProductKind.DEPENDENCIES], headers)
        code = next((folder / TEMPORARY).glob("*.cubin"), None)
        if code is not None:
            files[ProductKind.CODE_OBJECT] = folder / f"kernel.{request.arch}.cubin"
            code.rename(files[ProductKind.CODE_OBJECT])
    except OSError as error:
        return unwritten(job, error)
    except ValueError as error:
        return job.outcome(Status.TRANSIENT, fault=Fault.HOST, message=f"nvcc left a damaged object: {error}")
    return ended(job, files, headers, exports)


_FILES = {
    ProductKind.OBJECT: OBJECT,
    ProductKind.SHARED_OBJECT: SHARED_OBJECT,
    ProductKind.DEPENDENCIES: DEPENDENCIES,
}


def compile_command(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    """The call that makes an object of the source in the folder that it runs in.

    The intermediate files are kept in the compile's own folder for temporary files: the device's code is one of them.
    """
    arguments = [str(toolchain.hipcc), *_own(toolchain), *compile_flags(request, toolchain)]
    arguments += include_flags(request, toolchain)
    arguments += ["--keep", f"--keep-dir={TEMPORARY}", "-MD", "-MF", DEPENDENCIES]
    return [*arguments, "-c", request.language.source_name, "-o", OBJECT]


def link_command(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    """The call that makes a shared object of that object."""
    wanted = [_for_nvcc(flag) for flag in link_flags(request)]
    exports = f"-Xlinker=-z,defs,--version-script={EXPORTS}"
    return [str(toolchain.hipcc), *_own(toolchain), "-shared", exports, OBJECT, *wanted, "-o", SHARED_OBJECT]


def _own(toolchain: CompilerToolchain) -> tuple[str, ...]:
    return toolchain.arguments if isinstance(toolchain, NvccToolchain) else ()


def _for_nvcc(flag: str) -> str:
    """nvcc has a name of its own for what is handed to the linker."""
    return f"-Xlinker={flag.removeprefix('-Wl,')}" if flag.startswith("-Wl,") else flag


def _headers(folder: Path) -> tuple[str, ...]:
    """What was read, without the way through nvcc's own folder (`bin/../targets`)."""
    found = {os.path.normpath(path) for path in read_headers(folder, DEPENDENCIES, HEADER_LIST)}
    return tuple(sorted(path for path in found if not path.startswith("/proc/")))


def _unfinished(job: CompileJob, finished: Finished, headers: tuple[str, ...]) -> CompileOutcome:
    """Tell a mistake in the source from a fault of the host."""
    errors = [message for message in parse_nvcc_log(finished.stderr + finished.stdout) if message.is_error]
    fault, message = fault_of(finished, "nvcc", [message for message in errors if message.position is None])
    if fault is None and not errors:
        said = (finished.stderr + finished.stdout).strip().splitlines()
        fault = Fault.HOST
        message = f"nvcc ended with status {finished.exit_status}: {said[-1] if said else 'without a word'}"
    if fault is not None:
        return job.outcome(Status.TRANSIENT, fault=fault, message=message, headers=headers)
    outcome = job.outcome(Status.FAILED, headers=headers)
    return replace(outcome, missing=tuple(missing_headers(outcome.log)))
