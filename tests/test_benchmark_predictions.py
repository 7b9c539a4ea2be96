"""The benchmark of predictions: which rows it takes, and that they are the slices that `rank` shows records of."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.predictions import by_name, cases_of, read_rows
from ckwatch.prediction.learned import slice_of

HEAD = "gfx,compute_units,batch,M,N,K,dtype,splitK_log2,instance,us\n"
BEHIND = "8x32x1_8x32x1_1x32x1x8_8x8x1"
ROWS = {
    "a8w8_rowwise, MI355X, i8": f"gfx950,256,1,64,1280,8192,int8,0,a8w8_rowwise_256x128x128x128_32x32_2x2_{BEHIND}_1x1",
    "a8w8_bpreshuffle, MI308X, f8": "gfx942,80,1,64,2048,1536,float8_e4m3fnuz,0,"
    f"a8w8_bpreshuffle_256x128x128x128_16x16_16x16_{BEHIND}_2x1",
    "a8w8_blockscale, MI300X, f8": "gfx942,304,1,64,2048,2048,,1,"
    "a8w8_blockscale_1x128x128_256x64x64x256_16x16_32x32_1x1_16x16x1_16x16x1_1x32x1x8_8_1x1",
    "a8w8_batched_rowwise, MI300X, i8": "gfx942,304,16,64,1280,8192,,0,"
    f"a8w8_batched_rowwise_256x128x128x128_32x32_2x2_{BEHIND}_1x1",
    "bf16_batched, MI300X, bf16": f"gfx942,304,16,64,1280,8192,,0,bf16_batched_256x128x128x64_32x32_2x2_{BEHIND}_1x1",
}


def test_every_list_that_templates_build_is_predicted_as_rank_does(tmp_path: Path) -> None:
    lines = [f"{row}_intrawave_v3,10.5\n" for row in ROWS.values()]
    (tmp_path / "winners.csv").write_text(HEAD + "".join([*lines, lines[0]]))
    (tmp_path / "space.csv").write_text("block_size_x,A100_ms\n112,2.5\n")
    cases, left_out = cases_of(read_rows(sorted(tmp_path.glob("*.csv"))))
    assert not left_out
    assert [case.slice for case in cases] == list(ROWS)
    for case in cases:
        parameters = case.candidates[case.row.winner]
        assert slice_of(parameters, case.problem, case.target.part.name) == case.slice


@pytest.mark.parametrize(
    ("name", "wave_map"),
    [
        ("256x128x128x128_16x16_16x16_8x32x1_8x32x1_1x32x1x8_8x8x1_2x1_intrawave_v3", (8, 2)),
        ("256x128x128x256_16x16_16x16_16x16x1_16x16x1_1x32x1x8_8x8x1_1x2_intrawave_v3", (4, 4)),
        ("256x256x224x128_16x16_16x16_8x32x1_8x32x1_1x64x1x4_8x8x1_2x1_intrawave_v3", (8, 7)),
        ("128x32x16x512_16x16_16x16_32x4x1_32x4x1_1x32x1x4_4x4x1_1x1_intrawave_v1", (1, 1)),
        ("256x16x512x256_16x16_16x16_16x16x1_16x16x1_1x16x1x16_8x8x1_1x2_intrawave_v2", (1, 8)),
    ],
)
def test_how_waves_share_a_tile_is_as_in_aiters_list(name: str, wave_map: tuple[int, int]) -> None:
    found = by_name(f"a8w8_bpreshuffle_{name}")
    assert (found["MXdlPerWave"], found["NXdlPerWave"]) == wave_map
