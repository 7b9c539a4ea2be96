"""The worst request of a line, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckwatch.codeobject.access_patterns import fullest_bank, pattern_of
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.model.instruction_counts import InstructionCounts, WorstRequest
from ckwatch.model.profiles import ProfiledInstruction
from codeobject.test_profile import figures, profile_with

COLUMN = WorstRequest(
    lanes=tuple(range(32)),
    places=tuple(range(0, 32 * 128, 128)),
    size_bytes=4,
    banks=32,
    cost=32,
    least=1,
)


@pytest.mark.parametrize(
    ("worst", "reads", "text"),
    [
        (COLUMN, False, "lanes 0…31 write 4 bytes each at byte 0, 128, 256, 384, … of LDS: bank 0 32 times"),
        (
            replace(COLUMN, lanes=(0, 1, 2, 12, 13, 20), places=(4, 4, 132, 260, 8, 12), size_bytes=2, cost=3),
            True,
            "lanes 0…2, 12…13, 20 read 2 bytes each at byte 4, 4, 132, 260, … of LDS: bank 1 3 times",
        ),
        (
            WorstRequest(
                lanes=(0, 1, 63), places=(0, 4_096, 8_192), size_bytes=16, banks=0, cost=3, least=1
            ),
            True,
            "lanes 0…1, 63 read 16 bytes each at byte 0, 4,096, 8,192 from the first: 3 cache lines, where 1 would do",
        ),
    ],
)  # fmt: skip
def test_a_pattern_in_words(worst: WorstRequest, reads: bool, text: str) -> None:
    assert pattern_of(worst, reads=reads) == text


def test_words_across_banks_are_counted_by_bank() -> None:
    wide = replace(COLUMN, lanes=(0, 1, 2), places=(0, 64, 256), size_bytes=16, banks=64)
    assert fullest_bank(wide) == (0, 2)


def test_a_hint_has_the_pattern_of_its_lines_worst_instruction() -> None:
    lost = profile_with(figures(), figures(issued=10, accesses=10, turns=320, phases=20, fullest=32))
    counts = InstructionCounts(10, 640)
    milder = replace(COLUMN, places=tuple(range(0, 32 * 8, 8)), cost=2)
    of_memory = replace(COLUMN, banks=0, cost=99)
    rows = (("ds_write_b32", milder, 1), ("ds_write_b32", COLUMN, 1), ("ds_read_b32", of_memory, 1))
    instructions = tuple(
        ProfiledInstruction(address=number, text=f"{name} v0, v1", counts=counts, at=at, worst=worst)
        for number, (name, worst, at) in enumerate((*rows, ("ds_read_b32", replace(COLUMN, cost=64), 0)))
    )
    (hint,) = hints_of([replace(lost, instructions=instructions)])
    assert (hint.line, hint.pattern) == (1, pattern_of(COLUMN, reads=False))
