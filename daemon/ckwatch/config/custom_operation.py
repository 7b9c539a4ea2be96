"""`[operation]` of kind `custom`: tensors, sizes and runtime arguments one by one, for templates that are no GEMM."""

from __future__ import annotations

from collections.abc import Sequence

from ckwatch.config.document import KeyPath
from ckwatch.config.mistakes import Mistakes, listed, meant
from ckwatch.config.operation_tables import CustomTable
from ckwatch.config.tensors import buffer_owners, input_order, template_settings
from ckwatch.model.diagnostic import Related
from ckwatch.model.kernel import Operation, Tensor
from ckwatch.model.sizes import contiguous_strides, names_in


def read_custom(mistakes: Mistakes, table: CustomTable) -> Operation:
    """The operation of a table of kind `custom`; it is of use only where `mistakes` got no new error."""
    _names_once(mistakes, table)
    places: dict[str, KeyPath] = {}
    for index, name in enumerate(tensor.name for tensor in table.input):
        places.setdefault(name, ("operation", "input", index))
    for index, name in enumerate(result.name for result in table.output):
        places.setdefault(name, ("operation", "output", index))
    known = {tensor.name: tensor for tensor in table.input if not tensor.absent}
    owners = buffer_owners(mistakes, {name: tensor.same_as for name, tensor in known.items()}, places)
    inputs: list[tuple[str, Tensor | None]] = []
    for tensor in table.input:
        if tensor.absent:
            inputs.append((tensor.name, None))
            continue
        source = known[owners[tensor.name]]
        dtype, sizes = tensor.dtype or source.dtype, tensor.sizes if tensor.sizes is not None else source.sizes
        place = places[tensor.name]
        for key, value in (("dtype", dtype), ("sizes", sizes)):
            if value is None:
                mistakes.at_value(place, "missing-key", f"`{key}` is missing in [[operation.input]]")
        if dtype is not None and sizes is not None:
            strides = _strides(mistakes, place, table.sizes, tensor.layout, sizes, tensor.strides)
            inputs.append((tensor.name, Tensor(tensor.name, dtype, tensor.layout, tuple(sizes), strides, source.name)))
    outputs = []
    for result in table.output:
        strides = _strides(mistakes, places[result.name], table.sizes, result.layout, result.sizes, result.strides)
        outputs.append(
            (result.name, Tensor(result.name, result.dtype, result.layout, tuple(result.sizes), strides, result.name))
        )
    settings = template_settings(mistakes, table.settings)
    order = input_order(mistakes, table.input_reorder, tuple(tensor.name for tensor in table.input))
    if order is not None:
        settings["input_reorder"] = order
    return Operation(
        kind="custom",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        accumulator=table.accumulator,
        size_arguments=tuple(table.sizes),
        runtime_arguments=tuple(table.runtime),
        runtime_types=dict(table.runtime),
        settings=settings,
    )


def _names_once(mistakes: Mistakes, table: CustomTable) -> None:
    """Every tensor, size and runtime argument is an argument of one C function: their names differ."""
    places: list[tuple[str, KeyPath]] = [(name, ("operation", "sizes", at)) for at, name in enumerate(table.sizes)]
    places += [(name, ("operation", "runtime", name)) for name in table.runtime]
    places += [(tensor.name, ("operation", "input", at, "name")) for at, tensor in enumerate(table.input)]
    places += [(tensor.name, ("operation", "output", at, "name")) for at, tensor in enumerate(table.output)]
    first: dict[str, KeyPath] = {}
    for name, place in places:
        if name in first:
            related = (Related("first given here", mistakes.document.span_of(first[name])),)
            mistakes.at_value(place, "duplicate-argument", f"two arguments are called `{name}`", related=related)
        else:
            first[name] = place


def _strides(
    mistakes: Mistakes,
    place: KeyPath,
    known: Sequence[str],
    layout: str,
    sizes: Sequence[str],
    strides: Sequence[str] | None,
) -> tuple[str, ...]:
    """The strides of the tensor at `place`, contiguous where none are given; wrong names and counts are reported."""
    for key, expressions in (("sizes", sizes), ("strides", strides or ())):
        for index, expression in enumerate(expressions):
            for name in dict.fromkeys(names_in(expression)):
                if name not in known and (*place, key) in mistakes.document:
                    message = f"unknown size `{name}`; {meant(name, known)}known: {listed(known)}"
                    mistakes.at_value((*place, key, index), "unknown-size", message)
    if strides is None:
        return contiguous_strides(sizes, layout)
    if len(strides) != len(sizes):
        message = f"{len(strides)} strides for {len(sizes)} sizes"
        mistakes.at_value((*place, "strides"), "dimension-mismatch", message)
    return tuple(strides)
