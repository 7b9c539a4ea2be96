"""The code object of a unit as clients see it: resources, listings and predictions, which are named as such."""

from __future__ import annotations

from typing import Any

from ckwatch.codeobject.report import CodeObjectReport as CodeObjectReport
from ckwatch.codeobject.report import main_kernel
from ckwatch.codeobject.report_diff import FigureChange, all_figures
from ckwatch.model.device_profiles import DeviceProfile, LineWeight, MeasuredKernel
from ckwatch.model.isa import IsaView
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.profiles import KernelProfile, LineChange, ProfileHint
from ckwatch.prediction.predict import Calibration, Prediction
from ckwatch.prediction.ranking import RankedInstance
from ckwatch.wire.values import Value


class ShapePrediction(Value):
    """The prediction for a shape, and the time in microseconds of the same artifact as measured on `device`."""

    shape: str
    prediction: Prediction
    measured_us: float | None = None
    device: str = ""


class Analysis(Value):
    """The report of a unit's artifact, `fresh` when it belongs to the present input.

    `previous` is the report of the previous artifact, `baseline` that of the artifact that was timed for the baseline
    `baseline_name`, the last one set for the unit; None when there is none, or it was evicted from the store.
    `lds_limit_bytes`: of a workgroup.
    """

    unit: str
    artifact_key: str
    fresh: bool
    report: CodeObjectReport
    shapes: tuple[ShapePrediction, ...] = ()
    previous: CodeObjectReport | None = None
    baseline: CodeObjectReport | None = None
    baseline_name: str = ""
    lds_limit_bytes: int | None = None


def compared_figures(before: CodeObjectReport | None, now: CodeObjectReport | None) -> tuple[FigureChange, ...]:
    """All figures of two code objects' main kernels, as text, also those that are equal; `unknown` without a report."""
    kernels = [None if report is None else main_kernel(report) for report in (before, now)]
    return all_figures(*kernels)


class ParameterChange(Value):
    """Another value of a parameter; arrays are lists."""

    name: str
    before: Any
    after: Any


class ResourceEstimate(Value):
    """The kernel's use of a resource (`VGPR`, `VGPR+AGPR`: registers of a lane; `LDS`: bytes of a workgroup) as
    compiled, and an estimate with other parameters."""

    resource: str
    present: int
    estimated: int


class OccupancyChange(Value):
    """Parameters to change together, the one that matters most first, and the resources of which too much is used."""

    parameters: tuple[ParameterChange, ...]
    estimates: tuple[ResourceEstimate, ...]


class OccupancySteps(Value):
    """Changes of an instance after which one workgroup more may fit on a compute unit: `workgroups` then, and `waves`
    per SIMD, None if those of the fullest SIMD stay as many.

    `changes`: what the instance rules accept and may suffice by an estimate, changes of fewest parameters first, then
    the nearest. They are about the artifact `artifact_key`.
    """

    unit: str
    artifact_key: str
    waves: int | None = None
    workgroups: int | None = None
    changes: tuple[OccupancyChange, ...] = ()


class PredictedRanking(Value):
    """The instances of a kernel on a shape, for one arch, by predicted time on `part`; `measured_us` by instance.
    `intensity`: the shape's floating-point operations for each byte that must be moved."""

    kernel: str
    shape: str
    arch: str
    part: str
    cache: str
    rows: tuple[RankedInstance, ...]
    measured_us: dict[str, float]
    intensity: float | None = None


@dataclass(frozen=True, kw_only=True)
class Isa(IsaView):
    """The disassembly of one of a unit's kernels. `kernel` is its name with readable template arguments, `kernels` are
    those that can be requested."""

    unit: str
    artifact_key: str
    fresh: bool
    kernel: str
    kernels: tuple[str, ...]


class UnitDeviceProfile(Value):
    """A profile that a tool took on a real device, by lines (from zero; None: no line is known) of a unit's template
    and of other files; together they have its `total`, weighed by `weighed_by`: "samples" or "cycles".

    `unit` is empty for a file that was only read. `artifact_key` is the unit's artifact when it was placed;
    `other_build`: what shows that it is of another build, and what became of its lines; empty for one of this.
    `source` is the tool with its device (`ncu, cuda:0`) or the file's name, `device` the device's, empty where the file
    does not say it; `kernels`: times and counters of whole launches. `executed`: what was counted instruction by
    instruction, of ncu's reports, and its `hints`, as in `UnitProfile`.
    """

    unit: str = ""
    artifact_key: str = ""
    source: str
    device: str
    method: str
    weighed_by: str
    shape_name: str = ""
    total: int
    lines: tuple[LineWeight, ...]
    kernels: tuple[MeasuredKernel, ...] = ()
    executed: tuple[KernelProfile, ...] = ()
    hints: tuple[ProfileHint, ...] = ()
    other_build: str = ""
    notes: tuple[str, ...] = ()
    at: float = 0.0

    @classmethod
    def of(cls, profile: DeviceProfile, source: str, **placed: Any) -> UnitDeviceProfile:
        """A profile as it is; `placed`: the fields of a unit's."""
        return cls(
            source=source,
            device=profile.device,
            method=profile.method,
            weighed_by=profile.unit,
            total=profile.total,
            lines=profile.by_line(),
            kernels=profile.kernels,
            notes=profile.notes,
            **placed,
        )


class UnitProfile(Value):
    """The work of a unit's artifact by place, in instructions that were counted on `device` (`emulated:gfx942`), not
    timed. `shape`: its sizes, `shape_name` what it is called. `executed`: instructions of all kernels. `kernels`: in
    the order of their launches, without helpers of CK's. `hints`: what is clearly lost, the largest losses first.
    `failure`: why the launch did not end as it should, then counts are of a part of it. `changes`: what is different
    from the profile `against`: `previous`, `baseline`, `baseline:NAME` or a unit; "" where there is none. `on_device`:
    what a tool saw on a real device, where that was taken or imported for this artifact; of a unit that is not
    emulated, nothing else."""

    unit: str
    artifact_key: str
    device: str
    shape: str
    shape_name: str
    kernels: tuple[KernelProfile, ...]
    hints: tuple[ProfileHint, ...] = ()
    executed: int = 0
    failure: str = ""
    against: str = ""
    changes: tuple[LineChange, ...] = ()
    on_device: UnitDeviceProfile | None = None


class Calibrated(Value):
    """How far predictions were off, over all units with a fresh timing; `calibration` is None when none of them has a
    prediction. `timed` counts the timings, `notes` say why some of them have no prediction."""

    calibration: Calibration | None = None
    timed: int = 0
    notes: tuple[str, ...] = ()
