"""The listing of a kernel as values: its instructions with their loop, source lines and an explanation each.

`listing_of` joins control flow, source lines and explanations; `listing_text` lays them out.

The compiler's scheduler moves instructions about, so that lines change from one to the next, and what it makes of two
lines belongs to either: a source line is where an instruction came from, not what it costs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from ckwatch.checks.places import RenderedFile, SourcePlace
from ckwatch.codeobject.control_flow import ControlFlow, control_flow_of
from ckwatch.codeobject.disassembly import DisassembledFunction, Instruction
from ckwatch.codeobject.main_loop import mix_of
from ckwatch.codeobject.mnemonics import explain
from ckwatch.codeobject.report import MainLoop
from ckwatch.codeobject.source_lines import CallChain, place_in_template, significant_calls
from ckwatch.model.lazy_dataclass import dataclass

_PADDING = ("s_nop", "s_code_end")
_ENDS = ("s_endpgm", "s_branch", "s_setpc")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingRow:
    """One instruction.

    `frames` are the calls around its source line, the innermost first, `steps` those that say something, the outermost
    first; `place` is where in the template it was called from. `loop` indexes the listing's loops (the innermost that
    holds it), `target` its rows (where a direct branch goes). `explanation` is empty for an unknown mnemonic.
    """

    instruction: Instruction
    explanation: str = ""
    frames: CallChain = ()
    steps: CallChain = ()
    place: SourcePlace | None = None
    loop: int | None = None
    target: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingLoop:
    """A natural loop. `header` indexes the listing's rows; `depth` is 1 for an outermost loop, `parent` the loop
    around it. `mix` counts its instructions by class, those of inner loops included."""

    header: int
    depth: int
    parent: int | None
    mix: Mapping[str, int]
    main: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineShare:
    """The instructions of a loop that came from the same lines; `mix` counts them by class."""

    steps: CallChain
    place: SourcePlace | None
    mix: Mapping[str, int]

    @property
    def instructions(self) -> int:
        """How many they are."""
        return sum(self.mix.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A kernel's instructions. `notes` say what is missing from it and why."""

    symbol: str
    name: str
    rows: tuple[ListingRow, ...]
    loops: tuple[ListingLoop, ...] = ()
    notes: tuple[str, ...] = ()


def listing_of(
    function: DisassembledFunction,
    *,
    name: str = "",
    main: MainLoop | None = None,
    frames: Mapping[int, CallChain] | None = None,
    rendered: RenderedFile | None = None,
) -> Listing:
    """The listing of a kernel, without the fill behind its end.

    `main` is its main loop, as the analysis found it. `frames` are the call chains by address
    (`source_lines.call_chains_of`), `rendered` the unit's text and its map, under the path that it was compiled at.
    """
    instructions = _without_padding(function.instructions)
    flow = control_flow_of(instructions)
    inside = _innermost(flow, len(instructions))
    at = {instruction.address: index for index, instruction in enumerate(instructions)}
    places: dict[CallChain, tuple[CallChain, SourcePlace | None]] = {}
    rows = []
    for index, instruction in enumerate(instructions):
        chain = frames.get(instruction.address, ()) if frames else ()
        if chain not in places:
            places[chain] = (significant_calls(chain), place_in_template(chain, rendered) if rendered else None)
        shown, place = places[chain]
        rows.append(
            ListingRow(
                instruction=instruction,
                explanation=explain(instruction.mnemonic, instruction.text.partition(" ")[2]) or "",
                frames=chain,
                steps=shown,
                place=place,
                loop=inside[index],
                target=None if instruction.target is None else at.get(instruction.target),
            )
        )
    return Listing(
        symbol=function.symbol,
        name=name or function.symbol,
        rows=tuple(rows),
        loops=_loops(flow, instructions, main),
        notes=_notes(function, rows, lines_wanted=frames is not None),
    )


def line_shares(listing: Listing, loop: int) -> tuple[LineShare, ...]:
    """Which lines the instructions of a loop came from, inner loops included, those with the most first.

    Empty without line tables.
    """
    inside = {loop}
    for number, found in enumerate(listing.loops):
        if found.parent in inside:
            inside.add(number)
    members: dict[Hashable, list[ListingRow]] = {}
    for row in listing.rows:
        if row.loop in inside and row.steps:
            template = row.place and (row.place.span.path, row.place.span.start.line)
            lines = tuple((frame.path, frame.line) for frame in row.steps)
            members.setdefault((lines, template), []).append(row)
    shares = [
        LineShare(steps=rows[0].steps, place=rows[0].place, mix=mix_of(row.instruction for row in rows))
        for rows in members.values()
    ]
    return tuple(sorted(shares, key=lambda share: -share.instructions))


def _without_padding(instructions: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Without the fill behind the last way out (the instruction cache reads ahead)."""
    end = len(instructions)
    while end and instructions[end - 1].mnemonic in _PADDING:
        end -= 1
    return instructions[:end] if end and instructions[end - 1].mnemonic.startswith(_ENDS) else instructions


def _innermost(flow: ControlFlow, count: int) -> list[int | None]:
    found: list[int | None] = [None] * count
    for number, loop in enumerate(flow.loops):
        for index in flow.members(loop.own):
            found[index] = number
    return found


def _loops(flow: ControlFlow, instructions: Sequence[Instruction], main: MainLoop | None) -> tuple[ListingLoop, ...]:
    chosen = _number_of(main, flow)
    return tuple(
        ListingLoop(
            header=flow.blocks[loop.header].first,
            depth=loop.depth,
            parent=loop.parent,
            mix=mix_of(instructions[index] for index in flow.members(loop.blocks)),
            main=number == chosen,
        )
        for number, loop in enumerate(flow.loops)
    )


def _number_of(main: MainLoop | None, flow: ControlFlow) -> int | None:
    """The loop that `main` is: the innermost of those that begin and end where it does."""
    if main is None:
        return None
    same = [
        number
        for number, loop in enumerate(flow.loops)
        if flow.blocks[loop.blocks[0]].first == main.first and flow.blocks[loop.blocks[-1]].last == main.last
    ]
    return max(same, key=lambda number: flow.loops[number].depth, default=None)


def _notes(function: DisassembledFunction, rows: Sequence[ListingRow], *, lines_wanted: bool) -> tuple[str, ...]:
    notes = []
    if not rows:
        notes.append("no instructions in the disassembly")
    if function.unknown:
        notes.append(f"{function.unknown} words that the disassembler does not know are not shown")
    unexplained = sorted({row.instruction.mnemonic for row in rows if not row.explanation})
    if unexplained:
        notes.append(f"not explained: {', '.join(unexplained)}")
    without = sum(not row.frames for row in rows)
    if lines_wanted and rows and without == len(rows):
        notes.append("no source lines: the code object was compiled without line tables")
    elif lines_wanted and without:
        notes.append(f"{without} of {len(rows)} instructions have no source line")
    return tuple(notes)
