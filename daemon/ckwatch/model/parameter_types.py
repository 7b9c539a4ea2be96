"""Which values a template parameter may have, as a template declares it: `NAME (TYPE): text` in a comment.

TYPE is `integer`, `integer from 1`, `integer from 1 to 1024`, `true or false`, `string`, `one of v1, v2`,
`array of integers`, or `array of 3 integers from 1`, where `, or an integer` may follow. What has a lower bound and no
upper one is a 32-bit integer. A line `Parameters (DeviceOperation): text` declares all template parameters of one of
Composable Kernel's device operations. Anything else in the brackets is prose.
"""

from __future__ import annotations

import re
from enum import StrEnum

from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass

INT32_MAX = 2**31 - 1


class ValueKind(StrEnum):
    """How a kernel file writes the values of a type."""

    INTEGER = "integer"
    FLAG = "true or false"
    STRING = "string"
    CHOICE = "one of"
    ARRAY = "array of integers"


@dataclass(frozen=True, slots=True)
class ParameterType:
    """`values` are those of a choice; an integer, or each element of an array, lies from `lowest` to `highest`.

    `length` is the number of elements of an array, None for any number but 0. `or_integer`: an array of one may be
    written as an integer.
    """

    kind: ValueKind
    values: tuple[ParameterValue, ...] = ()
    lowest: int | None = None
    highest: int | None = None
    length: int | None = None
    or_integer: bool = False


@dataclass(frozen=True, slots=True)
class ParameterDeclaration:
    """The declaration of the parameter `name` in the template at `path`; or, of `operation`, that it takes all
    parameters."""

    path: str
    name: str
    type: ParameterType | None
    doc: str = ""
    operation: str = ""


_COMMENT = re.compile(r"\{#-?(.*?)-?#\}", re.DOTALL)
_DECLARED = re.compile(r"^[ \t]*([A-Za-z_]\w*)[ \t]*\(([^()\n]*)\):(?:[ \t]+(\S.*?))?[ \t]*$", re.MULTILINE)
_NUMBERS = re.compile(
    r"(?:(integer)|array of (?:(\d{1,3}) )?integers?)(?: from (-?\d{1,18})(?: to (-?\d{1,18}))?)?(, or an integer)?"
)
_CHOICE = re.compile(r"one of (.+)")
OPERATION_NAME = r"(?:Device|CkTile)\w+"
"""Names of CK's device operations, and of what the templates of CK Tile assemble."""


def declarations(path: str, text: str) -> tuple[ParameterDeclaration, ...]:
    """The declarations in the comments of a template's text, in order."""
    found = []
    for comment in _COMMENT.findall(text):
        for name, given, doc in _DECLARED.findall(comment):
            if name == "Parameters" and re.fullmatch(OPERATION_NAME, given.strip()):
                found.append(ParameterDeclaration(path, name, None, doc, given.strip()))
            elif (declared := parameter_type(given.strip())) is not None:
                found.append(ParameterDeclaration(path, name, declared, doc))
    return tuple(found)


def parameter_type(text: str) -> ParameterType | None:
    """The type that a declaration names; None for prose."""
    if text == ValueKind.FLAG:
        return ParameterType(ValueKind.FLAG)
    if text == ValueKind.STRING:
        return ParameterType(ValueKind.STRING)
    if choice := _CHOICE.fullmatch(text):
        values = tuple(one.strip() for one in choice[1].split(","))
        return ParameterType(ValueKind.CHOICE, tuple(int(one) if one.isdecimal() else one for one in values))
    numbers = _NUMBERS.fullmatch(text)
    if numbers is None:
        return None
    integer, length, lowest, highest, or_integer = numbers.groups()
    return ParameterType(
        ValueKind.INTEGER if integer else ValueKind.ARRAY,
        lowest=None if lowest is None else int(lowest),
        highest=int(highest) if highest is not None else None if lowest is None else INT32_MAX,
        length=None if length is None else int(length),
        or_integer=or_integer is not None,
    )
