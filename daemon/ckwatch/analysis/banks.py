"""LDS bank conflicts, where the code tells the addresses of all lanes.

On CDNA2 and CDNA3 LDS has 32 banks of 4 bytes. An access of 16 bytes a lane goes in eight groups of eight lanes
("Understanding AMD GPU LDS and Bank Conflicts" in Composable Kernel's documentation, and AMD's "Avoiding LDS Bank
Conflicts on AMD GPUs Using CK-Tile Framework" for the groups of `ds_read_b128`), one of 4 bytes in two halves of 32
lanes, which are as much as the banks give at once. A group takes as many turns as the fullest bank has different words.
Nothing is said of other widths and archs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ckwatch.analysis.blocks import Flow
from ckwatch.analysis.disassembly import Instruction
from ckwatch.analysis.instructions import Kind, traits
from ckwatch.analysis.lanes import Wave

_ARCHS = ("gfx90a", "gfx940", "gfx941", "gfx942")
_BANKS = 32
_WORD_BYTES = 4
_WAVE = 64
_HALVES = tuple(tuple(range(first, first + 32)) for first in (0, 32))
_WRITES_OF_16 = tuple(tuple(range(first, first + 8)) for first in range(0, 64, 8))
_READS_OF_16 = tuple(
    (*range(one, one + 4), *range(other, other + 4))
    for half in (0, 32)
    for one, other in ((half, half + 20), (half + 4, half + 16), (half + 8, half + 28), (half + 12, half + 24))
)
_GROUPS = {
    "ds_read_b128": _READS_OF_16,
    "ds_write_b128": _WRITES_OF_16,
    "ds_read_b32": _HALVES,
    "ds_write_b32": _HALVES,
}


@dataclass(frozen=True, slots=True)
class Access:
    """An access of LDS. `at` is its place in the instructions; `turns` how many times as long it takes for conflicts,
    1 without any."""

    at: int
    turns: float


def conflicts(
    instructions: Sequence[Instruction], flow: Flow, loop: Collection[int], wavefront_size: int, arch: str
) -> tuple[Access, ...]:
    """The accesses of LDS in the blocks of a loop whose addresses are known, as they are in its first round.

    `loop` holds the numbers of the loop's blocks. A later round that moves all lanes alike has the same conflicts.
    """
    if arch.partition(":")[0] not in _ARCHS or wavefront_size != _WAVE or not loop:
        return ()
    header, last = min(loop), max(loop)
    certain = {*flow.dominating(header), *flow.dominating(last)}
    elsewhere = {block for other in flow.loops if header not in other.blocks for block in other.blocks}
    wave = Wave(wavefront_size)
    found: list[Access] = []
    known: dict[tuple[str, tuple[int, ...]], float] = {}
    for block in range(last + 1):
        if block > header and block not in loop:
            continue
        sure = block in certain and block not in elsewhere
        for index in range(flow.blocks[block].first, flow.blocks[block].last + 1):
            instruction = instructions[index]
            if not sure:
                wave.forget(instruction)
                continue
            if block in loop and traits(instruction.mnemonic).kind in (Kind.LDS_READ, Kind.LDS_WRITE):
                turns = _turns(instruction, wave, known)
                if turns is not None:
                    found.append(Access(index, turns))
            wave.follow(instruction)
    return tuple(found)


def _turns(instruction: Instruction, wave: Wave, known: dict[tuple[str, tuple[int, ...]], float]) -> float | None:
    """`known` keeps what was found for the lanes' distances, which is all that matters: banks go round."""
    groups = _GROUPS.get(instruction.mnemonic)
    if groups is None:
        return None
    reads = traits(instruction.mnemonic).kind is Kind.LDS_READ
    operand = instruction.operands[1 if reads else 0].split(" ")[0]
    lanes = wave.value(operand)
    if lanes is None or not operand.startswith("v"):
        return None
    distances = tuple(value - lanes.values[0] for value in lanes.values)
    key = instruction.mnemonic, distances
    if key not in known:
        if any(distance % _WORD_BYTES for distance in distances):
            return None
        words = range(traits(instruction.mnemonic).bytes // _WORD_BYTES)
        first = [distance // _WORD_BYTES for distance in distances]
        # a lane's own words fall into different banks: at best each group takes one turn
        turns = [_fullest({first[lane] + word for lane in group for word in words}) for group in groups]
        known[key] = sum(turns) / len(turns)
    return known[key]


def _fullest(words: Iterable[int]) -> int:
    """The most of these different words that one bank holds."""
    return max(Counter(word % _BANKS for word in words).values())
