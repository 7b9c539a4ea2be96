"""Finds the main loop of a kernel, and counts what one wave does in one iteration of it, waits included.

It is the loop with the most matrix work of its own (not in a loop inside), each level of nesting counting for eight
rounds, as long as nothing says how many there are; where no loop has matrix instructions, the one that moves the most
bytes. Every instruction of it counts once with all lanes of the wave, whatever branches and EXEC say.

*Waits.* Each memory instruction counts up, `s_waitcnt vmcnt(N)` waits until at most N are under way, and they end in
order: so the last one that a wait waits for is the (N+1)-th before it. Which instruction counts where is in LLVM's
AMDGPU usage ("Memory Counters"): stores have a counter of their own from GFX10 on, scalar loads and LDS from GFX12 on.
Scalar loads may end out of order; here they do not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from ckwatch.codeobject.bank_conflicts import bank_conflicts
from ckwatch.codeobject.control_flow import ControlFlow, NaturalLoop, control_flow_of
from ckwatch.codeobject.disassembly import DisassembledFunction, Instruction, InstructionKind, traits
from ckwatch.codeobject.report import MainLoop
from ckwatch.model.amounts import count
from ckwatch.model.lazy_dataclass import dataclass

_OLD_FORM = re.compile(r"(vmcnt|lgkmcnt|vscnt)\((\d+)\)")
_NEW_FORM = re.compile(r"s_wait_(load|store|ds|km|sample|bvh)cnt(?:_(ds)cnt)? (0x[0-9a-f]+|0|[1-9]\d*)")
_VSCNT = re.compile(r"s_waitcnt_vscnt null, (0x[0-9a-f]+|0|[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait of a loop in its steady state.

    `at` is its place in the loop's body; `counter` and `left` what it says; `producer` the last instruction that it
    waits for (None: none is under way), `distance` how many instructions before, with `matrix` matrix instructions
    among those between.
    """

    at: int
    counter: str
    left: int
    producer: Instruction | None
    distance: int = 0
    matrix: int = 0


def waits_of(body: Sequence[Instruction], arch: str) -> tuple[Wait, ...]:
    """The waits of a loop's body, as they are in any round but the first."""
    under_way: dict[str, list[int]] = {}
    found: list[Wait] = []
    matrix_before = [0]
    for instruction in (*body, *body):
        matrix_before.append(matrix_before[-1] + (traits(instruction.mnemonic).kind is InstructionKind.MFMA))
    for place, instruction in enumerate((*body, *body)):
        for counter, left in wait_limits(instruction) if instruction.mnemonic.startswith("s_wait") else ():
            queue = under_way.setdefault(counter, [])
            if place >= len(body):
                found.append(_wait(body, place, counter, left, queue, matrix_before))
            del queue[: len(queue) - left if len(queue) > left else 0]
        for counter in counters_of(instruction.mnemonic, arch):
            under_way.setdefault(counter, []).append(place)
    return tuple(found)


def wait_lines(body: Sequence[Instruction], waits: Sequence[Wait]) -> tuple[str, ...]:
    """Waits and barriers in the order of the body, as text."""
    lines = [(wait.at, _wait_text(wait)) for wait in waits]
    lines += [
        (place, f"+{place} {instruction.mnemonic}")
        for place, instruction in enumerate(body)
        if traits(instruction.mnemonic).kind is InstructionKind.BARRIER
    ]
    return tuple(line for _, line in sorted(lines, key=lambda line: line[0]))


def _wait_text(wait: Wait) -> str:
    start = f"+{wait.at} {wait.counter}({wait.left})"
    if wait.producer is None:
        return f"{start}: nothing under way"
    between = f", {wait.matrix} matrix instructions between" if wait.matrix else ""
    return f"{start}: {wait.producer.mnemonic} {wait.distance} instructions before{between}"


def _wait(
    body: Sequence[Instruction], place: int, counter: str, left: int, queue: Sequence[int], matrix: Sequence[int]
) -> Wait:
    at = place - len(body)
    if len(queue) <= left:
        return Wait(at, counter, left, None)
    issued = queue[-left - 1]
    return Wait(at, counter, left, body[issued % len(body)], place - issued, matrix[place] - matrix[issued])


def wait_limits(instruction: Instruction) -> list[tuple[str, int]]:
    """The counters that a wait waits for, and how many operations of each may be left."""
    old = [(counter, int(left)) for counter, left in _OLD_FORM.findall(instruction.text)]
    if old:
        return old
    stores = _VSCNT.match(instruction.text)
    if stores is not None:
        return [("vscnt", int(stores[1], 0))]
    new = _NEW_FORM.match(instruction.text)
    if new is None:
        return []
    left = int(new[3], 0)
    # s_wait_loadcnt_dscnt holds both, the second in the lower byte
    return [(f"{new[1]}cnt", left >> 8), ("dscnt", left & 0xFF)] if new[2] else [(f"{new[1]}cnt", left)]


