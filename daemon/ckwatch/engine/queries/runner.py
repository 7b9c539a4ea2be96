"""The standalone runner of a unit: a program that runs and verifies it, made from its operation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from anyio import TemporaryDirectory, to_thread

from ckwatch.bench.job import RunnerDataJob
from ckwatch.bench.numerics import tolerance
from ckwatch.bench.report import BenchmarkFailure
from ckwatch.bench.worker_protocol import RunnerDataWritten
from ckwatch.bench.worker_session import Worker
from ckwatch.compile.request import CompilerToolchain
from ckwatch.compile.store.entries import ProductKind, verified
from ckwatch.engine.render_pool import RenderPool
from ckwatch.model.contractions import Contraction
from ckwatch.model.errors import CkwatchError, TemplateError, ToolchainError
from ckwatch.model.kernel_problem import is_fnuz, pointer_arguments, problem_of, scale_tensors
from ckwatch.model.kernels import Operation, ParameterValue, Unit
from ckwatch.model.python_references import PythonReference
from ckwatch.model.row_computations import RowComputation
from ckwatch.model.targets import Language, language_of
from ckwatch.model.tensors import DTYPES, evaluate_size
from ckwatch.system.async_processes import ProcessResult, run_process
from ckwatch.verification.session import VERIFIER
from ckwatch.wire.messages import Artifact
from ckwatch.workspace.array_files import array_contents
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.settings import VerifySection
from ckwatch.workspace.shapes import RUNTIME_DEFAULTS, with_defaults

TIMEOUT_S = 600.0
_FLAGS = ("-std=c++20", "-O2", "-fPIE", "-D__HIP_PLATFORM_AMD__=1")
# The HIP library of a private toolchain wants a newer C library than the one linked here; it resolves at run time.
_LINK_FLAGS = ("-pie", "-pthread", "-Wl,--allow-shlib-undefined")


async def build_runner(
    source: str, language: Language, object_file: Path, toolchain: CompilerToolchain, *, folder: Path, output: Path
) -> None:
    """Compile `source` in the empty folder `folder` and link it with `object_file` into the program `output`.

    The runner is plain C++ that calls the HIP runtime and the unit's exported function; no device code is compiled. It
    is linked with the object, not with the shared object, so that it is one file to copy to another machine.

    Raises ToolchainError when the runner, which is ours, does not compile or link.
    """
    await to_thread.run_sync((folder / "runner.cpp").write_text, source)
    hip = language is Language.HIP
    arguments = toolchain.hip_arguments if hip else toolchain.cpp_arguments
    compiler = [str(toolchain.clangxx), *arguments]
    rocm = toolchain.roots.get("rocm") if hip else None
    includes = [] if rocm is None else ["-isystem", str(rocm / "include")]
    compiled = await run_process(
        [*compiler, "-x", "c++", *_FLAGS, *includes, "-c", "runner.cpp", "-o", "runner.o"],
        environment=toolchain.environment,
        folder=folder,
        timeout_s=TIMEOUT_S,
    )
    _require(compiled, "the runner does not compile")
    libraries = ["-lamdhip64"] if hip else (["-fopenmp"] if toolchain.openmp else [])
    linker = [str(toolchain.clangxx), *toolchain.cpp_arguments]
    linked = await run_process(
        [*linker, *_LINK_FLAGS, "runner.o", str(object_file), *toolchain.link_arguments, *libraries, "-o", str(output)],
        environment=toolchain.environment,
        folder=folder,
        timeout_s=TIMEOUT_S,
    )
    _require(linked, "the runner does not link")


def _require(finished: ProcessResult, what: str) -> None:
    if not finished.succeeded:
        lines = [line for line in finished.stderr.splitlines() if "error" in line] or finished.stderr.splitlines()
        raise ToolchainError(
            f"{what}: {lines[0] if lines else finished.exit_reason.value}", finished.stderr[-2000:] or None
        )


TEMPLATES = {Language.HIP: "runner/runner.hip.j2", Language.CPP: "runner/runner.cpp.j2"}
USUAL_EXTENT = 1024
"""M, N and K of a runner whose kernel file has no shapes."""


async def write_runner(
    unit: Unit,
    artifact: Artifact,
    renderers: RenderPool,
    toolchain: CompilerToolchain,
    target: Path,
    limits: VerifySection,
) -> None:
    """Write the program to `target`. Its default sizes are those of the kernel file's first shape. Where its reference
    is Python, its inputs and right outputs are written to the folder `data_folder(target)`. Raises CkwatchError for an
    operation without a runner, or where `target` cannot be written, and LostArtifactError."""
    outcome = (await renderers.render(runner_unit(unit, artifact.symbol))).outcome
    if outcome.rendered is None:
        raise TemplateError(outcome.diagnostics)
    object_file = Path(artifact.products[ProductKind.OBJECT.value])
    await to_thread.run_sync(verified, object_file)
    if unit.kernel.operation.reference is not None:
        await _write_data(unit, unit.kernel.operation.reference, artifact.symbol, data_folder(target), limits)
    language = language_of(unit.kernel.template)
    async with TemporaryDirectory(prefix="ckwatch-runner-") as work:
        await build_runner(outcome.rendered.text, language, object_file, toolchain, folder=Path(work), output=target)


def data_folder(program: Path) -> Path:
    """Return the folder that a runner reads, where its reference is Python."""
    return program.with_name(f"{program.name}.data")


async def _write_data(unit: Unit, reference: PythonReference, symbol: str, folder: Path, limits: VerifySection) -> None:
    """Have a worker write inputs and right outputs of the kernel file's shapes. Raises CkwatchError."""
    operation = unit.operation
    job = RunnerDataJob(
        folder=str(folder),
        symbol=symbol,
        problems=tuple((shape.name, problem_of(operation, shape, unit.arch)) for shape in unit.kernel.shapes),
        reference=reference,
        reference_limit_s=limits.reference_time_limit_s,
    )
    arrays = await to_thread.run_sync(array_contents, operation)
    answer = await Worker(VERIFIER).ask(job, arrays, RunnerDataWritten, time_limit_s=limits.time_limit_s)
    if isinstance(answer, BenchmarkFailure):
        raise CkwatchError(f"'{unit.kernel.name}' gets no standalone runner: {answer.message}", answer.hint or None)


