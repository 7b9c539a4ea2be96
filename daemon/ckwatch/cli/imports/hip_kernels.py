"""`__global__` functions of a source: their parameters, what they do with pointers, and how the file launches them.

Read from the text alone, so that a file can be read whose headers are not there. What is not plain says so: nothing is
guessed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ckwatch.checks.device_code.declarations import parameter_list
from ckwatch.cli.imports.device_variables import DeviceVariable, device_variables
from ckwatch.cli.imports.macros import macros, uses
from ckwatch.cli.imports.pointer_uses import Access, access
from ckwatch.cli.imports.source_text import elements, line_of, namespaces, one_line
from ckwatch.headers.masked_text import closing, masked, split_list
from ckwatch.model.lazy_dataclass import dataclass

_GLOBAL = re.compile(r"\b__global__\b")
_QUALIFIERS = re.compile(r"\b(?:volatile|register|__restrict__|__restrict|restrict|RESTRICT|__grid_constant__)\b")
_TYPE_WORDS = frozenset(
    ("int", "long", "short", "char", "unsigned", "float", "double", "bool", "half", "int64_t", "int32_t")
)
_LAUNCH_BOUNDS = re.compile(r"\b__launch_bounds__\s*\(")
_DYNAMIC_SHARED = re.compile(
    r"\bextern\s+(?:__align__\s*\([^)]*\)\s*)?__shared__\b|\bHIP_DYNAMIC_SHARED\b|\bSharedMemory\s*<"
)


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """A parameter of a kernel. `type` is that of the elements of a pointer, without `const`; `note` is the comment
    beside it. `pointers` counts the stars; `plain` is False for what is no value and no pointer."""

    name: str
    type: str
    pointers: int = 0
    const: bool = False
    default: str | None = None
    note: str = ""
    plain: bool = True
    access: Access = Access.UNKNOWN


@dataclass(frozen=True, slots=True)
class KernelTemplateParameter:
    """`typename T`, `int BLOCK = 256`. `kind` is what stands before the name."""

    name: str
    kind: str
    default: str | None = None

    @property
    def is_type(self) -> bool:
        """Return True for a parameter that stands for a type."""
        return self.kind in ("typename", "class")


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel in the same file: its template arguments, grid, block, bytes of LDS and arguments, all as
    text; `start` is its offset, in `code` where a macro was expanded."""

    line: int
    start: int
    templates: tuple[str, ...] | None
    grid: str
    block: str
    shared: str
    arguments: tuple[str, ...]
    code: str = ""


@dataclass(frozen=True, slots=True)
class HipKernel:
    """A `__global__` function. `start` and `end` are offsets of the whole definition, `body` are its statements
    without comments, from `body_line` on; `variables` are those that it names and the host fills."""

    name: str
    scope: tuple[str, ...]
    line: int
    templates: tuple[KernelTemplateParameter, ...]
    parameters: tuple[KernelParameter, ...]
    launch_bounds: str = ""
    dynamic_shared: bool = False
    launches: tuple[Launch, ...] = ()
    variables: tuple[DeviceVariable, ...] = ()
    start: int = 0
    end: int = 0
    body: str = ""
    body_line: int = 0


def hip_kernels(text: str) -> list[HipKernel]:
    """The kernels that a file defines, in its order."""
    code = masked(text)
    found = [kernel for one in _GLOBAL.finditer(code) if (kernel := _kernel(text, code, one.start())) is not None]
    variables = device_variables(text, code)
    return [_with_variables(_with_launches(text, code, kernel), variables) for kernel in found]


def _kernel(text: str, code: str, start: int) -> HipKernel | None:
    """The kernel whose `__global__` is at `start`; None where it is only declared, or no function."""
    opening = parameter_list(code, start)
    if opening is None:
        return None
    name, at = opening[0][0], opening[1]
    end = closing(code, at)
    body = re.compile(r"\s*(?:noexcept\s*)?\{").match(code, end + 1) if end > 0 else None
    if body is None:
        return None
    body_end = closing(code, body.end() - 1)
    if body_end < 0:
        body_end = len(code)
    inside = code[body.end() : body_end]
    begin = _beginning(code, start)
    head = code[begin:at]
    bounds = _LAUNCH_BOUNDS.search(head)
    return HipKernel(
        name=name,
        scope=namespaces(code, begin),
        line=line_of(code, start),
        templates=_template_parameters(head),
        parameters=tuple(_parameters(text, code, at + 1, end, inside)),
        launch_bounds=one_line(head[bounds.end() : closing(head, bounds.end() - 1)]) if bounds else "",
        dynamic_shared=_DYNAMIC_SHARED.search(inside) is not None,
        start=begin,
        end=body_end,
        body=inside,
        body_line=line_of(code, body.end()),
    )