@cache
def counters_of(mnemonic: str, arch: str) -> tuple[str, ...]:
    """The counters that an instruction counts up, by their names in all forms of waits."""
    if mnemonic.startswith(("s_load", "s_buffer_load")):
        return ("lgkmcnt", "kmcnt")
    if mnemonic.startswith("ds_"):
        return ("lgkmcnt", "dscnt")
    kind = traits(mnemonic).kind
    also = ("lgkmcnt", "dscnt") if mnemonic.startswith("flat_") else ()
    if kind is InstructionKind.GLOBAL_LOAD or (kind is InstructionKind.GLOBAL_STORE and arch.startswith("gfx9")):
        return ("vmcnt", "loadcnt", *also)
    if kind is InstructionKind.GLOBAL_STORE:
        return ("vscnt", "storecnt", *also)
    return ()


_ROUNDS_PER_LEVEL = 8
_MEMORY = (
    InstructionKind.GLOBAL_LOAD,
    InstructionKind.GLOBAL_STORE,
    InstructionKind.LDS_READ,
    InstructionKind.LDS_WRITE,
)


@dataclass(frozen=True, slots=True)
class FoundLoop:
    """A kernel's main loop and its instructions in the order of their addresses. Without a loop `notes` say why."""

    loop: MainLoop | None
    body: tuple[Instruction, ...] = ()
    notes: tuple[str, ...] = ()


def main_loop(function: DisassembledFunction, wavefront_size: int, arch: str) -> FoundLoop:
    """The main loop of a kernel, without llvm-mca's part of it."""
    instructions = function.instructions
    if not instructions:
        return FoundLoop(None, notes=("no instructions in the disassembly",))
    flow = control_flow_of(instructions)
    notes = _doubts(function, flow)
    if not flow.loops:
        return FoundLoop(None, notes=(_why_none(instructions), *notes))
    chosen = max(flow.loops, key=lambda loop: _weight(loop, flow, instructions))
    members = list(flow.members(chosen.blocks))
    body = tuple(instructions[index] for index in members)
    waits = waits_of(body, arch)
    banks, no_conflict = _banks(instructions, flow, chosen, members, wavefront_size, arch)
    loop = MainLoop(
        first=members[0],
        last=members[-1],
        mix=mix_of(body),
        lds_read_bytes=_moved(body, InstructionKind.LDS_READ) * wavefront_size,
        lds_write_bytes=(_moved(body, InstructionKind.LDS_WRITE) + _loaded_to_lds(body)) * wavefront_size,
        global_load_bytes=_moved(body, InstructionKind.GLOBAL_LOAD) * wavefront_size,
        global_store_bytes=_moved(body, InstructionKind.GLOBAL_STORE) * wavefront_size,
        flops=flops_of(body, wavefront_size),
        waits=wait_lines(body, waits),
        hints=(*_hints(body, waits), *banks),
    )
    return FoundLoop(loop, body, (*_around(chosen, flow, instructions, wavefront_size), *no_conflict, *notes))


def mix_of(body: Iterable[Instruction]) -> dict[str, int]:
    """How many instructions of each kind, in the order of `InstructionKind`, without those that there are none of."""
    counted = Counter(traits(instruction.mnemonic).kind for instruction in body)
    return {kind.value: counted[kind] for kind in InstructionKind if counted[kind]}


def flops_of(body: Iterable[Instruction], wavefront_size: int) -> int:
    """A wave's FLOPs: of the matrix instructions, or of all others where there are none of those."""
    found = [traits(instruction.mnemonic) for instruction in body]
    matrix = sum(each.flops for each in found if each.kind is InstructionKind.MFMA)
    return matrix or wavefront_size * sum(each.flops for each in found)


def _weight(loop: NaturalLoop, flow: ControlFlow, instructions: Sequence[Instruction]) -> tuple[int, int, int]:
    own = [traits(instructions[index].mnemonic) for index in flow.members(loop.own)]
    rounds = _ROUNDS_PER_LEVEL**loop.depth
    matrix = sum(each.flops for each in own if each.kind is InstructionKind.MFMA)
    moved = sum(each.bytes for each in own)
    return matrix * rounds, moved * rounds, len(own) * rounds


def _moved(body: Iterable[Instruction], kind: InstructionKind) -> int:
    found = (traits(instruction.mnemonic) for instruction in body)
    return sum(each.bytes for each in found if each.kind is kind)


def _loaded_to_lds(body: Iterable[Instruction]) -> int:
    """Bytes per lane that go from global memory to LDS without a register between."""
    return sum(
        traits(instruction.mnemonic).bytes
        for instruction in body
        if "_lds_" in instruction.mnemonic or instruction.text.endswith(" lds")
    )


