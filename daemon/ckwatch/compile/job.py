"""One compile: source to object, object to shared object, and the device's code out of it.

Nothing here knows the store. Everything is written into one private folder, in which the compiler also runs and to
which its temporary files go, so that removing the folder removes every trace.
"""

from __future__ import annotations

import errno
import hashlib
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread

from ckwatch.compile import elf
from ckwatch.compile.dependencies import format_dependency_file, missing_headers, read_headers
from ckwatch.compile.flags import compile_flags, include_flags, link_flags
from ckwatch.compile.processes import Finished, Launcher, OnLine, Verdict, run_process
from ckwatch.compile.request import (
    CompileOutcome,
    CompileRequest,
    CompilerToolchain,
    Fault,
    ProductKind,
    Status,
    require_supported,
)
from ckwatch.diagnostics.clang_text import ClangMessage, MessageKind, parse_log, transient_kind
from ckwatch.errors import CkwatchError
from ckwatch.model.language import Language
from ckwatch.store import Command

_OBJECT = "kernel.o"
_SHARED_OBJECT = "kernel.so"
_DEPENDENCIES = "kernel.d"
_HEADER_LIST = "headers.txt"
_EXPORTS = "exports.map"
_TEMPORARY = "temporary"

# These change what a compiler does and would have to be part of every key.
_UNWANTED_VARIABLES = (
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "OBJC_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "CCC_OVERRIDE_OPTIONS",
    "CCC_ADD_ARGS",
    "CC_PRINT_OPTIONS",
    "CL",
    "_CL_",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
    "HIPCC_COMPILE_FLAGS_APPEND",
    "HIPCC_LINK_FLAGS_APPEND",
    "HIPCC_VERBOSE",
)

_FAULTS: Mapping[MessageKind, tuple[Fault, str]] = {
    MessageKind.OUT_OF_MEMORY: (Fault.OUT_OF_MEMORY, "ran out of memory"),
    MessageKind.NO_SPACE: (Fault.NO_SPACE, "found no space left for its temporary files"),
    MessageKind.KILLED: (Fault.KILLED, "was killed (SIGKILL)"),
    MessageKind.CRASH: (Fault.CRASHED, "crashed"),
}
# hipcc repeats its whole command after clang's messages; the entry keeps the command anyway.
_ECHOED_COMMAND = "failed to execute:"
_CRASH_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGTRAP}
)


@dataclass(slots=True)
class _Job:
    request: CompileRequest
    toolchain: CompilerToolchain
    folder: Path
    launch: Launcher
    on_line: OnLine | None
    prefixes: tuple[str, ...]
    begun_ns: int = field(default_factory=time.time_ns)
    commands: list[Command] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def own_names(self, text: str) -> str:
        """`text` with the files of this job called by their bare names."""
        for prefix in self.prefixes:
            text = text.replace(prefix, "")
        return text

    def hand_on(self, line: str) -> None:
        """Give a line to whoever listens."""
        if self.on_line is not None and not line.startswith(_ECHOED_COMMAND):
            self.on_line(self.own_names(line))

    async def run(self, arguments: list[str]) -> Finished:
        finished = await self.launch(
            arguments,
            environment=_environment(self.toolchain.environment, self.folder),
            folder=self.folder,
            timeout_s=self.request.timeout_s,
            on_line=None if self.on_line is None else self.hand_on,
        )
        self.commands.append(
            Command(
                tuple(self.own_names(argument) for argument in finished.arguments),
                finished.exit_status,
                finished.duration_s,
                finished.peak_memory_bytes,
            )
        )
        for text in (finished.stderr, finished.stdout):
            lines = text.splitlines(keepends=True)
            self.log.append(self.own_names("".join(line for line in lines if not line.startswith(_ECHOED_COMMAND))))
        if finished.dropped_bytes:
            self.log.append(f"({finished.dropped_bytes} more bytes of output were dropped)\n")
        return finished

    def outcome(self, status: Status, **more: Any) -> CompileOutcome:
        log = "".join(text if text.endswith("\n") else f"{text}\n" for text in self.log if text)
        return CompileOutcome(
            status, log, tuple(self.commands), self.begun_ns, missing=tuple(missing_headers(log)), **more
        )