def runner_unit(unit: Unit, symbol: str) -> Unit:
    """Return the unit to render to the runner of `unit`, whose C function is `symbol`. Raises CkwatchError where there
    is no runner."""
    kernel = unit.kernel
    language = language_of(kernel.template)
    computation, reference = kernel.operation.computation, kernel.operation.reference
    if computation is None and reference is None:
        raise CkwatchError(
            f"'{kernel.name}' is a {kernel.operation.kind} operation: what it computes is not known, so that there is "
            "no standalone runner",
            "build it without --runner",
        )
    if language not in TEMPLATES:
        raise CkwatchError(
            f"'{kernel.name}' is a .{language} template: there is no standalone runner for it",
            "`ckwatch bench` runs and verifies it; `ckwatch export` makes a Python module of it",
        )
    parameters: dict[str, ParameterValue] = {"symbol": symbol}
    if reference is not None:
        if not kernel.shapes:
            raise CkwatchError(f"'{kernel.name}' has no shape for its runner", "add a [[shape]]")
        parameters |= _given(unit, reference)
    elif computation is not None:
        parameters |= _arguments(unit)
        parameters |= _tensors(kernel.operation)
        parameters |= _numerics(kernel.operation, computation, fnuz=is_fnuz(unit.arch))
    return replace(
        unit,
        kernel=replace(kernel, template=TEMPLATES[language]),
        instance=replace(unit.instance, parameters=parameters),
    )


def _given(unit: Unit, reference: PythonReference) -> dict[str, ParameterValue]:
    """The buffers, and the pointers to them, of a runner whose inputs and right outputs are given."""
    problem = problem_of(unit.kernel.operation, unit.kernel.shapes[0], unit.arch)
    pointers = [argument for argument in problem.arguments if argument.buffer is not None]
    return {
        "reference": reference.name,
        "buffers": tuple(buffer.name for buffer in problem.buffers),
        "dtypes": tuple(buffer.dtype for buffer in problem.buffers),
        "written": tuple(buffer.name for buffer in problem.buffers if buffer.output),
        "pointers": tuple(argument.name for argument in pointers),
        "pointed_to": tuple(argument.buffer or "" for argument in pointers),
    }


