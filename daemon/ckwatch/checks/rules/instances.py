"""Finds instances in rendered C++: `DeviceGemmMultiD_Xdl_CShuffle_V3< /* ALayout */ Row, /* MPerBlock */ 128, … >`.

The template arguments are distinguished by the `/* name */` comment before each, in CK's spelling or in PyTorch
Inductor's (`/* m_per_block */`), and where there is none by their position. Texts are kept with their offsets: an
argument leads back to its place in the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from ckwatch.checks.rules import ck_tile_gemm
from ckwatch.checks.rules.checker import OPERATIONS, is_readable
from ckwatch.checks.rules.rule import DeviceOperation, ParameterKind, TemplateParameter
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_types import OPERATION_NAME

_HEAD = re.compile(rf"\b({OPERATION_NAME})\s*<")
_CK_OPERATION = re.compile(r"\bck\s*::\s*tensor_operation\s*::\s*device\s*::\s*(Device\w+)\s*<")
_COMMENT_FOLLOWS = re.compile(r"\s*/\*")
_DECLARED = re.compile(r"\b(?:struct|class)\s*$")
_NAME = re.compile(r"/\*\s*(\w+)\s*\*/")
_SKIPPED = re.compile(
    r"""/\*.*?(?:\*/|\Z)          # comments, strings and characters hold no brackets that count
      | //[^\n]*
      | "(?:\\.|[^"\\\n])*"?
      | '(?:\\.|[^'\\\n])*'
    """,
    re.DOTALL | re.VERBOSE,
)
_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)[uUlL]*")
_SEQUENCE = re.compile(r"(?:\w+\s*::\s*)*(?:S|Sequence)\s*<([^<>]*)>(?:\s*\{\s*\})?")
_NUMBER = re.compile(r"(?:\w+\s*::\s*)*Number\s*<([^<>]*)>(?:\s*\{\s*\})?")
_WORD = re.compile(r"[A-Za-z_]\w*")

CONSTANTS_FOLLOWED = 4
"""Names for names for a value."""


@dataclass(frozen=True, slots=True)
class RenderedInstance:
    """One instance in a rendered text, its arguments by CK's names where the device operation has rules.

    `offsets` gives each argument's half-open range, without its comment; of one that is the name of a constant it is
    the constant's value. `written` gives the names of the comments that spell a parameter otherwise.
    """

    device_operation: str
    arguments: Mapping[str, ParameterValue]
    offsets: Mapping[str, tuple[int, int]]
    start: int
    end: int
    written: Mapping[str, str] = field(default_factory=dict)

    def argument_of(self, parameter: str) -> str:
        """The name of the argument that an instance's parameter of this name spells; the name itself for none."""
        if parameter in self.arguments:
            return parameter
        operation = OPERATIONS.get(self.device_operation)
        return (operation.canonical(parameter) if operation is not None else None) or parameter


def rendered_instances(rendered_text: str) -> list[RenderedInstance]:
    """The instances in `rendered_text`, in order; last that of CK Tile which is made of constants.

    What cannot be read is left out; of a device operation without rules, those whose arguments carry names are in.
    """
    blank = blank_text(rendered_text)
    found = []
    for head in _HEAD.finditer(rendered_text):
        if blank[head.start(1) : head.end(1)] != head.group(1) or _DECLARED.search(blank, 0, head.start(1)):
            continue
        named = _COMMENT_FOLLOWS.match(rendered_text, head.end()) is not None
        if not named and head.group(1) not in OPERATIONS:
            continue
        pieces = _arguments(blank, head.end())
        if pieces is not None:
            found.append(_instance(rendered_text, blank, head, pieces))
    if all(one.device_operation != ck_tile_gemm.NAME for one in found) and (constants := _constant_arguments(blank)):
        (start, end), texts, offsets = constants
        arguments = {name: argument_value(text) for name, text in texts.items()}
        found.append(RenderedInstance(ck_tile_gemm.NAME, arguments, offsets, start, end))
    return found


