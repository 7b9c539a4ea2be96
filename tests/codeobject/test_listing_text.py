"""Listings as editors show them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.checks.clang_output import ClangPosition
from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.disassembly import DisassembledFunction, functions
from ckwatch.codeobject.listing import listing_of
from ckwatch.codeobject.listing_text import isa_view
from ckwatch.codeobject.main_loop import main_loop
from ckwatch.codeobject.source_lines import (
    CallChain,
    SourceFrame,
    call_chains_of,
    move_call_chains,
    same_instructions,
    transfer_call_chains,
)
from ckwatch.model.isa import IsaView
from ckwatch.model.text import Position
from ckwatch.render.renderer import Renderer
from helpers.units import unit

ISA = Path(__file__).parents[1] / "data" / "isa"
TEMPLATES = ISA / "templates"


@pytest.fixture(scope="module")
def function() -> DisassembledFunction:
    (found,) = functions((ISA / "product.objdump.txt").read_text())
    return found


@pytest.fixture(scope="module")
def frames() -> dict[int, CallChain]:
    return call_chains_of((ISA / "product.symbolizer.jsonl").read_text())


@pytest.fixture(scope="module")
def rendered() -> RenderedFile:
    outcome = Renderer((TEMPLATES,)).render(unit("product.hip.j2", KPerBlock=32))
    assert outcome.rendered is not None
    return RenderedFile("/ws/product.hip", outcome.rendered.source_map)


@pytest.fixture(scope="module")
def product(function: DisassembledFunction, frames: dict[int, CallChain], rendered: RenderedFile) -> IsaView:
    main = main_loop(function, 64, "gfx942").loop
    return isa_view(listing_of(function, name="product", main=main, frames=frames, rendered=rendered), rendered)


def test_all_but_instructions_and_labels_are_comments(product: IsaView) -> None:
    known = {line.line for line in product.lines}
    for number, text in enumerate(product.text.removesuffix("\n").split("\n")):
        stripped = text.strip()
        assert stripped.startswith(";") != (number in known or stripped.endswith(":")), text


def test_a_line_for_each_instruction(product: IsaView, function: DisassembledFunction) -> None:
    texts = product.text.split("\n")
    assert [line.mnemonic for line in product.lines] == [
        each.mnemonic for each in function.instructions[: len(product.lines)]
    ]
    for line in product.lines:
        words = texts[line.line].split()
        assert (int(words[0], 16) > 0, words[1]) == (True, line.mnemonic)


def test_where_a_matrix_instruction_came_from(product: IsaView) -> None:
    line = next(line for line in product.lines if "mfma" in line.mnemonic)
    # product.hip:30 calls CK's wrapper of the intrinsic; the template's line is 22
    assert line.rendered == 29
    assert line.span is not None
    assert (line.span.path, line.span.start) == (str(TEMPLATES / "product.hip.j2"), Position(21, 12))
    assert line.header == ""  # CK's wrappers say nothing
    assert product.has_lines


def test_folds(product: IsaView) -> None:
    whole, *others = product.folds
    assert (whole.kind, whole.start, whole.end) == ("function", 0, product.text.count("\n") - 1)
    assert whole.label == "product: 100 instructions"
    assert [(fold.kind, fold.main) for fold in others] == [("block", False), ("loop", True), ("block", False)]
    loop = others[1]
    assert loop.label.startswith("main loop L1, 34 instructions: 4 mfma")
    inside = [line.mnemonic for line in product.lines if loop.start <= line.line <= loop.end]
    assert sum("mfma" in mnemonic for mnemonic in inside) == 4


def test_explanations_once_for_each_mnemonic_but_for_what_operands_add(product: IsaView) -> None:
    waits = {line.explanation for line in product.lines if line.mnemonic == "s_waitcnt"}
    assert "waits until no LDS or scalar memory operation is outstanding" in waits
    assert product.mnemonics["s_endpgm"] == "end of the kernel for this wave"
    assert all(not line.explanation for line in product.lines if line.mnemonic == "s_endpgm")
    assert set(product.mnemonics) == {line.mnemonic for line in product.lines}


def test_without_lines(function: DisassembledFunction) -> None:
    found = isa_view(listing_of(function))
    assert not found.has_lines
    assert all((line.rendered, line.span, line.header) == (None, None, "") for line in found.lines)


def test_a_header_is_a_place_where_no_template_is(function: DisassembledFunction) -> None:
    first = function.instructions[0].address
    chain = (SourceFrame("f", "/ck/include/ck/tensor_operation/a.hpp", 7), SourceFrame("g", "kernel.hip", 3))
    found = isa_view(listing_of(function, frames={first: chain})).lines[0]
    assert found.header == "/ck/include/ck/tensor_operation/a.hpp:7"
    assert found.span is not None
    assert (found.span.path, found.span.start) == ("/ck/include/ck/tensor_operation/a.hpp", Position(6, 0))


def test_the_same_code_elsewhere(function: DisassembledFunction, frames: dict[int, CallChain]) -> None:
    elsewhere = replace(
        function, instructions=tuple(each._replace(address=each.address + 64) for each in function.instructions)
    )
    assert same_instructions(function, elsewhere)
    assert transfer_call_chains(frames, function, elsewhere) == {
        address + 64: chain for address, chain in frames.items()
    }
    assert not same_instructions(function, replace(function, instructions=function.instructions[1:]))
    other = (function.instructions[0]._replace(text="s_nop 1"), *function.instructions[1:])
    assert not same_instructions(function, replace(function, instructions=other))


def test_moved_lines(frames: dict[int, CallChain]) -> None:
    found = move_call_chains(frames, "/ws/product.hip", lambda place: ClangPosition(place.line + 10, place.column))
    assert found.keys() == frames.keys()
    for address, chain in frames.items():
        for before, after in zip(chain, found[address], strict=True):
            assert after.line - before.line == (10 if before.path == "/ws/product.hip" else 0)
            assert (after.path, after.column, after.function) == (before.path, before.column, before.function)
