"""Places at which Python functions that kernel files name as references take parameters. Nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from ckwatch.model.text import Position, Range
from ckwatch_lsp.kernel_files.language.document import KernelFileText

_FORM = re.compile(r"(?P<file>[^:]+\.py):(?P<function>[A-Za-z_]\w*)", re.ASCII)

INPUTS = "inputs"
"""The function beside the reference that makes its inputs."""


class ReferenceName(NamedTuple):
    """`FILE.py:FUNCTION` of a kernel file, and where `FILE.py` stands."""

    file: str
    function: str
    range: Range


def reference_of(document: KernelFileText) -> ReferenceName | None:
    """The reference that a kernel file names; None where it names none."""
    for table in document.toml.tables:
        value = table.value("reference") if table.path == ("operation",) else None
        read = value.read() if value is not None else None
        form = _FORM.fullmatch(read) if isinstance(read, str) else None
        if value is not None and form is not None:
            start = value.start + (3 if value.text[:3] in ('"""', "'''") else 1)
            place = document.toml.range(start, start + len(form["file"]))
            return ReferenceName(form["file"], form["function"], place)
    return None


def argument_places(text: str, function: str, name: str, *, taken: bool = False) -> Iterator[Range]:
    """Yield the places of the argument `name` of the reference and of `inputs`, and of what reads it there.

    `taken`: of any use of the name in these functions, which a new argument of that name would collide with.
    """
    if name not in text:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = text.split("\n")
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name not in (function, INPUTS):
            continue
        given = node.args
        arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        if not taken and all(one.arg != name for one in arguments):
            continue
        for inner in ast.walk(node):
            named = inner.arg if isinstance(inner, ast.arg) else inner.id if isinstance(inner, ast.Name) else None
            if named == name and isinstance(inner, ast.arg | ast.Name):
                line = inner.lineno - 1
                column = len(lines[line].encode()[: inner.col_offset].decode(errors="replace"))
                yield Range(Position(line, column), Position(line, column + len(name)))
