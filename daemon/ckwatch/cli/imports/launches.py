"""Grid, block and template arguments of a kernel from a launch in its file, in terms of the kernel's own arguments.

Names of the function that launches are followed to their declarations: what is passed to the kernel has the kernel's
name, a variable with one value is that value, and a whole number that comes from elsewhere is a size of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from math import lcm

from ckwatch.cli.imports.callers import bindings, dispatched_type, function_start, pointee
from ckwatch.cli.imports.hip_kernels import HipKernel, KernelParameter, Launch
from ckwatch.cli.imports.hip_types import element_type, is_size, runtime_type
from ckwatch.cli.imports.host_code import CAST, HostCode
from ckwatch.cli.imports.program_facts import ProgramFacts, program_facts
from ckwatch.cli.imports.source_text import elements, one_line
from ckwatch.headers.masked_text import closing
from ckwatch.model.lazy_dataclass import dataclass

LAUNCHES = 64
"""Launches of a kernel that are read. More are further types and tiles of the same, and each takes a tenth of a second
in a large file."""

_DEPTH = 8
_MACRO = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)(?:\(([^)]*)\))?")
_NAME = re.compile(r"(?<![\w.])(?<!->)(?<!::)[A-Za-z_]\w*(?!\w)(?!\s*(?:::|\())")
_MEMBER = re.compile(r"(?<=[\w)\]])\s*(?:\.(?!\d)|->)")
_KEPT = frozenset(
    ("true", "false", "sizeof", "int", "unsigned", "float", "double", "long", "size_t", "bool", "dim3", "nullptr")
)
_CALL = re.compile(r"\b(?!sizeof\b|dim3\b)[A-Za-z_]\w*\s*\(")


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A launch as the kernel's file says it. `sizes` are names of its own, which no argument of the kernel has.

    None stands for what cannot be known; `why` says it, by `Grid`, `Block`, `SharedBytes` or a template parameter.
    `arguments` are those that are no tensors, sizes or numbers at run time; `choices` say of a template parameter that
    its value is one of several. `multiples` are numbers that must divide sizes, by the code around the launch, and
    `checks` those of its conditions whose number is not known.
    """

    line: int
    grid: str | None
    block: str | None
    shared: str | None
    templates: Mapping[str, str]
    sizes: tuple[str, ...]
    why: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    facts: ProgramFacts = field(default_factory=ProgramFacts)

    @property
    def is_complete(self) -> bool:
        """Return True if nothing is left open."""
        return not self.why


class _UnknownError(ValueError):
    """Why an expression cannot be said in the kernel's terms."""


def kernel_launches(text: str, code: str, kernel: HipKernel) -> list[KernelLaunch]:
    """The launches of a kernel in its own terms, complete ones first; one that callers make differently is several."""
    found: list[KernelLaunch] = []
    for launch in kernel.launches[:LAUNCHES]:
        source = launch.code or text
        region = _region(source, launch.code or code, launch.start)
        start = function_start(launch.code or code, launch.start)
        host = HostCode(text, launch.code or code, region, launch.start)
        facts = program_facts(host, kernel, launch)
        for bound in bindings(region, start, code) or [{}]:
            one = _launch_in_terms(host, facts, code, kernel, launch, bound)
            if one not in found:
                found.append(one)
    return sorted(found, key=lambda one: len(one.why))


