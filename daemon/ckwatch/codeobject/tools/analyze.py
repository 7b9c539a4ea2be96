"""Analyzes a code object: makes the report of its kernels with llvm-objdump and llvm-mca.

llvm-objdump runs once for kernels of a few MiB, and so does llvm-mca on the loops of all of these: starting it takes
longer than most loops. If it does not take them all, each loop gets a run of its own, so that one that it chokes on
costs no other its figures. Whatever goes wrong becomes a note: an analysis never fails a build.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from ckwatch.codeobject import llvm_mca
from ckwatch.codeobject.disassembly import InstructionKind, functions, traits
from ckwatch.codeobject.kernel_names import is_helper, own_kernels
from ckwatch.codeobject.main_loop import FoundLoop, main_loop
from ckwatch.codeobject.metadata import CodeObjectMetadata, read_metadata
from ckwatch.codeobject.occupancy import occupancy_of
from ckwatch.codeobject.report import CodeObjectReport, KernelReport, KernelResources
from ckwatch.codeobject.tools.llvm_tools import LlvmTools, failure_text, run_llvm_tool
from ckwatch.model.errors import ToolchainError
from ckwatch.system.async_processes import ExitReason, Launcher, ProcessResult, run_process

_TIME_LIMIT_S = 30.0
_ATTEMPTS = 3
_REJECTED_SHOWN = 3
_PredictedCycles = tuple[llvm_mca.LoopCycles | None, tuple[str, ...]]
"""A prediction, and what is to be noted."""
_NOT_PREDICTED: _PredictedCycles = (None, ())
_PROCESSES = max(2, min(4, os.cpu_count() or 2))


async def analyze(
    code_object: Path,
    tools: LlvmTools,
    arch: str,
    *,
    own: tuple[str, Sequence[str]] = ("", ()),
    launcher: Launcher = run_process,
) -> CodeObjectReport:
    """Analyse the kernels of an AMDGPU code object without running it.

    `arch` is used where the file does not tell its own. `own` are the name and template arguments of the kernel that
    comes first, if there is one. A file that cannot be read, or is none, gives a report without
    kernels; what else could not be analysed is in the notes of the report or of the kernel. Raises nothing of its own.
    """
    try:
        data = await anyio.to_thread.run_sync(code_object.read_bytes)
    except OSError as error:
        return CodeObjectReport(arch=arch, kernels=(), notes=(f"the code object cannot be read: {error.strerror}",))
    try:
        contents = await anyio.to_thread.run_sync(read_metadata, data)
    except ValueError as error:
        return CodeObjectReport(arch=arch, kernels=(), notes=(str(error),))
    return await analyze_contents(code_object, contents, tools, arch, own=own, launcher=launcher)


async def analyze_contents(
    code_object: Path,
    contents: CodeObjectMetadata,
    tools: LlvmTools,
    arch: str = "",
    *,
    own: tuple[str, Sequence[str]] = ("", ()),
    launcher: Launcher = run_process,
) -> CodeObjectReport:
    """Analyze a code object whose metadata has been read, as `analyze`."""
    if not contents.kernels:
        return CodeObjectReport(arch=contents.arch or arch, kernels=(), notes=contents.notes)
    return await _Analysis(tools, contents.arch or arch, launcher).report(code_object, contents, own)


def resources_alone(contents: CodeObjectMetadata, note: str = "") -> CodeObjectReport:
    """The report of a code object without LLVM's tools; `note` says why."""
    kernels = tuple(
        KernelReport(resources=one, occupancy=occupancy_of(one, contents.arch, cu_mode=one.symbol in contents.cu_mode))
        for one in contents.kernels
        if not is_helper(one.symbol)
    )
    return CodeObjectReport(arch=contents.arch, kernels=kernels, notes=(*contents.notes, *filter(None, [note])))


