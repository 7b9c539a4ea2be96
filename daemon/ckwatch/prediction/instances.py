"""How an instance of a product of matrices works, from its parameters alone: its tile, waves and pipeline, and an
estimate of the registers and the LDS that its kernel will have."""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.checks.rules import ck_tile_gemm
from ckwatch.checks.supported_shapes.universal_gemm import PREFETCH_STAGES, PRESHUFFLED_PREFETCH_STAGES
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tiles import Tile, tile_of

WAVE = 64
"""Lanes of a wave of every CDNA part."""

CK_TILE_PIPELINES: Mapping[str, str] = {
    "Mem": "v2",
    "CompV3": "v3",
    "CompV4": "v4",
    "CompV5": "v5",
    "CompV6": "v5",
    "CompAsync": "v4",
}
"""The pipeline of CK's that works as one of CK Tile's does (ck_tile/ops/gemm/pipeline/gemm_pipeline_ag_bg_cr_*.hpp)."""

ADDRESS_REGISTERS = 40
"""For addresses, loop counters and temporaries. An estimate."""

REGISTERS = 512
"""VGPRs and AGPRs of a lane (AMD Instinct MI200, MI300 and CDNA4 instruction set architecture manuals)."""

MOST_WAVES = 8
"""Of a SIMD, by the same manuals."""