def _launch_in_terms(
    host: HostCode, facts: ProgramFacts, code: str, kernel: HipKernel, launch: Launch, bound: Mapping[str, str]
) -> KernelLaunch:
    """Say a launch in the kernel's own terms. `bound` are meanings of names that the function which launches gets from
    a caller."""
    scope = _Scope(host, kernel, launch, bound, code, facts)
    why: dict[str, str] = {}

    def in_terms(key: str, expression: str) -> str | None:
        try:
            return scope.expression(expression, triple=key != "SharedBytes", sizes=key == "Grid")
        except _UnknownError as error:
            why[key] = f"line {launch.line} launches with {expression}, and {error}"
            return None

    grid = in_terms("Grid", launch.grid)
    block = in_terms("Block", launch.block)
    shared = in_terms("SharedBytes", launch.shared)
    templates: dict[str, str] = {}
    for name, given in scope.template_arguments().items():
        try:
            templates[name] = scope.constant(given)
        except _UnknownError:
            why[name] = f"line {launch.line} launches with {given}"
    arguments: dict[str, str] = {}
    for parameter, given in zip(kernel.parameters, launch.arguments, strict=False):
        try:
            if (value := scope.argument(parameter, given)) is not None:
                arguments[parameter.name] = value
        except _UnknownError:
            continue
    chosen = {name: f"line {launch.line} is in {macro}, which has more types" for name, macro in scope.choices.items()}
    multiples, checks = scope.multiples()
    return KernelLaunch(
        launch.line,
        grid,
        block,
        shared,
        templates,
        tuple(scope.sizes),
        why,
        arguments,
        chosen,
        multiples,
        checks,
        facts,
    )


def _region(text: str, code: str, start: int) -> str:
    """The text from the beginning of the function, or macro, that launches, to the launch."""
    line = text.rfind("\n", 0, start)
    if text[:line].rstrip("\r").endswith("\\") or re.match(r"[^\n]*\\\r?\n", text[start:]):
        while line > 0 and text[:line].rstrip("\r").endswith("\\"):
            line = text.rfind("\n", 0, line)
        macro = _MACRO.match(code, line + 1)
        used = re.compile(rf"(?<!define )\b{macro[1]}\s*\(").search(code, start) if macro else None
        before = _region(text, code, used.start()) if used else ""
        return f"{before}\n{code[line + 1 : start]}"
    return code[function_start(code, start) : start]


