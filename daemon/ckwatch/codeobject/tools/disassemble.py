"""Disassembles one kernel with llvm-objdump, and finds its source lines with llvm-symbolizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.codeobject.disassembly import DisassembledFunction, functions
from ckwatch.codeobject.source_lines import (
    CallChain,
    call_chains_of,
    symbolizer_calls,
)
from ckwatch.codeobject.tools.llvm_tools import LlvmTools, failure_text, run_llvm_tool
from ckwatch.model.errors import ToolchainError
from ckwatch.system.async_processes import ProcessResult, run_process

_TIME_LIMIT_S = 60.0
_PROCESSES = 2


async def disassemble(code_object: Path, tools: LlvmTools, symbol: str) -> DisassembledFunction:
    """The kernel's instructions, none where the disassembly has none. Raises ToolchainError when objdump fails."""
    arguments = [str(tools.objdump), "-d", f"--disassemble-symbols={symbol}", str(code_object)]
    text = (await _output(arguments, tools, code_object.parent)).stdout
    found = await anyio.to_thread.run_sync(functions, text, [symbol])
    return found[0] if found else DisassembledFunction(symbol, 0, ())


async def source_lines_of(code_object: Path, tools: LlvmTools, function: DisassembledFunction) -> dict[int, CallChain]:
    """Return the call chains of a function's instructions, by address. Raises ToolchainError when the tools fail."""
    return await call_chains(code_object, tools, [instruction.address for instruction in function.instructions])


async def call_chains(code_object: Path, tools: LlvmTools, addresses: Sequence[int]) -> dict[int, CallChain]:
    """Return the call chains around instructions, by address. Raises ToolchainError when the tools fail."""
    folder = code_object.parent
    symbolizer = tools.objdump.with_name("llvm-symbolizer")
    if not await anyio.to_thread.run_sync(symbolizer.is_file):
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
            frames.update(await anyio.to_thread.run_sync(call_chains_of, done.stdout))

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
