"""The text of an exported module: its description, the code of `ckwatch.exported.runtime`, and its functions."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path

from ckwatch.exported.description import (
    ExportedUnit,
    default_of,
    defaults_of,
    formula,
    kernel_literal,
    operand_line,
    python_string,
)
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.tensors import names_in
from ckwatch.model.version import __version__
from ckwatch.system.durable_files import fitting_name, replace_file
from ckwatch.system.user_files import read_file

EXPORTED = "ckwatch.exported.runtime"

PARTS = ("kernel", "arrays", "planning", "loading", "calling")
"""Modules of `ckwatch.exported.runtime`, each before those that use it."""

ALL_PARTS = (*PARTS, "choosing")
"""With what a module needs that chooses among instances."""

MARK = "# Exported by ckwatch"
"""How the first line of an exported module begins: such a file may be replaced by another export."""

OPTIONS = ("out", "stream", "workspace")
PUBLIC = ("ARCH", "UNIT", "KernelError", "LibraryError", "UnsupportedError", "load", "workspace_size")
OWN = ("Tensor", "_callee", "__all__", *PUBLIC, "UNITS", "instances_for")

PYTHON_TYPES = {"float": "float", "double": "float", "bool": "bool"}
"""Of C types that are no integers."""

KIND_NAMES = {
    "hip": "AMD GPUs of arch {arch}",
    "cuda": "NVIDIA GPUs of arch {arch}",
    "cpu": "the CPU it was compiled on",
}


LOAD = '''\
def load() -> None:
    """Load the shared object; otherwise the first call does. Raises LibraryError where it cannot."""
    _callee.load()'''

_CALLEE = "_callee = Callee(_kernel, Library(_kernel, Path(__file__).with_name(_kernel.library)))"


@dataclass(frozen=True, slots=True)
class SharedCode:
    """The code that all exported modules share: merged imports, the text, and the names it defines."""

    imports: str
    text: str
    names: frozenset[str]


@cache
def shared_code(parts: tuple[str, ...] = PARTS) -> SharedCode:
    """Modules of `ckwatch.exported.runtime` as one."""
    plain: set[str] = set()
    picked: dict[str, set[str]] = {}
    texts = []
    names: set[str] = set()
    for part in parts:
        source = resources.files(EXPORTED).joinpath(f"{part}.py").read_text(encoding="utf-8")
        tree = ast.parse(source)
        end = 0
        for node in tree.body:
            if isinstance(node, ast.Import):
                plain.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                if not node.module.startswith(EXPORTED):
                    picked.setdefault(node.module, set()).update(alias.name for alias in node.names)
            elif not (end == 0 and isinstance(node, ast.Expr)):  # a docstring
                break
            end = node.end_lineno or 0
        names |= _defined(tree.body)
        texts.append("\n".join(source.splitlines()[end:]).strip("\n"))
    future = picked.pop("__future__")
    lines = [f"from __future__ import {', '.join(sorted(future))}", ""]
    picked.setdefault("typing", set()).add("TypeVar")
    lines += [f"import {name}" for name in sorted(plain)]
    lines += [f"from {module} import {', '.join(sorted(picked[module]))}" for module in sorted(picked)]
    imported = plain | {name for group in picked.values() for name in group}
    return SharedCode("\n".join(lines), "\n\n\n".join(texts), frozenset(names | imported))


def _defined(body: Iterable[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def module_text(exported: ExportedUnit) -> str:
    function = function_name(exported)
    return assembled(
        about=_about(exported, function),
        public=(*PUBLIC, function),
        constants=(f"UNIT = {python_string(exported.unit)}", f"ARCH = {python_string(exported.arch)}"),
        functions=(called_function(exported, function), workspace_size_function(exported), LOAD),
        shared=shared_code(),
        end=f"_kernel = {kernel_literal(exported)}\n{_CALLEE}",
    )


def assembled(
    *,
    about: str,
    public: Iterable[str],
    constants: Iterable[str],
    functions: Iterable[str],
    shared: SharedCode,
    end: str,
) -> str:
    """A module: what it says, what it has for others, and at the `end` the kernel."""
    sections = [
        "\n".join(
            [
                f"{MARK} {__version__}: another export of the same name replaces it.",
                docstring(about),
                "",
                shared.imports,
                "",
                f"__all__ = [{', '.join(map(python_string, public))}]",
                "",
                *constants,
                "",
                'Tensor = TypeVar("Tensor")',
            ]
        ),
        *functions,
        "# What follows is the same in every such module, but for the kernel at the end.",
        shared.text,
        end,
    ]
    return "\n\n\n".join(sections) + "\n"


def identifier(text: str) -> str:
    """A Python name that looks like `text`."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")
    if not name or name[0].isdigit():
        name = f"kernel_{name}".rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) else name


