"""Shapes that CK Tile refuses, and those next to them that it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.gemm_case import GemmCase
from ckwatch.checks.supported_shapes import shape_rules, unsupported_reason
from ckwatch.model.kernel_problem import problem_of
from ckwatch.model.kernels import ParameterValue
from helpers.each_row import each_row
from helpers.kernel_reports import problem
from helpers.workspaces import gemm_kernel, workspace

Parameters = dict[str, ParameterValue]

PADDED: Parameters = {
    "TileM": 128, "TileN": 128, "TileK": 64, "WarpM": 2, "WarpN": 2, "WarpK": 1,
    "WarpTileM": 32, "WarpTileN": 32, "WarpTileK": 16, "kPadM": True, "kPadN": True, "kPadK": True,
    "Pipeline": "CompV3", "Scheduler": "Intrawave", "Epilogue": "CShuffle",
}  # fmt: skip
UNPADDED = PADDED | {"kPadM": False, "kPadN": False, "kPadK": False}
DEFAULT = PADDED | {"Epilogue": "Default"}
INDUCTOR: Parameters = {
    "tile_m": 256, "tile_n": 256, "tile_k": 32, "warp_m": 2, "warp_n": 2, "warp_k": 1,
    "warp_tile_m": 32, "warp_tile_n": 32, "warp_tile_k": 16,
    "m_is_padded": "true", "n_is_padded": "true", "k_is_padded": "false",
    "pipeline": "Mem", "scheduler": "Interwave", "epilogue": "CShuffle",
}  # fmt: skip


@each_row(
    ("parameters", "layouts", "sizes", "expected"),
    [
        (PADDED, "row col row", (1, 8, 8), ""),
        (PADDED, "row col row", (128, 128, 100), "K = 100 is not a multiple of 8, the elements of A that are read at once"),
        (PADDED, "row col row", (128, 100, 64), "N = 100 is not a multiple of 8, the elements of C that are written at once"),
        (PADDED, "row row row", (128, 100, 64), "N = 100 is not a multiple of 8, the elements of B that are read at once"),
        (PADDED, "col row row", (7, 8, 3), "M = 7 is not a multiple of 8, the elements of A that are read at once"),
        (DEFAULT, "row col row", (1, 1, 8), ""),
        (DEFAULT | {"TransposeC": True}, "row col row", (1, 2, 8), "N = 2 is not a multiple of 4, the elements of C that are written at once"),
        (DEFAULT, "row col col", (2, 2, 8), "M = 2 is not a multiple of 4, the elements of C that are written at once"),
        (UNPADDED, "row col row", (100, 128, 64), ""),
        (UNPADDED, "row col row", (128, 128, 96), "K = 96 is not a multiple of TileK = 64, and kPadK is false"),
        (UNPADDED, "row col row", (128, 96, 64), "N = 96 is not a multiple of TileN = 128, and kPadN is false"),
        (UNPADDED, "col row row", (96, 128, 3), "M = 96 is not a multiple of TileM = 128, and kPadM is false"),
        (UNPADDED, "col row row", (128, 128, 3), ""),
        (INDUCTOR, "row col row", (1, 8, 32), ""),
        (INDUCTOR, "row col row", (1, 8, 8), "K = 8 is not a multiple of TileK = 32, and kPadK is false"),
        (PADDED, "row col row", (1 << 16, 8, (1 << 14) + 8), "A is larger than 2 GiB"),
        ({"TileK": 64}, "row col row", (1, 1, 1), ""),
    ],
)  # fmt: skip
def test_refusals(parameters: Parameters, layouts: str, sizes: tuple[int, int, int], expected: str) -> None:
    assert unsupported_reason(parameters, problem(*sizes, case=GemmCase(layouts=layouts))) == expected


@pytest.mark.parametrize(("arch", "elements"), [("gfx942", 8), ("gfx950", 8), ("gfx1201", 16), ("gfx1100", 16)])
def test_a_warp_of_32_lanes_has_more_to_read_for_each(arch: str, elements: int) -> None:
    tiles = {"TileM": 64, "TileN": 64, "TileK": 32, "WarpTileM": 16, "WarpTileN": 16, "WarpTileK": 16}
    reason = unsupported_reason(PADDED | tiles, problem(64, 64, 36, case=GemmCase(a="f8", b="f8", arch=arch)))
    assert reason == f"K = 36 is not a multiple of {elements}, the elements of A that are read at once"


@pytest.mark.parametrize(
    ("parameters", "k", "slices", "expected"),
    [
        (PADDED, 128, 2, ""),
        (PADDED, 136, 3, ""),
        (PADDED, 128, 3, "K = 128 is too small for 3 slices (kBatch) of whole TileK = 64"),
        (PADDED, 256, 3, "K = 256 is too small for 3 slices (kBatch) of whole TileK = 64"),
        (UNPADDED, 192, 2, "K = 192 is not a multiple of kBatch · TileK = 128, and kPadK is false"),
    ],
)
def test_slices(parameters: Parameters, k: int, slices: int, expected: str) -> None:
    assert unsupported_reason(parameters, problem(128, 128, k, slices)) == expected


def test_split_k_is_a_key_of_the_operation() -> None:
    family = shape_rules(PADDED)
    assert family is not None
    assert not family.splits_k(GemmCase().operation())


def test_shared_rounds_need_all_blocks_and_no_slices() -> None:
    family = shape_rules(PADDED)
    assert family is not None
    shared = PADDED | {"StreamKBlocks": 304}
    assert [family.needs_whole(one, problem(128, 128, 128)) for one in (PADDED, shared)] == ["", "blocks share tiles"]
    assert unsupported_reason(shared, problem(128, 128, 128)) == ""
    refused = unsupported_reason(shared, problem(128, 128, 128, 2))
    assert refused == "kBatch = 2, and with StreamKBlocks it must be 1"


@pytest.mark.parametrize("blocks", [7, 38, 304])
def test_shared_rounds_are_verified_where_they_are_shared(blocks: int) -> None:
    family = shape_rules(PADDED)
    assert family is not None
    assert family.special_sizes(PADDED) == {}
    found = family.special_sizes(PADDED | {"StreamKBlocks": blocks})
    assert ("whole tiles first" in found) == (blocks < 304)
    for name, (m, n, k) in found.items():
        tiles, rounds = -(-m // 128) * -(-n // 128), -(-k // 64)
        assert tiles % blocks != 0
        assert (tiles > 2 * blocks) == (name == "whole tiles first")
        assert tiles * rounds >= blocks
        assert rounds > 1
        assert unsupported_reason(PADDED | {"StreamKBlocks": blocks}, problem(m, n, k)) == ""


@pytest.mark.parametrize(
    ("parameters", "layout", "sizes", "expected"),
    [
        (PADDED, "col", (5, 24, 40), ""),
        (PADDED, "col", (5, 24, 36), "K = 36 is not a multiple of 8, the elements of A that are read at once"),
        (PADDED, "row", (5, 20, 40), "N = 20 is not a multiple of 8, the elements of B that are read at once"),
        (UNPADDED, "col", (5, 96, 64), "N = 96 is not a multiple of TileN = 128, and kPadN is false"),
        (DEFAULT, "col", (5, 3, 40), ""),
    ],
)
def test_groups_of_rows(
    tmp_path: Path, parameters: Parameters, layout: str, sizes: tuple[int, int, int], expected: str
) -> None:
    m, n, k = sizes
    text = gemm_kernel(
        "t.hip.j2",
        {"i": {"MPerBlock": 128}},
        layouts=("row", layout, "row"),
        shapes={"s": {"G": 3, "M": m, "N": n, "K": k}},
    )
    kernel = workspace(tmp_path, {"k.kernel.toml": text.replace('"gemm"', '"grouped_gemm"')}).kernels[0]
    assert unsupported_reason(parameters, problem_of(kernel.operation, kernel.shapes[0], "gfx942")) == expected
