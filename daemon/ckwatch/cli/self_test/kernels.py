"""The kernels of a self-test: the instances that ship with ckwatch, built for the device as far as time allows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

import anyio
from anyio import to_thread

from ckwatch.bench.job import Contestant, SelfTestStep
from ckwatch.bench.probes import hip
from ckwatch.bench.self_test.session import KernelSteps
from ckwatch.compile.builder import Builder
from ckwatch.compile.rendered_unit import compile_request, lacking_headers
from ckwatch.compile.request import BuildOutcome, CompileRequest
from ckwatch.compile.store.artifacts import ArtifactStore, default_folder
from ckwatch.compile.store.entries import verified
from ckwatch.compile.toolchain.discover import discover
from ckwatch.compile.toolchain.model import Toolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain, find_nvcc
from ckwatch.model import self_test as names
from ckwatch.model.devices import can_run
from ckwatch.model.errors import CkwatchError, ToolchainError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Shape, Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.self_test import AssumptionTrial, TrialOutcome
from ckwatch.model.targets import DEVICE_KINDS, Language, arch_base, language_of
from ckwatch.render.renderer import Renderer
from ckwatch.workspace.loading import Workspace, load_workspace
from ckwatch.workspace.shapes import ragged_shapes, with_defaults
from ckwatch.workspace.starters import example_folders

REPEATED_FLOPS = {"cpu": 2 * 192**3}
"""Work of the kernel that is timed again and again, at most; on a GPU that of a GEMM of 4096³."""

USUAL_REPEATED_FLOPS = 2 * 4096**3
CPU_SIZE = 192
CHECKED_BYTES = 1 << 28
"""Of a shape of the kernel file that a shape without gaps cannot stand for."""

OnStage = Callable[[str], None]


@dataclass(slots=True)
class BuiltKernels:
    """The kernels of a self-test. `skipped`: instances that were not built, and why. `probes`: the number of the probe
    kernels among `artifacts`, None for none."""

    artifacts: list[bytes] = field(default_factory=list)
    steps: KernelSteps = field(default_factory=KernelSteps)
    skipped: list[AssumptionTrial] = field(default_factory=list)
    probes: int | None = None
    compiler: str = ""

    def add(self, artifact: bytes) -> int:
        """The number of an artifact."""
        self.artifacts.append(artifact)
        return len(self.artifacts) - 1


@dataclass(frozen=True, slots=True)
class _Instance:
    workspace: Workspace
    unit: Unit
    name: str
    """As it is called in the report: the example's folder, kernel, instance."""


@dataclass(slots=True)
class _Built:
    instance: _Instance
    request: CompileRequest
    artifact: bytes


async def build_kernels(device: DeviceFacts, budget_s: float, on_stage: OnStage) -> BuiltKernels:
    """Build the shipped instances that can run on a device, the first of each kernel first, and the probe kernels.

    What does not come to its end within `budget_s` is skipped; it is in the store the next time.
    """
    made = BuiltKernels()
    instances = await to_thread.run_sync(shipped_instances, device)
    try:
        toolchain = await to_thread.run_sync(_toolchain, device.kind)
    except ToolchainError as error:
        made.skipped += [_skipped(one.name, f"no compiler: {error.message.splitlines()[0]}") for one in instances]
        return made
    made.compiler = toolchain.clang_version
    if not instances:
        made.skipped.append(_skipped("", "no instance for this device ships with ckwatch"))
    with ArtifactStore(default_folder()) as store:
        building = _Building(device, toolchain, store, anyio.current_time() + budget_s, on_stage, made)
        if device.kind == "hip":
            await building.probes()
        await building.instances(instances)
        numerics = []
        for one in building.built:
            number = made.add(one.artifact)
            contestant = Contestant(name=one.instance.name, artifact=number, symbol=one.request.symbol)
            numerics.append(
                SelfTestStep(
                    assumption=names.NUMERICS,
                    name=one.instance.name,
                    contestants=(contestant,),
                    problems=checked_problems(one.instance.unit),
                )
            )
        made.steps = KernelSteps(numerics=numerics, same=await building.same())
    return made


