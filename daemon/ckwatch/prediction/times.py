"""The time of a product of matrices on an AMD part: each resource alone, the chain of a workgroup, and all together.

A workgroup of tile m×n needs `rounds` of depth k. Of W workgroups the busiest of C compute units (CUs) gets ⌈W / C⌉,
and g of them are there at a time: as many as registers and LDS allow. In bytes per element x, w, y:

- matrix: ⌈⌈W / C⌉ · waves / 4⌉ · rounds · clocks of a wave's matrix instructions / what power leaves of the clock
- LDS: ⌈W / C⌉ · (rounds · (written + read) + 2 · 4 · m · n) / its bytes a clock, where (m · x + n · w) · k are written
  and each wave reads its rows and columns
- L1: ⌈W / C⌉ · rounds · loaded / the bytes a clock that a CU gets from L2
- L2: W · rounds · loaded / the bytes a clock of all dies / `L2_REACHED`
- last level cache: the same without what a die's CUs share, / its bandwidth / `CACHE_REACHED`
- memory: X, W once (W once per sweep where both exceed the last level cache), Y written, / its bandwidth /
  `MEMORY_REACHED`
- latency: ⌈W / (C · g)⌉ · (`LATENCY_US` + rounds · chain + epilogue), as if no workgroup waited for another

The chain of a round is what the pipeline version leaves in a row. With latency L, matrix clocks c, LDS writes s and
reads r, and `ROUND_CLOCKS` for barriers, b = c + s + r / 2 + barriers, without r if waves take turns (interwave): v1
L + b; v2, which loads p rounds ahead, max(b, (L + b) / p); v3 max(L, b); v4, which multiplies from one LDS buffer while
what was loaded goes through the other, max(L + s + r / 2, c + barriers); v5 max(L / 2, b). Sources:
blockwise_gemm_pipeline_xdlops_v*.hpp of Composable Kernel.

Resources work side by side, but none is busy all the time when another is nearly as busy: the time is the generalised
mean (Σ tᵢ^p)^(1/p) with p = `OVERLAP` (p = ∞ is the roofline, p = 1 one after the other), plus `LAUNCH_US`, and for
slices of K the second kernel and the partial results.

The order of tiles is that of BlockToCTileMap_Grouped_M00_N0_M01Adapt (block_to_ctile_map.hpp): a die gets neighbours,
in columns of up to `tiles_together` of the instance along M.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import ceil, erfc, inf

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.prediction.instances import GemmInstance

LATENCY_US = 0.65
"""From a load to its use in a loop of loads, LDS writes and barriers, when memory is not busy. Pointer chasing finds a
part of it ("The MALL is Open", MEMO workshop at SC25, for the levels of MI300X); the whole is what AITER's time for
K = 796,544 on 16 workgroups leaves for a round."""

LAUNCH_US = 2.3
"""Of a kernel that does nothing, as a profiler of the device sees it: AITER's smallest products on MI355X take 2.8
µs."""

SECOND_LAUNCH_US = 1.0
"""Of the kernel that clears or adds up slices of K, begun while the first one ends."""

MEMORY_REACHED = 0.78
"""Of the data sheet's bandwidth: BabelStream and rocm_bandwidth_test reach 75 to 82 % of it on MI200 and MI300
parts."""

CACHE_REACHED = 0.6
L2_REACHED = 0.57
"""Of the peaks of the last level cache (11.9 of 17.2 TB/s at best on an MI300X in Chips and Cheese's tests) and of L2,
when all compute units load tiles from them."""

EPILOGUE_US = 0.7
"""Until the last store of a workgroup has left: about the latency of memory."""

ROUND_CLOCKS = 320.0
"""Of two barriers and the LDS's latency (about 128 clocks) after each, per round."""

SMALL_INSTRUCTIONS = 1.01
"""Matrix clocks with 16×16 in place of 32×32: as many, of twice the instructions. It decides between equals alone."""

OVERLAP = 2.75
"""How well resources work side by side."""

SIMDS_PER_CU = 4
"""Of every CDNA compute unit (AMD Instinct MI200, MI300 and CDNA4 instruction set architecture manuals)."""

ACCUMULATOR_BYTES = 4

VECTOR_FMAS = 128
"""f32 multiply-adds a clock of a CU: 163.4 TFLOP/s of vector f32 in the MI300X data sheet."""

SCALING = 4
"""Vector instructions for an accumulator and a block of scales, chosen with AITER's tables of three parts in view."""


class Bottleneck(StrEnum):
    """The resource that limits the time; of equal terms, the first."""

    MATRIX = "matrix units"
    LOOP = "main loop"
    LDS = "LDS"
    L1 = "L1 cache"
    L2 = "L2 cache"
    CACHE = "last level cache"
    MEMORY = "memory"
    VECTOR = "vector units"
    LATENCY = "latency"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A part. Rates: FLOP a clock of a CU, of which `matrix_reached` is left by clocks under power, bytes a clock of
    its LDS, of what it gets from L2, and of the L2 of all dies; TB/s of the last level cache (0: there is none beside
    L2) and of the memory."""

    compute_units: int
    dies: int
    clock_mhz: float
    flops: float
    matrix_reached: float
    lds: float
    l1: float
    l2: float
    cache_tbs: float
    cache_bytes: int
    memory_tbs: float
    lds_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """`tokens` that are each sent to `topk` of `experts`, all experts as likely as each other: AITER's tuner routes by
    random scores. Experts are then chosen by Binomial(tokens, topk / experts) tokens each."""

    tokens: int
    topk: int
    experts: int

    @property
    def used(self) -> float:
        """Expected number of experts with a token, whose W is read."""
        return float(self.experts * (1 - (1 - self.topk / self.experts) ** self.tokens))

    def tiles(self, rows: int) -> float:
        """Expected number of tiles of `rows` sorted pairs: Σ over experts of ⌈pairs / rows⌉, padding included.

        E⌈X / r⌉ = Σ_j P(X > j·r), with the normal approximation of the binomial beyond the first tile.
        """
        part = self.topk / self.experts
        mean, spread = self.tokens * part, (self.tokens * part * (1 - part)) ** 0.5
        if spread == 0:
            return self.experts * float(-(-round(mean) // rows))
        expected, at = self.used / self.experts, rows
        while at < mean + 4 * spread:
            expected += 0.5 * erfc((at + 0.5 - mean) / spread / 2**0.5)
            at += rows
        return self.experts * expected


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmSizes:
    """`matrices` of M×N×K, whose K is cut into `slices`; bytes per element.

    Operands whose scales count for blocks of `scale_depth` along K (0: none) have `x_scale_bytes` and `w_scale_bytes`
    of scales per element; `vector_scaled`: vector instructions apply them to the accumulators after each block. Of a
    mixture of experts M counts pairs of a token and an expert, `routing` says where they go; `gathered`: each token's
    row of X is read for all its experts, else results are added up for a token atomically."""

    m: int
    n: int
    k: int
    x_bytes: float
    w_bytes: float
    y_bytes: float
    slices: int = 1
    matrices: int = 1
    scale_depth: int = 0
    x_scale_bytes: float = 0.0
    w_scale_bytes: float = 0.0
    vector_scaled: bool = False
    routing: Routing | None = None
    gathered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFigures:
    """`waves_per_simd` by registers alone, and the LDS of a workgroup."""

    waves_per_simd: int
    lds_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GemmTime:
    """Microseconds: of all, of each resource alone, and of what is added to them; and what they follow from.

    `together` workgroups are on a CU at a time. `iteration_us`: of a round of the workgroups on the busiest CU.
    """

    time_us: float
    terms: Mapping[Bottleneck, float]
    launch_us: float
    workgroups: int
    rounds: int
    together: int
    iteration_us: float

    @property
    def shares(self) -> dict[Bottleneck, float]:
        """How much each resource decides, in sum 1."""
        powers = {name: time**OVERLAP for name, time in self.terms.items()}
        total = sum(powers.values())
        return {name: power / total for name, power in powers.items()}


def estimated_figures(instance: GemmInstance, sizes: GemmSizes) -> KernelFigures:
    """Before a compile."""
    return KernelFigures(
        waves_per_simd=instance.waves_per_simd(sizes.x_bytes, sizes.w_bytes),
        lds_bytes=instance.lds_bytes(sizes.x_bytes, sizes.w_bytes),
    )


def gemm_time(instance: GemmInstance, figures: KernelFigures, sizes: GemmSizes, machine: Machine) -> GemmTime:
    """The time of an instance; all sizes above 0."""
    tile, clock, units = instance.tile, machine.clock_mhz, machine.compute_units
    m_tiles, n_tiles = -(-sizes.m // tile.m), -(-sizes.n // tile.n)
    if sizes.routing is not None:
        m_tiles = max(1, ceil(sizes.routing.tiles(tile.m)))
    workgroups = m_tiles * n_tiles * sizes.slices * sizes.matrices
    rounds = -(-sizes.k // (sizes.slices * tile.k))
    together = _together(instance, figures, machine)
    most = -(-workgroups // units)
    turns = -(-workgroups // (units * together))

    written = instance.staged_bytes(sizes.x_bytes, sizes.w_bytes)
    read = instance.fetched_bytes(sizes.x_bytes, sizes.w_bytes)
    shuffled = 2 * tile.m * tile.n * ACCUMULATOR_BYTES
    x_loaded, w_loaded = min(tile.m, sizes.m) * sizes.x_bytes * tile.k, min(tile.n, sizes.n) * sizes.w_bytes * tile.k
    loaded = x_loaded + w_loaded * (instance.waves_m if instance.preshuffled else 1)
    matrix_clocks = (
        2 * tile.m * tile.n * tile.k / instance.waves / (machine.flops / SIMDS_PER_CU) / machine.matrix_reached
    )
    if instance.instruction == (16, 16):
        matrix_clocks *= SMALL_INSTRUCTIONS

    bare = matrix_clocks / clock + ROUND_CLOCKS / clock
    staged = (written + (0 if instance.interwave else read / 2)) / machine.lds / clock
    chain = _chain(instance, sizes, bare, staged)
    epilogue = EPILOGUE_US + shuffled / machine.lds / clock
    memory_us = _memory_us(sizes, machine, m_tiles, instance.tiles_together)
    unshared = workgroups * rounds * _unshared_bytes(instance, sizes, machine, workgroups, m_tiles, together)
    terms = {
        Bottleneck.MATRIX: -(-most * instance.waves // SIMDS_PER_CU) * rounds * matrix_clocks / clock,
        Bottleneck.LDS: most * (rounds * (written + read) + shuffled) / machine.lds / clock,
        Bottleneck.L1: most * rounds * loaded / machine.l1 / clock,
        Bottleneck.L2: workgroups * rounds * (x_loaded + w_loaded) / machine.l2 / clock / L2_REACHED,
        Bottleneck.CACHE: unshared / (machine.cache_tbs * 1e6) / CACHE_REACHED if machine.cache_tbs else 0.0,
        Bottleneck.MEMORY: memory_us if machine.cache_tbs else max(memory_us, _moved_us(unshared, machine)),
        Bottleneck.LATENCY: turns * (LATENCY_US + rounds * chain + epilogue),
    }
    resources = list(terms.values())
    if sizes.vector_scaled:
        blocks = -(-rounds * tile.k // sizes.scale_depth)
        terms[Bottleneck.VECTOR] = SCALING * most * blocks * tile.m * tile.n / VECTOR_FMAS / clock
        # what scales accumulators waits for the matrix instructions that make them
        resources[0] += terms[Bottleneck.VECTOR]
    launch = LAUNCH_US + _reduction_us(sizes, machine)
    busy = sum(time**OVERLAP for time in resources) ** (1 / OVERLAP)
    return GemmTime(
        time_us=launch + busy,
        terms=terms,
        launch_us=launch,
        workgroups=workgroups,
        rounds=rounds,
        together=together,
        iteration_us=busy / (turns * rounds),
    )


def _together(instance: GemmInstance, figures: KernelFigures, machine: Machine) -> int:
    by_registers = figures.waves_per_simd * SIMDS_PER_CU // instance.waves
    by_lds = machine.lds_bytes // figures.lds_bytes if figures.lds_bytes else inf
    return max(1, int(min(by_registers, by_lds)))


def _chain(instance: GemmInstance, sizes: GemmSizes, bare: float, staged: float) -> float:
    """Microseconds that a round takes in a workgroup that is alone: `bare` without the LDS, `staged` in it."""
    body = bare + staged
    if instance.preshuffled:
        # loads run a round or two ahead; v3 reads the LDS ahead, too
        waits = (LATENCY_US + body) / instance.stages(sizes.x_bytes, sizes.w_bytes)
        return max(waits, bare if instance.pipeline == "v3" else body)
    match instance.pipeline:
        case "v1":
            return LATENCY_US + body
        case "v2":
            return max(body, (LATENCY_US + body) / instance.stages(sizes.x_bytes, sizes.w_bytes))
        case "v4":
            return max(LATENCY_US + staged, bare)
        case "v5":
            return max(LATENCY_US / 2, body)
        case _:
            return max(LATENCY_US, body)


def _unshared_bytes(
    instance: GemmInstance, sizes: GemmSizes, machine: Machine, workgroups: int, m_tiles: int, together: int
) -> float:
    """Per workgroup and round: what its die does not have in L2, as those that run on it at a time share panels."""
    tile = instance.tile
    if sizes.routing is not None:
        # an expert's tiles share its W, all tiles of a token's row its X
        per_expert = m_tiles / sizes.routing.used
        m_tiles = max(1, min(m_tiles, round(per_expert)))
    on_die = max(1.0, min(workgroups, machine.compute_units * together) / machine.dies)
    high = min(m_tiles, instance.tiles_together, on_die)
    wide = max(1.0, on_die / high)
    rows, columns = min(high * tile.m, sizes.m), min(wide * tile.n, sizes.n)
    return tile.k * (rows * sizes.x_bytes + columns * sizes.w_bytes) / on_die


def _memory_us(sizes: GemmSizes, machine: Machine, m_tiles: int, tiles_together: int) -> float:
    x = sizes.m * sizes.k * (sizes.x_bytes + sizes.x_scale_bytes)
    w = sizes.n * sizes.k * (sizes.w_bytes + sizes.w_scale_bytes)
    if sizes.routing is not None:
        y = sizes.m * sizes.n * sizes.y_bytes * (1 if sizes.gathered else 2)
        x = x / sizes.routing.topk if sizes.gathered else x
        return _moved_us(x + sizes.routing.used * w + y, machine)
    sweeps = -(-m_tiles // (tiles_together * machine.dies)) if x + w > machine.cache_bytes else 1
    return _moved_us(sizes.matrices * (x + sweeps * w + sizes.m * sizes.n * sizes.y_bytes), machine)


def _moved_us(moved: float, machine: Machine) -> float:
    return moved / (machine.memory_tbs * 1e6) / MEMORY_REACHED


def _reduction_us(sizes: GemmSizes, machine: Machine) -> float:
    """Of slices of K: another kernel, and each partial result written and read once."""
    if sizes.slices == 1:
        return 0.0
    partial = 2 * sizes.matrices * sizes.slices * sizes.m * sizes.n * ACCUMULATOR_BYTES
    if machine.cache_tbs and partial <= machine.cache_bytes:
        return SECOND_LAUNCH_US + partial / (machine.cache_tbs * 1e6) / CACHE_REACHED
    return SECOND_LAUNCH_US + _moved_us(partial, machine)
