"""Launches of a code object by a description (`ckwatch.workspace.launch_file`), which is checked against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from anyio import to_thread

from ckwatch.bench.job import VerifyJob
from ckwatch.bench.worker_protocol import LaunchCounted
from ckwatch.bench.worker_session import OnMessage
from ckwatch.codeobject.code_files import SCRATCH, CodeFile, CodeObject
from ckwatch.codeobject.kernel_names import is_helper
from ckwatch.codeobject.metadata import ArgumentMetadata
from ckwatch.codeobject.report import KernelReport, KernelResources
from ckwatch.codeobject.tools.code_file_analysis import disassemble_kernel
from ckwatch.codeobject.tools.llvm_tools import LlvmTools
from ckwatch.model import amounts
from ckwatch.model.kernel_launches import ArgumentKind, LaunchArgument, ModuleLaunch
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import evaluate_size, is_atom, names_in, parse_size
from ckwatch.model.trials import Trial
from ckwatch.model.verification import Verification
from ckwatch.verification.module_launch import SCALARS, is_number, size_of
from ckwatch.verification.places import at_inputs, place_findings
from ckwatch.verification.session import count, verify
from ckwatch.workspace.array_files import array_contents
from ckwatch.workspace.launch_file import NULL, POINTER_TYPE, TYPE_BYTES, WORKSPACE, LaunchDescription, Structure
from ckwatch.workspace.problems import did_you_mean, join_names
from ckwatch.workspace.toml_document import KeyPath

POINTER = "global_buffer"
SCALAR_BYTES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class CodeLaunch:
    """A kernel of a code object with its launch: `unit` is FILE/KERNEL@ARCH, whose sizes and reference are those of the
    description."""

    code: CodeObject
    resources: KernelResources
    launch: ModuleLaunch
    unit: Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEmulator:
    """The emulator's `library` with the toolchain's `tools`, and how it is used."""

    library: Path
    tools: LlvmTools
    references: Path
    checks: bool
    instruction_limit: int
    time_limit_s: float
    reference_limit_s: float

    def job(self, one: CodeLaunch, trials: Sequence[Trial]) -> VerifyJob:
        """The job of a worker that launches the kernel on each of the trials; its artifact is the code object."""
        return VerifyJob(
            arch=one.code.arch,
            symbol=one.launch.symbol,
            trials=tuple(trials),
            library=str(self.library),
            objdump=str(self.tools.objdump),
            checked=self.checks,
            instruction_limit=self.instruction_limit,
            reference=one.unit.kernel.operation.reference,
            reference_limit_s=self.reference_limit_s,
            kept_references=str(self.references),
            launch=one.launch,
        )


async def verify_launch(
    one: CodeLaunch, trials: Sequence[Trial], emulator: LaunchEmulator, on_message: OnMessage | None = None
) -> Verification:
    """Verify a kernel on problems, with the lines of findings that the code object has."""
    arrays = await to_thread.run_sync(array_contents, one.unit.kernel.operation)
    found = await verify(
        emulator.job(one, trials),
        one.code.data,
        time_limit_s=emulator.time_limit_s,
        on_message=on_message,
        arrays=arrays,
    )
    if found.findings:
        report = KernelReport(resources=one.resources, occupancy=None)
        _, frames, _ = await disassemble_kernel(one.code, report, emulator.tools)
        found = place_findings(found, one.launch.symbol, frames or {}, None)
    return at_inputs(found, one.unit.kernel)


async def count_launch(
    one: CodeLaunch, trial: Trial, emulator: LaunchEmulator, on_message: OnMessage | None = None
) -> LaunchCounted:
    """Launch a kernel once and count its instructions. Raises CkwatchError where it does not come to an end."""
    arrays = await to_thread.run_sync(array_contents, one.unit.kernel.operation)
    job = replace(emulator.job(one, []), counted=trial)
    return await count(job, one.code.data, time_limit_s=emulator.time_limit_s, on_message=on_message, arrays=arrays)


def own_kernels(code: CodeObject) -> list[KernelResources]:
    """The kernels of a code object, without CK's helpers."""
    return [one for one in code.metadata.kernels if not is_helper(one.symbol)]


