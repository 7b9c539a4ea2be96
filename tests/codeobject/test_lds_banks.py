"""Against what was measured lane by lane, and against brute force over transposed tiles."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from ckwatch.codeobject.lds_banks import WIDTHS, BankRule, Evidence, bank_rule, words_of
from helpers.each_row import each_row

MEASURED = Path(__file__).parent.parent / "data" / "lds"


def measured_matrix(instruction: str) -> np.ndarray:
    """64 × 64: 1 where two lanes conflict."""
    text = (MEASURED / f"{instruction}.phase_results.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.partition("Conflict Matrix")[2].splitlines()]
    return np.array([[int(entry) for entry in row[1:]] for row in rows if len(row) == 65])


@pytest.mark.parametrize(
    ("instruction", "writes", "size_bytes", "banks"),
    [("ds_read_b128", False, 16, 64), ("ds_write_b64", True, 8, 32)],
)
def test_conflicts_are_those_that_were_measured(instruction: str, writes: bool, size_bytes: int, banks: int) -> None:
    rule = bank_rule("gfx950", 64, writes=writes, size_bytes=size_bytes)
    measured = measured_matrix(instruction)
    assert measured.shape == (64, 64)
    for one in range(64):
        for other in range(one + 1, 64):
            # as it was measured: both ask one bank for different words, all other lanes are off
            turns = rule.turns({one: words_of(0, size_bytes), other: words_of(banks * 4, size_bytes)})
            assert (max(turns) > 1) == bool(measured[one, other]), (one, other)


@each_row("arch", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@each_row("writes", [False, True])
@each_row("size_bytes", WIDTHS)
def test_each_lane_is_in_one_phase(arch: str, writes: bool, size_bytes: int) -> None:
    lanes = 32 if arch.startswith("gfx1") else 64
    rule = bank_rule(arch, lanes, writes=writes, size_bytes=size_bytes)
    assert sorted(lane for phase in rule.phases for lane in phase) == list(range(lanes))
    side_by_side = rule.turns({lane: words_of(lane * size_bytes, size_bytes) for lane in range(lanes)})
    # by the measured phases of 12 bytes, lanes 20 to 23 ask for banks of lanes 0 to 3
    assert max(side_by_side) == (2 if (arch, writes, size_bytes) == ("gfx950", False, 12) else 1)


def brute_force(rule: BankRule, addresses: list[int], size_bytes: int) -> int:
    """Bank by bank, by the bytes."""
    turns = 0
    for phase in rule.phases:
        asked: dict[int, set[int]] = defaultdict(set)
        for lane in phase:
            for byte in range(addresses[lane], addresses[lane] + size_bytes):
                asked[byte // 4 % rule.banks].add(byte // 4)
        turns += max(len(words) for words in asked.values())
    return turns


@each_row("arch", ["gfx942", "gfx950"])
@each_row("pad", range(5))
@each_row("edge", [32, 64])
@each_row("size_bytes", [2, 4])
def test_a_transposed_tile_has_the_conflicts_of_brute_force(arch: str, pad: int, edge: int, size_bytes: int) -> None:
    """64 lanes read a column of a tile whose rows are padded."""
    rule = bank_rule(arch, 64, writes=False, size_bytes=size_bytes)
    pitch = (edge + pad) * size_bytes
    for column in range(0, edge, 7):
        addresses = [lane % edge * pitch + (column + lane // edge) * size_bytes for lane in range(64)]
        found = rule.turns({lane: words_of(address, size_bytes) for lane, address in enumerate(addresses)})
        assert sum(found) == brute_force(rule, addresses, size_bytes)


def test_padding_by_one_ends_the_conflicts_of_a_column() -> None:
    rule = bank_rule("gfx942", 64, writes=False, size_bytes=4)
    assert rule.turns({lane: words_of(lane * 32 * 4, 4) for lane in range(64)}) == (32, 32)
    assert rule.turns({lane: words_of(lane * 33 * 4, 4) for lane in range(64)}) == (1, 1)


def test_lanes_that_ask_for_one_word_share_a_turn() -> None:
    rule = bank_rule("gfx942", 64, writes=False, size_bytes=4)
    assert rule.turns({lane: words_of(128, 4) for lane in range(64)}) == (1, 1)
    assert rule.turns({3: words_of(128, 4)}) == (1,)
    assert rule.turns({}) == ()


def test_what_nobody_measured_says_so() -> None:
    assert bank_rule("gfx950", 64, writes=False, size_bytes=16).evidence is Evidence.MEASURED
    assert bank_rule("gfx942", 64, writes=True, size_bytes=16).evidence is Evidence.DOCUMENTED_BY_CK
    assert bank_rule("gfx942", 64, writes=False, size_bytes=8).evidence is Evidence.ASSUMED
    assert bank_rule("gfx1100", 32, writes=False, size_bytes=16).evidence is Evidence.ASSUMED
