"""The problems that a unit is verified on: shapes that find mistakes, derived from its tile, and the kernel file's own.

Sizes are multiples of the least steps that the instance supports by CK's own rules, so that the mistake that a shape is
meant to find can show. A few must be refused, since refusing has to work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from functools import cache
from itertools import count, cycle
from math import isqrt
from random import Random
from typing import NamedTuple

from ckwatch.checks.refused_shapes import NO_SPLIT_K
from ckwatch.checks.supported_shapes import named_as_ck, shape_rules, slices_of, unsupported_reason
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernel_problem import KernelProblem, problem_of
from ckwatch.model.kernels import Operation, Shape, Tensor, Unit
from ckwatch.model.tensors import DTYPES, evaluate_size
from ckwatch.model.tiles import Tile, tile_of
from ckwatch.model.trials import GEMM_CONTENTS, Contents, GapFill, Trial
from ckwatch.model.verification import VerificationDepth
from ckwatch.verification.custom_shapes import derived_sizes, drawn_sizes
from ckwatch.verification.samples import LEAST_ELEMENTS
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.operations.custom import CUSTOM
from ckwatch.workspace.operations.kind import SizesFor
from ckwatch.workspace.shapes import RUNTIME_DEFAULTS, find_shape, with_defaults

WHOLE_MACS = 1 << 28
"""Multiply-adds of a problem that is computed whole; of larger ones some workgroups are."""

LARGEST_WHOLE_MACS = 1 << 32
"""Of what can only be computed whole: seconds."""

SAMPLED_MACS = 1 << 29
REFERENCE_MACS = 1 << 32
"""Of the reference of a problem of which some workgroups are computed: of all rows and columns that these touch."""

LARGEST_BYTES = 1 << 30
"""Of all tensors of a problem: what a laptop has to spare."""

UNKNOWN_TILE = Tile(m=64, n=64, k=32)
"""Taken where the instance's parameters do not name its tile."""

_MOST_ROUNDS = 10
_PADDING = 32
"""Elements that are added to each leading dimension: 16 bytes or more of every type, so that vectors stay aligned."""

_INT32_MAX = (1 << 31) - 1
_FAR_ELEMENTS = 5 << 29
_FAR_BYTES = 5 << 30
"""Beyond 2^31 elements and 2^32 bytes by a quarter, so that a part of the rows is."""

_LARGE_PADDING = (1 << 16) + _PADDING
_STEPS = (1, 2, 4, 8, 16, 32, 64, 128)
_WIDE_FLOATS = frozenset({"bf16", "f32", "f64"})
"""Of outputs in which squares and products of some hundreds are no infinity."""
_FLOATS_WITH_INFINITY = frozenset({"f16", "bf16", "f32", "f64"})


Extent = tuple[float, int]
"""A size: whole tiles, and steps, the least that the instance supports, beyond them. Of K, tiles beyond those that the
pipeline must have before it can begin."""


class DerivedProblem(NamedTuple):
    """A row of the tables below: a problem that is derived from a tile. Without `steps` a step is one element.

    `padding`: elements that leading dimensions have beyond the rows, those of the tensor `only` or all; `offset`: as
    `Trial.offset`, of that tensor. `slices`: kBatch. `far`: rows are so far apart that offsets need more than 32 bits.
    """

    name: str
    m: Extent = (1, 0)
    n: Extent = (1, 0)
    k: Extent = (2, 0)
    padding: int = 0
    offset: int = 0
    only: str = ""
    gaps: GapFill = GapFill.NAN
    contents: Contents = Contents.RANDOM
    slices: int = 1
    steps: bool = True
    far: bool = False


_RAGGED = DerivedProblem("ragged", (1, 5), (1, 3), (2, 3))
_SMALL = DerivedProblem("smaller than a tile", (0.5, -1), (0.5, -1), (0.5, 0))
_SPECIAL = DerivedProblem("special sizes")
_DWORD = -1
"""As many elements as a dword has: kernels that refuse one element take dwords at least."""

FAR = "offsets beyond 32 bits"

