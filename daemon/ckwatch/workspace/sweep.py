"""`[[sweep]]` of a kernel file: instances from the product of parameter values, less those that a condition rules out.

`ckwatch.workspace.product` walks the product. Nothing is built before it is known to stay within the limits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from ckwatch.model.diagnostics import Related, Severity
from ckwatch.model.kernels import Instance, ParameterValue, SweepOrigin, value_in_name
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.parameters import (
    ARTICLE,
    Condition,
    Derivation,
    ParameterReader,
    PlacedValue,
    as_toml,
    kind_of,
    merge_tables,
)
from ckwatch.workspace.problems import Problems
from ckwatch.workspace.product import ConditionFailedError, Product, TooManyCombinationsError
from ckwatch.workspace.settings import LimitsSection, Name, Section, valid_name
from ckwatch.workspace.toml_document import KeyPath


class SweepTable(Section):
    """`[[sweep]]`; `where`, `derived` and `parameters` are read apart."""

    name: Name = Field(description="what the instances' names begin with")
    base: str | None = Field(None, description="an `[[instance]]` to take parameters from")
    where: Any = Field(None, description="conditions, all of which must hold: Jinja expressions over the parameters")
    parameters: Annotated[dict[str, Any], Field(min_length=1)] = Field(
        description="an array gives the values to take, anything else one fixed value"
    )
    derived: dict[str, Any] = Field(
        default_factory=dict, description='parameters worked out from others: Jinja expressions, `"MPerBlock // 64"`'
    )
    tune: bool = Field(
        False, description="a space that `ckwatch tune` searches: no instances by itself, with up to millions of points"
    )


@dataclass(frozen=True, slots=True)
class SweepAxis:
    """A swept parameter and its values; `named` if they are part of the instances' names."""

    parameter: str
    values: tuple[PlacedValue, ...]
    named: bool


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A sweep that is free of problems as far as is known before it is expanded."""

    name: str
    path: KeyPath
    fixed: Mapping[str, PlacedValue]
    axes: tuple[SweepAxis, ...]
    conditions: tuple[Condition, ...]
    derived: tuple[Derivation, ...] = ()
    tune: bool = False
    """It is searched by `ckwatch tune`, never expanded."""

    @property
    def size(self) -> int:
        """The number of combinations before any condition."""
        return math.prod(len(axis.values) for axis in self.axes)

    def product(self, *, failing_is_false: bool = False) -> Product:
        """The product of its values, with its conditions and derived parameters; as in `Product`."""
        axes = [(axis.parameter, [written.value for written in axis.values]) for axis in self.axes]
        fixed = {name: written.value for name, written in self.fixed.items()}
        return Product(axes, fixed, self.conditions, self.derived, failing_is_false=failing_is_false)


def read_sweep(
    reader: ParameterReader,
    values: Any,
    path: KeyPath,
    defaults: Mapping[str, PlacedValue],
    instances: Mapping[str, Mapping[str, PlacedValue] | None],
    *,
    all_named: bool,
) -> SweepPlan | None:
    """The sweep at `path`. `instances` are the file's instances by name, None for those with problems; one that has no
    name (`all_named`) may be the sweep's base.
    """
    problems = reader.problems
    table = problems.validated(SweepTable, values, path)
    if table is None:
        return None
    before = problems.errors_found
    base: Mapping[str, PlacedValue] | None = {}
    if table.base is not None:
        if table.base not in instances:
            if all_named:
                what = f"no [[instance]] is called `{table.base}`"
                problems.unknown_name((*path, "base"), "unknown-instance", what, table.base, instances)
            return None
        base = instances[table.base]
    axes = [
        axis
        for name, given in table.parameters.items()
        if (axis := _axis(reader, name, given, (*path, "parameters", name))) is not None
    ]
    # a base with problems has been reported; what it would have held is not known
    if base is None:
        return None
    fixed = merge_tables(defaults, base)
    conditions: list[Condition] = []
    derived: list[Derivation] = []
    for name in table.derived:
        if reader.named(name, (*path, "derived", name), table.derived) and name in table.parameters:
            related = (Related("swept here", problems.document.key_span_of((*path, "parameters", name))),)
            message = f"`{name}` is swept, and cannot be derived as well"
            problems.at_key((*path, "derived", name), "duplicate-parameter", message, related=related)
    if table.where is not None or table.derived:
        # Jinja2 takes a tenth of a second to load, and most files have neither
        from ckwatch.workspace.sweep_conditions import read_conditions, read_derivations

        # what is wrong with [defaults], or with a name, has been reported
        written = problems.document.values.get("defaults")
        known = list(dict.fromkeys([*fixed, *(written if isinstance(written, dict) else ()), *table.parameters]))
        derived = read_derivations(problems, table.derived, (*path, "derived"), known, reader.meant)
        document = problems.document
        reader.key_spans.update((document.span_of(one.path), document.key_span_of(one.path)) for one in derived)
        if table.where is not None:
            conditions = read_conditions(
                problems, table.where, (*path, "where"), [*known, *table.derived], reader.meant
            )
    if problems.errors_found > before:
        return None
    return SweepPlan(table.name, path, fixed, tuple(axes), tuple(conditions), tuple(derived), table.tune)


def _axis(reader: ParameterReader, name: str, given: Any, path: KeyPath) -> SweepAxis | None:
    if not reader.named(name, path):
        return None
    if not isinstance(given, list):
        written = reader.value(name, given, path)
        return SweepAxis(name, (written,), named=False) if written else None
    if not given:
        reader.problems.at_value(
            path, "empty-sweep", f"`{name}` has no values: the sweep yields nothing", severity=Severity.WARNING
        )
    values: list[PlacedValue] = []
    first: dict[tuple[type, ParameterValue], PlacedValue] = {}
    complete = True
    for index, element in enumerate(given):
        written = reader.value(name, element, (*path, index))
        if written is None:
            complete = False
            continue
        key = (type(written.value), written.value)
        if key in first:
            related = (Related("first given here", first[key].span),)
            message = f"`{name}` has this value twice; the second is left out"
            reader.problems.add("duplicate-value", message, written.span, severity=Severity.WARNING, related=related)
        else:
            first[key] = written
            values.append(written)
    return SweepAxis(name, tuple(values), named=True) if complete else None


def expand_sweep(sweep: SweepPlan, problems: Problems, limits: LimitsSection, present: int) -> list[Instance]:
    """The instances of a sweep in a kernel file that has `present` others; none where it has problems or is too large.
    Raises nothing; problems are reported where the sweep has its name, or at the condition that fails."""
    place = (*sweep.path, "name")
    room = limits.instances - present
    raising = "raise `instances` under [limits] in ckwatch.toml, or narrow the sweep"
    if not sweep.conditions and sweep.size > room:
        message = f"sweep `{sweep.name}` makes {sweep.size:,} instances{_beside(present)}; "
        problems.at_value(place, "too-many-instances", message + f"the limit is {limits.instances:,}: {raising}")
        return []
    product = sweep.product()
    steps = limits.combinations if sweep.conditions else None
    chosen: list[tuple[tuple[PlacedValue, ...], dict[str, ParameterValue]]] = []
    try:
        for point in product.walk(steps_allowed=steps):
            if len(chosen) == room:
                message = f"sweep `{sweep.name}` makes more than {room:,} instances{_beside(present)}; "
                message += f"the limit is {limits.instances:,}: {raising}"
                problems.at_value(place, "too-many-instances", message)
                return []
            combination = tuple(axis.values[index] for axis, index in zip(sweep.axes, point, strict=True))
            chosen.append((combination, product.derived_values(point)))
    except ConditionFailedError as failure:
        if _report_odd_value(sweep, failure.cause.names, problems):
            return []
        kind = "condition" if isinstance(failure.cause, Condition) else "expression"
        problems.at_value(failure.cause.path, f"failing-{kind}", str(failure))
        return []
    except TooManyCombinationsError:
        message = f"sweep `{sweep.name}` has {sweep.size:,} combinations, and {limits.combinations:,} steps did not "
        message += (
            "decide which of them to take; raise `combinations` under [limits] in ckwatch.toml, or narrow the sweep"
        )
        problems.at_value(place, "too-many-combinations", message)
        return []
    if not chosen and all(axis.values for axis in sweep.axes):
        message = f"sweep `{sweep.name}` yields nothing: no combination meets its conditions"
        problems.at_value(place, "empty-sweep", message, severity=Severity.WARNING)
    return _instances(sweep, problems, chosen)


def _report_odd_value(sweep: SweepPlan, names: frozenset[str], problems: Problems) -> bool:
    """Report a value of another type than the rest of its axis, which fails in what mentions `names`."""
    for axis in sweep.axes:
        kinds = [kind_of(as_toml(one.value)) for one in axis.values]
        usual = max(kinds, key=kinds.count, default=None)
        odd = next((at for at in reversed(range(len(kinds))) if kinds[at] != usual), None)
        kind = None if odd is None else kinds[odd]
        if axis.parameter in names and odd is not None and kind is not None and usual is not None:
            message = f"`{axis.parameter}` is {ARTICLE[kind]} here and {ARTICLE[usual]} elsewhere"
            problems.add("wrong-type", message, axis.values[odd].span)
            return True
    return False


def _beside(present: int) -> str:
    return f" beside {present:,} others" if present else ""


def _instances(
    sweep: SweepPlan, problems: Problems, chosen: Sequence[tuple[tuple[PlacedValue, ...], dict[str, ParameterValue]]]
) -> list[Instance]:
    span = problems.document.span_of((*sweep.path, "name"))
    made_by = SweepOrigin(sweep.name, len(chosen), frozenset(one.parameter for one in sweep.derived))
    derived_spans = {one.parameter: problems.document.span_of(one.path) for one in sweep.derived}
    values = {name: written.value for name, written in sweep.fixed.items()}
    spans = {name: written.span for name, written in sweep.fixed.items()}
    found = []
    for combination, derived in chosen:
        name = sweep.name
        own_values, own_spans = values | derived, spans | derived_spans
        for axis, written in zip(sweep.axes, combination, strict=True):
            own_values[axis.parameter] = written.value
            own_spans[axis.parameter] = written.span
            if axis.named:
                name += "_" + value_in_name(written.value)
        try:
            valid_name(name)
        except ValueError as error:
            message = f"the instance's name becomes `{name}`: {error}; shorten the sweep's name or its values"
            problems.at_value((*sweep.path, "name"), "invalid-name", message)
            return []
        found.append(Instance(name, own_values, span, own_spans, made_by))
    return found
