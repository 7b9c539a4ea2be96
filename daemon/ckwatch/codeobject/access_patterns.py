"""The request of a line that cost most, in words: which lanes access which bytes, and what that asks of banks or cache
lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ckwatch.codeobject.disassembly import InstructionKind, traits
from ckwatch.codeobject.lds_banks import WORD_BYTES
from ckwatch.model.instruction_counts import WorstRequest
from ckwatch.model.profiles import KernelProfile, LossKind

PLACES_SHOWN = 4
_READS = (InstructionKind.LDS_READ, InstructionKind.GLOBAL_LOAD)


def pattern_at(profile: KernelProfile, line: int, kind: LossKind) -> str:
    """The pattern of the worst request of the instructions of a line (its index), for a loss of this kind; "" where no
    addresses show it."""
    if kind is LossKind.IDLE_LANES:
        return ""
    of_lds = kind is LossKind.LDS_CONFLICT
    found = [
        (one.worst, one.text)
        for one in profile.instructions
        if one.at == line and one.worst is not None and bool(one.worst.banks) is of_lds
    ]
    if not found:
        return ""
    worst, text = max(found, key=lambda one: one[0].cost - one[0].least)
    return pattern_of(worst, reads=traits(text.partition(" ")[0]).kind in _READS)


def pattern_of(worst: WorstRequest, *, reads: bool) -> str:
    """`lanes 0…31 read byte 0, 128, 256, 384, …: bank 0 32 times`."""
    places = ", ".join(f"{place:,}" for place in worst.places[:PLACES_SHOWN])
    places += ", …" if len(worst.places) > PLACES_SHOWN else ""
    access = f"lanes {_ranges(worst.lanes)} {'read' if reads else 'write'} {worst.size_bytes} bytes each at"
    if worst.banks:
        bank, times = fullest_bank(worst)
        return f"{access} byte {places} of LDS: bank {bank} {times} times"
    return f"{access} byte {places} from the first: {worst.cost} cache lines, where {worst.least} would do"


def fullest_bank(worst: WorstRequest) -> tuple[int, int]:
    """The bank of LDS from which most different words are asked, and how many."""
    words = {
        word
        for place in worst.places
        for word in range(place // WORD_BYTES, (place + worst.size_bytes - 1) // WORD_BYTES + 1)
    }
    banks = Counter(word % worst.banks for word in sorted(words))
    return banks.most_common(1)[0]


def _ranges(lanes: Sequence[int]) -> str:
    """`0…3, 12…15, 20`."""
    return ", ".join(str(first) if first == last else f"{first}…{last}" for first, last in _runs(lanes))


def _runs(lanes: Sequence[int]) -> Iterable[tuple[int, int]]:
    first = last = lanes[0]
    for lane in lanes[1:]:
        if lane != last + 1:
            yield first, last
            first = lane
        last = lane
    yield first, last