async def compile_source(
    request: CompileRequest,
    toolchain: CompilerToolchain,
    *,
    folder: Path,
    on_line: OnLine | None = None,
    launch: Launcher = run_process,
) -> CompileOutcome:
    """Compile in the empty folder `folder`, which is the caller's to remove.

    `on_line` gets each line that a compiler writes, as it is written, the source under its bare name. Raises
    ToolchainError when a program cannot be started, CkwatchError for a product that cannot be made. What the
    compiler says is a value.
    """
    require_supported(request.language)
    if ProductKind.RUNNER in request.products:
        raise CkwatchError("no runner can be made of a source by itself")
    prefixes, problem = await anyio.to_thread.run_sync(_prepare, request, folder)
    job = _Job(request, toolchain, folder, launch, on_line, prefixes)
    if problem is not None:
        return _unwritten(job, problem)
    compiled = await job.run(_compile_command(request, toolchain))
    headers = tuple(await anyio.to_thread.run_sync(read_headers, folder, _DEPENDENCIES, _HEADER_LIST))
    if compiled.exit_status != 0 or compiled.verdict is not Verdict.EXITED:
        return _unfinished(job, compiled, headers)
    linked = await job.run(_link_command(request, toolchain))
    if linked.exit_status != 0 or linked.verdict is not Verdict.EXITED:
        return _unfinished(job, linked, headers)
    files = {ProductKind.OBJECT: folder / _OBJECT, ProductKind.SHARED_OBJECT: folder / _SHARED_OBJECT}
    try:
        exports = await anyio.to_thread.run_sync(elf.exported_symbols, files[ProductKind.SHARED_OBJECT])
        if request.language is Language.HIP:
            code = await _device_code(job, files[ProductKind.OBJECT])
            if code is not None:
                files[ProductKind.CODE_OBJECT] = folder / f"kernel.{request.arch.replace(':', '-')}.hsaco"
                await anyio.to_thread.run_sync(files[ProductKind.CODE_OBJECT].write_bytes, code)
        files[ProductKind.DEPENDENCIES] = folder / _DEPENDENCIES
        await anyio.to_thread.run_sync(_write_dependencies, files[ProductKind.DEPENDENCIES], headers)
    except OSError as error:
        return _unwritten(job, error)
    except ValueError as error:
        return job.outcome(Status.TRANSIENT, fault=Fault.HOST, message=f"the compiler left a damaged object: {error}")
    absent = [name for name in request.exports if name not in exports]
    if absent:
        job.log.append(_not_exported(absent))
        return job.outcome(Status.FAILED, headers=headers, exports=exports)
    kept = {kind: path for kind, path in files.items() if kind in request.products}
    return job.outcome(Status.OK, files=kept, headers=headers, exports=exports)


def _prefixes(folder: Path) -> tuple[str, ...]:
    """The spellings of `folder` in what a compiler prints: with and without links, and as fix-its escape them."""
    plain = dict.fromkeys(f"{path}/" for path in (folder, folder.resolve()))
    escaped = (
        "".join(chr(byte) if byte < 128 else f"\\{byte:03o}" for byte in prefix.encode("utf-8", "surrogateescape"))
        for prefix in plain
    )
    return tuple(dict.fromkeys([*plain, *escaped]))


def _prepare(request: CompileRequest, folder: Path) -> tuple[tuple[str, ...], OSError | None]:
    """Write what the compiler reads; the folder's spellings, and why it could not be written."""
    prefixes = _prefixes(folder)
    names = " ".join(f"{name};" for name in request.exports)
    try:
        (folder / request.language.source_name).write_bytes(request.source.encode("utf-8", "surrogateescape"))
        (folder / _EXPORTS).write_text(f"{{ global: {names} local: *; }};\n")
        (folder / _TEMPORARY).mkdir()
    except OSError as error:
        return prefixes, error
    return prefixes, None


def _write_dependencies(file: Path, headers: tuple[str, ...]) -> None:
    file.write_bytes(format_dependency_file(_SHARED_OBJECT, headers).encode("utf-8", "surrogateescape"))


