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
from ckwatch.model.profiles import (
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


class _Sum:
    """Figures while instructions are added."""

    def __init__(self) -> None:
        self.counts = NOTHING_COUNTED
        self.on_lanes = self.active_lanes = 0
        self.mix: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def add(self, instruction: Instruction, counts: InstructionCounts) -> None:
        kind = traits(instruction.mnemonic).kind
        self.counts += counts
        if kind in _ON_LANES:
            self.on_lanes += counts.issued
            self.active_lanes += counts.lanes
        self.mix[kind.value] += counts.issued
        for waited in waited_for(instruction) if kind is InstructionKind.WAIT else ():
            self.waits[waited] += counts.issued

    @property
    def figures(self) -> ProfileFigures:
        return ProfileFigures(
            counts=self.counts,
            on_lanes=self.on_lanes,
            active_lanes=self.active_lanes,
            mix=dict(self.mix.most_common()),
            waits=dict(self.waits),
        )


def figures_of(counted: Iterable[tuple[Instruction, InstructionCounts]]) -> ProfileFigures:
    """The sum of instructions and their counts."""
    found = _Sum()
    for instruction, counts in counted:
        found.add(instruction, counts)
    return found.figures


def waited_for(wait: Instruction) -> tuple[str, ...]:
    """What an `s_waitcnt` or one of its kin waits for, in words."""
    named = _COUNTER.match(wait.mnemonic)
    counters = re.findall(r"(\w+cnt)\(", wait.text)
    if not counters and named is not None:
        counters = [part for part in named[1].split("_") if part in _WAITS]
    return tuple(dict.fromkeys(_WAITS[counter] for counter in counters if counter in _WAITS))


def profile_of(
    listing: Listing, counts: KernelCounts, rendered: RenderedFile | None, *, wave_lanes: int, line_bytes: int
) -> KernelProfile:
    """The profile of the kernel of a listing."""
    keys = _Keys(rendered)
    total = _Sum()
    own: dict[_LineKey, _Sum] = defaultdict(_Sum)
    called: dict[_LineKey, _Sum] = defaultdict(_Sum)
    loops = [_Sum() for _ in listing.loops]
    stacks: Counter[tuple[str, ...]] = Counter()
    counted = [(row, counts.instructions.get(row.instruction.address, NOTHING_COUNTED)) for row in listing.rows]
    for row, one in counted:
        if not one.issued:
            continue
        total.add(row.instruction, one)
        inner = keys.own_of(row.frames)
        if inner is not None:
            own[inner].add(row.instruction, one)
        for key in keys.of(row.frames):
            called[key].add(row.instruction, one)
        for loop in _around(listing, row.loop):
            loops[loop].add(row.instruction, one)
        stacks[_functions(row.frames) or ("no source line",)] += one.issued
    nothing = _Sum().figures
    order = sorted(called, key=lambda key: (-called[key].counts.issued, key))
    numbers = {key: number for number, key in enumerate(order)}
    chains: dict[tuple[int, ...], int] = {}
    instructions = tuple(_instruction(row, one, counts, keys, numbers, chains) for row, one in counted)
    executed = sum(one.issued for _, one in counted)
    elsewhere = sum(one.issued for one in counts.instructions.values()) - executed
    return KernelProfile(
        name=listing.name,
        symbol=counts.symbol,
        workgroups=counts.workgroups,
        all_workgroups=counts.all_workgroups,
        launches=counts.launches,
        wave_lanes=wave_lanes,
        line_bytes=line_bytes,
        total=total.figures,
        lines=tuple(
            ProfiledLine(
                path=key[0],
                line=key[1],
                in_template=key[2],
                function=keys.functions.get(key, ""),
                own=own[key].figures if key in own else nothing,
                total=called[key].figures,
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
                figures=loops[number].figures,
            )
            for number, found in enumerate(listing.loops)
        ),
        stacks=tuple(ProfiledStack(functions, issued) for functions, issued in stacks.most_common()),
        chains=tuple(chains),
        instructions=instructions,
        notes=(*_notes(elsewhere), *listing.notes),
    )


def _notes(elsewhere: int) -> Iterable[str]:
    if elsewhere:
        yield f"{elsewhere} issues of functions that the kernel calls are not in here"


def _instruction(
    row: ListingRow,
    counts: InstructionCounts,
    kernel: KernelCounts,
    keys: _Keys,
    numbers: Mapping[_LineKey, int],
    chains: dict[tuple[int, ...], int],
) -> ProfiledInstruction:
    """An instruction; a chain that is new goes into `chains`."""
    inner = keys.own_of(row.frames)
    chain = tuple(numbers[key] for key in keys.of(row.frames) if key in numbers)
    return ProfiledInstruction(
        address=row.instruction.address,
        text=row.instruction.text,
        counts=counts,
        at=None if inner is None else numbers.get(inner),
        chain=chains.setdefault(chain, len(chains)) if chain else None,
        loop=row.loop,
        worst=kernel.worst.get(row.instruction.address),
    )


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
