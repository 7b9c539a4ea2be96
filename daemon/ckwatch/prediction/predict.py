"""Predicts how fast a kernel is on a shape without running it: a bound, and a probable time.

The *bound* is the roofline with whole tiles: padding and tail included (`tiles`), everything else perfect. No launch
whose workgroups compute a whole tile each is faster.

The *prediction* of a product of matrices whose parameters say how it works (`gemm_instance`: CK's and CK Tile's names)
is `gemm_time`: before a compile from the parameters alone, after it with the code object's registers and LDS. What
public measurements say beyond the formulas is added where it was learned (`learned`): to the time of the parameters
alone, as that is what it was learned from, so that a compile does not change the order.

Of other kernels there is a prediction only once they are compiled. It takes each resource alone and then the slowest
of them: the main loop on the busiest SIMD, its LDS and L1 traffic on the busiest compute unit, the L2 traffic of all,
the memory. Of the loop, llvm-mca knows the clocks C of one iteration of one wave and how long the matrix unit is busy
in it, B; r waves on a SIMD need max(C, r·B) for an iteration of each, or r·V where V is the time of their vector
instructions. What it leaves out is in `NOT_MODELLED`.

The *calibration* compares predictions with measurements of the same artifact on the same shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from itertools import combinations
from math import exp, log, prod
from statistics import fmean, median

from ckwatch.checks.supported_shapes import named_as_ck, slices_of, unsupported_reason
from ckwatch.checks.supported_shapes.universal_gemm import gemm_case
from ckwatch.codeobject.report import CodeObjectReport, KernelReport, MainLoop, OccupancyLimit, main_kernel
from ckwatch.model.amounts import time_of
from ckwatch.model.contractions import Axes, MatrixView
from ckwatch.model.gpu_specs import AMD_GPUS, DeviceFacts, GpuSpecs, specs_of
from ckwatch.model.kernel_problem import Gemm, KernelProblem
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.roofline import Bound, CacheState, bound
from ckwatch.model.tensors import DTYPES
from ckwatch.model.tiles import LaunchGrid, WorkgroupSpread, threads_of, tile_of
from ckwatch.prediction.instances import MOST_WAVES, GemmInstance, instance_of
from ckwatch.prediction.learned import learned_family, slice_of
from ckwatch.prediction.times import (
    SIMDS_PER_CU,
    Bottleneck,
    GemmSizes,
    GemmTime,
    KernelFigures,
    Machine,
    Routing,
    estimated_figures,
    gemm_time,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRates:
    """Bytes per clock: of the LDS and the vector L1 cache of a CU, of an L2 channel; how many CUs share how many
    channels (of a die). TB/s of the last level cache, 0 where L2 is the last."""

    lds: int
    l1: int
    l2_channel: int
    channels_per_die: int
    cus_per_die: int
    last_level_tbs: float = 0.0


MEMORY_RATES: Mapping[str, MemoryRates] = {
    "gfx90a": MemoryRates(lds=128, l1=64, l2_channel=128, channels_per_die=32, cus_per_die=110),
    "gfx942": MemoryRates(lds=128, l1=128, l2_channel=128, channels_per_die=16, cus_per_die=38, last_level_tbs=17.2),
    "gfx950": MemoryRates(lds=128, l1=128, l2_channel=128, channels_per_die=16, cus_per_die=32, last_level_tbs=17.2),
}
"""By arch. LDS, L1, and L2 of gfx942 and gfx950: the peaks in ROCm Compute Profiler's panels
(analysis_configs/ARCH/0200_system-speed-of-light.yaml: LDS 0.128 KB, vL1D 64 or 128 B, an L2 channel 128 B a clock). Of
gfx90a's L2 the panel says 64 B a channel; the CDNA 2 white paper's 128 B in 32 slices (4,096 B a clock) are taken.
Channels of gfx942 and gfx950: the profiler's mi_gpu_spec.yaml. CUs of a die: "AMD GPU specifications" in ROCm's
documentation (38 and 32 per XCD). The last level cache: CDNA 3 white paper, 17.2 TB/s, taken for gfx950 too."""

MATRIX_REACHED: Mapping[str, float] = {"gfx942": 0.55, "MI308X": 0.8}
"""Of the peak while matrix instructions come without a gap, by part or arch: clocks under power. gfx942: AMD's
"Measuring max-achievable FLOPs" (ROCm blogs) has 708 of 1307 TFLOP/s in bf16 for an MI300X. MI308X has a quarter of
its compute units to feed: AITER's winners reach up to 0.8 of the peak there, 0.37 on MI300X. Of others no figure is
known: `REACHED` is an assumption, which AITER's winners on MI355X do not contradict."""

