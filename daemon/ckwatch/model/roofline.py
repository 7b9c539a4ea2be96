"""The roofline: the time that no kernel can beat on a device."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from ckwatch.model.gpu_specs import DeviceFacts, GpuSpecs, specs_of
from ckwatch.model.kernel_problem import Gemm, KernelProblem
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The least time, in microseconds, and what it comes from: the matrix units or the memory."""

    time_us: float
    limited_by: Literal["matrix", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRoof:
    """Peak of `threads` threads of this machine's processor: multiply-adds of f32 in TFLOP/s, each counted
    twice, and reads of memory in TB/s. `measured_at`: Unix seconds."""

    processor: str
    threads: int
    tflops: float
    bandwidth_tbs: float
    measured_at: float


def bound(
    problem: KernelProblem, facts: DeviceFacts, cache: CacheState, clock_mhz: float | None = None
) -> Bound | None:
    """The roofline's time of a problem on a device, or None where device or work are not known.

    At `clock_mhz` (the one that was observed), else at the highest that the device or its data sheet tells. Memory does
    not depend on it. COLD: every buffer's content is moved once (what a result leaves in the cache displaces as much
    of what the flush had written there). HOT: only what cannot have stayed in the last level cache.
    """
    part = specs_of(facts)
    if part is None:
        return None
    matrix_us = _matrix_us(problem, part, clock_mhz or max(part.clock_mhz, facts.clock_mhz))
    moved = problem.bytes_moved
    if cache is CacheState.HOT:
        moved = max(0, moved - max(part.last_level_cache_bytes, facts.last_level_cache_bytes))
    memory_us = moved / (part.bandwidth_tbs * 1e6)
    time_us = max(matrix_us, memory_us)
    if time_us <= 0:
        return None
    return Bound(time_us=time_us, limited_by="matrix" if matrix_us >= memory_us else "memory")


def _matrix_us(problem: KernelProblem, part: GpuSpecs, clock_mhz: float) -> float:
    """0 where nothing is known. Operands of two dtypes count as the faster one: the kernel may convert either way."""
    if problem.computed is None or not problem.flops:
        return 0.0
    if isinstance(problem.computed, Gemm):
        dtypes = {problem.buffer(view.buffer).dtype for view in (problem.computed.x, problem.computed.w)}
    else:
        dtypes = {problem.computed.compute}
    peaks = [part.peak_tflops[dtype] for dtype in dtypes if dtype in part.peak_tflops]
    if len(peaks) < len(dtypes):
        return 0.0
    return problem.flops / (max(peaks) * clock_mhz / part.clock_mhz * 1e6)


class CacheState(StrEnum):
    """The content of the caches when a launch begins: nothing of its operands, or what the launch before left."""

    COLD = "cold"
    HOT = "hot"
