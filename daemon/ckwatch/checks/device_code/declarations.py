"""Declarations of kernels in a text, and the bounds of the registers that each may have.

A kernel may have as many registers as still let the largest workgroup that it allows run: 1,024 threads unless
`__launch_bounds__` or `amdgpu_flat_work_group_size` say fewer ("Function Attributes" in LLVM's AMDGPUUsage). The second
argument of `__launch_bounds__` and `amdgpu_waves_per_eu` bound them further.

Declarations that a macro writes are found at its invocation; what can be changed stands in its definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ckwatch.headers.masked_text import closing, masked, split_list
from ckwatch.model.lazy_dataclass import dataclass

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?P<parameters>\([^()\n]*\))?", re.MULTILINE)
_GLOBAL = "__global__"
_WORD_OR_OPENING = re.compile(r"[A-Za-z_]\w*(?:\s*\#\#\s*\w+)*|[({;<]")
_ATTRIBUTE = re.compile(r"__|amdgpu_|launch_bounds\b|alignas\b|decltype\b")
_GOES_ON = re.compile(r"\s*(?:\(|static\b|void\b|__)")
"""Behind the parentheses of a macro, and not of parameters."""
_BOUNDS = re.compile(r"\b(?:__launch_bounds__|launch_bounds|amdgpu_flat_work_group_size|amdgpu_waves_per_eu)\s*\(")
_BODY = re.compile(r"\s*(?:noexcept\s*)?\{")
_SHARED = re.compile(r"\b__shared__\b(?P<rest>[^;{}()]*)")


@dataclass(frozen=True, slots=True)
class BoundArgument:
    """An argument of an attribute: its text, and its offsets."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RegisterBound:
    """An attribute that bounds registers: its `name`, its arguments, and its offsets, parentheses included."""

    name: str
    arguments: tuple[BoundArgument, ...]
    start: int
    end: int

    @property
    def threads(self) -> BoundArgument | None:
        """The argument that is the most threads of a workgroup; None where the attribute says none."""
        if self.name.endswith("launch_bounds__") or self.name == "launch_bounds":
            return self.arguments[0] if self.arguments else None
        return self.arguments[-1] if self.name == "amdgpu_flat_work_group_size" and self.arguments else None

    @property
    def occupancy(self) -> BoundArgument | None:
        """The argument that asks for an occupancy; None where the attribute asks for none."""
        if self.name == "amdgpu_waves_per_eu":
            return self.arguments[0] if self.arguments else None
        has_two = self.name.endswith("launch_bounds__") or self.name == "launch_bounds"
        return self.arguments[1] if has_two and len(self.arguments) > 1 else None


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A declaration of LDS: the offsets of its statement without the semicolon."""

    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class KernelDeclaration:
    """A kernel that a text defines. `start` and `end` are the offsets of its name, in the invocation of the macro that
    writes it if one does. `insert_at` is behind the word that makes it a kernel, `body` the offsets of its body.
    `shared` counts those of all kernels that a macro writes."""

    name: str
    start: int
    end: int
    insert_at: int
    body: tuple[int, int]
    bounds: tuple[RegisterBound, ...] = ()
    shared: tuple[SharedArray, ...] = ()
    macro: str = ""


def kernel_declarations(text: str) -> list[KernelDeclaration]:
    """The kernels that `text` defines, in its order."""
    code = masked(text)
    macros = list(_macros(text, code))
    words = {_GLOBAL: None, **{one.name: one for one in macros if one.parameters is None and _GLOBAL in one.body(code)}}
    found: list[KernelDeclaration] = []
    for match in re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b").finditer(code):
        around = next((one for one in macros if one.line <= match.start() < one.end), None)
        if around is not None and around.parameters is None:
            continue
        marker = words[match[0]]
        before = max((one.end for one in macros if one.end <= match.start()), default=0)
        found += _declared(code, match, before, marker, around)
    return found


@dataclass(frozen=True, slots=True)
class _Macro:
    """A definition at `line`; its replacement lies between `start` and `end`."""

    name: str
    parameters: tuple[str, ...] | None
    line: int
    start: int
    end: int

    def body(self, code: str) -> str:
        return code[self.start : self.end]


def _macros(text: str, code: str) -> Iterator[_Macro]:
    for found in _DEFINE.finditer(code):
        end = text.find("\n", found.end())
        while end > 0 and text.endswith(("\\", "\\\r"), 0, end):
            end = text.find("\n", end + 1)
        parameters = found["parameters"]
        names = None if parameters is None else tuple(re.findall(r"\w+|\.\.\.", parameters))
        yield _Macro(found["name"], names, found.start(), found.end(), len(code) if end < 0 else end)


def _declared(
    code: str, match: re.Match[str], before: int, marker: _Macro | None, around: _Macro | None
) -> Iterator[KernelDeclaration]:
    opening = parameter_list(code, match.end())
    if opening is None:
        return
    word, at = opening
    name, name_start, name_end = re.sub(r"\s*##\s*", "##", word[0]), *word.span()
    end = closing(code, at)
    body = _BODY.match(code, end + 1) if end > 0 else None
    if body is None:
        return
    body_end = closing(code, body.end() - 1)
    inside = (body.end(), body_end if body_end > 0 else len(code))
    begin = max(before, *(code.rfind(one, 0, match.start()) for one in ";{}#"))
    bounds = [*_bounds(code, begin, at)]
    if marker is not None:
        bounds += _bounds(code, marker.start, marker.end)
    shared = tuple(_shared(code, *inside))
    insert_at = match.end()
    if around is None:
        yield KernelDeclaration(name, name_start, name_end, insert_at, inside, tuple(bounds), shared)
        return
    for written, start, stop in _invocations(code, around, name):
        yield KernelDeclaration(written, start, stop, insert_at, inside, tuple(bounds), shared, around.name)


def parameter_list(code: str, start: int) -> tuple[re.Match[str], int] | None:
    """The name of the function declared at `start`, and where its parameters open."""
    at, word = start, None
    while (found := _WORD_OR_OPENING.search(code, at)) is not None:
        text = found[0]
        if text in ("{", ";"):
            return None
        if text in ("<", "("):
            end = closing(code, found.start())
            if end < 0:
                return None
            if text == "(" and word is not None and not (_ATTRIBUTE.match(word[0]) or _GOES_ON.match(code, end + 1)):
                return word, found.start()
            at, word = end + 1, None
        else:
            at, word = found.end(), found
    return None


def _bounds(code: str, start: int, end: int) -> Iterator[RegisterBound]:
    for found in _BOUNDS.finditer(code, start, end):
        last = closing(code, found.end() - 1)
        if last > 0:
            arguments = (
                BoundArgument(" ".join(code[one:stop].split()), one, stop)
                for one, stop in split_list(code, found.end(), last)
            )
            name = re.sub(r"\W", "", found[0])
            yield RegisterBound(name, tuple(arguments), found.start(), last + 1)


def _shared(code: str, start: int, end: int) -> Iterator[SharedArray]:
    for found in _SHARED.finditer(code, start, end):
        if re.search(r"\bextern\s*$", code[max(found.start() - 20, 0) : found.start()]):
            continue  # its size is that of the launch
        first = re.match(r"[^,=\[]*?(\w+)\s*(?:\[|,|=|$)", found["rest"])
        yield SharedArray(found.start(), found.start() + len(found[0].rstrip()), first[1] if first else "")


def _invocations(code: str, macro: _Macro, name: str) -> Iterator[tuple[str, int, int]]:
    """The names that a macro's invocations give to the function that it writes as `name`."""
    for found in re.compile(rf"\b{re.escape(macro.name)}\s*\(").finditer(code, macro.end):
        last = closing(code, found.end() - 1)
        given = [code[one:stop] for one, stop in split_list(code, found.end(), last)] if last > 0 else []
        values = dict(zip(macro.parameters or (), given, strict=False))
        written = "".join(values.get(part, part).strip() for part in name.split("##"))
        yield written, found.start(), last + 1