REACHED = 0.9

CU_FROM_L2 = 64
"""Bytes a clock that a CU gets from its L2: a line of 64 or of 128 bytes every one or two clocks (CDNA 3 white paper:
2 KB a clock for the CUs of a die)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionTarget:
    """A part, as `timing.bound` wants it, and its rates."""

    arch: str
    part: GpuSpecs
    facts: DeviceFacts
    rates: MemoryRates

    @property
    def clock_mhz(self) -> float:
        """The clock of the prediction: the highest by data sheet or device."""
        return max(self.part.clock_mhz, self.facts.clock_mhz)

    @property
    def l2_bytes_per_clock(self) -> float:
        """Of all dies together."""
        return self.dies * self.rates.channels_per_die * self.rates.l2_channel

    @property
    def dies(self) -> int:
        """How many L2 caches it has."""
        return self.part.dies or max(1, round(self.part.compute_units / self.rates.cus_per_die))

    def machine(self, dtypes: Iterable[str]) -> Machine | None:
        """Return the machine that multiplies operands of these dtypes, or None if it has no peak for one of them."""
        part = self.part
        peaks = [part.peak_tflops.get(dtype, 0.0) for dtype in dtypes]
        if not all(peaks):
            return None
        return Machine(
            compute_units=part.compute_units,
            dies=self.dies,
            clock_mhz=self.clock_mhz,
            flops=max(peaks) * 1e6 / (part.compute_units * part.clock_mhz),
            matrix_reached=MATRIX_REACHED.get(part.name, MATRIX_REACHED.get(self.arch, REACHED)),
            lds=self.rates.lds,
            l1=CU_FROM_L2,
            l2=self.l2_bytes_per_clock,
            cache_tbs=self.rates.last_level_tbs,
            cache_bytes=part.last_level_cache_bytes,
            memory_tbs=part.bandwidth_tbs,
            lds_bytes=part.local_memory_bytes,
        )


def target_names(arch: str) -> tuple[str, ...]:
    """The names of the parts that predictions can be for, the default first; none for an arch that is not known."""
    base = arch.partition(":")[0]
    return tuple(part.name for _, part in AMD_GPUS.get(base, ())) if base in MEMORY_RATES else ()


def target_of(arch: str, name: str = "") -> PredictionTarget | None:
    """The part called `name` (`MI300X`, in any case) of `arch`, or the arch's first, which is the fastest: its bound is
    one for the others too. None for an arch without known parts. Raises ValueError when the arch has no such part."""
    base = arch.partition(":")[0]
    rows = AMD_GPUS.get(base, ())
    if not rows or base not in MEMORY_RATES:
        return None
    if not name:
        part = rows[0][1]
    else:
        found = next((part for pattern, part in rows if re.fullmatch(pattern, name, re.IGNORECASE)), None)
        if found is None:
            raise ValueError(f"no part of {base} is called '{name}': there are {', '.join(target_names(base))}")
        part = found
    facts = DeviceFacts(
        name="hip:0",
        description=part.name,
        arch=base,
        compute_units=part.compute_units,
        clock_mhz=part.clock_mhz,
        last_level_cache_bytes=part.last_level_cache_bytes,
        local_memory_bytes=part.local_memory_bytes,
    )
    return PredictionTarget(arch=base, part=part, facts=facts, rates=MEMORY_RATES[base])


def target_of_device(facts: DeviceFacts) -> PredictionTarget | None:
    """The target that a device at hand is; None where its part is not known."""
    part, base = specs_of(facts), facts.arch.partition(":")[0]
    if part is None or base not in MEMORY_RATES:
        return None
    return PredictionTarget(arch=base, part=part, facts=facts, rates=MEMORY_RATES[base])


NOT_MODELLED = (
    "bank conflicts and broadcasts of the LDS, spills before a compile, and TLB misses",
    "what the data do to power and clocks, and what else the device does",
    "where only a loop is known (no CK or CK Tile parameters): latencies, launch, prologue and epilogue",
)
"""Effects that no prediction here includes."""

VALU_CLOCKS = 4
"""Clocks that a vector instruction of a 64-lane wave holds a 16-lane SIMD (CDNA instruction set manuals)."""

FULL_USE = 0.995
"""Parts of the work above this are as good as all of it."""


SAME_TIME = 0.999
"""Times that differ by less are the same: data sheets round."""


class Basis(StrEnum):
    """The source of a predicted time: the parameters alone, or also the compiled code object."""

    PARAMETERS = "parameters"
    CODE_OBJECT = "code object"


@dataclass(frozen=True, slots=True, kw_only=True)
class TileQuantization:
    """The cost of whole tiles: `useful` of the work is not padding, `balance` of the SIMDs' time is used."""

    workgroups: int
    rounds: int
    useful: float
    balance: float
    most_workgroups: int
    in_tail: int
    compute_units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A prediction for an instance on one shape of a part. Times are in microseconds; unknown values are None, and
    `notes` say why.

    `roofline_us` knows only the part, `bound_us` the tiles too, `time_us` the compiled loop as well; `bound_tflops` and
    `tflops` count useful work. `terms`: the time that each resource would need alone. `matrix_use` is that of the loop
    with all waves of a SIMD. `iteration_us`, if the loop loads from memory: how long one iteration takes at the
    predicted speed; loads that come later than they run ahead, one iteration in most pipelines, slow it down. `why`:
    what takes the time, in words, the most important first. `predicted` is always true, so that the numbers are not
    taken for measured ones.

    `low_us` and `high_us`: between them were 80 % of such measured times, None where that is not known. `basis` of
    `time_us`, None where there is none. `formula_us`: by `gemm_time` alone, None where another model was
    used; `learned` says that public measurements changed it to `time_us`, `slice` which of them are of such kernels on
    this part, empty if none can be. `workgroups_per_cu`: how many are on a compute unit at a time, as it was estimated
    or compiled.
    """

    predicted: bool = field(init=False, default=True)
    part: str
    cache: CacheState
    kernel: str = ""
    roofline_us: float | None = None
    roofline_by: str = ""
    bound_us: float | None = None
    bound_tflops: float | None = None
    time_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    tflops: float | None = None
    limited_by: Bottleneck | None = None
    matrix_use: float | None = None
    iteration_us: float | None = None
    basis: Basis | None = None
    formula_us: float | None = None
    learned: bool = False
    slice: str = ""
    workgroups_per_cu: int | None = None
    terms: Mapping[Bottleneck, float] = field(default_factory=dict)
    quantisation: TileQuantization | None = None
    why: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def predict(
    report: CodeObjectReport | None,
    parameters: Mapping[str, ParameterValue],
    problem: KernelProblem,
    target: PredictionTarget,
    cache: CacheState = CacheState.COLD,
) -> Prediction:
    """The bound and the prediction for an instance. Without `report` there is a time where the parameters say how the
    instance works, else only the bound. Pure, and about 0.2 ms."""
    parameters = named_as_ck(parameters)
    roof = bound(problem, target.facts, cache)
    matrix = bound(replace(problem, bytes_moved=0), target.facts, CacheState.COLD)
    memory = bound(replace(problem, computed=None, flops=None), target.facts, cache)
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
    refused = unsupported_reason(parameters, problem)
    if refused:
        return replace(known, bound_us=None, bound_tflops=None, notes=(f"does not support the shape: {refused}",))
    grid, why_not = _grid(parameters, problem)
    if grid is None:
        # which experts are met, and so what is moved at least, depends on the routing
        modelled = modelled_gemm(kernel, parameters, problem, target) if cache is CacheState.COLD else None
        if modelled is None:
            return replace(known, notes=(why_not,))
        known = replace(known, roofline_us=None, roofline_by="", bound_us=None, bound_tflops=None)
        known = replace(known, notes=("tokens are taken to meet each expert as likely as any other",))
        return _modelled(known, modelled, problem, compiled=kernel is not None)
    spread = _spread(grid, kernel, parameters, target)
    known = replace(known, quantisation=_quantised(grid, spread))
    terms = _tile_terms(grid, spread, problem, target, matrix, memory)
    least = max(terms.get(Bottleneck.MATRIX, 0.0), 0.0 if memory is None else memory.time_us)
    if least:
        known = replace(known, bound_us=least, bound_tflops=_tflops(problem, least))
    known = replace(known, terms=terms)
    # the formulas are for cold caches
    modelled = modelled_gemm(kernel, parameters, problem, target) if cache is CacheState.COLD else None
    if modelled is not None:
        return _modelled(known, modelled, problem, compiled=kernel is not None)
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
        basis=Basis.CODE_OBJECT,
        limited_by=next(term for term in Bottleneck if terms.get(term, 0.0) >= time_us * SAME_TIME),
        matrix_use=looping.matrix_use,
        iteration_us=time_us / looping.in_turn if loop.global_load_bytes else None,
        notes=looping.notes,
    )
    return replace(known, why=(_reason(known, problem), *_losses(known)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelledGemm:
    """A product of matrices as `gemm_time` sees it: `time`, and the `estimated` one before a compile. `measured` is the
    slice of public measurements that it would be in (`learned.slice_of`); `factor` for the estimated time, if one was
    learned, with the factors of an interval around that."""

    instance: GemmInstance
    sizes: GemmSizes
    time: GemmTime
    estimated: GemmTime
    measured: str
    factor: tuple[float, float, float] | None = None


def modelled_gemm(
    kernel: KernelReport | None,
    parameters: Mapping[str, ParameterValue],
    problem: KernelProblem,
    target: PredictionTarget,
) -> ModelledGemm | None:
    """By CK's or CK Tile's names of parameters, with what a compile knows if there was one. None where the parameters
    do not say enough, or the part has no peak for the operands."""
    found = expert_sizes(problem) or gemm_sizes(parameters, problem)
    if found is None:
        return None
    sizes, dtypes = found
    instance = instance_of(parameters, DTYPES[dtypes[0]].packed)
    machine = target.machine(dtypes)
    if instance is None or machine is None:
        return None
    case = gemm_case(parameters, problem)
    if sizes.routing is not None:
        # names of AITER's instances for experts do not say what is shuffled
        instance = replace(instance, preshuffled=True, shuffled=(0, 0))
    elif case is not None and case.is_preshuffled:
        instance = replace(instance, preshuffled=True)
    figures = estimated_figures(instance, sizes)
    estimated = gemm_time(instance, figures, sizes, machine)
    time = estimated if kernel is None else gemm_time(instance, compiled_figures(kernel, figures), sizes, machine)
    measured = slice_of(parameters, problem, target.part.name)
    family = learned_family(measured.partition(",")[0])
    correction = None if family is None else family.correction_of(measured)
    factor = (
        None
        if correction is None
        else correction.factor(instance, sizes, estimated, machine.compute_units, measured, target.arch)
    )
    return ModelledGemm(
        instance=instance, sizes=sizes, time=time, estimated=estimated, measured=measured, factor=factor
    )


def gemm_sizes(
    parameters: Mapping[str, ParameterValue], problem: KernelProblem
) -> tuple[GemmSizes, tuple[str, str]] | None:
    """The sizes of a product of matrices and the dtypes of X and W; None of another problem, or without a tile."""
    gemm = problem.gemm
    grid, _ = _grid(parameters, problem)
    if gemm is None or grid is None:
        return None
    x, w, y = (DTYPES[problem.buffer(view.buffer).dtype] for view in (gemm.x, gemm.w, gemm.y))
    x_scale, w_scale = gemm.x_scale, gemm.w_scale
    depth = max(_repeated(x_scale.columns) if x_scale else 0, _repeated(w_scale.rows) if w_scale else 0)
    sizes = GemmSizes(
        m=grid.m,
        n=grid.n,
        k=grid.k,
        x_bytes=x.size_bytes / x.packed,
        w_bytes=w.size_bytes / w.packed,
        y_bytes=y.size_bytes / y.packed,
        slices=grid.slices,
        matrices=grid.matrices,
        scale_depth=depth,
        # matrix instructions of CDNA4 apply scales of 32 elements themselves
        vector_scaled=depth > 0 and depth != MICROSCALED,
        x_scale_bytes=_scale_bytes(x_scale, problem),
        w_scale_bytes=_scale_bytes(w_scale, problem),
    )
    return sizes, (x.name, w.name)


def expert_sizes(problem: KernelProblem) -> tuple[GemmSizes, tuple[str, str]] | None:
    """The sizes of a stage of a mixture of experts, whose routing is taken as even chance, and the dtypes of X and W;
    None of another problem."""
    rows = problem.rows
    if rows is None or rows.reference != "moe_gemm":
        return None
    sizes, first = dict(rows.sizes), dict(rows.options)["stage"] == 1
    x, w, y = (DTYPES[problem.buffer(rows.view(role).buffer).dtype] for role in ("x", "w", "y"))
    found = GemmSizes(
        m=sizes["tokens"] * sizes["topk"],
        # gate and up
        n=sizes["N"] * (2 if first else 1),
        k=sizes["K"],
        x_bytes=x.size_bytes / x.packed,
        w_bytes=w.size_bytes / w.packed,
        y_bytes=y.size_bytes / y.packed,
        routing=Routing(tokens=sizes["tokens"], topk=sizes["topk"], experts=sizes["experts"]),
        gathered=first,
    )
    return found, (x.name, w.name)


MICROSCALED = 32
"""Elements along K for which a scale of the MX formats counts (OCP Microscaling Formats, 2023)."""


def _scale_bytes(view: MatrixView | None, problem: KernelProblem) -> float:
    """Bytes of scales for an element of the operand."""
    if view is None:
        return 0.0
    elements = _repeated(view.rows) * _repeated(view.columns)
    return DTYPES[problem.buffer(view.buffer).dtype].size_bytes / elements


def _repeated(axes: Axes) -> int:
    """How many elements along some axes share a value."""
    return prod(size for size, stride in axes if stride == 0)


def _modelled(known: Prediction, modelled: ModelledGemm, problem: KernelProblem, *, compiled: bool) -> Prediction:
    found = modelled.time
    least = known.bound_us or 0.0
    # registers that a compile found change no order that was learned from estimates
    probable = found.time_us if modelled.factor is None else modelled.estimated.time_us * modelled.factor[0]
    time_us = max(probable, least)
    terms = {**found.terms, Bottleneck.LAUNCH: found.launch_us}
    known = replace(
        known,
        terms=terms,
        time_us=time_us,
        tflops=_tflops(problem, time_us),
        limited_by=max(terms, key=lambda term: terms[term]),
        matrix_use=found.terms[Bottleneck.MATRIX] / time_us,
        iteration_us=found.iteration_us,
        basis=Basis.CODE_OBJECT if compiled else Basis.PARAMETERS,
        formula_us=found.time_us,
        learned=modelled.factor is not None,
        slice=modelled.measured,
        workgroups_per_cu=found.together,
    )
    if modelled.factor is not None:
        _, low, high = modelled.factor
        known = replace(known, low_us=max(probable * low, least), high_us=max(probable * high, least))
    return replace(known, why=(_limit_text(known, found), *_losses(known)))


def compiled_figures(kernel: KernelReport, estimated: KernelFigures) -> KernelFigures:
    """Replace estimates by figures of the compiled kernel. llvm-mca's clocks of the loop are not used: with them, fewer
    of AITER's winners are chosen (84 instead of 92 % are among the first five)."""
    return KernelFigures(
        waves_per_simd=_waves_by_registers(kernel) or estimated.waves_per_simd,
        lds_bytes=kernel.resources.lds_bytes or estimated.lds_bytes,
    )


