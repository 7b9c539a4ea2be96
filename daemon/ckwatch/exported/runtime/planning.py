"""From the forms of arrays to sizes and strides: what the kernel is passed, and whether it may be called at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ckwatch.exported.runtime.arrays import Form
from ckwatch.exported.runtime.kernel import Extent, Kernel, Operand, text_of, value_of

INT32_MAX = 2**31 - 1


class Plan(NamedTuple):
    """Values of the size arguments, and shape and strides of each operand, in their order."""

    sizes: Mapping[str, int]
    shapes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]


def plan_of(kernel: Kernel, forms: tuple[Form | None, ...], given: tuple[int | None, ...]) -> Plan:
    """How the kernel is called on arrays of these forms, None for those that are not known.

    `forms` stand in the order of the operands, and `given` are values of the size arguments from elsewhere. Raises
    TypeError for a wrong dtype and for sizes that no argument gives, ValueError for a wrong shape, stride or device.
    """
    found = {
        name: (value, f"{name}={value}") for name, value in zip(kernel.sizes, given, strict=True) if value is not None
    }
    known: list[tuple[Operand, Form]] = []
    for operand, form in zip(kernel.operands, forms, strict=True):
        if form is not None:
            known.append((operand, checked_form(kernel, operand, form)))
    one_device(known)
    for operand, form in known:
        match_extents(found, operand, operand.sizes, form.shape, "size", form)
    for operand, form in known:
        match_extents(found, operand, operand.strides, form.strides, "stride", form)
    sizes = {name: value for name, (value, _) in found.items()}
    complete(kernel, sizes)
    for operand, form in known:
        check_formulas(operand, operand.sizes, form.shape, "size", form, sizes)
    for operand, form in known:
        check_formulas(operand, operand.strides, form.strides, "stride", form, sizes)
    shapes = tuple(tuple(evaluated(size, sizes) for size in operand.sizes) for operand in kernel.operands)
    strides = tuple(tuple(evaluated(step, sizes) for step in operand.strides) for operand in kernel.operands)
    for operand, shape in zip(kernel.operands, shapes, strict=True):
        if min(shape, default=0) < 0:
            values = ", ".join(f"{name}={sizes[name]}" for name in kernel.sizes)
            raise ValueError(f"{operand.name} would have the shape {shape} with {values}")
    return Plan(sizes, shapes, strides)


def evaluated(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The value of a size or stride. Raises ValueError where it divides by a size that is 0."""
    try:
        return value_of(extent, sizes)
    except ZeroDivisionError:
        raise ValueError(f"{text_of(extent)} has no value where its divisor is 0") from None


def checked_form(kernel: Kernel, operand: Operand, form: Form) -> Form:
    """The form with the operand's number of axes. Raises TypeError or ValueError for what does not depend on sizes."""
    name = operand.name
    if form.dtype not in operand.dtypes:
        raise TypeError(f"{name} has the dtype {form.dtype}; it must be {' or '.join(operand.dtypes)}")
    kind = form.device.partition(":")[0]
    if kind != kernel.kind and not (kind == "gpu" and kernel.kind != "cpu"):
        place = {"cpu": "in host memory", "gpu": "on a GPU"}.get(kind, f"on {form.device}")
        needed = {"cpu": "in host memory", "hip": "on an AMD GPU (HIP)", "cuda": "on an NVIDIA GPU (CUDA)"}[kernel.kind]
        raise ValueError(f"{name} is {place}; {kernel.unit} needs it {needed}")
    shape, strides = list(form.shape), list(form.strides)
    if len(operand.sizes) == 1:
        # a vector may come as a row, a column or, if it has one element, as a scalar
        while len(shape) > 1 and 1 in shape:
            axis = shape.index(1)
            del shape[axis], strides[axis]
        if not shape:
            shape, strides = [1], [1]
    if len(shape) != len(operand.sizes):
        expected = " × ".join(map(text_of, operand.sizes))
        raise ValueError(f"{name} has the shape {form.shape}; it must have {len(operand.sizes)} axes: {expected}")
    if any(step < 0 for step, size in zip(strides, shape, strict=True) if size > 1):
        raise ValueError(f"{name} has negative strides {form.strides}: pass a copy of it")
    if operand.output:
        if form.readonly:
            raise ValueError(f"{name} is written, and the array that was given may only be read")
        last = 0
        for step, size in sorted(zip(strides, shape, strict=True)):
            if size > 1 and step <= last:
                raise ValueError(f"{name} is written, and elements of it are one: its strides are {form.strides}")
            last += (size - 1) * step
    return form._replace(shape=tuple(shape), strides=tuple(strides))


