"""A profile's words at the lines of a template."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ckwatch.model.device_profiles import LineWeight
from ckwatch.model.instruction_counts import InstructionCounts
from ckwatch.model.profiles import KernelProfile, ProfiledInstruction, ProfiledLoop
from ckwatch.wire.analysis import UnitDeviceProfile, UnitProfile
from ckwatch_lsp.figures.pages import plain
from ckwatch_lsp.figures.profile_notes import MOST_LINES, line_page, profile_page, summary, template_profile
from codeobject.test_profile import figures, product_profile, profile_with
from lsp.figures.test_line_profiles import COLUMN, ROW, profile

PATH = "/w/k.hip.j2"


def notes(kernel: KernelProfile, before: KernelProfile | None = None, path: str = PATH) -> list[tuple[int, str]]:
    return [(note.line, note.label) for note in template_profile(profile(kernel, before), path).notes]


def test_losses_come_first_then_lines_with_many_instructions() -> None:
    many = [figures(issued=100 - number) for number in range(MOST_LINES)]
    found = notes(profile_with(*many, COLUMN))
    assert [line for line, _ in found] == [0, 1, 2, 3, 4, MOST_LINES]
    assert (found[-1][1], found[0][1]) == ("32-way LDS conflict", "17 % of instructions")


def test_lines_of_other_files_are_not_shown() -> None:
    assert notes(profile_with(COLUMN), path="/w/other.hip.j2") == []


def test_a_line_without_weight_has_no_hint() -> None:
    assert [line for line, _ in notes(profile_with(figures(issued=1000), figures(issued=10, lanes=640)))] == [0]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ROW, COLUMN, "LDS conflict 1 → 32 ways since the last build"),
        (COLUMN, ROW, "LDS conflict 32 → 1 ways since the last build"),
        (replace(COLUMN, counts=replace(COLUMN.counts, turns=1280)), COLUMN, "32-way LDS conflict"),
        (
            figures(issued=1, lanes=64),
            figures(issued=10, lanes=640),
            "issues per workgroup 1 → 10 since the last build",
        ),
    ],
)
def test_what_changed_is_said_unless_what_is_lost_got_better(before: object, after: object, expected: str) -> None:
    rest = figures(issued=400, lanes=400 * 64)
    found = notes(profile_with(rest, after), profile_with(rest, before))  # type: ignore[arg-type]
    assert dict(found)[1] == expected


def in_header(kernel: KernelProfile) -> KernelProfile:
    """Its second line is one of a header, which the first calls."""
    called, inner = kernel.lines[:2]
    lines = (replace(called, total=kernel.total), replace(inner, path="/ck/gemm.hpp", line=254, in_template=False))
    return replace(kernel, lines=lines, chains=((1, 0),))


def test_a_loss_in_a_header_stands_at_the_line_that_calls_it() -> None:
    known = template_profile(profile(in_header(profile_with(figures(), COLUMN))), PATH)
    assert [(note.line, note.label) for note in known.notes] == [(0, "32-way LDS conflict in gemm.hpp:255")]
    assert "/ck/gemm.hpp:255: 32-way LDS conflict: lanes" in plain(line_page([("one", known)], 0))


def test_a_change_of_what_hardly_counts_is_not_said() -> None:
    rest, now, before = (figures(issued=issued, lanes=64 * issued) for issued in (1000, 10, 8))
    assert dict(notes(profile_with(rest, now), profile_with(rest, before))).keys() == {0}


def test_a_hover_has_all_figures_and_the_loops() -> None:
    kernel = profile_with(figures(), COLUMN)
    loop = ProfiledLoop(header=0, depth=1, parent=None, main=True, rounds=640, figures=COLUMN)
    instructions = tuple(
        ProfiledInstruction(address=number, text="s_nop 0", counts=InstructionCounts(issued, 0), at=1, loop=loop)
        for number, (issued, loop) in enumerate(((9, 0), (1, None)))
    )
    kernel = replace(kernel, loops=(loop,), instructions=instructions)
    known = template_profile(profile(kernel), PATH)
    text = plain(line_page([("one", known), ("two", known)], 1))
    assert "32-way LDS conflict: lanes that are served together" in text
    assert "90 % in loop 1 (the main loop, 640 rounds), 10 % outside of loops" in text
    assert "counted on 1 of 1 workgroups of M=64 (emulated gfx942); no times" in text
    assert [row.split()[:4] for row in text.splitlines() if row.startswith(("one", "two"))] == [
        ["one", "9.1", "%", "10"], ["two", "9.1", "%", "10"],
    ]  # fmt: skip
    assert line_page([("one", known)], 7) == []


@pytest.mark.parametrize(
    ("kernel", "before", "expected"),
    [
        (profile_with(figures(), COLUMN), None, "profile: 100 % of instructions in 2 lines; 32-way LDS conflict"),
        (
            profile_with(figures(), COLUMN, COLUMN),
            profile_with(figures(), COLUMN, ROW),
            "profile: 100 % of instructions in 3 lines; 32-way LDS conflict, 1 other loss; 1 line worse since the last build",
        ),
        (profile_with(*[figures(issued=1)] * 6), None, "profile: 50 % of instructions in 3 lines"),
        (profile_with(), None, ""),
    ],
)
def test_a_summary(kernel: KernelProfile, before: KernelProfile | None, expected: str) -> None:
    assert summary(profile(kernel, before)) == expected


def test_the_whole_profile_lists_lines_and_loops() -> None:
    text = plain(profile_page(profile(product_profile())))
    assert "data/isa/templates/product.hip.j2:18".rpartition("data/")[2] in text
    assert "rounds, the main loop" in text
    assert "counted on 2 of 16 workgroups" in text


def test_what_a_device_saw_of_a_line_is_beside_its_counts() -> None:
    line = LineWeight(
        path=PATH, line=0, weight=30, issued=6, executed=0, stalls={"waitcnt": 18, "barrier wait": 6}, instructions=2
    )
    sampled = UnitDeviceProfile(
        unit="k/one@gfx942", artifact_key="0123456789ab", source="rocprofv3, hip:0", device="AMD Instinct MI300X",
        method="PC sampling, stochastic", weighed_by="samples", shape_name="small", total=120, lines=(line,),
    )  # fmt: skip
    counted = profile(profile_with(COLUMN))
    words = "sampled (rocprofv3, hip:0, AMD Instinct MI300X, build 01234567): 25.0 % of 120 samples, not issued: "
    assert said_of_line(replace(counted, on_device=sampled)).count(f"{words}60 % waitcnt, 20 % barrier wait")
    other = replace(sampled, other_build="1 of 2 samples are of others")
    assert "build 01234567, of another build)" in said_of_line(replace(counted, on_device=other))
    elsewhere = replace(sampled, lines=(replace(line, line=7),))
    assert "sampled" not in said_of_line(replace(counted, on_device=elsewhere))
    assert "sampled" not in said_of_line(counted)


def said_of_line(found: UnitProfile) -> str:
    return plain(line_page([("one", template_profile(found, PATH))], 0))