_STAGED_BYTES = 32768
"""In flight per compute unit, which is what CK's v2 loads ahead (blockwise_gemm_pipeline_xdlops_v2.hpp)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmInstance:
    """`threads` of a workgroup, `tile` of it in elements; `instruction` of the matrix unit (M, N), of which each wave
    has `repeats` along M and N. `shuffled` of them go through the LDS at once in the epilogue, 0 where the accumulators
    are written as they are. `pipeline` `v1` to `v5` as CK numbers them, `interwave`: its waves take turns.
    `preshuffled`: W goes from memory to registers, in the order in which matrix instructions take it, so that waves
    along M each load it (blockwise_gemm_pipeline_xdlops_b_preshuffle_v*.hpp). `tiles_together` along M come one after
    the other: M01 in CK's BlockToCTileMap_Grouped_M00_N0_M01Adapt. `writers`: threads along N that write Y together, 0
    where that is not known."""

    threads: int
    tile: Tile
    instruction: tuple[int, int]
    repeats: tuple[int, int]
    shuffled: tuple[int, int]
    pipeline: str
    interwave: bool
    preshuffled: bool = False
    tiles_together: int = 8
    writers: int = 0

    @property
    def waves(self) -> int:
        """Of a workgroup."""
        return max(1, self.threads // WAVE)

    @property
    def waves_m(self) -> int:
        """Waves along M: each reads its own rows of X from the LDS."""
        return max(1, self.tile.m // (self.instruction[0] * self.repeats[0]))

    @property
    def waves_n(self) -> int:
        """Waves along N."""
        return max(1, self.tile.n // (self.instruction[1] * self.repeats[1]))

    def loaded_bytes(self, x_bytes: float, w_bytes: float) -> float:
        """Bytes that a workgroup loads in one round, for elements of `x_bytes` and `w_bytes`."""
        return (self.tile.m * x_bytes + self.tile.n * w_bytes) * self.tile.k

    def staged_bytes(self, x_bytes: float, w_bytes: float) -> float:
        """Bytes that a workgroup writes to the LDS in one round."""
        return self.loaded_bytes(x_bytes, 0.0 if self.preshuffled else w_bytes)

    def fetched_bytes(self, x_bytes: float, w_bytes: float) -> float:
        """Bytes that its waves read from the LDS in one round."""
        w = 0.0 if self.preshuffled else self.waves_m * self.tile.n * w_bytes
        return (self.waves_n * self.tile.m * x_bytes + w) * self.tile.k

    def stages(self, x_bytes: float, w_bytes: float) -> int:
        """How many rounds the loads run ahead of their use, that of the present round included."""
        if self.preshuffled:
            return PRESHUFFLED_PREFETCH_STAGES.get(self.pipeline, 2)
        if self.pipeline != "v2":
            return PREFETCH_STAGES.get(self.pipeline, 1)
        workgroups = max(1, 4 * WAVE // self.threads)
        return min(8, max(2, int(-(-(_STAGED_BYTES // workgroups) // self.loaded_bytes(x_bytes, w_bytes)))))

    def registers(self, x_bytes: float, w_bytes: float) -> int:
        """Estimated VGPRs and AGPRs of a lane: accumulators (4 bytes each), the operands of a round as read from the
        LDS (twice in v4, which reads ahead), what is on its way from memory, and addresses. A preshuffled W is there
        for each round that is loaded ahead."""
        accumulators = self.tile.m * self.tile.n / self.threads
        x, w = (
            size * repeats * each * self.tile.k / WAVE / 4
            for size, repeats, each in zip(self.instruction, self.repeats, (x_bytes, w_bytes), strict=True)
        )
        if self.preshuffled:
            operands = x + w * self.stages(x_bytes, w_bytes)
            on_the_way = self.staged_bytes(x_bytes, w_bytes) / self.threads / 4
        else:
            operands = (x + w) * (2 if self.pipeline == "v4" else 1)
            ahead = {"v2": self.stages(x_bytes, w_bytes), "v5": 2}.get(self.pipeline, 1)
            on_the_way = ahead * self.loaded_bytes(x_bytes, w_bytes) / self.threads / 4
        return min(REGISTERS, -(-int(accumulators + operands + on_the_way + ADDRESS_REGISTERS) // 8) * 8)

    def lds_bytes(self, x_bytes: float, w_bytes: float) -> int:
        """Of a workgroup: the operands of a round, twice in v4, and in v3 if W is preshuffled; or what the epilogue
        shuffles, if that is more."""
        twice = self.pipeline == ("v3" if self.preshuffled else "v4")
        operands = self.staged_bytes(x_bytes, w_bytes) * (2 if twice else 1)
        m, n = self.shuffled
        shuffle = self.waves_m * self.instruction[0] * m * self.waves_n * self.instruction[1] * n * 4
        return int(max(operands, shuffle))

    def waves_per_simd(self, x_bytes: float, w_bytes: float) -> int:
        """By the estimated registers. CK compiles interwave pipelines for at least two (`minimum_occupancy` in
        device_gemm_multiple_d_xdl_cshuffle_v3.hpp)."""
        waves = max(1, min(MOST_WAVES, REGISTERS // self.registers(x_bytes, w_bytes)))
        return max(2, waves) if self.interwave else waves


def instance_of(parameters: Mapping[str, ParameterValue], packed: int = 1) -> GemmInstance | None:
    """The instance that parameters of CK's and CK Tile's names describe, None where they do not say enough. `packed`
    elements of X share a byte."""
    tile = tile_of(parameters, packed)
    if tile is None:
        return None
    if "MPerXDL" in parameters:
        return _of_ck(parameters, tile)
    known = {ck_tile_gemm.OPERATION.canonical(name) or name: value for name, value in parameters.items()}
    return _of_ck_tile(known, tile)


def _of_ck(parameters: Mapping[str, ParameterValue], tile: Tile) -> GemmInstance | None:
    names = ("BlockSize", "MPerXDL", "NPerXDL", "MXdlPerWave", "NXdlPerWave")
    threads, m, n, repeats_m, repeats_n = (_positive(parameters.get(name)) for name in names)
    pipeline = parameters.get("BlkGemmPipelineVer")
    cluster = parameters.get("CShuffleBlockTransferClusterLengths_MBlock_MPerBlock_NBlock_NPerBlock")
    if not min(threads, m, n, repeats_m, repeats_n) or not isinstance(pipeline, str):
        return None
    return GemmInstance(
        threads=threads,
        tile=tile,
        instruction=(m, n),
        repeats=(repeats_m, repeats_n),
        shuffled=(
            _positive(parameters.get("CShuffleMXdlPerWavePerShuffle")),
            _positive(parameters.get("CShuffleNXdlPerWavePerShuffle")),
        ),
        pipeline=pipeline,
        interwave=parameters.get("BlkGemmPipeSched") == "Interwave",
        writers=_positive(cluster[-1]) if isinstance(cluster, tuple) else 0,
    )


def _of_ck_tile(parameters: Mapping[str, ParameterValue], tile: Tile) -> GemmInstance | None:
    names = ("WarpM", "WarpN", "WarpK", "WarpTileM", "WarpTileN")
    waves_m, waves_n, waves_k, m, n = (_positive(parameters.get(name)) for name in names)
    pipeline = CK_TILE_PIPELINES.get(str(parameters.get("Pipeline")))
    if not min(waves_m, waves_n, waves_k, m, n) or pipeline is None:
        return None
    return GemmInstance(
        threads=waves_m * waves_n * waves_k * WAVE,
        tile=tile,
        instruction=(m, n),
        repeats=(max(1, tile.m // (waves_m * m)), max(1, tile.n // (waves_n * n))),
        shuffled=(1, 1) if parameters.get("Epilogue") == "CShuffle" else (0, 0),
        pipeline=pipeline,
        interwave=parameters.get("Scheduler") == "Interwave",
    )


def _positive(value: ParameterValue | None) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
