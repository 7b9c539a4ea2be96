"""Sweeps: instances that exist in one client's view only, as values and text.

The instances are written as `[[instance]]` tables below the text of the kernel file, which becomes an overlay; nothing
changes on disk, and no other client sees them.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue, value_in_name
from ckwatch.workspace.toml import instance_table

COMBINATIONS_LIMIT = 100_000
"""The largest number of combinations that a sweep may have; ckwatch.toml has its own, lower limit for instances."""

Parameters = Mapping[str, ParameterValue]
Values = ParameterValue | Iterable[ParameterValue]
"""The values of a swept parameter: a list or another iterable, or one value for all. A tuple is one value."""

Condition = Callable[[Parameters], bool]
Derived = Mapping[str, Callable[[Parameters], ParameterValue]]
"""Parameters that are worked out from the others, in this order."""


def product_of(
    name: str,
    parameters: Mapping[str, Values],
    where: Condition | None = None,
    base: Parameters | None = None,
    derived: Derived | None = None,
) -> dict[str, Parameters]:
    """The instances of the product of the values, by name, the last parameter fastest.

    A name is made of `name` and the values of every parameter that has several, as in a kernel file (`mine_128_32`).
    `where` and `derived` are asked with the parameters of `base` beneath, `where` with the derived ones too. Raises
    CkwatchError for values that no parameter can have, for two instances of one name, and when there are none or more
    than COMBINATIONS_LIMIT.
    """
    axes: dict[str, list[ParameterValue]] = {}
    named = []
    for parameter, given in parameters.items():
        if isinstance(given, str | tuple) or not isinstance(given, Iterable):
            axes[parameter] = [_value(parameter, given)]
        else:
            axes[parameter] = [_value(parameter, value) for value in given]
            named.append(parameter)
        if not axes[parameter]:
            raise CkwatchError(f"the sweep is empty: `{parameter}` has no values")
    if twice := axes.keys() & (derived or {}).keys():
        raise CkwatchError(f"`{min(twice)}` is swept, and cannot be derived as well")
    count = math.prod(map(len, axes.values()))
    if not axes or count > COMBINATIONS_LIMIT:
        message = f"the sweep has {count:,} combinations; the limit is {COMBINATIONS_LIMIT:,}"
        raise CkwatchError(
            message if axes else "the sweep is empty: it has no parameters", "sweep fewer values at a time"
        )
    instances: dict[str, Parameters] = {}
    for values in itertools.product(*axes.values()):
        own = dict(zip(axes, values, strict=True))
        for parameter, work_out in (derived or {}).items():
            own[parameter] = _value(parameter, work_out({**(base or {}), **own}))
        if where is None or where({**(base or {}), **own}):
            instance = "_".join((name, *(value_in_name(own[parameter]) for parameter in named)))
            if instance in instances:
                raise CkwatchError(f"two instances of the sweep would be called `{instance}`")
            instances[instance] = own
    if not instances:
        raise CkwatchError("the sweep is empty: no combination meets `where`")
    return instances


def listed(name: str, instances: Iterable[Mapping[str, ParameterValue]]) -> dict[str, Parameters]:
    """The instances listed one by one, called `name_0`, `name_1`, … Raises CkwatchError as `product_of`."""
    found = [{parameter: _value(parameter, value) for parameter, value in own.items()} for own in instances]
    if not found:
        raise CkwatchError("the sweep is empty: it has no instances")
    if len(found) > COMBINATIONS_LIMIT:
        raise CkwatchError(f"the sweep has {len(found):,} instances; the limit is {COMBINATIONS_LIMIT:,}")
    return {f"{name}_{index}": own for index, own in enumerate(found)}


def free_name(taken: Iterable[str]) -> str:
    """A name for a sweep with which no instance of `taken` begins."""
    names = list(taken)
    candidates = itertools.chain(("sweep",), (f"sweep{number}" for number in itertools.count(2)))
    return next(name for name in candidates if not any(f"{other}_".startswith(f"{name}_") for other in names))


def instance_tables(instances: Mapping[str, Parameters], base: Parameters) -> str:
    """The text of the instances in a kernel file, each with the parameters of `base` beneath its own."""
    return "\n" + "".join(f"\n{instance_table(name, {**base, **own})}" for name, own in instances.items())


def _value(parameter: str, value: Any) -> ParameterValue:
    if parameter == "name":
        raise CkwatchError("no parameter can be called `name`: that is the instance's own")
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list | tuple):
        elements: tuple[Any, ...] = tuple(_value(parameter, one) for one in value)
        if {type(one) for one in elements} in (set(), {int}, {str}, {tuple}):
            return elements
    raise CkwatchError(
        f"`{parameter}` cannot be {value!r}",
        "a parameter is an integer, a number, a boolean, a string or a tuple of these; a list holds several of them",
    )
