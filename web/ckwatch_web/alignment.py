"""Two listings of instructions side by side: which instruction of one belongs to which of the other.

Registers are given out anew by every compile, so their numbers say nothing: instructions are alike by their mnemonic
and the kinds of their operands, and they differ where constants, offsets or modifiers do.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, TypeAlias

from ckwatch.model.lazy_dataclass import dataclass

WINDOWS = (12, 4, 1)
"""How many instructions in a row are compared as one where there are very many: long runs find their partners first,
then what is between."""

MOST_PAIRS = 300_000
"""Pairs of equal windows that are looked through; the time is in proportion to them."""

STRETCH = 400
"""Instructions of each listing that are looked at at a time where everything repeats itself."""

_REGISTER = re.compile(r"\b(?:(acc|ttmp|[vsa])(\d+)|(ttmp|[vsa])\[(\d+)(?::(\d+))?\])")
_LABEL = re.compile(r"(?<= )[LB]\d+$")
_CONSTANT = re.compile(r"-?\b(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b")

Change = Literal["", "≠", "−", "+"]
_Link: TypeAlias = "tuple[int, int, _Link | None]"


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """Indices of instructions that belong together, None where there is no partner. `change`: empty where both are
    alike but for registers, `≠` where they are not, `−` for what only the first has, `+` for the second."""

    ours: int | None
    theirs: int | None
    change: Change


def without_registers(instruction: str) -> str:
    """`v_mfma_f32_32x32x8_f16 v[50:65], v[98:99], …` → `v_mfma_f32_32x32x8_f16 v×16, v×2, …`; labels lose their
    numbers, too."""
    return _LABEL.sub("label", _REGISTER.sub(_kind, instruction))


def _kind(found: re.Match[str]) -> str:
    single, _, several, first, last = found.groups()
    width = 1 if last is None else int(last) - int(first) + 1
    return f"{single or several}×{width}" if width > 1 else str(single or several)


def shape_of(instruction: str) -> str:
    """The same without the values of constants: by this instructions are aligned."""
    mnemonic, blank, operands = without_registers(instruction).partition(" ")
    return f"{mnemonic}{blank}{_CONSTANT.sub('#', operands)}"


def align(ours: Sequence[str], theirs: Sequence[str]) -> list[AlignedPair]:
    """All instructions of both, in their order."""
    first, second = [shape_of(one) for one in ours], [shape_of(one) for one in theirs]
    plain, other = [without_registers(one) for one in ours], [without_registers(one) for one in theirs]
    pairs: list[AlignedPair] = []
    at = beside = 0
    for i, j in (*_partners(first, second, 0, 0, WINDOWS), (len(first), len(second))):
        pairs += _unmatched(range(at, i), range(beside, j))
        if i < len(first) and j < len(second):
            pairs.append(AlignedPair(i, j, "" if plain[i] == other[j] else "≠"))
        at, beside = i + 1, j + 1
    return pairs


def _unmatched(ours: range, theirs: range) -> Iterator[AlignedPair]:
    """Yield the lines without a partner between two pairs: line beside line."""
    for i, j in zip_longest(ours, theirs):
        yield AlignedPair(i, j, "+" if i is None else "−" if j is None else "≠")


def _partners(
    ours: Sequence[str], theirs: Sequence[str], at: int, beside: int, windows: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The pairs of equal instructions, ascending in both; `at` and `beside` are where the sequences begin."""
    if not windows or not ours or not theirs:
        return
    if _pairs(ours, theirs) <= MOST_PAIRS:
        windows = windows[-1:]
    size, *smaller = windows
    first, second = _windows(ours, size), _windows(theirs, size)
    if _pairs(first, second) <= MOST_PAIRS:
        matched = _ascending((i + step, j + step) for i, j in _longest_common(first, second) for step in range(size))
    else:
        matched = [] if smaller else _along(ours, theirs)
    i = j = 0
    for next_i, next_j in (*matched, (len(ours), len(theirs))):
        yield from _partners(ours[i:next_i], theirs[j:next_j], at + i, beside + j, smaller)
        if next_i < len(ours) and next_j < len(theirs):
            yield at + next_i, beside + next_j
        i, j = next_i + 1, next_j + 1


def _ascending(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those that lie behind the one before: windows of two blocks may overlap."""
    kept: list[tuple[int, int]] = []
    for i, j in pairs:
        if not kept or (i > kept[-1][0] and j > kept[-1][1]):
            kept.append((i, j))
    return kept


def _along(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int]]:
    """The pairs within a stretch that moves along both: what repeats itself everywhere has its partner nearby."""
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        first, second = ours[i : i + STRETCH], theirs[j : j + STRETCH]
        last = i + STRETCH >= len(ours) or j + STRETCH >= len(theirs)
        sure = STRETCH if last else STRETCH * 3 // 4
        own = [(one, other) for one, other in _longest_common(first, second) if max(one, other) < sure]
        found += [(i + one, j + other) for one, other in own]
        if last:
            break
        one, other = own[-1] if own else (sure, sure)
        i, j = i + one + 1, j + other + 1
    return found


def _longest_common(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest common subsequence, as pairs of indices, by Hunt and Szymanski: in a time in proportion to the pairs
    of equal elements. difflib takes the longest run first, which loses what a compiler has interleaved."""
    there: dict[Hashable, list[int]] = {}
    for j in range(len(theirs) - 1, -1, -1):
        there.setdefault(theirs[j], []).append(j)
    ends: list[int] = []
    links: list[_Link] = []
    for i, one in enumerate(ours):
        for j in there.get(one, ()):
            length = bisect_left(ends, j)
            link = (i, j, links[length - 1] if length else None)
            if length == len(ends):
                ends.append(j)
                links.append(link)
            else:
                ends[length], links[length] = j, link
    found: list[tuple[int, int]] = []
    last = links[-1] if links else None
    while last is not None:
        i, j, last = last
        found.append((i, j))
    return found[::-1]


def _windows(shapes: Sequence[str], size: int) -> Sequence[Hashable]:
    if size == 1:
        return shapes
    return [tuple(shapes[at : at + size]) for at in range(len(shapes) - size + 1)]


def _pairs(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    counts = Counter(second)
    return sum(counts[one] for one in first)
