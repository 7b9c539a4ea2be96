"""From saved logs to diagnostics at template positions and at parameters of the kernel file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.checks.compiler_diagnostics import diagnose
from ckwatch.model.diagnostics import Severity, Source
from ckwatch.model.source_map import Site, SiteKind
from ckwatch.model.text import Position, span
from ckwatch.render.renderer import Renderer
from clang_logs import KERNEL_FILE, LOGS, TEMPLATE, at, case, chained, mapped, read_header, unit_of
from units import place, unit


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("undeclared.host", [("clang/undeclared-identifier", 9, 23, "blok")]),
        ("tabs.host", [("clang/undeclared-identifier", 9, 21, "blok")]),
        ("non_ascii.host", [("clang/undeclared-identifier", 9, 51, "blok")]),
        ("macro_argument.host", [("clang/undeclared-identifier", 9, 15, "limit"), ("clang/semantic-issue", 10, 12, ".")]),
        ("semicolon.host", [("clang/expected-token", 10, 10, ")"), ("clang/expected-token", 10, 11, "blocks")]),
        ("range.host", [("clang/extern-c-compat", 9, 5, "struct"), ("clang/invalid-operands", 9, 38, "+")]),
        ("fixit.host", [("clang/undeclared-identifier", 10, 18, "grösse"), ("clang/undeclared-identifier", 10, 41, "nn"), ("clang/undeclared-identifier", 10, 72, "coundd")]),
        ("warning.host", [("clang/unused-variable", 9, 9, "unused")]),
        ("instantiation.host", [("clang/semantic-issue", 9, 27, "twice")]),
        ("missing_header.host", [("clang/undeclared-identifier", 2, 1, '#include "deep.hpp"'), ("clang/undeclared-identifier", 2, 1, '#include "deep.hpp"'), ("clang/file-not-found", 3, 10, '"ck/no_such.hpp"')]),
        ("asm.device", [("clang/inline-assembly-issue", 2, 51, '"v_bogus v0, v1"')]),
        ("lds_plain.device", [("clang/resource-limit", 2, 17, "k")]),
        ("host_in_device.device", [("clang/no-matching-function", 4, 43, "host_only")]),
    ],
)  # fmt: skip
def test_template_text(log: str, expected: list[tuple[str, int, int, str]]) -> None:
    found = case(log)
    diagnostics = found.diagnose()
    assert [
        (entry.code, entry.span.start.line + 1, entry.span.start.column + 1, found.marked(entry.span))
        for entry in diagnostics
    ] == expected
    assert {entry.span.path for entry in diagnostics} == {TEMPLATE}


@pytest.mark.parametrize(
    ("log", "changes", "parameter", "code", "message"),
    [
        ("bad_tile.host", {"MXdlPerWave": "3"}, "MXdlPerWave", "ck/m-xdl-per-wave", "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32"),
        ("bad_tile.device", {"MXdlPerWave": "3"}, "MXdlPerWave", "ck/m-xdl-per-wave", "MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32"),
        ("cluster_size.device", {"ABlockTransferThreadClusterLengths_AK0_M_AK1": "S<8, 64, 1>"}, "ABlockTransferThreadClusterLengths_AK0_M_AK1", "ck/thread-cluster-size", "product(ABlockTransferThreadClusterLengths_AK0_M_AK1) <= BlockSize: 8 * 64 * 1 = 512, BlockSize = 256"),
        ("cluster_tile.device", {"BBlockTransferThreadClusterLengths_BK0_N_BK1": "S<16, 16, 1>"}, "BBlockTransferThreadClusterLengths_BK0_N_BK1", "ck/thread-cluster-lengths", "BlockSliceLengths % BBlockTransferThreadClusterLengths_BK0_N_BK1 == 0: [8, 128, 8] % [16, 16, 1] = [8, 0, 0]"),
        ("vector_width.device", {"ABlockTransferSrcScalarPerVector": "3"}, "ABlockTransferSrcScalarPerVector", "ck/a-block-transfer-src-scalar-per-vector", "SliceLengths::At(ABlockTransferSrcVectorDim) % ABlockTransferSrcScalarPerVector == 0: 8 % 3 = 2"),
        ("interwave_v3.host", {"BlkGemmPipeSched": "BlockGemmPipelineScheduler::Interwave"}, "BlkGemmPipeSched", "ck/pipeline-scheduler", "the block GEMM pipeline v3 has no Interwave form"),
        ("interwave_v3.device", {"BlkGemmPipeSched": "BlockGemmPipelineScheduler::Interwave"}, "BlkGemmPipeSched", "ck/pipeline-scheduler", "the block GEMM pipeline v3 has no Interwave form"),
        ("mfma_shape.device", {"MPerXDL": "8"}, "MPerXDL", "ck/mfma-shape", "CK has no MFMA instruction for MPerXdl = 8, NPerXdl = 32 with _Float16"),
        ("cshuffle.device", {"CShuffleMXdlPerWavePerShuffle": "3"}, "CShuffleMXdlPerWavePerShuffle", "ck/c-shuffle-m-xdl-per-wave-per-shuffle", "MXdlPerWave % CShuffleMXdlPerWavePerShuffle == 0: 2 % 3 = 2"),
        ("lds.device", {"MPerBlock": "256", "NPerBlock": "256", "KPerBlock": "128"}, "KPerBlock", "ck/lds-size", "LDS: 131072 bytes needed, gfx942 has 65536"),
    ],
)  # fmt: skip
def test_instance_mistakes_are_one_diagnostic_at_the_parameter(
    log: str, changes: dict[str, str], parameter: str, code: str, message: str
) -> None:
    found = case(log, 2, **changes)
    (diagnostic,) = found.diagnose()
    assert (diagnostic.code, diagnostic.message) == (code, message)
    assert found.parameter_at(diagnostic.span) == parameter
    assert diagnostic.units == (found.unit.id,)
    assert not any(len(entry.message) > 500 for entry in diagnostic.related)
    assert any(
        entry.span is not None and entry.span.path == TEMPLATE and f"/* {parameter} */" in found.marked(entry.span)
        for entry in diagnostic.related
    )


def test_a_block_size_that_fits_nothing_is_blamed_once() -> None:
    found = case("block_size.device", BlockSize="128")
    first, second = found.diagnose()
    assert found.parameter_at(first.span) == "BlockSize"
    assert first.message == (
        "product(ABlockTransferThreadClusterLengths_AK0_M_AK1) <= BlockSize: 8 * 32 * 1 = 256, BlockSize = 128"
    )
    also = [entry.message for entry in first.related if entry.message.startswith("also fails: ")]
    assert also == [
        "also fails: product(CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock) <= BlockSize: 1 * 32 * 1 * 8 = 256, BlockSize = 128"
    ]
    assert found.parameter_at(second.span) == "CDEShuffleBlockTransferScalarPerVectors"


def test_an_instance_alone_blames_the_last_factor() -> None:
    found = case("bad_tile.host", siblings=0, MXdlPerWave="3")
    (diagnostic,) = found.diagnose()
    assert found.parameter_at(diagnostic.span) == "MXdlPerWave"


def test_the_requirement_is_traced_with_its_arguments_and_backtrace() -> None:
    found = case("bad_tile.host", MXdlPerWave="3")
    (diagnostic,) = found.diagnose()
    related = [entry.message for entry in diagnostic.related]
    assert related[:6] == [
        "MXdlPerWave = 3, printed here",
        "MPerBlock = 128",
        "MPerBlock = 128, printed here",
        "MPerXDL = 32",
        "MPerXDL = 32, printed here",
        "instantiated here",
    ]
    assert related[6] == "static assertion failed due to requirement '128 % (32 * 3) == 0': Invalid tuning param!"
    assert diagnostic.related[6].span == span(
        "/rocm/include/ck/tensor_operation/gpu/grid/gridwise_gemm_xdl_cshuffle_v3_multi_d.hpp", 1187, 23, 1187, 63
    )
    assert "CheckValidity' requested here" in related[7]
    assert "GridwiseGemmMultiD_xdl_cshuffle_v3<…>" in related[7]
    assert "ck::tensor_layout::gemm::RowMajor, ck::tensor_layout::gemm::ColumnMajor" in diagnostic.detail


def test_other_errors_inside_ck_follow_from_the_mistake() -> None:
    (diagnostic,) = case("bad_tile.device", MXdlPerWave="3").diagnose()
    assert any("num_access == sfc_cde_block" in entry.message for entry in diagnostic.related)


def test_without_header_text_the_values_still_stand() -> None:
    found = case("bad_tile.host", MXdlPerWave="3")
    (diagnostic,) = diagnose(
        found.messages,
        unit=found.unit,
        source_path=found.path,
        source_map=mapped(found.text),
        read_line=lambda _path, _line: None,
    )
    assert (
        diagnostic.message == "static assertion failed due to requirement '128 % (32 * 3) == 0': Invalid tuning param!"
    )
    assert (diagnostic.span.path, diagnostic.span.start) == (TEMPLATE, at(85, 15))


def test_host_and_device_pass_join() -> None:
    host, device = case("bad_tile.host", MXdlPerWave="3"), case("bad_tile.device", MXdlPerWave="3")
    both = diagnose(
        [*host.messages, *device.messages],
        unit=host.unit,
        source_path=host.path,
        source_map=mapped(host.text),
        read_line=read_header,
    )
    assert [entry.message for entry in both] == ["MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32"]


def test_header_warnings_only_when_asked_for() -> None:
    found = case("warning.host")
    asked = found.diagnose(header_warnings=True)
    assert [entry.severity for entry in asked] == [Severity.WARNING] * 3
    assert [found.marked(entry.span) for entry in asked] == ['#include "scale.hpp"', '#include "scale.hpp"', "unused"]
    assert asked[0].related[0].span == span("/ws/scale.hpp", 3, 36, 3, 52)
    assert len(found.diagnose()) == 1


@pytest.mark.parametrize(
    ("log", "source", "code", "message"),
    [
        ("undefined_device.device", Source.LINKER, "linker/undefined-symbol", "undefined symbol: elsewhere(int)"),
        ("undefined_host.full", Source.LINKER, "linker/undefined-symbol", "undefined reference to `elsewhere(int)'"),
    ],
)
def test_linker_errors_lie_in_the_kernel_file(log: str, source: Source, code: str, message: str) -> None:
    (diagnostic,) = case(log).diagnose()
    assert (diagnostic.source, diagnostic.code, diagnostic.message) == (source, code, message)
    assert diagnostic.span == span(KERNEL_FILE, 0, 0, 0, 9)


@pytest.mark.parametrize(
    ("log", "source", "code", "message"),
    [
        ("clang++: error: unsupported option '-x'", Source.HOST, "driver/unknown-option", "unsupported option '-x'"),
        ("clang++: error: cannot find ROCm device library; provide it", Source.HOST, "driver/rocm-not-found", "cannot find ROCm device library; provide it"),
        ("Stack dump:\n0. x\nclang++: error: clang frontend command failed due to signal (use -v)", Source.HOST, "host/crash", "the compiler crashed"),
        ("clang++: error: unable to execute command: Killed\nclang++: error: clang frontend command failed due to signal", Source.HOST, "host/killed", "the compiler was killed, most likely for want of memory"),
        ("LLVM ERROR: out of memory\nStack dump:\n0. x", Source.HOST, "host/out-of-memory", "the compiler ran out of memory"),
        ("clang++: error: linker command failed with exit code 1 (use -v to see invocation)", Source.LINKER, "linker/error", "linker command failed with exit code 1 (use -v to see invocation)"),
    ],
)  # fmt: skip
def test_the_hosts_own_faults(log: str, source: Source, code: str, message: str) -> None:
    text = "int x;\n"
    (diagnostic,) = diagnose(
        parse_clang_log(log),
        unit=unit_of(text),
        source_path="/ws/x.hip",
        source_map=mapped(text),
        read_line=read_header,
    )
    assert (diagnostic.source, diagnostic.code, diagnostic.message) == (source, code, message)


def test_a_crash_is_told_beside_errors() -> None:
    log = "/ws/x.hip:1:5: error: bad\nclang++: error: unable to execute command: Segmentation fault\nclang++: error: clang frontend command failed due to signal"
    found = diagnose(
        parse_clang_log(log),
        unit=unit_of(""),
        source_path="/ws/x.hip",
        source_map=mapped("int x;"),
        read_line=read_header,
    )
    assert [entry.code for entry in found] == ["clang/error", "host/crash"]


@pytest.mark.parametrize(
    ("condition", "requirement", "evaluated", "message", "parameter"),
    [
        ("static_assert(ThisThreadBlock::GetNumOfThread() == MWaves * NWaves * WaveSize,", "ThisThreadBlock<256>::GetNumOfThread() == 1 * 2 * 64", "256 == 128", "ThisThreadBlock::GetNumOfThread() == MWaves * NWaves * WaveSize: ThisThreadBlock::GetNumOfThread() = 256, 1 * 2 * 64 = 128", "NXdlPerWave"),
        ("static_assert(MPerBlock % (MPerXDL * MRepeat) == 0 && NPerBlock % (NPerXDL * NRepeat) == 0,", "128 % (32 * 3) == 0", "32 == 0", "NPerBlock % (NPerXdl * NXdlPerWave) == 0: 128 % (32 * 3) = 32", "NXdlPerWave"),
        ("static_assert(KPerThread % KPack == 0,", "4 % 8 == 0", "4 == 0", "KPerThread % KPack == 0: 4 % 8 = 4", "BK1"),
        ("static_assert(MXdlPerWave >= Other<MPerBlock>::value,", "3 >= Other<128>::value", "3 >= 4", "MXdlPerWave >= Other<MPerBlock>::value: 3 < 4", "MPerBlock"),
        ("static_assert(AK1Value > 8,", "8 > 8", "8 > 8", "AK1 > 8: AK1 = 8", "AK1"),
    ],
)  # fmt: skip
def test_conditions(condition: str, requirement: str, evaluated: str, message: str, parameter: str) -> None:
    column = condition.index("NPerBlock" if "NPerBlock" in condition else "(") + (1 if "NPerBlock" in condition else 2)
    header = ["template <...>", condition, '              "wrong");']
    log = (
        f"/rocm/ck/a.hpp:2:{column}:{{2:{column}-2:{len(condition)}}}: error: static assertion failed due to requirement '{requirement}': wrong [Semantic Issue]\n"
        f"/rocm/ck/a.hpp:2:20: note: expression evaluates to '{evaluated}'"
    )
    text = (LOGS / "gemm.hip").read_text().replace("NXdlPerWave */ 2", "NXdlPerWave */ 3")
    unit = unit_of(text, siblings=0)
    (diagnostic,) = diagnose(
        parse_clang_log(log), unit=unit, source_path="/ws/x.hip", source_map=mapped(text),
        read_line=lambda _path, line: header[line] if line < len(header) else None,
    )  # fmt: skip
    assert (diagnostic.message, diagnostic.span) == (message, unit.instance.spans[parameter])


@pytest.mark.parametrize(
    ("text", "code", "message", "parameter"),
    [
        ("static assertion failed due to requirement '(ck::is_same<_Float16, float>::value && (32 == 1 || 32 == 2)) || false'", "ck/vector-width", "CK has no buffer access of 32 × _Float16", "ABlockTransferSrcScalarPerVector"),
        ("implicit instantiation of undefined template 'ck::vector_type<_Float16, 8>'", "ck/vector-width", "CK has no vector of 8 × _Float16", "CDEShuffleBlockTransferScalarPerVectors"),
        ("vector registers (600) exceeds limit (512) in 'void ck::f<int>()'", "ck/registers", "registers: 600 needed, gfx942 has 512", "NXdlPerWave"),
        ("no member named 'Run' in 'ck::BlockwiseGemmXdlops_pipeline_v4<ck::BlockGemmPipelineScheduler::Interwave, 256>'", "ck/pipeline-scheduler", "the block GEMM pipeline v4 has no Interwave form", "BlkGemmPipelineVer"),
    ],
)  # fmt: skip
def test_patterns(text: str, code: str, message: str, parameter: str) -> None:
    rendered = (LOGS / "gemm.hip").read_text().replace("SrcScalarPerVector */ 8", "SrcScalarPerVector */ 32", 1)
    unit = unit_of(rendered, siblings=0)
    (diagnostic,) = diagnose(
        parse_clang_log(f"/rocm/include/ck/a.hpp:2:3: error: {text} [Semantic Issue]"),
        unit=unit,
        source_path="/ws/x.hip",
        source_map=mapped(rendered),
        read_line=read_header,
    )
    assert (diagnostic.code, diagnostic.message) == (code, message)
    assert diagnostic.span == unit.instance.spans[parameter]


def test_flags_without_effect_are_not_mentioned() -> None:
    log = "clang++: warning: argument unused during compilation: '-L/x' [-Wunused-command-line-argument]"
    found = diagnose(
        parse_clang_log(log),
        unit=unit_of(""),
        source_path="/ws/x.hip",
        source_map=mapped("int x;"),
        read_line=read_header,
    )
    assert found == ()


def test_an_error_at_a_printed_parameter_points_to_the_kernel_file() -> None:
    text = "using A = S<\n    /* MPerBlock */ 128>;\n"
    unit = unit_of(text)
    (diagnostic,) = diagnose(
        parse_clang_log("/ws/x.hip:2:21:{2:21-2:24}: error: template argument for type parameter [Semantic Issue]"),
        unit=unit,
        source_path="/ws/x.hip",
        source_map=mapped(text),
        read_line=read_header,
    )
    assert (diagnostic.span.start, diagnostic.code) == (at(2, 5), "clang/template-argument")
    assert [(entry.message, entry.span) for entry in diagnostic.related] == [
        ("MPerBlock = 128 is set here", unit.instance.spans["MPerBlock"]),
        ("rendered as: /* MPerBlock */ 128>;", None),
    ]


@pytest.mark.parametrize(
    ("kind", "label", "iteration", "expected"),
    [
        (SiteKind.LOOP, "for x in xs", 1, "in round 2 of the loop `for x in xs`"),
        (SiteKind.CALL, "store", -1, "called here: `store`"),
        (SiteKind.INCLUDE, "a.j2", -1, "included here: `a.j2`"),
    ],
)
def test_the_chain_is_related(kind: SiteKind, label: str, iteration: int, expected: str) -> None:
    found = case("undeclared.host")
    opened = span("/ws/outer.j2", 3, 0, 3, 9)
    (diagnostic,) = diagnose(
        found.messages,
        unit=found.unit,
        source_path=found.path,
        source_map=chained(mapped(found.text), Site(kind, opened, label), iteration),
        read_line=read_header,
    )
    assert [(entry.message, entry.span) for entry in diagnostic.related] == [(expected, opened)]


def test_fixes_lie_in_template_text() -> None:
    fixes = [fix for entry in case("fixit.host").diagnose() for fix in entry.fixes]
    assert [(fix.span.start, fix.span.end, fix.text) for fix in fixes] == [
        (at(10, 18), at(10, 24), "größe"),
        (at(10, 72), at(10, 78), "cound"),
    ]
    (insertion,) = [fix for entry in case("semicolon.host").diagnose() for fix in entry.fixes]
    assert (insertion.span.start, insertion.span.end, insertion.text) == (at(10, 11), at(10, 11), ";")


def test_a_fix_in_printed_text_is_dropped() -> None:
    text = "/* MPerBlock */ 128>;\n"
    log = '/ws/x.hip:1:17: error: bad\nfix-it:"/ws/x.hip":{1:17-1:20}:"256"'
    (diagnostic,) = diagnose(
        parse_clang_log(log),
        unit=unit_of(text),
        source_path="/ws/x.hip",
        source_map=mapped(text),
        read_line=read_header,
    )
    assert diagnostic.fixes == ()


def test_places_outside_the_text_are_clamped() -> None:
    text = "int x;"
    (diagnostic,) = diagnose(
        parse_clang_log("/ws/x.hip:9:99:{7:1-9:120}: error: beyond"),
        unit=unit_of(text),
        source_path="/ws/./x.hip",
        source_map=mapped(text),
        read_line=read_header,
    )
    assert diagnostic.span.start <= Position(0, 6)
    assert diagnostic.span.path == TEMPLATE


TEMPLATE_TEMPLATE_ASSERTION = """\
template <int MPerBlock, int MPerThread> struct Tile {
    static_assert(MPerBlock % MPerThread == 0, "whole panels");
};
Tile<{{ template_argument("MPerBlock") }}, {{ template_argument("MPerThread") }}> tile;
"""
LOG = """\
/w/kernel.cpp:2:19:{2:19-2:46}: error: static assertion failed due to requirement '64 % 6 == 0': whole panels [Semantic Issue]
/w/kernel.cpp:4:49: note: in instantiation of template class 'Tile<64, 6>' requested here
"""


def test_it_stands_at_the_parameter(tmp_path: Path) -> None:
    (tmp_path / "t.cpp.j2").write_text(TEMPLATE_TEMPLATE_ASSERTION)
    subject = unit("t.cpp.j2", MPerBlock=64, MPerThread=6)
    rendered = Renderer((tmp_path,)).render(subject).rendered
    assert rendered is not None
    (diagnostic,) = diagnose(
        parse_clang_log(LOG),
        unit=subject,
        source_path="/w/kernel.cpp",
        source_map=rendered.source_map,
        read_line=lambda _path, _line: None,
    )
    assert diagnostic.message == "MPerBlock % MPerThread == 0: 64 % 6 = 4"
    assert diagnostic.span in (place(10), place(11))
    assert any(related.span and related.span.path.endswith("t.cpp.j2") for related in diagnostic.related)
