"""Grid, block and template arguments of a kernel from a launch in its file, in terms of the kernel's own arguments.

Names of the function that launches are followed to their declarations: what is passed to the kernel has the kernel's
name, a variable with one value is that value, and a whole number that comes from elsewhere is a size of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ckwatch.cli.imports.hip_kernels import HipKernel, Launch
from ckwatch.cli.imports.hip_types import is_size, runtime_type
from ckwatch.cli.imports.host_code import CAST, HostCode
from ckwatch.cli.imports.program_facts import ProgramFacts, program_facts
from ckwatch.cli.imports.source_text import closing, elements, one_line

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
    `arguments` are those that are no tensors, sizes or numbers.
    """

    line: int
    grid: str | None
    block: str | None
    shared: str | None
    templates: Mapping[str, str]
    sizes: tuple[str, ...]
    why: Mapping[str, str] = field(default_factory=dict)
    facts: ProgramFacts = field(default_factory=ProgramFacts)
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Return True if nothing is left open."""
        return not self.why


class _UnknownError(ValueError):
    """Why an expression cannot be said in the kernel's terms."""


def kernel_launch(text: str, code: str, kernel: HipKernel, launch: Launch) -> KernelLaunch:
    """Say a launch in the kernel's own terms; `code` is the masked `text`."""
    host = HostCode(text, code, _region(text, code, launch.start), launch.start)
    facts = program_facts(host, kernel, launch)
    scope = _Scope(host, kernel, launch, facts)
    why: dict[str, str] = {}

    def said(key: str, expression: str) -> str | None:
        try:
            return scope.expression(expression, triple=key != "SharedBytes", sizes=key == "Grid")
        except _UnknownError as error:
            why[key] = f"line {launch.line} launches with {expression}, and {error}"
            return None

    grid = said("Grid", launch.grid)
    block = said("Block", launch.block)
    shared = said("SharedBytes", launch.shared)
    templates: dict[str, str] = {}
    for parameter, given in zip(kernel.templates, launch.templates or (), strict=False):
        try:
            templates[parameter.name] = scope.constant(given)
        except _UnknownError:
            why[parameter.name] = f"line {launch.line} launches with {given}"
    arguments = scope.arguments(kernel, launch)
    return KernelLaunch(launch.line, grid, block, shared, templates, tuple(scope.sizes), why, facts, arguments)


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
    opened: list[int] = []
    for found in re.finditer(r"[{}]", code[:start]):
        if found[0] == "{":
            head = code[max(code.rfind(one, 0, found.start()) for one in ";{}") + 1 : found.start()]
            opened.append(-1 if re.search(r"\bnamespace\b|\bextern\s*$", head) else found.start())
        elif opened:
            opened.pop()
    first = next((at for at in opened if at >= 0), start)
    return code[max(code.rfind(one, 0, first) for one in ";{}") + 1 : start]


class _Scope:
    """The names at a launch."""

    def __init__(self, host: HostCode, kernel: HipKernel, launch: Launch, facts: ProgramFacts) -> None:
        self._host = host
        self._region = host.open
        self.sizes: dict[str, None] = dict(facts.sizes)
        self._takes_sizes = False
        self._typed = False
        self._passed: dict[str, str] = {}
        for parameter, given in zip(kernel.parameters, launch.arguments, strict=False):
            plain = CAST.sub("", given).strip(" ()")
            if not parameter.pointers and re.fullmatch(r"[A-Za-z_]\w*", plain):
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
        self._taken = {one.name for one in kernel.parameters} | {one.name for one in kernel.templates}

    def expression(self, text: str, *, triple: bool, sizes: bool) -> str:
        """The text in the kernel's terms; with `triple` as the arguments of a `dim3`, with `sizes` also in terms of
        whole numbers that the kernel does not get. Raises _UnknownError."""
        self._takes_sizes = sizes
        text = one_line(text)
        if triple:
            text = self._triple(text)
        self._typed = False
        said = [_unwrapped(self._said(one, 0)) for one in elements(text)]
        if any(_CALL.search(one) for one in said):  # a template or an overload may want the host's own types
            self._typed = True
            said = [_unwrapped(self._said(one, 0)) for one in elements(text)]
        return ", ".join(said)

    def constant(self, text: str) -> str:
        """A template argument that is written out. Raises _UnknownError."""
        if re.search(r"\w+_t\b", text) and not re.fullmatch(r"u?int\d+_t|size_t", text):
            raise _UnknownError("a type by another name")
        return _unwrapped(self._said(text, 0, constant=True))

    def arguments(self, kernel: HipKernel, launch: Launch) -> dict[str, str]:
        """Arguments that are passed by value and are no numbers, where the kernel's own arguments say them."""
        found = {}
        for one, given in zip(kernel.parameters, launch.arguments, strict=False):
            if not one.pointers and one.plain and not is_size(one.type) and runtime_type(one.type) is None:
                try:
                    found[one.name] = self.expression(given, triple=False, sizes=True)
                except _UnknownError:
                    continue
        return found

    def _triple(self, text: str) -> str:
        direct = re.fullmatch(r"dim3\s*[({](.*)[)}]", text)
        if direct:
            return direct[1]
        if not re.fullmatch(r"[A-Za-z_]\w*", text):
            return text
        name = re.escape(text)
        declared = re.findall(rf"\bdim3\s+(?:const\s+)?{name}\s*(?=[({{=])", self._region)
        if not declared:
            return text
        if len(declared) > 1 or re.search(
            rf"(?<![\w.]){name}\s*(?:\.\s*[xyz]\s*)?[-+*/]?=(?!=)", _without_declaration(self._region, name)
        ):
            raise _UnknownError(f"`{text}` has several values")
        found = re.search(rf"\bdim3\s+(?:const\s+)?{name}\s*([({{=])", self._region)
        if found is None:
            raise _UnknownError(f"`{text}` is not declared there")
        if found[1] == "=":
            return self._triple(one_line(self._region[found.end() : self._region.find(";", found.end())]))
        end = closing(self._region, found.end() - 1)
        return one_line(self._region[found.end() : end])

    def _said(self, text: str, depth: int, *, constant: bool = False) -> str:
        if _MEMBER.search(text):
            raise _UnknownError("that is the value of an object of the host")
        return _NAME.sub(lambda found: self._name(found[0], depth, constant=constant), text)

    def _name(self, name: str, depth: int, *, constant: bool) -> str:
        if name in _KEPT or name.endswith("_t"):
            return name
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
                said = _wrapped(self._said(initial, depth + 1, constant=constant))
                return f"({kind}){said}" if kind else said
            except _UnknownError:
                self.sizes = before
        if constant:
            raise _UnknownError(f"`{name}` is not written out")
        if name not in self.sizes and not (self._takes_sizes and self._host.declares_integer(name)):
            raise _UnknownError(f"`{name}` is no argument of the kernel")
        if name in self._taken:
            raise _UnknownError(f"`{name}` is not the kernel's `{name}` there")
        self.sizes[name] = None
        return f"({kind}){name}" if kind else name


def _without_declaration(region: str, name: str) -> str:
    return re.sub(rf"\bdim3\s+(?:const\s+)?{name}\s*=?", " ", region)


def _wrapped(text: str) -> str:
    return text if re.fullmatch(r"[\w.:]+", text) else f"({_unwrapped(text)})"


def _unwrapped(text: str) -> str:
    while text.startswith("(") and closing(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text
