"""Runs LLVM's tools on a code object, within limits of time and output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ckwatch.codeobject.llvm_mca import first_error
from ckwatch.system.async_processes import ExitReason, Launcher, ProcessResult

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