def one_device(known: list[tuple[Operand, Form]]) -> None:
    """Raise ValueError unless all operands are on one device."""
    first: dict[str, str] = {}
    for operand, form in known:
        if form.device != "gpu":
            first.setdefault(form.device, operand.name)
    if len(first) > 1:
        (one, one_name), (other, other_name) = list(first.items())[:2]
        raise ValueError(f"{one_name} is on {one} and {other_name} on {other}; they must be on one device")


def match_extents(
    found: dict[str, tuple[int, str]],
    operand: Operand,
    expected: tuple[Extent, ...],
    actual: tuple[int, ...],
    what: str,
    form: Form,
) -> None:
    """Learn size arguments from an array's sizes or strides. Raises ValueError where they contradict what is known."""
    for axis, (extent, value) in enumerate(zip(expected, actual, strict=True)):
        if what == "stride" and form.shape[axis] <= 1:
            continue  # it leads nowhere, and libraries put there what they like
        origin = f"the {what} of {operand.name} along axis {axis}"
        if isinstance(extent, str):
            other, its_origin = found.setdefault(extent, (value, origin))
            if other != value and what == "stride" and its_origin.startswith("the size of "):
                raise ValueError(wrong_extent(operand, form, what, axis, other))
            if other != value:
                raise ValueError(f"{extent} is {value} by {origin}, but {other} by {its_origin}")
        elif isinstance(extent, int) and extent != value:
            raise ValueError(wrong_extent(operand, form, what, axis, extent))


def wrong_extent(operand: Operand, form: Form, what: str, axis: int, expected: int) -> str:
    """Describe a size or stride that must have another value."""
    if what == "size":
        return f"{operand.name} has the shape {form.shape}; its size along axis {axis} must be {expected}"
    layout = ", ".join(map(text_of, operand.strides))
    return (
        f"{operand.name} has the strides {form.strides}; they must be ({layout}): "
        f"pass a copy that is contiguous along axis {operand.strides.index(1) if 1 in operand.strides else axis}"
    )


def complete(kernel: Kernel, sizes: dict[str, int]) -> None:
    """Give the sizes that no array gives their default. Raises TypeError where there is none."""
    taken = {name for name, _ in kernel.scalars}
    for name in kernel.sizes:
        default: int | None = None
        if name in kernel.defaults:
            try:
                default = evaluated(kernel.defaults[name], sizes)
            except KeyError as error:
                raise TypeError(f"no argument gives {error.args[0]}: add {error.args[0]}=…") from None
        if name not in sizes:
            if default is None:
                raise TypeError(f"no argument gives {name}: add {name}=…")
            sizes[name] = default
        elif name not in taken and default is not None and sizes[name] != default:
            raise ValueError(f"{name} is {sizes[name]}, but the kernel does not take it and uses {default}")
        if not 0 <= sizes[name] <= INT32_MAX:
            raise ValueError(f"{name} is {sizes[name]}; it must be from 0 to {INT32_MAX}")


def check_formulas(
    operand: Operand,
    expected: tuple[Extent, ...],
    actual: tuple[int, ...],
    what: str,
    form: Form,
    sizes: Mapping[str, int],
) -> None:
    """Raise ValueError unless an array's sizes or strides that are formulas are what the formulas say."""
    for axis, (extent, found) in enumerate(zip(expected, actual, strict=True)):
        if isinstance(extent, (str, int)) or (what == "stride" and form.shape[axis] <= 1):
            continue
        value = evaluated(extent, sizes)
        if value != found:
            origin = f"the {what} of {operand.name} along axis {axis}"
            raise ValueError(f"{origin} is {found}; it must be {extent.text}, which is {value}")
