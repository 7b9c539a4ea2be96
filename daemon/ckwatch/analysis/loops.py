"""The main loop of a kernel: which one it is, and what one wave does in one round of it.

It is the loop with the most matrix work of its own (not in a loop inside), each level of nesting counting for eight
rounds, as long as nothing says how many there are; where no loop has matrix instructions, the one that moves the most
bytes. Every instruction of it counts once with all lanes of the wave, whatever branches and EXEC say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ckwatch.analysis.banks import conflicts
from ckwatch.analysis.blocks import Flow, NaturalLoop, flow_of
from ckwatch.analysis.disassembly import Function, Instruction
from ckwatch.analysis.instructions import Kind, traits
from ckwatch.analysis.report import Loop
from ckwatch.analysis.waits import Wait, described, waits_of

_ROUNDS_PER_LEVEL = 8
_MEMORY = (Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.LDS_READ, Kind.LDS_WRITE)


@dataclass(frozen=True, slots=True)
class Found:
    """A kernel's main loop and its instructions in the order of their addresses. Without a loop `notes` say why."""

    loop: Loop | None
    body: tuple[Instruction, ...] = ()
    notes: tuple[str, ...] = ()


def main_loop(function: Function, wavefront_size: int, arch: str) -> Found:
    """The main loop of a kernel, without llvm-mca's part of it."""
    instructions = function.instructions
    if not instructions:
        return Found(None, notes=("no instructions in the disassembly",))
    flow = flow_of(instructions)
    notes = _doubts(function, flow)
    if not flow.loops:
        return Found(None, notes=(_why_none(instructions), *notes))
    chosen = max(flow.loops, key=lambda loop: _weight(loop, flow, instructions))
    members = list(_members(chosen.blocks, flow))
    body = tuple(instructions[index] for index in members)
    waits = waits_of(body, arch)
    banks, no_conflict = _banks(instructions, flow, chosen, members, wavefront_size, arch)
    loop = Loop(
        first=members[0],
        last=members[-1],
        mix=mix_of(body),
        lds_read_bytes=_moved(body, Kind.LDS_READ) * wavefront_size,
        lds_write_bytes=(_moved(body, Kind.LDS_WRITE) + _loaded_to_lds(body)) * wavefront_size,
        global_load_bytes=_moved(body, Kind.GLOBAL_LOAD) * wavefront_size,
        global_store_bytes=_moved(body, Kind.GLOBAL_STORE) * wavefront_size,
        flops=flops_of(body, wavefront_size),
        waits=described(body, waits),
        hints=(*_hints(body, waits), *banks),
    )
    return Found(loop, body, (*_around(chosen, flow, instructions, wavefront_size), *no_conflict, *notes))


def mix_of(body: Iterable[Instruction]) -> dict[str, int]:
    """How many instructions of each kind, in the order of `Kind`, without those that there are none of."""
    counted = Counter(traits(instruction.mnemonic).kind for instruction in body)
    return {kind.value: counted[kind] for kind in Kind if counted[kind]}


def flops_of(body: Iterable[Instruction], wavefront_size: int) -> int:
    """A wave's FLOPs: of the matrix instructions, or of all others where there are none of those."""
    found = [traits(instruction.mnemonic) for instruction in body]
    matrix = sum(each.flops for each in found if each.kind is Kind.MFMA)
    return matrix or wavefront_size * sum(each.flops for each in found)


def _members(blocks: Iterable[int], flow: Flow) -> Iterable[int]:
    for block in blocks:
        yield from range(flow.blocks[block].first, flow.blocks[block].last + 1)


def _weight(loop: NaturalLoop, flow: Flow, instructions: Sequence[Instruction]) -> tuple[int, int, int]:
    own = [traits(instructions[index].mnemonic) for index in _members(loop.own, flow)]
    rounds = _ROUNDS_PER_LEVEL**loop.depth
    matrix = sum(each.flops for each in own if each.kind is Kind.MFMA)
    moved = sum(each.bytes for each in own)
    return matrix * rounds, moved * rounds, len(own) * rounds


def _moved(body: Iterable[Instruction], kind: Kind) -> int:
    found = (traits(instruction.mnemonic) for instruction in body)
    return sum(each.bytes for each in found if each.kind is kind)


def _loaded_to_lds(body: Iterable[Instruction]) -> int:
    """Bytes per lane that go from global memory to LDS without a register between."""
    return sum(
        traits(instruction.mnemonic).bytes
        for instruction in body
        if "_lds_" in instruction.mnemonic or instruction.text.endswith(" lds")
    )


