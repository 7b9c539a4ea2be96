"""The emulator at work: builds its library once, and has a worker of this machine load it and execute kernels."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import anyio

from ckwatch.bench.job import VerifyJob
from ckwatch.bench.worker_protocol import WorkerHello, WorkerMessage, WorkerStage
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.verify import EmulatorRun
from ckwatch.model.errors import CkwatchError
from ckwatch.model.verification import Verification
from ckwatch.verification.library import FOLDER, build_library
from ckwatch.verification.session import VERIFIER, verify


class WorkerEmulator:
    """Fits `ckwatch.engine.handlers.verify.Emulate`. A worker runs in the folder `root`."""

    def __init__(self, tools: BuildTools, root: Path) -> None:
        self._tools = tools
        self._root = root
        self._building = anyio.Lock()

    async def __call__(self, run: EmulatorRun, on_stage: Callable[[str], None]) -> Verification:
        """Execute a run. Raises CkwatchError without the toolchain's disassembler, or a compiler for the emulator."""
        compiler, store = self._tools.compiler, self._tools.store
        toolchain = None if compiler is None else compiler.toolchain
        if store is None or not isinstance(toolchain, Toolchain):
            problem = self._tools.problem or "there is no ROCm here"
            raise CkwatchError(f"the emulator needs the disassembler of a ROCm toolchain: {problem}")
        async with self._building:
            on_stage("building the emulator")
            library = await build_library(store.folder / FOLDER, toolchain.clang)
        job = VerifyJob(
            arch=run.arch,
            symbol=run.symbol,
            trials=run.trials,
            library=str(library),
            objdump=str(toolchain.objdump),
            checked=run.checked,
            instruction_limit=run.instruction_limit,
        )

        def report(message: WorkerMessage) -> None:
            if isinstance(message, WorkerHello) and run.nice:
                with suppress(OSError):  # it may have ended
                    os.setpriority(os.PRIO_PGRP, message.pid, run.nice)
            elif isinstance(message, WorkerStage):
                on_stage(message.name)

        start = replace(VERIFIER, folder=self._root)
        return await verify(job, run.artifact, start, time_limit_s=run.time_limit_s, on_message=report)