def shipped_instances(device: DeviceFacts) -> list[_Instance]:
    """The instances of the examples that may run on a device, the first of each kernel first."""
    first: list[_Instance] = []
    others: list[_Instance] = []
    for folder in example_folders():
        workspace = load_workspace(folder)
        for kernel in workspace.kernels:
            if DEVICE_KINDS[language_of(kernel.template)] != device.kind:
                continue
            arch = next((arch for arch in kernel.archs if can_run(arch, device)), None)
            if arch is None and not kernel.arch_spans:  # those of `ckwatch.toml` are an example
                arch = arch_base(device.arch)
            if arch is None:
                continue
            found = [
                _Instance(workspace, Unit(kernel, one, arch), f"{folder.name}/{kernel.name}/{one.name}")
                for one in kernel.instances
            ]
            first += found[:1]
            others += found[1:]
    return first + others


def checked_problems(unit: Unit) -> tuple[KernelProblem, ...]:
    """Problems to verify an instance on: ragged ones, then the shapes of its kernel file, the smallest first."""
    kernel = unit.kernel
    ragged = ragged_shapes(kernel.operation, kernel.shapes[0]) if kernel.shapes else ()
    own = [problem_of(kernel.operation, shape, unit.arch) for shape in kernel.shapes]
    small = sorted((one for one in own if one.bytes_allocated <= CHECKED_BYTES), key=lambda one: one.bytes_allocated)
    return (*(problem_of(kernel.operation, shape, unit.arch) for shape in ragged), *small)


def repeated_problems(unit: Unit, kind: str) -> tuple[KernelProblem, ...]:
    """Problems to time an instance on again and again: enough work for some hundred microseconds, and no more."""
    kernel = unit.kernel
    shapes = list(kernel.shapes)
    if kind == "cpu" and kernel.operation.kind == "gemm" and shapes:
        sizes = dict.fromkeys(("M", "N", "K"), CPU_SIZE)
        shapes = [Shape("repeated", with_defaults(kernel.operation, sizes), shapes[0].runtime, shapes[0].span)]
    problems = [problem_of(kernel.operation, shape, unit.arch) for shape in shapes]
    most = REPEATED_FLOPS.get(kind, USUAL_REPEATED_FLOPS)
    known = [one for one in problems if one.flops is not None and one.flops <= most]
    return tuple(sorted(known, key=lambda one: -(one.flops or 0)))


def _toolchain(kind: str) -> Toolchain | NvccToolchain:
    return find_nvcc(os.environ) if kind == "cuda" else discover()