def _doubts(function: Function, flow: Flow) -> tuple[str, ...]:
    notes = []
    if function.unknown:
        words = _counted(function.unknown, "word", "words")
        notes.append(f"left out: {words} that the disassembler does not know")
    if flow.indirect:
        branches = _counted(len(flow.indirect), "indirect branch or call", "indirect branches or calls")
        notes.append(f"{branches}: a loop through it is not seen")
    if flow.irreducible:
        branches = _counted(flow.irreducible, "branch", "branches")
        notes.append(f"{branches} backwards to what has another way in: not seen as a loop")
    return tuple(notes)


def _why_none(instructions: Sequence[Instruction]) -> str:
    matrix = sum(traits(instruction.mnemonic).kind is Kind.MFMA for instruction in instructions)
    straight = f"; {_counted(matrix, 'matrix instruction runs', 'matrix instructions run')} once" if matrix else ""
    return f"no loop in {len(instructions)} instructions{straight}"


def _around(
    chosen: NaturalLoop, flow: Flow, instructions: Sequence[Instruction], wavefront_size: int
) -> tuple[str, ...]:
    notes = []
    if len(chosen.blocks) > 1:
        notes.append(f"the main loop has {len(chosen.blocks)} blocks; all of them count as if each ran once a round")
    if chosen.parent is not None:
        outer = [instructions[index] for index in _members(flow.loops[chosen.parent].own, flow)]
        loaded = _moved(outer, Kind.GLOBAL_LOAD) * wavefront_size
        notes.append(
            f"the main loop is inside another one of {len(outer)} more instructions, which load at most {loaded} bytes"
            " a round"
        )
    rivals = [
        loop
        for loop in flow.loops
        if loop is not chosen and _weight(loop, flow, instructions)[0] and _weight(chosen, flow, instructions)[0]
    ]
    if rivals:
        notes.append(
            f"{_counted(len(rivals), 'more loop has', 'more loops have')} matrix instructions; this one the most"
        )
    return tuple(notes)


def _banks(
    instructions: Sequence[Instruction],
    flow: Flow,
    chosen: NaturalLoop,
    members: Sequence[int],
    wavefront_size: int,
    arch: str,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hint at bank conflicts of LDS, or the note that there are none, as far as addresses are known."""
    known = conflicts(instructions, flow, chosen.blocks, wavefront_size, arch)
    slow = [access for access in known if access.turns > 1]
    if slow:
        worst = max(slow, key=lambda access: access.turns)
        which = f"+{members.index(worst.at)} {instructions[worst.at].mnemonic} takes {worst.turns:g} times as long"
        return (f"LDS bank conflicts in {len(slow)} of {len(known)} accesses whose addresses are known: {which}",), ()
    if not known:
        return (), ()
    accesses = sum(traits(instructions[at].mnemonic).kind in (Kind.LDS_READ, Kind.LDS_WRITE) for at in members)
    return (), (f"no LDS bank conflicts in {len(known)} of {accesses} accesses, whose addresses are known",)


def _hints(body: Sequence[Instruction], waits: Sequence[Wait]) -> tuple[str, ...]:
    """What the instructions themselves say against the loop, the worst first."""
    hints = []
    found = [(instruction, traits(instruction.mnemonic)) for instruction in body]
    matrix = any(each.kind is Kind.MFMA for _, each in found)
    spilled = sum(each.scratch for _, each in found)
    if spilled:
        hints.append(f"{_counted(spilled, 'access', 'accesses')} of scratch memory: spills, or arrays")
    exposed = [wait for wait in waits if matrix and wait.producer is not None and not wait.matrix]
    loads = [wait for wait in exposed if _is(wait.producer, Kind.GLOBAL_LOAD)]
    reads = [wait for wait in exposed if _is(wait.producer, Kind.LDS_READ)]
    if loads:
        hints.append(f"{_times(loads)} for a load from memory with no matrix instruction since it was issued")
    if reads:
        hints.append(f"{_times(reads)} for an LDS read with no matrix instruction since it was issued")
    moves = sum(instruction.mnemonic.startswith("v_accvgpr_") for instruction, _ in found)
    if moves:
        hints.append(f"{_counted(moves, 'move', 'moves')} between VGPR and AGPR")
    for kind, what in ((Kind.LDS_READ, "LDS reads"), (Kind.LDS_WRITE, "LDS writes"), (Kind.GLOBAL_LOAD, "loads")):
        accesses = [each for _, each in found if each.kind is kind]
        narrow = [each for each in accesses if each.bytes < 4]
        if narrow:
            hints.append(f"narrower than 4 bytes a lane: {len(narrow)} of {len(accesses)} {what}")
    if not matrix and any(each.kind in _MEMORY for _, each in found):
        hints.append("no matrix instructions: FLOPs are those of the VALU")
    return tuple(hints)


def _counted(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def _is(instruction: Instruction | None, kind: Kind) -> bool:
    return instruction is not None and traits(instruction.mnemonic).kind is kind


def _times(waits: Sequence[Wait]) -> str:
    return f"{len(waits)} waits" if len(waits) > 1 else f"the wait at +{waits[0].at}"
