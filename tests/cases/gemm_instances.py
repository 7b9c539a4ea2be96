"""A part with round numbers, and an instance of a product of matrices."""

from __future__ import annotations

from ckwatch.model.tiles import Tile
from ckwatch.prediction.instances import GemmInstance
from ckwatch.prediction.times import Machine

MACHINE = Machine(
    compute_units=64,
    dies=8,
    clock_mhz=1000,
    flops=8192,
    matrix_reached=1.0,
    lds=128,
    l1=64,
    l2=16384,
    cache_tbs=10,
    cache_bytes=1 << 28,
    memory_tbs=5,
    lds_bytes=65536,
)
INSTANCE = GemmInstance(
    threads=256,
    tile=Tile(m=128, n=128, k=128),
    instruction=(32, 32),
    repeats=(2, 2),
    shuffled=(1, 1),
    pipeline="v3",
    interwave=False,
    writers=8,
)