class _Building:
    def __init__(
        self,
        device: DeviceFacts,
        toolchain: Toolchain | NvccToolchain,
        store: ArtifactStore,
        deadline: float,
        on_stage: OnStage,
        made: BuiltKernels,
    ) -> None:
        self._made = made
        self._device = device
        self._toolchain = toolchain
        self._builder = Builder(toolchain, store)
        self._deadline = deadline
        self._on_stage = on_stage
        self._renderers: dict[tuple[Path, ...], Renderer] = {}
        self._compilers = anyio.CapacityLimiter(max(1, len(os.sched_getaffinity(0))))
        self.built: list[_Built] = []
        self._again: dict[str, bytes] = {}

    async def probes(self) -> None:
        """Build the probe kernels for AMD, where they can be made."""
        request = CompileRequest(
            source=hip.HIP_SOURCE,
            symbol=hip.SYMBOL,
            more_exports=hip.MORE_SYMBOLS,
            language=Language.HIP,
            arch=arch_base(self._device.arch),
        )
        result = await self._within_time(request)
        probes = None if result is None else await to_thread.run_sync(_shared_object, result)
        self._made.probes = None if probes is None else self._made.add(probes)

    async def instances(self, instances: Sequence[_Instance]) -> None:
        """Build them side by side, in their order, as far as time allows, and that with the most work twice."""
        done: dict[str, _Built] = {}
        ended = 0

        async def one(instance: _Instance) -> None:
            nonlocal ended
            found = await self._built_one(instance)
            ended += 1
            self._on_stage(f"building shipped instances, {ended} of {len(instances)}")
            if isinstance(found, str):
                self._made.skipped.append(_skipped(instance.name, found))
            else:
                done[instance.name] = found

        async with anyio.create_task_group() as tasks:
            for instance in instances:
                tasks.start_soon(one, instance)
            if instances:
                tasks.start_soon(self._build_again, max(instances, key=self._work))
        self.built = [done[one.name] for one in instances if one.name in done]

    async def same(self) -> SelfTestStep | None:
        """Two builds of one source, of the kernel with the most work whose second build there is, or can be made."""
        for one in sorted(self.built, key=lambda one: -self._work(one.instance)):
            problems = repeated_problems(one.instance.unit, self._device.kind)
            if not problems:
                continue
            if one.instance.name not in self._again:
                self._deadline = max(self._deadline, anyio.current_time() + SECOND_BUILD_S)
                await self._build_again(one.instance)
            again = self._again.get(one.instance.name)
            if again is None:
                return None
            equal = "equal byte by byte" if again == one.artifact else "unequal byte by byte"
            number = self._made.artifacts.index(one.artifact)
            pair = ((one.instance.name, number), (f"{one.instance.name} again", self._made.add(again)))
            return SelfTestStep(
                assumption=names.SAME,
                name=f"two builds of {one.instance.name}, {equal}",
                contestants=tuple(Contestant(name=name, artifact=at, symbol=one.request.symbol) for name, at in pair),
                problems=problems,
            )
        return None

    async def _build_again(self, instance: _Instance) -> None:
        """In a store of its own, since the first build would be found in the other one."""
        self._on_stage(f"building {instance.name} twice")
        with tempfile.TemporaryDirectory(prefix="ckwatch-self-test-") as folder, ArtifactStore(Path(folder)) as own:
            found = await self._built_one(instance, Builder(self._toolchain, own))
        if isinstance(found, _Built):
            self._again[instance.name] = found.artifact

    def _work(self, instance: _Instance) -> int:
        problems = repeated_problems(instance.unit, self._device.kind)
        return 0 if not problems or problems[0].flops is None else problems[0].flops

    async def _built_one(self, instance: _Instance, builder: Builder | None = None) -> _Built | str:
        """The built instance, or why there is none."""
        async with self._compilers:
            if anyio.current_time() >= self._deadline:
                return "there was no time left to compile it; what is compiled is kept for the next time"
            unit, workspace = instance.unit, instance.workspace
            renderer = self._renderers.setdefault(workspace.template_folders, Renderer(workspace.template_folders))
            rendered = (await to_thread.run_sync(renderer.render, unit)).rendered
            if rendered is None:
                return "it does not render"
            if isinstance(self._toolchain, Toolchain):
                lacking = await to_thread.run_sync(lacking_headers, self._toolchain, workspace, unit, rendered)
            else:
                lacking = "" if self._toolchain.cutlass is not None else "CUTLASS's headers are not installed"
            if lacking:
                return lacking
            request = compile_request(workspace, unit, rendered)
            try:
                result = await self._within_time(request, builder)
            except CkwatchError as error:
                return f"it cannot be built: {error.message.splitlines()[0]}"
        if result is None:
            return "there was no time left to compile it"
        artifact = await to_thread.run_sync(_shared_object, result)
        if artifact is None:
            first = next((line for line in result.log.splitlines() if "error" in line), result.message or "no reason")
            return f"it does not compile for {unit.arch}: {first.strip()}"
        return _Built(instance, request, artifact)

    async def _within_time(self, request: CompileRequest, builder: Builder | None = None) -> BuildOutcome | None:
        with anyio.CancelScope(deadline=self._deadline):
            return await (builder or self._builder).build(request)
        return None


SECOND_BUILD_S = 60.0
"""At least so long the second build of a source may take."""


def _shared_object(result: BuildOutcome) -> bytes | None:
    if result.artifact is None or result.artifact.shared_object is None:
        return None
    return verified(result.artifact.shared_object)


def _skipped(name: str, why: str) -> AssumptionTrial:
    return AssumptionTrial(assumption=names.NUMERICS, subject=name, outcome=TrialOutcome.SKIPPED, found=why)
