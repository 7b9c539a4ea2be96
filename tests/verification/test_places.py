"""Lines of templates and headers for what the emulator found."""

from __future__ import annotations

from pathlib import Path

from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.source_lines import SourceFrame
from ckwatch.model.source_map import Segment, Site, SiteKind, SourceMap
from ckwatch.model.text import Position, Span, span
from ckwatch.model.verification import EmulatedFinding, FindingKind, Verification
from ckwatch.verification.places import CallPlace, ProgramPlace, place_findings, place_in_program

TEXT = "store(x);\n"
HEADER = "/ck/include/ck/tensor_operation/gpu/grid/gridwise_gemm.hpp"
MOVE = "/ck/include/ck/tensor_operation/gpu/thread/threadwise_tensor_slice_transfer.hpp"
TEMPLATE = str(Path("/ws/t.hip.j2"))
SITE = Site(SiteKind.TEXT, span(TEMPLATE, 4, 0, 4, len(TEXT)), "")
RENDERED = RenderedFile(
    "kernel.hip", SourceMap(TEXT, [Segment(0, len(TEXT), SITE, -1, Position(4, 0), verbatim=True)], ())
)
FRAMES = {
    0x10: (SourceFrame("f", "kernel.hip", 1, 1),),
    0x20: (SourceFrame("Run", HEADER, 883, 5), SourceFrame("f", "kernel.hip", 1, 1)),
    0x28: (SourceFrame("Run", MOVE, 1392, 5), SourceFrame("Run", HEADER, 327, 9), SourceFrame("f", "kernel.hip", 1, 1)),
    0x2C: (SourceFrame("Run", MOVE, 1392, 5),),
    0x30: (SourceFrame("f", "relative/header.hpp", 3, 1),),
}


def verification(kernel: str, address: int | None, other: int | None = None) -> Verification:
    finding = EmulatedFinding(
        kind=FindingKind.LDS_RACE, message="", problem="exact", kernel=kernel, workgroup=(0, 0, 0), wave=0, lane=None,
        instruction="ds_read_b32 v0, v1", code_address=address, other_code_address=other,
    )  # fmt: skip
    return Verification(device="emulated:gfx942", problems=(), findings=(finding,))


def placed(address: int | None, other: int | None = None, rendered: RenderedFile | None = RENDERED) -> EmulatedFinding:
    return place_findings(verification("k", address, other), "k", FRAMES, rendered).findings[0]


def test_own_code_is_placed_in_the_template_and_the_librarys_in_its_header() -> None:
    found = placed(0x10, 0x20)
    assert found.place is not None
    assert (found.place.path, found.place.start) == (TEMPLATE, Position(4, 0))
    assert found.other_place == Span(HEADER, Position(882, 0), Position(882, 0))


def test_the_line_that_moves_a_tile_stands_for_the_loop_that_does_it() -> None:
    assert placed(0x28, 0x2C).place == Span(HEADER, Position(326, 0), Position(326, 0))
    assert placed(0x28, 0x2C).other_place == Span(MOVE, Position(1391, 0), Position(1391, 0))


def test_what_is_not_known_has_no_place() -> None:
    assert placed(0x40).place is None
    assert placed(0x30).place is None
    assert placed(None).place is None
    assert placed(0x10, rendered=None).place is None


def test_findings_of_another_kernel_stay_as_they_are() -> None:
    other = verification("other", 0x10)
    assert place_findings(other, "k", FRAMES, RENDERED) == other


PROGRAM = {"/p/a.hip": ["  y[i + 1] = v;", "", "\tassert(x < n);"]}
HIP = SourceFrame("__assert_fail", "/rocm/include/hip/amd_detail/hip_assert.h", 74, 3)


def read_line(path: str, line: int) -> str | None:
    lines = PROGRAM.get(path, [])
    return lines[line] if line < len(lines) else None


def test_a_program_has_lines_with_columns_and_the_calls_around_them() -> None:
    put, caller = SourceFrame("put", "/p/a.hip", 1, 12), SourceFrame("ns::shift", "/p/b.hip", 9, 3)
    found = place_in_program((put, caller), "", read_line)
    at = Span("/p/a.hip", Position(0, 11), Position(0, 12))
    call = CallPlace("ns::shift", Span("/p/b.hip", Position(8, 2), Position(8, 2)))
    assert found == ProgramPlace(at, (call,))
    assert place_in_program((), "", read_line) is None


def test_a_failed_assertion_stands_where_it_is_written() -> None:
    note = "/p/a.hip:3: void f(int): Device-side assertion `x < n' failed."
    at = Span("/p/a.hip", Position(2, 1), Position(2, 15))
    assert place_in_program((HIP,), note, read_line) == ProgramPlace(at)
    assert place_in_program((), note, read_line) == ProgramPlace(at)
