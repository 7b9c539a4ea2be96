"""How fast a kernel can be on a shape at best, and how fast it probably is, by its code object alone.

The *bound* is the roofline with whole tiles: padding and tail included (`tiles`), everything else perfect. No launch
whose workgroups compute a whole tile each is faster.

The *prediction* takes each resource alone and then the slowest of them: the main loop on the busiest SIMD, its LDS and
L1 traffic on the busiest compute unit, the L2 traffic of all, the memory. Of the loop, llvm-mca knows the cycles C of
one iteration of one wave and how long the matrix unit is busy in it, B; r waves on a SIMD need max(C, r·B) for an
iteration of each, or r·V where V is the time of their vector instructions. What it leaves out is in `LEFT_OUT`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ckwatch.analysis.mca import clocks_per_cycle
from ckwatch.analysis.refusals import refusal, slices_of
from ckwatch.analysis.report import CodeObjectReport, KernelReport, Loop
from ckwatch.analysis.target import SIMDS_PER_CU, Target
from ckwatch.analysis.tiles import Grid, Spread, lanes_of, tile_of
from ckwatch.model.dtypes import DTYPES
from ckwatch.model.kernel import ParameterValue
from ckwatch.timing.bound import Bound, bound
from ckwatch.timing.job import Cache
from ckwatch.timing.problem import Gemm, Problem

LEFT_OUT = (
    "the latency of memory and caches, and how far loads run ahead of their use",
    "bank conflicts and broadcasts of the LDS, barriers, and what surrounds the main loop",
    "the time of the launch, and clocks below the highest",
)
"""What no prediction here knows."""

VALU_CLOCKS = 4
"""Clocks that a vector instruction of a 64-lane wave holds a 16-lane SIMD (CDNA instruction set manuals)."""

WORTH_TELLING = 0.995
"""Parts of the work above this are as good as all of it."""


ALIKE = 0.999
"""Times that differ by less are the same: data sheets round."""


class Term(StrEnum):
    """What takes the time; of terms that take the same, the first is said to."""

    MATRIX = "matrix units"
    LOOP = "main loop"
    LDS = "LDS"
    L1 = "L1 cache"
    L2 = "L2 cache"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """What whole tiles cost: `useful` of the work is not padding, `balance` of the SIMDs' time is used (tail)."""

    workgroups: int
    rounds: int
    useful: float
    balance: float
    most_workgroups: int
    in_tail: int
    compute_units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What can be said of an instance on one shape of a part. Times in microseconds; what cannot be told is None, and
    `notes` say why.

    `roofline_us` knows only the part, `bound_us` the tiles too, `time_us` the compiled loop as well; `bound_tflops` and
    `tflops` count useful work. `terms`: the time that each resource would need alone. `matrix_use` is that of the loop
    with all waves of a SIMD. `iteration_us`, if the loop loads from memory: how long one iteration takes at the
    predicted speed; loads that come later than they run ahead, one iteration in most pipelines, slow it down. `why`:
    what takes the time, in words, the most important first.
    """

    part: str
    cache: Cache
    kernel: str = ""
    roofline_us: float | None = None
    roofline_by: str = ""
    bound_us: float | None = None
    bound_tflops: float | None = None
    time_us: float | None = None
    tflops: float | None = None
    limited_by: Term | None = None
    matrix_use: float | None = None
    iteration_us: float | None = None
    terms: Mapping[Term, float] = field(default_factory=dict)
    quantisation: Quantisation | None = None
    why: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def main_kernel(report: CodeObjectReport) -> KernelReport | None:
    """The kernel that does the work: of those with a loop the one with most FLOPs per iteration, else the first."""
    with_loop = [kernel for kernel in report.kernels if kernel.loop is not None]
    if with_loop:
        return max(with_loop, key=lambda kernel: 0 if kernel.loop is None else kernel.loop.flops)
    return report.kernels[0] if report.kernels else None


def predict(
    report: CodeObjectReport | None,
    parameters: Mapping[str, ParameterValue],
    problem: Problem,
    target: Target,
    cache: Cache = Cache.COLD,
) -> Prediction:
    """The bound and the prediction for an instance; without `report` only the bound."""
    roof = bound(problem, target.facts, cache)
    matrix = bound(replace(problem, bytes_moved=0), target.facts, Cache.COLD)
    memory = bound(replace(problem, gemm=None, flops=None), target.facts, cache)
    known = Prediction(
        part=target.part.name,
        cache=cache,
        roofline_us=None if roof is None else roof.time_us,
        roofline_by="" if roof is None else roof.limited_by,
        bound_us=None if roof is None else roof.time_us,
        bound_tflops=None if roof is None else _tflops(problem, roof.time_us),
    )
    kernel = None if report is None else main_kernel(report)
    if kernel is not None:
        known = replace(known, kernel=kernel.resources.name)
    refused = refusal(parameters, problem)
    if refused:
        return replace(known, bound_us=None, bound_tflops=None, notes=(f"does not support the shape: {refused}",))
    grid, why_not = _grid(parameters, problem)
    if grid is None:
        return replace(known, notes=(why_not,))
    spread = _spread(grid, kernel, parameters, target)
    known = replace(known, quantisation=_quantised(grid, spread))
    terms = _tile_terms(grid, spread, problem, target, matrix, memory)
    least = max(terms.get(Term.MATRIX, 0.0), 0.0 if memory is None else memory.time_us)
    if least:
        known = replace(known, bound_us=least, bound_tflops=_tflops(problem, least))
    known = replace(known, terms=terms)
    loop, why_not = _countable(report, kernel)
    if kernel is None or loop is None:
        return replace(known, notes=(why_not,), why=_losses(known))
    looping = _looping(loop, kernel, grid, spread, target)
    terms = {**terms, **looping.terms}
    time_us = max(terms.values())
    known = replace(
        known,
        terms=terms,
        time_us=time_us,
        tflops=_tflops(problem, time_us),
        limited_by=next(term for term in Term if terms.get(term, 0.0) >= time_us * ALIKE),
        matrix_use=looping.matrix_use,
        iteration_us=time_us / looping.in_turn if loop.global_load_bytes else None,
        notes=looping.notes,
    )
    return replace(known, why=(_reason(known, problem), *_losses(known)))


def _grid(parameters: Mapping[str, ParameterValue], problem: Problem) -> tuple[Grid | None, str]:
    if problem.gemm is None:
        return None, "it is no GEMM: its tiles are not known"
    tile = tile_of(parameters)
    if tile is None:
        return None, "the parameters do not say the tile (MPerBlock, NPerBlock, KPerBlock)"
    (m, k), n = problem.gemm.x.sizes, problem.gemm.w.sizes[1]
    return Grid(tile=tile, m=m, n=n, k=k, slices=slices_of(problem)), ""


def _spread(
    grid: Grid, kernel: KernelReport | None, parameters: Mapping[str, ParameterValue], target: Target
) -> Spread:
    """Without a kernel: as if a workgroup had a wave for each SIMD."""
    waves = SIMDS_PER_CU
    if kernel is not None and kernel.resources.workgroup_size > 0 and kernel.resources.wavefront_size > 0:
        waves = -(-lanes_of(parameters, kernel.resources.workgroup_size) // kernel.resources.wavefront_size)
    return Spread(
        workgroups=grid.workgroups,
        waves_per_workgroup=waves,
        compute_units=target.part.compute_units,
        simds_per_cu=SIMDS_PER_CU,
    )


def _quantised(grid: Grid, spread: Spread) -> Quantisation:
    return Quantisation(
        workgroups=grid.workgroups,
        rounds=grid.rounds,
        useful=grid.useful,
        balance=spread.balance,
        most_workgroups=spread.most_workgroups,
        in_tail=spread.in_tail,
        compute_units=spread.compute_units,
    )


def _tile_terms(
    grid: Grid, spread: Spread, problem: Problem, target: Target, matrix: Bound | None, memory: Bound | None
) -> dict[Term, float]:
    """What follows from the tiles alone. Split-K writes and reads a partial result per slice, in the accumulator's
    dtype, as the shipped templates do: that is not part of the bound."""
    terms: dict[Term, float] = {}
    if matrix is not None and matrix.limited_by == "matrix":
        terms[Term.MATRIX] = matrix.time_us / (grid.useful * spread.balance)
    if memory is not None:
        terms[Term.MEMORY] = memory.time_us + _partials_us(grid, problem, target)
    if problem.gemm is not None:
        loaded = sum(
            elements * DTYPES[problem.buffer(view.buffer).dtype].size_bytes
            for elements, view in zip(grid.loaded, (problem.gemm.x, problem.gemm.w), strict=True)
        )
        terms[Term.L2] = loaded / target.l2_bytes_per_clock / target.clock_mhz
    return terms


def _partials_us(grid: Grid, problem: Problem, target: Target) -> float:
    if grid.slices == 1 or problem.gemm is None:
        return 0.0
    written = grid.slices * grid.m * grid.n * _accumulator_bytes(problem.gemm)
    # what the last level cache holds does not go to memory
    return max(0, 2 * (written - target.part.last_level_cache_bytes)) / (target.part.bandwidth_tbs * 1e6)


def _accumulator_bytes(gemm: Gemm) -> int:
    return DTYPES[gemm.accumulator].size_bytes if gemm.accumulator in DTYPES else 4


def _countable(report: CodeObjectReport | None, kernel: KernelReport | None) -> tuple[Loop | None, str]:
    """The loop, if its iterations can be counted, else why there is no prediction."""
    if report is None:
        return None, "it is not compiled: only a bound"
    if kernel is None:
        return None, "the code object has no kernel: only a bound"
    if kernel.loop is None:
        return None, "no main loop was found: only a bound"
    if kernel.loop.flops <= 0:
        return None, "the main loop has no instructions whose FLOPs are known: only a bound"
    return kernel.loop, ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looping:
    """The times of the loop in microseconds, the matrix use with all waves, how many iterations a SIMD runs one after
    the other (those of waves side by side count once), and what is uncertain."""

    terms: Mapping[Term, float]
    in_turn: float
    matrix_use: float | None = None
    notes: tuple[str, ...] = ()


def _looping(loop: Loop, kernel: KernelReport, grid: Grid, spread: Spread, target: Target) -> _Looping:
    notes = () if kernel.occupancy is not None else ("the occupancy is not known: taken as one wave on a SIMD",)
    iterations = grid.flops_per_workgroup / (spread.waves_per_workgroup * loop.flops)
    most = spread.most_workgroups * spread.waves_per_workgroup * iterations
    clock = target.clock_mhz
    terms = {
        Term.LDS: most * (loop.lds_read_bytes + loop.lds_write_bytes) / target.rates.lds / clock,
        Term.L1: most * (loop.global_load_bytes + loop.global_store_bytes) / target.rates.l1 / clock,
    }
    resident = _resident(kernel, spread, target)
    in_turn = iterations * -(-spread.most_waves // resident)
    if loop.cycles is None or loop.cycles <= 0:
        note = "llvm-mca has no figure for the main loop: it is taken as if the matrix units were always busy"
        return _Looping(terms=terms, in_turn=in_turn, notes=(*notes, note))
    alone = loop.cycles * clocks_per_cycle(target.arch)
    matrix = alone * (loop.matrix_use or 0.0)
    vector = VALU_CLOCKS * loop.mix.get("valu", 0)

    def clocks(waves: int) -> float:
        return max(alone, waves * matrix, waves * vector) if waves else 0.0

    together, rest = divmod(spread.most_waves, resident)
    per_iteration = together * clocks(resident) + clocks(rest)
    terms[Term.LOOP] = iterations * per_iteration / clock
    use = spread.most_waves * matrix / per_iteration if matrix else None
    return _Looping(terms=terms, in_turn=in_turn, matrix_use=use, notes=notes)


def _resident(kernel: KernelReport, spread: Spread, target: Target) -> int:
    """How many waves the busiest SIMD has at a time. The occupancy is that of the largest workgroup; where smaller ones
    are launched, fewer waves share the LDS, of which a CU has as much as one workgroup may have at most."""
    if kernel.occupancy is None:
        return 1
    waves = min(kernel.occupancy.waves_per_simd, spread.most_waves)
    if kernel.resources.lds_bytes:
        groups = target.part.local_memory_bytes // kernel.resources.lds_bytes
        waves = min(waves, -(-groups * spread.waves_per_workgroup // spread.simds_per_cu))
    return max(1, waves)


def _tflops(problem: Problem, time_us: float) -> float | None:
    return None if problem.flops is None else problem.flops / time_us / 1e6


def _reason(known: Prediction, problem: Problem) -> str:
    time_us = known.time_us or 0.0
    match known.limited_by:
        case Term.LOOP if known.matrix_use is not None:
            return f"the main loop keeps the matrix units {100 * known.matrix_use:.0f} % busy"
        case Term.LOOP:
            return "the main loop's instructions take the time; it uses no matrix units"
        case Term.MATRIX:
            return "the matrix units are busy all the time"
        case Term.LDS:
            return "the LDS cannot deliver what the main loop reads and writes any faster"
        case Term.L1:
            return "the L1 caches cannot deliver what the main loop loads any faster"
        case Term.L2:
            return "the L2 cache cannot deliver the operands any faster: larger tiles load them less often"
        case _:
            rate = problem.bytes_moved / time_us / 1e6 if time_us else 0.0
            return f"memory: {problem.bytes_moved / 1e6:.0f} MB, {rate:.2f} TB/s at best"


def _losses(known: Prediction) -> tuple[str, ...]:
    """What padding and tail cost, the dearer first."""
    found = known.quantisation
    if found is None:
        return ()
    losses = []
    if found.balance < WORTH_TELLING:
        losses.append((found.balance, _tail(found)))
    if found.useful < WORTH_TELLING:
        losses.append((found.useful, f"padding: {100 * (1 - found.useful):.0f} % of the work is thrown away"))
    return tuple(text for _, text in sorted(losses))


def _tail(found: Quantisation) -> str:
    units, groups = found.compute_units, found.workgroups
    what = f"{groups} workgroup{'' if groups == 1 else 's'} on {units} CUs"
    if groups < units:
        return f"tail: {what} leave {units - groups} idle, {100 * found.balance:.0f} % of the SIMDs' time used"
    if not found.in_tail:
        return f"tail: {what}, too few waves for all SIMDs: {100 * found.balance:.0f} % of their time used"
    rounds = groups // units
    full = f"{rounds} full round{'' if rounds == 1 else 's'}"
    return f"tail: {what}: {full} and {found.in_tail} in the last, {100 * found.balance:.0f} % of the SIMDs' time used"
