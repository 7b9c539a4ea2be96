"""The control flow of a kernel: basic blocks, their successors and dominators, and natural loops.

A natural loop belongs to a back edge: a branch to a block that dominates the one it leaves. Loops that share their
header are one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ckwatch.codeobject.disassembly import Instruction
from ckwatch.model.lazy_dataclass import dataclass

_ENDS = ("s_endpgm", "s_branch", "s_setpc", "s_rfe", "s_trap")
_PADDING = "s_nop"
"""Fills the place between a jump and a block that is aligned."""
_INDIRECT = ("s_setpc", "s_swappc", "s_rfe", "s_cbranch_g_fork", "s_cbranch_i_fork", "s_cbranch_join")
_FAR_BRANCH_LENGTH = 6
_CONSTANT = re.compile(r"(?:lit\()?(-?(?:0x[0-9a-f]+|0|[1-9]\d*))\)?")


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Instructions `first` to `last` of the function, both included, and the blocks that may come next."""

    first: int
    last: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NaturalLoop:
    """`blocks` are all of the loop, inner loops included, in the order of addresses; `own` those of no inner loop.

    `depth` is 1 for an outermost loop; `parent` the index of the loop around it in the list it came in.
    """

    header: int
    blocks: tuple[int, ...]
    own: tuple[int, ...]
    depth: int
    parent: int | None


@dataclass(frozen=True, slots=True)
class ControlFlow:
    """A function's control flow. `indirect` are instructions whose target is not known, `irreducible` counts
    branches backwards that make no natural loop. `dominators` has for each block a bit for each one that every way to
    it passes, itself among them."""

    blocks: tuple[BasicBlock, ...]
    loops: tuple[NaturalLoop, ...]
    indirect: tuple[int, ...] = ()
    irreducible: int = 0
    dominators: tuple[int, ...] = ()

    def members(self, blocks: Iterable[int]) -> Iterator[int]:
        """The instructions of some blocks, by their numbers."""
        for block in blocks:
            yield from range(self.blocks[block].first, self.blocks[block].last + 1)

    def dominating(self, block: int) -> list[int]:
        """The blocks that every way to `block` passes, the entry first, `block` last."""
        found = [one for one in range(len(self.blocks)) if self.dominators[block] >> one & 1]
        return sorted(found, key=lambda one: self.dominators[one].bit_count())


def control_flow_of(instructions: Sequence[Instruction]) -> ControlFlow:
    """The control flow of a function.

    A jump by `s_setpc` to a computed constant (`s_getpc`, `s_add`, `s_addc`: a branch too far for its operand) is
    followed; where any other indirect branch leads is not known, and blocks that only it reaches count as entries.
    """
    at = {instruction.address: index for index, instruction in enumerate(instructions)}
    targets: dict[int, int] = {}
    indirect: list[int] = []
    for index, instruction in enumerate(instructions):
        if not instruction.mnemonic.startswith("s_"):
            continue
        target = instruction.target
        if target is None and instruction.mnemonic.startswith(_INDIRECT):
            target = _far_target(instructions, index)
            if target is None:
                indirect.append(index)
        if target is not None and target in at and not instruction.mnemonic.startswith("s_call"):
            targets[index] = at[target]
    blocks = _blocks(instructions, targets)
    order, dominators = _dominators(blocks)
    loops, irreducible = _loops(blocks, order, dominators)
    return ControlFlow(tuple(blocks), loops, tuple(indirect), irreducible, tuple(dominators))


def _far_target(instructions: Sequence[Instruction], index: int) -> int | None:
    """Return the target of `s_getpc_b64 s[0:1]; s_add_u32 s0, s0, N; s_addc_u32 s1, s1, M; s_setpc_b64 s[0:1]`."""
    for before in range(index - 1, max(-1, index - _FAR_BRANCH_LENGTH), -1):
        getpc = instructions[before]
        if not getpc.mnemonic.startswith("s_getpc"):
            continue
        parts: list[int] = []
        for step in instructions[before + 1 : index]:
            if step.mnemonic.startswith(("s_add_u32", "s_addc_u32", "s_add_co")):
                constant = _CONSTANT.fullmatch(step.operands[-1])
                if constant is None:
                    return None
                parts.append(int(constant[1], 0) & 0xFFFFFFFF)
        if len(parts) != 2 or getpc.operands[:1] != instructions[index].operands[-1:]:
            return None
        return (getpc.address + getpc.size + parts[0] + (parts[1] << 32)) & 0xFFFFFFFFFFFFFFFF
    return None


