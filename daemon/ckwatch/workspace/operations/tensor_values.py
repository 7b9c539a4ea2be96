"""`values` and `index` of a custom operation's tensors: what an input holds, as the kernel file says it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from ckwatch.model.tensor_values import ContentKind, TensorValues, misfit, misfit_on
from ckwatch.model.tensors import names_in, parse_size
from ckwatch.workspace.operations import tables
from ckwatch.workspace.problems import (
    Problems,
    describe_value,
    did_you_mean,
    join_names,
    unknown_value_error,
    validator_error,
)
from ckwatch.workspace.toml_document import KeyPath

_EXAMPLES: Mapping[str, str] = {
    "normal": "normal(mean, deviation)",
    "uniform": "uniform(least, greatest)",
    "constant": "constant(value)",
}
"""How words with numbers are written."""

WORDS = (
    "normal",
    "normal(0, 1)",
    "uniform",
    "uniform(0, 1)",
    "ones",
    "zeros",
    "constant(1)",
    "probabilities",
    "permutation",
    "sorted",
    "mask",
)
"""Words that editors offer for `values`."""

_FILE_SUFFIX = ".npy"
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\((.*)\))?\s*", re.ASCII | re.DOTALL)
_CONSTANTS = {"ones": 1, "zeros": 0}
_COUNTS: Mapping[str, tuple[int, ...]] = {"normal": (0, 2), "uniform": (0, 2), "constant": (1,)}
_NAMES = tuple(dict.fromkeys(word.partition("(")[0] for word in WORDS))

VALUES = (
    "what it holds: `normal(mean, deviation)`, `uniform(least, greatest)`, `ones`, `zeros`, `constant(value)`, "
    "`probabilities` (rows that sum to 1), `permutation` (0 to n-1 along the last axis, each once), `sorted` (along "
    'the last axis), `mask` (0 and 1), or a NumPy file, `"table.npy"`'
)
INDEX = (
    "integers that are used as indices: `rows of T`, `columns of T`, `axis 2 of T`, `elements of T`, or a range "
    "`[0, 64]` of integers or size expressions, whose upper bound is not among them"
)


class ValuesCheck(tables.Known):
    """The validator of `values`."""

    def __init__(self) -> None:
        super().__init__("values", WORDS)

    def __call__(self, value: str) -> str:
        if not value.endswith(_FILE_SUFFIX):
            parse_values(value)
        return value


def parse_values(text: str) -> TensorValues:
    """The values that a word means. Raises PydanticCustomError."""
    if text.endswith(_FILE_SUFFIX):
        return TensorValues(kind=ContentKind.FILE, file=text)
    match = _CALL.fullmatch(text)
    name, inside = (text, None) if match is None else (match[1], match[2])
    if name not in _NAMES:
        hint = f'; or a NumPy file, "{text}{_FILE_SUFFIX}"' if match is not None and inside is None else ""
        raise unknown_value_error("values", text if match is None else name, _NAMES, hint)
    numbers = _numbers(name, inside)
    if name in _CONSTANTS:
        return TensorValues(kind=ContentKind.CONSTANT, numbers=(_CONSTANTS[name],))
    if name == "normal" and numbers and numbers[1] < 0:
        raise validator_error("out_of_range", f"the deviation of `{text}` is negative")
    if name == "uniform" and numbers and numbers[0] > numbers[1]:
        raise validator_error("out_of_range", f"`{text}` is empty: its least value is above its greatest")
    return TensorValues(kind=ContentKind(name), numbers=numbers)


def _numbers(name: str, inside: str | None) -> tuple[int | float, ...]:
    given = [] if inside is None or not inside.strip() else inside.split(",")
    example = _EXAMPLES.get(name)
    if len(given) not in _COUNTS.get(name, (0,)):
        written = f"write `{example}`" if example else f"write `{name}`"
        raise validator_error("invalid_values", f"`{name}` does not take {len(given)} numbers; {written}")
    found = []
    for text in given:
        number = _number(text.strip())
        if number is None:
            raise validator_error("invalid_values", f"`{text.strip()}` is not a finite number; write `{example}`")
        found.append(number)
    return tuple(found)


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else None
    return None


_INDEX_WORDS = re.compile(r"\s*(?:(rows|columns|elements)|axis\s+(\d+))\s+of\s+([A-Za-z_]\w*)\s*", re.ASCII)


def _index(value: Any) -> Any:
    """The words of an index, or the two bounds of a range as size expressions."""
    if isinstance(value, str):
        if not _INDEX_WORDS.fullmatch(value):
            message = f"`{value}` is not an index; write `rows of T`, `columns of T`, `axis 2 of T`, `elements of T`"
            raise validator_error("invalid_index", f"{message}, or a range as in [0, 64]")
        return value
    if not isinstance(value, list):
        raise validator_error(
            "wrong_type", f"an index is a string or a range of two bounds, not {describe_value(value)}"
        )
    if len(value) != 2:
        raise validator_error("wrong_length", f"a range has two bounds, as in [0, 64], not {len(value)}")
    if any(isinstance(one, bool) or not isinstance(one, int | str) for one in value):
        wrong = next(one for one in value if isinstance(one, bool) or not isinstance(one, int | str))
        raise validator_error("wrong_type", f"{describe_value(wrong)} is not a bound{_BOUND}")
    return [str(one) for one in value]


_BOUND = ": write an integer, or a size expression"


Values = Annotated[str, AfterValidator(ValuesCheck())]
Index = Annotated[str | list[str], BeforeValidator(_index)]


def read_values(
    problems: Problems,
    place: KeyPath,
    given: tuple[str | None, str | list[str] | None],
    dtype: str,
    tensors: Mapping[str, Sequence[str]],
    known: Sequence[str],
) -> TensorValues | None:
    """The values of the tensor at `place`, from its `values` and `index`; None without both, or where one is wrong.

    `tensors`: sizes of all tensors; `known`: the operation's sizes.
    """
    word, index = given
    before = problems.errors_found
    bounds = () if index is None else _bounds(problems, (*place, "index"), index, tensors, known)
    key = "values" if index is None else "index"
    if word is None:
        found = None if index is None else TensorValues(kind=ContentKind.INDEX, bounds=bounds)
    else:
        found = parse_values(word)
        if index is not None and found.kind not in (ContentKind.PERMUTATION, ContentKind.SORTED):
            message = (
                f"`index` says already what it holds; beside it `values` is `permutation` or `sorted`, not `{word}`"
            )
            problems.at_value((*place, "values"), "inconsistent-values", message)
            return None
        found = TensorValues(kind=found.kind, numbers=found.numbers, bounds=bounds, file=found.file)
    if found is None or problems.errors_found > before:
        return None
    constant = found
    if found.bounds and not any(names_in(bound.removeprefix("-")) for bound in found.bounds):
        constant = found.on({})
    reason = misfit(constant, dtype) or ("" if constant.bounds else misfit_on(constant, dtype, (1,)))
    if reason:
        problems.at_value((*place, key), "dtype-mismatch", reason)
        return None
    return found


def _bounds(
    problems: Problems,
    place: KeyPath,
    index: str | list[str],
    tensors: Mapping[str, Sequence[str]],
    known: Sequence[str],
) -> tuple[str, ...]:
    if isinstance(index, list):
        for at, bound in enumerate(index):
            if parse_size(bound.removeprefix("-")) is None:
                problems.at_value((*place, at), "invalid-size", f"`{bound}` is not a bound{_BOUND}")
            for name in dict.fromkeys(names_in(bound.removeprefix("-"))):
                if name not in known:
                    message = f"unknown size `{name}`; {did_you_mean(name, known)}known: {join_names(known)}"
                    problems.at_value((*place, at), "unknown-size", message)
        return tuple(index)
    match = _INDEX_WORDS.fullmatch(index)
    assert match is not None  # noqa: S101  # its validator has seen to that
    word, axis, name = match.groups()
    sizes = tensors.get(name)
    if sizes is None:
        problems.unknown_name(
            place,
            "unknown-tensor",
            f"`index` names no tensor: `{name}`",
            index,
            [index.replace(name, other) for other in tensors],
        )
        return ()
    if word == "elements":
        return "0", " * ".join(f"({size})" for size in sizes) or "1"
    number = {"rows": 0, "columns": len(sizes) - 1}.get(word, -1) if axis is None else int(axis)
    if number >= len(sizes) or (word == "columns" and number == 0):
        axes = f"{name} has {len(sizes)} {'axis' if len(sizes) == 1 else 'axes'}"
        missing = f"is no axis {axis}" if word is None else f"are no {word}"
        problems.at_value(place, "unknown-axis", f"there {missing} of {name}: {axes}, counted from 0")
        return ()
    return "0", sizes[number]