def _beginning(code: str, start: int) -> int:
    """The beginning of the declaration around `start`: behind the last statement, scope or directive."""
    begin = max(code.rfind(character, 0, start) for character in ";{}")
    directive = list(re.finditer(r"^[ \t]*#(?:[^\n])*\n", code[begin + 1 : start], re.MULTILINE))
    return begin + 1 + (directive[-1].end() if directive else 0)


def _template_parameters(head: str) -> tuple[KernelTemplateParameter, ...]:
    found = re.search(r"\btemplate\s*<", head)
    if found is None:
        return ()
    end = closing(head, found.end() - 1)
    parameters = []
    for one in elements(head[found.end() : end]):
        declared, _, default = _at_equals(one)
        pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", declared)
        name = pointer[1] if pointer else re.search(r"(\w+)\s*$", declared)
        if name is None:
            continue
        called = name if isinstance(name, str) else name[1]
        kind = declared if pointer else declared[: declared.rfind(called)].strip()
        if kind:  # one without a name is nothing that can be said
            parameters.append(KernelTemplateParameter(called, kind, default or None))
    return tuple(parameters)


def _at_equals(text: str) -> tuple[str, str, str]:
    """A declaration and its default, parted at the `=` outside brackets."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character in "(<[{") - (character in ")>]}")
        if character == "=" and depth <= 0 and text[at + 1 : at + 2] != "=" and text[at - 1] not in "<>!=":
            return text[:at].strip(), "=", text[at + 1 :].strip()
    return text.strip(), "", ""


def _parameters(text: str, code: str, start: int, end: int, body: str) -> list[KernelParameter]:
    bounds = [(start + first, start + last) for first, last in split_list(_without_directives(code[start:end]))]
    found = []
    for number, (first, last) in enumerate(bounds):
        declared, _, default = _at_equals(one_line(_without_directives(code[first:last])))
        if declared in ("", "void"):
            continue
        following = bounds[number + 1][0] if number + 1 < len(bounds) else end
        note = _note(text[last:following] if number + 1 < len(bounds) else text[last : end + 200])
        found.append(_parameter(number, declared, default or None, note, body, code))
    return found


def _without_directives(code: str) -> str:
    return re.sub(r"^[ \t]*#[^\n]*", lambda line: " " * len(line[0]), code, flags=re.MULTILINE)


def _note(behind: str) -> str:
    """The comment on a parameter's own line, and lines below it that only go on with it."""
    found = re.match(r"[ \t,){]*(?://+|/\*)[!/<*]*[ \t]*([^\n]*?)[ \t]*(?:\*/|\n|$)((?:[ \t]*//[^\n]*\n)*)", behind)
    return one_line(found[1] + " " + re.sub(r"^[ \t]*/+", " ", found[2], flags=re.MULTILINE)) if found else ""


def _parameter(number: int, declared: str, default: str | None, note: str, body: str, code: str) -> KernelParameter:
    text = one_line(_QUALIFIERS.sub(" ", declared))
    array = re.fullmatch(r"(.*?\w)\s*\[[^\]]*\]", text)
    if array:
        text = array[1]
    named = re.fullmatch(r"(.*?[\s*&>])(\w+)", text)
    if named is None or named[2] in _TYPE_WORDS:
        kind, name = text, f"argument_{number}"
    else:
        kind, name = named[1].strip(), named[2]
    pointers = kind.count("*") + bool(array)
    plain = "&" not in kind and "(" not in kind and "..." not in kind
    pointee = kind.split("*", 1)[0]
    const = re.search(r"\bconst\b", pointee) is not None
    element = one_line(re.sub(r"\b(?:const|struct)\b", " ", pointee))
    use = Access.READ if const or not pointers else access(name, body, code)
    return KernelParameter(name, element, pointers, const, default, note, plain, use)


def _with_variables(kernel: HipKernel, variables: Sequence[DeviceVariable]) -> HipKernel:
    taken = {one.name for one in kernel.parameters}
    named = [one for one in variables if one.name not in taken and re.search(rf"(?<![\w.]){one.name}\b", kernel.body)]
    return replace(kernel, variables=tuple(named))


