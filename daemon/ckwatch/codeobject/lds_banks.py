"""How LDS serves the lanes of a wave: in which groups, and over how many banks.

A bank holds every n-th word of 4 bytes and gives one word per turn, to all lanes that ask for it. An instruction is cut
into *phases*, groups of lanes that are served together; a phase takes as many turns as the fullest bank has different
words to give. Which lanes share a phase depends on the arch and the bytes of a lane; they need not be consecutive.

Sources:

* MEASURED: conflicts counted lane by lane on an MI350X (SQ_LDS_BANK_CONFLICT), HazyResearch/HipKittens at f09e9685,
  `analysis/paper_experiments/phases`.
* CK: "Understanding AMD GPU LDS and Bank Conflicts" in Composable Kernel's documentation (groups of `ds_write_b128` and
  `ds_read_b128`), and AMD's "Avoiding LDS Bank Conflicts on AMD GPUs Using CK-Tile Framework" (32 banks on gfx942).
* GUIDE: "AMD Accelerated Parallel Processing OpenCL Programming Guide", 6.2: 32 banks of 4 bytes, conflicts within each
  half of a wave.
* ASSUMED: consecutive lanes, as many as 32 banks serve in one turn. No document or measurement says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, unique
from functools import cache

from ckwatch.model.lazy_dataclass import dataclass

WORD_BYTES = 4
_WAVE_LANES = 64
WIDTHS = (1, 2, 4, 8, 12, 16)
"""Bytes that a lane reads or writes at one address."""


@unique
class Evidence(Enum):
    MEASURED = "measured on an MI350X by HipKittens"
    DOCUMENTED_BY_CK = "Composable Kernel's documentation"
    PROGRAMMING_GUIDE = "AMD's OpenCL programming guide"
    ASSUMED = "assumed: consecutive lanes, as many as 32 banks serve"


@dataclass(frozen=True, slots=True)
class BankRule:
    """The phases of one access: a tuple of lanes each, together all lanes of a wave."""

    banks: int
    phases: tuple[tuple[int, ...], ...]
    evidence: Evidence

    def turns(self, words: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
        """The turns of each phase in which a lane takes part. `words`: by lane, the numbers of the words that it
        accesses (address / 4); lanes that take no part are left out."""
        found = []
        for phase in self.phases:
            asked = {word for lane in phase if lane in words for word in words[lane]}
            if asked:
                found.append(max(_per_bank(asked, self.banks)))
        return tuple(found)


def _per_bank(words: set[int], banks: int) -> list[int]:
    counts = [0] * banks
    for word in words:
        counts[word % banks] += 1
    return counts


def words_of(address: int, size_bytes: int) -> range:
    """The words that an access touches; one that is not aligned touches one more."""
    return range(address // WORD_BYTES, (address + size_bytes - 1) // WORD_BYTES + 1)


def _consecutive(lanes: int, together: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(first, min(first + together, lanes))) for first in range(0, lanes, together))


def _both_halves(*groups: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Groups of first lanes of four each, in lanes 0 to 31 and again in 32 to 63."""
    return tuple(
        tuple(half + first + lane for first in group for lane in range(4)) for half in (0, 32) for group in groups
    )


_EIGHT_GROUPS = _both_halves((0, 20), (4, 16), (8, 28), (12, 24))
_FOUR_GROUPS = _both_halves((0, 12, 20, 24), (4, 8, 16, 28))

# By whether it writes, and the bytes of a lane. A width that is missing is assumed.
_CDNA3: Mapping[tuple[bool, int], BankRule] = {
    (False, 16): BankRule(32, _EIGHT_GROUPS, Evidence.DOCUMENTED_BY_CK),
    (True, 16): BankRule(32, _consecutive(64, 8), Evidence.DOCUMENTED_BY_CK),
    (False, 4): BankRule(32, _consecutive(64, 32), Evidence.PROGRAMMING_GUIDE),
    (True, 4): BankRule(32, _consecutive(64, 32), Evidence.PROGRAMMING_GUIDE),
}
_CDNA4: Mapping[tuple[bool, int], BankRule] = {
    (False, 16): BankRule(64, _FOUR_GROUPS, Evidence.MEASURED),
    (False, 12): BankRule(32, _EIGHT_GROUPS, Evidence.MEASURED),
    (False, 8): BankRule(64, _consecutive(64, 32), Evidence.MEASURED),
    (True, 8): BankRule(32, _consecutive(64, 16), Evidence.MEASURED),
}
_RULES: Mapping[str, Mapping[tuple[bool, int], BankRule]] = {
    **dict.fromkeys(("gfx90a", "gfx940", "gfx941", "gfx942"), _CDNA3),
    "gfx950": _CDNA4,
}


@cache
def bank_rule(arch: str, lanes: int, *, writes: bool, size_bytes: int) -> BankRule:
    """The rule for an access of `size_bytes` (of `WIDTHS`) per lane by a wave of so many lanes. Atomics write."""
    known = _RULES.get(arch.partition(":")[0], {}).get((writes, size_bytes))
    if known is not None and lanes == _WAVE_LANES:
        return known
    # a turn gives 32 words; 12 bytes go as 16, so that no bank is asked twice by consecutive lanes
    together = 32 if size_bytes <= WORD_BYTES else 16 if size_bytes <= 8 else 8
    return BankRule(32, _consecutive(lanes, together), Evidence.ASSUMED)