def _blocks(instructions: Sequence[Instruction], targets: dict[int, int]) -> list[BasicBlock]:
    if not instructions:
        return []
    leaders = {0, *targets.values()}
    for index, instruction in enumerate(instructions[:-1]):
        if index in targets or instruction.mnemonic.startswith(_ENDS):
            leaders.add(index + 1)
    starts = sorted(leaders)
    number = {start: block for block, start in enumerate(starts)}
    reached = {0, *targets.values()}
    blocks = []
    for block, start in enumerate(starts):
        last = (starts[block + 1] if block + 1 < len(starts) else len(instructions)) - 1
        going = [number[targets[last]]] if last in targets else []
        follows = last + 1 < len(instructions) and not instructions[last].mnemonic.startswith(_ENDS)
        if follows and (start in reached or any(one.mnemonic != _PADDING for one in instructions[start : last + 1])):
            going.append(block + 1)
            reached.add(last + 1)
        blocks.append(BasicBlock(start, last, tuple(dict.fromkeys(going))))
    return blocks


def _dominators(blocks: Sequence[BasicBlock]) -> tuple[list[int], list[int]]:
    """Reverse postorder numbers and the bits of each block's dominators; an entry has itself alone."""
    count = len(blocks)
    visited = [False] * count
    entries: set[int] = set()
    postorder: list[int] = []
    for entry in range(count):
        if not visited[entry]:
            entries.add(entry)
            postorder.extend(_postorder(blocks, entry, visited))
    order = [0] * count
    for position, block in enumerate(reversed(postorder)):
        order[block] = position
    sources = _sources(blocks)
    dominators = [1 << block if block in entries else (1 << count) - 1 for block in range(count)]
    changed = True
    while changed:
        changed = False
        for block in reversed(postorder):
            found = 0 if block in entries else (1 << count) - 1
            for source in sources[block] if found else ():
                found &= dominators[source]
            if dominators[block] != found | 1 << block:
                dominators[block], changed = found | 1 << block, True
    return order, dominators


def _sources(blocks: Sequence[BasicBlock]) -> list[list[int]]:
    sources: list[list[int]] = [[] for _ in blocks]
    for block, found in enumerate(blocks):
        for successor in found.successors:
            sources[successor].append(block)
    return sources


def _postorder(blocks: Sequence[BasicBlock], entry: int, visited: list[bool]) -> list[int]:
    found: list[int] = []
    stack = [(entry, iter(blocks[entry].successors))]
    visited[entry] = True
    while stack:
        block, successors = stack[-1]
        for successor in successors:
            if not visited[successor]:
                visited[successor] = True
                stack.append((successor, iter(blocks[successor].successors)))
                break
        else:
            found.append(block)
            stack.pop()
    return found


def _loops(
    blocks: Sequence[BasicBlock], order: Sequence[int], dominators: Sequence[int]
) -> tuple[tuple[NaturalLoop, ...], int]:
    sources = _sources(blocks)
    bodies: dict[int, set[int]] = {}
    irreducible = 0
    for block, found in enumerate(blocks):
        for header in found.successors:
            if order[header] > order[block]:
                continue
            if not dominators[block] >> header & 1:
                irreducible += 1
                continue
            body = bodies.setdefault(header, {header})
            waiting = [block]
            while waiting:
                member = waiting.pop()
                if member not in body:
                    body.add(member)
                    waiting.extend(sources[member])
    # Natural loops with different headers are nested or apart: the smallest that holds a header is the one around it.
    headers = sorted(bodies, key=lambda header: (len(bodies[header]), header))
    parents = {
        header: next((other for other in headers[place + 1 :] if header in bodies[other]), None)
        for place, header in enumerate(headers)
    }
    shown = sorted(headers)
    number = {header: index for index, header in enumerate(shown)}
    loops = []
    for header in shown:
        depth, around = 1, parents[header]
        while around is not None:
            depth, around = depth + 1, parents[around]
        inner = set[int]().union(*(bodies[other] for other in shown if parents[other] == header))
        parent = parents[header]
        loops.append(
            NaturalLoop(
                header,
                tuple(sorted(bodies[header])),
                tuple(sorted(bodies[header] - inner)),
                depth,
                None if parent is None else number[parent],
            )
        )
    return tuple(loops), irreducible
