"""The listing of a kernel: rows, loops, folds and text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases.disassemblies import function_of
from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.disassembly import DisassembledFunction, functions
from ckwatch.codeobject.listing import Listing, line_shares, listing_of
from ckwatch.codeobject.listing_text import ListingText
from ckwatch.codeobject.main_loop import main_loop
from ckwatch.codeobject.report import MainLoop
from ckwatch.codeobject.source_lines import CallChain, SourceFrame, call_chains_of
from ckwatch.render.renderer import Renderer
from helpers.units import unit

ISA = Path(__file__).parents[1] / "data" / "isa"
ROOTS = {"ck": "/ck/include", "ws": "/ws"}


def product() -> DisassembledFunction:
    (function,) = functions((ISA / "product.objdump.txt").read_text())
    return function


def product_lines() -> dict[int, CallChain]:
    return call_chains_of((ISA / "product.symbolizer.jsonl").read_text())


def product_rendered() -> RenderedFile:
    outcome = Renderer((ISA / "templates",)).render(unit("product.hip.j2", KPerBlock=32))
    assert outcome.rendered is not None
    return RenderedFile("/ws/product.hip", outcome.rendered.source_map)


def main_of(function: DisassembledFunction) -> MainLoop | None:
    return main_loop(function, 64, "gfx942").loop


def function_from(*instructions: str, symbol: str = "kernel") -> DisassembledFunction:
    """A function of four-byte instructions from address 0x100 on; a branch names the number of the one it goes to."""
    lines = [f"0000000000000100 <{symbol}>:"]
    for number, text in enumerate(instructions):
        mnemonic, _, to = text.partition(" ")
        words = 0
        if mnemonic.startswith(("s_branch", "s_cbranch")):
            words = (int(to) - number - 1) & 0xFFFF
            text = f"{mnemonic} {words}"
        lines.append(f"\t{text}  // {0x100 + 4 * number:012X}: BF80{words:04X}")
    (function,) = functions("\n".join(lines))
    return function


def uncommented(line: str) -> str:
    """The line without the `;` that editors want before a heading, a note and an explanation."""
    line = re.sub(r"^(; |( *); (?=▾))", r"\2", line)
    return re.sub(r"^( *[0-9a-f]{6}  .*?  +); ", r"\1", line)


def folded_lines(document: ListingText) -> Iterator[str]:
    """The lines with only the main loop open, each closed fold as its marked first line; without a main loop, all."""
    with_main = any(fold.main for fold in document.folds)
    closed = {fold.start: fold.end for fold in document.folds if with_main and not fold.main}
    line = 0
    while line < len(document.lines):
        last = closed.get(line)
        text = uncommented(document.lines[line])
        yield text if last is None else text.replace("▾", "▸", 1)
        line = line + 1 if last is None else last + 1


def shown(listing: Listing, **options: Any) -> list[str]:
    """The folded lines, without the explanations."""
    lines = folded_lines(ListingText(listing, **options))
    return [re.sub(r"^( *[0-9a-f]{6}  .+?)  .*$", r"\1", line) for line in lines]


NESTED = function_from(
    "s_mov_b32 s0, 0",
    "s_add_i32 s0, s0, 1",  # the outer loop
    "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",  # the inner one
    "s_cbranch_scc1 2",
    "s_cmp_lt_i32 s0, s1",
    "s_cbranch_scc1 1",
    "s_endpgm",
    "s_nop 0",
    "s_nop 0",
)


def test_nested_loops() -> None:
    listing = listing_of(NESTED, name="nested", main=main_of(NESTED))
    assert [row.loop for row in listing.rows] == [None, 0, 1, 1, 0, 0, None]
    assert [(loop.header, loop.depth, loop.parent, loop.main) for loop in listing.loops] == [
        (1, 1, None, False),
        (2, 2, 0, True),
    ]
    assert listing.loops[0].mix == {"mfma": 1, "salu": 2, "branch": 2}
    assert shown(listing) == [
        "nested: 7 instructions",
        "▸ 1 instruction: 1 salu",
        "▾ loop L1, 5 instructions: 1 mfma, 2 salu, 2 branch",
        "    L1:",
        "    000104  s_add_i32 s0, s0, 1",
        "  ▾ main loop L2, 2 instructions: 1 mfma, 1 branch",
        "      L2:",
        "      000108  v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",
        "      00010c  s_cbranch_scc1 L2",
        "    000110  s_cmp_lt_i32 s0, s1",
        "    000114  s_cbranch_scc1 L1",
        "▸ 1 instruction: 1 other",
    ]


def test_a_loop_in_parts() -> None:
    """The compiler may put a rare path behind the code that follows the loop."""
    function = function_from(
        "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",
        "s_cbranch_vccnz 5",
        "s_cbranch_scc1 0",
        "global_store_dword v0, v1, s[0:1]",
        "s_endpgm",
        "v_mov_b32_e32 v0, 0",
        "s_branch 2",
    )
    listing = listing_of(function, name="parts", main=main_of(function))
    assert shown(listing) == [
        "parts: 7 instructions",
        "▾ main loop L1, 3 instructions: 1 mfma, 2 branch",
        "    L1:",
        "    000100  v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",
        "    000104  s_cbranch_vccnz B2",
        "    B1:",
        "    000108  s_cbranch_scc1 L1",
        "▸ 2 instructions: 1 global store, 1 other",
        "▾ main loop L1 goes on, 2 instructions: 1 valu, 1 branch",
        "    B2:",
        "    000114  v_mov_b32_e32 v0, 0",
        "    000118  s_branch B1",
    ]


def test_without_a_main_loop_all_is_open() -> None:
    function = function_from("v_mov_b32_e32 v0, 0", "s_endpgm")
    assert shown(listing_of(function, name="straight")) == [
        "straight: 2 instructions",
        "▾ 2 instructions: 1 valu, 1 other",
        "  000100  v_mov_b32_e32 v0, 0",
        "  000104  s_endpgm",
    ]


def test_each_explanation_once_in_a_fold() -> None:
    move = "v_mov_b32_e32 v0, 0"
    listing = listing_of(function_from(move, move, "v_mov_b32_e32 v1, 0", "s_cbranch_scc1 2", move))

    document = ListingText(listing)
    lines = [line for line, row in zip(document.lines, document.rows, strict=True) if row is not None]
    assert ["D = A, 32 bits" in line for line in lines if "v_mov" in line] == [True, False, True, True]


def test_notes() -> None:
    assert listing_of(DisassembledFunction("k", 0, ())).notes == ("no instructions in the disassembly",)
    odd = function_from("v_unheard_of_f32 v0, v1", "s_nop 0", "v_new_b32 v0", "s_endpgm")
    assert listing_of(odd).notes == ("not explained: v_new_b32, v_unheard_of_f32",)
    assert listing_of(DisassembledFunction("k", 0, odd.instructions[1:2], unknown=3)).notes == (
        "3 words that the disassembler does not know are not shown",
    )
    assert listing_of(NESTED, frames={}).notes == ("no source lines: the code object was compiled without line tables",)
    assert listing_of(NESTED, frames={0x100: (SourceFrame("f", "/ws/a.hip", 1),)}).notes == (
        "6 of 7 instructions have no source line",
    )


def test_an_empty_kernel_is_a_document() -> None:
    assert tuple(ListingText(listing_of(DisassembledFunction("k", 0, ()))).lines) == (
        "; k: 0 instructions",
        ";   no instructions in the disassembly",
    )


def test_a_branch_out_of_the_function_has_no_target() -> None:
    listing = listing_of(function_from("s_branch 5000", "s_endpgm"))
    assert listing.rows[0].target is None
    assert shown(listing)[2] == "  000100  s_branch 4999"


@pytest.fixture(scope="module")
def compiled() -> Listing:
    function = product()
    return listing_of(
        function, name="product", main=main_of(function), frames=product_lines(), rendered=product_rendered()
    )


def test_a_compiled_kernel(compiled: Listing) -> None:
    """From the template to the matrix instruction and back."""
    assert len(compiled.rows) == 100  # without the fill behind s_endpgm
    assert compiled.notes == ("19 of 100 instructions have no source line",)
    (loop,) = compiled.loops
    assert loop.main
    assert loop.mix["mfma"] == 4
    row = next(row for row in compiled.rows if "mfma" in row.instruction.mnemonic)
    assert row.loop == 0
    assert [frame.line for frame in row.steps] == [30]
    assert row.place is not None
    assert row.place.span.path.endswith("product.hip.j2")
    assert row.place.span.start.line == 21


def test_the_text_of_a_compiled_kernel(compiled: Listing) -> None:
    lines = [line.replace(str(ISA), "/isa") for line in folded_lines(ListingText(compiled, roots=ROOTS))]
    assert lines[:13] == [
        "product: 100 instructions",
        "  19 of 100 instructions have no source line",
        "▸ 28 instructions: 20 valu, 3 salu, 2 wait, 2 other, 1 branch",
        "▾ main loop L1, 34 instructions: 4 mfma, 8 global load, 7 wait, 4 salu, 4 lds read, 4 lds write",
        "    ; 8 global load, 4 lds write, 4 wait, 2 valu, 1 salu: product.hip:11 load_tile ← /isa/templates/loading.hip.j2:5:87",
        "    ; 4 mfma, 1 wait: product.hip:30 product ← /isa/templates/product.hip.j2:22:13",
        "    ; 3 salu, 1 branch: product.hip:21 product ← /isa/templates/product.hip.j2:15:30",
        "    ; 4 lds read: product.hip:29 product ← /isa/templates/product.hip.j2:21:9",
        "    ; 1 wait: product.hip:28 product ← /isa/templates/product.hip.j2:20:9",
        "    ; 1 wait: product.hip:33 product ← /isa/templates/product.hip.j2:25:9",
        "    ; product.hip:11 load_tile ← /isa/templates/loading.hip.j2:5:87",
        "    L1:",
        "    001780  s_lshl_b64 s[6:7], s[2:3], 3                              scalar: D = A << B, 64 bits; SCC: D ≠ 0",
    ]
    at = next(index for index, line in enumerate(lines) if "v_mfma" in line)
    assert lines[at - 2 : at + 3] == [
        "    ; product.hip:30 product ← /isa/templates/product.hip.j2:22:13",
        "    001834  s_waitcnt lgkmcnt(2)                                      waits until at most 2 LDS or scalar memory operations are outstanding",
        "    001838  v_mfma_f32_32x32x8_f16 v[2:17], v[24:25], v[28:29], v[2:17]  matrix unit: D = A · B + C, 32×32×8, f16 summed as f32; 16,384 FLOPs a wave",
        "    ; product.hip:33 product ← /isa/templates/product.hip.j2:25:9",
        "    001840  s_waitcnt lgkmcnt(0)",
    ]
    assert lines[-1] == "▸ 38 instructions: 17 valu, 16 global store, 3 other, 1 wait, 1 branch"


def test_shares_add_up_to_the_loop(compiled: Listing) -> None:
    total: Counter[str] = Counter()
    for share in line_shares(compiled, 0):
        total.update(share.mix)
    assert total == compiled.loops[0].mix


def test_shares_of_a_loop_hold_those_of_inner_loops() -> None:
    at = {
        0x104: (SourceFrame("f", "/ws/a.hip", 1),),
        0x108: (SourceFrame("f", "/ws/a.hip", 2),),
        0x10C: (SourceFrame("f", "/ws/a.hip", 2, 9),),
    }
    listing = listing_of(NESTED, frames=at)
    assert [(share.steps[0].line, share.mix) for share in line_shares(listing, 0)] == [
        (2, {"mfma": 1, "branch": 1}),
        (1, {"salu": 1}),
    ]
    assert [share.steps[0].line for share in line_shares(listing, 1)] == [2]
    assert line_shares(listing_of(NESTED), 0) == ()


def test_many_places_are_cut_short() -> None:
    at = {0x104 + 4 * number: (SourceFrame("f", "/ws/a.hip", number + 1),) for number in range(10)}
    function = function_from(
        "s_nop 0", *["v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]"] * 9, "s_cbranch_scc1 1"
    )
    lines = ListingText(listing_of(function, main=main_of(function), frames=at)).lines
    assert "    ; 2 instructions from 2 more places" in lines


def check(listing: Listing, document: ListingText) -> None:
    """Each row is shown once and in order; folds are nested or apart and end where their loop's instructions end."""
    assert [row for row in document.rows if row is not None] == list(range(len(listing.rows)))
    assert len(document.rows) == len(document.lines)
    open_until: list[int] = []
    for fold in document.folds:
        assert fold.start < fold.end < len(document.lines)
        while open_until and open_until[-1] < fold.start:
            open_until.pop()
        assert not open_until or fold.end <= open_until[-1]
        assert document.lines[fold.start].index("; ▾") == 2 * len(open_until)
        open_until.append(fold.end)
    kept = [line.replace("▸", "▾", 1) for line in folded_lines(document)]
    everything = map(uncommented, document.lines)
    assert all(line in everything for line in kept)  # some of the lines, in their order
    main_rows = {
        index for index, row in enumerate(listing.rows) if row.loop is not None and listing.loops[row.loop].main
    }
    hidden = _hidden(document)
    assert not main_rows & {row for line in hidden if (row := document.rows[line]) is not None}


