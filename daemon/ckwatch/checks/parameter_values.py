"""Checks a parameter's value against its type, and finds the value that was probably meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from ckwatch.model.kernels import ParameterValue, is_integers
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind

LISTED = 16
"""Values of a choice that a message names at most."""

_INTEGER = re.compile(r"\s*[-+]?\d{1,18}\s*")
_SEQUENCE = re.compile(r"\s*(?:(?:\w+\s*::\s*)*(?:S|Sequence)\s*<|\[|\()?([-+\d,\s]*)[>\])]?(?:\s*\{\s*\})?\s*")
_FLAG_WORDS = {
    **dict.fromkeys(("true", "1.0", "1", "on", "yes"), True),
    **dict.fromkeys(("false", "0.0", "0", "off", "no"), False),
}
_NUMBERED = re.compile(r"(.*?)(\d{1,9})")


@dataclass(frozen=True, slots=True)
class ValueProblem:
    """Why a value is none of its type. `code` is one of those of kernel files, and `meant` is to replace the value."""

    code: str
    message: str
    meant: ParameterValue | None = None


def value_problem(name: str, declared: ParameterType, value: ParameterValue) -> ValueProblem | None:
    """Return the problem with `value` for the parameter `name`, or None if it is of the declared type."""
    match declared.kind:
        case ValueKind.INTEGER:
            return _integer(name, declared, value)
        case ValueKind.FLAG:
            return _flag(name, value)
        case ValueKind.CHOICE:
            return _choice(name, declared, value)
        case ValueKind.ARRAY:
            return _array(name, declared, value)
        case ValueKind.STRING:
            return None if isinstance(value, str) else _wrong_type(name, "a string", value, None)


def nearest_value(value: ParameterValue, known: Sequence[ParameterValue]) -> ParameterValue | None:
    """The one of `known` that `value` was probably meant to be; None where none is near."""
    words = {str(one): one for one in known}
    sought = value_words(value)
    folded = {_folded(word): word for word in words}
    if _folded(sought) in folded:
        return words[folded[_folded(sought)]]
    # v6 is nearer to v5 than to v1, and 3 is v3
    numbered = {word: found for word in words if (found := _NUMBERED.fullmatch(word)) is not None}
    if len(numbered) == len(words) and (number := _NUMBERED.fullmatch(sought.strip())) is not None:
        alike = {word: one for word, one in numbered.items() if _folded(number[1]) in ("", _folded(one[1]))}
        if alike:
            return words[min(alike, key=lambda word: abs(int(alike[word][2]) - int(number[2])))]
    scoped = sought.rpartition("::")[2]
    near = difflib.get_close_matches(_folded(scoped), folded, n=1, cutoff=0.6)
    return words[folded[near[0]]] if near else None


def value_words(value: ParameterValue) -> str:
    """A value as it stands in a message, without quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(value_words, value))}]" if isinstance(value, tuple) else str(value)


def _integer(name: str, declared: ParameterType, value: ParameterValue) -> ValueProblem | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return _wrong_type(name, "an integer", value, _as_integer(value))
    return _out_of_range(name, declared, value)


def _flag(name: str, value: ParameterValue) -> ValueProblem | None:
    if isinstance(value, bool) or (type(value) is int and value in (0, 1)):
        return None
    return _wrong_type(name, "true or false", value, _FLAG_WORDS.get(_folded(str(value))))


def _choice(name: str, declared: ParameterType, value: ParameterValue) -> ValueProblem | None:
    if any(type(one) is type(value) and one == value for one in declared.values):
        return None
    meant = nearest_value(value, declared.values)
    listed = ", ".join(map(value_words, declared.values[:LISTED]))
    more = f" and {len(declared.values) - LISTED} more" if len(declared.values) > LISTED else ""
    hint = "" if meant is None else f"did you mean {value_words(meant)}? "
    return ValueProblem("unknown-value", f"`{name}` cannot be {_described(value)}; {hint}known: {listed}{more}", meant)


def _array(name: str, declared: ParameterType, value: ParameterValue) -> ValueProblem | None:
    if declared.or_integer and type(value) is int:
        value = (value,)
    one = declared.length == 1
    length = "one integer" if one else "integers" if declared.length is None else f"{declared.length} integers"
    if not is_integers(value):
        also = " or an integer" if declared.or_integer else ""
        return _wrong_type(name, f"an array of {length}{also}", value, _as_array(declared, value))
    if declared.length is not None and len(value) != declared.length:
        also = ", or an integer" if declared.or_integer else ""
        return ValueProblem("wrong-length", f"`{name}` must be an array of {length}{also}, not of {len(value)}")
    if not value:
        return ValueProblem("empty-array", f"`{name}` must not be empty")
    outside = next((one for one in value if _out_of_range(name, declared, one) is not None), None)
    if outside is not None:
        return ValueProblem(
            "out-of-range", f"each element of `{name}` must {_range_words(declared)}: {outside} does not"
        )
    return None


def _out_of_range(name: str, declared: ParameterType, value: int) -> ValueProblem | None:
    too_low = declared.lowest is not None and value < declared.lowest
    too_high = declared.highest is not None and value > declared.highest
    if not too_low and not too_high:
        return None
    meant = -value if too_low and value < 0 and _out_of_range(name, declared, -value) is None else None
    return ValueProblem("out-of-range", f"`{name}` must {_range_words(declared)}, not {_described(value)}", meant)


def _range_words(declared: ParameterType) -> str:
    if declared.lowest is None:
        return f"be at most {declared.highest}"
    if declared.highest in (None, INT32_MAX):
        return f"be at least {declared.lowest}"
    return f"lie between {declared.lowest} and {declared.highest}"


def _wrong_type(name: str, expected: str, value: ParameterValue, meant: ParameterValue | None) -> ValueProblem:
    hint = "" if meant is None else f"; write {value_words(meant)}"
    return ValueProblem("wrong-type", f"`{name}` must be {expected}, not {_described(value)}{hint}", meant)


def _as_integer(value: ParameterValue) -> int | None:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if is_integers(value) and len(value) == 1:
        return value[0]
    return None


def _as_array(declared: ParameterType, value: ParameterValue) -> tuple[int, ...] | None:
    if isinstance(value, str) and (found := _SEQUENCE.fullmatch(value)):
        elements = [one.strip() for one in found[1].split(",")]
        if all(_INTEGER.fullmatch(one) for one in elements) and declared.length in (None, len(elements)):
            return tuple(map(int, elements))
    integer = None if isinstance(value, tuple) else _as_integer(value)
    return (integer,) if integer is not None and declared.length in (None, 1) else None


def _described(value: ParameterValue) -> str:
    if isinstance(value, bool):
        return value_words(value)
    if isinstance(value, str):
        return f'the string "{value if len(value) <= 40 else value[:39] + "…"}"'
    kind = "array" if isinstance(value, tuple) else "number" if isinstance(value, float) else "integer"
    return f"the {kind} {value_words(value)}"


def _folded(text: str) -> str:
    return text.strip().replace("_", "").casefold()