class _Scope:
    """The names at a launch."""

    def __init__(
        self,
        host: HostCode,
        kernel: HipKernel,
        launch: Launch,
        bound: Mapping[str, str],
        code: str,
        facts: ProgramFacts,
    ) -> None:
        self._host = host
        self._region = host.region
        self._visible = _without_closed_blocks(host.region)
        self._bound = dict(bound)
        self._known = {word for value in bound.values() for word in re.findall(r"\w+", value)}
        self._code = code
        self._kernel = kernel
        self._launch = launch
        self.sizes: dict[str, None] = dict(facts.sizes)
        self.choices: dict[str, str] = {}
        self._takes_sizes = False
        self._typed = False
        self._passed: dict[str, str] = {}
        for parameter, given in zip(kernel.parameters, launch.arguments, strict=False):
            plain = CAST.sub("", given).strip(" ()")
            if _is_argument(parameter) and not parameter.pointers and re.fullmatch(r"[A-Za-z_]\w*", plain):
                self._passed.setdefault(plain, parameter.name)
        for one, given in zip(kernel.templates, launch.templates or (), strict=False):
            if re.fullmatch(r"[A-Za-z_]\w*", given):
                self._passed.setdefault(given, one.name)
        self._given = {
            word
            for words in re.findall(
                r"#[ \t]*define[ \t]+\w+\(([^)]*)\)|\btemplate\s*<([^;{]*?)>\s*(?:static|void|inline|auto)", host.region
            )
            for word in re.findall(r"\w+", " ".join(words))
        }
        self._taken = {one.name for one in kernel.parameters if _is_argument(one)} | {
            one.name for one in kernel.templates
        }

    def template_arguments(self) -> dict[str, str]:
        """Template arguments that the launch gives, or that follow from the pointers that it passes."""
        kernel, launch = self._kernel, self._launch
        given = dict(zip((one.name for one in kernel.templates), launch.templates or (), strict=False))
        for one in kernel.templates:
            if one.name in given or not one.is_type:
                continue
            for parameter, passed in zip(kernel.parameters, launch.arguments, strict=False):
                kind = pointee(passed, self._visible) if parameter.type == one.name and parameter.pointers else None
                if kind is not None:
                    given.setdefault(one.name, kind)
        return {name: self._type(name, text) for name, text in given.items()}

    def _type(self, parameter: str, text: str) -> str:
        """The text with types in place of the names that callers and dispatches give a meaning."""

        def meaning(found: re.Match[str]) -> str:
            name = found[0]
            if name in self._bound:
                return self._bound[name]
            chosen = dispatched_type(self._region, name, self._code)
            if chosen is None:
                return name
            if text == name:
                self.choices[parameter] = chosen[1]
            return chosen[0]

        return re.sub(r"(?<![:\w])[A-Za-z_]\w*", meaning, text)

    def argument(self, parameter: KernelParameter, given: str) -> str | None:
        """C++ for an argument that the kernel file says; None for a tensor, size or number at run time. Raises
        _UnknownError."""
        if parameter.pointers:
            return "nullptr" if given in ("nullptr", "NULL") else None
        if _is_argument(parameter):
            return given if is_size(parameter.type) and re.fullmatch(r"-?\d+", given) else None
        self._takes_sizes = True
        text = one_line(given)
        if re.fullmatch(r"[A-Za-z_]\w*", text):
            declared = re.findall(rf"\b[\w:]+\s+(?:const\s+)?{text}\s*=(?!=)\s*([^;]+);", self._visible)
            if len(declared) != 1:
                raise _UnknownError(f"`{text}` has no value that is written out")
            text = one_line(declared[0])
        if text.startswith("{"):
            text = parameter.type + text
        return self._in_terms(text, 0)

    def expression(self, text: str, *, triple: bool, sizes: bool) -> str:
        """The text in the kernel's terms; with `triple` as the arguments of a `dim3`, with `sizes` also in terms of
        whole numbers that the kernel does not get. Raises _UnknownError."""
        self._takes_sizes = sizes
        text = one_line(text)
        if triple:
            text = self._triple(text)
        self._typed = False
        parts = [_unwrapped(self._in_terms(one, 0)) for one in elements(text)]
        if any(_CALL.search(one) for one in parts):  # a template or an overload may want the host's own types
            self._typed = True
            parts = [_unwrapped(self._in_terms(one, 0)) for one in elements(text)]
            self._typed = False
        return ", ".join(parts)

    def multiples(self) -> tuple[dict[str, int], tuple[str, ...]]:
        """Numbers that divide sizes by a check such as `n % 8 == 0`, and checks whose number is not known."""
        found: dict[str, int] = {}
        unknown: list[str] = []
        for one in re.finditer(r"(?<![\w.>)*/+-])\s*(\w+)\s*%\s*(\w+)\s*==\s*0\b", self._region):
            name = self._passed.get(one[1], one[1])
            if name not in self.sizes and one[1] not in self._passed:
                continue
            try:
                number = self.constant(one[2])
            except _UnknownError:
                number = one[2]
            if number.isdigit() and int(number):
                found[name] = lcm(found.get(name, 1), int(number))
            elif number != "0":
                unknown.append(f"the file checks `{one_line(one[0])}`")
        return found, tuple(dict.fromkeys(unknown))

    def constant(self, text: str) -> str:
        """A template argument that is written out. Raises _UnknownError."""
        if re.search(r"\w+_t\b", re.sub(r"\bu?int\d+_t\b|\bsize_t\b", "", text)):
            raise _UnknownError("a type by another name")
        return _unwrapped(self._in_terms(text, 0, constant=True))

    def _triple(self, text: str) -> str:
        direct = re.fullmatch(r"dim3\s*[({](.*)[)}]", text)
        if direct:
            return direct[1]
        if not re.fullmatch(r"[A-Za-z_]\w*", text):
            return text
        name = re.escape(text)
        declared = list(re.finditer(rf"\bdim3\s+(?:const\s+)?{name}\s*([({{=])", self._visible))
        if not declared:
            return text
        if len(declared) > 1 or re.search(
            rf"(?<![\w.]){name}\s*(?:\.\s*[xyz]\s*)?[-+*/]?=(?!=)", _without_declaration(self._assigning(text), name)
        ):
            raise _UnknownError(f"`{text}` has several values")
        end = declared[0].end()
        if declared[0][1] == "=":
            return self._triple(one_line(self._visible[end : self._visible.find(";", end)]))
        return one_line(self._visible[end : closing(self._visible, end - 1)])

    def _assigning(self, name: str) -> str:
        """The region without the blocks in which the name is that of another variable."""
        return _without_closed_blocks(self._region, re.compile(rf"[\w>*&]\s+[*&]*{re.escape(name)}\s*[=({{;]"))

    def _component(self, found: re.Match[str]) -> str:
        """An extent of a `dim3`."""
        if not re.search(rf"\bdim3\s+(?:const\s+)?{re.escape(found[1])}\b", self._visible):
            return found[0]
        extents = elements(self._triple(found[1]))
        number = "xyz".index(found[2])
        return _wrapped(extents[number]) if number < len(extents) else "1"

    def _in_terms(self, text: str, depth: int, *, constant: bool = False) -> str:
        text = re.sub(r"\b([A-Za-z_]\w*)\s*\.\s*([xyz])\b(?!\s*\()", self._component, text)
        if _MEMBER.search(text):
            raise _UnknownError("that is the value of an object of the host")
        return _NAME.sub(lambda found: self._name(found[0], depth, constant=constant), text)

    def _name(self, name: str, depth: int, *, constant: bool) -> str:
        if name in _KEPT or name.endswith("_t") or (constant and name in self._known):
            return name
        if element_type(name) is not None and not self._host.declares_integer(name):
            return name
        if name in self._bound:
            return self._bound[name]
        kind = self._host.type_of(name) if self._typed and not constant else ""
        if name in self._passed and not constant:
            return f"({kind}){self._passed[name]}" if kind else self._passed[name]
        if name in self.sizes and not constant:
            return f"({kind}){name}" if kind else name
        if name in self._given:
            raise _UnknownError(f"`{name}` is given to the code around it")
        if name.isupper() and not self._host.declares_integer(name):
            return name
        initial = self._host.definition(name)
        if initial is not None and depth < _DEPTH:
            try:
                before = dict(self.sizes)
                value = _wrapped(self._in_terms(initial, depth + 1, constant=constant))
                return f"({kind}){value}" if kind else value
            except _UnknownError:
                self.sizes = before
        if constant:
            raise _UnknownError(f"`{name}` is not written out")
        if name not in self.sizes and not (self._takes_sizes and self._host.declares_integer(name)):
            raise _UnknownError(f"`{name}` is not an argument of the kernel")
        if name in self._taken:
            raise _UnknownError(f"`{name}` is not the kernel's `{name}` there")
        self.sizes[name] = None
        return f"({kind}){name}" if kind else name


def _is_argument(one: KernelParameter) -> bool:
    """True for a kernel's parameter that is an argument of the C function too."""
    plain = one.plain and one.pointers < 2
    return plain and (bool(one.pointers) or is_size(one.type) or runtime_type(one.type) is not None)


def _without_closed_blocks(region: str, declaring: re.Pattern[str] | None = None) -> str:
    """The region with blanks for blocks that end in it; with `declaring` only for those in which that occurs."""
    opened: list[int] = []
    blanked = region
    for found in re.finditer(r"[{}]", region):
        if found[0] == "{":
            opened.append(found.end())
        elif opened:
            start = opened.pop()
            inside = region[start : found.start()]
            if (declaring is None and ";" in inside) or (declaring is not None and declaring.search(inside)):
                blanked = blanked[:start] + " " * len(inside) + blanked[found.start() :]
    return blanked


def _without_declaration(region: str, name: str) -> str:
    return re.sub(rf"\bdim3\s+(?:const\s+)?{name}\s*=?", " ", region)


def _wrapped(text: str) -> str:
    return text if re.fullmatch(r"[\w.:]+", text) else f"({_unwrapped(text)})"


def _unwrapped(text: str) -> str:
    while text.startswith("(") and closing(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text
