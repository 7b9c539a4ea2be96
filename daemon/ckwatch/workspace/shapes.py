"""`[[shape]]` of a kernel file: the sizes that a kernel is timed on."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ckwatch.model.diagnostics import Source
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Kernel, Operation, Shape, Tensor
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensor_values import misfit_on
from ckwatch.model.tensors import INT32_MAX, evaluate_size, names_in
from ckwatch.workspace.operations import KINDS
from ckwatch.workspace.operations.runtime_values import is_runtime_value
from ckwatch.workspace.problems import Problems, did_you_mean, join_names
from ckwatch.workspace.settings import name_at
from ckwatch.workspace.toml_document import KeyPath, TomlDocument

RUNTIME_DEFAULTS = {"kBatch": 1}

_INTEGER, _FRACTION = (
    re.compile(r"[+-]?[0-9]{1,1000}"),
    re.compile(r"[+-]?[0-9]{0,20}[.]?[0-9]{1,20}(e[+-]?[0-9]{1,3})?"),
)
"""Numbers in a shape that a user writes as `M=64,N=64`."""

NAME_DOC = "by default the sizes, `4096x4096x64`"
"""The default of a shape's `name`, as editors show it."""


def read_shapes(problems: Problems, values: Any, operation: Operation) -> list[Shape]:
    """The shapes of a kernel file, without those that have problems."""
    base: KeyPath = ("shape",)
    if not isinstance(values, list):
        problems.wrong_type(base, "an array of tables, written [[shape]]", values)
        return []
    shapes = []
    names: dict[str, KeyPath] = {}
    for index, table in enumerate(values):
        path = (*base, index)
        if not isinstance(table, dict):
            problems.wrong_type(path, "a table, written [[shape]]", table)
            continue
        shape = _read(problems, table, path, operation)
        if shape is None:
            continue
        if shape.name in names:
            problems.repeated(_name_path(problems, path), f"two shapes are called `{shape.name}`", names[shape.name])
            continue
        names[shape.name] = _name_path(problems, path)
        shapes.append(shape)
    return shapes


def find_shape(kernel: Kernel, text: str) -> Shape:
    """The shape that `text` means: the name of one of the kernel file, or sizes, `M=64,N=64,LDA=160` or `64x64x128`.

    Sizes of a shape of the kernel file are that shape. Others are called as they would be written, so that the name
    means the same shape again. Raises CkwatchError.
    """
    known = {shape.name: shape for shape in kernel.shapes}
    if text in known:
        return known[text]
    operation = kernel.operation
    needed = [name for name in operation.size_arguments if name not in operation.size_defaults]
    listed = text.split("x")
    if "=" not in text and len(listed) == len(needed) and all(one.isascii() and one.isdigit() for one in listed):
        text = ",".join(map("=".join, zip(needed, listed, strict=True)))
    if "=" not in text:
        example = ",".join(f"{name}=…" for name in needed)
        hint = f"{did_you_mean(text, known)}it has {join_names(known) or 'none'}; or sizes: {example}"
        raise CkwatchError(f"'{kernel.name}' has no shape '{text}'", hint)
    table, hint = _written_sizes(kernel, text, needed)
    for name in operation.runtime_arguments:
        if name not in RUNTIME_DEFAULTS:
            table.setdefault(name, next((shape.runtime[name] for shape in kernel.shapes), 1))
    problems = Problems(TomlDocument(kernel.path, "[[shape]]\n", Source.KERNEL_FILE))
    try:
        shape = _read(problems, table, ("shape", 0), operation)
    except ValueError as error:
        raise CkwatchError(f"'{text}': {error}", hint) from None
    if shape is None:
        raise CkwatchError(f"'{text}': {problems.found[0].message}", hint)
    alike = (one for one in kernel.shapes if (one.sizes, one.runtime) == (shape.sizes, shape.runtime))
    usual = with_defaults(operation, {name: shape.sizes[name] for name in needed}) | RUNTIME_DEFAULTS
    values = {**shape.sizes, **shape.runtime}
    name = ",".join(f"{key}={value}" for key, value in values.items() if key in needed or value != usual.get(key))
    return next(alike, replace(shape, name=name, span=kernel.template_span))


