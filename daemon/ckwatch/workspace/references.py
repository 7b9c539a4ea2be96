"""References in Python that kernel files name: finds the function and the modules beside it, and reads them.

A reference is code of the workspace, as templates are: it lies in the workspace's folder or in one of its
`kernel_folders`, and nobody else can write it. Modules beside it that it imports are read with it, so that a change of
them is a change of the reference. Nothing is executed here.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ckwatch.model.diagnostics import Diagnostic, Fix, Severity, Source
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.python_references import PythonReference, SourceModule
from ckwatch.model.text import Position, Span
from ckwatch.workspace.named_files import NamedFiles
from ckwatch.workspace.problems import Problems, did_you_mean, join_names, nearest

_FORM = re.compile(r"(?P<file>[^:]+\.py):(?P<function>[A-Za-z_]\w*)", re.ASCII)
_MOST_MODULES = 64

PLACE = ("operation", "reference")


def read_reference(problems: Problems, value: str, reader: NamedFiles) -> PythonReference:
    """The reference that `reference = value` names; what is wrong with it is reported and does not keep the kernel from
    being compiled."""
    form = _FORM.fullmatch(value)
    if form is None:
        return _refused(problems, "invalid-path", f'`{value}` is not a reference: write "FILE.py:FUNCTION"')
    folder = os.path.dirname(problems.document.path)  # noqa: PTH120
    file, function = form["file"], form["function"]
    path = os.path.normpath(os.path.join(folder, file))  # noqa: PTH118
    if os.path.isabs(file):  # noqa: PTH117
        return _refused(problems, "invalid-path", f"`{file}` must be relative to the kernel file's folder")
    if not reader.is_inside(path):
        message = f"`{file}` lies outside of the workspace; `kernel_folders` in [workspace] names further folders"
        return _refused(problems, "outside", message)
    read = reader.text(path)
    if read is None:
        return _refused(problems, "missing-reference", f"there is no file {path}")
    if read.diagnostics:
        return _refused(problems, "unreadable", f"{file} {read.diagnostics[0].message}")
    name = os.path.basename(path).removesuffix(".py")  # noqa: PTH119
    modules = {name: SourceModule(name, path, read.text)}
    tree = _parsed(problems, modules[name])
    if tree is None:
        return PythonReference(function, tuple(modules.values()), f"{file} is not Python")
    names = _names_of(tree)
    if names is not None and function not in names:
        near = nearest(function, names)
        guess = f"; did you mean `{near}`?" if near else ""
        return _refused(problems, "missing-reference", f"{file} has no function `{function}`{guess}")
    _add_imported(problems, reader, modules, tree, name)
    makes_inputs = names is None or "inputs" in names
    found = PythonReference(function, tuple(modules.values()), makes_inputs=makes_inputs)
    return replace(found, takes=tuple(dict.fromkeys(one.argument.arg for one in _arguments_of(found))))


@dataclass(frozen=True, slots=True)
class _Argument:
    """An argument of the reference or of `inputs`, which must be given unless it is `optional`."""

    module: SourceModule
    function: str
    argument: ast.arg
    optional: bool


def _arguments_of(reference: PythonReference) -> Iterator[_Argument]:
    """The arguments of the reference by name, and those of `inputs` behind its own two, as far as the text tells."""
    for function, own in ((reference.function, 0), *((("inputs", 2),) if reference.makes_inputs else ())):
        found = _definition(reference.modules, function)
        if found is None:
            continue
        module, node = found
        given = [*node.args.posonlyargs, *node.args.args]
        least = len(given) - len(node.args.defaults)
        for at, argument in enumerate(given[own:], own):
            yield _Argument(module, node.name, argument, bool(node.decorator_list) or at >= least)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            yield _Argument(module, node.name, argument, bool(node.decorator_list) or default is not None)


def _definition(modules: Sequence[SourceModule], function: str) -> tuple[SourceModule, ast.FunctionDef] | None:
    """The function of this name in the first of the modules, or where that imports it from; None where it is none."""
    by_name = {one.name: one for one in modules}
    module: SourceModule | None = modules[0]
    for _ in range(_MOST_MODULES):
        if module is None:
            return None
        package = module.name if module.is_package else module.name.rpartition(".")[0]
        elsewhere = None
        for node in ast.walk(ast.parse(module.text)):
            if isinstance(node, ast.FunctionDef) and node.name == function:
                return module, node
            if isinstance(node, ast.ImportFrom):
                names = [one.name for one in node.names if (one.asname or one.name) == function]
                elsewhere = (_absolute(node, package), names[0]) if names else elsewhere
        if elsewhere is None:
            return None
        module, function = by_name.get(elsewhere[0]), elsewhere[1]
    return None


def check_arguments(
    problems: Problems, reference: PythonReference, arguments: Sequence[str], parameters: Sequence[str]
) -> PythonReference:
    """The reference, which cannot be called where it or `inputs` names what is none of the kernel's `arguments` and no
    parameter of an instance: that is reported at its place."""
    if reference.problem:
        return reference
    for one in _arguments_of(reference):
        known = [*parameters] if one.function == "inputs" else [*arguments, *parameters]
        name = one.argument.arg
        if one.optional or name in known:
            continue
        what = "parameter of an instance" if one.function == "inputs" else "size, runtime argument, parameter or input"
        message = f"`{one.function}` takes `{name}`, which is not a {what}; {did_you_mean(name, known)}known: "
        message += join_names(known) or "none"
        line = one.module.text.splitlines()[one.argument.lineno - 1]
        column = len(line.encode()[: one.argument.col_offset].decode())
        start = Position(one.argument.lineno - 1, column)
        span = Span(one.module.path, start, replace(start, column=column + len(name)))
        near = nearest(name, known)
        fixes = (Fix(span, near),) if near else ()
        found = Diagnostic(Severity.ERROR, Source.REFERENCE, "reference/arguments", message, span, fixes=fixes)
        problems.found.append(found)
        return replace(reference, problem=message)
    return reference


def _refused(problems: Problems, code: str, message: str) -> PythonReference:
    found = Diagnostic(
        Severity.ERROR,
        problems.document.source,
        f"{problems.document.source.value}/{code}",
        message,
        problems.document.span_of(PLACE),
    )
    problems.found.append(found)  # no error that leaves nothing to compile
    return PythonReference("", (), message)


def _parsed(problems: Problems, module: SourceModule) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in strings
            return ast.parse(module.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = (getattr(error, "lineno", None) or 1) - 1
        column = max((getattr(error, "offset", None) or 1) - 1, 0)
        message = getattr(error, "msg", None) or str(error)
        place = Position(line, column)
        problems.found.append(
            Diagnostic(Severity.ERROR, Source.REFERENCE, "reference/syntax", message, Span(module.path, place, place))
        )
        return None


def _names_of(tree: ast.Module) -> set[str] | None:
    """The names that a module binds at its top; None where that is unknown."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                if any(one.name == "*" for one in imported):
                    return None
                names |= {(one.asname or one.name).partition(".")[0] for one in imported}
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case _:
                waiting += ast.iter_child_nodes(node)
    return names


