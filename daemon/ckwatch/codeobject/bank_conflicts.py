"""LDS bank conflicts, where the instructions determine the addresses of all lanes.

*Values of lanes.* The lanes of a work-group's first wave number the work items 0, 1, 2 … along x (register v0 at the
start; from GFX90A on y and z are in its upper bits, and 0 here). From there integer arithmetic is followed. What comes
from memory or from a kernel's arguments is not known; added to what is known it moves all lanes alike, which leaves
their distances.

*Banks.* Phases and banks are those of `lds_banks`, where a document or a measurement says them. Archs other than CDNA2
and CDNA3 are not analyzed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from inspect import signature

from ckwatch.codeobject.control_flow import ControlFlow
from ckwatch.codeobject.disassembly import Instruction, InstructionKind, traits
from ckwatch.codeobject.lds_banks import WORD_BYTES, Evidence, bank_rule, words_of
from ckwatch.model.lazy_dataclass import dataclass

_BITS = 0xFFFFFFFF
_DEPTH = 300
_SCALARS = ("s", "ttmp", "vcc", "m0")
_REGISTER = re.compile(r"([vas])(\d+)$")
_RANGE = re.compile(r"([vas])\[(\d{1,3}):(\d{1,3})\]$")
_NUMBER = re.compile(r"(?:lit\()?(-?(?:0x[0-9a-f]+|0|[1-9]\d*))\)?$")
_SUFFIX = re.compile(r"_e(?:32|64)$")
_NO_RESULT = re.compile(r"ds_(?:write|store)|\w+_store|s_(?:cmp|bitcmp|wait|barrier|c?branch|nop|endpgm|setprio|sched)")


@dataclass(frozen=True, slots=True)
class LaneValues:
    """A value per lane, unsigned 32 bits. Not `exact`: an unknown number, the same for all lanes, comes on top."""

    values: tuple[int, ...]
    exact: bool = True


_Operation = Callable[..., int]


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value


# By name: the arithmetic on one lane, and whether it keeps the lanes' distances when an operand moves them all alike.
_MOVES = frozenset({"v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32", "s_mov_b32"})
_OPERATIONS: Mapping[str, tuple[_Operation, bool]] = {
    **{name: (lambda a: a, True) for name in (*_MOVES, "s_movk_i32")},
    "v_and_b32": (lambda a, b: a & b, False),
    "v_or_b32": (lambda a, b: a | b, False),
    "v_xor_b32": (lambda a, b: a ^ b, False),
    "v_not_b32": (lambda a: ~a, False),
    "v_lshlrev_b32": (lambda a, b: b << (a & 31), False),
    "v_lshrrev_b32": (lambda a, b: b >> (a & 31), False),
    "v_ashrrev_i32": (lambda a, b: _signed(b) >> (a & 31), False),
    **{name: (lambda a, b: a + b, True) for name in ("v_add_u32", "v_add_nc_u32", "v_add_co_u32", "s_add_i32")},
    **{name: (lambda a, b: a - b, True) for name in ("v_sub_u32", "v_sub_nc_u32", "v_sub_co_u32", "s_sub_i32")},
    **{name: (lambda a, b: b - a, True) for name in ("v_subrev_u32", "v_subrev_nc_u32", "v_subrev_co_u32")},
    "v_add3_u32": (lambda a, b, c: a + b + c, True),
    **{name: (lambda a, b: a * b, False) for name in ("v_mul_lo_u32", "s_mul_i32")},
    "v_mul_hi_u32": (lambda a, b: a * b >> 32, False),
    **{
        name: (lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF), False)
        for name in ("v_mul_u32_u24", "v_mul_i32_i24")
    },
    **{
        name: (lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF) + c, False)
        for name in ("v_mad_u32_u24", "v_mad_i32_i24")
    },
    "v_lshl_add_u32": (lambda a, b, c: (a << (b & 31)) + c, False),
    "v_add_lshl_u32": (lambda a, b, c: a + b << (c & 31), False),
    "v_lshl_or_b32": (lambda a, b, c: a << (b & 31) | c, False),
    "v_and_or_b32": (lambda a, b, c: a & b | c, False),
    "v_or3_b32": (lambda a, b, c: a | b | c, False),
    "v_xad_u32": (lambda a, b, c: (a ^ b) + c, False),
    "v_bfe_u32": (lambda a, b, c: a >> (b & 31) & (1 << (c & 31)) - 1, False),
    "v_bfi_b32": (lambda a, b, c: a & b | ~a & c, False),
    "s_lshl_b32": (lambda a, b: a << (b & 31), False),
    "s_lshr_b32": (lambda a, b: a >> (b & 31), False),
    "s_and_b32": (lambda a, b: a & b, False),
    "s_or_b32": (lambda a, b: a | b, False),
}  # fmt: skip
_LANE_NUMBERS = frozenset({"v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"})
_SMALL_FACTORS = frozenset({"v_mul_u32_u24", "v_mul_i32_i24", "v_mad_u32_u24", "v_mad_i32_i24"})
_SCALED = frozenset({"v_lshlrev_b32", "v_lshl_add_u32", "v_add_lshl_u32", "v_mul_lo_u32"})


class _Value:
    """How a value comes about; what it is, is found when it is asked for."""

    __slots__ = ("_found", "_name", "_sources", "depth")

    def __init__(self, name: str, sources: tuple[_Value, ...], found: LaneValues | None = None) -> None:
        self._name = name
        self._sources = sources
        self._found: LaneValues | None = found
        self.depth: int = 1 + max((source.depth for source in sources), default=0)

    def lanes(self) -> LaneValues | None:
        if self._sources:
            found = [source.lanes() for source in self._sources]
            known = [lanes for lanes in found if lanes is not None]
            self._found = _computed(self._name, known) if len(known) == len(found) else None
            self._sources = ()
        return self._found


class WaveRegisters:
    """The registers of a wave while its instructions are followed one after the other."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._registers = {"v0": _Value("", (), LaneValues(tuple(range(size))))}
        self._somewhere = _Value("", (), LaneValues((0,) * size, exact=False))
        self._masks = 0

    def value(self, operand: str) -> LaneValues | None:
        """Return what an operand holds, or None when the lanes' distances are not known."""
        held = self._value(operand)
        return None if held is None else held.lanes()

    def follow(self, instruction: Instruction) -> None:
        """Do what an instruction does. What is not known of it leaves its result unknown."""
        if "::" in instruction.mnemonic:
            halves = instruction.text.replace("v_dual_", "v_").split(" :: ")
            parts = [Instruction(instruction.address, half.split(" ")[0], half.strip(), 0) for half in halves]
            for part, result in [(part, self._result(part)) for part in parts]:
                self._put(part, result)
            return
        self._put(instruction, self._result(instruction))
        self._mask(instruction)

    def forget(self, instruction: Instruction) -> None:
        """The instruction may have been done or not."""
        for part in instruction.text.split(" :: "):
            self._put(Instruction(instruction.address, part.split(" ")[0], part, 0), None)

    def _value(self, operand: str) -> _Value | None:
        held = self._registers.get(operand)
        if held is not None:
            return held
        number = _NUMBER.match(operand)
        if number is not None:
            return _Value("", (), LaneValues((int(number[1], 0) & _BITS,) * self._size))
        return self._somewhere if operand.startswith(_SCALARS) else None

    def _mask(self, instruction: Instruction) -> None:
        """Forget results written while some lanes may be switched off. `s_or` ends what the last mask began."""
        if "saveexec" in instruction.mnemonic or instruction.mnemonic.startswith("v_cmpx"):
            self._masks += 1
        elif "exec" in instruction.text and _target(instruction) in ("exec", "exec_lo"):
            if instruction.mnemonic.startswith("s_or_b"):
                self._masks = max(0, self._masks - 1)
            else:
                self._masks = 0 if instruction.text.endswith(", -1") else self._masks + 1

    def _result(self, instruction: Instruction) -> _Value | None:
        name = _operation(instruction.mnemonic)
        if self._masks or not name:
            return None
        operands = instruction.operands[1:]
        if "_co_" in name:
            operands = operands[1:]
        if name in _LANE_NUMBERS and operands[:1] != ("-1",):
            return None
        sources = [self._value(operand) for operand in operands]
        known = tuple(source for source in sources if source is not None)
        if len(known) < len(sources) or len(known) != _operands(name):
            return None
        result = _Value(name, known)
        return result if result.depth <= _DEPTH else None

    def _put(self, instruction: Instruction, result: _Value | None) -> None:
        if _has_no_result(instruction.mnemonic) or instruction.text.endswith(" lds"):
            return
        target = _target(instruction)
        if target.endswith("]"):
            together = _RANGE.match(target)
            if together is not None:
                for number in range(int(together[2]), int(together[3]) + 1):
                    self._registers.pop(f"{together[1]}{number}", None)
        elif result is not None and _REGISTER.match(target):
            self._registers[target] = result
        else:
            self._registers.pop(target, None)


