"""Finds inputs whose values a kernel uses as indices although the kernel file does not say so.

Such an input holds any integers, so that a right kernel reads beyond its tensors. An experiment tells: with zeros in
all such inputs the access out of bounds is gone; and with two constants in one of them, the same instruction of the
same lane goes to two addresses, apart by as many bytes as a step of the index has. What only decides if something is
accessed does not move an address. The step and the place of index 0 say which axis of which tensor it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ckwatch.model.kernel_problem import KernelProblem, TensorView
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensor_values import INTEGER_LIMITS, ContentKind, TensorValues
from ckwatch.model.tensors import DTYPES
from ckwatch.model.verification import EmulatedFinding, FindingKind
from ckwatch.verification.findings import MemoryRange

OUT_OF_BOUNDS = frozenset({FindingKind.OUT_OF_BOUNDS_READ, FindingKind.OUT_OF_BOUNDS_WRITE})

Spot = tuple[str, int | None]
"""An instruction: the kernel's symbol and the address."""


@dataclass(frozen=True, slots=True)
class IndexUse:
    """An input whose values are indices along an axis of a tensor. `words`: the kernel file's `index`."""

    name: str
    table: str
    axis: int
    words: str


@dataclass(frozen=True, slots=True)
class Probe:
    """A launch with `value` in all elements of an input: what was found, and where tensors were."""

    value: int
    findings: Sequence[EmulatedFinding]
    memory: Sequence[MemoryRange]


def suspects(problem: KernelProblem) -> list[str]:
    """The inputs of a custom operation that hold any integers."""
    if problem.computed is not None:
        return []
    return [
        one.name
        for one in problem.buffers
        if not one.output and one.values is None and one.dtype in INTEGER_LIMITS and one.dtype != "bool"
    ]


def spots_of(findings: Iterable[EmulatedFinding]) -> set[Spot]:
    """The instructions that were out of bounds when they were executed."""
    return {_spot(one) for one in findings if one.kind in OUT_OF_BOUNDS and one.workgroup is not None}


def _spot(finding: EmulatedFinding) -> Spot:
    return finding.kernel, finding.code_address


def probe_values(problem: KernelProblem, name: str) -> list[tuple[int, int]]:
    """Pairs of different values that are beyond every axis of every other tensor, or beyond all elements."""
    greatest = INTEGER_LIMITS[problem.buffer(name).dtype][1]
    views = [view for view in problem.views if view.buffer != name]
    axis = max((size for view in views for size in view.sizes), default=1)
    elements = max((one.elements for one in problem.buffers if one.name != name), default=1)
    wanted = [(axis + 1, axis + 2), (elements + 1, elements + 2)]
    return [pair for pair in wanted if pair[1] <= greatest] or [(greatest - 1, greatest)]


def use_of(problem: KernelProblem, name: str, gone: set[Spot], first: Probe, second: Probe) -> IndexUse | None:
    """How the values of the input are used, if an instruction among `gone` goes where they lead."""
    others = {_who(one): one for one in second.findings if _spot(one) in gone and one.kind in OUT_OF_BOUNDS}
    where = {one.name: one for one in second.memory}
    for finding in first.findings:
        other = others.get(_who(finding))
        if _spot(finding) not in gone or other is None or finding.address is None or other.address is None:
            continue
        for memory in first.memory:
            if memory.name == name or memory.name not in where:
                continue
            begin, end = finding.address - memory.address, other.address - where[memory.name].address
            step, rest = divmod(end - begin, second.value - first.value)
            if step > 0 and not rest and 0 <= begin - step * first.value < memory.size_bytes:
                return _use(problem, name, memory.name, step)
    return None


def _who(finding: EmulatedFinding) -> tuple[object, ...]:
    return (*_spot(finding), finding.workgroup, finding.wave, finding.lane)


def _use(problem: KernelProblem, name: str, table: str, step_bytes: int) -> IndexUse | None:
    view = next((view for view in problem.views if view.buffer == table), None)
    if view is None:
        return None
    size = DTYPES[problem.buffer(table).dtype].size_bytes
    for axis in range(len(view.sizes)):
        if view.strides[axis] * size == step_bytes and view.sizes[axis] > 1:
            return IndexUse(name, table, axis, f"{_axis_words(view, axis)} of {table}")
    return None


def _axis_words(view: TensorView, axis: int) -> str:
    return "rows" if axis == 0 else "columns" if axis == len(view.sizes) - 1 else f"axis {axis}"


def declared(problem: KernelProblem, uses: Iterable[IndexUse]) -> KernelProblem:
    """The problem with these indices declared."""
    by_name = {use.name: use for use in uses}
    sizes: Mapping[str, TensorView] = {view.buffer: view for view in reversed(problem.views)}
    buffers = []
    for one in problem.buffers:
        use = by_name.get(one.name)
        if use is not None:
            behind = min(sizes[use.table].sizes[use.axis], INTEGER_LIMITS[one.dtype][1] + 1)
            one = replace(one, values=TensorValues(kind=ContentKind.INDEX, numbers=(0, behind)))
        buffers.append(one)
    return replace(problem, buffers=tuple(buffers))


def warning_of(finding: EmulatedFinding, use: IndexUse) -> EmulatedFinding:
    """The warning at an input, from the access out of bounds that its values led to."""
    return replace(
        finding,
        kind=FindingKind.UNDECLARED_INDEX,
        message=(
            f"the kernel uses the values of {use.name} as indices ({use.words}), which the kernel file does not say: "
            f'write `index = "{use.words}"` at its [[operation.input]]'
        ),
        note="with other integers in it this instruction is out of bounds; it was verified with such indices",
        tensor=use.name,
        address=None,
        size_bytes=0,
    )
