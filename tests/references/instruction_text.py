"""Operands that a disassembled vector instruction reads and writes, by the ISA documents: operands, modifiers, SDWA and DPP.

Independent of the emulator's own decoder, and slow.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from references.wave_emulator import EXEC, LANES, M0, VCC, WaveState, Words

NAMED = {"vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1), "exec": (EXEC, 2), "m0": (M0, 1)}
_REGISTER = re.compile(r"([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])$")
_MODIFIERS = (
    *("op_sel", "op_sel_hi", "neg_lo", "neg_hi", "mul", "div", "dst_sel", "dst_unused", "src0_sel", "src1_sel"),
    *("quad_perm", "row_shl", "row_shr", "row_ror", "wave_shl", "wave_rol", "wave_shr", "wave_ror", "row_bcast"),
    *("row_newbcast", "row_mask", "bank_mask", "bound_ctrl", "bitop3", "offset", "offset0", "offset1"),
    *("cbsz", "abid", "blgp", "neg", "format"),
)
_FLAGS = (
    *("clamp", "row_mirror", "row_half_mirror", "gds", "offen", "idxen", "lds", "glc", "slc", "sc0", "sc1", "nt"),
)


@dataclass
class Operand:
    """A register (`kind` v, s) or a literal (`kind` l, `text`)."""

    kind: str
    text: str
    index: int = 0
    count: int = 1
    negative: bool = False
    absolute: bool = False
    sign_extended: bool = False


@dataclass
class Text:
    """One instruction."""

    name: str
    operands: list[Operand] = field(default_factory=list)
    modifiers: dict[str, str] = field(default_factory=dict)

    @property
    def base(self) -> str:
        return re.sub(r"_(e32|e64|dpp|sdwa)$", "", self.name)

    @property
    def sdwa(self) -> bool:
        return self.name.endswith("_sdwa")

    @property
    def dpp(self) -> bool:
        return self.name.endswith("_dpp")

    def bits(self, name: str, default: int = 0) -> list[int]:
        """`[1,0]`, without end."""
        found = self.modifiers.get(name)
        listed = [int(bit) for bit in re.findall(r"\d", found)] if found else []
        return listed + [default if found is None else 0] * 8

    def has(self, name: str) -> bool:
        return name in self.modifiers


def parse(line: str) -> Text:
    """A line as recorded."""
    words = line.partition(" // ")[0].strip()
    name, _, rest = words.partition(" ")
    text = Text(name)
    depth, pieces, current = 0, [], ""
    for letter in rest:
        depth += (letter in "[(") - (letter in "])")
        if depth == 0 and letter in ", ":
            if current:
                pieces.append(current)
            current = ""
        else:
            current += letter
    for piece in [*pieces, current] if current else pieces:
        key, _, value = piece.partition(":")
        if piece in _FLAGS:
            text.modifiers[piece] = ""
        elif key in _MODIFIERS and not piece.startswith(("v[", "s[")):
            text.modifiers[key] = value
        else:
            text.operands.append(_operand(piece))
    return text


def _operand(piece: str) -> Operand:
    negative = absolute = sign_extended = False
    while True:
        if piece.startswith("-") and (piece[1] == "|" or piece[1].isalpha()):
            negative, piece = True, piece[1:]
        elif piece.startswith("|"):
            absolute, piece = True, piece[1:-1]
        elif piece.startswith("sext("):
            sign_extended, piece = True, piece[5:-1]
        elif piece.startswith("neg("):
            negative, piece = True, piece[4:-1]
        else:
            break
    if match := _REGISTER.match(piece):
        first = int(match[2] or match[3])
        count = int(match[4]) - first + 1 if match[4] else 1
        kind, first = ("v", first + 256) if match[1] == "a" else (match[1], first)
        return Operand(kind, piece, first, count, negative, absolute, sign_extended)
    if piece in NAMED:
        return Operand("s", piece, *NAMED[piece], negative, absolute, sign_extended)
    return Operand("l", piece, 0, 1, negative, absolute, sign_extended)


def literal_bits(text: str, width: int, floating: bool) -> int:
    """The bits of a constant as an operand of this width: floats in the operand's own format, integers sign-extended."""
    if "." in text:
        value = float(text)
        if 0.1591 < value < 0.1592:
            return {16: 0x3118, 32: 0x3E22F983, 64: 0x3FC45F306DC9C882}[width]
        return int.from_bytes(struct.pack({16: "<e", 32: "<f", 64: "<d"}[width], value), "little")
    if text.startswith("0x"):
        bits = int(text, 16)
        return bits << 32 if width == 64 and floating else bits & ((1 << width) - 1)
    return int(text) & ((1 << width) - 1)