@cache
def _operation(mnemonic: str) -> str:
    """The name of an operation that is known, else ""."""
    name = _SUFFIX.sub("", mnemonic)
    return name if name in _OPERATIONS or name in _LANE_NUMBERS else ""


@cache
def _has_no_result(mnemonic: str) -> bool:
    return _NO_RESULT.match(mnemonic) is not None


@cache
def _operands(name: str) -> int:
    """How many sources an operation has."""
    return 2 if name in _LANE_NUMBERS else len(signature(_OPERATIONS[name][0]).parameters)


def _target(instruction: Instruction) -> str:
    return instruction.text[len(instruction.mnemonic) + 1 :].partition(",")[0]


def _lanes_below(name: str, sources: list[LaneValues]) -> LaneValues:
    """`v_mbcnt` with a mask of all ones: the lanes below, of the lower or the upper 32, added to something."""
    added = sources[1]
    numbers = range(len(added.values))
    below = [min(lane, 32) if "_lo_" in name else max(0, lane - 32) for lane in numbers]
    return LaneValues(tuple(a + b & _BITS for a, b in zip(below, added.values, strict=True)), added.exact)


def _computed(name: str, sources: list[LaneValues]) -> LaneValues | None:
    if name in _LANE_NUMBERS:
        return _lanes_below(name, sources)
    operation, keeps_distances = _OPERATIONS[name]
    exact = all(source.exact for source in sources)
    if not exact and not keeps_distances and not _scales(name, sources):
        return None
    if name in _SMALL_FACTORS and any(value >= 1 << 23 for source in sources[:2] for value in source.values):
        return None
    return LaneValues(tuple([value & _BITS for value in map(operation, *(source.values for source in sources))]), exact)


