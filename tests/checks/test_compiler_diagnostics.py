"""From saved logs to diagnostics at template positions and at parameters of the kernel file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ckwatch.checks.clang_output import parse_clang_log
from ckwatch.checks.compiler.diagnose import diagnose
from ckwatch.checks.compiler.sources import NO_INPUTS, CompilerInputs
from ckwatch.checks.nvcc_output import parse_nvcc_log
from ckwatch.model.compiler_flags import GivenFlag
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.source_map import Site, SiteKind
from ckwatch.model.text import Position, span
from ckwatch.render.renderer import Renderer
from helpers.clang_logs import LOGS, TEMPLATE, at, case, chained, mapped, read_header, unit_of
from helpers.each_row import each_row
from helpers.units import place, unit


@each_row(
    ("log", "expected"),
    [
        ("undeclared.host", [("clang/undeclared-identifier", 9, 23, "blok")]),
        ("tabs.host", [("clang/undeclared-identifier", 9, 21, "blok")]),
        ("non_ascii.host", [("clang/undeclared-identifier", 9, 51, "blok")]),
        ("macro_argument.host", [("clang/undeclared-identifier", 9, 15, "limit"), ("clang/semantic-issue", 10, 12, ".")]),
        ("semicolon.host", [("clang/expected-token", 9, 32, "6")]),
        ("range.host", [("clang/invalid-operands", 9, 38, "+")]),
        ("fixit.host", [("clang/undeclared-identifier", 10, 18, "grösse"), ("clang/undeclared-identifier", 10, 41, "nn"), ("clang/undeclared-identifier", 10, 72, "coundd")]),
        ("line_marker.host", [("clang/undeclared-identifier", 6, 23, "factro")]),
        ("warning.host", [("clang/unused-variable", 9, 9, "unused")]),
        ("instantiation.host", [("clang/semantic-issue", 9, 27, "twice")]),
        ("missing_header.host", [("clang/undeclared-identifier", 2, 1, '#include "deep.hpp"'), ("clang/file-not-found", 3, 10, '"ck/no_such.hpp"')]),
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


def formula_of(diagnostic: Diagnostic) -> str:
    """The line below the words; the words where there is no formula."""
    words, _, formula = diagnostic.message.partition("\n")
    return formula or words


@each_row(
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
    assert (diagnostic.code, formula_of(diagnostic)) == (code, message)
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
        "BlockSize = 128 fails a check of thread_group_tensor_slice_transfer_v4r1.hpp\n"
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
    assert [formula_of(entry) for entry in both] == ["MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32"]


def test_header_warnings_only_when_asked_for() -> None:
    found = case("warning.host")
    asked = found.diagnose(header_warnings=True)
    assert [entry.severity for entry in asked] == [Severity.WARNING] * 3
    assert [found.marked(entry.span) for entry in asked] == ['#include "scale.hpp"', '#include "scale.hpp"', "unused"]
    assert asked[0].related[0].span == span("/ws/scale.hpp", 3, 36, 3, 52)
    assert len(found.diagnose()) == 1


@pytest.mark.parametrize(
    ("log", "message", "at", "declared"),
    [
        ("undefined_device.device", "undefined symbol: elsewhere(int)", (3, 43), (2, 18)),
        ("undefined_host.full", "undefined reference to `elsewhere(int)'", (3, 36), (2, 12)),
    ],
)
def test_linker_errors_lie_at_the_use(log: str, message: str, at: tuple[int, int], declared: tuple[int, int]) -> None:
    found = case(log)
    (diagnostic,) = found.diagnose()
    assert (diagnostic.source, diagnostic.code, diagnostic.message) == (
        Source.LINKER,
        "linker/undefined-symbol",
        message,
    )
    assert found.marked(diagnostic.span) == "elsewhere"
    places = [
        (one.start.line + 1, one.start.column + 1) for one in (diagnostic.span, diagnostic.related[0].span) if one
    ]
    assert places == [at, declared]


@pytest.mark.parametrize(
    ("log", "source", "code", "message"),
    [
        ("clang++: error: unsupported option '-x'", Source.HOST, "driver/unknown-option", "unsupported option '-x'"),
        ("clang++: error: cannot find ROCm device library; provide it", Source.HOST, "driver/rocm-not-found", "cannot find ROCm device library; provide it"),
        ("Stack dump:\n0. x\nclang++: error: clang frontend command failed due to signal (use -v)", Source.HOST, "host/crash", "the compiler crashed"),
        ("clang++: error: unable to execute command: Killed\nclang++: error: clang frontend command failed due to signal", Source.HOST, "host/killed", "the compiler was killed, most likely because memory ran out"),
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


@pytest.mark.parametrize(
    "log",
    [
        "clang++: error: unsupported HIP gpu architecture: gfx1251",
        "clang++: error: invalid target ID 'gfx1251'; format is a processor name followed by an optional list",
        "clang++: error: cannot find ROCm device library for gfx1251; provide its path via '--rocm-path'",
    ],
)
def test_an_arch_that_the_compiler_does_not_have(log: str) -> None:
    given, named, of_workspace = unit_of("int x;\n"), place(3), place(2)
    for own, everywhere, expected in (
        ({"gfx1251": named}, {"gfx1251": of_workspace}, named),
        ({}, {"gfx942": named, "gfx1251": of_workspace}, of_workspace),
        ({}, {}, given.kernel.template_span),
    ):
        (found,) = diagnose(
            parse_clang_log(log),
            unit=replace(given, kernel=replace(given.kernel, arch_spans=own), arch="gfx1251"),
            source_path="/ws/x.hip",
            source_map=mapped("int x;\n"),
            read_line=read_header,
            inputs=CompilerInputs(arch_spans=everywhere),
        )
        assert (found.span, found.message.partition(";")[0]) == (expected, "this clang does not compile for gfx1251")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            "1:15: error: cannot initialize a variable of type 'int32x2_t' (aka 'd2_t') with an rvalue of type 'unsigned int __attribute__((ext_vector_type(2)))' (vector of 2 'unsigned int' values)",
            "`__builtin_amdgcn_raw_buffer_load_b64` of this clang has other vectors than /opt/ck/x.hpp gives it; those of clang up to 22 convert",
        ),
        (
            "2:7: error: use of undeclared identifier '__builtin_amdgcn_raw_buffer_load_b64'",
            "this clang has no `__builtin_amdgcn_raw_buffer_load_b64`, which /opt/ck/x.hpp calls: a newer one does",
        ),
        (
            "1:2: error: invalid operand for instruction\n<inline asm>:1:2: note: instantiated into assembly here\n    1 |         buffer_load_dwordx4 v[68:71], v2, v[6:9], 0 offen offset:0",
            "this clang cannot assemble `buffer_load_dwordx4` of /opt/ck/x.hpp (invalid operand for instruction); clang 21 and 22 assemble Composable Kernel 1.2.0",
        ),
        ("1:15: error: cannot initialize a variable of type 'int' with an lvalue of type 'S'", None),
    ],
)
def test_builtins_that_a_header_has_from_another_clang(error: str, message: str | None) -> None:
    (found,) = diagnose(
        parse_clang_log(f"In file included from /ws/x.hip:1:\n/opt/ck/x.hpp:{error}"),
        unit=unit_of("#include <x.hpp>\n"),
        source_path="/ws/x.hip",
        source_map=mapped("#include <x.hpp>\n"),
        read_line=lambda _, line: ("int32x2_t v =", "  __builtin_amdgcn_raw_buffer_load_b64(r, o, 0, 0);")[line],
    )
    assert found.message == (message or error.partition("error: ")[2])


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
    assert (formula_of(diagnostic), diagnostic.span) == (message, unit.instance.spans[parameter])


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
    assert (insertion.span.start, insertion.span.end, insertion.text) == (at(9, 33), at(9, 33), ";")


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
    assert diagnostic.message == "whole panels\nMPerBlock % MPerThread == 0: 64 % 6 = 4"
    assert diagnostic.code == "clang/static-assertion"
    assert diagnostic.span in (place(10), place(11))
    assert any(related.span and related.span.path.endswith("t.cpp.j2") for related in diagnostic.related)


def diagnosed(
    text: str, log: str, inputs: CompilerInputs = NO_INPUTS, headers: Mapping[str, str] | None = None
) -> list[Diagnostic]:
    """Return the diagnostics of a log about `/ws/x.hip`, whose template has the same lines."""
    lines = {path: content.split("\n") for path, content in (headers or {}).items()}

    def read_line(path: str, line: int) -> str | None:
        return lines[path][line] if path in lines and line < len(lines[path]) else None

    source_map = mapped(text)
    found = parse_clang_log(log)
    return list(
        diagnose(
            found,
            unit=unit_of(text),
            source_path="/ws/x.hip",
            source_map=source_map,
            read_line=read_line,
            inputs=inputs,
        )
    )


OWN = CompilerInputs(folders=("/ws/templates", "/ws"))
HEADER = "#pragma once\ntemplate <class T> int depth(T t) {\n    return t.depth;\n}\nint area(int);\ninline int use() { return area(3); }\n"


def test_an_error_in_an_own_header_lies_in_the_header() -> None:
    log = (
        "In file included from /ws/x.hip:2:\nIn file included from /ws/templates/first.h:7:\n"
        "/ws/templates/own.h:3:14: error: no member named 'depth' in 'Box' [Semantic Issue]\n"
        "/ws/x.hip:4:5: note: in instantiation of function template specialization 'depth<Box>' requested here\n"
    )
    (diagnostic,) = diagnosed("\n#include <a>\n\nx = depth(b);\n", log, OWN, {"/ws/templates/own.h": HEADER})
    assert (diagnostic.span.path, diagnostic.span.start) == ("/ws/templates/own.h", at(3, 14))
    assert [(one.message, one.span and (one.span.path, one.span.start.line + 1)) for one in diagnostic.related] == [
        ("included here", ("/ws/templates/first.h", 7)),
        ("included here", (TEMPLATE, 2)),
        ("in instantiation of function template specialization 'depth<Box>' requested here", (TEMPLATE, 4)),
    ]
    (elsewhere,) = diagnosed("\n#include <a>\n\nx = depth(b);\n", log)
    assert elsewhere.span.path == TEMPLATE


def test_a_warning_in_an_own_header_is_shown() -> None:
    log = "/ws/templates/own.h:3:14: warning: unused [-Wunused,Semantic Issue]\n/opt/ck/a.h:1:1: warning: unused [-Wunused]"
    assert [one.span.path for one in diagnosed("\n", log, OWN)] == ["/ws/templates/own.h"]


def test_a_symbol_that_only_an_own_header_uses() -> None:
    log = "/usr/bin/ld: kernel.o: in function `entry':\n(.text+0x1c5): undefined reference to `area(int)'"
    text = '#include "own.h"\nint entry() { return use(); }\n'
    (diagnostic,) = diagnosed(text, log, OWN, {"/ws/templates/own.h": HEADER})
    assert (diagnostic.span.path, diagnostic.span.start) == ("/ws/templates/own.h", at(6, 27))


def test_a_brace_that_an_own_header_does_not_close() -> None:
    (diagnostic,) = diagnosed(
        '#include "a.hpp"\nint f() {\n}\n',
        "/ws/x.hip:3:2: error: expected '}'\n/ws/x.hip:2:9: note: to match this '{'\n",
        CompilerInputs(folders=("/ws",)),
        {"/ws/a.hpp": "namespace a {\ninline int g() {\n    return 1;\n}  // namespace a\n"},
    )
    assert (diagnostic.span.path, diagnostic.span.start) == ("/ws/a.hpp", at(2, 16))


def test_an_undefined_variable_is_one_message() -> None:
    (diagnostic,) = diagnosed(
        "void f() {\n    g(start);\n}\n",
        "/ws/x.hip:2:7: warning: variable 'ns::start' has internal linkage but is not defined [-Wundefined-internal]\n"
        "/tmp/k.o:k.cpp:(.text+0x1): undefined reference to `ns::start'\n",
    )
    assert (diagnostic.source, diagnostic.span.start) == (Source.LINKER, at(2, 7))


@pytest.mark.parametrize(
    ("argument", "printed", "unknown", "column"),
    [
        ('"valus[%d]" % 1', "valus[1]", "valus", 16),
        ('"f(" ~ "b)"', "f(b)", "f", 16),
        ('"b + b"', "b + b", "b", 16),
        ('"b" ~ " + b"', "b + b", "b", 0),  # one of two: where the macro prints it
    ],
)
def test_what_a_macro_prints_is_in_its_call(
    tmp_path: Path, argument: str, printed: str, unknown: str, column: int
) -> None:
    template = "{% macro sq(v) %}{{ v }}{% endmacro %}\nint a = {{ sq(" + argument + ") }};\n"
    (tmp_path / "t.cpp.j2").write_text(template)
    subject = unit("t.cpp.j2")
    rendered = Renderer((tmp_path,)).render(subject).rendered
    assert rendered is not None
    assert printed in rendered.text
    (diagnostic,) = diagnose(
        parse_clang_log(f"/w/kernel.cpp:2:9: error: use of undeclared identifier '{unknown}'\n"),
        unit=subject,
        source_path="/w/kernel.cpp",
        source_map=rendered.source_map,
        read_line=lambda path, line: dict(enumerate(Path(path).read_text().split("\n"))).get(line),
    )
    assert diagnostic.span.start == (at(2, column) if column else at(1, 18))


def test_something_missing_behind_an_expression_is_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "t.cpp.j2").write_text("int a = {{ Size }}\nint b;\n")
    subject = unit("t.cpp.j2", Size=64)
    rendered = Renderer((tmp_path,)).render(subject).rendered
    assert rendered is not None
    (diagnostic,) = diagnose(
        parse_clang_log("/w/kernel.cpp:1:11: error: expected ';' after top level declarator\n"),
        unit=subject,
        source_path="/w/kernel.cpp",
        source_map=rendered.source_map,
        read_line=lambda _path, _line: None,
    )
    assert (diagnostic.span.start, diagnostic.span.end) == (at(1, 18), at(1, 19))


def test_a_label_that_two_texts_of_assembly_define() -> None:
    (diagnostic,) = diagnosed(
        'asm("again:\\n");\nasm("again:\\n");\n', "<inline asm>:2:1: error: symbol 'again' is already defined\n"
    )
    assert diagnostic.span.start == at(2, 5)


def test_an_error_about_a_flag_lies_at_the_flag_and_explains_the_others() -> None:
    flag = GivenFlag("-march=pentium99", span("/ws/ckwatch.toml", 1, 9, 1, 27))
    log = "warning: ignoring '-march=pentium99'\nerror: unknown target CPU 'pentium99'\nIn file included from /ws/x.hip:1:\n/usr/include/a.h:3:1: fatal error: 'b.h' file not found"
    (diagnostic,) = diagnosed("#include <a.h>\n", log, CompilerInputs((flag,)))
    assert (diagnostic.span, diagnostic.message) == (flag.span, "unknown target CPU 'pentium99'")
    assert [one.message for one in diagnostic.related] == [
        "in consequence: 'b.h' file not found",
        "in consequence: ignoring '-march=pentium99'",
    ]


def test_errors_in_a_built_in_template_lie_at_the_parameter_once() -> None:
    text = "using A = S<\n    /* MPerBlock */ 128>;\nA a = A::make();\n"
    log = (
        "/ws/x.hip:2:21:{2:21-2:24}: error: no member named 'v6' in 'Version' [Semantic Issue]\n"
        "/ws/x.hip:3:1: error: unknown type name 'A' [Semantic Issue]\n"
        "/opt/ck/a.hpp:3:1: error: no type named 'B' in 'C' [Semantic Issue]\n"
    )
    (diagnostic,) = diagnosed(text, log, CompilerInputs(built_in="/ws"))
    assert diagnostic.span == unit_of(text).instance.spans["MPerBlock"]
    assert diagnostic.message == "no member named 'v6' in 'Version' (MPerBlock = 128)"
    assert [one.message for one in diagnostic.related][-2:] == [
        "in consequence: unknown type name 'A'",
        "in consequence: no type named 'B' in 'C'",
    ]


@each_row(
    ("text", "errors", "kept"),
    [
        ("using M = P<3>;\nM::x();\n", [(1, 11, "too many template arguments"), (2, 1, "use of undeclared identifier 'M'")], 1),
        ("static constexpr int v = T / S::sise;\nf(v);\n", [(1, 33, "no member named 'sise' in 'S'"), (2, 3, "reference to __host__ variable 'v' in __device__ function")], 1),
        ("template <std::floatin T> T f(T v);\n", [(1, 16, "no type named 'floatin' in namespace 'std'"), (1, 27, "unknown type name 'T'")], 1),
        ("f(valu);\ng(valu);\n", [(1, 3, "use of undeclared identifier 'valu'"), (2, 3, "use of undeclared identifier 'valu'")], 1),
        ("f(one);\ng(two);\n", [(1, 3, "use of undeclared identifier 'one'"), (2, 3, "use of undeclared identifier 'two'")], 2),
        ("using A = B<\n    ,\n    2\n    3>;\n\nint b c;\n", [(2, 5, "expected expression"), (4, 5, "expected ';' after alias declaration"), (6, 7, "expected ';' after top level declarator")], 2),
        ("f(3;\ng(4);\n", [(1, 4, "expected ')'"), (1, 4, "no matching function for call to 'f'"), (2, 1, "no matching function for call to 'g'")], 2),
        ("float floatextra = 1;\nf(extra);\n", [(1, 1, "a type specifier is required for all declarations"), (2, 3, "use of undeclared identifier 'extra'; did you mean 'a::extra'?"), (2, 3, "invalid use of non-static data member 'extra'")], 1),
        ("std::mapp<int, f> seen;\nseen.clear();\n", [(1, 6, "no template named 'mapp' in namespace 'std'"), (1, 22, "expected ';' after expression"), (1, 19, "use of undeclared identifier 'seen'")], 1),
        ("f(one, two);\n", [(1, 3, "use of undeclared identifier 'one'"), (1, 8, "use of undeclared identifier 'two'")], 2),
        ("__global__ float __launch_bounds__(64) k() {\n    __shared__ int x[4];\n", [(1, 12, "kernel function type 'float ()' must have void return type"), (1, 18, "'amdgpu_flat_work_group_size' attribute only applies to kernel functions"), (2, 20, "__shared__ local variables not allowed in __host__ functions")], 1),
        ("using op = Gemm<\n    S<1>,\n    4>;\nop{}.run();\n", [(2, 5, "template argument for non-type template parameter must be an expression"), (4, 1, "use of undeclared identifier 'op'; did you mean 'or'?")], 1),
        ("f(a);\nf(b);\n", [(1, 1, "reference to __host__ function 'f' in __global__ function"), (2, 1, "reference to __host__ function 'f' in __global__ function")], 1),
        ("void __launch_bounds__(64) k() {\n    scaled(1);\n", [(1, 6, "'amdgpu_flat_work_group_size' attribute only applies to kernel functions"), (2, 5, "reference to __device__ function 'scaled' in __host__ function")], 1),
        ("f = [] { return a + b; };\n", [(1, 17, "variable 'a' cannot be implicitly captured in a lambda"), (1, 21, "variable 'b' cannot be implicitly captured in a lambda")], 1),
        ("s.add();\ns.total();\n", [(1, 3, "'add' is a private member of 'S'"), (2, 3, "'total' is a private member of 'S'")], 1),
        ("s.add();\nt.total();\n", [(1, 3, "'add' is a private member of 'S'"), (2, 3, "'total' is a private member of 'T'")], 2),
        ("int f( {\n}\n", [(1, 8, "expected parameter declarator"), (2, 2, "expected '}'")], 1),
        ("int a = f(b);\nint c = g(d);\n", [(1, 9, "no matching function for call to 'f'"), (2, 9, "no matching function for call to 'g'")], 2),
    ],
)  # fmt: skip
def test_consequences_are_related(text: str, errors: list[tuple[int, int, str]], kept: int) -> None:
    log = "\n".join(f"/ws/x.hip:{line}:{column}: error: {what} [Semantic Issue]" for line, column, what in errors)
    found = diagnosed(text, log)
    assert len(found) == kept
    assert found[0].message == errors[0][2]
    assert sum(len(one.related) for one in found) == len(errors) - kept


def test_messages_of_nvcc() -> None:
    text = "__global__ void k(int* p) {\n    int sum = 0  // none\n\n    *p = sum;\n}\n"
    log = (
        'x.cu(4): error: expected a ";"\n      *p = sum;\n      ^\n\n'
        "ptxas error   : Entry function '_Z1kPi' uses too much shared data (0x40000 bytes, 0xc000 max)\n"
    )
    own = unit("g.cu.j2", arch="sm_90a")
    source_map = mapped(text)
    messages = parse_nvcc_log(log)
    syntax, limit = diagnose(messages, unit=own, source_path="x.cu", source_map=source_map, read_line=read_header)
    assert (syntax.source, syntax.code, syntax.span.start) == (Source.NVCC, "nvcc/expected-token", at(2, 15))
    assert [fix.span.start for fix in syntax.fixes] == [at(2, 16)]
    assert (limit.source, limit.span.start) == (Source.NVCC, at(1, 17))
    assert limit.message == "Entry function 'k' uses too much shared data (0x40000 bytes, 0xc000 max)"


HOST_LOG_ROWS = [
    # A string that is not closed is a warning of the lexer, and the reason for the errors behind it.
    (
        'f("a\n);\nint x = y;\n',
        [("warning", 1, 3, "missing terminating '\"' character [-Winvalid-pp-token,Lexical or Preprocessor Issue]"), ("error", 1, 3, "expected expression"), ("error", 3, 9, "use of undeclared identifier 'y'")],
        [("error", 1, 3, "missing terminating '\"' character")],
    ),
    ("int x{3000000000};\n", [("error", 1, 7, "cannot be narrowed [-Wc++11-narrowing]"), ("warning", 1, 7, "implicit conversion changes value [-Wconstant-conversion]")], [("error", 1, 7, "cannot be narrowed")]),
    ("static float row[n];\n", [("warning", 1, 18, "variable length arrays are a Clang extension [-Wvla-cxx-extension]"), ("error", 1, 14, "cannot have 'static' storage duration")], [("error", 1, 14, "cannot have 'static' storage duration")]),
    ("float t;\nf(T);\n", [("warning", 1, 7, "unused variable 't' [-Wunused-variable]"), ("error", 2, 3, "use of undeclared identifier 'T'")], [("error", 2, 3, "use of undeclared identifier 'T'")]),
    ("f();\ng(x);\n", [("warning", 1, 1, "ignoring return value [-Wunused-result]"), ("warning", 2, 1, "sign [-Wsign-compare]")], [("warning", 1, 1, "ignoring return value"), ("warning", 2, 1, "sign")]),
    ("std::map<int, int> m;\n", [("error", 1, 6, "no template named 'map' in namespace 'std'; did you mean 'max'?")], [("error", 1, 6, "no template named 'map' in namespace 'std': #include <map> is missing")]),
    ("#include <map>\nstd::map<int> m;\n", [("error", 2, 6, "no template named 'map' in namespace 'std'")], [("error", 2, 6, "no template named 'map' in namespace 'std'")]),
    ("    printf(a);\n", [("error", 1, 5, "use of undeclared identifier 'printf'")], [("error", 1, 5, "use of undeclared identifier 'printf': #include <cstdio> is missing")]),
    ("f(a);\n", [("error", 1, 1, "no matching function for call to 'f'"), ("note", 1, 1, "candidate function not viable: requires 2 arguments, but 1 was provided")], [("error", 1, 1, "no matching function for call to 'f': requires 2 arguments, but 1 was provided")]),
    ("f(a);\n", [("error", 1, 1, "no matching function for call to 'f'"), ("note", 1, 1, "candidate template ignored: constraints not satisfied [with T = float]"), ("note", 1, 1, "because 'sizeof(float) == 8' (4 == 8) evaluated to false")], [("error", 1, 1, "no matching function for call to 'f': constraints not satisfied [with T = float], as 'sizeof(float) == 8' (4 == 8) evaluated to false")]),
    ("f(a);\n", [("error", 1, 1, "no matching function for call to 'f'"), ("note", 1, 1, "candidate function not viable: no known conversion"), ("note", 1, 1, "candidate function not viable: requires 2 arguments")], [("error", 1, 1, "no matching function for call to 'f'")]),
    (
        "int f() {\n    if (a) {\n        b();\n        }\n        c();\n    }\n    int d = 1;\n}\nint g() {}\n",
        [("error", 7, 9, "unknown type name 'd'"), ("error", 8, 1, "extraneous closing brace ('}')")],
        [("error", 4, 9, "extraneous closing brace ('}')")],
    ),
    (
        "int f() {\nint g() {\n}\n",
        [("error", 2, 9, "function definition is not allowed here"), ("error", 3, 2, "expected '}'")],
        [("error", 1, 9, "expected '}' for this '{'")],
    ),
    (
        "using A = B<\n    S<1, 2,\n    S<3, 4>,\n    5>;\nA a;\n",
        [
            ("error", 4, 5, "value of type 'int' is not implicitly convertible to 'E'"),
            ("error", 4, 7, "expected '>'"),
            ("error", 5, 1, "unknown type name 'A'"),
        ],
        [("error", 2, 6, "expected '>' for this '<'")],
    ),
    (
        "struct S { int a; }\n\n__device__ float f();\n",
        [
            ("warning", 3, 1, "attribute only applies to functions [-Wignored-attributes,Semantic Issue]"),
            ("error", 3, 12, "expected ';' after struct"),
        ],
        [("error", 1, 19, "expected ';' after struct")],
    ),
    (
        "k<<a, b>>(c);\n",
        [("error", 1, 2, "invalid operands to binary expression"), ("error", 1, 8, "invalid operands to binary (x)")],
        [("error", 1, 2, "invalid operands to binary expression")],
    ),
    (
        "int i = threadIdx.x;\n",
        [
            ("error", 1, 19, "reference to __device__ function '__get_x' in __host__ function"),
            ("error", 1, 19, "cannot find suitable getter for property 'x'"),
        ],
        [("error", 1, 9, "reference to __device__ variable 'threadIdx.x' in __host__ function")],
    ),
    (
        "namespace {\n/* f\nint f();\n}\n",
        [("error", 2, 1, "unterminated /* comment"), ("error", 4, 2, "expected '}'")],
        [("error", 2, 1, "unterminated /* comment")],
    ),
    (  # a loop that has ended before its body
        "for (int i = 0; i < n; ++i);\n{\n    f(i);\n}\n",
        [
            ("error", 3, 7, "use of undeclared identifier 'i'"),
            ("warning", 1, 28, "for loop has empty body [-Wempty-body,Semantic Issue]"),
        ],
        [("error", 1, 28, "for loop has empty body")],
    ),
    (  # a variable that is declared and defined nowhere
        "f(start);\n",
        [("warning", 1, 3, "variable 'ns::start' has internal linkage but is not defined [-Wundefined-internal]")],
        [("warning", 1, 3, "variable 'ns::start' has internal linkage but is not defined")],
    ),
    (  # an unknown name in a macro's own text, which is used twice
        "#define A(x) (x + yy)\nint a = A(1);\nint b = A(2);\n",
        [
            *(("error", 2, 9, "use of undeclared identifier 'yy'"), ("note", 1, 19, "expanded from macro 'A'")),
            *(("error", 3, 9, "use of undeclared identifier 'yy'"), ("note", 1, 19, "expanded from macro 'A'")),
        ],
        [("error", 1, 19, "use of undeclared identifier 'yy'")],
    ),
    (
        "void __launch_bounds__(n, 2) k() {}\n",
        [
            ("error", 1, 6, "'amdgpu_flat_work_group_size' attribute requires parameter 1 to be an integer constant"),
            ("note", 1, 6, "expanded from macro '__launch_bounds__'"),
        ],
        [("error", 1, 24, "the first argument of __launch_bounds__ must be an integer constant")],
    ),
    (
        "void __launch_bounds__(64, n) k() {}\n",
        [
            ("error", 1, 6, "'amdgpu_waves_per_eu' attribute argument is invalid: min must not be greater than max"),
            ("note", 1, 6, "expanded from macro '__launch_bounds__'"),
        ],
        [("error", 1, 28, "the second argument of __launch_bounds__ is invalid: min must not be greater than max")],
    ),
]  # fmt: skip


@each_row(("text", "printed", "expected"), HOST_LOG_ROWS)
def test_a_mistake_is_one_message(
    text: str, printed: list[tuple[str, int, int, str]], expected: list[tuple[str, int, int, str]]
) -> None:
    log = "\n".join(f"/ws/x.hip:{line}:{column}: {what}: {words}" for what, line, column, words in printed)
    found = diagnosed(text, log)
    assert [(str(one.severity), one.span.start, one.message) for one in found] == [
        (severity, at(line, column), message) for severity, line, column, message in expected
    ]


def test_errors_in_a_foreign_header_lie_once_at_the_line_that_led_there() -> None:
    steps = "/ws/x.hip:3:1: note: in instantiation of function template specialization 'std::sort' requested here\n"
    log = (
        f"/usr/include/c++/12/bits/stl_algo.h:40:9: error: no matching function for call to object 'Less'\n{steps}"
        f"/usr/include/c++/12/bits/predefined_ops.h:9:9: error: invalid operands to binary expression\n{steps}"
    )
    (diagnostic,) = diagnosed("#include <algorithm>\n\nstd::sort(a, b, Less{});\n", log)
    assert diagnostic.span.start == at(3, 1)


def test_what_stands_in_a_header_and_nowhere_else_follows_from_the_error_before_it() -> None:
    log = (
        "In file included from /ws/x.hip:1:\n"
        "/opt/ck/sequence.hpp:63:23: error: static assertion failed due to requirement '5 < 2': too large\n"
        "/ws/x.hip:2:7: note: in instantiation of function template specialization 'At<5>' requested here\n"
        "/opt/ck/sequence.hpp:65:23: error: non-type template argument is not a constant expression\n"
    )
    (diagnostic,) = diagnosed("#include <ck/sequence.hpp>\nusing F = At<5>;\n", log)
    assert diagnostic.span.start == at(2, 7)


def test_one_place_in_rounds_of_a_loop_is_one_message() -> None:
    text = "/* stage */ stages_1,\nother;\n"
    log = "/ws/x.hip:1:13: error: use of undeclared identifier 'stages_1'\n/ws/x.hip:1:13: error: use of undeclared identifier 'stages_2'\n"
    (diagnostic,) = diagnosed(text, log)
    assert diagnostic.message == "use of undeclared identifier 'stages_1'"


def test_a_zero_that_a_parameter_printed_is_at_the_parameter() -> None:
    text = "constexpr int x = 64 /  /* MPerBlock */ 0,\n"
    unit = unit_of(text)
    (diagnostic,) = diagnose(
        parse_clang_log("/ws/x.hip:1:22: warning: division by zero is undefined [-Wdivision-by-zero,Semantic Issue]"),
        unit=unit,
        source_path="/ws/x.hip",
        source_map=mapped(text),
        read_line=read_header,
    )
    assert diagnostic.span == unit.instance.spans["MPerBlock"]


@pytest.mark.parametrize(
    ("text", "log", "expected"),
    [
        (  # no column
            "__global__ void k() {\n    y = rounded(x);\n}\n",
            'x.cu(2): error: calling a __host__ function("ns::rounded(float)") from a __global__ function("ns::k") is not allowed\n\n',
            [(2, 9, 'calling a __host__ function("ns::rounded(float)") from a __global__ function("ns::k") is not allowed')],
        ),
        (  # the column of a line in which a macro is replaced
            "void BOUNDS(64) k(flot* x, flot y) {}\n",
            'x.cu(1): error: identifier "flot" is undefined\n  void __attribute__((bounds(64))) k(flot* x, flot y) {}\n                                     ^\n\n',
            [(1, 28, 'identifier "flot" is undefined')],
        ),
        (  # the text of a macro
            "#define A(x) (x) * yy\nint a = A(1);\n",
            'x.cu(2): error: identifier "yy" is undefined\n  int a = (1) * yy;\n                ^\n\n',
            [(1, 20, 'identifier "yy" is undefined')],
        ),
        (
            "__global__ void __launch_bounds__(4096) k(int* x) {}\n",
            "ptxas /tmp/k.ptx, line 21; error   : Value of threads per SM for entry _Z1kPi is out of range. .maxntid will be ignored\n",
            [(1, 41, "Value of threads per SM for entry k is out of range. .maxntid will be ignored")],
        ),
        (
            "f(n, y);\n",
            ('x.cu(1): error: argument of type "int" is incompatible with parameter of type "float *"\n  f(n, y);\n    ^\n\n'
            'x.cu(1): error: argument of type "float *" is incompatible with parameter of type "int"\n  f(n, y);\n       ^\n\n'),
            [(1, 3, 'argument of type "int" is incompatible with parameter of type "float *"')],
        ),
        (
            'void k() {\n    asm volatile("madd.f32 %0;" : "+f"(a));\n    asm("mov.u32 %0, 1;" : "+f"(a));\n}\n',
            ("ptxas temporary/kernel.ptx, line 51; error   : Not a name of any known instruction: 'madd'\n"
            "ptxas temporary/kernel.ptx, line 51; error   : Unexpected instruction types specified for 'madd'\n"
            "ptxas fatal   : Ptx assembly aborted due to errors\n"),
            [(2, 18, "Not a name of any known instruction: 'madd'")],
        ),
        ("void k() {\n    if (a) {\n}\n", 'At end of source: error: expected a "}"\n\n', [(2, 12, "expected a \"}\" for this '{'")]),
        (
            "void k() {\n    {\n        }\n    }\n}\n",
            "x.cu(5): error: expected a declaration\n  }\n  ^\n\n",
            [(3, 9, "extraneous closing brace ('}')")],
        ),
        (
            'f("a\n);\n',
            ('x.cu(1): error: missing terminating " character\n  f("a\n    ^\n\n'
            "x.cu(2): warning #12-D: parsing restarts here after previous syntax error\n  );\n   ^\n\n"
            'x.cu(2): warning #940-D: missing return statement at end of non-void function "f"\n\n'),
            [(1, 3, 'missing terminating " character')],
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_one_message_of_nvcc(text: str, log: str, expected: list[tuple[int, int, str]]) -> None:
    found = diagnose(
        parse_nvcc_log(log),
        unit=unit("g.cu.j2", arch="sm_90a"),
        source_path="x.cu",
        source_map=mapped(text),
        read_line=read_header,
    )
    assert [(one.span.start, one.message) for one in found] == [(at(line, at_), words) for line, at_, words in expected]


def test_what_it_names_is_no_place_in_generated_text() -> None:
    log = "/ws/x.hip:1:1: error: no viable conversion from '(lambda at kernel.cpp:53:43)' to 'int'"
    (diagnostic,) = diagnosed("int x = [] {};\n", log)
    assert diagnostic.message == "no viable conversion from '(lambda)' to 'int'"


INFINITE = "/ws/x.hip:1:9: warning: use of {} via a macro is undefined behavior due to the currently enabled floating-point options [-Wnan-infinity-disabled,Lexical or Preprocessor Issue]\n"


@pytest.mark.parametrize(("used", "flag"), [("infinity", "-fhonor-infinities"), ("NaN", "-fhonor-nans")])
def test_infinity_under_the_default_flags(used: str, flag: str) -> None:
    log = INFINITE.format(used)
    (diagnostic,) = diagnosed("float a = INFINITY;\n", log + log.replace(" via a macro", ""))
    assert "ckwatch's default" in diagnostic.message
    assert diagnostic.related == ()
    assert f'`flags = ["{flag}"]`' in diagnostic.message
    given = CompilerInputs((GivenFlag("-ffast-math", span("/ws/ckwatch.toml", 1, 9, 1, 27)),))
    (own,) = diagnosed("float a = INFINITY;\n", log, given)
    assert "ckwatch's default" not in own.message


ASSERTED = """\
template <int MPerBlock, int MPerThread>
struct Tile {
    static_assert(MPerBlock % MPerThread == 0, "threads share the rows");
    static constexpr int rows = MPerBlock;
    static constexpr int threads = MPerBlock / MPerThread;
};
int rows = Tile<96, 10>::rows;
int threads = Tile<96, 10>::threads;
"""


def test_members_of_a_class_whose_assertion_fails_follow_from_it() -> None:
    of_class = "'Tile<96, 10>'"
    (found,) = diagnosed(
        ASSERTED,
        "/ws/x.hip:3:19:{3:19-3:46}: error: static assertion failed due to requirement '96 % 10 == 0': threads share the rows [Semantic Issue]\n"
        f"/ws/x.hip:7:12: note: in instantiation of template class {of_class} requested here\n"
        f"/ws/x.hip:7:26: error: no member named 'rows' in {of_class} [Semantic Issue]\n"
        f"/ws/x.hip:8:29: error: no member named 'threads' in {of_class} [Semantic Issue]\n",
    )
    assert found.code == "clang/static-assertion"
    assert [one.message for one in found.related if one.message.startswith("in consequence")] == [
        f"in consequence: no member named 'rows' in {of_class}",
        f"in consequence: no member named 'threads' in {of_class}",
    ]


def test_what_was_changed_since_it_compiled_is_blamed() -> None:
    header = ["static_assert(MPerBlock % (MPerXDL * MRepeat) == 0,", '              "wrong");']
    log = (
        "/rocm/ck/a.hpp:1:15:{1:15-1:50}: error: static assertion failed due to requirement '128 % (32 * 3) == 0': wrong [Semantic Issue]\n"
        "/rocm/ck/a.hpp:1:20: note: expression evaluates to '32 == 0'"
    )
    unit = unit_of((LOGS / "gemm.hip").read_text().replace("MXdlPerWave */ 2", "MXdlPerWave */ 3"), siblings=0)
    for changed in ("MPerBlock", "MPerXDL", "MXdlPerWave"):
        (found,) = diagnose(
            parse_clang_log(log), unit=unit, source_path="/ws/x.hip", source_map=mapped(""),
            read_line=lambda _path, line: header[line] if line < len(header) else None,
            inputs=CompilerInputs(worked={**unit.instance.parameters, changed: 7}),
        )  # fmt: skip
        assert found.span == unit.instance.spans[changed]
