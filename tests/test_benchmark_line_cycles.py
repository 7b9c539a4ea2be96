"""The record of estimated cycles: profiles as files → instructions, counts and ranks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.line_cycles import held, instructions_of, issues_of, rank_correlation, record
from ckwatch.codeobject.device_profiles import read_profile
from ckwatch.prediction.wait_and_issue import Residency

HEADER = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"


def trace(*rows: tuple[str, int, int, int]) -> bytes:
    """Text, line, hits and latency of instructions of 4 bytes."""
    code: list[list[str | int]] = [["; k", 0, 0, "k()", 1, 256, 0, 0, 0, 0]]
    for number, (text, line, hits, latency) in enumerate(rows):
        code.append([text, 0, number + 1, f"/w/k.hip:{line}", 1, 256 + 4 * number, hits, latency, 0, 0])
    return json.dumps({"code": code, "header": HEADER, "version": "3.0.0"}).encode()


LOOP = trace(
    ("s_mov_b32 s0, 0", 1, 8, 32),
    ("global_load_dword v1, v[2:3], off", 2, 80, 400),
    ("s_waitcnt vmcnt(0)", 3, 80, 40_000),
    ("v_add_f32_e32 v4, v1, v4", 3, 80, 320),
    ("s_cbranch_scc1 65532", 4, 80, 800),
    ("s_endpgm", 5, 8, 32),
)


def test_branches_go_where_their_operand_says() -> None:
    instructions = instructions_of(read_profile(LOOP).places)
    assert instructions[4].target == instructions[1].address
    assert all(one.target is None for place, one in enumerate(instructions) if place != 4)


def test_samples_count_by_blocks() -> None:
    """In thousandths of the mean of a block."""
    header = ["ISA", "Source", "Vaddr", "Hit", "Latency", "PC_Issued", "PC_Stalled"]
    sampled = (("s_mov_b32 s0, 0", 1), ("s_branch 0", 2), ("s_nop 0", 4), ("s_endpgm", 5))
    code = [[text, "/w/k.hip:1", 4 * at, 0, 0, issued, 9] for at, (text, issued) in enumerate(sampled)]
    profile = read_profile(json.dumps({"code": code, "header": header}).encode())
    assert issues_of(profile, instructions_of(profile.places)) == [1500, 1500, 4500, 4500]


def test_ranks() -> None:
    one = np.array([1.0, 2.0, 3.0, 4.0])
    assert rank_correlation(one, one**3) == pytest.approx(1)
    assert rank_correlation(one, -one) == pytest.approx(-1)
    assert rank_correlation(one, np.array([1.0, 2.0, 2.0, 3.0])) == pytest.approx(0.9486833)
    assert np.isnan(rank_correlation(one, np.ones(4)))
    assert held(one, np.array([0.0, 1.0, 2.0, 7.0]), 2) == pytest.approx(0.9)


def test_a_record_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "code.json"
    path.write_bytes(LOOP)
    said: list[str] = []
    record(path, Residency(arch="gfx942", waves_per_simd=1, workgroup_waves=4), said.append)
    assert said[0] == "code.json, gfx942: 6 instructions, 41,584 cycles"
    assert next(line for line in said if "lines: rank" in line).startswith("  5 lines: rank 1.00, by issues 0.97")
    assert "    first 5: 100%, by issues 100%, at best 100%" in said
    with pytest.raises(SystemExit, match="no numbers for gfx906"):
        record(path, Residency(arch="gfx906", waves_per_simd=1, workgroup_waves=4), said.append)