ESSENTIAL: tuple[DerivedProblem, ...] = (
    DerivedProblem("exact"),
    DerivedProblem("exact, one step more along K", m=(2, 0), k=(3, 0)),
    _RAGGED,
    _RAGGED._replace(name="odd sizes", steps=False),
    _SMALL,
    DerivedProblem("M = {m}", (0, 1), (1, 3), (2, 1)),
    DerivedProblem("padded rows", padding=2 * _PADDING),
    _RAGGED._replace(name="NaN in the padding", padding=_PADDING),
    _RAGGED._replace(name="infinity in the padding", padding=_PADDING, gaps=GapFill.INFINITY),
    _RAGGED._replace(name=FAR, far=True),
    _RAGGED._replace(name="misaligned", offset=1),
    _RAGGED._replace(name="misaligned vectors", offset=_DWORD),
    _RAGGED._replace(name="misaligned rows", padding=_DWORD),
    DerivedProblem("split K", k=(2, 0), slices=2),
    _RAGGED._replace(name="split K, slices of unequal length", slices=3),
    DerivedProblem("split K, short K", k=(0.25, 0), slices=4),
)
"""Of every unit, also after a save: seconds."""

THOROUGH: tuple[DerivedProblem, ...] = (
    *(DerivedProblem(f"{word} than a tile along M", m=(1, step)) for word, step in (("less", -1), ("more", 1))),
    *(DerivedProblem(f"{word} than a tile along N", n=(1, step)) for word, step in (("less", -1), ("more", 1))),
    *(DerivedProblem(f"{word} than a tile along K", k=(2, step)) for word, step in (("less", -1), ("more", 1))),
    DerivedProblem("half a tile along K", k=(1.5, 0)),
    DerivedProblem("N = {n}", (1, 5), (0, 1), (2, 1)),
    DerivedProblem("M = {m}, N = {n}", (0, 1), (0, 1), (1, 0)),
    DerivedProblem("least K", k=(0, 1)),
    DerivedProblem("too little K", k=(0, 0)),
    *(DerivedProblem(f"rounds along K: {rounds}", k=(rounds, 0)) for rounds in (1, 4, 5, 6, 7, 8)),
    DerivedProblem("many tiles along M", (9, 1), (1, 0), (1, 1)),
    DerivedProblem("many tiles along N", (1, 0), (9, 1), (1, 1)),
    DerivedProblem("many tiles", (3, 1), (5, 1), (1, 0)),
    _RAGGED._replace(name="padding of {only} alone", padding=_PADDING, only="*"),
    _SMALL._replace(name="large leading dimensions", padding=_LARGE_PADDING),
    _RAGGED._replace(name="offsets of {only} alone beyond 32 bits", far=True, only="*"),
    _RAGGED._replace(name="{only} alone misaligned", offset=_DWORD, only="*"),
    *(_RAGGED._replace(name=f"{each.value} as inputs", contents=each) for each in GEMM_CONTENTS),
    _RAGGED._replace(name="split K, NaN in the padding", padding=_PADDING, slices=2),
    DerivedProblem("split K, M = {m}", (0, 1), (1, 3), (2, 1), slices=2),
    DerivedProblem("split K, many slices", (1, 1), (1, 1), (2, 1), slices=7),
    DerivedProblem("split K, one round each", k=(1, 0), slices=3),
    DerivedProblem("split K, least K", k=(0, 1), slices=4),
    DerivedProblem("split K, too little K", k=(0, 0), slices=4),
)
"""On request as well."""


def trials_of(unit: Unit, depth: VerificationDepth = VerificationDepth.THOROUGH) -> tuple[Trial, ...]:
    """The problems of a unit: the kernel file's shapes, then those derived from its tile. Essential ones are those that
    are computed whole in a moment."""
    thorough = depth is VerificationDepth.THOROUGH
    trials = [_of_shape(unit, shape) for shape in unit.kernel.shapes]
    if not thorough:
        trials = [trial for trial in trials if _macs(trial.problem) <= WHOLE_MACS and not trial.not_tried]
    kind = KINDS[unit.kernel.operation.kind]
    if kind.verified_sizes is not None:
        named = tuple(kind.verified_sizes(unit.kernel.operation, unit.instance.parameters).items())
        trials += _trials_on(unit, named if thorough else named[:ESSENTIAL_SIZES])
    if kind is CUSTOM:
        trials += [one for one, essential in _custom_trials(unit) if essential or thorough]
    sizes_for = kind.sizes_for
    if sizes_for is not None:
        deriver = _Deriver(unit, sizes_for)
        trials += deriver.trials((*ESSENTIAL, *THOROUGH) if thorough else ESSENTIAL)
        trials += deriver.special_trials()
    unique: dict[tuple[object, ...], Trial] = {}
    for trial in trials:
        unique.setdefault((trial.problem, trial.gaps, trial.contents, trial.offset, trial.off), trial)
    return tuple(unique.values())