def unchecked_operations(rendered_text: str) -> list[str]:
    """List what the rules leave to the compiler, in words: device operations without rules, and arguments not
    understood."""
    if "Device" not in rendered_text and "CkTile" not in rendered_text:
        return []
    blank = blank_text(rendered_text)
    names = dict.fromkeys(found.group(1) for found in _CK_OPERATION.finditer(blank))
    left = [f"there are no instance rules for {name}" for name in names if name not in OPERATIONS]
    read = rendered_instances(rendered_text)
    left += [
        f"the template arguments of {name} could not be read"
        for name in names
        if name in OPERATIONS and not any(one.device_operation == name for one in read)
    ]
    for one in read:
        operation = OPERATIONS.get(one.device_operation)
        unread = [
            name
            for name, argument in one.arguments.items()
            if operation is not None
            and (parameter := operation.parameters.get(name)) is not None
            and parameter.kind not in (ParameterKind.TYPES, ParameterKind.OTHER)
            and not is_readable(parameter, argument)
        ]
        if unread:
            left.append(f"{', '.join(unread)} of {one.device_operation} could not be read as values")
    return list(dict.fromkeys(left))


def blank_text(text: str) -> str:
    """`text` with spaces for comments and strings."""
    return _SKIPPED.sub(lambda match: " " * len(match.group()), text)


def _instance(text: str, blank: str, head: re.Match[str], pieces: list[tuple[int, int]]) -> RenderedInstance:
    operation = OPERATIONS.get(head.group(1))
    comments = [_NAME.search(text, start, end) for start, end in pieces]
    given = [None if comment is None else comment.group(1) for comment in comments]
    names = given if operation is None else _names(operation, given)
    arguments: dict[str, ParameterValue] = {}
    offsets: dict[str, tuple[int, int]] = {}
    written: dict[str, str] = {}
    for index, (start, end) in enumerate(pieces):
        span = _stripped(blank, start, end)
        if span is None:
            continue
        name, spelled = names[index], given[index]
        if name is None:
            continue
        if spelled is not None and spelled != name:
            written[name] = spelled
        value = argument_value(text[slice(*span)])
        parameter = None if operation is None else operation.parameters.get(name)
        if parameter is not None and isinstance(value, str) and not is_readable(parameter, value):
            value, span = _constant(blank, text, value, span)
        arguments[name] = value
        offsets[name] = span
    return RenderedInstance(head.group(1), arguments, offsets, head.start(1), pieces[-1][1] + 1, written)


def _names(operation: DeviceOperation, given: Sequence[str | None]) -> list[str | None]:
    """The parameters of the arguments: by their comments and, where all of them are there in order, by position."""
    found = [None if name is None else operation.canonical(name) for name in given]
    order = list(operation.parameters)
    needed = sum(not one.default for one in operation.parameters.values())
    if needed <= len(found) <= len(order) and all(
        name in (None, expected) for name, expected in zip(found, order, strict=False)
    ):
        return list(order[: len(found)])
    return [name or spelled for name, spelled in zip(found, given, strict=True)]


def _constant(blank: str, text: str, name: str, span: tuple[int, int]) -> tuple[ParameterValue, tuple[int, int]]:
    """The value and place of a constant or alias that is defined once in the text; else the name's own."""
    value: ParameterValue = name
    place = span
    for _ in range(CONSTANTS_FOLLOWED):
        if not isinstance(value, str) or not _WORD.fullmatch(value):
            break
        word = re.escape(value)
        definition = rf"(?:\busing\s+|\bconst(?:expr)?\b[^;={{}}()<>]*?\b){word}\s*=\s*([^;{{}}=]+?)\s*;"
        defined = list(re.finditer(definition, blank))
        # a name that is also a template's parameter, a member or a variable may mean something else here
        uses = rf"\b(?:typename|class|int|bool|auto|index_t|size_t)\s+{word}\s*[,>]|\b{word}\s*=(?!=)"
        others = re.findall(uses, blank)
        if len(defined) != 1 or len(others) != 1:
            break
        place = defined[0].span(1)
        value = argument_value(text[slice(*place)])
    return value, place


