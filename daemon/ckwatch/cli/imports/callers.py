"""Types and constants that a function which launches a kernel gets from its callers in the file, or from a dispatch.

A launch in a function template, or in a lambda of PyTorch's `AT_DISPATCH_…`, names types that code around it chooses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ckwatch.cli.imports.source_text import elements
from ckwatch.headers.masked_text import closing, split_list
from ckwatch.model.lazy_dataclass import dataclass

CALLERS = 8
_DEPTH = 3
_DISPATCH = re.compile(r"\b(\w*DISPATCH\w*)\s*\(")
_NUMBER = re.compile(r"\d+|true|false|[A-Z][A-Z0-9_]*")
_CAST = re.compile(
    r"\(\s*(?:const\s+)?([\w:]+)(?:\s+const)?\s*\*[^()]*\)"
    r"|\b(?:reinterpret|static)_cast\s*<\s*(?:const\s+)?([\w:]+)\s*\*[^<>]*>"
    r"|\bdata_ptr\s*<\s*(?:const\s+)?([\w:]+)\s*>"
)


@dataclass(frozen=True, slots=True)
class _Function:
    """The head of the function at the beginning of a region. Template parameters have their kinds."""

    name: str
    templates: dict[str, str]
    parameters: tuple[str, ...]


def dispatched_type(region: str, name: str, code: str) -> tuple[str, str] | None:
    """The type to begin with for a name that a dispatch around the end of a region defines, and that dispatch."""
    if re.search(rf"\busing\s+{re.escape(name)}\s*=", region) or not re.fullmatch(r"scalar_t|\w*_t|T", name):
        return None
    for found in reversed(list(_DISPATCH.finditer(region))):
        if closing(region, found.end() - 1) >= 0:
            continue
        words = found[1].upper()
        if name == "scalar_t" and re.search(r"FLOAT|HALF|REDUCED|ALL_TYPES|16", words):
            return ("c10::Half" if re.search(r"\b(?:c10|at|torch)::", code) else "__half"), found[1]
        if name == "scalar_t" and "INTEGRAL" in words:
            return "int", found[1]
    return None


def pointee(text: str, region: str) -> str | None:
    """The type of the elements of a pointer that is given to a kernel: of a cast, else of the variable."""
    cast = _CAST.search(text)
    if cast is not None:
        return next(one for one in cast.groups() if one)
    if not re.fullmatch(r"[A-Za-z_]\w*", text):
        return None
    declared = re.findall(
        rf"(?:^|[(,;{{}}])\s*(?:const\s+)?([A-Za-z_][\w:]*)(?:\s+const)?\s*\*\s*(?:const\s+|\w*restrict\w*\s+)*{text}\b",
        region,
        re.IGNORECASE,
    )
    return declared[-1] if declared else None


def bindings(region: str, start: int, code: str, depth: int = 0) -> list[dict[str, str]]:
    """Meanings of template parameters, and numbers for parameters, of the function that the region from `start` begins
    with: one for each different call in the masked text `code`."""
    function = _function(region)
    if function is None or depth >= _DEPTH:
        return []
    found: list[dict[str, str]] = []
    for at, templates, arguments in _calls(function.name, code):
        if start <= at < start + len(region):
            continue
        begin = function_start(code, at)
        around = code[begin:at]
        for outer in bindings(around, begin, code, depth + 1) or [{}]:
            bound = _bound(function, templates, arguments, around, outer)
            if bound and bound not in found:
                found.append(bound)
    return found[:CALLERS]


def _bound(
    function: _Function, templates: list[str], arguments: list[str], around: str, outer: Mapping[str, str]
) -> dict[str, str]:
    def substituted(text: str) -> str:
        return re.sub(r"\b[A-Za-z_]\w*", lambda one: outer.get(one[0], one[0]), text)

    packed = any("..." in kind for kind in function.templates.values())
    explicit = [] if packed else templates
    bound = {name: substituted(text) for name, text in zip(function.templates, explicit, strict=False)}
    for declared, given in zip(function.parameters, arguments, strict=False):
        pointer = re.match(r"(?:const\s+)?(\w+)(?:\s+const)?\s*\*", declared)
        kind = pointee(given, around) if pointer else None
        if pointer is not None and kind is not None and pointer[1] in function.templates:
            bound.setdefault(pointer[1], substituted(kind))
        named = re.search(r"(\w+)\s*$", declared)
        if pointer is None and named is not None and _NUMBER.fullmatch(substituted(given)):
            bound.setdefault(named[1], substituted(given))
    open_ones = _template_names(around) - set(outer)
    return {name: text for name, text in bound.items() if not open_ones & set(re.findall(r"\w+", text))}


def _template_names(region: str) -> set[str]:
    function = _function(region)
    return set(function.templates) if function is not None else set()


def _function(region: str) -> _Function | None:
    head = region[: region.find("{")]
    template = re.match(r"\s*template\s*<", head)
    templates: dict[str, str] = {}
    if template is not None:
        end = closing(head, template.end() - 1)
        for one in elements(head[template.end() : end]):
            named = re.search(r"(\w+)\s*(?:=.*)?$", one)
            if named is not None:
                templates[named[1]] = one[: named.start(1)].strip()
        head = head[end + 1 :]
    for found in re.finditer(r"(\w+)\s*\(", head):
        last = closing(head, found.end() - 1)
        if last > 0 and not found[1].startswith("__") and not head[last + 1 :].strip():
            inside = head[found.end() : last]
            parameters = tuple(" ".join(inside[first:end].split("=")[0].split()) for first, end in split_list(inside))
            return _Function(found[1], templates, parameters)
    return None


def _calls(name: str, code: str) -> Iterator[tuple[int, list[str], list[str]]]:
    for found in re.finditer(rf"(?<![\w.]){re.escape(name)}\s*(?=[<(])", code):
        at, templates = found.end(), list[str]()
        if code[at] == "<":
            end = closing(code, at)
            if end < 0:
                continue
            templates, at = elements(code[at + 1 : end]), end + 1
        opening = re.compile(r"\s*\(").match(code, at)
        last = closing(code, opening.end() - 1) if opening else -1
        if opening is not None and last > 0 and re.match(r"\s*[;),]", code[last + 1 :]):
            yield found.start(), templates, elements(code[opening.end() : last])


def function_start(code: str, at: int) -> int:
    """The beginning of the function around an offset."""
    opened: list[int] = []
    for found in re.finditer(r"[{}]", code[:at]):
        if found[0] == "{":
            head = code[max(code.rfind(one, 0, found.start()) for one in ";{}") + 1 : found.start()]
            opened.append(-1 if re.search(r"\bnamespace\b|\bextern\s*$", head) else found.start())
        elif opened:
            opened.pop()
    first = next((one for one in opened if one >= 0), at)
    return max(code.rfind(one, 0, first) for one in ";{}") + 1
