"""Values of runtime arguments, by their C types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckwatch.workspace.problems import Problems, describe_value, did_you_mean, join_names
from ckwatch.workspace.toml_document import KeyPath

_C_INTEGERS = {
    "int32_t": range(-(2**31), 2**31),
    "int64_t": range(-(2**63), 2**63),
    "uint32_t": range(2**32),
    "uint64_t": range(2**64),
    "size_t": range(2**64),
}


def is_runtime_value(problems: Problems, key: str, value: Any, place: KeyPath, c_type: str) -> bool:
    """Return True for a value of a runtime argument of this C type; what is none is reported at `place`."""
    if c_type == "bool" and isinstance(value, bool):
        return True
    if c_type in ("float", "double") and isinstance(value, (int, float)) and not isinstance(value, bool):
        return True
    if c_type not in _C_INTEGERS or not isinstance(value, int) or isinstance(value, bool):
        message = f"`{key}` is of type {c_type}; {describe_value(value)} is not"
        problems.at_value(place, "wrong-type", message)
        return False
    if key == "kBatch" and value < 1:
        problems.at_value(place, "out-of-range", "`kBatch` must be at least 1")
        return False
    if value not in _C_INTEGERS[c_type]:
        problems.at_value(place, "out-of-range", f"`{key}` does not fit into {c_type}")
        return False
    return True


def read_runtime_values(
    problems: Problems, values: Mapping[str, Sequence[Any]], types: Mapping[str, str]
) -> dict[str, tuple[int | float, ...]]:
    """The values to try of runtime arguments; names that are none, and values of other types, are reported."""
    found = {}
    for name, several in values.items():
        place = ("operation", "runtime_values", name)
        if name not in types:
            message = f"`{name}` is not a runtime argument; {did_you_mean(name, types)}known: {join_names(types)}"
            problems.at_key(place, "unknown-runtime-argument", message)
            continue
        fit = [is_runtime_value(problems, name, one, (*place, at), types[name]) for at, one in enumerate(several)]
        if all(fit):
            found[name] = tuple(dict.fromkeys(several))
    return found
