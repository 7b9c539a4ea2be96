"""The problems that a unit is verified on: shapes that find mistakes, derived from its tile, and the kernel file's own.

A shape that the instance does not support by CK's own rules is moved to the nearest that it does, so that the mistake
it is meant to find can show; the most ragged one is tried all the same, since refusing it must work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ckwatch.checks.supported_shapes import slices_of, unsupported_reason
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Operation, Shape, Unit
from ckwatch.model.tensors import DTYPES
from ckwatch.model.tiles import Tile, tile_of
from ckwatch.workspace.shapes import GEMM_LEADING, least_leading

WHOLE_MACS = 1 << 28
"""Multiply-adds of a problem that is computed whole; of larger ones some workgroups are."""

SAMPLED_MACS = 1 << 29
LARGEST_BYTES = 1 << 30
"""Of all tensors of a problem: what a laptop has to spare."""

UNKNOWN_TILE = Tile(m=64, n=64, k=32)
"""Taken where the instance's parameters do not name its tile."""

_MOST_ROUNDS = 10
_PADDING = 32
"""Elements that are added to each leading dimension: 16 bytes or more of every type, so that vectors stay aligned."""

_RAGGED_STEPS = ((1, 1), (8, 8), (16, 16), (64, 64))
"""What ragged sizes are multiples of, in M and N and in K, from the most ragged on."""

_FLOATS_WITH_INFINITY = frozenset({"f16", "bf16", "f32", "f64"})


class GapFill(StrEnum):
    """What the gaps that leading dimensions leave in the inputs hold."""

    NAN = "nan"
    INFINITY = "infinity"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One problem to verify on. `name`, `shape`: as those of `VerifiedProblem`; `refusal`: why the instance does not
    support it, by documented rules, empty if it should; `offset`: elements by which every pointer is off its
    allocation's alignment; `workgroups`: how many are computed, None for all."""

    name: str
    shape: str
    problem: KernelProblem
    refusal: str = ""
    gaps: GapFill = GapFill.NAN
    offset: int = 0
    workgroups: int | None = None


def trials_of(unit: Unit, *, shapes: Sequence[str] | None = None, large: bool = True) -> tuple[Trial, ...]:
    """The problems of a unit: the kernel file's shapes (`shapes`: those of these names alone, and nothing else), then
    those derived from its tile. `large`: also those of the file that are too large to be computed whole."""
    file_shapes = [shape for shape in unit.kernel.shapes if shapes is None or shape.name in shapes]
    of_file = [_of_file(unit, shape) for shape in file_shapes]
    found = [trial for trial in of_file if trial is not None and (large or shapes or trial.workgroups is None)]
    if shapes is None and unit.kernel.operation.kind == "gemm":
        found += _Derivation(unit).trials()
    unique: dict[tuple[KernelProblem, GapFill, int], Trial] = {}
    for trial in found:
        unique.setdefault((trial.problem, trial.gaps, trial.offset), trial)
    return tuple(unique.values())


def shape_text(operation: Operation, problem: KernelProblem) -> str:
    """`M=389 N=277 K=323 LDA=400 kBatch=2`, without leading dimensions that leave no gaps and a kBatch of 1."""
    values = {one.name: one.value for one in problem.arguments if one.buffer is None}
    sizes = {
        name: int(value) for name, value in values.items() if name in operation.size_arguments and value is not None
    }
    if operation.kind == "gemm":
        tensors = {tensor.name: tensor for _, tensor in (*operation.inputs, *operation.outputs) if tensor is not None}
        usual: dict[str, int] = {name: least_leading(tensors.get(of), sizes) for name, of in GEMM_LEADING.items()}
        usual["kBatch"] = 1
        values = {name: value for name, value in values.items() if usual.get(name) != value}
    return " ".join(f"{name}={value}" for name, value in values.items())


