"""Reports of the emulator, and the sentences made of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ckwatch.model.verification import FindingKind
from ckwatch.verification.findings import MemoryRange, finding_of, merged
from helpers.each_row import each_row
from helpers.emulator_findings import TOLD

X = MemoryRange(name="X", address=0x10000, size_bytes=4096)
Y = MemoryRange(name="Y", address=0x20000, size_bytes=512)


def message(kind: str = "out-of-bounds-read", **changes: Any) -> str:
    return finding_of(TOLD | {"kind": kind} | changes, "ragged", (X, Y)).message


def test_everything_is_taken_over() -> None:
    finding = finding_of(
        TOLD | {"other_pc": 8, "other_instruction": "s_nop 0", "other_wave": 1, "other_lane": 0}, "ragged", (X, Y)
    )
    assert finding.kind is FindingKind.OUT_OF_BOUNDS_READ
    assert (finding.code_address, finding.other_code_address) == (0x1940, 0x1908)
    assert (finding.workgroup, finding.wave, finding.lane) == ((1, 0, 2), 3, 7)
    assert (finding.other_wave, finding.other_lane, finding.other_instruction) == (1, 0, "s_nop 0")
    assert (finding.address, finding.size_bytes, finding.count) == (0x11000, 4, 5)
    assert (finding.kernel, finding.problem) == ("_Z4gemm", "ragged")


@pytest.mark.parametrize(
    ("kind", "address", "size", "expected"),
    [
        ("out-of-bounds-read", 0x11000, 4, "reads 4 bytes beyond the end of X (4,096 bytes)"),
        ("out-of-bounds-write", 0x11008, 4, "writes 4 bytes that begin 8 bytes beyond the end of X (4,096 bytes)"),
        ("out-of-bounds-read", 0x10FF8, 16, "reads 16 bytes, 8 of them beyond the end of X (4,096 bytes)"),
        ("out-of-bounds-write", 0x1FFFE, 2, "writes 2 bytes that begin 2 bytes before Y (512 bytes)"),
        ("out-of-bounds-read", 0x7F0000000000, 4, "reads 4 bytes at 0x7f0000000000, where nothing is allocated"),
        ("misaligned", 0x10002, 4, "accesses 4 bytes at byte 2 of X, which is not aligned as the instruction needs"),
        ("write-conflict", 0x20004, 4, "lanes of one instruction write different values to byte 4 of Y"),
    ],
)
def test_addresses_are_told_by_the_tensor(kind: str, address: int, size: int, expected: str) -> None:
    assert message(kind, address=str(address), bytes=size) == expected


@each_row("kind", list(FindingKind))
def test_every_kind_has_a_sentence(kind: FindingKind) -> None:
    nowhere: dict[str, Any] = {"address": None, "bytes": None, "pc": None, "instruction": None}
    assert message(kind.value, note="v7")
    assert message(kind.value, **nowhere)


def test_other_sentences() -> None:
    assert message("lds-race", address="64", other_wave=1) == (
        "waves 1 and 3 access the same bytes of LDS at offset 64 without a barrier between them, and one writes"
    )
    race = message("memory-race", address=str(0x20004), bytes=4, note="reads what workgroup 1, 0, 0 writes")
    assert race == "reads what workgroup 1, 0, 0 writes: byte 4 of Y"
    assert message("unknown-instruction", instruction="v_foo v1") == "the emulator does not know `v_foo v1`"
    assert message("missing-wait", note="v5") == "uses what a load has not brought yet, s_waitcnt is missing: v5"


def test_a_path_that_is_not_executed_is_named() -> None:
    told = TOLD | {"kind": "missing-wait", "workgroup": None, "wave": None, "note": "v5"}
    for problem, takers in (("ragged", "problem"), ("", "launch")):
        assert finding_of(told, problem, ()).message == (
            f"uses what a load has not brought yet on a path that no {takers} has taken, s_waitcnt is missing: v5"
        )


def test_what_was_executed_stands_for_what_could_be() -> None:
    executed = finding_of(TOLD | {"kind": "missing-wait"}, "ragged", ())
    possible = finding_of(TOLD | {"kind": "missing-wait", "workgroup": None, "wave": None, "count": 1}, "exact", ())
    assert merged([possible, executed]) == merged([executed, possible]) == (executed,)
    assert merged([possible, possible]) == (possible,)


def test_a_mistake_in_several_problems_is_one() -> None:
    one = finding_of(TOLD, "exact", (X,))
    other = replace(one, problem="ragged", count=2)
    elsewhere = replace(one, code_address=4)
    assert merged([one, other, elsewhere]) == (replace(one, count=7), elsewhere)


def test_causes_come_before_what_follows_from_them() -> None:
    race, undefined = (finding_of(TOLD | {"kind": kind}, "exact", (X,)) for kind in ("lds-race", "undefined-value"))
    assert merged([undefined, race]) == (race, undefined)
