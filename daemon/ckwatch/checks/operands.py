"""Checks that an instance is for the tensors of its operation: their element types, layouts and dimensions.

Templates take these from `[operation]` or from parameters, as PyTorch Inductor's do. A kernel whose parameters say
something else would compile, and read or write other memory than it is given.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ckwatch.checks.rules.checker import ELEMENT_TYPES, MATRIX_LAYOUTS
from ckwatch.checks.rules.rule import folded
from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity, Source
from ckwatch.model.kernels import ParameterValue, Unit
from ckwatch.model.tensors import DTYPES, LAYOUTS
from ckwatch.model.text import Span

_SPELLINGS = {
    "dtype": ("{}datatype", "{}elementdtype", "datatype{}"),
    "layout": ("{}layout", "layout{}"),
}
_OPERANDS = {"a": "a", "b": "b", "c": "c", "e": "c"}
"""The key of `[operation]` by the letter in a parameter's name."""

_SAYS = {
    spelling.format(letter): (key, what)
    for what, spellings in _SPELLINGS.items()
    for spelling in spellings
    for letter, key in _OPERANDS.items()
}
"""Operand and role of a parameter, by its name without case and underscores."""

_CONVOLUTION_LAYOUT = re.compile(r"[NGCKDHWXYZ]{3,6}")


def operand_mismatches(unit: Unit, mentioned: Collection[str]) -> dict[str, Diagnostic]:
    """An error for each parameter that says something else of a tensor than the operation does, by parameter.

    `mentioned` are those that a template reads; what they say in words that are not CK's is not known.
    """
    operation = unit.kernel.operation
    if operation.contraction is None:
        return {}
    tensors = {tensor.name: tensor for tensor in operation.tensors}
    found: dict[str, Diagnostic] = {}
    for name, value in unit.instance.parameters.items():
        if name not in mentioned:
            continue
        expected: ParameterValue | None
        given: ParameterValue | None
        key, what = _SAYS.get(folded(name), ("", ""))
        if key:
            roles = {"a": operation.contraction.x, "b": operation.contraction.w, "c": operation.contraction.y}
            tensor, given = tensors[roles[key].tensor], _given(value, what)
            of_layout = what == "layout"
            expected = LAYOUTS.get(tensor.layout, tensor.layout) if of_layout else DTYPES[tensor.dtype].ck_name
            words = f"{tensor.name} of the operation is {expected}"
        elif folded(name) == "ndimspatial":
            key, what = "dimensions", "dimension"
            expected, given = operation.settings.get("dimensions"), value
            words = f"the operation has {expected} dimensions"
        else:
            continue
        if given is not None and expected is not None and given != expected:
            found[name] = _mismatch(unit, name, what, f"`{name}` is {value}, and {words}", key)
    return found


def _given(value: ParameterValue, what: str) -> str | None:
    """The element type or layout in CK's word; None for what it is not known to be."""
    word = value.rpartition("::")[2] if isinstance(value, str) else ""
    if what == "dtype":
        return ELEMENT_TYPES.get(word)
    return word if _CONVOLUTION_LAYOUT.fullmatch(word) else MATRIX_LAYOUTS.get(word)


def kernel_file_error(
    unit: Unit, code: str, message: str, span: Span, related: tuple[Related, ...] = (), fixes: tuple[Fix, ...] = ()
) -> Diagnostic:
    """An error of one unit's kernel file."""
    code = f"kernel-file/{code}"
    return Diagnostic(Severity.ERROR, Source.KERNEL_FILE, code, message, span, related, fixes=fixes, units=(unit.id,))


def _mismatch(unit: Unit, name: str, what: str, message: str, key: str) -> Diagnostic:
    spans = unit.kernel.operation_spans
    place = next((spans[one] for one in (f"{key}.{what}", key) if one in spans), None)
    related = (Related("the operation says so here", place),) if place is not None else ()
    message = f"{message}: the kernel would take memory for what it is not"
    span = unit.instance.spans.get(name, unit.instance.span)
    return kernel_file_error(unit, f"{what}-mismatch", message, span, related)