def alternative_shapes(kernel: Kernel, text: str) -> list[Shape]:
    """The shapes that `text` means, of which values may have alternatives: `M=64,N=64,K=4096,kBatch=1/2/4`.

    What follows the name of a shape changes it: `4096,kBatch=1/2/4`. Raises CkwatchError.
    """
    known = {shape.name: shape for shape in kernel.shapes}
    named = max((name for name in known if text.startswith(f"{name},")), key=len, default="")
    if text in known or ("/" not in text and not named):
        return [find_shape(kernel, text)]
    values: dict[str, list[str]] = {}
    if named:
        own = {**known[named].sizes, **known[named].runtime}
        values = {name: [str(one)] for name, one in own.items() if name not in kernel.operation.size_defaults}
        text = text.removeprefix(f"{named},")
    for part in re.split(r"[,\s]+", text.strip(", \t\n")):
        name, _, value = part.partition("=")
        values[name] = value.split("/")
    texts = [
        ",".join(map("=".join, zip(values, chosen, strict=True))) for chosen in itertools.product(*values.values())
    ]
    return [find_shape(kernel, one) for one in texts]


def _written_sizes(kernel: Kernel, text: str, needed: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The sizes in `text`, all that are `needed` among them, and a hint at what may be written. Raises CkwatchError."""
    operation = kernel.operation
    optional = [*(name for name in operation.size_arguments if name not in needed), *operation.runtime_arguments]
    also = f", and optionally {', '.join(optional)}" if optional else ""
    hint = f"its sizes are {', '.join(needed)}{also}"
    table: dict[str, Any] = {}
    for part in re.split(r"[,\s]+", re.sub(r"\s*=\s*", "=", text).strip(", \t\n")):
        name, _, value = part.partition("=")
        number = _number_of(value)
        if name not in (*needed, *optional):
            near = did_you_mean(name, (*needed, *optional))
            raise CkwatchError(f"'{part}' is not a size of {kernel.name}", f"{near}{hint}")
        if name in table:
            raise CkwatchError(f"'{text}' says {name} twice", hint)
        if number is None or (name in operation.size_arguments and not value.isdecimal()):
            wanted = "a positive integer that fits int32_t" if name in operation.size_arguments else "a number"
            raise CkwatchError(f"'{part}' is not a size of {kernel.name}: {name} must be {wanted}", hint)
        table[name] = number
    if missing := [name for name in needed if name not in table]:
        raise CkwatchError(f"'{text}' does not say {', '.join(missing)}", hint)
    return table, hint


def find_shapes(kernels: Iterable[Kernel], texts: Iterable[str]) -> dict[str, dict[str, Shape]]:
    """By kernels, the shapes that `texts` mean, by their names. Raises CkwatchError for one that no kernel has."""
    known = {kernel.name: kernel for kernel in kernels}
    found: dict[str, dict[str, Shape]] = {name: {} for name in known}
    for text in texts:
        reasons, met = [], False
        for kernel in known.values():
            try:
                shape = find_shape(kernel, text)
            except CkwatchError as error:
                reasons.append(error)
            else:
                found[kernel.name][shape.name] = shape
                met = True
        if not met and "=" in text and reasons:
            raise reasons[0]
        if not met:
            there = dict.fromkeys(shape.name for kernel in known.values() for shape in kernel.shapes)
            hint = f"there are {join_names(there)}" if there else "their kernel files have no [[shape]]"
            raise CkwatchError(f"none of these units has a shape '{text}'", hint)
    return found


def _number_of(text: str) -> int | float | bool | None:
    """None for what is no number."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if _INTEGER.fullmatch(text) else float(text) if _FRACTION.fullmatch(text) else None
    except ValueError:
        return None


def _name_path(problems: Problems, path: KeyPath) -> KeyPath:
    return (*path, "name") if (*path, "name") in problems.document else path


def _read(problems: Problems, table: Mapping[str, Any], path: KeyPath, operation: Operation) -> Shape | None:
    before = problems.errors_found
    given = _Given()
    for key, value in table.items():
        given.take(problems, key, value, (*path, key), operation)
    if _names_are_sure(operation):
        # a key that is none may be the one that is missing
        misspelt = any(key not in ("name", *_arguments(operation)) for key in table)
        _report_missing(problems, table, path, operation, given, sizes=not misspelt)
    worked_out = operation.size_defaults
    if any(key not in given.sizes for key in operation.size_arguments if key in table or key not in worked_out):
        return None
    sizes = with_defaults(operation, given.sizes)
    for key, message in wrong_sizes(operation, sizes):
        problems.at_value((*path, key) if key in table else path, "out-of-range", message)
    if problems.errors_found == before:
        _shared_buffers(problems, sizes, path, operation)
    if problems.errors_found == before and operation.kind == "custom":
        _outputs_apart(problems, sizes, path, operation)
    if problems.errors_found == before:
        _values_that_fit(problems, sizes, path, operation)
    if problems.errors_found > before:
        return None
    strides = {stride for tensor in operation.tensors for stride in tensor.strides}
    named = (key for key in sizes if key not in worked_out or (key in table and key not in strides))
    name = "x".join(str(sizes[key]) for key in named) if given.name is None else given.name
    return Shape(name, sizes, given.runtime, problems.document.span_of(_name_path(problems, path)))


@dataclass(slots=True)
class _Given:
    """The right values of a `[[shape]]`."""

    name: str | None = None
    sizes: dict[str, int] = field(default_factory=dict)
    runtime: dict[str, int | float] = field(default_factory=dict)

    def take(self, problems: Problems, key: str, value: Any, place: KeyPath, operation: Operation) -> None:
        """Read the value of a key, or report it."""
        if key == "name":
            self.name = name_at(problems, value, place)
        elif key in operation.size_arguments:
            least = 0 if key in operation.size_defaults else _least(operation, key)
            if _is_size(problems, key, value, place, least):
                self.sizes[key] = value
        elif key in operation.runtime_arguments:
            if is_runtime_value(problems, key, value, place, operation.runtime_types.get(key, "int32_t")):
                self.runtime[key] = value
        elif _names_are_sure(operation):
            problems.unknown_key(place, ["name", *_arguments(operation)])


def _names_are_sure(operation: Operation) -> bool:
    """Return False where names of sizes may be what is wrong with an operation, which has no tensors yet."""
    return bool(operation.outputs) or operation.kind != "custom"


def _arguments(operation: Operation) -> tuple[str, ...]:
    return (*operation.size_arguments, *operation.runtime_arguments)


def _report_missing(
    problems: Problems, table: Mapping[str, Any], path: KeyPath, operation: Operation, given: _Given, *, sizes: bool
) -> None:
    """Report what a shape lacks, its `sizes` only if they are known; usual runtime arguments are filled in."""
    missing = [key for key in operation.size_arguments if key not in table and key not in operation.size_defaults]
    for key in missing if sizes else ():
        problems.at_value(path, "missing-key", f"`{key}` is missing in [[shape]]")
    for key in operation.runtime_arguments:
        if key not in table and key in RUNTIME_DEFAULTS:
            given.runtime[key] = RUNTIME_DEFAULTS[key]
        elif key not in table:
            problems.at_value(path, "missing-key", f"runtime argument `{key}` is missing in [[shape]]")


def _is_size(problems: Problems, key: str, value: Any, place: KeyPath, least: int) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        problems.wrong_type(place, "an integer", value)
        return False
    if not least <= value <= INT32_MAX:
        message = f"`{key}` must be at least {least}" if value < least else f"`{key}` does not fit into int32_t"
        problems.at_value(place, "out-of-range", message)
        return False
    return True


def with_defaults(operation: Operation, sizes: Mapping[str, int]) -> dict[str, int]:
    """All sizes of a shape, those that are worked out among them. Raises ValueError."""
    found = dict(sizes)
    for key, least in operation.size_defaults.items():
        found.setdefault(key, evaluate_size(least, found))
    return {key: found[key] for key in operation.size_arguments}


def wrong_sizes(operation: Operation, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the mistakes in the sizes of a shape: the size and a message, the worst first. Raises ValueError."""
    kind = KINDS[operation.kind]
    reported: set[str] = set()
    for name, value in sizes.items():
        default = operation.size_defaults.get(name)
        least = _least(operation, name) if default is None else evaluate_size(default, sizes)
        if value < least and not kind.is_free_stride(name) and not (value == 0 and name in kind.may_be_zero):
            tensor = next((tensor for tensor in operation.tensors if name in tensor.strides), None)
            extent = "" if tensor is None else f": {tensor.name} is {' × '.join(tensor.sizes)}, layout {tensor.layout}"
            yield name, f"`{name}` must be at least {least}{extent}"
            reported.add(name)
    for name, message in beyond_limits(operation, sizes):
        if name not in reported:
            yield name, message
            reported.add(name)
    for _, tensor in operation.outputs:
        found = overlapping_stride(tensor, sizes) if any(map(kind.is_free_stride, tensor.strides)) else None
        if found is not None and found[0] not in reported:
            yield found[0], f"`{found[0]}` must be at least {found[1]}: elements of {tensor.name} overlap"
    if kind.wrong_sizes is not None:
        yield from kind.wrong_sizes(sizes)


def beyond_limits(operation: Operation, sizes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Yield the sizes that the operation's own limits do not allow, and a message. Raises ValueError."""
    for name, limits in operation.limits.items():
        value = sizes[name]
        for text, word in ((limits.least, "least"), (limits.greatest, "most")):
            end = value if text is None else evaluate_size(text, sizes)
            if value < end if word == "least" else value > end:
                of = f" ({text})" if text != str(end) else ""
                yield name, f"`{name}` must be at {word} {end}{of}, by [operation.limits]"
        if value % limits.multiple:
            yield name, f"`{name}` must be a multiple of {limits.multiple}, by [operation.limits]"


def overlapping_stride(tensor: Tensor, sizes: Mapping[str, int]) -> tuple[str, int] | None:
    """The stride of an axis that begins again within the axes of smaller strides, and what it would have to be."""
    extent = 1
    axes = zip(tensor.strides, tensor.sizes, strict=True)
    values = ((evaluate_size(stride, sizes), evaluate_size(size, sizes), stride) for stride, size in axes)
    for value, size, stride in sorted(values, key=lambda axis: axis[0] or INT32_MAX):
        if size > 1 and value < extent:
            return stride, extent
        extent += (size - 1) * value
    return None


def _least(operation: Operation, name: str) -> int:
    """The least value of a size without a default: in a custom operation it need not be a tensor's."""
    extents = {size for tensor in operation.tensors for size in tensor.sizes}
    may_be_empty = name in operation.limits and operation.limits[name].least == "0"
    return 0 if operation.kind == "custom" and extents and (name not in extents or may_be_empty) else 1


def _shared_buffers(problems: Problems, sizes: Mapping[str, int], path: KeyPath, operation: Operation) -> None:
    """Tensors that are one buffer must need equally many elements of it, else one is read beyond its end."""
    needed: dict[str, tuple[str, int]] = {}
    for tensor in operation.tensors:
        try:
            elements = elements_spanned(tensor, sizes)
        except ValueError as error:
            problems.at_value(path, "invalid-size", f"{tensor.name} has no size here: {error}")
            continue
        owner, known = needed.setdefault(tensor.buffer, (tensor.name, elements))
        if known != elements:
            needs = f"{elements:,} elements of it and not {known:,}"
            message = f"{tensor.name} is the same buffer as {owner}, but needs {needs}"
            problems.at_value(path, "shape-mismatch", message)


ENUMERATED_ELEMENTS = 1 << 14
"""Up to so many elements of an output are looked for one by one; of more it is known that they overlap where a stride
is 0, or there are more of them than places."""


def _outputs_apart(problems: Problems, sizes: Mapping[str, int], path: KeyPath, operation: Operation) -> None:
    """Two elements of an output must not lie at one place: what the kernel writes there could not be right twice."""
    for at, (_, tensor) in enumerate(operation.outputs):
        found = overlapping_stride(tensor, sizes)
        if found is None or not _overlaps(tensor, sizes):
            continue
        stride, least = found
        names = names_in(stride)
        place = (*path, names[0]) if names and (*path, names[0]) in problems.document else path
        if not names:
            place = ("operation", "output", at, "strides", tensor.strides.index(stride))
        message = f"elements of {tensor.name} overlap: its stride `{stride}` must be at least {least}"
        problems.at_value(place, "out-of-range", message)


def _overlaps(tensor: Tensor, sizes: Mapping[str, int]) -> bool:
    """Return True if two elements certainly lie at one place."""
    axes = [
        (evaluate_size(size, sizes), evaluate_size(stride, sizes))
        for size, stride in zip(tensor.sizes, tensor.strides, strict=True)
    ]
    elements = math.prod(size for size, _ in axes)
    if elements > elements_spanned(tensor, sizes) or any(size > 1 and not stride for size, stride in axes):
        return True
    if elements > ENUMERATED_ELEMENTS:
        return False
    places = {0}
    for size, stride in axes:
        places = {place + index * stride for place in places for index in range(size)}
    return len(places) < elements


def _values_that_fit(problems: Problems, sizes: Mapping[str, int], path: KeyPath, operation: Operation) -> None:
    """Values that the operation says must be possible on these sizes."""
    for tensor in operation.tensors:
        reason = values_misfit(tensor, sizes)
        if reason:
            problems.at_value(
                path, "shape-mismatch", f"the values of {tensor.name} do not go with this shape: {reason}"
            )


def values_misfit(tensor: Tensor, sizes: Mapping[str, int]) -> str:
    """Why the tensor's values are not possible on these sizes; empty where they are."""
    if tensor.values is None:
        return ""
    try:
        values = tensor.values.on(sizes)
        return misfit_on(values, tensor.dtype, [evaluate_size(size, sizes) for size in tensor.sizes])
    except ValueError as error:
        return str(error)


RAGGED_SIZES = ((389, 277, 323), (392, 280, 328), (400, 272, 336), (400, 272, 512))
"""M, N, K that no tile divides and that have several tiles: for any vector width, then for those of 8 and 16 elements,
then with whole tiles along K."""


def ragged_shapes(operation: Operation, shape: Shape) -> tuple[Shape, ...]:
    """Shapes without gaps to verify a contraction's edges on, for kernels that refuse more and more of them.

    Runtime arguments are those of `shape`. Of a custom operation there is none: what its sizes mean is not known.
    """
    sizes_for = KINDS[operation.kind].sizes_for
    if sizes_for is None:
        return ()
    found = []
    for m, n, k in RAGGED_SIZES:
        sizes = sizes_for(operation, m, n, k)
        name = "x".join(map(str, sizes.values()))
        found.append(Shape(name, with_defaults(operation, sizes), shape.runtime, shape.span))
    return tuple(found)


def elements_spanned(tensor: Tensor, sizes: Mapping[str, int]) -> int:
    """Elements from the first to the last of a tensor, gaps included. Raises ValueError for a size that is not
    positive, a negative stride, or a name without value."""
    last, is_empty = 0, False
    for size, stride in zip(tensor.sizes, tensor.strides, strict=True):
        extent, step = evaluate_size(size, sizes), evaluate_size(stride, sizes)
        if extent < (0 if tensor.may_be_empty else 1):
            raise ValueError(f"`{size}` is {extent}")
        if step < 0:
            raise ValueError(f"stride `{stride}` is {step}")
        last += (extent - 1) * step
        is_empty = is_empty or not extent
    return 0 if is_empty else last + 1
