"""Tile quantization: a result is computed in whole tiles, and each tile by one workgroup on one compute unit.

Two losses follow that no kernel with these tiles avoids. *Padding*: tiles at the edges compute unused elements.
*Tail*: W workgroups on C compute units leave some with ceil(W / C) of them, and the launch ends when those do.
Workgroups that share a compute unit share its matrix units, so that a higher occupancy does not change either.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass

TILE_PARAMETERS = (
    ("MPerBlock", "NPerBlock", "KPerBlock"),
    ("m_per_block", "n_per_block", "k_per_block"),
    ("TileM", "TileN", "TileK"),
    ("tile_m", "tile_n", "tile_k"),
    ("M_Tile", "N_Tile", "K_Tile"),
    ("ThreadblockM", "ThreadblockN", "ThreadblockK"),
)
"""Names of the sizes of a workgroup's tile: CK's own and CK Tile's, each followed by those of PyTorch Inductor, those
of CK Tile's programs, and CUTLASS's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """The tile of one workgroup: `m` × `n` of the result, `k` deep at a time."""

    m: int
    n: int
    k: int


def tile_of(parameters: Mapping[str, ParameterValue], packed: int = 1) -> Tile | None:
    """The tile of an instance, None where its parameters do not say. Where `packed` elements of X share a byte, they
    count its depth in bytes."""
    for names in TILE_PARAMETERS:
        sizes = [_depth(parameters) if name == "KPerBlock" else parameters.get(name) for name in names]
        m, n, k = (size if isinstance(size, int) and not isinstance(size, bool) else 0 for size in sizes)
        if min(m, n, k) > 0:
            return Tile(m=m, n=n, k=k * packed)
    return None


def _depth(parameters: Mapping[str, ParameterValue]) -> ParameterValue | None:
    """KPerBlock; older device operations of CK have its two factors."""
    outer, inner = parameters.get("K0PerBlock"), parameters.get("K1")
    if "KPerBlock" in parameters or not isinstance(outer, int) or not isinstance(inner, int):
        return parameters.get("KPerBlock")
    return outer * inner


def threads_of(parameters: Mapping[str, ParameterValue], most: int) -> int:
    """How many threads a workgroup of an instance has: its `BlockSize`, or `most`, the largest size that the kernel was
    compiled for, which may be larger (CK compiles for 256 threads whatever it launches)."""
    threads = parameters.get("BlockSize")
    return threads if isinstance(threads, int) and not isinstance(threads, bool) and 0 < threads <= most else most


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchGrid:
    """The launch for `matrices` of M×N×K whose K is cut into `slices` (`kBatch`)."""

    tile: Tile
    m: int
    n: int
    k: int
    slices: int = 1
    matrices: int = 1

    @property
    def m_tiles(self) -> int:
        """Tiles along M."""
        return -(-self.m // self.tile.m)

    @property
    def n_tiles(self) -> int:
        """Tiles along N."""
        return -(-self.n // self.tile.n)

    @property
    def workgroups(self) -> int:
        """One per tile and slice of each matrix."""
        return self.m_tiles * self.n_tiles * self.slices * self.matrices

    @property
    def rounds(self) -> int:
        """How often a workgroup goes `tile.k` deeper: as CK's CalculateKPadded(K, KBatch) / KPerBlock."""
        return -(-self.k // (self.slices * self.tile.k))

    @property
    def flops_per_workgroup(self) -> int:
        """Operations of one workgroup, padding included; a multiply-add is two."""
        return 2 * self.tile.m * self.tile.n * self.tile.k * self.rounds

    @property
    def useful(self) -> float:
        """The part of the work that is not padding, up to 1."""
        return 2 * self.matrices * self.m * self.n * self.k / (self.workgroups * self.flops_per_workgroup)

    @property
    def loaded(self) -> tuple[int, int]:
        """Elements of X and of W that all workgroups load: each panel once per tile across it, padding left out."""
        x, w = self.n_tiles * self.m * self.k, self.m_tiles * self.n * self.k
        return self.matrices * x, self.matrices * w


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkgroupSpread:
    """A grid's workgroups over the compute units of a part."""

    workgroups: int
    waves_per_workgroup: int
    compute_units: int
    simds_per_cu: int

    @property
    def most_workgroups(self) -> int:
        """How many workgroups the busiest compute unit gets, at best."""
        return -(-self.workgroups // self.compute_units)

    @property
    def most_waves(self) -> int:
        """How many waves the busiest SIMD gets, at best."""
        return -(-self.most_workgroups * self.waves_per_workgroup // self.simds_per_cu)

    @property
    def in_tail(self) -> int:
        """Workgroups in the last round over the compute units, if it is not a full one."""
        return self.workgroups % self.compute_units

    @property
    def balance(self) -> float:
        """The part of the SIMDs' time that is used while the busiest works, up to 1."""
        waves = self.workgroups * self.waves_per_workgroup
        return waves / (self.most_waves * self.compute_units * self.simds_per_cu)
