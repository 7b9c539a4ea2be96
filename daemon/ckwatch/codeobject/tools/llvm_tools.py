"""Runs LLVM's tools on a code object, within limits of time and output: llvm-objdump disassembles a kernel,
llvm-symbolizer finds its source lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import anyio
from anyio import to_thread

from ckwatch.codeobject.disassembly import DisassembledFunction, functions
from ckwatch.codeobject.llvm_mca import first_error
from ckwatch.codeobject.source_lines import CallChain, call_chains_of, symbolizer_calls
from ckwatch.model.errors import ToolchainError
from ckwatch.system.async_processes import ExitReason, Launcher, ProcessResult, run_process

_OUTPUT_LIMIT_BYTES = 64 * 2**20


class LlvmTools(Protocol):
    """The tools of a toolchain that are used here."""

    @property
    def objdump(self) -> Path: ...
    @property
    def mca(self) -> Path | None: ...
    @property
    def environment(self) -> Mapping[str, str]: ...


async def run_llvm_tool(
    arguments: Sequence[str], tools: LlvmTools, folder: Path, launcher: Launcher, *, timeout_s: float
) -> ProcessResult:
    """Run one of the tools in `folder`, however it ends. Raises LlvmToolsError when it cannot be started."""
    return await launcher(
        arguments,
        environment=tools.environment,
        folder=folder,
        timeout_s=timeout_s,
        output_limit_bytes=_OUTPUT_LIMIT_BYTES,
    )


def failure_text(finished: ProcessResult) -> str:
    """Why a tool has failed: the signal, or its first error."""
    if finished.exit_reason is ExitReason.SIGNALLED:
        return finished.signal_name or finished.exit_reason.value
    if finished.exit_reason is not ExitReason.EXITED:
        return finished.exit_reason.value
    return first_error(finished.stderr)


_TIME_LIMIT_S = 60.0
_PROCESSES = 2


async def disassemble(code_object: Path, tools: LlvmTools, symbol: str) -> DisassembledFunction:
    """The kernel's instructions, none where the disassembly has none. Raises ToolchainError when objdump fails."""
    arguments = [str(tools.objdump), "-d", f"--disassemble-symbols={symbol}", str(code_object)]
    text = (await _output(arguments, tools, code_object.parent)).stdout
    found = await to_thread.run_sync(functions, text, [symbol])
    return found[0] if found else DisassembledFunction(symbol, 0, ())


async def source_lines_of(
    code_object: Path, tools: LlvmTools, function: DisassembledFunction, expand: Callable[[str], str] = str
) -> dict[int, CallChain]:
    """Return the call chains of a function's instructions, by address. `expand` makes paths of those in the tables.
    Raises ToolchainError when the tools fail."""
    return await call_chains(code_object, tools, [one.address for one in function.instructions], expand)


async def call_chains(
    code_object: Path, tools: LlvmTools, addresses: Sequence[int], expand: Callable[[str], str] = str
) -> dict[int, CallChain]:
    """Return the call chains around instructions, by address. Raises ToolchainError when the tools fail."""
    folder = code_object.parent
    symbolizer = tools.objdump.with_name("llvm-symbolizer")
    if not await to_thread.run_sync(symbolizer.is_file):
        raise ToolchainError("the toolchain has no llvm-symbolizer")
    frames: dict[int, CallChain] = {}
    limiter = anyio.CapacityLimiter(_PROCESSES)
    failures: list[ToolchainError] = []

    async def ask(arguments: tuple[str, ...]) -> None:
        async with limiter:
            try:
                done = await _output([str(symbolizer), *arguments], tools, folder)
            except ToolchainError as error:
                failures.append(error)
                return
            frames.update(await to_thread.run_sync(call_chains_of, done.stdout, expand))

    async with anyio.create_task_group() as tasks:
        for call in symbolizer_calls(str(code_object), addresses):
            tasks.start_soon(ask, call)
    if failures:
        raise failures[0]
    return frames


async def _output(arguments: Sequence[str], tools: LlvmTools, folder: Path) -> ProcessResult:
    done = await run_llvm_tool(arguments, tools, folder, run_process, timeout_s=_TIME_LIMIT_S)
    if not done.succeeded:
        raise ToolchainError(f"{Path(arguments[0]).name} failed: {failure_text(done)}")
    return done
