"""Facts of an instance that follow from its parameters before it is compiled."""

from __future__ import annotations

from typing import Any

import pytest

from ckwatch.prediction.instances import instance_of

CK: dict[str, Any] = {
    "BlockSize": 256,
    "MPerBlock": 128,
    "NPerBlock": 64,
    "KPerBlock": 256,
    "MPerXDL": 32,
    "NPerXDL": 32,
    "MXdlPerWave": 2,
    "NXdlPerWave": 1,
    "CShuffleMXdlPerWavePerShuffle": 1,
    "CShuffleNXdlPerWavePerShuffle": 1,
    "BlkGemmPipeSched": "Intrawave",
    "BlkGemmPipelineVer": "v3",
}
CK_TILE: dict[str, Any] = {
    "TileM": 256,
    "TileN": 128,
    "TileK": 64,
    "WarpM": 2,
    "WarpN": 2,
    "WarpK": 1,
    "WarpTileM": 32,
    "WarpTileN": 32,
    "Pipeline": "CompV4",
    "Scheduler": "Intrawave",
    "Epilogue": "CShuffle",
}


def test_ck() -> None:
    found = instance_of(CK)
    assert found is not None
    assert (found.waves, found.waves_m, found.waves_n) == (4, 2, 2)
    # (128 + 64) · 256 bytes; the epilogue shuffles 64 × 64 accumulators of 4 bytes
    assert found.lds_bytes(1, 1) == 192 * 256
    # accumulators 32, operands (64 + 32) · 256 / 64 / 4 = 96, on the way 192 · 256 / 256 / 4 = 48, addresses 40
    assert found.registers(1, 1) == 216
    assert found.waves_per_simd(1, 1) == 2


@pytest.mark.parametrize(("version", "stages"), [("v1", 1), ("v2", 2), ("v3", 2), ("v4", 3), ("v5", 3)])
def test_loads_run_ahead(version: str, stages: int) -> None:
    found = instance_of({**CK, "BlkGemmPipelineVer": version})
    assert found is not None
    assert found.stages(1, 1) == stages


def test_small_workgroups_of_v2_load_further_ahead() -> None:
    # 16384 bytes for each of two workgroups on a CU, 48 · 128 a round
    small: dict[str, Any] = {
        "BlockSize": 128,
        "MPerBlock": 16,
        "NPerBlock": 32,
        "KPerBlock": 128,
        "BlkGemmPipelineVer": "v2",
    }
    found = instance_of({**CK, **small})
    assert found is not None
    assert found.stages(1, 1) == 3


def test_v4_has_two_buffers() -> None:
    found = instance_of({**CK, "BlkGemmPipelineVer": "v4"})
    assert found is not None
    assert found.lds_bytes(1, 1) == 2 * 192 * 256


def test_interwave_pipelines_have_two_waves() -> None:
    large: dict[str, Any] = {
        "MPerBlock": 256,
        "NPerBlock": 256,
        "MXdlPerWave": 4,
        "NXdlPerWave": 4,
        "BlkGemmPipelineVer": "v1",
    }
    alone, together = (instance_of({**CK, **large, "BlkGemmPipeSched": word}) for word in ("Intrawave", "Interwave"))
    assert alone is not None
    assert together is not None
    assert (alone.waves_per_simd(1, 1), together.waves_per_simd(1, 1)) == (1, 2)


def test_ck_tile() -> None:
    found = instance_of(CK_TILE)
    assert found is not None
    assert (found.threads, found.pipeline, found.repeats, found.waves_m) == (256, "v4", (4, 2), 2)


@pytest.mark.parametrize("left_out", ["BlockSize", "MPerXDL", "NXdlPerWave", "BlkGemmPipelineVer", "KPerBlock"])
def test_what_is_not_said_is_not_guessed(left_out: str) -> None:
    assert instance_of({name: value for name, value in CK.items() if name != left_out}) is None
