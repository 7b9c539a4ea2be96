"""Findings of the emulator as values: its JSON and the tensors' addresses → `EmulatedFinding` with a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.verification import EmulatedFinding, FindingKind

NEAR_BYTES = 1 << 24
"""An address farther from every tensor than this belongs to none."""

_CONSEQUENCES = frozenset({FindingKind.UNDEFINED_VALUE, FindingKind.NON_FINITE})


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRange:
    """A range of memory with its owner: an argument, or the workspace."""

    name: str
    address: int
    size_bytes: int

    def distance(self, address: int, size_bytes: int) -> int:
        """Bytes between an access and this memory; 0 where they touch."""
        return max(self.address - (address + size_bytes), address - (self.address + self.size_bytes), 0)


def finding_of(report: Mapping[str, Any], problem: str, memory: Sequence[MemoryRange]) -> EmulatedFinding:
    """One finding, from the JSON of `native/findings.c`. Raises ValueError, KeyError and TypeError for what is none."""
    text_address = int(report["text_address"])
    workgroup = report["workgroup"]
    finding = EmulatedFinding(
        kind=FindingKind(report["kind"]),
        message="",
        problem=problem,
        kernel=report["kernel"],
        workgroup=None if workgroup is None else (workgroup[0], workgroup[1], workgroup[2]),
        wave=report["wave"],
        lane=report["lane"],
        instruction=report["instruction"],
        code_address=None if report["pc"] is None else text_address + report["pc"],
        other_instruction=report["other_instruction"],
        other_code_address=None if report["other_pc"] is None else text_address + report["other_pc"],
        other_wave=report["other_wave"],
        other_lane=report["other_lane"],
        address=None if report["address"] is None else int(report["address"]),
        size_bytes=report["bytes"] or 0,
        note=report["note"],
        count=report["count"],
    )
    return replace(finding, message=message_of(finding, memory))


def merged(findings: Iterable[EmulatedFinding]) -> tuple[EmulatedFinding, ...]:
    """Each mistake once, where it showed first; instructions that show it in several problems are counted together.
    What was executed is known better than that it can be. What may only follow from others comes last."""
    found: dict[tuple[FindingKind, str, int | None], EmulatedFinding] = {}
    for one in findings:
        key = one.kind, one.kernel, one.code_address
        first = found.get(key)
        if first is None or (first.workgroup is None and one.workgroup is not None):
            found[key] = one
        elif one.workgroup is not None:
            found[key] = replace(first, count=first.count + one.count)
    return tuple(sorted(found.values(), key=lambda one: one.kind in _CONSEQUENCES))


def message_of(finding: EmulatedFinding, memory: Sequence[MemoryRange]) -> str:
    """Return the finding in one sentence without a full stop."""
    return _SENTENCES[finding.kind](finding, memory)


Sentence = Callable[[EmulatedFinding, Sequence[MemoryRange]], str]


def _access(verb: str) -> Sentence:
    def sentence(finding: EmulatedFinding, memory: Sequence[MemoryRange]) -> str:
        if finding.note:
            return f"{verb} out of bounds ({finding.note})"
        size = _bytes(finding.size_bytes)
        address = finding.address or 0
        nearest = min(memory, key=lambda one: one.distance(address, finding.size_bytes), default=None)
        if nearest is None or nearest.distance(address, finding.size_bytes) > NEAR_BYTES:
            return f"{verb} {size} at {address:#x}, where nothing is allocated"
        end, behind = nearest.address + nearest.size_bytes, address + finding.size_bytes
        whole = f"{nearest.name} ({_bytes(nearest.size_bytes)})"
        if address < nearest.address:
            before = nearest.address - address
            return f"{verb} {size} that begin {_bytes(before)} before {whole}"
        if address < end < behind:
            return f"{verb} {size}, {behind - end} of them beyond the end of {whole}"
        if address == end:
            return f"{verb} {size} beyond the end of {whole}"
        return f"{verb} {size} that begin {_bytes(address - end)} beyond the end of {whole}"

    return sentence


def _bytes(count: int) -> str:
    return f"{count:,} byte" if count == 1 else f"{count:,} bytes"


def _noted(text: str) -> Sentence:
    def sentence(finding: EmulatedFinding, _memory: Sequence[MemoryRange]) -> str:
        return f"{text}: {finding.note}" if finding.note else text

    return sentence


def _trap(finding: EmulatedFinding, memory: Sequence[MemoryRange]) -> str:
    asserts = "Device-side assertion" in finding.note  # hip/amd_detail/hip_assert.h
    what = "a failed assertion" if asserts else "a trap" if finding.note else "a trap, as a failed assertion does"
    return _noted(f"the kernel stops at {what}")(finding, memory)


def _lds_race(finding: EmulatedFinding, _memory: Sequence[MemoryRange]) -> str:
    waves = f"waves {finding.other_wave} and {finding.wave}" if finding.other_wave is not None else "two waves"
    where = "" if finding.address is None else f" at offset {finding.address:,}"
    note = f" ({finding.note})" if finding.note else ""
    return f"{waves} access the same bytes of LDS{where} without a barrier between them, and one writes{note}"


def _lds_bounds(finding: EmulatedFinding, _memory: Sequence[MemoryRange]) -> str:
    where = "" if finding.address is None else f" at offset {finding.address:,}"
    note = f": {finding.note}" if finding.note else ""
    return f"accesses {_bytes(finding.size_bytes)} of LDS{where}, beyond what the workgroup has{note}"


def _misaligned(finding: EmulatedFinding, memory: Sequence[MemoryRange]) -> str:
    address = finding.address or 0
    where = _place(address, memory) or f"{address:#x}"
    return f"accesses {_bytes(finding.size_bytes)} at {where}, which is not aligned as the instruction needs"


def _place(address: int, memory: Sequence[MemoryRange]) -> str | None:
    inside = next((one for one in memory if one.address <= address < one.address + one.size_bytes), None)
    return None if inside is None else f"byte {address - inside.address:,} of {inside.name}"


def _conflict(finding: EmulatedFinding, memory: Sequence[MemoryRange]) -> str:
    return f"lanes of one instruction write different values to {_place(finding.address or 0, memory) or 'one address'}"


def _race(finding: EmulatedFinding, memory: Sequence[MemoryRange]) -> str:
    text = finding.note or "two workgroups access the same bytes, one changes them, and nothing orders them"
    where = _place(finding.address or 0, memory)
    return text if where is None else f"{text}: {where}"


def _missing_wait(finding: EmulatedFinding, _memory: Sequence[MemoryRange]) -> str:
    takers = "problem" if finding.problem else "launch"
    path = "" if finding.workgroup is not None else f" on a path that no {takers} has taken"
    return _noted(f"uses what a load has not brought yet{path}, s_waitcnt is missing")(finding, ())


def _no_end(finding: EmulatedFinding, _memory: Sequence[MemoryRange]) -> str:
    limit = re.sub(r"\d{4,}", lambda digits: f"{int(digits[0]):,}", finding.note)
    return f"does not end within {limit or 'the limit of instructions'}: it loops, or waits for what never comes"


def _unknown(finding: EmulatedFinding, _memory: Sequence[MemoryRange]) -> str:
    return f"the emulator does not know `{finding.instruction or finding.note}`"


_SENTENCES: Mapping[FindingKind, Sentence] = {
    FindingKind.OUT_OF_BOUNDS_READ: _access("reads"),
    FindingKind.OUT_OF_BOUNDS_WRITE: _access("writes"),
    FindingKind.LDS_OUT_OF_BOUNDS: _lds_bounds,
    FindingKind.LDS_RACE: _lds_race,
    FindingKind.UNDEFINED_VALUE: _noted("uses a value that nothing has written"),
    FindingKind.MISSING_WAIT: _missing_wait,
    FindingKind.DIVERGENT_BARRIER: _noted("not all waves of the workgroup arrive at this barrier"),
    FindingKind.MISALIGNED: _misaligned,
    FindingKind.NON_FINITE: _noted("an infinity arises here from finite values, or NaN from numbers"),
    FindingKind.WRITE_CONFLICT: _conflict,
    FindingKind.MEMORY_RACE: _race,
    FindingKind.TRAP: _trap,
    FindingKind.UNKNOWN_INSTRUCTION: _unknown,
    FindingKind.UNDECLARED_INDEX: _noted("an input is used as an index, which the kernel file does not say"),
    FindingKind.OUTSIDE_CODE: _noted("leaves the kernel's code"),
    FindingKind.NO_END: _no_end,
    FindingKind.WRONG_RESULT: _noted("this store writes a wrong value"),
    FindingKind.CLOCK_READ: _noted("reads a clock"),
    FindingKind.SLEEP: _noted("sleeps outside of a loop that waits for memory"),
    FindingKind.HOST_CALL: _noted("the host's code"),
    FindingKind.EMULATOR_CRASHED: _noted("the emulator crashed"),
}