def _of_file(unit: Unit, shape: Shape) -> Trial | None:
    """None for a problem that is too large for this, whatever part of it is computed."""
    problem = problem_of(unit.kernel.operation, shape, unit.arch)
    if problem.bytes_allocated > LARGEST_BYTES:
        return None
    macs = (problem.flops or 0) // 2
    workgroups = None
    if macs > WHOLE_MACS:
        tile = tile_of(unit.instance.parameters)
        if problem.gemm is None or tile is None or slices_of(problem) > 1:
            return None  # a second kernel reads what workgroups left out would have written
        workgroups = max(1, SAMPLED_MACS // (tile.m * tile.n * problem.gemm.x.sizes[1]))
    return _trial(unit, shape.name, problem, workgroups=workgroups)


def _trial(
    unit: Unit,
    name: str,
    problem: KernelProblem,
    *,
    gaps: GapFill = GapFill.NAN,
    offset: int = 0,
    workgroups: int | None = None,
) -> Trial:
    return Trial(
        name=name,
        shape=shape_text(unit.kernel.operation, problem),
        problem=problem,
        refusal=unsupported_reason(unit.instance.parameters, problem),
        gaps=gaps,
        offset=offset,
        workgroups=workgroups,
    )


class _Derivation:
    """The problems that a GEMM's tile suggests."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._operation = unit.kernel.operation
        self._tile = tile_of(unit.instance.parameters) or UNKNOWN_TILE
        tensors = dict(self._operation.inputs) | dict(self._operation.outputs)
        self._tensors = {tensor.name: tensor for tensor in tensors.values() if tensor is not None}
        buffers = [tensor.buffer for tensor in self._tensors.values()]
        self._shares_buffers = len(set(buffers)) < len(buffers)
        self._runtime: Mapping[str, int | float] = next(
            (shape.runtime for shape in unit.kernel.shapes), dict.fromkeys(self._operation.runtime_arguments, 1)
        )

    def trials(self) -> Iterator[Trial]:
        tile = self._tile
        rounds = self._least_rounds()
        deep = rounds * tile.k
        yield self._trial("exact", self._problem(tile.m, tile.n, deep))
        yield self._trial("exact, one step more along K", self._problem(2 * tile.m, tile.n, deep + tile.k))
        ragged = [
            self._problem(tile.m + 5 * step, tile.n + 3 * step, deep + 3 * k_step) for step, k_step in self._steps(deep)
        ]
        best = self._first_supported(ragged)
        if best != ragged[0]:
            yield self._trial("odd sizes", ragged[0])
        yield self._trial("ragged", best)
        yield self._trial("smaller than a tile", self._first_supported(self._small(deep)))
        yield self._trial(
            "M = 1",
            self._first_supported([self._problem(1, tile.n + 3 * step, deep + k) for step, k in self._steps(0)]),
        )
        sizes = self._sizes_of(best)
        yield self._trial("padded rows", self._problem(tile.m, tile.n, deep, padding=2 * _PADDING))
        padded = self._problem(*sizes, padding=_PADDING)
        yield self._trial("NaN in the padding", padded)
        if any(buffer.dtype in _FLOATS_WITH_INFINITY for buffer in padded.buffers if not buffer.output):
            yield self._trial("infinity in the padding", padded, gaps=GapFill.INFINITY)
        yield self._trial("misaligned", best, offset=1)
        # Kernels that refuse this take dwords at least.
        dword = max(1, 4 // min(DTYPES[buffer.dtype].size_bytes for buffer in best.buffers))
        if dword > 1:
            yield self._trial("misaligned vectors", best, offset=dword)
        yield self._trial("misaligned rows", self._problem(*sizes, padding=dword))
        if self._splits_k:
            yield from self._split(deep)

    @property
    def _splits_k(self) -> bool:
        """Kernels of CK's universal GEMM do only with `split_k = true` in [operation]."""
        is_ck = "BlkGemmPipelineVer" in self._unit.instance.parameters
        takes_slices = not is_ck or self._operation.settings.get("split_k") is True
        return takes_slices and "kBatch" in self._operation.runtime_arguments

    def _split(self, deep: int) -> Iterator[Trial]:
        tile = self._tile
        yield self._trial("split K", self._problem(tile.m, tile.n, 2 * deep, slices=2))
        uneven = [
            self._problem(tile.m + 5 * step, tile.n + 3 * step, 3 * deep + k_step, slices=3)
            for step, k_step in self._steps(deep)
        ]
        yield self._trial("split K, slices of unequal length", self._first_supported(uneven))
        yield self._trial("split K, short K", self._problem(tile.m, tile.n, tile.k, slices=4))

    def _steps(self, deep: int) -> Iterator[tuple[int, int]]:
        """Ragged steps, last those that leave K whole. `deep` 0: K has to have something."""
        yield from _RAGGED_STEPS
        whole = self._tile.k if deep else 4 * self._tile.k
        yield 1, whole
        yield 8, whole

    def _small(self, deep: int) -> list[KernelProblem]:
        tile = self._tile
        found = []
        for depth in (max(tile.k // 2, 1), deep):
            for step, k_step in _RAGGED_STEPS:
                m, n = ((size // 2 - 1) // step * step or min(step, size) for size in (tile.m, tile.n))
                found.append(self._problem(max(m, 1), max(n, 1), max((depth - 1) // k_step * k_step, k_step)))
        return [*found, self._problem(max(tile.m // 2, 1), max(tile.n // 2, 1), deep)]

    def _least_rounds(self) -> int:
        """Rounds along K that the pipeline needs, two at least: the loop must be entered."""
        tile = self._tile
        for rounds in range(2, _MOST_ROUNDS):
            problem = self._problem(tile.m, tile.n, rounds * tile.k)
            if not unsupported_reason(self._unit.instance.parameters, problem):
                return rounds
        return 2

    def _first_supported(self, candidates: Sequence[KernelProblem]) -> KernelProblem:
        parameters = self._unit.instance.parameters
        return next((one for one in candidates if not unsupported_reason(parameters, one)), candidates[0])

    def _problem(self, m: int, n: int, k: int, *, padding: int = 0, slices: int = 1) -> KernelProblem:
        if self._shares_buffers:
            m = n = k = max(m, n, k)
        sizes = {"M": m, "N": n, "K": k}
        for leading, name in GEMM_LEADING.items():
            least = least_leading(self._tensors.get(name), sizes)
            sizes[leading] = least + padding if least else 0
        runtime = {**self._runtime, "kBatch": slices} if "kBatch" in self._runtime else self._runtime
        shape = Shape("", sizes, runtime, self._unit.instance.span)
        return problem_of(self._operation, shape, self._unit.arch)

    def _trial(self, name: str, problem: KernelProblem, *, gaps: GapFill = GapFill.NAN, offset: int = 0) -> Trial:
        return _trial(self._unit, name, problem, gaps=gaps, offset=offset)

    @staticmethod
    def _sizes_of(problem: KernelProblem) -> tuple[int, int, int]:
        assert problem.gemm is not None  # noqa: S101  # derived for GEMMs alone
        (m, k), n = problem.gemm.x.sizes, problem.gemm.w.sizes[1]
        return m, n, k