def _scales(name: str, sources: list[LaneValues]) -> bool:
    """Return True if a multiplication, by the same known number in all lanes, is all that happens to the inexact
    value."""
    if name not in _SCALED:
        return False
    factor = {"v_lshlrev_b32": 0, "v_lshl_add_u32": 1, "v_add_lshl_u32": 2}.get(name)
    if factor is None:  # v_mul_lo_u32: either of the two
        return any(source.exact and len(set(source.values)) == 1 for source in sources)
    return sources[factor].exact and len(set(sources[factor].values)) == 1


_ARCHS_WITH_KNOWN_BANKS = ("gfx90a", "gfx940", "gfx941", "gfx942")
_WAVE_LANES = 64
_ACCESS = re.compile(r"ds_(?:read|write)_b\d+$")


@dataclass(frozen=True, slots=True)
class LdsAccess:
    """An access of LDS. `at` is its place in the instructions; `turns` how many times as long it takes for conflicts,
    1 without any."""

    at: int
    turns: float


def bank_conflicts(
    instructions: Sequence[Instruction], flow: ControlFlow, loop: Collection[int], wavefront_size: int, arch: str
) -> tuple[LdsAccess, ...]:
    """The accesses of LDS in the blocks of a loop whose addresses are known, as they are in its first round.

    `loop` holds the numbers of the loop's blocks. A later round that moves all lanes alike has the same conflicts.
    """
    if arch.partition(":")[0] not in _ARCHS_WITH_KNOWN_BANKS or wavefront_size != _WAVE_LANES or not loop:
        return ()
    header, last = min(loop), max(loop)
    certain = {*flow.dominating(header), *flow.dominating(last)}
    elsewhere = {block for other in flow.loops if header not in other.blocks for block in other.blocks}
    wave = WaveRegisters(wavefront_size)
    found: list[LdsAccess] = []
    known: dict[tuple[str, tuple[int, ...]], float] = {}
    for block in range(last + 1):
        if block > header and block not in loop:
            continue
        sure = block in certain and block not in elsewhere
        for index in flow.members([block]):
            instruction = instructions[index]
            if not sure:
                wave.forget(instruction)
                continue
            kind = traits(instruction.mnemonic).kind
            if block in loop and kind in (InstructionKind.LDS_READ, InstructionKind.LDS_WRITE):
                turns = _turns(instruction, wave, arch, known)
                if turns is not None:
                    found.append(LdsAccess(index, turns))
            wave.follow(instruction)
    return tuple(found)


def _turns(
    instruction: Instruction, wave: WaveRegisters, arch: str, known: dict[tuple[str, tuple[int, ...]], float]
) -> float | None:
    """`known` keeps what was found for the lanes' distances, which is all that matters: banks go round."""
    if not _ACCESS.match(instruction.mnemonic):
        return None
    access = traits(instruction.mnemonic)
    reads = access.kind is InstructionKind.LDS_READ
    rule = bank_rule(arch, _WAVE_LANES, writes=not reads, size_bytes=access.bytes)
    operand = instruction.operands[1 if reads else 0].split(" ")[0]
    lanes = wave.value(operand)
    if rule.evidence is Evidence.ASSUMED or lanes is None or not operand.startswith("v"):
        return None
    distances = tuple(value - lanes.values[0] for value in lanes.values)
    key = instruction.mnemonic, distances
    if key not in known:
        if any(distance % WORD_BYTES for distance in distances):
            return None
        turns = rule.turns({lane: words_of(distance, access.bytes) for lane, distance in enumerate(distances)})
        known[key] = sum(turns) / len(turns)
    return known[key]