class _Analysis:
    def __init__(self, tools: LlvmTools, arch: str, launcher: Launcher) -> None:
        self._tools = tools
        self._arch = arch
        self._launcher = launcher

    async def report(
        self, code_object: Path, contents: CodeObjectMetadata, own: tuple[str, Sequence[str]]
    ) -> CodeObjectReport:
        notes = list(contents.notes)
        wanted = [resources for resources in contents.kernels if not is_helper(resources.symbol)]
        folder = await anyio.to_thread.run_sync(partial(tempfile.TemporaryDirectory, prefix="ckwatch-analysis-"))
        reports: list[KernelReport] = []
        try:
            for batch in _batches(wanted, contents):
                text, note = await self._disassembly(code_object, batch, contents, Path(folder.name))
                notes.extend(note)
                found = await anyio.to_thread.run_sync(_loops_of, batch, text, contents.labels, self._arch)
                reports += await self._reports(batch, found, contents, Path(folder.name))
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(folder.cleanup)
        if self._tools.mca is None and any(report.loop is not None for report in reports):
            notes.append("the toolchain has no llvm-mca: no cycles are predicted")
        first = own_kernels([one.resources.symbol for one in reports], *own)
        reports.sort(key=lambda one: (one.resources.symbol not in first, -(one.code_bytes or 0)))
        return CodeObjectReport(
            arch=self._arch, kernels=tuple(reports), own=len(first), notes=tuple(dict.fromkeys(notes))
        )

    async def _disassembly(
        self, code_object: Path, batch: Sequence[KernelResources], contents: CodeObjectMetadata, folder: Path
    ) -> tuple[str, tuple[str, ...]]:
        """The text, "" when there is none, and what is wrong with it."""
        part = []
        if _by_name(batch, contents):
            part = [f"--disassemble-symbols={','.join(one.symbol for one in batch)}"]
        finished, why = await self._run([str(self._tools.objdump), "-d", *part, str(code_object)], folder)
        if finished is None:
            return "", (why,)
        if not finished.succeeded:
            return finished.stdout, (f"llvm-objdump failed: {failure_text(finished)}",)
        if finished.dropped_bytes:
            return finished.stdout, ("the disassembly is too long: its end was not analysed",)
        return finished.stdout, ()

    async def _reports(
        self,
        batch: Sequence[KernelResources],
        found_loops: Sequence[tuple[FoundLoop, int | None]],
        contents: CodeObjectMetadata,
        folder: Path,
    ) -> list[KernelReport]:
        loops = [found for found, _ in found_loops]
        predicted = {}
        if self._tools.mca is not None:
            numbers = [number for number, found in enumerate(loops) if found.loop is not None]
            predicted = await self._predictions(self._tools.mca, {number: loops[number] for number in numbers}, folder)
        reports = []
        for number, (resources, (found, code_bytes)) in enumerate(zip(batch, found_loops, strict=True)):
            occupancy = occupancy_of(resources, self._arch, cu_mode=resources.symbol in contents.cu_mode)
            prediction, notes = predicted.get(number, _NOT_PREDICTED)
            loop = found.loop
            if prediction is not None and loop is not None:
                loop = replace(
                    loop,
                    clocks=prediction.cycles * llvm_mca.clocks_per_cycle(self._arch),
                    matrix_use=prediction.matrix_use,
                )
            reports.append(
                KernelReport(
                    resources=resources,
                    occupancy=occupancy,
                    loop=loop,
                    notes=(*found.notes, *notes),
                    code_bytes=code_bytes,
                )
            )
        return reports

    async def _predictions(
        self, mca: Path, loops: Mapping[int, FoundLoop], folder: Path
    ) -> dict[int, _PredictedCycles]:
        """llvm-mca's predictions for loops, by their numbers."""
        predicted: dict[int, _PredictedCycles] = {}
        if len(loops) > 1:
            source = "".join(llvm_mca.mca_source(found.body, name=f"-{number}") for number, found in loops.items())
            finished, _ = await self._mca(mca, source, "loops.s", folder)
            if finished is not None and _answers(finished):
                return await anyio.to_thread.run_sync(self._read_all, finished.stdout, loops)
        limiter = anyio.CapacityLimiter(_PROCESSES)

        async def predict(number: int, found: FoundLoop) -> None:
            async with limiter:
                predicted[number] = await self._prediction(mca, found, folder, number)

        async with anyio.create_task_group() as tasks:
            for number, found in loops.items():
                tasks.start_soon(predict, number, found)
        return predicted

    async def _prediction(self, mca: Path, found: FoundLoop, folder: Path, number: int) -> _PredictedCycles:
        """llvm-mca's prediction for a loop, without the instructions that it rejects, which the notes name."""
        left_out: dict[int, str] = {}
        for attempt in range(_ATTEMPTS):
            source = llvm_mca.mca_source(found.body, left_out)
            finished, why = await self._mca(mca, source, f"loop-{number}-{attempt}.s", folder)
            if finished is None:
                return None, (why,)
            if llvm_mca.unknown_cpu(finished.stderr):
                return None, (f"llvm-mca does not know {self._arch}: no cycles are predicted",)
            if _answers(finished):
                return await anyio.to_thread.run_sync(self._read, finished.stdout, found, left_out)
            more = llvm_mca.rejected_instructions(finished.stderr, found.body, left_out)
            if not more or finished.exit_reason is not ExitReason.EXITED:
                return None, (f"llvm-mca failed, no cycles are predicted: {failure_text(finished)}",)
            left_out |= more
        return None, (f"no cycles are predicted: {_rejections(found, left_out)}",)

    async def _mca(self, mca: Path, source: str, name: str, folder: Path) -> tuple[ProcessResult | None, str]:
        await anyio.to_thread.run_sync((folder / name).write_text, source)
        return await self._run([str(mca), *llvm_mca.mca_arguments(self._arch, name)], folder)

    def _read_all(self, output: str, loops: Mapping[int, FoundLoop]) -> dict[int, _PredictedCycles]:
        try:
            answer = llvm_mca.parse_answer(output)
        except ValueError as error:
            return dict.fromkeys(loops, (None, (str(error),)))
        return {number: self._read(answer, found, {}, name=f"-{number}") for number, found in loops.items()}

    def _read(
        self, output: str | llvm_mca.McaAnswer, found: FoundLoop, left_out: Mapping[int, str], *, name: str = ""
    ) -> _PredictedCycles:
        if any(traits(found.body[place].mnemonic).kind is InstructionKind.MFMA for place in left_out):
            return None, (f"no cycles are predicted: {_rejections(found, left_out)}",)
        notes = (f"the predicted cycles are without some: {_rejections(found, left_out)}",) if left_out else ()
        try:
            prediction = llvm_mca.loop_cycles_of(output, found.body, left_out, name=name)
        except ValueError as error:
            return None, (*notes, str(error))
        if llvm_mca.unmodelled_matrix(prediction, found.body):
            note = f"LLVM's model of {self._arch} has no latencies of matrix instructions: no cycles"
            return None, (*notes, f"{note} are predicted")
        return prediction, notes

    async def _run(self, arguments: Sequence[str], folder: Path) -> tuple[ProcessResult | None, str]:
        try:
            return await run_llvm_tool(arguments, self._tools, folder, self._launcher, timeout_s=_TIME_LIMIT_S), ""
        except ToolchainError as error:
            return None, str(error)


