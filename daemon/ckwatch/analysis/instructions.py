"""What AMDGPU instructions do, as far as a loop's figures need it.

Mnemonics are LLVM's (AMDGPU assembler reference). Those of GFX11 and later say `load` and `b128` where older ones say
`read` and `dwordx4`; both are read here. All figures are of one lane but for matrix instructions, which are a wave's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache


class Kind(StrEnum):
    """The classes of `Loop.mix`. MFMA stands for all matrix instructions, WMMA too; stores include atomics."""

    MFMA = "mfma"
    VALU = "valu"
    SALU = "salu"
    LDS_READ = "lds read"
    LDS_WRITE = "lds write"
    GLOBAL_LOAD = "global load"
    GLOBAL_STORE = "global store"
    WAIT = "wait"
    BARRIER = "barrier"
    BRANCH = "branch"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What one instruction does.

    `bytes` of memory per lane (global memory for loads to LDS). `flops` are those of a wave for a matrix instruction
    and of a lane for any other, a fused multiply-add being two; integer operations of dot and matrix instructions
    count too. `scratch` is private memory, where spills go.
    """

    kind: Kind
    bytes: int = 0
    flops: int = 0
    scratch: bool = False


_SCALAR_MEMORY = re.compile(r"s_(?:buffer_|scratch_)?(?:load|store|atomic|prefetch|dcache)")
_NO_WORK = re.compile(
    r"s_(?:nop|sleep|delay_alu|setprio|clause|endpgm|code_end|icache|sethalt|trap|sendmsg|ttrace|inst_prefetch|incperf"
    r"|decperf|set_inst_prefetch|getreg|setreg|round_mode|denorm_mode|memtime|memrealtime|version|wakeup)"
)
_BRANCH = re.compile(r"s_(?:c?branch|setpc|swappc|call|rfe)")
_WAIT = re.compile(r"s_wait")

_MATRIX = re.compile(
    r"v_(mfma|smfmac|wmma|swmmac)(?:_scale\d*)?(?:_ld_scale)?_[a-z]+\d+_(\d+)x(\d+)x(\d+)(?:_(\d+)b(?=_))?_?(\w*)"
)

_LANE_CROSSING = re.compile(r"ds_(?:b?permute|swizzle|nop|gws|consume|append|ordered|bvh)")
_LDS_ACCESS = re.compile(
    r"ds_(read|write|load|store)(2|_2addr)?(?:_)?(?:st64|stride64)?(?:_addtid)?_(?:d16_|tr\d*_)?([a-z])(\d+)"
)
_GLOBAL_ACCESS = re.compile(r"(buffer|tbuffer|global|flat|scratch|image)_(?:block_)?(load|store|atomic)_(.*)")
_DWORDS = re.compile(r"dword(?:x(\d))?")
_TYPED = re.compile(r"(?:^|_)[a-z]+(\d+)")
_SMALL = {"byte": 1, "short": 2}
_FORMAT = {"x": 4, "xy": 8, "xyz": 12, "xyzw": 16}

_VALU_FLOPS: tuple[tuple[str, int], ...] = (
    (r"v_pk_(?:fma|mad|fmac)_(?:f16|bf16|f32)", 4),
    (r"v_pk_(?:add|mul)_(?:f16|bf16|f32)", 2),
    (r"v_dot2c?(?:acc)?_", 4),
    (r"v_dot4c?_", 8),
    (r"v_dot8c?_", 16),
    (r"v_(?:fma|fmac|fmaak|fmamk|mac|mad|madak|madmk)_(?:legacy_)?(?:f16|f32|f64|bf16|mix\w*)", 2),
    (r"v_mad_mix", 2),
    (r"v_(?:add|sub|subrev|mul|mul_legacy)_(?:f16|f32|f64|bf16)", 1),
)
_COUNTED = tuple((re.compile(pattern), flops) for pattern, flops in _VALU_FLOPS)


