"""Which kernels, shapes and instances here an imported timing is about.

AITER's timings are of the operation that the list of its kernel says: the product of a row-major X and a column-major W
with such scales. What a kernel here does besides, as an activation, is not compared. Kernel Tuner's are of the kernel
that is named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from ckwatch.bench.imports.records import ImportedTiming
from ckwatch.checks.supported_shapes import named_as_ck
from ckwatch.model.kernels import Kernel, Operation, ParameterValue, Shape
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import arch_base
from ckwatch.workspace.operations.block_scales import SETTING

_BATCH = "B"


def is_for_arch(record: ImportedTiming, arch: str) -> bool:
    """Return True if it was measured on this arch, or on an unknown one."""
    return not record.arch or arch_base(record.arch) == arch_base(arch)


def is_about(record: ImportedTiming, kernel: Kernel) -> bool:
    """Return True if it is of the operation of this kernel, on whatever sizes."""
    if record.for_kernel:
        return record.for_kernel == kernel.name
    operation = kernel.operation
    kind = operation.kind.removeprefix("ck_tile_")
    if kind != ("batched_gemm" if _BATCH in record.sizes else "gemm"):
        return False
    inputs = dict(operation.inputs)
    x, w = inputs.get("X"), inputs.get("W")
    if x is None or w is None or not x.dtype == w.dtype == record.dtype or x.layout != "row":
        return False
    words = record.kernel.split("_")
    preshuffled = "preshuffled" in operation.settings
    if record.kernel and record.dtype != "f4" and preshuffled != ("bpreshuffle" in words):
        return False
    if not preshuffled and w.layout != "col":
        return False
    return not record.kernel or _scaling(operation) == _scaling_of_list(words)


def _scaling(operation: Operation) -> str:
    if SETTING in operation.settings:
        return "block"
    scale = dict(operation.inputs).get("inv_scale_x")
    if scale is None:
        return ""
    return "row" if scale.sizes[-1] == "M" else "tensor"


def _scaling_of_list(words: Iterable[str]) -> str:
    given = set(words)
    if "blockscale" in given:
        return "block"
    return "row" if given & {"a8w8", "a4w4"} else ""


def sizes_key(sizes: Mapping[str, int]) -> str:
    """Return a key that equal problems of AITER's share."""
    return ",".join(f"{name}={sizes[name]}" for name in (_BATCH, "M", "N", "K") if name in sizes)


def is_of_shape(record: ImportedTiming, kernel: Kernel, shape: Shape) -> bool:
    """Return True if the sizes are those of a shape of the kernel that it is about.

    Sizes that the kernel does not name have to be among its own ones. A record without any is of the only shape.
    """
    if not record.sizes:
        return len(kernel.shapes) == 1
    left = Counter(shape.sizes[name] for name in kernel.operation.size_arguments if name not in record.sizes)
    for name, size in record.sizes.items():
        if name in shape.sizes:
            if shape.sizes[name] != size:
                return False
        elif left[size] > 0:
            left[size] -= 1
        else:
            return False
    return True


@dataclass(slots=True)
class InstanceIndex:
    """The instances of a kernel by values of their parameters."""

    kernel: Kernel
    _named: list[tuple[str, Mapping[str, ParameterValue]]] = field(default_factory=list)
    _by_names: dict[tuple[str, ...], dict[tuple[ParameterValue, ...], list[str]]] = field(default_factory=dict)

    def of(self, record: ImportedTiming) -> tuple[str, ...]:
        """The instances that have all parameters of the record; none where it has none."""
        given = {
            name: value
            for name, value in named_as_ck(record.parameters).items()
            if name not in self.kernel.operation.runtime_arguments
        }
        if not given:
            return ()
        names = tuple(sorted(given))
        if names not in self._by_names:
            self._by_names[names] = self._indexed(names)
        return tuple(self._by_names[names].get(tuple(given[name] for name in names), ()))

    def _indexed(self, names: tuple[str, ...]) -> dict[tuple[ParameterValue, ...], list[str]]:
        if not self._named:
            self._named = [(one.name, named_as_ck(one.parameters)) for one in self.kernel.instances]
        found: dict[tuple[ParameterValue, ...], list[str]] = defaultdict(list)
        for instance, parameters in self._named:
            if all(name in parameters for name in names):
                found[tuple(parameters[name] for name in names)].append(instance)
        return found


def matched(records: Iterable[ImportedTiming], kernel: Kernel, index: InstanceIndex) -> Iterator[list[ImportedTiming]]:
    """Yield the records about a kernel that are of its shapes: each with every such `shape`, and the `instances` that
    have its parameters."""
    by_key: dict[str, list[Shape]] = defaultdict(list)
    for shape in kernel.shapes:
        by_key[sizes_key(shape.sizes)].append(shape)
    for record in records:
        if is_about(record, kernel):
            candidates = kernel.shapes if record.for_kernel else by_key.get(sizes_key(record.sizes), ())
            if shapes := [shape.name for shape in candidates if is_of_shape(record, kernel, shape)]:
                instances = index.of(record)
                yield [replace(record, shape=shape, instances=instances) for shape in shapes]
