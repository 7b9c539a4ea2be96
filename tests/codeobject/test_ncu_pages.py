"""ncu's source page: a real one of a template of ours on an H200, read whole, and what is none."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest

from ckwatch.codeobject.device_profiles import read_profile
from ckwatch.codeobject.disassembly import InstructionKind
from ckwatch.codeobject.executed_profile import executed_profiles, kind_of
from ckwatch.codeobject.ncu_pages import read_launches, reason_words
from ckwatch.codeobject.profile_hints import hints_of
from ckwatch.model.device_profiles import DeviceProfile, MeasuredKernel, NoProfileError
from ckwatch.model.profiles import LossKind

PROFILES = Path(__file__).parents[1] / "data" / "profiles"
PAGE = gzip.decompress((PROFILES / "ncu_transpose.csv.gz").read_bytes()).decode()
KERNEL = "<unnamed>::transpose(const float *, float *, int, int, float)"
ROWS = list(csv.reader(io.StringIO(PAGE)))
COLUMNS = {name: at for at, name in enumerate(ROWS[2])}
INSTRUCTIONS = {row[2]: row for row in reversed(ROWS[3:]) if row[2].startswith("0x")}


def page(*lines: str) -> DeviceProfile:
    return read_profile("\n".join(lines).encode())


def test_every_sample_of_a_real_page_is_at_its_line() -> None:
    found = read_profile(PAGE.encode())
    assert (found.method, found.unit) == ("warp sampling (ncu)", "samples")
    assert len(found.places) == len(INSTRUCTIONS) == 176
    assert found.total == sum(int(row[COLUMNS["# Samples"]]) for row in INSTRUCTIONS.values()) == 4830
    assert sum(one.hits for one in found.places) == sum(
        int(row[COLUMNS["Instructions Executed"]]) for row in INSTRUCTIONS.values()
    )
    assert all(one.issued + sum(one.stalls.values()) == one.samples for one in found.places)
    assert {one.kernel for one in found.places} == {KERNEL}
    assert found.notes == ("4 instructions of inlined functions stand at several lines: each counts at the first",)
    lines = found.by_line()
    assert sum(line.weight for line in lines) == found.total
    heaviest = lines[0]
    assert (heaviest.line, heaviest.source) == (
        29,
        "staged[threadIdx.y + i][threadIdx.x] = x[size_t(row + i) * n + column];",
    )
    # samples of a line are those that ncu sums, where no instruction stands at another line too
    sums = {int(row[0]) - 1: int(row[COLUMNS["# Samples"]]) for row in ROWS[3:] if row[0]}
    assert sum(line.weight == sums[line.line or 0] for line in lines) >= len(sums) - 2


def test_counts_of_a_device_have_the_form_of_counted_ones() -> None:
    profile = read_profile(PAGE.encode())
    launches = read_launches((PROFILES / "ncu_transpose_launches.csv").read_text())
    assert launches == (MeasuredKernel(name=KERNEL, launches=1, workgroups=64 * 128),)
    path = profile.places[0].path
    (kernel,) = executed_profiles(DeviceProfile(
        method=profile.method, unit=profile.unit, places=profile.places, kernels=launches
    ), {path})  # fmt: skip
    assert (kernel.workgroups, kernel.all_workgroups, kernel.wave_lanes) == (8192, 8192, 32)
    assert kernel.total.counts.issued == sum(one.hits for one in profile.places)
    assert sum(kernel.share(line.own) for line in kernel.lines) == pytest.approx(1)
    assert kernel.lines[0].in_template
    # 32 lanes read a column of a tile that is 32 floats wide: 32 wavefronts, where 1 would do
    (conflict,) = [hint for hint in hints_of([kernel]) if hint.kind is LossKind.LDS_CONFLICT]
    line = next(one for one in kernel.lines if one.line == conflict.line)
    assert line.own.conflict_ways == 32
    assert executed_profiles(profile, {path}) == ()  # without the page of launches the grid is not known


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("@!P0 LDG.E R7, desc[UR6][R6.64]", InstructionKind.GLOBAL_LOAD),
        ("STS [R11], R18", InstructionKind.LDS_WRITE),
        ("HMMA.16816.F32 R4, R8, R10, R4", InstructionKind.MFMA),
        ("ULDC UR5, c[0x0][0x228]", InstructionKind.SALU),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", InstructionKind.BARRIER),
        ("FMUL R7, R7, UR5", InstructionKind.VALU),
        ("", InstructionKind.VALU),
    ],
)
def test_classes_of_instructions(text: str, kind: InstructionKind) -> None:
    assert kind_of(text) is kind


SASS = '"Address","Source","# Samples","Instructions Executed","stall_long_sb","stall_selected","stall_new_reason"'


def test_a_page_without_lines_and_with_a_log_before_it() -> None:
    found = page("==PROF== Connected", '"Kernel Name","k(int)",', SASS, '"0x10","  EXIT ","3","32","2","0","1"')
    (place,) = found.places
    assert (place.text, place.kernel, place.line, place.samples, place.hits) == ("EXIT", "k(int)", None, 3, 32)
    assert place.stalls == {"memory": 2, "new reason": 1}
    assert found.notes == ("3 of 3 samples have no source line",)


def test_a_row_that_cannot_be_read_is_counted() -> None:
    found = page(
        '"Kernel Name","k",',
        SASS,
        '"0x10","EXIT","x","1","","",""',
        '"0x20","EXIT","1"',
        '"0x30","NOP","1","1","","1",""',
    )
    assert (found.total, found.notes[0]) == (1, "2 rows could not be read")


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (('"Kernel Name","k",', '"Address","Source"'), "no column `# Samples`: ncu takes it with `--section"),
        (('"File Path","/k.cu"', '"Function Name","k"', '"Line No","Source"'), "no column `Address`"),
        (('"File Path","/k.cu"', '"Function Name","k"', '"Line No",' + SASS, '"one","text"'), "not a page of ncu's"),
    ],
)
def test_what_is_no_such_page_is_said(lines: tuple[str, ...], why: str) -> None:
    with pytest.raises(NoProfileError, match=why):
        page(*lines)


def test_reasons_are_words() -> None:
    assert [reason_words(f"stall_{one}") for one in ("short_sb", "lg", "branch_resolving")] == [
        "shared memory",
        "queue of memory instructions",
        "branch",
    ]