def launches_of(file: CodeFile, description: LaunchDescription) -> tuple[CodeLaunch, ...]:
    """The launches of the file's code objects by a description, one of each arch that has the kernel; where several
    code objects have it, of the first. Raises DiagnosedError where kernel and description do not fit, each mistake at
    its place."""
    chosen: dict[str, tuple[CodeObject, KernelResources]] = {}
    for code, resources in _kernels_meant(file, description):
        chosen.setdefault(code.arch, (code, resources))
    found = []
    for code, resources in chosen.values():
        launch = _Binding(code, resources, description).launch()
        description.require()
        kernel = replace(description.kernel, name=file.path.name, archs=(code.arch,))
        instance = replace(kernel.instances[0], name=resources.name)
        found.append(
            CodeLaunch(code, resources, launch, Unit(replace(kernel, instances=(instance,)), instance, code.arch))
        )
    return tuple(found)


def _kernels_meant(file: CodeFile, description: LaunchDescription) -> list[tuple[CodeObject, KernelResources]]:
    """The kernels that `kernel` names, or the only one."""
    there = [(code, one) for code in file.objects for one in own_kernels(code)]
    symbols = {one.symbol: one.name for _, one in there}
    wanted, problems = description.table.kernel, description.problems
    if wanted is None and len(symbols) > 1:
        message = f"`kernel` is missing: {file.path.name} has {amounts.count(len(symbols), 'kernel')}: "
        problems.add("missing-key", message + join_names(symbols.values()), problems.document.beginning)
    elif not symbols:
        problems.add("unknown-kernel", f"{file.path.name} has no kernel", problems.document.beginning)
    elif wanted is not None and wanted not in (*symbols, *symbols.values()):
        what = f"{file.path.name} has no kernel `{wanted}`"
        problems.unknown_name(("kernel",), "unknown-kernel", what, wanted, [*symbols.values()])
    elif wanted is not None and wanted not in symbols and len(same := [s for s in symbols if symbols[s] == wanted]) > 1:
        message = f"several kernels are called `{wanted}`: give the symbol of one, {join_names(same)}"
        problems.at_value(("kernel",), "ambiguous-kernel", message)
    description.require()
    return [(code, one) for code, one in there if wanted in (None, one.symbol, one.name)]


@dataclass(frozen=True, slots=True)
class _Taken:
    """An argument or a field that a kernel takes: words for it, its bytes, and the C type of a field."""

    text: str
    size_bytes: int
    pointer: bool
    c_type: str = ""