def function_name(exported: ExportedUnit) -> str:
    """The name of the function to call: the kernel's."""
    name = identifier(exported.kernel)
    taken = shared_code(ALL_PARTS).names.union(dir(builtins), OWN, ("_kernel",))
    return f"{name}_kernel" if name in taken else name


def parameter_name(name: str) -> str:
    """The Python argument that stands for a C argument."""
    return f"{name}_" if keyword.iskeyword(name) or name in (*OPTIONS, "_callee") else name


def _about(exported: ExportedUnit, function: str) -> str:
    lines = [
        *usage_lines(exported, exported.name, function),
        "",
        *unit_lines(exported),
        "",
        NEEDS,
    ]
    return "\n".join(lines)


NEEDS = "There is no gradient. Needs nothing but Python 3.10; torch and numpy are used where arguments are theirs."


def usage_lines(exported: ExportedUnit, module: str, function: str) -> list[str]:
    """Describe what a module computes, on what, and how to call it."""
    where = KIND_NAMES[exported.kind].format(arch=exported.arch)
    arguments = ", ".join(parameter_name(name) for name, _ in exported.inputs) or "out=…"
    operation = exported.operation
    accumulator = "" if operation.computation is None else f", accumulated in {operation.accumulator}"
    return [
        f"{formula(operation)}{accumulator}, on {where}.",
        "",
        f"    import {module}",
        "",
        f"    {', '.join(name for name, _ in operation.outputs)} = {module}.{function}({arguments})",
    ]


def unit_lines(exported: ExportedUnit) -> list[str]:
    """Which unit it is, and where its code lies."""
    parameters = ", ".join(f"{name}={value}" for name, value in exported.parameters.items())
    return [
        f"Unit {exported.unit}: {parameters or 'no parameters'}.",
        f"Artifact {exported.key}.",
        f"C function {exported.symbol} in {exported.library}, which must lie beside this file.",
    ]


def called_function(exported: ExportedUnit, name: str) -> str:
    outputs = exported.operation.outputs
    one = len(outputs) == 1
    given = "Tensor" if one else f"tuple[{', '.join(['Tensor | None'] * len(outputs))}]"
    result = "Tensor" if one else f"tuple[{', '.join(['Tensor'] * len(outputs))}]"
    computed = exported.operation.contraction
    nullable = () if computed is None else computed.nullable_scales
    inputs = [
        f"{parameter_name(tensor)}: Tensor{' | None' if tensor in nullable else ''}" for tensor, _ in exported.inputs
    ]
    options = [f"out: {given} | None = None" if inputs else f"out: {'Tensor' if one else result}", *_runtime(exported)]
    options += [f"{parameter_name(size)}: int | None = None" for size in exported.sizes]
    if exported.kind != "cpu":
        options.append("stream: object = None")
    options.append("workspace: object = None")
    lines = [
        f"def {name}(",
        *(f"    {parameter}," for parameter in (*inputs, "*", *options)),
        f") -> {result}:",
        textwrap.indent(docstring(_function_about(exported)), "    "),
        f"    results: {'tuple[Tensor]' if one else result} = _callee(",
        f"        {argument_tuple(tensor for tensor, _ in exported.inputs)},",
        f"        {'(out,)' if one else f'out or {(None,) * len(outputs)}'},",
        f"        {argument_tuple(exported.sizes)},",
        f"        {argument_tuple(runtime for runtime, _ in exported.runtime)},",
        f"        {'None' if exported.kind == 'cpu' else 'stream'},",
        "        workspace,",
        "    )",
        f"    return results{'[0]' if one else ''}",
    ]
    return "\n".join(lines)


def _function_about(exported: ExportedUnit) -> str:
    operation = exported.operation
    outputs = ", ".join(name for name, _ in operation.outputs)
    tensors = (*exported.inputs, *operation.outputs)
    paragraphs = [
        f"{formula(operation)}.",
        "\n".join(f"    {operand_line(name, tensor, exported)}" for name, tensor in tensors),
    ]
    usual = {name: text for name, text in defaults_of(exported).items() if not names_in(text)}
    following = ", ".join(name for name in exported.sizes if name not in usual)
    given = (
        "Tensors of torch, arrays of numpy, objects with `__cuda_array_interface__`, `__hip_array_interface__`, "
        f"`data_ptr()` or DLPack, or pointers as integers. {following or 'No sizes'} follow from shapes and strides; "
        "what these do not give, as for pointers, is passed."
    )
    if usual:
        given += f" Without these, {', '.join(f'{name} is {text}' for name, text in usual.items())}."
    given += "".join(
        f" {name} must be the same memory as {tensor.buffer}."
        for name, tensor in exported.inputs
        if tensor.buffer != name
    )
    if operation.contraction is not None and operation.contraction.nullable_scales:
        given += " A scale that is None counts as 1."
    results = f"{outputs}: `out`, or new memory of the library that the inputs are of. "
    if exported.kind == "cpu":
        results += "`workspace` is memory for the kernel's own use; it is allocated where it is not given."
    else:
        results += (
            "`stream` is torch's current one, or the one that the arrays name, unless it is given as an object or a "
            "handle; the call returns when the kernel has been launched. `workspace` is device memory for the kernel's "
            "own use, or a function from bytes to such memory; torch allocates it where tensors are given."
        )
    errors = (
        "Raises TypeError for what is no such array or has another dtype, ValueError for wrong shapes, strides and "
        "devices, UnsupportedError when the kernel does not support the sizes, KernelError for its other error codes, "
        "and LibraryError when the shared object cannot be loaded."
    )
    paragraphs += [textwrap.fill(text, 112, break_on_hyphens=False) for text in (given, results, errors)]
    return "\n\n".join(paragraphs)