def dpp_lanes(text: Text) -> NDArray[np.int64]:
    """The lane that each lane reads, -1 where there is none."""
    lane = np.arange(LANES)
    row, within = lane & ~15, lane & 15
    m = text.modifiers
    if "quad_perm" in m:
        order = np.array(text.bits("quad_perm")[:4])
        return np.asarray((lane & ~3) | order[lane & 3])
    if "row_shl" in m:
        return np.where(within + int(m["row_shl"]) < 16, lane + int(m["row_shl"]), -1)
    if "row_shr" in m:
        return np.where(within >= int(m["row_shr"]), lane - int(m["row_shr"]), -1)
    if "row_ror" in m:
        return row | ((within - int(m["row_ror"])) & 15)
    if "wave_shl" in m:
        return np.where(lane < 63, lane + 1, -1)
    if "wave_rol" in m:
        return (lane + 1) & 63
    if "wave_shr" in m:
        return lane - 1
    if "wave_ror" in m:
        return (lane - 1) & 63
    if "row_mirror" in m:
        return row | (15 - within)
    if "row_half_mirror" in m:
        return (lane & ~7) | (7 - (lane & 7))
    if "row_newbcast" in m:
        return row | int(m["row_newbcast"])
    if m.get("row_bcast") == "15":
        return np.where(lane >= 16, row - 1, -1)
    assert m.get("row_bcast") == "31", text
    return np.where(lane >= 32, 31, -1)


def exec_lanes(state: WaveState) -> NDArray[np.bool_]:
    return lanes_of(state.exec_mask)


def lanes_of(mask: int) -> NDArray[np.bool_]:
    """A mask's bits."""
    return np.array([mask >> lane & 1 for lane in range(LANES)], dtype=bool)


def mask_of(lanes: NDArray[np.bool_]) -> int:
    return sum(1 << lane for lane in range(LANES) if lanes[lane])


_SELECTIONS = {
    "BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8), "WORD_0": (0, 16), "WORD_1": (16, 16),
    "DWORD": (0, 32),
}  # fmt: skip


def source_words(
    text: Text, state: WaveState, number: int, part: int, floating: bool = False, width: int = 32
) -> Words:
    """Dword `part` of source `number`: of a literal all lanes, with SDWA's selection and DPP's lanes, not negated.

    `width` is that of one element, in whose format constants are.
    """
    operand = text.operands[number + results_of(text)]
    if operand.kind == "v":
        words = state.vectors[operand.index + part]
        if text.dpp and number == 0:
            lanes = dpp_lanes(text)
            valid = (lanes >= 0) & exec_lanes(state)[lanes]
            words = np.where(valid, words[lanes], 0).astype(np.uint32)
    elif operand.kind == "s":
        words = np.full(LANES, state.scalars[operand.index + part], np.uint32)
    else:
        bits = literal_bits(operand.text, width, floating)
        words = np.full(LANES, bits >> 32 * part & 0xFFFFFFFF, np.uint32)
    selection = text.modifiers.get(f"src{number}_sel", "DWORD")
    if text.sdwa and selection != "DWORD":
        shift, bits = _SELECTIONS[selection]
        words = words >> np.uint32(shift) & np.uint32((1 << bits) - 1)
        if operand.sign_extended:
            words = (words.astype(np.int64) - ((words >> np.uint32(bits - 1)).astype(np.int64) << bits)).astype(
                np.uint32
            )
    return np.asarray(words)


def results_of(text: Text) -> int:
    """How many of the first operands are written."""
    base = text.base
    two = ("_co_u32", "v_div_scale", "v_mad_u64_u32", "v_mad_i64_i32")
    return 2 if base.endswith(two[0]) or base.startswith(two[1:]) else 1


def put_words(text: Text, state: WaveState, operand: int, part: int, values: Words) -> None:
    """Write a dword of a vector result: the lanes of EXEC that DPP allows, the bits that SDWA chooses."""
    written = exec_lanes(state)
    row = state.vectors[text.operands[operand].index + part]
    if text.dpp:
        lanes, every = dpp_lanes(text), np.arange(LANES)
        row_mask, bank_mask = (
            int(text.modifiers.get("row_mask", "15"), 0),
            int(text.modifiers.get("bank_mask", "15"), 0),
        )
        valid = (lanes >= 0) & exec_lanes(state)[lanes]
        written &= (row_mask >> (every >> 4) & 1 == 1) & (bank_mask >> (every >> 2 & 3) & 1 == 1)
        if not text.has("bound_ctrl"):
            written &= valid
    selection = text.modifiers.get("dst_sel", "DWORD")
    if text.sdwa and selection != "DWORD":
        shift, bits = _SELECTIONS[selection]
        mask = (1 << bits) - 1
        placed = (values.astype(np.uint64) & np.uint64(mask)) << np.uint64(shift)
        unused = text.modifiers.get("dst_unused", "UNUSED_PAD")
        if unused == "UNUSED_PRESERVE":
            placed |= row.astype(np.uint64) & np.uint64(0xFFFFFFFF ^ (mask << shift))
        elif unused == "UNUSED_SEXT":
            negative = values >> np.uint32(bits - 1) & np.uint32(1)
            placed |= np.where(negative, np.uint64((0xFFFFFFFF << (shift + bits)) & 0xFFFFFFFF), np.uint64(0))
        values = placed.astype(np.uint32)
    row[written] = values[written]
