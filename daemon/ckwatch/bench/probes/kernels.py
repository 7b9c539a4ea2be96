"""The interface of a device's probe kernels, and a search for those of a runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ckwatch.bench.runtimes.device_runtime import DeviceRuntime

if TYPE_CHECKING:
    from ckwatch.bench.probes.cpu import CpuProbes
    from ckwatch.bench.probes.cuda import CudaProbes
    from ckwatch.bench.probes.hip import HipProbes

SPIN_CYCLES = 60_000_000_000
"""Half a minute at 2 GHz: for a probe that does not end by itself while somebody watches, and ends at last."""


ProbeKernels: TypeAlias = "CudaProbes | HipProbes | CpuProbes"
"""Each method puts one launch on the runtime's stream: `read` of memory so many times, in multiples of 16 bytes; `spin`
for so many cycles of the device's clock; `fault`, a write where no memory is; `flush_instructions`, straight-line code
that is larger than an instruction cache, on every compute unit. They raise BenchmarkError."""


def probe_kernels(runtime: DeviceRuntime, shared_object: bytes | None) -> ProbeKernels | str:
    """The probe kernels of an open device, or why there are none. `shared_object` is that of `probes.hip.HIP_SOURCE`.

    Raises BenchmarkError when they cannot be loaded.
    """
    kind = runtime.facts.kind
    if kind == "cuda":
        from ckwatch.bench.probes.cuda import CudaProbes

        return CudaProbes(runtime.stream, runtime.facts.compute_units)
    if kind == "hip":
        if shared_object is None:
            return "there is no HIP compiler that could make them"
        from ckwatch.bench.probes.hip import HipProbes

        return HipProbes(shared_object, runtime.stream, runtime.facts.compute_units)
    if kind == "cpu":
        from ckwatch.bench.probes.cpu import CpuProbes

        return CpuProbes()
    return f"there are none for {kind} devices"
