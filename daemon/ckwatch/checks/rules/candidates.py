"""Candidate values of a parameter: which to consider, and which the rules accept.

A candidate is checked by putting it into the instance as it was rendered, in the parameter's own template argument.
That takes a fraction of a millisecond, and is possible only where the argument is the parameter's value as it stands;
else `substituted` says so, and the instance has to be rendered with the candidate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ckwatch.checks.rules.checker import check_instance
from ckwatch.checks.rules.instances import RenderedInstance
from ckwatch.checks.rules.rule import Violation
from ckwatch.model.diagnostics import Severity
from ckwatch.model.kernels import ParameterValue, is_integers
from ckwatch.model.lazy_dataclass import dataclass

MAX_CANDIDATES = 64
"""Candidates at most, the nearest ones, unless there is a list of allowed values."""

SMALL_INTEGER = 16
"""Below, every integer is a candidate."""

POWERS = tuple(2**exponent for exponent in range(11))


@dataclass(frozen=True, slots=True)
class CheckedCandidate:
    """A value and the rules that refuse it; none: it is accepted."""

    value: ParameterValue
    refused_by: tuple[Violation, ...] = ()


def candidate_values(
    present: ParameterValue | None, allowed: Sequence[ParameterValue], others: Iterable[ParameterValue]
) -> list[ParameterValue]:
    """Values to consider: the allowed ones, else some near `present`; those that other instances have in any case."""
    used = list(others)
    example = present if present is not None else next(iter(used), None)
    found: list[ParameterValue] = [] if present is None else [present]
    found += used
    if allowed:
        found += allowed
    elif isinstance(example, bool):
        found += [True, False]
    elif isinstance(example, int):
        found += POWERS if present is None else _near_integers(example)
    elif is_integers(example) and present is not None:
        found += _near_tuples(example)
    distinct = list({(type(value), value): value for value in found}.values())
    if present is not None:
        distinct = nearest_first(distinct, present)
    return distinct if allowed else distinct[:MAX_CANDIDATES]


def nearest_first(values: Iterable[ParameterValue], present: ParameterValue | None) -> list[ParameterValue]:
    """In order of distance: numbers by their ratio, arrays by the sum over their elements, the rest as they stand."""
    return sorted(values, key=lambda value: distance(value, present))


def check_candidates(
    emitted: Sequence[RenderedInstance],
    source: str,
    arch: str,
    parameter: str,
    present: ParameterValue,
    values: Iterable[ParameterValue],
) -> list[CheckedCandidate] | None:
    """Check each value of `parameter` in the instances of the rendered `source` against the rules.

    None where the value cannot be put in: no instance has it as its own argument. A rule that refuses the instance
    whatever this parameter is does not count.
    """
    places = [(one, name) for one in emitted if (name := one.argument_of(parameter)) in one.arguments]
    if not places or any(substituted(one.arguments[name], present, present) is None for one, name in places):
        return None
    known = {
        (index, broken.rule) for index, (one, _) in enumerate(places) for broken in _errors_with(one, {}, arch, source)
    }
    found = []
    for value in values:
        against: dict[str, Violation] = {}
        for index, (one, name) in enumerate(places):
            argument = substituted(one.arguments[name], present, value)
            if argument is None:
                continue
            for broken in _errors_with(one, {name: argument}, arch, source):
                if name in broken.parameters or (index, broken.rule) not in known:
                    against.setdefault(broken.rule, broken)
        found.append(CheckedCandidate(value, tuple(against.values())))
    return found


def instance_errors(emitted: Iterable[RenderedInstance], source: str, arch: str) -> tuple[Violation, ...]:
    """The rules that refuse instances of the rendered `source`, each once."""
    found: dict[str, Violation] = {}
    for one in emitted:
        for broken in _errors_with(one, {}, arch, source):
            found.setdefault(broken.rule, broken)
    return tuple(found.values())


def substituted(argument: ParameterValue, present: ParameterValue, value: ParameterValue) -> ParameterValue | None:
    """The argument for `value`, given the one for `present`; None where that is not its value as it stands."""
    if argument == present and isinstance(argument, bool) == isinstance(present, bool):
        return value
    if isinstance(argument, tuple) and argument == (present,) and isinstance(value, int):
        return (value,)
    if isinstance(argument, str) and isinstance(present, str) and isinstance(value, str):
        scope, colons, name = argument.rpartition("::")
        return f"{scope}{colons}{value}" if name == present else None
    return None


def _errors_with(
    instance: RenderedInstance, changed: Mapping[str, ParameterValue], arch: str, source: str
) -> tuple[Violation, ...]:
    found = check_instance(instance.device_operation, {**instance.arguments, **changed}, arch, source=source)
    return tuple(broken for broken in found if broken.severity is Severity.ERROR)


def distance(value: ParameterValue, present: ParameterValue | None) -> float:
    """How far a value is from the present one: 1 for twice or half of it, 100 where there is no measure."""
    if value == present and isinstance(value, bool) == isinstance(present, bool):
        return 0.0
    if isinstance(value, tuple) and isinstance(present, tuple) and len(value) == len(present):
        return sum(distance(one, other) for one, other in zip(value, present, strict=True))
    numbers = (int, float)
    if isinstance(value, numbers) and isinstance(present, numbers) and value > 0 and present > 0:
        # a step up counts a little more than the same step down
        return abs(math.log2(value / present)) + (0.001 if value > present else 0.0)
    return 100.0


def _near_integers(present: int) -> list[int]:
    """Powers of two, halves and doubles, multiples of the step that suits the size, and all small ones."""
    if present <= 0:
        return [0, *POWERS]
    found = [*POWERS, *(present * factor for factor in (2, 3, 4, 8)), *(present // part for part in (2, 3, 4, 8))]
    if present <= SMALL_INTEGER:
        found += range(1, 2 * SMALL_INTEGER + 1)
    else:
        step = 8 if present <= 64 else 16 if present <= 256 else 2 ** (present.bit_length() - 5)
        found += range(step * max(1, present // (2 * step)), 2 * present + 1, step)
    return [value for value in found if value > 0]


def _near_tuples(present: tuple[int, ...]) -> list[tuple[int, ...]]:
    """A factor of two moved from one element to another, up to three times, or one element halved or doubled."""
    found = {present}
    for _ in range(3):
        found |= {moved for one in found for moved in _moves(one)}
        if len(found) > 4 * MAX_CANDIDATES:
            break
    scaled = {_with(one, at, value) for one in (present, *_moves(present)) for at, value in _scaled(one)}
    return sorted(found | scaled)


def _moves(present: tuple[int, ...]) -> list[tuple[int, ...]]:
    pairs = [(give, take) for give in range(len(present)) for take in range(len(present)) if give != take]
    return [
        _with(_with(present, give, present[give] // 2), take, present[take] * 2)
        for give, take in pairs
        if present[give] > 1 and present[give] % 2 == 0 and present[take] > 0
    ]


def _scaled(present: tuple[int, ...]) -> list[tuple[int, int]]:
    halves = [(at, value // 2) for at, value in enumerate(present) if value > 1 and value % 2 == 0]
    return halves + [(at, value * 2) for at, value in enumerate(present) if value > 0]


def _with(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])
