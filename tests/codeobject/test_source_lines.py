"""From addresses to source lines, to the calls that say something, and to the template."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.source_lines import (
    CallChain,
    SourceFrame,
    call_chains_of,
    place_in_template,
    plain_name,
    short_path,
    significant_calls,
    symbolizer_calls,
)
from ckwatch.model.source_map import Segment, Site, SiteKind, SourceMap
from ckwatch.model.text import Position, span
from ckwatch.render.renderer import Renderer
from helpers.each_row import each_row
from helpers.units import unit

ISA = Path(__file__).parents[1] / "data" / "isa"
TEMPLATES = ISA / "templates"
MFMA, LOAD, BARRIER = 0x1838, 0x1794, 0x1810


@pytest.fixture(scope="module")
def frames() -> dict[int, CallChain]:
    return call_chains_of((ISA / "product.symbolizer.jsonl").read_text())


@pytest.fixture(scope="module")
def rendered() -> RenderedFile:
    """The template as the real engine renders it, under the path that it was compiled at."""
    outcome = Renderer((TEMPLATES,)).render(unit("product.hip.j2", KPerBlock=32))
    assert outcome.rendered is not None
    assert outcome.rendered.text == (ISA / "product.hip").read_text()
    return RenderedFile("/ws/product.hip", outcome.rendered.source_map)


def test_calls_around_a_matrix_instruction(frames: dict[int, CallChain]) -> None:
    assert frames[MFMA] == (
        SourceFrame("Run", "/ck/include/ck/utility/amd_xdlops.hpp", 187, 59),
        SourceFrame("operator()", "/ws/product.hip", 30, 13),
        SourceFrame("operator()", "/ck/include/ck/utility/functional2.hpp", 60, 10),
        SourceFrame("product", "/ws/product.hip", 29, 9),
    )


def test_instructions_without_a_line_are_left_out(frames: dict[int, CallChain]) -> None:
    told = [json.loads(line) for line in (ISA / "product.symbolizer.jsonl").read_text().splitlines()]
    without = {int(entry["Address"], 0) for entry in told if not entry["Symbol"][0]["Line"]}
    assert 0x1948 in without  # the fill behind the end
    assert frames.keys() == {int(entry["Address"], 0) for entry in told} - without


def test_damage_costs_lines_and_no_more(frames: dict[int, CallChain]) -> None:
    lines = (ISA / "product.symbolizer.jsonl").read_text().splitlines()
    at = next(index for index, line in enumerate(lines) if f'"{MFMA:#x}"' in line)
    damaged = [*lines[:at], lines[at][:200], "warning: no debug info", '{"Address":"x","Symbol":[]}', *lines[at + 1 :]]
    found = call_chains_of("\n".join(damaged))
    assert found == {address: chain for address, chain in frames.items() if address != MFMA}
    assert call_chains_of("") == {}
    assert (
        call_chains_of('{"Address":"0x10","Symbol":[{"Line":"one"}]}\n{"Error":{"Message":"no such file"}}\n[]') == {}
    )


def test_addresses_as_arguments_are_answered_by_one_list(frames: dict[int, CallChain]) -> None:
    lines = (ISA / "product.symbolizer.jsonl").read_text().splitlines()
    assert call_chains_of(f"[{','.join(lines)}]\n") == frames
    assert call_chains_of(f"[{','.join(lines)}") == frames
    odd = r"""[{"Address":"0x10","Symbol":[{"Column":1,"FileName":"/a","FunctionName":"f<\"{\\\"Address\\\":\">","Line":2}]}]"""
    assert [chain[0].path for chain in call_chains_of(odd).values()] == ["/a"]


def test_steps_leave_out_building_blocks(frames: dict[int, CallChain]) -> None:
    assert significant_calls(frames[MFMA]) == (SourceFrame("product", "/ws/product.hip", 30, 13),)


def test_steps_of_a_gemm() -> None:
    """Recorded output of llvm-symbolizer for a `buffer_load_dwordx4` in `DeviceGemm_Xdl_CShuffle`, without some `static_for`."""
    gpu, utility = "/ck/include/ck/tensor_operation/gpu", "/ck/include/ck/utility"
    chain = (
        SourceFrame("amd_buffer_load_impl_raw", f"{utility}/amd_buffer_addressing_builtins.hpp", 179),
        SourceFrame("Get", f"{utility}/dynamic_buffer.hpp", 101),
        SourceFrame("operator()", f"{gpu}/thread/threadwise_tensor_slice_transfer_v3r1.hpp", 294),
        SourceFrame("operator()", f"{utility}/functional2.hpp", 60),
        SourceFrame("operator()", f"{gpu}/thread/threadwise_tensor_slice_transfer_v3r1.hpp", 283),
        SourceFrame("operator()", f"{utility}/functional3.hpp", 110),
        SourceFrame("RunRead", f"{gpu}/thread/threadwise_tensor_slice_transfer_v3r1.hpp", 172),
        SourceFrame("RunRead", f"{gpu}/block/thread_group_tensor_slice_transfer_v4r1.hpp", 126),
        SourceFrame("Run", f"{gpu}/grid/gridwise_gemm_pipeline_v1.hpp", 80),
        SourceFrame("Run", f"{gpu}/grid/gridwise_gemm_xdl_cshuffle_v1.hpp", 883),
        SourceFrame("ck::kernel_gemm_xdl_cshuffle_v1", f"{gpu}/grid/gridwise_gemm_xdl_cshuffle_v1.hpp", 33),
    )
    shown = [f"{frame.path.rpartition('/')[2]}:{frame.line} {frame.function}" for frame in significant_calls(chain)]
    assert shown == [
        "gridwise_gemm_xdl_cshuffle_v1.hpp:883 Run",
        "gridwise_gemm_pipeline_v1.hpp:80 Run",
        "thread_group_tensor_slice_transfer_v4r1.hpp:126 RunRead",
        "threadwise_tensor_slice_transfer_v3r1.hpp:294 RunRead",
    ]


def test_building_blocks_alone_are_shown_by_the_innermost() -> None:
    only = (
        SourceFrame("Get", "/ck/include/ck/utility/tuple.hpp", 8),
        SourceFrame("", "/ck/include/ck/utility/functional2.hpp", 60),
    )
    assert significant_calls(only) == only[:1]
    assert significant_calls(()) == ()


@pytest.mark.parametrize(
    ("address", "path", "start", "linked"),
    [
        (MFMA, "product.hip.j2", Position(21, 12), []),
        (BARRIER, "product.hip.j2", Position(19, 8), []),
        (LOAD, "loading.hip.j2", Position(4, 86), ['called here: `load("load_tile", KPerBlock)`']),
    ],
)
def test_places_in_templates(
    frames: dict[int, CallChain], rendered: RenderedFile, address: int, path: str, start: Position, linked: list[str]
) -> None:
    place = place_in_template(frames[address], rendered)
    assert place is not None
    assert place.span.path == str(TEMPLATES / path)
    assert place.span.start == start
    assert [related.message for related in place.chain] == linked
    assert not place.approximate


def test_every_line_of_the_rendered_file_leads_to_a_template(
    frames: dict[int, CallChain], rendered: RenderedFile
) -> None:
    for chain in set(frames.values()):
        inside = any(frame.path == "/ws/product.hip" for frame in chain)
        assert (place_in_template(chain, rendered) is not None) == inside


def test_lines_in_headers_alone_have_no_place(rendered: RenderedFile) -> None:
    assert place_in_template((SourceFrame("f", "/ck/include/ck/ck.hpp", 5, 1),), rendered) is None
    assert place_in_template((), rendered) is None


def test_a_source_beside_its_compilation_folder(rendered: RenderedFile) -> None:
    """With `-ffile-compilation-dir=.`, as the daemon compiles, the source has no folder."""
    told = '{"Address":"0x10","Symbol":[{"Column":13,"FileName":"./kernel.hip","FunctionName":"f","Line":30}]}'
    (chain,) = call_chains_of(told).values()
    assert chain == (SourceFrame("f", "kernel.hip", 30, 13),)
    place = place_in_template(chain, RenderedFile("kernel.hip", rendered.source_map))
    assert place is not None
    assert place.span.start == Position(21, 12)


@pytest.mark.parametrize(("line", "column"), [(0, 0), (0, 5), (10_000, 1)])
def test_lines_that_the_file_does_not_have(rendered: RenderedFile, line: int, column: int) -> None:
    assert place_in_template((SourceFrame("f", "/ws/product.hip", line, column),), rendered) is None


@pytest.mark.parametrize(("column", "start"), [(0, 2), (9, 6), (10, 7), (400, 9)])
def test_columns_are_bytes(column: int, start: int) -> None:
    """ö and ß have two bytes; without a column the whole line is meant, past its end the last character."""
    text = "  größe(x)"
    site = Site(SiteKind.TEXT, span("/ws/t.j2", 0, 0, 0, len(text)), "")
    map_ = SourceMap(text, [Segment(0, len(text), site, -1, Position(0, 0), verbatim=True)], ())
    place = place_in_template((SourceFrame("", "/ws/t.hip", 1, column),), RenderedFile("/ws/t.hip", map_))
    assert place is not None
    assert place.span.start == Position(0, start)


@each_row(
    ("function", "expected"),
    [
        ("Run<ck::vector_type<float, 16, void> >", "Run"),
        ("operator()<ck::integral_constant<int, 3> >", "operator()"),
        ("operator()<(lambda at product.hip:11:41)>", "operator()"),
        ("operator[]<ck::integral_constant<int, 3> >", "operator[]"),
        ("operator+<float>", "operator+"),
        ("operator<", "operator<"),
        ("operator<< <int>", "operator<<"),
        ("product(_Float16 const*, _Float16 const*, float*, int)", "product"),
        ("void product<32>(_Float16 const*, float*, int)", "product"),
        ("void ck::kernel_gemm<ck::Gridwise<int, (ck::Tail)2>, true>(ck::Gridwise<int>::Argument)", "ck::kernel_gemm"),
        ("ck::Blockwise<int, 4>::Run", "ck::Blockwise::Run"),
        ("auto ck::Tuple<int>::operator()<3>(int) const", "ck::Tuple::operator()"),
        ("void run<&ck::F<int>::operator()>(int)", "run"),
        ("(anonymous namespace)::gemm_universal<true>", "gemm_universal"),
        ("__get_x", "__get_x"),
        ("??", ""),
        ("", ""),
    ],
)
def test_plain_names(function: str, expected: str) -> None:
    assert plain_name(function) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/rocm/ck/include/ck/utility/tuple.hpp", "ck/utility/tuple.hpp"),
        ("/rocm/ck/include/../include/ck/ck.hpp", "ck/ck.hpp"),
        ("/rocm/include/hip/hip_runtime.h", "include/hip/hip_runtime.h"),
        ("/rocm/ck/includes/a.hpp", "ck/includes/a.hpp"),
        ("/ws/product.hip", "/ws/product.hip"),
    ],
)
def test_short_paths(path: str, expected: str) -> None:
    assert short_path(path, {"rocm": "/rocm/", "ck": "/rocm/ck/include"}) == expected


def test_many_addresses_are_several_calls() -> None:
    calls = list(symbolizer_calls("/a b/x.hsaco", range(0x1000, 0x1000 + 4 * 501, 4)))
    assert [len(call) for call in calls] == [505, 6]
    assert calls[1][-2:] == ("--obj=/a b/x.hsaco", "0x17d0")
    assert list(symbolizer_calls("x", ())) == []