@dataclass(slots=True)
class _Binding:
    """A description for a kernel of a code object; what does not fit is reported at its place."""

    code: CodeObject
    resources: KernelResources
    description: LaunchDescription

    def launch(self) -> ModuleLaunch:
        """The launch; of use only where the description's problems got no new error."""
        table, triton = self.description.table, self.code.triton
        return ModuleLaunch(
            symbol=self.resources.symbol,
            grid=tuple(table.grid),
            block=self._block(),
            dynamic_lds=table.dynamic_lds or str(0 if triton is None else triton.shared_bytes),
            arguments=tuple(self._arguments()),
            constants=tuple(self.description.constants.items()),
            workspace=table.workspace or self._usual_workspace(),
        )

    def _usual_workspace(self) -> str:
        """Bytes of Triton's scratch memory, which it takes by the workgroup."""
        triton = self.code.triton
        if triton is None or not triton.scratch_bytes:
            return "0"
        return " * ".join([str(triton.scratch_bytes), *(f"({text})" for text in self.description.table.grid)])

    def _block(self) -> tuple[str, ...]:
        table, problems, most = self.description.table, self.description.problems, self.resources.workgroup_size
        if table.block is None:
            if (usual := usual_block(self.code, self.resources)) is None:
                message = (
                    f"`block` is missing: the kernel takes at most {most} threads, and how many it needs is not known"
                )
                problems.add("missing-key", message, problems.document.beginning)
                return ()
            return (str(usual),)
        if not any(map(names_in, table.block)):
            threads = 1
            for text in table.block:
                threads *= evaluate_size(text, {})
            if not 0 < threads <= most:
                message = f"a block of {amounts.count(threads, 'thread')}: the kernel takes at most {most}"
                problems.at_value(("block",), "out-of-range", message)
        return tuple(table.block)

    def _arguments(self) -> list[LaunchArgument]:
        problems = self.description.problems
        takes = arguments_of(self.code, self.resources)
        given: Sequence[str | Structure] | None = self.description.arguments
        if given is None:
            if not all(one.name for one in takes):
                message = "`arguments` is missing: the code object does not name them; the kernel takes "
                problems.add(
                    "missing-key", message + join_names(map(argument_text, takes)), problems.document.beginning
                )
                return []
            given = [usual_argument(self.code, one.name) for one in takes]
        elif len(given) != len(takes):
            message = f"{amounts.count(len(given), 'argument')}, and the kernel takes {len(takes)}: "
            problems.at_value(("arguments",), "wrong-length", message + join_names(map(argument_text, takes)))
            return []
        found = [
            self._structure(at, one, takes)
            if isinstance(one, Structure)
            else self._value(
                self._place(at), one, _Taken(argument_text(takes), takes.size_bytes, takes.kind == POINTER)
            )
            for at, (one, takes) in enumerate(zip(given, takes, strict=True))
        ]
        self._check_all_passed(found)
        return found

    def _structure(self, at: int, given: Structure, takes: ArgumentMetadata) -> LaunchArgument:
        size = takes.size_bytes
        message = ""
        if takes.kind == POINTER:
            message = f"a structure, and the kernel takes {argument_text(takes)} here"
        elif given.size_bytes not in (None, size):
            message = f"the format has {amounts.count(given.size_bytes or 0, 'byte')}, and the kernel takes {size} here"
        if message:
            self._report(("arguments", at), message)
        fields = []
        for one in given.fields:
            if one.offset + TYPE_BYTES[one.type] > size and not message:
                self._report(one.place, f"a {one.type} at {one.offset} ends beyond the {size} bytes of the structure")
            taken = _Taken(f"a {one.type}", TYPE_BYTES[one.type], one.type == POINTER_TYPE, one.type)
            fields.append((one.offset, self._value(one.place, one.value, taken)))
        return LaunchArgument(kind=ArgumentKind.STRUCTURE, size_bytes=size, fields=tuple(fields))

    def _value(self, place: KeyPath, text: str, takes: _Taken) -> LaunchArgument:
        operation = self.description.kernel.operation
        buffers = {tensor.name: tensor.buffer for tensor in operation.tensors}
        absent = {name for name, tensor in operation.inputs if tensor is None}
        if text in buffers or text in (NULL, WORKSPACE) or text in absent:
            kind = ArgumentKind.BUFFER if text in buffers else ArgumentKind.NULL
            if text == WORKSPACE:
                kind = ArgumentKind.WORKSPACE
                if self.description.table.workspace is None and self._usual_workspace() == "0":
                    self._report(place, "how large the workspace is, is missing: `workspace` above the tables says it")
            if not takes.pointer and takes.size_bytes != 8:
                self._report(place, f"`{text}` is an address, and the kernel takes {takes.text} here")
            return LaunchArgument(kind=kind, size_bytes=takes.size_bytes, text=buffers.get(text, ""))
        if takes.pointer:
            known = [*buffers, NULL]
            what = f"`{text}` is not a tensor, and the kernel takes {takes.text} here; "
            self._report(place, f"{what}{did_you_mean(text, known)}known: {join_names(known)}")
            return LaunchArgument(kind=ArgumentKind.NULL, size_bytes=takes.size_bytes)
        if takes.size_bytes not in SCALAR_BYTES:
            how = 'give its fields, as in { format = "PPiif", values = ["X", "Y", "M", "N", "alpha"] }'
            self._report(place, f"the kernel takes {takes.text} here: {how}")
        c_type = takes.c_type
        if c_type in SCALARS and (is_number(text) or text in operation.runtime_arguments):
            pass
        elif not c_type and is_atom(text) and text in operation.runtime_arguments:
            c_type = operation.runtime_types.get(text, "int32_t")
            if size_of(c_type) != takes.size_bytes and (
                size_of(c_type) > takes.size_bytes or c_type in ("float", "double")
            ):
                self._report(place, f"`{text}` is a {c_type}, and the kernel takes {takes.text} here")
        elif parse_size(text) is None:
            self._report(place, f"`{text}` is not a value, and the kernel takes {takes.text} here")
        else:
            floats = [
                one for one in operation.runtime_arguments if operation.runtime_types.get(one) in ("float", "double")
            ]
            known = [*operation.size_arguments, *operation.runtime_arguments, *self.description.constants]
            for name in dict.fromkeys(names_in(text)):
                if name not in known or name in floats:
                    what = f"`{name}` is not a size; {did_you_mean(name, known)}"
                    self._report(place, f"{what}known: {join_names([*known, *buffers]) or 'none'}")
        return LaunchArgument(kind=ArgumentKind.VALUE, size_bytes=takes.size_bytes, text=text, c_type=c_type)

    def _check_all_passed(self, found: Sequence[LaunchArgument]) -> None:
        every = [*found, *(field for one in found for _, field in one.fields)]
        passed = {one.text for one in every if one.kind is ArgumentKind.BUFFER}
        problems = self.description.problems
        for group, tensors in (
            ("input", [tensor for _, tensor in self.description.kernel.operation.inputs]),
            ("output", [tensor for _, tensor in self.description.kernel.operation.outputs]),
        ):
            for at, tensor in enumerate(tensors):
                if tensor is not None and tensor.buffer not in passed:
                    message = f"`{tensor.name}` is not an argument of the kernel"
                    place = ("arguments",) if "arguments" in problems.document.values else ("operation", group, at)
                    problems.at_value(place, "unknown-argument", message)

    def _place(self, at: int) -> KeyPath:
        document = self.description.problems.document
        return ("arguments", at) if "arguments" in document.values else ("operation", "sizes")

    def _report(self, place: KeyPath, message: str) -> None:
        self.description.problems.at_value(place, "wrong-argument", message)