def argument_value(text: str) -> ParameterValue:
    """The value of a template argument's C++ text: integer, boolean, the tuple of `S<…>`, else the text itself."""
    text = text.strip()
    if text in {"true", "false"}:
        return text == "true"
    number = _integer(text)
    if number is not None:
        return number
    if match := _NUMBER.fullmatch(text):
        number = _integer(match.group(1))
        return text if number is None else number
    if match := _SEQUENCE.fullmatch(text):
        body = match.group(1).strip()
        elements = [_integer(element) for element in body.split(",")] if body else []
        known = tuple(element for element in elements if element is not None)
        return known if len(known) == len(elements) else text
    return " ".join(text.split())


def _arguments(blank: str, start: int) -> list[tuple[int, int]] | None:
    """Ranges of the arguments that begin at `start`, just inside `<`; None when the bracket is never closed.

    A `>` inside parentheses is a comparison, as it is for the compiler.
    """
    pieces = []
    closers: list[str] = []
    begin = start
    for at in range(start, len(blank)):
        character = blank[at]
        if character in "<([{":
            if character != "<" or not closers or closers[-1] == ">":
                closers.append({"<": ">", "(": ")", "[": "]", "{": "}"}[character])
        elif character == ">" and not closers:
            pieces.append((begin, at))
            return pieces
        elif closers and character == closers[-1]:
            closers.pop()
        elif character == "," and not closers:
            pieces.append((begin, at))
            begin = at + 1
        elif character == ";" and not closers:
            return None
    return None


def _integer(text: str) -> int | None:
    text = text.strip()
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.rstrip("uUlL")
    try:
        return int(digits, 0)
    except ValueError:  # a leading zero: octal in C++
        return int(digits, 8) if re.fullmatch(r"[-+]?[0-7]+", digits) else None


def _stripped(blank: str, start: int, end: int) -> tuple[int, int] | None:
    text = blank[start:end]
    if not text.strip():
        return None
    return start + len(text) - len(text.lstrip()), start + len(text.rstrip())


_TILE_SHAPE = re.compile(r"\bTileGemmShape\s*<")
_WORDS = {
    "Pipeline": (re.compile(r"\bGemmPipelineAgBgCr(\w+)\s*<"), {}),
    "Scheduler": (re.compile(r"\bGemmPipelineScheduler\s*::\s*(\w+)"), {}),
    "Epilogue": (re.compile(r"\b(DefaultGemm2D|CShuffle)Epilogue\s*<"), {"DefaultGemm2D": "Default"}),
}
"""Words that name an enumerator of `CkTileGemm` in CK Tile, and the names that differ."""


def _constant_arguments(blank: str) -> tuple[tuple[int, int], dict[str, str], dict[str, tuple[int, int]]] | None:
    """Return the place where a source without comments and strings makes a shape of tiles, and its arguments' texts and
    places by name: those of a CK Tile GEMM whose parameters are constants and aliases of the source, as Inductor writes
    them.

        constexpr int32_t TileM = 256; … using GemmShape = ck_tile::TileGemmShape<ck_tile::sequence<TileM, …>, …>;

    They have the names of `CkTileGemm`'s parameters. What is not there once, as a literal or a name, is left out."""
    shape = _TILE_SHAPE.search(blank)
    if shape is None:
        return None
    texts: dict[str, str] = {}
    places: dict[str, tuple[int, int]] = {}
    for name, parameter in ck_tile_gemm.OPERATION.parameters.items():
        found = list(_definitions(blank, parameter))
        values = {blank[start:end] for start, end in found}
        if len(values) == 1:
            text = values.pop()
            scope = f"{parameter.enumeration}::" if parameter.enumeration else ""
            texts[name] = scope + (_WORDS[name][1].get(text, text) if scope else text)
            places[name] = found[0]
    return shape.span(), texts, places


def _definitions(blank: str, parameter: TemplateParameter) -> Iterator[tuple[int, int]]:
    if parameter.name in _WORDS:
        pattern = _WORDS[parameter.name][0]
    elif parameter.kind in (ParameterKind.INTEGER, ParameterKind.FLAG):
        pattern = re.compile(rf"\bconstexpr\s+[\w:]+\s+{parameter.name}\s*=\s*(\d+|true|false)\s*;")
    else:
        pattern = re.compile(rf"\busing\s+{parameter.name}\s*=\s*([\w:]+)\s*;")
    return (found.span(1) for found in pattern.finditer(blank))