def _compile_command(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    hip = request.language is Language.HIP
    arguments = (
        [str(toolchain.hipcc), *toolchain.hip_arguments] if hip else [str(toolchain.clangxx), *toolchain.cpp_arguments]
    )
    if hip:
        # By default the id that tells equal names of different objects apart is made from the source's folder.
        arguments.append(f"-cuid={hashlib.sha256(request.source.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}")
    arguments += compile_flags(request, toolchain) + include_flags(request, toolchain)
    return [*arguments, "-MD", "-MF", _DEPENDENCIES, "-c", request.language.source_name, "-o", _OBJECT]


def _link_command(request: CompileRequest, toolchain: CompilerToolchain) -> list[str]:
    if request.language is Language.HIP:
        arguments = [str(toolchain.hipcc), *toolchain.hip_arguments, f"--offload-arch={request.arch}"]
    else:
        arguments = [str(toolchain.clangxx), *toolchain.cpp_arguments]
        if toolchain.openmp:
            arguments.append("-fopenmp")
    arguments += ["-shared", "-Wl,-z,defs", f"-Wl,--version-script={_EXPORTS}", _OBJECT]
    return [*arguments, *toolchain.link_arguments, *link_flags(request), "-o", _SHARED_OBJECT]


def _environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in environment.items() if name not in _UNWANTED_VARIABLES}
    return {
        **kept,
        "TMPDIR": str(folder / _TEMPORARY),
        "CC_PRINT_HEADERS": "1",
        "CC_PRINT_HEADERS_FILE": str(folder / _HEADER_LIST),
        "LC_ALL": "C.UTF-8",
        "SOURCE_DATE_EPOCH": "0",  # __DATE__ and __TIME__ would make two compiles of one source differ
    }


async def _device_code(job: _Job, file: Path) -> bytes | None:
    arch = job.request.arch
    try:
        return await anyio.to_thread.run_sync(elf.device_code, file, arch)
    except elf.CompressedBundle:
        bundle = await anyio.to_thread.run_sync(elf.fat_binary, file)
        if bundle is None:
            return None
        await anyio.to_thread.run_sync((job.folder / "bundle").write_bytes, bundle)
        done = await job.run(
            [
                str(job.toolchain.offload_bundler),
                "--unbundle",
                "--type=o",
                "--input=bundle",
                f"--targets=hipv4-amdgcn-amd-amdhsa--{arch}",
                "--output=code",
            ]
        )
        if done.exit_status != 0:
            raise ValueError("its offload bundle cannot be unpacked") from None
        return await anyio.to_thread.run_sync((job.folder / "code").read_bytes)


def _unfinished(job: _Job, finished: Finished, headers: tuple[str, ...]) -> CompileOutcome:
    """Tell a mistake in the source from a fault of the host."""
    program = Path(finished.arguments[0]).name
    # A message that has a place speaks of the source, whatever words it uses.
    errors = [message for message in parse_log(finished.stderr) if message.is_error]
    unplaced = [message for message in errors if message.position is None]
    fault, message = _fault_of(finished, program, unplaced)
    if fault is None and not errors:
        fault, message = Fault.HOST, f"{program} ended with status {finished.exit_status} and without a word"
        if finished.stderr.strip():
            message = f"{program} ended with status {finished.exit_status}: {finished.stderr.strip().splitlines()[-1]}"
    if fault is not None:
        return job.outcome(Status.TRANSIENT, fault=fault, message=message, headers=headers)
    return job.outcome(Status.FAILED, headers=headers)


def _fault_of(finished: Finished, program: str, unplaced: list[ClangMessage]) -> tuple[Fault | None, str]:
    if finished.verdict is Verdict.TIMED_OUT:
        return Fault.TIMED_OUT, f"{program} was ended after {finished.duration_s:.0f} s"
    if finished.verdict is Verdict.OUT_OF_MEMORY:
        return Fault.OUT_OF_MEMORY, f"{program} ran out of memory"
    kind = transient_kind(unplaced)
    if kind is not None:
        fault, said = _FAULTS[kind]
        return fault, f"{program} {said}"
    # A shell reports a signal as 128 + its number.
    number = -finished.exit_status if finished.exit_status < 0 else finished.exit_status - 128
    if finished.exit_status < 0 or (number in _CRASH_SIGNALS | {signal.SIGKILL, signal.SIGTERM} and not unplaced):
        crashed = number in _CRASH_SIGNALS
        name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
        return (
            (Fault.CRASHED, f"{program} crashed ({name})")
            if crashed
            else (Fault.KILLED, f"{program} was killed ({name})")
        )
    return None, ""


def _unwritten(job: _Job, error: OSError) -> CompileOutcome:
    fault = Fault.NO_SPACE if error.errno in (errno.ENOSPC, errno.EDQUOT) else Fault.HOST
    return job.outcome(Status.TRANSIENT, fault=fault, message=f"cannot write in {job.folder}: {error.strerror}")


def _not_exported(names: list[str]) -> str:
    return "".join(
        f"ld: error: the source defines no exported function '{name}': "
        'declare it extern "C" PT_EXPORT, under the name KERNEL_NAME\n'
        for name in names
    )
