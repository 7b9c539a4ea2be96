"""Counts of instructions, and the listing that says where these came from → a profile by lines, loops and functions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.disassembly import Instruction, InstructionKind, traits
from ckwatch.codeobject.listing import Listing, ListingRow
from ckwatch.codeobject.source_lines import CallChain, SourceFrame, place_in_template, significant_calls
from ckwatch.model.instruction_counts import NOTHING_COUNTED, InstructionCounts, KernelCounts
from ckwatch.model.instruction_cycles import CycleEstimate, InstructionCycles, WaitCause
from ckwatch.model.profiles import (
    CycleFigures,
    KernelProfile,
    ProfiledInstruction,
    ProfiledLine,
    ProfiledLoop,
    ProfiledStack,
    ProfileFigures,
)

_LineKey = tuple[str, int, bool]
"""Path, line from zero, and whether it is a template."""

_ON_LANES = frozenset(
    {
        *(InstructionKind.MFMA, InstructionKind.VALU, InstructionKind.LDS_READ, InstructionKind.LDS_WRITE),
        *(InstructionKind.GLOBAL_LOAD, InstructionKind.GLOBAL_STORE),
    }
)
_WAITS = {
    "vmcnt": "memory", "loadcnt": "memory", "storecnt": "stores", "vscnt": "stores", "samplecnt": "memory",
    "bvhcnt": "memory", "lgkmcnt": "LDS or scalar loads", "dscnt": "LDS", "kmcnt": "scalar loads", "expcnt": "exports",
}  # fmt: skip
_COUNTER = re.compile(r"s_wait(?:cnt)?_?(\w*)")


class FigureSum:
    """Figures while instructions are added."""

    def __init__(self) -> None:
        self.counts = NOTHING_COUNTED
        self.on_lanes = self.active_lanes = 0
        self.mix: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.issue = 0.0
        self.causes: Counter[WaitCause] = Counter()

    def add(self, instruction: Instruction, counts: InstructionCounts, cycles: InstructionCycles | None = None) -> None:
        """Add an instruction of an AMD GPU."""
        kind = traits(instruction.mnemonic).kind
        self.add_kind(kind, counts)
        for waited in waited_for(instruction) if kind is InstructionKind.WAIT else ():
            self.waits[waited] += counts.issued
        if cycles is not None:
            self.issue += cycles.issue
            self.causes.update(cycles.waits)

    def add_kind(self, kind: InstructionKind, counts: InstructionCounts) -> None:
        """Add an instruction of this class, without what it waits for."""
        self.counts += counts
        if kind in _ON_LANES:
            self.on_lanes += counts.issued
            self.active_lanes += counts.lanes
        if counts.issued:
            self.mix[kind.value] += counts.issued

    def figures(self, cycles: CycleFigures | None = None, most_waits: int | None = None) -> ProfileFigures:
        """The sum so far, with the `most_waits` most frequent waits."""
        return ProfileFigures(
            counts=self.counts,
            on_lanes=self.on_lanes,
            active_lanes=self.active_lanes,
            mix=dict(self.mix.most_common()),
            waits=dict(self.waits.most_common(most_waits)),
            cycles=cycles,
        )


def figures_of(
    counted: Iterable[tuple[Instruction, InstructionCounts]], cycles: CycleFigures | None = None
) -> ProfileFigures:
    """The sum of instructions and their counts, with their `cycles`."""
    found = FigureSum()
    for instruction, counts in counted:
        found.add(instruction, counts)
    return found.figures(cycles)


def waited_for(wait: Instruction) -> tuple[str, ...]:
    """The operations that an `s_waitcnt` or one of its kin waits for, in words."""
    named = _COUNTER.match(wait.mnemonic)
    counters = re.findall(r"(\w+cnt)\(", wait.text)
    if not counters and named is not None:
        counters = [part for part in named[1].split("_") if part in _WAITS]
    return tuple(dict.fromkeys(_WAITS[counter] for counter in counters if counter in _WAITS))


def profile_of(
    listing: Listing,
    counts: KernelCounts,
    rendered: RenderedFile | None,
    *,
    wave_lanes: int,
    line_bytes: int,
    cycles: CycleEstimate | None = None,
) -> KernelProfile:
    """The profile of the kernel of a listing."""
    keys = _Keys(rendered)
    total = FigureSum()
    own: dict[_LineKey, FigureSum] = defaultdict(FigureSum)
    called: dict[_LineKey, FigureSum] = defaultdict(FigureSum)
    loops = [FigureSum() for _ in listing.loops]
    stacks: dict[tuple[str, ...], FigureSum] = defaultdict(FigureSum)
    estimated = {} if cycles is None else cycles.instructions
    counted = [(row, counts.instructions.get(row.instruction.address, NOTHING_COUNTED)) for row in listing.rows]
    for row, one in counted:
        if not one.issued:
            continue
        inner = keys.own_of(row.frames)
        sums = [total, stacks[_functions(row.frames) or ("no source line",)]]
        sums += [] if inner is None else [own[inner]]
        sums += [called[key] for key in keys.of(row.frames)]
        sums += [loops[loop] for loop in _around(listing, row.loop)]
        for found in sums:
            found.add(row.instruction, one, estimated.get(row.instruction.address))
    order = sorted(called, key=lambda key: (-called[key].counts.issued, key))
    numbers = {key: number for number, key in enumerate(order)}
    chains: dict[tuple[int, ...], int] = {}
    executed = sum(one.issued for _, one in counted)
    elsewhere = sum(one.issued for one in counts.instructions.values()) - executed
    places = {row.instruction.address: keys.own_of(row.frames) for row in listing.rows}

    def figures(found: FigureSum, path: str = "") -> ProfileFigures:
        return found.figures(None if cycles is None else _cycles(found.issue, found.causes, places, path))

    def instruction(row: ListingRow, one: InstructionCounts) -> ProfiledInstruction:
        inner, spent = places[row.instruction.address], estimated.get(row.instruction.address)
        path = "" if inner is None else inner[0]
        chain = tuple(numbers[key] for key in keys.of(row.frames) if key in numbers)
        return ProfiledInstruction(
            address=row.instruction.address,
            text=row.instruction.text,
            counts=one,
            at=None if inner is None else numbers.get(inner),
            chain=chains.setdefault(chain, len(chains)) if chain else None,
            loop=row.loop,
            worst=counts.worst.get(row.instruction.address),
            cycles=None if spent is None else _cycles(spent.issue, spent.waits, places, path),
        )

    instructions = tuple(instruction(row, one) for row, one in counted)
    return KernelProfile(
        name=listing.name,
        symbol=counts.symbol,
        workgroups=counts.workgroups,
        all_workgroups=counts.all_workgroups,
        launches=counts.launches,
        wave_lanes=wave_lanes,
        line_bytes=line_bytes,
        total=figures(total),
        lines=tuple(
            ProfiledLine(
                path=key[0],
                line=key[1],
                in_template=key[2],
                function=keys.functions.get(key, ""),
                own=figures(own[key] if key in own else FigureSum(), key[0]),
                total=figures(called[key], key[0]),
            )
            for key in order
        ),
        loops=tuple(
            ProfiledLoop(
                header=found.header,
                depth=found.depth,
                parent=found.parent,
                main=found.main,
                rounds=counted[found.header][1].issued,
                figures=figures(loops[number]),
                at=_closing_line(listing, number, places, numbers),
            )
            for number, found in enumerate(listing.loops)
        ),
        stacks=tuple(
            ProfiledStack(functions, found.counts.issued, None if cycles is None else _cycles_of(found))
            for functions, found in sorted(stacks.items(), key=lambda one: -one[1].counts.issued)
        ),
        chains=tuple(chains),
        instructions=instructions,
        notes=(*_notes(elsewhere), *listing.notes),
        cycle_notes=() if cycles is None else cycles.notes,
    )


def _cycles_of(found: FigureSum) -> int:
    return round(found.issue + sum(found.causes.values()))


def _cycles(
    issue: float, waits: Mapping[WaitCause, float], places: Mapping[int, _LineKey | None], path: str
) -> CycleFigures:
    """With causes in words, as they are said at a line of `path`."""
    words: Counter[str] = Counter()
    for cause, clocks in waits.items():
        words[_cause_words(cause, places, path)] += round(clocks)
    return CycleFigures(issue=round(issue), wait=sum(words.values()), waits_for=dict(words.most_common()))


def _cause_words(cause: WaitCause, places: Mapping[int, _LineKey | None], path: str) -> str:
    place = None if cause.address is None else places.get(cause.address)
    if place is None:
        return cause.what
    line = f"line {place[1] + 1}" if place[0] == path else f"{place[0].rpartition('/')[2]}:{place[1] + 1}"
    return f"{cause.what} of {line}"


def _closing_line(
    listing: Listing, loop: int, places: Mapping[int, _LineKey | None], numbers: Mapping[_LineKey, int]
) -> int | None:
    """The line of the last branch back to the loop's head, or of its head."""
    head = listing.loops[loop].header
    back = [row for row in listing.rows[head:] if row.target == head and loop in _around(listing, row.loop)]
    for row in (*back[::-1], listing.rows[head]):
        place = places[row.instruction.address]
        if place is not None and place in numbers:
            return numbers[place]
    return None


