"""Records of benchmarks that never took place: round numbers that no device gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.report import (
    BenchmarkFailure,
    BenchmarkReport,
    ContestantResult,
    DeviceReading,
    FailureKind,
    NumericsVerification,
    Samples,
    StopReason,
)
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.kernel_problem import Buffer, KernelProblem
from ckwatch.model.roofline import CacheState

DEVICE = DeviceFacts(
    name="hip:7", description="test device", arch="gfx942", pci="0000:07:00.0", driver="0", clock_mhz=1000.0
)
PROBLEM = KernelProblem(
    buffers=(Buffer(name="X", dtype="f16", elements=10), Buffer(name="Y", dtype="f16", elements=10, output=True)),
    views=(),
    arguments=(),
    computed=None,
    flops=2_000_000,
    bytes_moved=50_000,
)


def samples(cache: CacheState = CacheState.COLD, *times_us: float, **changes: Any) -> Samples:
    """Twenty times of 100 us, or what is given."""
    fields: dict[str, Any] = {
        "times_us": times_us or (100.0,) * 20,
        "clocks_mhz": (900.0,) * 3,
        "stop": StopReason.PRECISE,
    }
    return Samples(cache=cache, **(fields | changes))


def measured(contestant: str, *every: Samples) -> ContestantResult:
    """The contestant, verified."""
    verified = NumericsVerification(
        seeds=(1, 2), compared=10, worst_error=0.5, relative_tolerance=0.1, absolute_tolerance=0.2, reference="test"
    )
    return ContestantResult(contestant=contestant, samples=every or (samples(),), verification=verified)


def report(*every: ContestantResult, **changes: Any) -> BenchmarkReport:
    """Report of a measurement on the test device."""
    fields: dict[str, Any] = {
        "device": DEVICE,
        "readings": (DeviceReading(clock_mhz=800.0, temperature_c=40.0), DeviceReading(), DeviceReading(temperature_c=50.0)),
        "versions": {"driver": "0"}, "notes": ("a note: ü",), "started_at": 5.0, "seconds": 1.5,
    }  # fmt: skip
    return BenchmarkReport(measured=every or (measured("gemm/m128@gfx942"),), **(fields | changes))


def record(unit: str = "gemm/m128@gfx942", times_us: Sequence[float] = (), **changes: Any) -> TimingRecord:
    """A benchmark that went well, of a cold cache."""
    kernel, _, rest = unit.partition("/")
    instance, _, arch = rest.partition("@")
    fields: dict[str, Any] = {
        "kernel": kernel, "instance": instance, "arch": arch, "shape": "small", "contestant": unit,
        "artifact_key": "a1", "benchmark_key": "b1", "taken_at": 1000.5, "problem": PROBLEM, "toolchain": "clang 0",
        "parameters": {"MPerBlock": 128, "Scale": 1.0, "Swap": True, "Pipe": "v3 ü", "Cluster": (4, 64, 1)},
        "sizes": {"M": 10, "N": 20}, "runtime": {"kBatch": 1, "beta": 0.5}, "commit": "c0ffee-dirty",
    }  # fmt: skip
    fields |= changes
    if "failure" not in fields:
        fields.setdefault("report", report(measured(fields["contestant"], samples(CacheState.COLD, *times_us))))
    return TimingRecord(unit=unit, **fields)


def failed(unit: str = "gemm/m128@gfx942", kind: FailureKind = FailureKind.WRONG, **changes: Any) -> TimingRecord:
    """A benchmark of which nothing came."""
    failure = BenchmarkFailure(kind=kind, message=f"it is {kind.value}", hint="think", detail="all", device=DEVICE)
    return record(unit, failure=failure, **changes)
