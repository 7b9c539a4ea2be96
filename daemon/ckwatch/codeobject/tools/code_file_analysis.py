"""Analyzes the code objects of a file that may come from anywhere: their figures, and the instructions of a kernel.

LLVM's tools read a copy of each code object; nothing of it is executed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.codeobject.code_files import CodeObject
from ckwatch.codeobject.disassembly import DisassembledFunction
from ckwatch.codeobject.listing import listing_of
from ckwatch.codeobject.listing_text import ReadLine, isa_view
from ckwatch.codeobject.metadata import without_labels
from ckwatch.codeobject.report import CodeObjectReport, KernelReport
from ckwatch.codeobject.source_lines import CallChain
from ckwatch.codeobject.tools.analyze import analyze_contents, resources_alone
from ckwatch.codeobject.tools.llvm_tools import LlvmTools, disassemble, source_lines_of
from ckwatch.model.errors import ToolchainError
from ckwatch.model.isa import IsaView

_PROCESSES = 2


async def analyze_code(
    objects: Sequence[CodeObject], tools: LlvmTools | None, why_no_tools: str = ""
) -> list[CodeObjectReport]:
    """Analyze the kernels in the metadata of code objects, in their order; without LLVM's tools their resources and
    occupancy alone."""
    reports: dict[int, CodeObjectReport] = {}
    limiter = anyio.CapacityLimiter(_PROCESSES)

    async def analyze_one(number: int, code: CodeObject) -> None:
        if tools is None:
            reports[number] = await to_thread.run_sync(resources_alone, code.metadata, why_no_tools)
            return
        async with limiter, _copy_of(code) as path:
            contents = replace(code.metadata, labels=frozenset())
            reports[number] = await analyze_contents(path, contents, tools, code.arch)

    async with anyio.create_task_group() as tasks:
        for number, code in enumerate(objects):
            tasks.start_soon(analyze_one, number, code)
    return [reports[number] for number in range(len(objects))]


async def disassemble_kernel(
    code: CodeObject, kernel: KernelReport, tools: LlvmTools
) -> tuple[DisassembledFunction, dict[int, CallChain] | None, str]:
    """Return the kernel's instructions and their source lines by address; None, and why, where there are no lines.
    Raises ToolchainError when it cannot be disassembled."""
    async with _copy_of(code) as path:
        function = await disassemble(path, tools, kernel.resources.symbol)
        try:
            return function, await source_lines_of(path, tools, function), ""
        except ToolchainError as error:
            return function, None, f"no source lines: {error.message}"


async def kernel_listing(
    code: CodeObject, kernel: KernelReport, tools: LlvmTools, read_line: ReadLine | None = None
) -> IsaView:
    """Lay out the instructions of a kernel with the source lines that the code object itself has, and their text as
    `read_line` reads it. Raises ToolchainError."""
    function, frames, why_not = await disassemble_kernel(code, kernel, tools)
    name, loop = kernel.resources.name, kernel.loop

    def laid_out() -> IsaView:
        found = isa_view(listing_of(function, name=name, main=loop, frames=frames), read_line=read_line)
        return replace(found, notes=(why_not, *found.notes)) if why_not else found

    return await to_thread.run_sync(laid_out)


@asynccontextmanager
async def _copy_of(code: CodeObject) -> AsyncIterator[Path]:
    """A file without the labels of assembly written by hand: tools take each for the beginning of another function."""
    data = await to_thread.run_sync(without_labels, code.data) if code.metadata.labels else code.data
    async with anyio.TemporaryDirectory(prefix="ckwatch-code-") as folder:
        path = Path(folder, "code.hsaco")
        await anyio.Path(path).write_bytes(data)
        yield path
