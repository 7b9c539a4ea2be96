"""Whole tiles over whole compute units."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckwatch.model.kernels import ParameterValue
from ckwatch.model.tiles import LaunchGrid, Tile, WorkgroupSpread, threads_of, tile_of
from helpers.each_row import each_row

TILE = Tile(m=128, n=128, k=64)


@each_row(
    ("parameters", "expected"),
    [
        ({"MPerBlock": 256, "NPerBlock": 224, "KPerBlock": 64, "BlockSize": 256}, Tile(m=256, n=224, k=64)),
        ({"ThreadblockM": 128, "ThreadblockN": 64, "ThreadblockK": 32}, Tile(m=128, n=64, k=32)),
        ({"TileM": 64, "TileN": 32, "TileK": 16, "WarpM": 2}, Tile(m=64, n=32, k=16)),
        ({"tile_m": 64, "tile_n": 32, "tile_k": 16}, Tile(m=64, n=32, k=16)),
        ({"m_per_block": 64, "n_per_block": 32, "k_per_block": 16}, Tile(m=64, n=32, k=16)),
        ({"M_Tile": 64, "N_Tile": 32, "K_Tile": 16, "M_Warp_Tile": 32}, Tile(m=64, n=32, k=16)),
        ({"MPerBlock": 128, "NPerBlock": 64, "K0PerBlock": 4, "K1": 8}, Tile(m=128, n=64, k=32)),
        ({"MPerBlock": 128, "NPerBlock": 64, "K0PerBlock": 4}, None),
        ({"MPerBlock": 256, "NPerBlock": 224}, None),
        ({"MPerBlock": "TILE", "NPerBlock": 64, "KPerBlock": 64}, None),
        ({"MPerBlock": True, "NPerBlock": 64, "KPerBlock": 64}, None),
        ({"MPerBlock": 0, "NPerBlock": 64, "KPerBlock": 64}, None),
        ({}, None),
    ],
)
def test_tiles_of_parameters(parameters: dict[str, ParameterValue], expected: Tile | None) -> None:
    assert tile_of(parameters) == expected


def test_depths_of_packed_elements_are_bytes() -> None:
    assert tile_of({"MPerBlock": 128, "NPerBlock": 64, "KPerBlock": 128}, packed=2) == Tile(m=128, n=64, k=256)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [({}, 256), ({"BlockSize": 64}, 64), ({"BlockSize": 512}, 256), ({"BlockSize": 0}, 256), ({"BlockSize": "B"}, 256)],
)
def test_workgroups_may_be_smaller_than_they_could_be(parameters: dict[str, ParameterValue], expected: int) -> None:
    assert threads_of(parameters, 256) == expected


@pytest.mark.parametrize(
    ("sizes", "slices", "workgroups", "rounds", "useful"),
    [
        ((4096, 4096, 4096), 1, 32 * 32, 64, 1.0),
        ((16, 8192, 8192), 1, 64, 128, 16 / 128),
        # CK: KPadded = ceil(K / (KBatch · KPerBlock)) · KPerBlock, for each slice
        ((16, 8192, 8192), 8, 512, 16, 16 / 128),
        ((128, 128, 1000), 3, 3, 6, 1000 / (3 * 6 * 64)),
        ((1000, 1032, 1048), 1, 8 * 9, 17, 1000 * 1032 * 1048 / (1024 * 1152 * 1088)),
        ((1, 1, 1), 1, 1, 1, 1 / (128 * 128 * 64)),
    ],
)
def test_grids(sizes: tuple[int, int, int], slices: int, workgroups: int, rounds: int, useful: float) -> None:
    m, n, k = sizes
    grid = LaunchGrid(tile=TILE, m=m, n=n, k=k, slices=slices)
    assert (grid.workgroups, grid.rounds) == (workgroups, rounds)
    assert grid.useful == pytest.approx(useful)


def test_operands_are_loaded_once_per_tile_across_them() -> None:
    grid = LaunchGrid(tile=TILE, m=1000, n=300, k=50)
    assert grid.loaded == (3 * 1000 * 50, 8 * 300 * 50)


@pytest.mark.parametrize(
    ("workgroups", "waves", "most", "most_waves", "tail", "balance"),
    [
        (304, 4, 1, 1, 0, 1.0),
        (305, 4, 2, 2, 1, 305 / 608),
        (1024, 4, 4, 4, 112, 1024 / 1216),
        (64, 4, 1, 1, 64, 64 / 304),
        # one wave leaves three SIMDs of its compute unit idle; four workgroups of one wave fill it
        (304, 1, 1, 1, 0, 0.25),
        (1216, 1, 4, 1, 0, 1.0),
        (304, 8, 1, 2, 0, 1.0),
        # six waves: two SIMDs of each compute unit have two
        (304, 6, 1, 2, 0, 0.75),
    ],
)
def test_spreads(workgroups: int, waves: int, most: int, most_waves: int, tail: int, balance: float) -> None:
    spread = WorkgroupSpread(workgroups=workgroups, waves_per_workgroup=waves, compute_units=304, simds_per_cu=4)
    assert (spread.most_workgroups, spread.most_waves) == (most, most_waves)
    assert spread.in_tail == tail
    assert spread.balance == pytest.approx(balance)


@given(st.integers(1, 500), st.integers(1, 16), st.integers(1, 40), st.integers(1, 4))
def test_dealing_them_out_in_turn_is_the_best_there_is(workgroups: int, waves: int, units: int, simds: int) -> None:
    per_unit = Counter(at % units for at in range(workgroups))
    per_simd = Counter((unit, at % simds) for unit, groups in per_unit.items() for at in range(groups * waves))
    spread = WorkgroupSpread(workgroups=workgroups, waves_per_workgroup=waves, compute_units=units, simds_per_cu=simds)
    assert spread.most_workgroups == max(per_unit.values())
    assert spread.most_waves == max(per_simd.values())
    assert 0 < spread.balance <= 1


@given(*(st.integers(1, 3000) for _ in range(3)), st.integers(1, 9))
def test_tiles_cover_the_work(m: int, n: int, k: int, slices: int) -> None:
    grid = LaunchGrid(tile=Tile(m=96, n=40, k=24), m=m, n=n, k=k, slices=slices)
    assert grid.m_tiles * 96 >= m > (grid.m_tiles - 1) * 96
    assert grid.n_tiles * 40 >= n > (grid.n_tiles - 1) * 40
    assert grid.rounds * slices * 24 >= k
    assert 0 < grid.useful <= 1