def _hidden(document: ListingText) -> set[int]:
    if not any(fold.main for fold in document.folds):
        return set()
    return {line for fold in document.folds if not fold.main for line in range(fold.start + 1, fold.end + 1)}


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        ("gemm_f16.v1_16x16x128.gfx942", "gemm_universalILb1E"),
        ("gemm_f16.v3_128x128x64.gfx950", "gemm_universalILb1E"),
        ("wmma.gfx1100", ""),
    ],
)
def test_kernels_of_the_examples(name: str, symbol: str) -> None:
    function = function_of(name, symbol)
    listing = listing_of(function, main=main_of(function))
    assert sum(loop.main for loop in listing.loops) == 1
    assert not any(note.startswith("not explained") for note in listing.notes)
    check(listing, ListingText(listing))


STEPS: Mapping[str, str] = {
    "work": "v_add_f32_e32 v0, v0, v1",
    "matrix": "v_mfma_f32_32x32x8_f16 a[0:15], v[0:1], v[2:3], a[0:15]",
    "end": "s_endpgm",
    "jump": "s_branch",
    "branch": "s_cbranch_scc1",
}


@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 30)), min_size=1, max_size=30))
def test_any_control_flow_can_be_listed(steps: list[tuple[str, int]]) -> None:
    function = function_from(
        *(f"{STEPS[kind]} {to % len(steps)}" if kind in ("jump", "branch") else STEPS[kind] for kind, to in steps)
    )
    listing = listing_of(function, main=main_of(function))
    check(listing, ListingText(listing))
