"""Profiles of units from a real device: taken with the vendor's profiler, or imported; kept with the artifact."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio import TemporaryDirectory, to_thread

from ckwatch.bench.job import Contestant
from ckwatch.bench.profiled_launch import ProfiledLaunch, launch_command, read_result, write_job
from ckwatch.bench.report import BenchmarkFailure
from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.executed_profile import executed_profiles
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.codeobject.profile_places import placed
from ckwatch.codeobject.tools import profilers
from ckwatch.compile.flags import with_lines
from ckwatch.compile.rendered_unit import compile_request
from ckwatch.core.events import CompileFacts, DeviceProfileKept
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.handlers.derived_files import DerivedFile
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.measure import MeasureRunner, job_of, suitable_devices
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.device_profiles import DeviceProfile
from ckwatch.model.devices import names_another_device
from ckwatch.model.errors import CkwatchError
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import Shape
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import DEVICE_KINDS, Language, language_of
from ckwatch.render.outcome import Rendered
from ckwatch.system.async_processes import ProcessResult, run_process
from ckwatch.system.python_process import module_environment
from ckwatch.system.user_files import read_file
from ckwatch.wire.analysis import UnitDeviceProfile
from ckwatch.workspace.array_files import array_contents
from ckwatch.workspace.shapes import find_shape

if TYPE_CHECKING:
    from ckwatch.engine.queries.listings import IsaListings

SAMPLED_S = 2.0
"""How long a kernel is launched again and again while a device's program counters are sampled."""

KEPT = DerivedFile("device-profile.json", UnitDeviceProfile)
_EXCERPT_CHARACTERS = 2000