def _waves_by_registers(kernel: KernelReport) -> int:
    """0 where the occupancy is not known."""
    found = kernel.occupancy
    return 0 if found is None else min(found.by.get(OccupancyLimit.VGPR, found.waves_per_simd), MOST_WAVES)


def _limit_text(known: Prediction, found: GemmTime) -> str:
    """Name the bottleneck, and the next one if it takes more than half as long."""
    first, second, *_ = sorted(known.terms.items(), key=lambda term: -term[1])
    text = f"{first[0]} alone would take {time_of(first[1])}"
    if first[0] is Bottleneck.LATENCY:
        turns = "once" if found.workgroups <= found.together * _units(known) else "several times over"
        rounds = f"{found.rounds} round{'' if found.rounds == 1 else 's'}"
        text = f"latency: a workgroup's {rounds} in a row, {turns}, take {time_of(first[1])}"
    return text if second[1] < first[1] / 2 else f"{text}, {second[0]} {time_of(second[1])}"


def _units(known: Prediction) -> int:
    return 1 if known.quantisation is None else known.quantisation.compute_units


def _grid(parameters: Mapping[str, ParameterValue], problem: KernelProblem) -> tuple[LaunchGrid | None, str]:
    if problem.gemm is None:
        unknown = problem.computed is None
        return (
            None,
            "what it computes is not known" if unknown else "its launches are not those of a product of matrices",
        )
    tile = tile_of(parameters, DTYPES[problem.buffer(problem.gemm.x.buffer).dtype].packed)
    if tile is None:
        return None, "the parameters do not say the tile (MPerBlock, NPerBlock, KPerBlock)"
    if parameters.get("StreamKBlocks"):
        return None, "its blocks share tiles (StreamKBlocks): none computes one of its own"
    (m, k), n = problem.gemm.x.sizes, problem.gemm.w.sizes[1]
    return LaunchGrid(tile=tile, m=m, n=n, k=k, slices=slices_of(problem), matrices=problem.gemm.y.matrices), ""


