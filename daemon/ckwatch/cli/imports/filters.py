"""`--filter`: which instances of a list an import takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import ParameterValue
from ckwatch.workspace.parameters import Condition, ConditionError
from ckwatch.workspace.problems import did_you_mean, join_names

Fields = Mapping[str, ParameterValue | None]

_SCOPE = re.compile(r"\b\w+::(?=\w)")
_ASSIGNMENT = re.compile(r"\s*(\w+)\s*=(?!=)\s*(.*?)\s*", re.DOTALL)


def instance_filter(
    texts: Sequence[str], known: Mapping[str, str], examples: tuple[str, str]
) -> Callable[[Fields], bool]:
    """Return a predicate that checks an instance against all filters. Raises CkwatchError for one that cannot be read
    or answered.

    `known` are the fields by all the names that they go by, `examples` an expression and an assignment.
    """
    if not texts:
        return lambda fields: True  # noqa: ARG005
    from ckwatch.workspace.sweep_conditions import compiled_expression  # loads Jinja2

    conditions = []
    for given in texts:
        text = _SCOPE.sub("", _as_expression(given))
        try:
            names, evaluate = compiled_expression(text)
        except ValueError as error:
            raise CkwatchError(
                f"`{given}` is not a filter: {error}", f"as in '{examples[0]}', or {examples[1]}"
            ) from None
        for name in sorted(names - known.keys()):
            # in the spelling that was begun
            near = did_you_mean(name, known.values() if name.islower() else known)
            fields = join_names(dict.fromkeys(known.values()))
            raise CkwatchError(
                f"the filter `{given}` mentions `{name}`, which no field is called", f"{near}there are {fields}"
            )
        conditions.append(Condition(text, names, (), evaluate))

    mentioned = {name for condition in conditions for name in condition.names}

    def holds(fields: Fields) -> bool:
        values: dict[str, Any] = {name: plain(fields[known[name]]) for name in mentioned}
        try:
            return all(condition.holds(values) for condition in conditions)
        except ConditionError as error:
            raise CkwatchError(f"the filter {error}") from None

    return holds


def plain(value: ParameterValue | None) -> ParameterValue | None:
    """A value without the scope of its enumeration."""
    return value.rpartition("::")[2] if isinstance(value, str) else value


def _as_expression(text: str) -> str:
    """`NAME=VALUE` as a comparison."""
    assigned = _ASSIGNMENT.fullmatch(text)
    if assigned is None:
        return text
    name, value = assigned.groups()
    literal = re.fullmatch(r"-?\d+|none|\[.*\]|\(.*\)|\".*\"|'.*'", value)
    return f"{name} == {value}" if literal else f"{name} == {json.dumps(value)}"
