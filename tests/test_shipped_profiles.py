"""The table of what the profile says of shipped units."""

from __future__ import annotations

from benchmarks.shipped_profiles import ARCH, HEAD, PAGE, REPOSITORY, RULE, UNITS, row, with_table
from ckwatch.workspace.loading import load_workspace
from helpers.each_row import each_row


@each_row(("example", "unit"), UNITS)
def test_the_units_are_shipped(example: str, unit: str) -> None:
    assert f"{unit}@{ARCH}" in {one.id for one in load_workspace(REPOSITORY / "examples" / example).units}


def test_the_page_has_a_row_for_each() -> None:
    _, _, table = PAGE.read_text(encoding="utf-8").partition(f"{HEAD}\n{RULE}\n")
    named = [line.split("`")[1] for line in table.partition("\n\n")[0].splitlines()]
    assert named == [unit for _, unit in UNITS]


def test_a_row_adds_the_kernels_of_a_launch() -> None:
    counts = {"issued": 50, "requests": 4, "cache_lines": 32, "least_lines": 8, "turns": 0, "phases": 0}
    total = {"on_lanes": 2, "active_lanes": 64, "mix": {"mfma": 3}, "counts": counts}
    line = {"path": "/w/k.hip.j2", "line": 3, "own": {"counts": {"issued": 30}}}
    hint = {"text": "16-way LDS conflict", "path": "/w/k.hip.j2", "line": 9, "loss": 0.376}
    found = {
        "shape": "N=1",
        "shape_name": "",
        "hints": [hint],
        "kernels": [{"wave_lanes": 64, "total": total, "lines": [line]}] * 2,
    }
    assert row("k/one", found) == (
        "| `k/one` | N=1 | 50 % | 8, at least 2 |  | 6 | `k.hip.j2:4`, 30 % | 16-way LDS conflict, `k.hip.j2:10` (38 %) |"
    )


def test_rows_are_replaced_and_nothing_else() -> None:
    page = f"before\n\n{HEAD}\n{RULE}\n| old |\n| older |\n\nafter\n\nmore\n"
    assert with_table(page, ["| new |"]) == f"before\n\n{HEAD}\n{RULE}\n| new |\n\nafter\n\nmore\n"