ESSENTIAL_SIZES = 6
"""Of `OperationKind.verified_sizes`, what every unit is verified on."""

_VARIED = (
    DerivedProblem("padded rows", padding=2 * _PADDING),
    DerivedProblem("NaN in the padding", padding=_PADDING),
    DerivedProblem("misaligned", offset=1),
)


def _trials_on(unit: Unit, named: Sequence[tuple[str, Mapping[str, int]]]) -> Iterator[Trial]:
    """Of a unit of a kind that is no product: `named` sizes, the first of them also with gaps and off its alignment."""
    operation, runtime = unit.operation, _usual_runtime(unit)

    def trial_on(name: str, sizes: Mapping[str, int]) -> Trial:
        shape = Shape("", with_defaults(operation, sizes), runtime, unit.instance.span)
        return _trial(unit, name, problem_of(operation, shape, unit.arch))

    for name, sizes in named:
        yield trial_on(name, sizes)
    strides = {stride for tensor in operation.tensors for stride in tensor.strides}
    for row in _VARIED:
        _, sizes = named[0]
        padded = dict(sizes)
        for size, default in operation.size_defaults.items():
            least = sizes.get(size, evaluate_size(default, padded))  # of a stride that encloses others, with their gaps
            padded[size] = least + row.padding if size in strides and least else least
        if row.padding and padded == with_defaults(operation, sizes):
            continue
        trial = trial_on(row.name, padded)
        refusal = None if row.offset and not trial.refusal else trial.refusal  # pointers must be aligned
        yield replace(trial, refusal=refusal, gaps=row.gaps, offset=row.offset)
    for _, sizes in named:  # the first that has rows enough
        far = far_apart(operation, sizes)
        if far is not None:
            yield replace(trial_on(FAR, far), dense=trial_on(FAR, sizes).problem)
            break


CUSTOM_HINT = (
    "if the kernel does not take such sizes, say so under [operation.limits] in the kernel file, or have it return −23"
)
LIMITS_HINT = "if the kernel does not take such sizes, say so under [operation.limits]"
"""Of a kernel without a C function that could refuse them."""

NULL_HINT = "the kernel file says `optional = true` for it"


def _custom_trials(unit: Unit) -> Iterator[tuple[Trial, bool]]:
    """Of a unit of a custom operation: derived sizes, null pointers and flags, and which are essential."""
    operation, runtime = unit.operation, _usual_runtime(unit)
    hint = CUSTOM_HINT if unit.kernel.template else LIMITS_HINT

    def trial_on(
        name: str,
        sizes: Mapping[str, int],
        null: frozenset[str] = frozenset(),
        arguments: Mapping[str, int | float] = runtime,
    ) -> Trial:
        shape = Shape("", sizes, arguments, unit.instance.span)
        return replace(_trial(unit, name, problem_of(operation, shape, unit.arch, null)), hint=hint)

    shapes = [shape.sizes for shape in unit.kernel.shapes]
    found = derived_sizes(operation, unit.instance.parameters, shapes)
    for one in found:
        trial = trial_on(one.name, one.sizes)
        yield replace(trial, dense=None if one.dense is None else trial_on(one.name, one.dense).problem), one.essential
        if one.gaps and one.essential:
            yield replace(trial, name="infinity in the padding", gaps=GapFill.INFINITY), False
    sizes = next((one.sizes for one in found), next(iter(shapes), None))
    if sizes is None:
        return
    optional = {tensor.buffer: tensor.name for tensor in operation.tensors if tensor.optional}
    for buffer, name in optional.items():
        yield replace(trial_on(f"without {name}", sizes, frozenset({buffer})), hint=NULL_HINT), True
    if len(optional) > 1:
        yield replace(trial_on("without optional inputs", sizes, frozenset(optional)), hint=NULL_HINT), False
    for name in operation.runtime_arguments:
        of_type = (False, True) if operation.runtime_types.get(name) == "bool" else ()
        for value in operation.runtime_values.get(name, of_type):
            if value != runtime[name]:
                trial = trial_on(f"{name} = {_written(value)}", sizes, arguments={**runtime, name: value})
                yield trial, name in operation.runtime_values


