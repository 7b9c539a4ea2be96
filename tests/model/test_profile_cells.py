"""A row has a cell for each column, and waits are told by their part of the estimated cycles where there is one."""

from __future__ import annotations

from dataclasses import replace

from ckwatch.model.instruction_counts import InstructionCounts
from ckwatch.model.profile_cells import PROFILE_COLUMNS, percent, profile_cells, waits_of
from ckwatch.model.profiles import CycleFigures, KernelProfile, ProfileFigures

LINE = ProfileFigures(
    counts=InstructionCounts(issued=50, lanes=1600, requests=4, cache_lines=34, least_lines=8),
    on_lanes=50,
    active_lanes=1600,
    mix={"mfma": 8},
    waits={"memory": 3},
    cycles=CycleFigures(issue=18, wait=82, waits_for={"load of line 41": 60, "others at a barrier": 20, "LDS": 2}),
)
TOTAL = replace(LINE, counts=replace(LINE.counts, issued=200), cycles=CycleFigures(issue=100, wait=100, waits_for={}))
KERNEL = KernelProfile(
    name="k", symbol="k", workgroups=1, all_workgroups=1, launches=1, wave_lanes=64, line_bytes=128, total=TOTAL
)


def test_a_cell_for_each_column() -> None:
    waits = "load of line 41 60 %, others at a barrier 20 %"
    assert profile_cells(KERNEL, LINE) == ("25.0 %", "50", "50.0 %", "50 %", "8.5", "2", "", "8", waits)
    assert len(PROFILE_COLUMNS) == len(profile_cells(KERNEL, LINE))


def test_without_an_estimate_only_what_is_waited_for() -> None:
    counted = replace(LINE, cycles=None)
    assert waits_of(counted) == "memory"
    assert profile_cells(KERNEL, counted)[2] == percent(None) == ""