def usual_argument(code: CodeObject, name: str) -> str:
    """The word for an argument that a description may leave out: Triton's scratch memory, or the name itself."""
    if name == SCRATCH[0] and code.triton is not None and code.triton.scratch_bytes:
        return WORKSPACE
    return NULL if name in SCRATCH else name


def arguments_of(code: CodeObject, resources: KernelResources) -> list[ArgumentMetadata]:
    """The arguments of a kernel that a launch gives, without those that the runtime fills in."""
    return [one for one in code.metadata.arguments.get(resources.symbol, ()) if not one.hidden]


def argument_text(argument: ArgumentMetadata) -> str:
    """`*f32 x_ptr`, `a pointer`, `4 bytes`."""
    scalar = f"a structure of {argument.size_bytes} bytes" if argument.size_bytes not in SCALAR_BYTES else ""
    kind = "a pointer" if argument.kind == POINTER else scalar or amounts.count(argument.size_bytes, "byte")
    return " ".join(filter(None, (argument.type_name or kind, argument.name)))


def usual_block(code: CodeObject, resources: KernelResources) -> int | None:
    """The threads of a block by Triton's JSON; None where nothing says it."""
    return (
        None
        if code.triton is None or code.triton.name != resources.symbol
        else code.triton.num_warps * resources.wavefront_size
    )