def _add_imported(
    problems: Problems, reader: NamedFiles, modules: dict[str, SourceModule], tree: ast.Module, name: str
) -> None:
    """Add the modules in the reference's folder that it imports, and those that they import."""
    folder = os.path.dirname(modules[name].path)  # noqa: PTH120
    waiting = list(_imports(tree, ""))
    while waiting and len(modules) < _MOST_MODULES:
        wanted = waiting.pop()
        if wanted in modules:
            continue
        found = _module(problems, reader, folder, wanted)
        if found is None:
            continue
        modules[wanted] = found
        inner = _parsed(problems, found)
        package = wanted if found.is_package else wanted.rpartition(".")[0]
        waiting += [] if inner is None else _imports(inner, package)


def _module(problems: Problems, reader: NamedFiles, folder: str, name: str) -> SourceModule | None:
    base = os.path.join(folder, *name.split("."))  # noqa: PTH118
    for path, is_package in ((os.path.join(base, "__init__.py"), True), (f"{base}.py", False)):  # noqa: PTH118
        read = reader.text(path) if reader.is_inside(path) else None
        if read is not None:
            problems.found += read.diagnostics
            return SourceModule(name, path, read.text, is_package)
    return None


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """The modules that a module may import, with the packages around them; also names that may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _with_packages(one.name)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            if base:
                yield from _with_packages(base)
                yield from (f"{base}.{one.name}" for one in node.names if one.name != "*")


def _absolute(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts: Sequence[str] = package.split(".") if package else []
    kept = parts[: len(parts) - node.level + 1]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: count + 1]) for count in range(len(parts)))
