"""Costs of instructions on an arch, in clocks: the constants of `wait_and_issue`, each with its source.

Sources, by the names that are used below:

- *MT4G*: caps-tum/mt4g at 4cc5566 (March 2026), `sample_results`, pointer chasing on an MI210 and an MI300X.
- *calculator*: ROCm/amd_matrix_instruction_calculator, its `Execution cycles` and `Can co-execute with VALU`.
- *profiler*: ROCm Compute Profiler, "Pipeline descriptions" and "Vector L1 cache".
- *LLVM*: LLVM 22, llvm/lib/Target/AMDGPU, SISchedule.td; on CDNA its cycles are issues, of 4 clocks each.
- *hazards*: the same, GCNHazardRecognizer.cpp, wait states of 4 clocks.
- *CDNA 3*, *CDNA 4*: AMD's white papers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from ckwatch.codeobject.disassembly import InstructionKind, traits
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleCosts:
    """Clocks, but for `simds` of a CU and what says bytes or lanes.

    `issue`: from a wave's issue to its next one. `valu`: until the result of a VALU instruction can be read; `slow`:
    of those that run at a fraction of the rate, how long they take the ALU, and how long until the result. `branch`: of
    a taken one. Latencies without any conflict: `scalar_load` from the scalar cache, `lds`, `memory` from L2. Bytes a
    clock: `lds_read` and `lds_write` of the port that `lds_port_simds` SIMDs share (None: no number), where a write
    sends 4 bytes of address a lane, too; `fill` of cache lines into a CU. `address_lanes`: lanes of a request that are
    served in a clock. `matrix`: clocks of matrix instructions by their names, the first that fits;
    `matrix_result`: after these, until another instruction may read the result.
    """

    simds: int
    issue: int
    valu: int
    slow: tuple[tuple[str, int, int], ...]
    branch: int
    scalar_load: int
    lds: int
    memory: int
    memory_source: str
    matrix: tuple[tuple[str, int], ...]
    matrix_result: int
    matrix_result_short: int
    lds_read: int | None = None
    lds_write: int | None = None
    lds_port_simds: int = 2
    fill: int | None = None
    address_lanes: int | None = None


_QUARTER_RATE = (r"v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_|v_cvt_(?!\w*f64)", 16, 16)
"""LLVM: WriteTrans32, WriteTrans64 and WriteFloatCvt, 4 issues, "these are quarter rate"."""

_CDNA2 = CycleCosts(
    simds=4,  # profiler: four SIMDs of 16 lanes
    issue=4,  # profiler: the scheduler takes the four SIMDs in turn, a wave of 64 lanes takes 16 lanes four clocks
    valu=4,  # LLVM: Write32Bit, WriteFloatFMA, WriteDouble and Write64Bit of SIDPFullSpeedModel, 1 issue
    slow=(_QUARTER_RATE,),
    branch=32,  # LLVM: WriteBranch, 8 issues
    scalar_load=48,  # MT4G: MI210, scalar L1, the median of 256 loads
    lds=48,  # MT4G: MI210, shared memory, the median
    memory=292,  # MT4G: MI210, L2, the median (L1 124, memory 684)
    memory_source="measured on an MI210 by MT4G",
    matrix=(  # calculator: cdna2
        (r"v_mfma_f64_4x4x4", 16),
        (r"v_mfma_f64_16x16x4", 32),
        (r"v_mfma_\w+?_4x4x", 8),
        (r"v_mfma_\w+?_16x16x", 32),
        (r"v_mfma_\w+?_32x32x", 64),
    ),
    matrix_result=12,  # hazards: XDL or SMFMA write, VALU or memory read: 5, 11, 19 wait states after 2, 8, 16 passes
    matrix_result_short=12,
    lds_read=64,  # profiler: a port sends 64 bytes a clock each way, and two SIMDs share it
    lds_write=64,  # profiler: 64 lanes of 4 bytes take 8 clocks, of 16 bytes 20
    fill=64,  # CDNA 3: 2 KB a clock for the CUs of a die, the same as before
    address_lanes=16,  # profiler: Coalescing, 25 % for 4 lanes a request, so 16 lanes at best
)

_CDNA3 = replace(
    _CDNA2,
    scalar_load=48,  # MT4G: MI300X, scalar L1
    lds=52,  # MT4G: MI300X, shared memory, the median
    memory=288,  # MT4G: MI300X, L2, the median (L1 116, memory 876)
    memory_source="measured on an MI300X by MT4G",
    matrix=(  # calculator: cdna3
        (r"v_mfma_f64_4x4x4", 16),
        (r"v_mfma_f64_16x16x4", 32),
        (r"v_mfma_\w+?_4x4x", 8),
        (r"v_mfma_\w+?_16x16x(?:1_4b|4_4b|4)_", 32),
        (r"v_mfma_f32_16x16x8_xf32|v_mfma_\w+?_16x16x(?:16|32)_", 16),
        (r"v_mfma_\w+?_32x32x(?:1_2b|2|4_2b)_", 64),
        (r"v_mfma_f32_32x32x4_xf32|v_mfma_\w+?_32x32x(?:8|16)_", 32),
        (r"v_smfmac_\w+?_16x16x", 16),
        (r"v_smfmac_\w+?_32x32x", 32),
    ),
)

_CDNA4 = replace(
    _CDNA3,
    scalar_load=20,  # LLVM: WriteSMEM, 5 issues
    lds=20,  # LLVM: WriteLDS, 5 issues
    memory=320,  # LLVM: WriteVMEM, 80 issues
    memory_source="LLVM's scheduling model, not measured",
    lds_read=128,  # CDNA 4: twice the read bandwidth of LDS
    matrix=(
        # LLVM: SIDPGFX950FullSpeedModel, passes of 4 clocks; 64 clocks for f64 by the data sheet's half rate
        (r"v_mfma_f64_16x16x4", 64),
        (r"v_mfma_(?:scale_)?f32_16x16x128_f8f6f4", 16),
        (r"v_mfma_(?:scale_)?f32_32x32x64_f8f6f4", 32),
        (r"v_mfma_\w+?_16x16x64_", 16),
        (r"v_mfma_\w+?_32x32x32_", 32),
        *_CDNA3.matrix,
    ),
    matrix_result=16,  # hazards: 8, 12, 20 wait states after 4, 8, 16 passes (llvm-project#126727)
)

_RDNA3 = CycleCosts(
    simds=2,  # "RDNA Architecture": two SIMDs of 32 lanes a CU
    issue=1,  # the same: a wave of 32 lanes issues each clock
    valu=5,  # LLVM: GFX11SpeedModel, Write32Bit, WriteFloatFMA
    slow=(
        (r"v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_(?:iflag_)?(?:f16|f32)", 1, 10),  # LLVM: WriteTrans32
        (r"v_(?:rcp|rsq|sqrt)_f64", 1, 40),  # LLVM: WriteTrans64
        (r"v_\w+_f64", 1, 38),  # LLVM: WriteDouble, WriteDoubleAdd, WriteDoubleCvt
        (r"v_mul_(?:lo|hi)_[iu]32|v_mad_[iu]64_[iu]32", 1, 8),  # LLVM: WriteIntMul, WriteQuarterRate32
    ),
    branch=32,  # LLVM: WriteBranch
    scalar_load=20,  # LLVM: WriteSMEM
    lds=20,  # LLVM: WriteLDS
    memory=320,  # LLVM: WriteVMEM
    memory_source="LLVM's scheduling model, not measured",
    matrix=((r"v_wmma_i32_16x16x16_iu4", 16), (r"v_wmma_\w+?_16x16x16", 32)),  # calculator: rdna3
    matrix_result=5,  # LLVM: as any VALU instruction
    matrix_result_short=5,
)

COSTS: Mapping[str, CycleCosts] = {"gfx90a": _CDNA2, "gfx942": _CDNA3, "gfx950": _CDNA4, "gfx1100": _RDNA3}
"""By arch. No measurements of gfx950's latencies are public; where there are some, LLVM's are too short."""

TWO_PASSES = 8
"""Clocks of the shortest matrix instructions, after which `matrix_result_short` counts."""

_EIGHT_BITS = re.compile(r"v_mfma_\w*f8f6f4")
_FORMAT = re.compile(r"\b(?:cbsz|blgp):(\d)")
_NARROW_FORMATS = 2
"""Formats 2 to 4 of an f8f6f4 product have 6 or 4 bits, 0 and 1 have 8 ("AMD Instinct CDNA 4 ISA", MFMA)."""

_NOT_BESIDE_VALU = {
    "gfx942": re.compile(r"v_mfma_(?:f64_|\w+_(?:4x4x1_16b|16x16x1_4b|16x16x4|32x32x1_2b|32x32x2)_f32)"),
    "gfx90a": re.compile(r"v_mfma_f64_"),
}


def costs_of(arch: str) -> CycleCosts | None:
    """The costs of an arch, which may be written with its features; None where there are no numbers."""
    return COSTS.get(arch.partition(":")[0])


def matrix_clocks(text: str, costs: CycleCosts) -> int | None:
    """How long a matrix instruction takes the matrix unit; None where there is no number.

    A product of f8f6f4 with an operand of 8 bits takes twice as long as one without (CDNA 4: f8 has half the peak).
    """
    mnemonic = text.partition(" ")[0]
    clocks = _by_name(mnemonic, costs.matrix)
    if clocks is None or not _EIGHT_BITS.match(mnemonic):
        return clocks
    formats = [int(number) for number in _FORMAT.findall(text)]
    return clocks if len(formats) == 2 and min(formats) >= _NARROW_FORMATS else 2 * clocks


@cache
def _by_name(mnemonic: str, table: tuple[tuple[str, int], ...]) -> int | None:
    return next((clocks for pattern, clocks in table if re.match(pattern, mnemonic)), None)


@cache
def beside_valu(mnemonic: str, arch: str) -> bool:
    """Return True if VALU instructions may be issued while a matrix instruction runs (calculator)."""
    alone = _NOT_BESIDE_VALU.get("gfx942" if arch == "gfx950" else arch)
    return alone is None or not alone.match(mnemonic)


@cache
def valu_clocks(mnemonic: str, costs: CycleCosts) -> tuple[int, int]:
    """Clocks that a VALU instruction takes the ALU, and until its result can be read."""
    for pattern, busy, result in costs.slow:
        if re.match(pattern, mnemonic):
            return busy, result
    return costs.issue, costs.valu


def lds_clocks(mnemonic: str, turns: float, lanes: int, costs: CycleCosts) -> float:
    """How long an access takes the port to LDS, or the banks: `turns` are those that were counted."""
    found = traits(mnemonic)
    writes = found.kind is InstructionKind.LDS_WRITE
    port = costs.lds_write if writes else costs.lds_read
    sent = (found.bytes + 4 if writes else found.bytes) * lanes
    return max(turns, sent / port if port else 0.0, 1.0)


def memory_clocks(lines: float, line_bytes: int, lanes: int, costs: CycleCosts) -> float | None:
    """How long a request of so many cache lines takes a CU's way to L2; None where there is no number."""
    if costs.fill is None or costs.address_lanes is None:
        return None
    return max(lines * line_bytes / costs.fill, lanes / costs.address_lanes)