def size_parameters(exported: ExportedUnit) -> str:
    """The parameters of a function that takes all sizes and runtime arguments."""
    defaults = defaults_of(exported)
    sizes = [f"{parameter_name(size)}: {'int | None = None' if size in defaults else 'int'}" for size in exported.sizes]
    options = [*sizes, *_runtime(exported)]
    return f"{'*, ' if options else ''}{', '.join(options)}"


def workspace_size_function(exported: ExportedUnit) -> str:
    """The function that says how much workspace a call needs."""
    lines = [
        f"def workspace_size({size_parameters(exported)}) -> int:",
        '    """Bytes of workspace that such a call needs. Raises UnsupportedError where it would be refused."""',
        f"    runtime = {argument_tuple(name for name, _ in exported.runtime)}",
        f"    return _callee.workspace_size({argument_tuple(exported.sizes)}, runtime)",
    ]
    return "\n".join(lines)


def _runtime(exported: ExportedUnit) -> list[str]:
    """The runtime arguments as parameters; they stand behind a `*`, so that their defaults are in no order."""
    return [
        f"{parameter_name(name)}: {PYTHON_TYPES.get(c_type, 'int')}{default_of(name)}"
        for name, c_type in exported.runtime
    ]


def argument_tuple(names: Iterable[str]) -> str:
    """A tuple of the Python arguments that stand for C arguments."""
    parameters = [parameter_name(name) for name in names]
    return f"({', '.join(parameters)}{',' if len(parameters) == 1 else ''})"


def docstring(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    end = "\n" if "\n" in text else ""
    return f'"""{escaped}{end}"""'


SHADOWED = frozenset({"torch", "numpy", "ckwatch", *sys.stdlib_module_names})
"""Modules that an exported one must not stand in for."""


ROOM_BYTES = 40
"""For what follows a module's name: `.kernel.so`, `.cpython-313.opt-2.pyc` and the number of a temporary file."""


def module_name(kernel: str, instance: str, arch: str) -> str:
    """The name of a unit's module where none is given; units of one kernel have different ones."""
    place = "" if arch == "host" else f" {arch}"
    return fitting_name(identifier(f"{kernel} {instance}{place}"), room=ROOM_BYTES, separator="_")


def checked_name(name: str) -> str:
    """A name that the user gives a module. Raises CkwatchError for one that cannot be imported."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise CkwatchError(
            f"'{name}' cannot be a module's name", f"a name that can be imported is `{identifier(name)}`"
        )
    if name in SHADOWED:
        raise CkwatchError(f"a module called '{name}' would stand in for Python's own", "give it another name")
    return name


def write_module(exported: ExportedUnit, shared_object: bytes, folder: Path) -> tuple[Path, Path]:
    """Write the shared object and the module to `folder`; their paths. Raises as `write_files`."""
    library, module = write_files(folder, exported.name, module_text(exported), {exported.library: shared_object})
    return library, module


def write_files(folder: Path, name: str, text: str, libraries: Mapping[str, bytes]) -> list[Path]:
    """Write shared objects and the module `name` to `folder`, which is made; their paths, the module's last.

    The shared objects come first: a module from an earlier export then reports that they have changed. Raises
    CkwatchError where a file cannot be written, or one that is no exported module is in the way.
    """
    module = folder / f"{name}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _require_own(module)
        for library, shared_object in libraries.items():
            replace_file(folder / library, shared_object, flushed=False)
        replace_file(module, text.encode(), flushed=False)
    except OSError as error:
        raise CkwatchError(f"cannot write to {folder}: {error.strerror or error}") from error
    return [*(folder / library for library in libraries), module]


def _require_own(module: Path) -> None:
    try:
        is_own = read_file(module).startswith(MARK.encode())
    except FileNotFoundError:
        return
    if not is_own:
        raise CkwatchError(f"{module} is there, and ckwatch did not write it", "choose another --name or --out")
