"""Whole matrices of CUTLASS instances on an NVIDIA H200, which `cuda_matrix` takes, as cases of predictions.

They are what the terms of `ckwatch.prediction.times` are tried with beyond AMD's parts: nothing was fitted. A warp
counts as a wave, a streaming multiprocessor (SM) as a compute unit.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reporting import RESULTS
from ckwatch.model.gpu_specs import NVIDIA_GPUS, DeviceFacts
from ckwatch.model.tiles import Tile
from ckwatch.prediction.instances import MOST_WAVES, REGISTERS, WAVE, GemmInstance
from ckwatch.prediction.predict import MemoryRates, PredictionTarget
from ckwatch.prediction.times import GemmSizes, Machine

PATH = RESULTS / "cutlass_h200.csv"
COLUMN = re.compile(r"(\d+)x(\d+)x(\d+)_ms")
SHAPE_AXIS = "ThreadblockM"
FAMILY, ARCH = "gemm_universal_cutlass", "sm_90"

INSTRUCTION = (16, 8, 16)
"""M, N and K of mma.sync for f16."""

LANES, MOST_REGISTERS, OTHER_REGISTERS = 32, 255, 40
"""Of a warp, and of a thread; what addresses and counters take of them is an estimate. The 65,536 registers of an SM
are `REGISTERS` for each lane of its four schedulers (CUDA C++ Programming Guide, compute capability 9.0)."""

SYNC_FLOPS = 2048.0
"""f16 FLOP a clock of an SM through mma.sync: those of an A100's (312 TFLOP/s of 108 SMs at 1,410 MHz). That an SM of
Hopper, whose peak takes wgmma, is no faster at it is an assumption."""

MATRIX_REACHED = 0.9
"""As of AMD's parts of which no such figure is known."""

RATES = MemoryRates(lds=128, l1=64, l2_channel=64, channels_per_die=80, cus_per_die=132)
"""Shared memory: 32 banks of 4 bytes. L2: 5,120 bytes a clock, as the A100 white paper says of that; a half of a line
of 128 bytes a clock for an SM."""

TOGETHER = {1: 1 << 20, 8: 16}
"""By SwizzleSize: how many tiles along M one wave of 132 threadblocks has. Without it whole columns come one after the
other, else eight columns side by side (threadblock_swizzle.h)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutlassInstance(GemmInstance):
    """`device::GemmUniversal`, which has `ahead` rounds of both operands on their way to shared memory (cp.async), and
    one more in use."""

    ahead: int

    def stages(self, x_bytes: float, w_bytes: float) -> int:  # noqa: ARG002  # whatever the bytes
        """How many rounds the loads run ahead."""
        return self.ahead

    def registers(self, x_bytes: float, w_bytes: float) -> int:
        """Estimated, of a thread: accumulators, the operands of two steps of an instruction's depth, and others."""
        accumulators = self.tile.m * self.tile.n / (self.waves * LANES)
        rows, columns = (size * repeats for size, repeats in zip(self.instruction, self.repeats, strict=True))
        operands = 2 * (rows * x_bytes + columns * w_bytes) * INSTRUCTION[2] / LANES / 4
        return min(MOST_REGISTERS, int(accumulators + operands + OTHER_REGISTERS))

    def lds_bytes(self, x_bytes: float, w_bytes: float) -> int:
        """Shared memory of a threadblock."""
        return int(self.loaded_bytes(x_bytes, w_bytes) * (self.ahead + 1))

    def waves_per_simd(self, x_bytes: float, w_bytes: float) -> int:
        """Warps of a scheduler, by the estimated registers."""
        return max(1, min(2 * MOST_WAVES, REGISTERS // self.registers(x_bytes, w_bytes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaTarget(PredictionTarget):
    """An NVIDIA part, on which matrices are multiplied by mma.sync."""

    def machine(self, dtypes: Iterable[str]) -> Machine | None:  # noqa: ARG002  # all are f16
        """The machine for f16."""
        part = self.part
        return Machine(
            compute_units=part.compute_units, dies=1, clock_mhz=self.clock_mhz, flops=SYNC_FLOPS,
            matrix_reached=MATRIX_REACHED, lds=self.rates.lds, l1=self.rates.l1, l2=self.l2_bytes_per_clock,
            cache_tbs=0.0, cache_bytes=part.last_level_cache_bytes, memory_tbs=part.bandwidth_tbs,
            lds_bytes=part.local_memory_bytes,
        )  # fmt: skip


def h200() -> NvidiaTarget:
    """The part that the matrix was measured on."""
    part = next(part for pattern, part in NVIDIA_GPUS if pattern == "H200")
    facts = DeviceFacts(name="cuda:0", description=part.name, arch=ARCH)
    return NvidiaTarget(arch=ARCH, part=part, facts=facts, rates=RATES)


def instance_of(line: Mapping[str, str]) -> CutlassInstance:
    """The instance of a line."""
    m, n, k, warp_m, warp_n = (int(line[name]) for name in (*(f"Threadblock{x}" for x in "MNK"), "WarpM", "WarpN"))
    return CutlassInstance(
        threads=m // warp_m * (n // warp_n) * WAVE,
        tile=Tile(m=m, n=n, k=k),
        instruction=INSTRUCTION[:2],
        repeats=(warp_m // INSTRUCTION[0], warp_n // INSTRUCTION[1]),
        shuffled=(0, 0),
        pipeline="v2",
        interwave=False,
        tiles_together=TOGETHER[int(line["SwizzleSize"])],
        ahead=int(line["Stages"]) - 1,
    )


Matrix = tuple[dict[str, float], dict[str, GemmInstance]]
"""Microseconds and instances by their names."""


def matrices(path: Path) -> dict[tuple[int, int, int], Matrix]:
    """By M, N and K what a file has, if it is one of these."""
    found: dict[tuple[int, int, int], Matrix] = {}
    with path.open(newline="") as lines:
        reader = csv.DictReader(lines)
        names = reader.fieldnames or ()
        if SHAPE_AXIS not in names:
            return {}
        columns = {name: named for name in names if (named := COLUMN.fullmatch(name))}
        for line in reader:
            name = "_".join(text for axis, text in line.items() if axis not in columns)
            for column, named in columns.items():
                if line[column]:
                    m, n, k = map(int, named.groups())
                    times, instances = found.setdefault((m, n, k), ({}, {}))
                    times[name], instances[name] = 1000 * float(line[column]), instance_of(line)
    return found


def sizes_of(m: int, n: int, k: int) -> GemmSizes:
    """A product of f16."""
    return GemmSizes(m=m, n=n, k=k, x_bytes=2, w_bytes=2, y_bytes=2)
