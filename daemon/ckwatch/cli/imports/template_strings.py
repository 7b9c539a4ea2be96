"""Template strings in Python source, which is read and never run."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.problems import did_you_mean

_JINJA = re.compile(r"\{\{|\{%|\{#")
_OF_A_KERNEL = re.compile(r"\{[{%][^}]*\b(?:def_kernel|kernel_definition)\b")
_FUNCTIONS: Mapping[str, Callable[[str], str]] = {
    "dedent": textwrap.dedent,
    "cleandoc": inspect.cleandoc,
    **dict.fromkeys(("Template", "from_string", "_template_from_string"), str),
}
_METHODS = {"strip": str.strip, "lstrip": str.lstrip, "rstrip": str.rstrip}


class TemplateStringError(ValueError):
    """Why no template is taken; `line` (from 1) is where, 0 for the whole file."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class TemplateString:
    """A string with Jinja that is assigned to a name. `name` is qualified: `CKGemmTemplate.gemm_template`. `text` is
    None if it is computed when the program runs."""

    name: str
    line: int
    text: str | None

    @property
    def owner(self) -> str:
        """The class that it stands in, or the function; empty for a module's."""
        return self.name.rpartition(".")[0]

    @property
    def has_kernel(self) -> bool:
        """Return True if it defines the kernel's function, as a part of a template does not."""
        return self.text is not None and _OF_A_KERNEL.search(self.text) is not None


def template_strings(source: str) -> list[TemplateString]:
    """The strings with Jinja in the Python text `source`, in order. Raises TemplateStringError for a syntax error."""
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise TemplateStringError(f"this is not Python: {error.msg}", error.lineno or 0) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise TemplateStringError(f"this is not Python: {error}") from None
    found: list[TemplateString] = []
    _collect(module.body, (), {}, found)
    return found


def chosen_string(strings: Sequence[TemplateString], name: str | None) -> TemplateString:
    """The string called `name`, qualified or not; without a name the only one that defines a kernel. Raises
    TemplateStringError where that is none, or several."""
    if name is not None:
        named = [one for one in strings if one.name == name or one.name.endswith(f".{name}")]
        if not named:
            names = {one.name.rpartition(".")[2]: one for one in strings}
            near = did_you_mean(name, names)
            raise TemplateStringError(f"no string with Jinja is called `{name}`; {near}there are: {_listed(strings)}")
    else:
        named = [one for one in strings if one.has_kernel] or [*strings]
        if not named:
            raise TemplateStringError("no name is assigned a string with Jinja")
    if len(named) > 1:
        raise TemplateStringError(f"there are several strings with Jinja; choose one by --name: {_listed(named)}")
    if named[0].text is None:
        message = f"`{named[0].name}` is worked out when the program runs: assign it a string without f or format"
        raise TemplateStringError(message, named[0].line)
    return named[0]


def _listed(strings: Sequence[TemplateString]) -> str:
    return ", ".join(f"{one.name} (line {one.line})" for one in strings) or "none"


def _collect(
    body: Sequence[ast.stmt], scope: tuple[str, ...], known: Mapping[str, str], found: list[TemplateString]
) -> None:
    """The strings of a block and of those in it. `known` are names that stand for strings here."""
    names = dict(known)
    for statement in body:
        match statement:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                _collect(statement.body, (*scope, statement.name), names, found)
            case ast.Assign(targets=targets, value=value):
                _assigned([one.id for one in targets if isinstance(one, ast.Name)], value, scope, names, found)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                _assigned([name], value, scope, names, found)
            case _:
                for block in ("body", "orelse", "finalbody"):
                    _collect(getattr(statement, block, ()), scope, names, found)


def _assigned(
    targets: Sequence[str], value: ast.expr, scope: tuple[str, ...], names: dict[str, str], found: list[TemplateString]
) -> None:
    text = _text(value, names)
    literals = [one.value for one in ast.walk(value) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    for name in targets:
        names.pop(name, None)
        if text is not None:
            names[name] = text
        if any(_JINJA.search(literal) for literal in literals):
            found.append(TemplateString(".".join((*scope, name)), value.lineno, text))


def _text(value: ast.expr, names: Mapping[str, str]) -> str | None:
    """The string that an expression always is; None where that is not certain."""
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return names.get(name)
        case ast.JoinedStr(values=parts):
            texts = [_text(part, names) for part in parts]
            return "".join(filter(None, texts)) if None not in texts else None
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _text(left, names), _text(right, names)
            return first + second if first is not None and second is not None else None
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[argument], keywords=[]):
            inner_text = _text(argument, names) if name in _FUNCTIONS else None
            return _FUNCTIONS[name](inner_text) if inner_text is not None else None
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[]) if name in _METHODS:
            inner_text = _text(inner, names)
            return _METHODS[name](inner_text) if inner_text is not None else None
    return None