def _with_launches(text: str, code: str, kernel: HipKernel) -> HipKernel:
    """The kernel with its launches. A launch in a macro is one where the macro is used, if it is."""
    known = macros(text, code)
    launches = []
    used = []
    for use in uses(code, known, kernel.name):
        used.append(use.macro.name)
        for one in _launches_in(use.text, kernel.name):
            line = line_of(code, use.start if use.is_called else use.macro.start)
            launches.append(replace(one, start=use.start + one.start, line=line, code=code[: use.start] + use.text))
    for one in _launches_in(code, kernel.name):
        around = next((it for it in known if it.start <= one.start < it.end), None)
        if not kernel.start <= one.start <= kernel.end and (around is None or around.name not in used):
            launches.append(one)
    return replace(kernel, launches=tuple(sorted(launches, key=lambda one: one.start)))


def _launches_in(code: str, name: str) -> list[Launch]:
    return [*_chevrons(code, name), *_launch_calls(code, name), *_calls_with_configuration(code, name)]


def _chevrons(code: str, name: str) -> list[Launch]:
    found = []
    for one in re.finditer(rf"\b{re.escape(name)}\b\s*(?=<)", code):
        at, templates = one.end(), None
        if not code.startswith("<<<", at):
            end = closing(code, at)
            if end < 0:
                continue
            templates = tuple(elements(code[at + 1 : end]))
            spaces = re.compile(r"\s*").match(code, end + 1)
            at = spaces.end() if spaces else end + 1
        if not code.startswith("<<<", at) or (end := code.find(">>>", at)) < 0:
            continue
        call = re.compile(r"\s*\(").match(code, end + 3)
        last = closing(code, call.end() - 1) if call else -1
        if call is None or last < 0:
            continue
        found.append(
            _launch(code, one.start(), templates, elements(code[at + 3 : end]), elements(code[call.end() : last]))
        )
    return found


def _launch_calls(code: str, name: str) -> list[Launch]:
    """`hipLaunchKernelGGL(kernel<…>, grid, block, shared, stream, …)`, with or without HIP_KERNEL_NAME."""
    found = []
    for one in re.finditer(r"\b(?:hipLaunchKernelGGL|hipLaunchKernel)\s*\(", code):
        last = closing(code, one.end() - 1)
        words = elements(code[one.end() : last]) if last > 0 else []
        kernel = (
            re.fullmatch(r"(?:HIP_KERNEL_NAME\s*\()?\s*\(?\s*(?:\w+\s*::\s*)*(\w+)\s*(?:<(.*)>)?\s*\)*", words[0])
            if words
            else None
        )
        if kernel is None or kernel[1] != name or len(words) < 5:
            continue
        templates = None if kernel[2] is None else tuple(elements(kernel[2]))
        found.append(_launch(code, one.start(), templates, words[1:5], words[5:]))
    return found


def _calls_with_configuration(code: str, name: str) -> list[Launch]:
    """`launch(kernel<…>, configuration, …)`, with a configuration that is made of grid, block, bytes and stream."""
    found = []
    for one in re.finditer(rf"\b\w+\s*\(\s*(?=(?:\w+\s*::\s*)*{re.escape(name)}\s*[<,])", code):
        last = closing(code, code.index("(", one.start()))
        words = elements(code[one.end() : last]) if last > 0 else []
        kernel = re.fullmatch(r"(?:\w+\s*::\s*)*\w+\s*(?:<(.*)>)?", words[0]) if words else None
        shape = _configuration(code, one.start(), words[1]) if kernel is not None and len(words) > 1 else None
        if kernel is not None and shape is not None:
            templates = None if kernel[1] is None else tuple(elements(kernel[1]))
            found.append(_launch(code, one.start(), templates, shape, words[2:]))
    return found


def _configuration(code: str, at: int, text: str) -> list[str] | None:
    """Grid, block and bytes of a variable, or of an object that is written out; None of anything else."""
    if re.fullmatch(r"[A-Za-z_]\w*", text):
        declared = list(re.finditer(rf"[\w>]\s+{text}\s*(=\s*(?:[\w:]+\s*)?)?(?=[({{])", code[:at]))
        start = declared[-1].end() if declared else -1
    else:
        made = re.match(r"[\w:]*\s*(?=\{)", text)
        code, start = text, made.end() if made else -1
    end = closing(code, start) if start >= 0 else -1
    words = elements(code[start + 1 : end]) if end > 0 else []
    return words if 3 <= len(words) <= 4 else None


def _launch(
    code: str, start: int, templates: tuple[str, ...] | None, shape: Sequence[str], arguments: Sequence[str]
) -> Launch:
    grid, block, shared = (shape[at] if len(shape) > at else "" for at in range(3))
    return Launch(line_of(code, start), start, templates, grid, block, shared or "0", tuple(arguments))