@cache
def traits(mnemonic: str) -> Traits:
    """What an instruction does; `Kind.OTHER` for one that is not known. Encodings (`_e32`, `_dpp`) make no difference.

    Both halves of a dual instruction of GFX11 and later count when they are given as `v_dual_a::v_dual_b`.
    """
    if "::" in mnemonic:
        return Traits(
            kind=Kind.VALU, flops=sum(_valu_flops(half.replace("dual_", "")) for half in mnemonic.split("::"))
        )
    if mnemonic.startswith("v_"):
        matrix = matrix_shape(mnemonic)
        if matrix is not None:
            return Traits(kind=Kind.MFMA, flops=2 * matrix.m * matrix.n * matrix.k * matrix.blocks)
        return Traits(kind=Kind.VALU, flops=_valu_flops(mnemonic))
    if mnemonic.startswith("s_"):
        return Traits(kind=_scalar(mnemonic))
    if mnemonic.startswith("ds_"):
        return _lds(mnemonic)
    return _global(mnemonic)


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """M, N and K of one product, how many products the instruction makes, and what its operands are."""

    m: int
    n: int
    k: int
    blocks: int
    operands: str


@cache
def matrix_shape(mnemonic: str) -> MatrixShape | None:
    """The shape of a matrix instruction, None for any other.

    Sparse ones (SMFMAC, SWMMAC) count as if dense. Names before GFX940 do not say how many blocks there are: as many as
    their operands have room for, each lane of 64 holding one f32 or f64, two bf16, or four f16, bf16 (`_1k`) or i8
    (AMD Instinct MI200 ISA, "Matrix Arithmetic Instructions").
    """
    found = _MATRIX.match(mnemonic)
    if found is None:
        return None
    family, blocks, operands = found[1], found[5], found[6]
    m, n, k = int(found[2]), int(found[3]), int(found[4])
    if blocks:
        return MatrixShape(m, n, k, int(blocks), operands)
    unseparated = family == "mfma" and re.search(r"x\d+[a-z]", mnemonic[found.start(4) - 1 :]) is not None
    return MatrixShape(m, n, k, max(1, 64 * _per_lane(operands) // (m * k)) if unseparated else 1, operands)


def _per_lane(operands: str) -> int:
    if operands.startswith("bf16"):
        return 4 if "1k" in operands else 2
    return 4 if operands.startswith(("f16", "i8")) else 1


def _valu_flops(mnemonic: str) -> int:
    return next((flops for pattern, flops in _COUNTED if pattern.match(mnemonic)), 0)


def _scalar(mnemonic: str) -> Kind:
    if _WAIT.match(mnemonic):
        return Kind.WAIT
    if mnemonic.startswith("s_barrier"):
        return Kind.BARRIER
    if _BRANCH.match(mnemonic):
        return Kind.BRANCH
    if _SCALAR_MEMORY.match(mnemonic) or _NO_WORK.match(mnemonic):
        return Kind.OTHER
    return Kind.SALU


def _lds(mnemonic: str) -> Traits:
    if _LANE_CROSSING.match(mnemonic):
        return Traits(kind=Kind.OTHER)
    found = _LDS_ACCESS.match(mnemonic)
    if found is None:  # an atomic
        return Traits(kind=Kind.LDS_WRITE, bytes=_typed_bytes(mnemonic))
    kind = Kind.LDS_READ if found[1] in ("read", "load") else Kind.LDS_WRITE
    return Traits(kind=kind, bytes=int(found[4]) // 8 * (2 if found[2] else 1))


def _global(mnemonic: str) -> Traits:
    found = _GLOBAL_ACCESS.match(mnemonic)
    if found is None:
        return Traits(kind=Kind.OTHER)
    kind = Kind.GLOBAL_LOAD if found[2] == "load" else Kind.GLOBAL_STORE
    return Traits(kind=kind, bytes=_global_bytes(found[2], found[3]), scratch=found[1] == "scratch")


def _global_bytes(does: str, what: str) -> int:
    if does == "atomic":
        return _typed_bytes(what) * (2 if what.endswith("_x2") else 1)
    dwords = _DWORDS.search(what)
    if dwords is not None:
        return 4 * int(dwords[1] or 1)
    if what.startswith("format"):
        components = _FORMAT.get(what.rpartition("_")[2], 0)
        return components // 2 if "d16" in what else components
    small = next((size for name, size in _SMALL.items() if name in what), 0)
    if small:
        return small
    typed = _TYPED.findall(re.sub(r"d16_|_d16|_w\d+$", "", what))
    return int(typed[-1]) // 8 if typed else 0


def _typed_bytes(mnemonic: str) -> int:
    """The width that a mnemonic ends in (`u32`, `f64`, `pk_add_f16`), 4 bytes where it says none."""
    if "_pk_" in mnemonic or mnemonic.startswith("pk_"):
        return 4
    typed = _TYPED.findall(mnemonic)
    return max(int(typed[-1]) // 8, 4) if typed else 4
