"""The C function's arguments, as the rendered text declares them.

An exported module must pass exactly these, so they are read where the compiler read them, and compared with what the
operation says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ckwatch.config.operation_tables import RUNTIME_TYPES
from ckwatch.errors import CkwatchError
from ckwatch.model.dtypes import DTYPES
from ckwatch.model.kernel import Operation, Tensor

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_ARGUMENT = re.compile(r"(?P<type>[\w\s]*?\w(?:\s*\*)?)\s*\b(?P<name>\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Signature:
    """`pointers` are the names of tensors, `scalars` names and C types, both in the order of the C function."""

    pointers: tuple[str, ...]
    scalars: tuple[tuple[str, str], ...]


def signature_of(text: str, symbol: str, operation: Operation) -> Signature:
    """The arguments of `symbol` in the rendered `text`.

    Raises CkwatchError where it is not declared there, or its arguments are not those of the operation.
    """
    declared = _declared(text, symbol)
    pointers = pointer_arguments(operation)
    expected = [(DTYPES[tensor.dtype].abi_type, name) for name, tensor in pointers]
    actual = [(c_type.removeprefix("const ").removesuffix("*"), name) for c_type, name in declared[: len(expected)]]
    if [c_type for c_type, _ in actual] != [c_type for c_type, _ in expected] or any(
        not c_type.endswith("*") for c_type, _ in declared[: len(expected)]
    ):
        raise _mismatch(
            symbol, declared, f"begin with pointers to {', '.join(f'{name} ({c})' for c, name in expected)}"
        )
    scalars = declared[len(expected) : -3]
    if [c_type for c_type, _ in declared[-3:]][:2] != ["size_t*", "uint8_t*"] or len(declared) < len(expected) + 3:
        raise _mismatch(symbol, declared, "end with size_t* workspace_size, uint8_t* workspace and a stream")
    types = {
        **dict.fromkeys(operation.size_arguments, "int32_t"),
        **dict.fromkeys(operation.runtime_arguments, "int32_t"),
    }
    types.update(operation.runtime_types)
    for c_type, name in scalars:
        if types.get(name) != c_type or c_type not in RUNTIME_TYPES:
            known = ", ".join(f"{known_type} {known_name}" for known_name, known_type in types.items())
            raise _mismatch(symbol, declared, f"have no scalars but {known or 'none'}, and there is {c_type} {name}")
    missing = set(operation.runtime_arguments) - {name for _, name in scalars}
    if missing:
        raise _mismatch(symbol, declared, f"have the runtime arguments {', '.join(sorted(missing))}")
    return Signature(tuple(name for name, _ in pointers), tuple((name, c_type) for c_type, name in scalars))


def pointer_arguments(operation: Operation) -> list[tuple[str, Tensor]]:
    """The tensors that are arguments, in the C function's order; of those that are one buffer the first."""
    inputs = list(operation.inputs)
    order = operation.settings.get("input_reorder")
    if isinstance(order, tuple):
        inputs = [inputs[index] for index in order]
    found: dict[str, tuple[str, Tensor]] = {}
    for name, tensor in (*inputs, *operation.outputs):
        if tensor is not None:
            found.setdefault(tensor.buffer, (name, tensor))
    return list(found.values())


def _declared(text: str, symbol: str) -> list[tuple[str, str]]:
    """C type and name of each argument, white space made one."""
    plain = _COMMENT.sub(" ", text)
    found = re.search(rf"\bint\s+{re.escape(symbol)}\s*\(([^()]*)\)", plain)
    if found is None:
        raise CkwatchError(
            f"the rendered text does not declare `int {symbol}(…)`", "templates declare it with def_kernel(…)"
        )
    arguments = []
    for written in found[1].split(","):
        argument = _ARGUMENT.fullmatch(written.strip())
        if argument is None:
            raise CkwatchError(f"the argument `{written.strip()}` of {symbol} is not understood")
        arguments.append((re.sub(r"\s*\*", "*", " ".join(argument["type"].split())), argument["name"]))
    return arguments


def _mismatch(symbol: str, declared: list[tuple[str, str]], expected: str) -> CkwatchError:
    shown = ", ".join(f"{c_type} {name}" for c_type, name in declared)
    return CkwatchError(
        f"{symbol} is not called as the operation says: by [operation] its arguments {expected}",
        f"the template declares {symbol}({shown}); an exported module would pass something else",
    )