@dataclass(eq=False)
class DeviceProfileQueries:
    """Profiles of one unit at a time. `make_listings` is called in a thread: its modules take a while to load."""

    _loop: EngineLoop
    _tools: BuildTools
    _view_loader: ViewLoader
    _renders: RenderHandler
    _measure: MeasureRunner
    _lookup: UnitLookup
    _make_listings: Callable[[], IsaListings]
    _turn: anyio.Lock = field(default_factory=anyio.Lock, init=False)

    async def take(self, scope: str, unit: str, device: str, shape: str | None) -> UnitDeviceProfile:
        """Compile the unit with line tables, and launch it under the profiler of the device's vendor. Raises
        CkwatchError for a unit that is not built, a device that is not there or that it does not run on, without the
        profiler, and where that, the driver or the launch fails."""
        state, result = await self._built(scope, unit)
        facts = await self._device(state, device)
        environment = module_environment()
        name = "ncu" if facts.kind == "cuda" else "rocprofv3"
        profiler = await to_thread.run_sync(profilers.find_profiler, name, environment)
        problem_shape = _shape(state, shape)
        rendered = await self._rendered(state, result)
        library = await self._with_lines(state, rendered)
        async with self._turn, TemporaryDirectory(prefix="ckwatch-profile-") as work:
            folder = Path(work)
            launch, artifacts = await self._launch(state, problem_shape, facts, library, result.symbol)
            await to_thread.run_sync(write_job, folder, launch, artifacts)
            source = folder / language_of(state.unit.kernel.template).source_name
            await to_thread.run_sync(source.write_text, rendered.text)
            if name == "ncu":
                profile = await self._with_ncu(profiler, folder, environment)
            else:
                profile = await self._with_rocprofv3(profiler, folder, environment, state.unit.arch)
        profile = replace(profile, device=facts.description)
        return await self._kept(state, result, rendered, profile, f"{name}, {facts.label}", problem_shape.name)

    async def import_file(self, scope: str, unit: str, path: str) -> UnitDeviceProfile:
        """Place the profile in a file at the unit's template, and keep it. Raises CkwatchError for a file that is none,
        and a unit that is not built."""
        state, result = await self._built(scope, unit)
        profile = await profilers.read_profile_file(Path(path), os.environ)
        rendered = await self._rendered(state, result)
        return await self._kept(state, result, rendered, profile, Path(path).name, "")

    async def kept(self, result: CompileFacts) -> UnitDeviceProfile | None:
        """The last profile that was taken or imported while this was the unit's artifact."""
        content = await to_thread.run_sync(KEPT.read, self._tools, result.artifact)
        return KEPT.value(content)

    async def _built(self, scope: str, unit: str) -> tuple[UnitState, CompileFacts]:
        state = await self._lookup.one(scope, unit)
        result = state.built
        if result is None:
            raise CkwatchError(f"'{unit}' is not built", "build it")
        return state, result

    async def _device(self, state: UnitState, wanted: str) -> DeviceFacts:
        language = language_of(state.unit.kernel.template)
        if language is Language.CPP:
            raise CkwatchError("a profile of a device needs a kernel for a GPU; `perf` profiles programs of the host")
        kind = DEVICE_KINDS[language]
        if wanted.partition(":")[0] in DEVICE_KINDS.values() and not names_another_device(wanted, kind):
            name = state.unit.kernel.name
            raise CkwatchError(f"'{name}' is a .{language} template, for {kind} devices, not {wanted}")
        if self._measure.settings.launcher:
            raise CkwatchError("profiles are taken on this machine alone, not behind `[bench] launcher`")
        found = await self._measure.devices()
        if isinstance(found, BenchmarkFailure):
            raise CkwatchError(found.message, found.hint or None)
        suitable = suitable_devices(found, state.unit, wanted)
        if isinstance(suitable, str):
            message, _, hint = suitable.partition("\n")
            raise CkwatchError(message, hint or None)
        here = [device for device in suitable if not device.machine]
        if not here:
            raise CkwatchError(f"profiles are taken on this machine alone, and {suitable[0].label} is elsewhere")
        return here[0]

    async def _rendered(self, state: UnitState, result: CompileFacts) -> Rendered:
        rendered = (await self._renders.present(self._loop.state, state)).rendered
        if rendered is None or f"{rendered.symbol}:{rendered.token_key}" != result.tokens:
            raise CkwatchError(f"'{state.key.unit}' was built from an earlier input", "build it")
        return rendered

    async def _with_lines(self, state: UnitState, rendered: Rendered) -> Path:
        """The shared object of the unit with line tables, which change no instruction."""
        compiler = self._tools.present_compiler()
        request = compile_request(self._view_loader.workspace(state.key.scope), state.unit, rendered, awaited=True)
        built = await compiler.builder.build(with_lines(request))
        if built.artifact is None or built.artifact.shared_object is None:
            first = next((line for line in built.log.splitlines() if "error" in line), "")
            raise CkwatchError(f"'{state.key.unit}' does not compile with line tables", first or None)
        return built.artifact.shared_object

    async def _launch(
        self, state: UnitState, shape: Shape, device: DeviceFacts, library: Path, symbol: str
    ) -> tuple[ProfiledLaunch, list[bytes]]:
        unit = state.unit
        problem = problem_of(unit.kernel.operation, shape, unit.arch)
        contestant = Contestant(name=unit.id, artifact=0, symbol=symbol)
        job = replace(job_of(unit, problem, device, (contestant,), self._measure.settings), flush_instructions=False)
        content = await to_thread.run_sync(self._tools.load_product, library)
        artifacts = [content, *await to_thread.run_sync(array_contents, unit.kernel.operation)]
        seconds = 0.0 if device.kind == "cuda" else SAMPLED_S
        return ProfiledLaunch(job=job, artifacts=len(artifacts), seconds=seconds), artifacts

    async def _with_ncu(self, ncu: Path, folder: Path, environment: dict[str, str]) -> DeviceProfile:
        report, log = folder / "profile.ncu-rep", folder / "ncu.log"
        command = profilers.ncu_command(ncu, report, log, folder, launch_command(folder))
        done = await self._run(command, folder, environment)
        printed = await to_thread.run_sync(_text, log) + done.stdout + done.stderr
        _require_launch(folder, profilers.ncu_problem(printed), "ncu", done)
        if not await to_thread.run_sync(report.is_file):
            raise profilers.ncu_problem(printed) or CkwatchError("ncu wrote no report", printed[-_EXCERPT_CHARACTERS:])
        return await profilers.read_report(ncu, report, environment)

    async def _with_rocprofv3(
        self, rocprofv3: Path, folder: Path, environment: dict[str, str], arch: str
    ) -> DeviceProfile:
        output = folder / "rocprofv3"
        command = profilers.rocprofv3_command(rocprofv3, output, arch, launch_command(folder))
        done = await self._run(command, folder, environment)
        problem = profilers.rocprofv3_problem(done.stderr + done.stdout)
        _require_launch(folder, problem, "rocprofv3", done)
        files = await to_thread.run_sync(lambda: sorted(output.rglob("*_results.json")))
        if not files:
            printed = (done.stderr + done.stdout)[-_EXCERPT_CHARACTERS:]
            raise problem or CkwatchError("rocprofv3 wrote no samples", printed or None)
        try:
            return await profilers.read_profile_file(files[0], environment)
        except CkwatchError:
            if problem is not None:
                raise problem from None
            raise

    async def _run(self, command: tuple[str, ...], folder: Path, environment: dict[str, str]) -> ProcessResult:
        limit_s = self._measure.settings.time_limit_s
        return await run_process(command, environment=environment, folder=folder, timeout_s=limit_s)

    async def _kept(
        self,
        state: UnitState,
        result: CompileFacts,
        rendered: Rendered,
        profile: DeviceProfile,
        source: str,
        shape_name: str,
    ) -> UnitDeviceProfile:
        """The profile at the unit's template, after it was kept."""
        language = language_of(state.unit.kernel.template)
        file = RenderedFile(language.source_name, rendered.source_map)
        instructions = await self._instructions(state) if language is Language.HIP and profile.places else None
        found = await to_thread.run_sync(placed, profile, file, instructions)
        executed = await to_thread.run_sync(executed_profiles, found.profile, found.templates)
        make = partial(
            UnitDeviceProfile.of,
            unit=state.key.unit,
            artifact_key=result.key,
            shape_name=shape_name,
            executed=executed,
            hints=await to_thread.run_sync(hints_of, executed),
            other_build=found.other_build,
            at=time.time(),
        )
        answer = await to_thread.run_sync(make, found.profile, source)
        await to_thread.run_sync(KEPT.keep, self._tools, result.artifact, answer)
        await self._loop.post(DeviceProfileKept(at=answer.at, unit=state.key.unit, artifact=result.artifact))
        return answer

    async def _instructions(self, state: UnitState) -> frozenset[str] | None:
        """The instructions of the present build's kernels; None where there is no disassembler."""
        listings = await to_thread.run_sync(self._make_listings)
        try:
            return await listings.instructions(state)
        except CkwatchError:
            return None


def _shape(state: UnitState, shape: str | None) -> Shape:
    if shape is not None:
        return find_shape(state.unit.kernel, shape)
    if not state.unit.kernel.shapes:
        raise CkwatchError(f"'{state.key.unit}' has no shape to be profiled on", "add a [[shape]] to its kernel file")
    return state.unit.kernel.shapes[0]


def _require_launch(folder: Path, problem: CkwatchError | None, name: str, done: ProcessResult) -> None:
    """Raise why the kernel was not launched, if it was not: the failure that the program wrote down, or `problem`."""
    result = read_result(folder)
    if result is not None and result.failure is not None:
        failure = result.failure
        raise CkwatchError(f"the launch under {name} failed: {failure.message}", failure.hint or None)
    if result is None:
        printed = (done.stderr or done.stdout)[-_EXCERPT_CHARACTERS:].strip()
        raise problem or CkwatchError(f"{name} ended before the kernel was launched", printed or None)


def _text(file: Path) -> str:
    try:
        return read_file(file).decode(errors="replace")
    except OSError:
        return ""
