"""Rendered template arguments that cannot be of their parameter's type, whatever they stand for.

What C++ converts (`true` for 1), and names that the source may define, are no concern of this module.
"""

from __future__ import annotations

import re

from ckwatch.checks.rules.instances import blank_text
from ckwatch.checks.rules.rule import ParameterKind, TemplateParameter
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind

CK_TYPES = ("F16", "BF16", "F32", "F64", "F8", "BF8", "I8", "I32")
CK_LAYOUTS = ("Row", "Col")

_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?[fFlL]?")
_WORD = re.compile(r"[A-Za-z_]\w*")
_BUILT_IN = frozenset(
    (
        *("bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "half", "void", "auto"),
        *("_Float16", "_BitInt", "__half", "__fp16", "__bf16", "hip_bfloat16", "__hip_bfloat16", "size_t"),
        *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)
_OWN_HEADER = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"](?!ck/|ck_tile/|hip/|std|c[a-z]+>|[a-z_]+>)", re.MULTILINE)
_FOREIGN_NAMES = re.compile(r"\busing\s+namespace\s+([\w:]+)")


class SourceNames:
    """The names that the C++ around an instance defines, or may define."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._blank = ""

    def may_define(self, name: str) -> bool:
        """Return True if `name` may be a type here: one of C++, one that stands elsewhere in the source, or in a
        header."""
        if name in _BUILT_IN:
            return True
        if not self._blank:
            self._blank = blank_text(self._source)
        if _OWN_HEADER.search(self._source) or any(
            not re.search(rf"\bnamespace\s+{re.escape(used.rpartition('::')[2])}\b\s*[{{=]", self._blank)
            for used in _FOREIGN_NAMES.findall(self._blank)
        ):
            return True
        word = re.escape(name)
        return (
            re.search(
                rf"\b(?:using|typename|class|struct|enum)\s+{word}\b|\btypedef\b[^;]*\b{word}\s*;"
                rf"|#\s*define\s+{word}\b",
                self._blank,
            )
            is not None
        )


def violated_type(parameter: TemplateParameter, argument: ParameterValue, names: SourceNames) -> ParameterType | None:
    """The type that `argument` is certainly not of; None where it may be."""
    text = argument if isinstance(argument, str) else ""
    is_array, is_number = isinstance(argument, tuple), _FLOAT.fullmatch(text) is not None
    match parameter.kind:
        case ParameterKind.INTEGER:
            too_large = isinstance(argument, int) and not -INT32_MAX <= argument <= INT32_MAX
            wrong = is_array or is_number or too_large
        case ParameterKind.FLAG:
            wrong = is_array or is_number or (isinstance(argument, int) and argument not in (0, 1))
        case ParameterKind.SEQUENCE:
            wrong = is_number or isinstance(argument, int)
        case ParameterKind.ENUMERATOR:
            scope, _, value = text.rpartition("::")
            scoped = scope.rpartition("::")[2] == parameter.enumeration
            wrong = is_array or (scoped and parameter.type is not None and value not in parameter.type.values)
        case ParameterKind.DTYPE | ParameterKind.LAYOUT:
            known = CK_TYPES if parameter.kind is ParameterKind.DTYPE else CK_LAYOUTS
            named = _WORD.fullmatch(text) is not None and text not in known and not names.may_define(text)
            if named or is_array or is_number or isinstance(argument, int):
                return ParameterType(ValueKind.CHOICE, known)
            return None
        case _:
            return None
    return parameter.type if wrong else None
