"""Timings of two states of a unit, in turns on one device and in one process, where there is a device for them.

The rule is that of `ckwatch bench`: of equals at most one comparison in 1,000 is FAST or SLOW. What a device finds
wrong in the new state alone is a failure; the old state is verified first, so that a mistake of both is none of the
change.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from anyio import to_thread

from ckwatch.bench.report import KERNEL_FAILURES, BenchmarkFailure, BenchmarkReport
from ckwatch.compile.store.entries import ProductKind
from ckwatch.core.state import State
from ckwatch.engine.build_tools import BuildTools
from ckwatch.engine.comparison import compare_interleaved_results, floor_of
from ckwatch.engine.handlers.history_recorder import HistoryRecorder
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.measure import (
    PREVIOUS_CONTESTANT,
    LoadProduct,
    MeasureRunner,
    measured_code,
    suitable_devices,
)
from ckwatch.engine.outcomes import BuiltState
from ckwatch.engine.timings_to_wire import summarize_samples
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Unit
from ckwatch.model.targets import DEVICE_KINDS, language_of
from ckwatch.wire.unit_changes import TimedChange, TimedChanges
from ckwatch.workspace.shapes import ragged_shapes

DRIVER_FILES: Mapping[str, tuple[str, ...]] = {
    "hip": ("/dev/kfd", "/dev/dxg"),
    "cuda": ("/dev/nvidiactl", "/dev/nvgpu", "/dev/nvhost-gpu", "/dev/dxg"),
}
"""Without one of these files there is no device of this kind, which a worker would take most of a second to find."""


class ChangeTimer:
    """Times changes one after the other. `device` chooses in place of `[bench] device`."""

    def __init__(self, runner: MeasureRunner, load: LoadProduct, device: str | None = None) -> None:
        self._runner = runner
        self._load = load
        self._device = device
        self._left_s = runner.settings.save_budget_s

    @classmethod
    def of(cls, root: Path, view_loader: ViewLoader, tools: BuildTools, device: str | None) -> ChangeTimer:
        """The timer of a loaded workspace."""
        unopened = HistoryRecorder(root / "history.sqlite", State(root=str(root)))
        return cls(MeasureRunner(root, view_loader, tools, unopened), tools.load_product, device)

    async def timed(
        self, before: BuiltState, after: BuiltState, on_stage: Callable[[str], None]
    ) -> TimedChanges | None:
        """Both states on each shape that they have in common; None where their code is the same. Raises CkwatchError
        when the host cannot, LostArtifactError when the store lost an artifact."""
        codes = [await to_thread.run_sync(measured_code, one.result.products, self._load) for one in (before, after)]
        if codes[0] == codes[1]:
            return None
        device = await self._device_of(after.unit)
        if isinstance(device, str):
            return TimedChanges(why_not=device)
        problems = _problems(before.unit, after.unit)
        if not problems:
            return TimedChanges(why_not="no shape of its kernel file is that of the base")
        self._runner.on_stage = lambda _unit, shape, stage: on_stage(f"{shape}: {stage}")
        found: list[TimedChange] = []
        for shape, (problem, ragged) in problems.items():
            if self._left_s <= 0:
                budget = f"the {self._runner.settings.save_budget_s:g} s of `[bench] save_budget_s` are over"
                return TimedChanges(timings=tuple(found), why_not=budget)
            began = time.monotonic()
            report = await self._runner.in_turns(
                after.unit,
                shape,
                problem,
                device,
                ((PREVIOUS_CONTESTANT, *_function(before)), (after.unit.id, *_function(after))),
                settings=self._runner.settings,
                ragged=ragged,
            )
            self._left_s -= time.monotonic() - began
            if isinstance(report, BenchmarkFailure):
                return _failed(report, after.unit.id, f"{shape} on {device.label}", tuple(found))
            found += _compared(shape, report)
        return TimedChanges(timings=tuple(found))

    async def _device_of(self, unit: Unit) -> DeviceFacts | str:
        """The device to measure on, or why there is none."""
        settings = self._runner.settings
        kind = DEVICE_KINDS[language_of(unit.kernel.template)]
        files = DRIVER_FILES.get(kind, ())
        if files and not (settings.launcher or settings.worker) and not any(map(os.path.exists, files)):
            return f"no {kind} device: there is no {files[0]}"
        devices = await self._runner.devices()
        if isinstance(devices, BenchmarkFailure):
            return devices.message
        suitable = suitable_devices(devices, unit, self._device or settings.device)
        return suitable if isinstance(suitable, str) else suitable[0]


def _problems(before: Unit, after: Unit) -> dict[str, tuple[KernelProblem, tuple[KernelProblem, ...]]]:
    """The problems that are the same in both states by their shapes, and the ragged ones beside each."""
    old = {shape.name: problem_of(before.operation, shape, before.arch) for shape in before.kernel.shapes}
    found = {}
    for shape in after.kernel.shapes:
        problem = problem_of(after.operation, shape, after.arch)
        if problem == old.get(shape.name):
            ragged = ragged_shapes(after.operation, shape)
            found[shape.name] = problem, tuple(problem_of(after.operation, one, after.arch) for one in ragged)
    return found


def _function(state: BuiltState) -> tuple[str, Path]:
    return state.result.symbol, Path(state.result.products[ProductKind.SHARED_OBJECT.value])


def _failed(report: BenchmarkFailure, ours: str, where: str, found: tuple[TimedChange, ...]) -> TimedChanges:
    message = f"{where}: {report.message}"
    if report.kind in KERNEL_FAILURES and report.contestant == ours:
        return TimedChanges(timings=found, failure=message)
    at_base = "at the base, " if report.kind in KERNEL_FAILURES else ""
    return TimedChanges(timings=found, why_not=f"{at_base}{message}")


def _compared(shape: str, report: BenchmarkReport) -> list[TimedChange]:
    """The comparison with each cache state."""
    before, after = report.measured
    found = []
    for samples in after.samples:
        compared = compare_interleaved_results(
            after, before, samples.cache, PREVIOUS_CONTESTANT, samples.blocks, floor_us=floor_of(report)
        )
        ours = summarize_samples(samples)
        if compared is not None and ours is not None:
            found.append(
                TimedChange(
                    shape=shape,
                    cache=samples.cache.value,
                    device=report.device.label,
                    verdict=compared.verdict,
                    ratio=compared.ratio,
                    before_us=compared.other_median_us,
                    after_us=ours.median_us,
                )
            )
    return found