def far_apart(operation: Operation, sizes: Mapping[str, int], only: str = "") -> dict[str, int] | None:
    """Return the sizes with strides that put the last rows of each tensor, or of `only` one, beyond 2^31 elements and
    2^32 bytes, each tensor's greatest stride alone; None where none can."""
    least = with_defaults(operation, sizes)
    found = dict(least)
    for tensor in operation.tensors:
        if DTYPES[tensor.dtype].packed > 1 or len({tensor.buffer for tensor in operation.tensors}) < len(
            operation.tensors
        ):
            return None
        strides = [
            axis for axis in zip(tensor.sizes, tensor.strides, strict=True) if axis[1] in operation.size_defaults
        ]
        if not strides or only not in ("", tensor.name):
            continue
        size, stride = max(strides, key=lambda axis: least[axis[1]])
        rows = evaluate_size(size, least) - 1
        wanted = max(_FAR_ELEMENTS, _FAR_BYTES // DTYPES[tensor.dtype].size_bytes)
        needed = rows and min((wanted // rows // 64 + 1) * 64 + _PADDING, _INT32_MAX // 64 * 64)
        if 0 < least[stride] < needed:
            found[stride] = max(found[stride], needed)
    return found if found != least else None


def trials_asked(units: Iterable[Unit], asked: Sequence[str]) -> dict[str, tuple[Trial, ...]]:
    """By the units' ids, the problems that `asked` means: a name of `trials_of`, or what `find_shape` takes. Raises
    CkwatchError for what means none of any unit, or makes no shape of any."""
    found: dict[str, list[Trial]] = {}
    reasons: dict[str, CkwatchError] = {}
    known: dict[str, None] = {}
    met: set[str] = set()
    for unit in units:
        trials = {trial.name: trial for trial in trials_of(unit)}
        known |= dict.fromkeys(trials)
        mine = found[unit.id] = []
        for word in asked:
            trial = trials.get(word)
            if trial is None and "=" in word and word not in known:
                try:
                    trial = _of_shape(unit, replace(find_shape(unit.kernel, word), name=word))
                except CkwatchError as error:
                    reasons[word] = error
            if trial is not None:
                mine.append(trial)
                met.add(word)
    for word in asked:
        if word not in met and word in reasons:
            raise reasons[word]
        if word not in met:
            raise CkwatchError(
                f"none of these units is verified on a shape '{word}'",
                f"sizes as in M=64,N=64,K=128, or one of: {'; '.join(known)}",
            )
    return {name: tuple(dict.fromkeys(trials)) for name, trials in found.items()}


PROFILED_WORKGROUPS = 8
PROFILED_MACS = 1 << 27
"""Of the workgroups that are executed for a profile, but of two at least: their main loops are long, and they take a
small part of a verification's time."""


def profiled_trial(unit: Unit, asked: str | None = None) -> Trial:
    """The problem that a unit is profiled on, with the workgroups that are executed: the shape that `asked` means, or
    the first of the kernel file that fits into memory here, or the first of `trials_of`. Raises CkwatchError as
    `trials_asked`, for a shape that does not fit, and where there is none."""
    if asked is not None:
        trial = trials_asked([unit], [asked])[unit.id][0]
        if trial.problem.bytes_allocated > LARGEST_BYTES:
            raise CkwatchError(f"shape '{asked}' cannot be executed here: {trial.not_tried}", "name a smaller one")
    else:
        own = (_of_shape(unit, shape) for shape in unit.kernel.shapes)
        fit = (one for one in own if one.problem.bytes_allocated <= LARGEST_BYTES and not one.refusal)
        found = next(fit, None) or next((one for one in trials_of(unit) if not one.refusal), None)
        if found is None:
            raise CkwatchError(f"'{unit.id}' has no shape to be profiled on", "add a [[shape]] to its kernel file")
        trial = found
    workgroups = PROFILED_WORKGROUPS
    tile = _tile_of(unit)
    if trial.problem.gemm is not None and tile is not None:
        workgroups = max(2, min(workgroups, PROFILED_MACS // (tile.m * tile.n * trial.problem.gemm.x.sizes[1])))
    family = shape_rules(unit.instance.parameters)
    whole = family is not None and family.needs_whole(unit.instance.parameters, trial.problem)
    return replace(trial, workgroups=None if whole else workgroups, not_tried="")


def shape_text(operation: Operation, problem: KernelProblem) -> str:
    """`M=389 N=277 K=323 LDA=400 kBatch=2`, without leading dimensions that leave no gaps and a kBatch of 1."""
    values = {one.name: one.value for one in problem.arguments if one.buffer is None and not one.is_null}
    sizes = {
        name: int(value) for name, value in values.items() if name in operation.size_arguments and value is not None
    }
    usual = {name: evaluate_size(text, sizes) for name, text in operation.size_defaults.items()} | RUNTIME_DEFAULTS
    values = {name: value for name, value in values.items() if usual.get(name) != value}
    null = [f"{one.name}=null" for one in problem.arguments if one.is_null]
    return " ".join([*(f"{name}={_written(value)}" for name, value in values.items()), *null])


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _macs(problem: KernelProblem) -> int:
    return (problem.flops or 0) // 2


def _usual_runtime(unit: Unit) -> Mapping[str, int | float]:
    operation = unit.kernel.operation
    usual = {name: operation.runtime_values.get(name, (1,))[0] for name in operation.runtime_arguments}
    return next((shape.runtime for shape in unit.kernel.shapes), usual)


def _of_shape(unit: Unit, shape: Shape) -> Trial:
    problem = problem_of(unit.operation, shape, unit.arch)
    trial = _trial(unit, shape.name, problem)
    macs, gigabytes = _macs(problem), problem.bytes_allocated / (1 << 30)
    if problem.bytes_allocated > LARGEST_BYTES:
        return replace(trial, not_tried=f"it is too large to be executed here: its tensors have {gigabytes:.1f} GiB")
    if macs <= WHOLE_MACS:
        elements = sum(buffer.elements for buffer in problem.buffers)
        is_custom = KINDS[unit.kernel.operation.kind] is CUSTOM
        return replace(trial, may_be_sampled=is_custom and elements >= LEAST_ELEMENTS)
    tile, family = _tile_of(unit), shape_rules(unit.instance.parameters)
    needs_whole = "each slice of K is needed" if slices_of(problem) > 1 else ""
    needs_whole = needs_whole or (family.needs_whole(unit.instance.parameters, problem) if family is not None else "")
    if problem.gemm is not None and tile is not None and not needs_whole:
        each = tile.m * tile.n * problem.gemm.x.sizes[1]
        return replace(trial, workgroups=max(1, min(SAMPLED_MACS // each, isqrt(REFERENCE_MACS // each))))
    if macs <= LARGEST_WHOLE_MACS:
        return trial
    why = needs_whole or "its tile is not known"
    size = f"{macs / 1e9:.0f} G multiply-adds"
    return replace(trial, not_tried=f"it is too large to be executed whole ({size}), and in part it cannot be: {why}")


def _tile_of(unit: Unit) -> Tile | None:
    computed = unit.kernel.operation.contraction
    dtypes = {tensor.name: tensor.dtype for tensor in unit.kernel.operation.tensors}
    packed = 1 if computed is None else DTYPES[dtypes[computed.x.tensor]].packed
    return tile_of(named_as_ck(unit.instance.parameters), packed)


def _trial(unit: Unit, name: str, problem: KernelProblem) -> Trial:
    parameters = unit.instance.parameters
    refusal = None if shape_rules(parameters) is None else unsupported_reason(parameters, problem)
    if not refusal and slices_of(problem) > 1 and not _splits_k(unit):
        refusal = NO_SPLIT_K
    return Trial(name=name, shape=shape_text(unit.kernel.operation, problem), problem=problem, refusal=refusal)


def _splits_k(unit: Unit) -> bool:
    family = shape_rules(unit.instance.parameters)
    return family is None or family.splits_k(unit.kernel.operation)


DRAWN, WITH_CONTENTS = 3, (Contents.ZEROS, Contents.ONES, Contents.LARGE, Contents.SMALL, Contents.UNEVEN)
"""Problems that are drawn with random inputs, and contents of others."""


def drawn_trials(unit: Unit, seed: int, depth: VerificationDepth = VerificationDepth.THOROUGH) -> tuple[Trial, ...]:
    """The problems by which a judge sees whether a unit is right: those of `trials_of`, sizes that are drawn, and calls
    that repeat others. All inputs follow from the seed.

    The repeated calls go first: a kernel that answers from a former one has none yet.
    """
    generator = Random(seed)  # noqa: S311  # an unpredictable seed is enough
    contents = (*[Contents.RANDOM] * DRAWN, *WITH_CONTENTS, *_where_defined(unit.operation))
    sizes = [sizes for _ in contents if (sizes := _drawn(unit, generator)) is not None]
    operation, runtime = unit.operation, _usual_runtime(unit)
    own = {shape.name: _of_shape(unit, shape) for shape in unit.kernel.shapes}
    fixed = [replace(one, name=f"{OWN_SHAPE}{name}") for name, one in own.items()]
    fixed += [one for one in trials_of(unit, depth) if one.name not in own]
    drawn = [
        replace(
            _trial(unit, "", problem_of(operation, Shape("", one, runtime, unit.instance.span), unit.arch)),
            contents=content,
            hint=JUDGED_HINT if KINDS[operation.kind] is CUSTOM else "",
        )
        for one, content in zip(sizes, contents, strict=False)
    ]
    usual = [one for one in fixed if _may_be_repeated(one)]
    if not drawn:  # sizes of other kinds belong together in ways that only their own problems know
        drawn = [replace(one, contents=content) for one, content in zip(cycle(usual[:4]), contents, strict=False)]
    names = (f"drawn {number}" for number in count(1))
    drawn = [
        replace(one, name=f"{name}, {one.contents.value}" if one.contents is not Contents.RANDOM else name)
        for one, name in zip(drawn, names, strict=False)
    ]
    repeated = next((one for one in (*drawn, *usual) if _may_be_repeated(one)), None)
    seeds = (generator.getrandbits(SEED_BITS) for _ in count())
    found = [] if repeated is None else [*_repeated(repeated, next(seeds), next(seeds))]
    found += [replace(one, seed=next(seeds)) for one in (*drawn, *fixed)]
    return tuple(replace(one, hint=one.hint and JUDGED_HINT) for one in found)


def _where_defined(operation: Operation) -> Iterator[Contents]:
    """Further contents, of operations that a reference in Python says all of."""
    if KINDS[operation.kind] is CUSTOM and operation.reference is not None:
        if all(tensor is None or tensor.dtype in _WIDE_FLOATS for _, tensor in operation.outputs):
            yield Contents.SHIFTED
        if any(one.nan for one in operation.comparisons.values()):
            yield Contents.NON_FINITE


SEED_BITS = 48
OWN_SHAPE = "shape "
"""The beginning of the names of problems that are shapes of the kernel file."""

JUDGED_HINT = "the reference's kernel file says by [operation.limits] which sizes there are"


def _drawn(unit: Unit, generator: Random) -> Mapping[str, int] | None:
    """Sizes of a product of matrices in steps that the instance supports, or of a custom operation."""
    kind = KINDS[unit.kernel.operation.kind]
    shapes = [shape.sizes for shape in unit.kernel.shapes]
    if kind is CUSTOM:
        return drawn_sizes(unit.operation, unit.instance.parameters, shapes, generator.randint)
    if kind.sizes_for is None:
        return None
    m, n, k = ((generator.uniform(0, most), generator.randint(1, 9)) for most in (2, 2, 4))
    return _Deriver(unit, kind.sizes_for).sizes_of(DerivedProblem("", m, n, k))


def _may_be_repeated(trial: Trial) -> bool:
    return not (
        trial.refusal or trial.not_tried or trial.may_be_sampled or trial.workgroups or trial.offset
        or trial.dense is not None or trial.contents is not Contents.RANDOM
    )  # fmt: skip


def _repeated(trial: Trial, seed: int, other: int) -> Iterator[Trial]:
    """Calls with the same inputs and others, at the same addresses and at others."""
    first = replace(trial, name="the first call", seed=seed, memory="same")
    # a checksum may take the same rows for the same inputs, and a sample of elements those that differ in one
    shuffled, changed = (
        replace(first, name=f"the same inputs, {content.value}", contents=content)
        for content in (Contents.SHUFFLED, Contents.ONE_CHANGED)
    )
    yield first
    yield shuffled
    yield replace(first, name="other inputs at the same addresses", seed=other)
    yield replace(first, name="the same inputs again", again=first.name)
    yield replace(first, name="the same inputs at other addresses", memory="", again=first.name)
    yield changed
    yield replace(first, name="other inputs at other addresses", seed=other, memory="")


class _Deriver:
    """The problems that the tile of a contraction suggests; `sizes_for` as that of its `OperationKind`."""

    def __init__(self, unit: Unit, sizes_for: SizesFor) -> None:
        self._unit = unit
        self._sizes_for = sizes_for
        self._operation = unit.operation
        self._parameters = named_as_ck(unit.instance.parameters)
        self._tile = _tile_of(unit) or UNKNOWN_TILE
        self._tensors = {tensor.name: tensor for tensor in self._operation.tensors}
        self._shares_buffers = len({tensor.buffer for tensor in self._tensors.values()}) < len(self._tensors)
        self._dword = max(
            max(1, 4 * dtype.packed // dtype.size_bytes)
            for dtype in (DTYPES[one.dtype] for one in self._operation.tensors)
        )
        self._has_gaps = any(self._can_have_gaps(tensor) for tensor in self._tensors.values())
        self._runtime = _usual_runtime(unit)
        self._depth = self._tile.k * self._prologue_rounds()
        self._step = cache(self._least_step)

    def trials(self, rows: Sequence[DerivedProblem]) -> Iterator[Trial]:
        for row in rows:
            if row.only != "*":
                yield from self._of_row(row)
                continue
            for name in self._tensors:
                if row.offset or self._can_have_gaps(self._tensors[name]):
                    yield from self._of_row(row._replace(only=name))

    def _can_have_gaps(self, tensor: Tensor) -> bool:
        """Return True if a stride is an argument."""
        return not self._operation.size_defaults.keys().isdisjoint(tensor.strides)

    def sizes_of(self, row: DerivedProblem) -> Mapping[str, int]:
        """All sizes of a problem without padding."""
        m, n, k = self._sizes(row)
        if self._shares_buffers:
            m = n = k = max(m, n, k)
        return with_defaults(self._operation, self._sizes_for(self._operation, m, n, k))

    def special_trials(self) -> Iterator[Trial]:
        """On the sizes that the operation's kind is known to go wrong on, and those of the instance's family."""
        special_sizes = KINDS[self._operation.kind].special_sizes
        found: dict[str, Mapping[str, int]] = {}
        if special_sizes is not None:
            sides = zip("MNK", astuple(self._tile), strict=True)
            tile = (self._size(axis, size, (1, 0), _SPECIAL) for axis, size in sides)
            found |= special_sizes(self._operation, *tile)
        family = shape_rules(self._unit.instance.parameters)
        if family is not None:
            of_family = family.special_sizes(self._unit.instance.parameters)
            found |= {name: self._sizes_for(self._operation, *sizes) for name, sizes in of_family.items()}
        for name, sizes in found.items():
            shape = Shape("", with_defaults(self._operation, sizes), self._runtime, self._unit.instance.span)
            yield _trial(self._unit, name, problem_of(self._operation, shape, self._unit.arch))

    def _of_row(self, row: DerivedProblem) -> Iterator[Trial]:
        if (row.slices > 1 and "kBatch" not in self._runtime) or (row.padding and not self._has_gaps):
            return
        if row.slices > 1 and row.name != "split K" and not _splits_k(self._unit):
            return
        m, n, k = self._sizes(row)
        if min(m, n, k) < 1:
            return
        if row.far:
            yield from self._far(row, m, n, k)
            return
        padding = self._dword if row.padding == _DWORD else row.padding
        problem = self._problem(m, n, k, padding=padding, only=row.only, slices=row.slices)
        inputs = [buffer for buffer in problem.buffers if not buffer.output]
        if row.gaps is GapFill.INFINITY and not any(one.dtype in _FLOATS_WITH_INFINITY for one in inputs):
            return
        if row.contents is Contents.SIGNED_SCALES and not any(one.scale for one in inputs):
            return
        offset = self._dword if row.offset == _DWORD else row.offset
        trial = _trial(self._unit, row.name.format(m=m, n=n, only=row.only), problem)
        off = self._tensors[row.only].buffer if row.only and offset else ""
        refusal = None if offset and not trial.refusal else trial.refusal  # pointers must be aligned, as everybody's
        yield replace(trial, refusal=refusal, gaps=row.gaps, contents=row.contents, offset=offset, off=off)

    def _far(self, row: DerivedProblem, m: int, n: int, k: int) -> Iterator[Trial]:
        sizes = self._sizes_for(self._operation, m, n, k)
        far = far_apart(self._operation, sizes, row.only)
        if far is not None:
            runtime = {name: 1 if name == "kBatch" else value for name, value in self._runtime.items()}
            dense, problem = (
                problem_of(self._operation, Shape("", given, runtime, self._unit.instance.span), self._unit.arch)
                for given in (with_defaults(self._operation, sizes), far)
            )
            yield replace(_trial(self._unit, row.name.format(only=row.only), problem), dense=dense)

    def _sizes(self, row: DerivedProblem) -> tuple[int, int, int]:
        tile = self._tile
        m, n = (self._size(axis, of, extent, row) for axis, of, extent in (("M", tile.m, row.m), ("N", tile.n, row.n)))
        return m, n, row.slices * self._depth + self._size("K", tile.k * row.slices, row.k, row)

    def _size(self, axis: str, tile: int, extent: Extent, row: DerivedProblem) -> int:
        if not any(extent):
            return 0
        step = self._step(axis, row.slices) if row.steps else 1
        return max(int(extent[0] * tile) // step * step + extent[1] * step, step)

    def _prologue_rounds(self) -> int:
        """Rounds along K that the pipeline must have and one more."""
        tile = self._tile
        for rounds in range(1, _MOST_ROUNDS):
            if self._is_supported(self._problem(tile.m, tile.n, rounds * tile.k)):
                return rounds - 1
        return 0

    def _least_step(self, axis: str, slices: int) -> int:
        """The least step that the instance supports sizes along an axis in."""
        tile = self._tile
        usual = {"M": tile.m, "N": tile.n, "K": slices * (self._depth + 2 * tile.k)}
        whole = {"M": tile.m, "N": tile.n, "K": slices * tile.k}[axis]
        for step in (*(step for step in _STEPS if step < whole), whole):
            sizes = usual | {axis: usual[axis] + step}
            if self._is_supported(self._problem(sizes["M"], sizes["N"], sizes["K"], slices=slices)):
                return step
        return whole

    def _is_supported(self, problem: KernelProblem) -> bool:
        return not unsupported_reason(self._parameters, problem)

    def _problem(self, m: int, n: int, k: int, *, padding: int = 0, only: str = "", slices: int = 1) -> KernelProblem:
        if self._shares_buffers:
            m = n = k = max(m, n, k)
        sizes = self._sizes_for(self._operation, m, n, k)
        padded = (self._tensors[only],) if only else self._tensors.values()
        for name, least in self._operation.size_defaults.items():
            sizes.setdefault(name, evaluate_size(least, sizes))
            if sizes[name] and any(name in tensor.strides for tensor in padded):
                sizes[name] += padding
        runtime = {**self._runtime, "kBatch": slices} if "kBatch" in self._runtime else self._runtime
        shape = Shape("", sizes, runtime, self._unit.instance.span)
        return problem_of(self._operation, shape, self._unit.arch)
