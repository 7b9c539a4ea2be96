"""Rules of CK Tile's GEMM: each by an instance that breaks it, and instances that break none."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.checks.rules.checker import check_instance, value_of
from ckwatch.checks.rules.ck_tile_gemm import NAME, OPERATION, PARAMETERS
from ckwatch.checks.rules.instances import rendered_instances, unchecked_operations
from ckwatch.checks.rules.reference import DESCRIPTIONS
from ckwatch.model.diagnostics import Severity
from helpers.each_row import each_row

F16: dict[str, Any] = {
    "ALayout": "Row", "BLayout": "Col", "CLayout": "Row",
    "ADataType": "F16", "BDataType": "F16", "AccDataType": "F32", "CDataType": "F16",
    "TileM": 128, "TileN": 128, "TileK": 64, "WarpM": 2, "WarpN": 2, "WarpK": 1,
    "WarpTileM": 32, "WarpTileN": 32, "WarpTileK": 16, "kPadM": True, "kPadN": True, "kPadK": True,
    "Pipeline": "Pipeline::CompV3", "Scheduler": "GemmPipelineScheduler::Intrawave", "Epilogue": "Epilogue::CShuffle", "PersistentBlocks": 0,
}  # fmt: skip
F8 = {"ADataType": "F8", "BDataType": "F8", "TileK": 128}
BF16 = {"ADataType": "BF16", "BDataType": "BF16", "CDataType": "BF16"}
I8 = {"ADataType": "I8", "BDataType": "I8", "AccDataType": "I32", "CDataType": "I8"}
V4 = {"Pipeline": "Pipeline::CompV4", "TileK": 32}
V5 = {"Pipeline": "Pipeline::CompV5", "TileM": 64, "TileN": 64, "WarpM": 1, "WarpN": 1, "WarpK": 2}
ASSERTING = "".join(f'static_assert(b, "{rule.asserted_by}");' for rule in OPERATION.rules if rule.asserted_by)

ROWS: list[tuple[dict[str, Any], str, str, str]] = [
    # change, arch, rule that is broken, the message's end
    ({}, "gfx1030", "tile-arch", "0 or gfx1030 in ('gfx908', "),
    ({}, "gfx1100", "warp-tile-instruction", "WarpTile = 32x32x16, InstructionTiles = (16x16x16)"),
    ({"WarpTileK": 4}, "gfx942", "warp-tile", "32x32x4, WarpTiles = (32x32x8, "),
    ({"TransposeC": True, "WarpTileM": 4, "WarpTileN": 64, "TileN": 256}, "gfx942", "warp-tile", "4x64x16, "),
    ({"BDataType": "F32"}, "gfx942", "warp-tile", "32x32x16, WarpTiles = (none)"),
    ({**F8, "BDataType": "BF8"}, "gfx942", "mixed-types", "ADataType == BDataType or Pipeline not in ('Mem', "),
    ({**BF16, "WarpTileK": 8}, "gfx950", "warp-tile-instruction", "32x32x8, InstructionTiles = (32x32x16, 16x16x32)"),
    ({**F8, "WarpTileM": 16, "WarpTileN": 16, "WarpTileK": 128}, "gfx942", "warp-tile-instruction", "InstructionTiles = ("),
    ({**F8, "WarpTileM": 16, "WarpTileN": 16, "WarpTileK": 32}, "gfx90a", "warp-tile-instruction", "InstructionTiles = ("),
    ({**I8, "WarpTileM": 16, "WarpTileN": 16}, "gfx942", "warp-tile-instruction", "16x16x16, InstructionTiles = (32x32x16, "),
    ({**I8, "TileK": 128}, "gfx90a", "warp-tile-instruction", "InstructionTiles = ("),
    ({**F8, "BLayout": "Row", "WarpTileK": 32}, "gfx950", "warp-tile-transposed", "32x32x32, TransposedTiles = (32x32x16, 16x16x32, 16x16x128, 32x32x64)"),
    ({"TileM": 96}, "gfx942", "m-warps", "96 % (2 * 32) = 32"),
    ({"TileN": 160}, "gfx942", "n-warps", "160 % (2 * 32) = 32"),
    ({**V4, "TileM": 96}, "gfx942", "m-warps-unchecked", "96 % (2 * 32) = 32"),
    ({**V4, "TileN": 96}, "gfx942", "n-warps-unchecked", "96 % (2 * 32) = 32"),
    ({"TileK": 24}, "gfx942", "k-warp-tiles", "24 % 16 = 8"),
    ({"TileK": 48, "ALayout": "Col", "BLayout": "Row"}, "gfx942", "k-power-of-two", "TileK = 48"),
    ({"WarpK": 2}, "gfx942", "k-warps", "WarpK = 2, WaveGroups = 1"),
    ({**V5, "WarpK": 1}, "gfx942", "k-warps", "WarpK = 1, WaveGroups = 2"),
    ({**V5, "WarpM": 2}, "gfx942", "v5-warps", "2 * 1 = 2"),
    ({**V5, "BLayout": "Row"}, "gfx942", "pipeline-layouts", "Row == 'Row' and Row == 'Col'"),
    ({**V5, "PersistentBlocks": 304}, "gfx942", "v5-persistent", "PersistentBlocks = 304"),
    ({**V5, "StreamKBlocks": 304}, "gfx942", "stream-k-pipeline", "Pipeline = CompV5"),
    ({"Pipeline": "Pipeline::CompV6", "StreamKBlocks": 304}, "gfx942", "stream-k-pipeline", "Pipeline = CompV6"),
    ({"StreamKBlocks": 38, "PersistentBlocks": 304}, "gfx942", "stream-k-persistent", "PersistentBlocks = 304"),
    ({"Scheduler": "GemmPipelineScheduler::Interwave"}, "gfx942", "tile-scheduler", "Interwave == 'Intrawave' or "),
    ({"Pipeline": "Pipeline::CompAsync", "TileK": 32}, "gfx942", "async-arch", "target = gfx942"),
    ({"CLayout": "Col"}, "gfx942", "cshuffle-layout", "CLayout = Col"),
    ({"WarpM": 8, "WarpN": 4, "TileM": 512, "TileN": 256}, "gfx942", "tile-block-size", "BlockSize = 2048"),
    ({"TileK": 48}, "gfx942", "a-threads", "6 * 10 = 60"),
    ({"BLayout": "Row", "TileN": 192}, "gfx942", "b-threads", "24 * 2 = 48"),
    ({"TileM": 64, "TileK": 16, "WarpM": 1, "WarpN": 4}, "gfx942", "a-threads", ""),
    ({"BLayout": "Row", "TileN": 64, "TileK": 16}, "gfx942", "b-lines", ""),
    ({"WarpTileM": 16, "WarpTileN": 16, "TileN": 192, "WarpN": 3, "TileM": 32}, "gfx942", "c-threads", ""),
    ({"TileM": 256, "TileN": 256, "TileK": 128}, "gfx942", "tile-lds", "1 * max(131072, 0, 8192) = 131072, LdsLimit = 65536"),
    ({**V4, "TileM": 256, "TileN": 256, "TileK": 64}, "gfx942", "tile-lds", "LdsLimit = 65536"),
]  # fmt: skip

GOOD = [
    ({}, "gfx90a"),
    ({}, "gfx942:sramecc+:xnack-"),
    ({**V4, "TileM": 256, "TileN": 256}, "gfx942"),
    ({**V4, "TileM": 256, "TileN": 256, "TileK": 64}, "gfx950"),
    (V5, "gfx942"),
    ({**V4, "StreamKBlocks": 304}, "gfx942"),
    ({**F8, "WarpTileK": 16}, "gfx942"),
    ({**F8, "WarpTileK": 16}, "gfx90a"),
    ({**F8, "WarpTileM": 16, "WarpTileN": 16, "WarpTileK": 128}, "gfx950"),
    ({**BF16, "WarpTileK": 8}, "gfx942"),
    ({**I8, "TileK": 128}, "gfx942"),
    ({"Pipeline": "Pipeline::CompAsync"}, "gfx950"),
    ({"BLayout": "Row", "ALayout": "Col", "CLayout": "Col", "Epilogue": "Epilogue::Default"}, "gfx950"),
    ({"Pipeline": "Pipeline::Mem", "Scheduler": "GemmPipelineScheduler::Interwave"}, "gfx942"),
]


def broken(change: dict[str, Any], arch: str, source: str = ASSERTING) -> dict[str, str]:
    violations = check_instance(NAME, {**F16, **change}, arch, source=source)
    return {violation.rule: violation.message for violation in violations}


@each_row(("change", "arch", "rule", "end"), ROWS)
def test_rule_is_broken(change: dict[str, Any], arch: str, rule: str, end: str) -> None:
    assert end in broken(change, arch).get(rule, "not broken")


@each_row(("change", "arch"), GOOD)
def test_no_rule_is_broken(change: dict[str, Any], arch: str) -> None:
    assert broken(change, arch) == {}


def test_every_rule_has_a_row() -> None:
    assert {rule.slug for rule in OPERATION.rules} - {row[2] for row in ROWS} <= {"c-lines", "a-lines"}


def test_what_compiles_to_a_wrong_kernel_is_a_warning_where_nothing_asserts_it() -> None:
    found = check_instance(NAME, {**F16, **BF16, "WarpTileK": 8}, "gfx950", source="")
    assert [(one.rule, one.severity) for one in found] == [("warp-tile-instruction", Severity.WARNING)]


@pytest.mark.parametrize(
    ("change", "vectors"),
    [
        ({}, (8, 8, 8)),
        ({"Epilogue": "Epilogue::Default"}, (8, 8, 1)),
        ({"Epilogue": "Epilogue::Default", "TransposeC": True}, (8, 8, 4)),
        ({"TileK": 16, "TileM": 32, "TileN": 64, "WarpM": 1}, (4, 8, 8)),
        ({**F8, "CDataType": "F32"}, (16, 16, 4)),
        ({"ADataType": "F32", "BDataType": "F32", "CDataType": "F32"}, (4, 4, 4)),
    ],
)
def test_widths_of_vectors(change: dict[str, Any], vectors: tuple[int, int, int]) -> None:
    assert tuple(value_of(NAME, f"{side}Vector", {**F16, **change}) for side in "ABC") == vectors
    assert value_of(NAME, "AVector", {}) is None


def test_instances_are_found_in_rendered_text() -> None:
    arguments = ",\n".join(
        f"/* {name} */ {str(value).lower() if value is True else value}" for name, value in F16.items()
    )
    (found,) = rendered_instances(f"template <int> struct CkTileGemm {{}};\nusing Gemm = CkTileGemm<\n{arguments}>;")
    assert (found.device_operation, found.arguments["TileM"], found.arguments["kPadK"]) == (NAME, 128, True)
    assert unchecked_operations(f"using Gemm = CkTileGemm<{arguments.replace('128', 'size', 1)}>;") == [
        "TileM of CkTileGemm could not be read as values"
    ]


def test_constants_of_a_source_are_its_instance() -> None:
    source = """namespace instance {
        constexpr int32_t TileM = 96;  // constexpr int32_t TileM = 128;
        constexpr ck_tile::index_t WarpM = 2;
        constexpr int32_t WarpTileM = 32;
        constexpr bool kPadM = true;
        constexpr int32_t TileK = 32; constexpr int32_t TileK = 64;
        using ADataType = F16;
        using GemmShape = ck_tile::TileGemmShape<ck_tile::sequence<TileM, TileN, TileK>>;
        using BaseGemmPipeline = ck_tile::BaseGemmPipelineAgBgCrCompV3<GemmPipelineProblem>;
        template <bool hot> using GemmPipeline = ck_tile::GemmPipelineAgBgCrCompV3<Problem<hot>>;
        using GemmEpilogue = ck_tile::DefaultGemm2DEpilogue<EpilogueProblem>;
    }
    constexpr auto TileM = instance::TileM;"""
    (found,) = rendered_instances(source)
    assert found.arguments == {
        "ADataType": "F16",
        "TileM": 96,
        "WarpM": 2,
        "WarpTileM": 32,
        "kPadM": True,
        "Pipeline": "Pipeline::CompV3",
        "Epilogue": "Epilogue::Default",
    }
    assert [source[slice(*found.offsets[name])] for name in ("TileM", "Pipeline")] == ["96", "CompV3"]
    assert [one.rule for one in check_instance(NAME, found.arguments, "gfx942", source=source)] == ["m-warps"]


def test_other_names_of_the_parameters() -> None:
    inductor = ("tile_m", "warp_n", "warp_tile_k", "m_is_padded", "k_is_padded", "pipeline", "scheduler", "epilogue")
    own = ("TileM", "WarpN", "WarpTileK", "kPadM", "kPadK", "Pipeline", "Scheduler", "Epilogue")
    assert tuple(map(OPERATION.canonical, inductor)) == own
    assert [OPERATION.canonical(name) for name in ("M_Tile", "K_Warp_Tile", "pad_n", "layout_a")] == [
        *("TileM", "WarpTileK", "kPadN", "ALayout"),
    ]


def test_every_parameter_of_a_kernel_file_is_described() -> None:
    given = [one.name for one in PARAMETERS if "Type" not in one.name and "Layout" not in one.name]
    assert list(DESCRIPTIONS[NAME]) == given
