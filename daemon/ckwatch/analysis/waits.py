"""What the waits of a loop wait for.

Each memory instruction counts up, `s_waitcnt vmcnt(N)` waits until at most N are under way, and they end in order: so
the last one that a wait waits for is the (N+1)-th before it. Which instruction counts where is told by LLVM's AMDGPU
usage ("Memory Counters"): stores have a counter of their own from GFX10 on, scalar loads and LDS from GFX12 on. Scalar
loads may end out of order; here they do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ckwatch.analysis.disassembly import Instruction
from ckwatch.analysis.instructions import Kind, traits

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
        matrix_before.append(matrix_before[-1] + (traits(instruction.mnemonic).kind is Kind.MFMA))
    for place, instruction in enumerate((*body, *body)):
        for counter, left in _limits(instruction) if instruction.mnemonic.startswith("s_wait") else ():
            queue = under_way.setdefault(counter, [])
            if place >= len(body):
                found.append(_wait(body, place, counter, left, queue, matrix_before))
            del queue[: len(queue) - left if len(queue) > left else 0]
        for counter in _counters(instruction.mnemonic, arch):
            under_way.setdefault(counter, []).append(place)
    return tuple(found)


def described(body: Sequence[Instruction], waits: Sequence[Wait]) -> tuple[str, ...]:
    """Waits and barriers in the order of the body, as text."""
    lines = [(wait.at, _text(wait)) for wait in waits]
    lines += [
        (place, f"+{place} {instruction.mnemonic}")
        for place, instruction in enumerate(body)
        if traits(instruction.mnemonic).kind is Kind.BARRIER
    ]
    return tuple(line for _, line in sorted(lines, key=lambda line: line[0]))


def _text(wait: Wait) -> str:
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


def _limits(instruction: Instruction) -> list[tuple[str, int]]:
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
def _counters(mnemonic: str, arch: str) -> tuple[str, ...]:
    if mnemonic.startswith(("s_load", "s_buffer_load")):
        return ("lgkmcnt", "kmcnt")
    if mnemonic.startswith("ds_"):
        return ("lgkmcnt", "dscnt")
    kind = traits(mnemonic).kind
    also = ("lgkmcnt", "dscnt") if mnemonic.startswith("flat_") else ()
    if kind is Kind.GLOBAL_LOAD or (kind is Kind.GLOBAL_STORE and arch.startswith("gfx9")):
        return ("vmcnt", "loadcnt", *also)
    if kind is Kind.GLOBAL_STORE:
        return ("vscnt", "storecnt", *also)
    return ()