def _doubts(function: DisassembledFunction, flow: ControlFlow) -> tuple[str, ...]:
    notes = []
    if function.unknown:
        words = count(function.unknown, "word", "words")
        notes.append(f"left out: {words} that the disassembler does not know")
    if flow.indirect:
        branches = count(len(flow.indirect), "indirect branch or call", "indirect branches or calls")
        notes.append(f"{branches}: a loop through it is not seen")
    if flow.irreducible:
        branches = count(flow.irreducible, "branch", "branches")
        notes.append(f"{branches} backwards to what has another way in: not seen as a loop")
    return tuple(notes)


def _why_none(instructions: Sequence[Instruction]) -> str:
    matrix = sum(traits(instruction.mnemonic).kind is InstructionKind.MFMA for instruction in instructions)
    straight = f"; {count(matrix, 'matrix instruction runs', 'matrix instructions run')} once" if matrix else ""
    return f"no loop in {len(instructions)} instructions{straight}"


def _around(
    chosen: NaturalLoop, flow: ControlFlow, instructions: Sequence[Instruction], wavefront_size: int
) -> tuple[str, ...]:
    notes = []
    if len(chosen.blocks) > 1:
        notes.append(f"the main loop has {len(chosen.blocks)} blocks; all of them count as if each ran once a round")
    if chosen.parent is not None:
        outer = [instructions[index] for index in flow.members(flow.loops[chosen.parent].own)]
        loaded = _moved(outer, InstructionKind.GLOBAL_LOAD) * wavefront_size
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
        notes.append(f"{count(len(rivals), 'more loop has', 'more loops have')} matrix instructions; this one the most")
    return tuple(notes)


def _banks(
    instructions: Sequence[Instruction],
    flow: ControlFlow,
    chosen: NaturalLoop,
    members: Sequence[int],
    wavefront_size: int,
    arch: str,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The hint at bank conflicts of LDS, or the note that there are none, as far as addresses are known."""
    known = bank_conflicts(instructions, flow, chosen.blocks, wavefront_size, arch)
    slow = [access for access in known if access.turns > 1]
    if slow:
        worst = max(slow, key=lambda access: access.turns)
        which = f"+{members.index(worst.at)} {instructions[worst.at].mnemonic} takes {worst.turns:g} times as long"
        return (f"LDS bank conflicts in {len(slow)} of {len(known)} accesses whose addresses are known: {which}",), ()
    if not known:
        return (), ()
    accesses = sum(
        traits(instructions[at].mnemonic).kind in (InstructionKind.LDS_READ, InstructionKind.LDS_WRITE)
        for at in members
    )
    return (), (f"no LDS bank conflicts in {len(known)} of {accesses} accesses, whose addresses are known",)


def _hints(body: Sequence[Instruction], waits: Sequence[Wait]) -> tuple[str, ...]:
    """Signs in the instructions themselves that the loop is slow, the worst first."""
    hints = []
    found = [(instruction, traits(instruction.mnemonic)) for instruction in body]
    matrix = any(each.kind is InstructionKind.MFMA for _, each in found)
    spilled = sum(each.scratch for _, each in found)
    if spilled:
        hints.append(f"{count(spilled, 'access', 'accesses')} of scratch memory: spills, or arrays")
    exposed = [wait for wait in waits if matrix and wait.producer is not None and not wait.matrix]
    loads = [wait for wait in exposed if _is(wait.producer, InstructionKind.GLOBAL_LOAD)]
    reads = [wait for wait in exposed if _is(wait.producer, InstructionKind.LDS_READ)]
    if loads:
        hints.append(f"{_times(loads)} for a load from memory with no matrix instruction since it was issued")
    if reads:
        hints.append(f"{_times(reads)} for an LDS read with no matrix instruction since it was issued")
    moves = sum(instruction.mnemonic.startswith("v_accvgpr_") for instruction, _ in found)
    if moves:
        hints.append(f"{count(moves, 'move', 'moves')} between VGPR and AGPR")
    for kind, what in (
        (InstructionKind.LDS_READ, "LDS reads"),
        (InstructionKind.LDS_WRITE, "LDS writes"),
        (InstructionKind.GLOBAL_LOAD, "loads"),
    ):
        accesses = [each for _, each in found if each.kind is kind]
        narrow = [each for each in accesses if each.bytes < 4]
        if narrow:
            hints.append(f"narrower than 4 bytes a lane: {len(narrow)} of {len(accesses)} {what}")
    if not matrix and any(each.kind in _MEMORY for _, each in found):
        hints.append("no matrix instructions: FLOPs are those of the VALU")
    return tuple(hints)


def _is(instruction: Instruction | None, kind: InstructionKind) -> bool:
    return instruction is not None and traits(instruction.mnemonic).kind is kind


def _times(waits: Sequence[Wait]) -> str:
    return f"{len(waits)} waits" if len(waits) > 1 else f"the wait at +{waits[0].at}"