def _answers(finished: ProcessResult) -> bool:
    """Return True if llvm-mca accepted all instructions for the requested processor."""
    return finished.succeeded and not llvm_mca.unknown_cpu(finished.stderr)


_BATCH_BYTES = 2**20
"""Of code that is disassembled at once: a byte becomes ten to forty of text."""
_BATCH_CHARACTERS = 64 * 1024
"""Of names in an argument, of which Linux takes 128 KiB."""


def _by_name(kernels: Sequence[KernelResources], contents: CodeObjectMetadata) -> bool:
    """Return True if llvm-objdump can be asked for these kernels alone: it ends a kernel at a label, a name at ','."""
    return not contents.labels and not any("," in one.symbol for one in kernels)


def _batches(wanted: Sequence[KernelResources], contents: CodeObjectMetadata) -> Iterator[list[KernelResources]]:
    """Kernels that are disassembled together: all of them where they need not be distinguished."""
    if not _by_name(wanted, contents):
        yield list(wanted)
        return
    batch: list[KernelResources] = []
    code = characters = 0
    for one in wanted:
        size = contents.code_bytes.get(one.symbol, 0)
        if batch and (code + size > _BATCH_BYTES or characters + len(one.symbol) > _BATCH_CHARACTERS):
            yield batch
            batch, code, characters = [], 0, 0
        batch.append(one)
        code, characters = code + size, characters + len(one.symbol) + 1
    yield batch


def _loops_of(
    batch: Sequence[KernelResources], text: str, labels: AbstractSet[str], arch: str
) -> list[tuple[FoundLoop, int | None]]:
    """The main loop of each kernel, and the bytes of its code."""
    found = {function.symbol: function for function in functions(text, [one.symbol for one in batch], labels)}
    loops: list[tuple[FoundLoop, int | None]] = []
    for resources in batch:
        function = found.pop(resources.symbol, None)
        if function is None:
            loops.append((FoundLoop(None, notes=("the kernel is not in the disassembly",)), None))
        else:
            size = sum(one.size for one in function.instructions)
            loops.append((main_loop(function, resources.wavefront_size, arch), size))
    return loops


def _rejections(found: FoundLoop, left_out: Mapping[int, str]) -> str:
    """The first few instructions that llvm-mca rejected, each kind once, and how many there are in all."""
    by_mnemonic = {found.body[place].mnemonic: place for place in sorted(left_out, reverse=True)}
    shown = [
        f"`{found.body[place].text}` ({left_out[place]})" for place in sorted(by_mnemonic.values())[:_REJECTED_SHOWN]
    ]
    return f"llvm-mca rejected {len(left_out)} of {len(found.body)} instructions, such as {', '.join(shown)}"
