"""The text of a file with code objects: its figures and its instructions, as `ckwatch inspect` has them.

A process of its own reads the file, which may come from anywhere; neither a workspace nor a daemon is needed.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from ckwatch.model.errors import CkwatchError
from ckwatch.system.async_processes import ProcessResult, run_process
from ckwatch.system.python_process import module_command, module_environment
from ckwatch.wire.analysis import Isa
from ckwatch.wire.encoding import adapter
from ckwatch_lsp.virtual_documents.texts import VirtualText, isa_text

TIME_LIMIT_S = 120.0
"""Processor time of reading a file."""

RunInspect = Callable[[Sequence[str], Path], Awaitable[ProcessResult]]


async def run_inspect(arguments: Sequence[str], folder: Path) -> ProcessResult:
    """Run `ckwatch inspect` in a folder."""
    command = module_command("ckwatch", "inspect", *arguments)
    return await run_process(command, environment=module_environment(), folder=folder, timeout_s=TIME_LIMIT_S)


async def code_text(path: Path, run: RunInspect = run_inspect) -> VirtualText:
    """The figures of all kernels of a file, and the instructions of the first. Raises CkwatchError if it has none, or
    cannot be read."""
    done = await run(["--isa", "--kernel", "*", "--json", str(path)], path.parent)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        why = done.stderr.strip().splitlines() or [f"reading it ended with status {done.exit_status}"]
        raise CkwatchError(f"{path.name} cannot be shown: {why[-1]}") from None
    if "text" not in answer:
        raise CkwatchError(" ".join(answer.get("notes", ())) or f"{path.name} holds no code for AMD GPUs.")
    answer.pop("schema", None)
    return isa_text(adapter(Isa).validate_python(answer), None, 0)
