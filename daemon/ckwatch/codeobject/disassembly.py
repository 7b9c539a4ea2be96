"""Reads llvm-objdump's disassembly, and says what each instruction does as far as a loop's figures need it.

A line is `\t<instruction>  // <address>: <words>`, and a branch's ends in `<symbol+offset>`. A branch's target
is in the lower half of its word: a signed number of 4-byte words from the instruction that follows (formats SOPP and
SOPK of all AMDGPU ISAs).

Mnemonics are LLVM's (AMDGPU assembler reference). Those of GFX11 and later say `load` and `b128` where older ones say
`read` and `dwordx4`; both are read here. All figures are of one lane but for matrix instructions, which are a wave's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from ckwatch.model.lazy_dataclass import dataclass

_HEADER = re.compile(r"^([0-9a-fA-F]{8,16}) <(.+)>:$")
_COMMENT = re.compile(r"([0-9A-Fa-f]+):((?: [0-9A-Fa-f]{8}\b)*)")
_PADDING = "s_code_end"
_BRANCHES = ("s_branch", "s_cbranch", "s_call")
_BRACKETS = re.compile(r"\[[^\]]*\]|\([^)]*\)")


class Instruction(NamedTuple):
    """`text` is the whole instruction as the assembler takes it; `target` the address that a direct branch goes to.

    `mnemonic` of a dual instruction is `v_dual_a::v_dual_b`. `size` in bytes. A tuple, since there are thousands.
    """

    address: int
    mnemonic: str
    text: str
    size: int
    target: int | None = None

    @property
    def operands(self) -> tuple[str, ...]:
        """Registers and constants with the modifiers of the last one left on it, as printed."""
        rest = self.text.partition(" ")[2]
        return tuple(part.strip() for part in split_operands(rest)) if rest else ()


@dataclass(frozen=True, slots=True)
class DisassembledFunction:
    """A symbol of the code object and its instructions in the order of their addresses.

    `unknown` counts words that the disassembler did not know.
    """

    symbol: str
    address: int
    instructions: tuple[Instruction, ...]
    unknown: int = 0


def split_operands(text: str) -> list[str]:
    """Operands at their commas; those in brackets do not count."""
    if "[" not in text and "(" not in text:
        return text.split(",")
    hidden = _BRACKETS.sub(lambda found: found[0].replace(",", "\0"), text)
    return [part.replace("\0", ",") for part in hidden.split(",")]


def functions(
    text: str, wanted: Iterable[str] | None = None, labels: AbstractSet[str] = frozenset()
) -> tuple[DisassembledFunction, ...]:
    """The functions in the output of `llvm-objdump -d`, only those in `wanted` when it is given. `labels` are symbols
    inside of functions, which end none.

    Lines that are none of a disassembly are passed over; text without any gives ().
    """
    names = None if wanted is None else frozenset(wanted)
    read: list[DisassembledFunction] = []
    symbol, address = "", 0
    found: list[Instruction] = []
    unknown = 0
    for line in text.splitlines():
        if not line:
            continue
        if not line[0].isspace():
            header = _HEADER.match(line)
            if header is not None and header[2] not in labels:
                if symbol:
                    read.append(DisassembledFunction(symbol, address, tuple(found), unknown))
                symbol, address, found, unknown = header[2], int(header[1], 16), [], 0
                if names is not None and symbol not in names:
                    symbol = ""
            continue
        if not symbol:
            continue
        text, slashes, comment = line.partition("// ")
        comment_parts = _COMMENT.match(comment) if slashes else None
        if comment_parts is None:
            continue
        instruction = _instruction(text.strip(), int(comment_parts[1], 16), comment_parts[2])
        if instruction.mnemonic.startswith((".", "<unknown>")):
            unknown += 1
        elif instruction.mnemonic != _PADDING:
            found.append(instruction)
    if symbol:
        read.append(DisassembledFunction(symbol, address, tuple(found), unknown))
    return tuple(read)


def _instruction(text: str, address: int, words: str) -> Instruction:
    """`words` as printed, each with a blank before it."""
    mnemonic, _, _ = text.partition(" ")
    size = 4 * (len(words) // 9)
    if " :: " in text:
        second = text.partition(" :: ")[2].split(" ", 1)[0]
        return Instruction(address, f"{mnemonic}::{second}", text, size)
    if not mnemonic.startswith(_BRANCHES) or not words:
        return Instruction(address, mnemonic, text, size)
    distance = int(words[5:9], 16)
    return Instruction(
        address, mnemonic, text, size, address + 4 + 4 * (distance - 0x10000 if distance & 0x8000 else distance)
    )


class InstructionKind(StrEnum):
    """The classes of `MainLoop.mix`. MFMA stands for all matrix instructions, WMMA too; stores include atomics."""

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
class InstructionTraits:
    """The effects of one instruction.

    `bytes` of memory per lane (global memory for loads to LDS). `flops` are those of a wave for a matrix instruction
    and of a lane for any other, a fused multiply-add being two; integer operations of dot and matrix instructions
    count too. `scratch` is private memory, where spills go.
    """

    kind: InstructionKind
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
def traits(mnemonic: str) -> InstructionTraits:
    """Return the effects of an instruction; `Kind.OTHER` for an unknown one. Encodings (`_e32`, `_dpp`) make no
    difference.

    Both halves of a dual instruction of GFX11 and later count when they are given as `v_dual_a::v_dual_b`.
    """
    if "::" in mnemonic:
        return InstructionTraits(
            kind=InstructionKind.VALU,
            flops=sum(_valu_flops(half.replace("dual_", "")) for half in mnemonic.split("::")),
        )
    if mnemonic.startswith("v_"):
        matrix = matrix_shape(mnemonic)
        if matrix is not None:
            return InstructionTraits(
                kind=InstructionKind.MFMA, flops=2 * matrix.m * matrix.n * matrix.k * matrix.blocks
            )
        return InstructionTraits(kind=InstructionKind.VALU, flops=_valu_flops(mnemonic))
    if mnemonic.startswith("s_"):
        return InstructionTraits(kind=_scalar(mnemonic))
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


def _scalar(mnemonic: str) -> InstructionKind:
    if _WAIT.match(mnemonic):
        return InstructionKind.WAIT
    if mnemonic.startswith("s_barrier"):
        return InstructionKind.BARRIER
    if _BRANCH.match(mnemonic):
        return InstructionKind.BRANCH
    if _SCALAR_MEMORY.match(mnemonic) or _NO_WORK.match(mnemonic):
        return InstructionKind.OTHER
    return InstructionKind.SALU


def _lds(mnemonic: str) -> InstructionTraits:
    if _LANE_CROSSING.match(mnemonic):
        return InstructionTraits(kind=InstructionKind.OTHER)
    found = _LDS_ACCESS.match(mnemonic)
    if found is None:  # an atomic
        return InstructionTraits(kind=InstructionKind.LDS_WRITE, bytes=_typed_bytes(mnemonic))
    kind = InstructionKind.LDS_READ if found[1] in ("read", "load") else InstructionKind.LDS_WRITE
    return InstructionTraits(kind=kind, bytes=int(found[4]) // 8 * (2 if found[2] else 1))


def _global(mnemonic: str) -> InstructionTraits:
    found = _GLOBAL_ACCESS.match(mnemonic)
    if found is None:
        return InstructionTraits(kind=InstructionKind.OTHER)
    kind = InstructionKind.GLOBAL_LOAD if found[2] == "load" else InstructionKind.GLOBAL_STORE
    return InstructionTraits(kind=kind, bytes=_global_bytes(found[2], found[3]), scratch=found[1] == "scratch")


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