def _spread(
    grid: LaunchGrid, kernel: KernelReport | None, parameters: Mapping[str, ParameterValue], target: PredictionTarget
) -> WorkgroupSpread:
    """Without a kernel: as if a workgroup had a wave for each SIMD."""
    waves = SIMDS_PER_CU
    if kernel is not None and kernel.resources.workgroup_size > 0 and kernel.resources.wavefront_size > 0:
        waves = -(-threads_of(parameters, kernel.resources.workgroup_size) // kernel.resources.wavefront_size)
    return WorkgroupSpread(
        workgroups=grid.workgroups,
        waves_per_workgroup=waves,
        compute_units=target.part.compute_units,
        simds_per_cu=SIMDS_PER_CU,
    )


def _quantised(grid: LaunchGrid, spread: WorkgroupSpread) -> TileQuantization:
    return TileQuantization(
        workgroups=grid.workgroups,
        rounds=grid.rounds,
        useful=grid.useful,
        balance=spread.balance,
        most_workgroups=spread.most_workgroups,
        in_tail=spread.in_tail,
        compute_units=spread.compute_units,
    )


def _tile_terms(
    grid: LaunchGrid,
    spread: WorkgroupSpread,
    problem: KernelProblem,
    target: PredictionTarget,
    matrix: Bound | None,
    memory: Bound | None,
) -> dict[Bottleneck, float]:
    """Return the terms that follow from the tiles alone. Split-K writes and reads a partial result per slice, in the
    accumulator's dtype, as the shipped templates do: that is not part of the bound."""
    terms: dict[Bottleneck, float] = {}
    if matrix is not None and matrix.limited_by == "matrix":
        terms[Bottleneck.MATRIX] = matrix.time_us / (grid.useful * spread.balance)
    if memory is not None:
        terms[Bottleneck.MEMORY] = memory.time_us + _partials_us(grid, problem, target)
    if problem.gemm is not None:
        loaded = sum(
            DTYPES[problem.buffer(view.buffer).dtype].bytes_for(elements)
            for elements, view in zip(grid.loaded, (problem.gemm.x, problem.gemm.w), strict=True)
        )
        terms[Bottleneck.L2] = loaded / target.l2_bytes_per_clock / target.clock_mhz
    return terms


def _partials_us(grid: LaunchGrid, problem: KernelProblem, target: PredictionTarget) -> float:
    if grid.slices == 1 or problem.gemm is None:
        return 0.0
    written = grid.matrices * grid.slices * grid.m * grid.n * _accumulator_bytes(problem.gemm)
    # what the last level cache holds does not go to memory
    return max(0, 2 * (written - target.part.last_level_cache_bytes)) / (target.part.bandwidth_tbs * 1e6)


def _accumulator_bytes(gemm: Gemm) -> int:
    return DTYPES[gemm.accumulator].size_bytes if gemm.accumulator in DTYPES else 4


def _countable(report: CodeObjectReport | None, kernel: KernelReport | None) -> tuple[MainLoop | None, str]:
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

    terms: Mapping[Bottleneck, float]
    in_turn: float
    matrix_use: float | None = None
    notes: tuple[str, ...] = ()


def _looping(
    loop: MainLoop, kernel: KernelReport, grid: LaunchGrid, spread: WorkgroupSpread, target: PredictionTarget
) -> _Looping:
    notes = () if kernel.occupancy is not None else ("the occupancy is not known: taken as one wave on a SIMD",)
    iterations = grid.flops_per_workgroup / (spread.waves_per_workgroup * loop.flops)
    most = spread.most_workgroups * spread.waves_per_workgroup * iterations
    clock = target.clock_mhz
    terms = {
        Bottleneck.LDS: most * (loop.lds_read_bytes + loop.lds_write_bytes) / target.rates.lds / clock,
        Bottleneck.L1: most * (loop.global_load_bytes + loop.global_store_bytes) / target.rates.l1 / clock,
    }
    resident = _resident(kernel, spread, target)
    in_turn = iterations * -(-spread.most_waves // resident)
    if loop.clocks is None or loop.clocks <= 0:
        note = "llvm-mca has no figure for the main loop: it is taken as if the matrix units were always busy"
        return _Looping(terms=terms, in_turn=in_turn, notes=(*notes, note))
    alone = loop.clocks
    matrix = alone * (loop.matrix_use or 0.0)
    vector = VALU_CLOCKS * loop.mix.get("valu", 0)

    def clocks(waves: int) -> float:
        return max(alone, waves * matrix, waves * vector) if waves else 0.0

    together, rest = divmod(spread.most_waves, resident)
    per_iteration = together * clocks(resident) + clocks(rest)
    terms[Bottleneck.LOOP] = iterations * per_iteration / clock
    use = spread.most_waves * matrix / per_iteration if matrix else None
    return _Looping(terms=terms, in_turn=in_turn, matrix_use=use, notes=notes)


def _resident(kernel: KernelReport, spread: WorkgroupSpread, target: PredictionTarget) -> int:
    """How many waves the busiest SIMD has at a time. The occupancy is that of the largest workgroup; where smaller ones
    are launched, fewer waves share the LDS, of which a CU has as much as one workgroup may have at most."""
    if kernel.occupancy is None:
        return 1
    waves = min(kernel.occupancy.waves_per_simd, spread.most_waves)
    if kernel.resources.lds_bytes:
        groups = target.part.local_memory_bytes // kernel.resources.lds_bytes
        waves = min(waves, -(-groups * spread.waves_per_workgroup // spread.simds_per_cu))
    return max(1, waves)


def _tflops(problem: KernelProblem, time_us: float) -> float | None:
    return None if problem.flops is None else problem.flops / time_us / 1e6


def _reason(known: Prediction, problem: KernelProblem) -> str:
    time_us = known.time_us or 0.0
    match known.limited_by:
        case Bottleneck.LOOP if known.matrix_use is not None:
            return f"the main loop keeps the matrix units {100 * known.matrix_use:.0f} % busy"
        case Bottleneck.LOOP:
            return "the main loop's instructions take the time; it uses no matrix units"
        case Bottleneck.MATRIX:
            return "the matrix units are busy all the time"
        case Bottleneck.LDS:
            return "the LDS cannot deliver what the main loop reads and writes any faster"
        case Bottleneck.L1:
            return "the L1 caches cannot deliver what the main loop loads any faster"
        case Bottleneck.L2:
            return "the L2 cache cannot deliver the operands any faster: larger tiles load them less often"
        case _:
            rate = problem.bytes_moved / time_us / 1e6 if time_us else 0.0
            return f"memory: {problem.bytes_moved / 1e6:.0f} MB, {rate:.2f} TB/s at best"


def _losses(known: Prediction) -> tuple[str, ...]:
    """Describe the cost of padding and tail, the larger first."""
    found = known.quantisation
    if found is None:
        return ()
    losses = []
    if found.balance < FULL_USE:
        losses.append((found.balance, _quantization_text(found)))
    if found.useful < FULL_USE:
        losses.append((found.useful, f"padding: {100 * (1 - found.useful):.0f} % of the work is thrown away"))
    return tuple(text for _, text in sorted(losses))


def _quantization_text(found: TileQuantization) -> str:
    units, groups = found.compute_units, found.workgroups
    what = f"{groups} workgroup{'' if groups == 1 else 's'} on {units} CUs"
    used = f"{100 * found.balance:.0f} % of the SIMDs' time used"
    if groups < units:
        return f"wave quantization: {what} leave {units - groups} idle, {used}"
    if not found.in_tail:
        return f"wave quantization: {what}, too few waves for all SIMDs, {used}"
    times = groups // units
    fill = f"fill them {'once' if times == 1 else f'{times} times'}"
    return f"wave quantization: {what} {fill} and leave {found.in_tail} for the end, {used}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPrediction:
    """A prediction and the measurement of the same artifact on the same shape, in microseconds; both above 0.

    `ratio` is measured over predicted: above 1 the prediction was too good.
    """

    unit: str
    shape: str
    device: str
    predicted_us: float
    measured_us: float
    bound_us: float | None = None
    ratio: float = field(init=False, default=1.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", self.measured_us / self.predicted_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """`ratio` is the median of measured over predicted; `off` the geometric mean of how far each lies from that ratio
    (1.1: by 10 % up or down); `order` the part of all pairs of one shape and device that the predictions put in the
    order of the measurements, None without such a pair. `below_bound`: measured below the bound, so that the bound or
    the timing is wrong."""

    pairs: tuple[MeasuredPrediction, ...]
    ratio: float
    off: float
    order: float | None
    below_bound: tuple[MeasuredPrediction, ...]


def calibrate(pairs: Iterable[MeasuredPrediction]) -> Calibration | None:
    """The pairs, the worst first, and what they say together; None for none."""
    found = tuple(pairs)
    if not found:
        return None
    middle = median(pair.ratio for pair in found)
    distances = [abs(log(pair.ratio / middle)) for pair in found]
    return Calibration(
        pairs=tuple(sorted(found, key=lambda pair: (-abs(log(pair.ratio)), pair.unit, pair.shape))),
        ratio=middle,
        off=exp(fmean(distances)),
        order=_order(found),
        below_bound=tuple(pair for pair in found if pair.bound_us is not None and pair.measured_us < pair.bound_us),
    )


def _order(pairs: Sequence[MeasuredPrediction]) -> float | None:
    right = total = 0
    for one, other in combinations(pairs, 2):
        if (one.shape, one.device) != (other.shape, other.device) or one.measured_us == other.measured_us:
            continue
        total += 1
        right += (one.predicted_us - other.predicted_us) * (one.measured_us - other.measured_us) > 0
    return right / total if total else None