def _arguments(unit: Unit) -> dict[str, ParameterValue]:
    """For each size and runtime argument a default, the least value, and what it means."""
    kernel = unit.kernel
    operation, kind = kernel.operation, KINDS[kernel.operation.kind]
    values: dict[str, int | float]
    if kernel.shapes:
        values = {**kernel.shapes[0].sizes, **kernel.shapes[0].runtime}
    elif kind.verified_sizes is not None:
        sizes = next(iter(kind.verified_sizes(operation, unit.instance.parameters).values()))
        values = {**with_defaults(operation, sizes), **RUNTIME_DEFAULTS}
    elif kind.sizes_for is not None:
        sizes = kind.sizes_for(operation, USUAL_EXTENT, USUAL_EXTENT, USUAL_EXTENT)
        values = {**with_defaults(operation, sizes), **RUNTIME_DEFAULTS}
    else:
        raise CkwatchError(f"'{kernel.name}' has no shape for its runner to begin with", "add a [[shape]]")
    sizes = {name: int(values[name]) for name in operation.size_arguments}
    for name, expression in operation.size_defaults.items():
        if values[name] == evaluate_size(expression, sizes):
            values[name] = -1  # follows from the sizes that are given
    names = (*operation.size_arguments, *operation.runtime_arguments)
    return {
        "defaults": tuple(int(values[name]) for name in names),
        "least": tuple(0 if name in operation.size_defaults else 1 for name in names),
        "help": tuple(map(kind.shape_doc, names)),
        "may_be_zero": tuple(sorted(kind.may_be_zero)),
        "free_strides": tuple(name for name in operation.size_arguments if kind.is_free_stride(name)),
    }


def _tensors(operation: Operation) -> dict[str, ParameterValue]:
    buffers = {tensor.name: tensor.buffer for tensor in operation.tensors}
    return {
        "buffers": tuple(dict.fromkeys(buffers.values())),
        "scales": tuple(buffers[name] for name in scale_tensors(operation)),
        "pointers": tuple(tensor.name for _, tensor in pointer_arguments(operation)),
    }


def _numerics(
    operation: Operation, computation: Contraction | RowComputation, *, fnuz: bool
) -> dict[str, ParameterValue]:
    """The numbers of the tolerance (`ckwatch.bench.numerics.verification`) and of the outputs' ranges, as C++."""
    if isinstance(computation, RowComputation):
        return _numerics_of_rows(operation, computation, fnuz=fnuz)
    contraction = computation
    dtypes = {tensor.name: tensor.dtype for tensor in operation.tensors}
    output = dtypes[contraction.y.tensor]
    low, high = tolerance.range_of(output, fnuz)
    return {
        "mantissa_accumulator": DTYPES[operation.accumulator].mantissa_bits,
        "mantissa_compute": tolerance.compute_mantissa(dtypes[axes.tensor] for axes in (contraction.x, contraction.w)),
        "mantissa_output": DTYPES[output].mantissa_bits,
        "mantissa_epilogue": tolerance.EPILOGUE_MANTISSA,
        "epilogue_roundings": tolerance.epilogue_roundings(contraction),
        "tolerance_floor": repr(
            tolerance.tolerance_floor(operation.accumulator, output, tolerance.epilogue_roundings(contraction), fnuz)
        ),
        "lowest_output": _cpp_double(low),
        "highest_output": _cpp_double(high),
        "infinite_beyond": _cpp_double(tolerance.LARGEST.get(output, float("inf"))),
    }


def _numerics_of_rows(operation: Operation, computation: RowComputation, *, fnuz: bool) -> dict[str, ParameterValue]:
    roles = {name: role for role, name in computation.tensors.items()}
    outputs = [(roles[name], tensor.dtype) for name, tensor in operation.outputs if name in roles]
    ranges = [tolerance.range_of(dtype, fnuz) for _, dtype in outputs]
    mantissas = [DTYPES[dtype].mantissa_bits for _, dtype in outputs]
    return {
        "mantissa_accumulator": DTYPES[operation.accumulator].mantissa_bits or tolerance.EPILOGUE_MANTISSA,
        "mantissa_compute": DTYPES[computation.compute].mantissa_bits,
        "output_roles": tuple(role for role, _ in outputs),
        "output_mantissas": tuple(mantissas),
        "output_floors": tuple(
            repr(tolerance.half_subnormal(dtype, fnuz) if bits else 1.0)
            for bits, (_, dtype) in zip(mantissas, outputs, strict=True)
        ),
        "lowest_outputs": tuple(_cpp_double(low) for low, _ in ranges),
        "highest_outputs": tuple(_cpp_double(high) for _, high in ranges),
        "infinite_beyond": tuple(_cpp_double(tolerance.LARGEST.get(dtype, float("inf"))) for _, dtype in outputs),
    }


def _cpp_double(value: float) -> str:
    return repr(value).replace("inf", "INFINITY")