def _notes(elsewhere: int) -> Iterable[str]:
    if elsewhere:
        yield f"{elsewhere} issues of functions that the kernel calls are not in here"


class _Keys:
    """The lines of frames: of the template where a frame lies in the rendered text, else of its own file."""

    def __init__(self, rendered: RenderedFile | None) -> None:
        self._rendered = rendered
        self._known: dict[SourceFrame, _LineKey] = {}
        self._chains: dict[CallChain, tuple[_LineKey, ...]] = {}
        self._own: dict[CallChain, _LineKey | None] = {}
        self.functions: dict[_LineKey, str] = {}

    def of(self, chain: CallChain) -> tuple[_LineKey, ...]:
        """Each line of a chain once."""
        if chain not in self._chains:
            self._chains[chain] = tuple(dict.fromkeys(self._of_frame(frame) for frame in chain))
        return self._chains[chain]

    def own_of(self, chain: CallChain) -> _LineKey | None:
        """The innermost line that says something."""
        if chain not in self._own:
            steps = significant_calls(chain)
            self._own[chain] = self._of_frame(steps[-1]) if steps else None
        return self._own[chain]

    def _of_frame(self, frame: SourceFrame) -> _LineKey:
        if frame not in self._known:
            place = None if self._rendered is None else place_in_template((frame,), self._rendered)
            key = (frame.path, frame.line - 1, False)
            if place is not None:
                key = (place.span.path, place.span.start.line, True)
            self._known[frame] = key
            self.functions.setdefault(key, frame.function)
        return self._known[frame]


def _around(listing: Listing, loop: int | None) -> Iterable[int]:
    while loop is not None:
        yield loop
        loop = listing.loops[loop].parent


def _functions(chain: CallChain) -> tuple[str, ...]:
    return tuple(frame.function or "?" for frame in reversed(chain))
