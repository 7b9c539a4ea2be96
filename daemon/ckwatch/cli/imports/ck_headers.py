"""Composable Kernel's headers as text: a device operation's template parameters, and the interface that it has.

An interface is the class with the virtual `MakeArgumentPointer`. Its parameters say which tensors, sizes and operations
on elements an operation has; CK gives them the same names everywhere (`p_a`, `StrideA`, `KBatch`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from ckwatch.cli.imports.cpp_program import arguments_of
from ckwatch.cli.imports.source_text import elements, one_line
from ckwatch.headers.declarations import CkParameter, class_templates
from ckwatch.headers.masked_text import closing, masked
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.user_files import read_file

DEVICE = "ck/tensor_operation/gpu/device"
ELEMENT = "ck/tensor_operation/gpu/element"
_MAKE = "MakeArgumentPointer"
_LEVELS = 4


@dataclass(frozen=True, slots=True)
class InterfaceArgument:
    """A parameter of `MakeArgumentPointer`."""

    type: str
    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class ClassTemplate:
    """A class template of a header, and its first base class as it is written."""

    name: str
    header: str
    parameters: tuple[CkParameter, ...]
    base: str
    body: str


@dataclass(frozen=True, slots=True)
class Interface:
    """The interface of an operation, with its template arguments in terms of the operation's parameters."""

    name: str
    template: dict[str, str]
    arguments: tuple[InterfaceArgument, ...]


class CkHeaders:
    """The headers below a folder, read when they are asked for. `version` is that of CK, or says which it is."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder
        self.version = version

    @cached_property
    def _texts(self) -> dict[str, str]:
        paths = sorted((self.folder / DEVICE).rglob("*.hpp"))
        return {str(path.relative_to(self.folder)): read_file(path).decode("utf-8", "replace") for path in paths}

    def has(self, header: str) -> bool:
        """Return True if there is such a header."""
        return (self.folder / header).is_file()

    def class_template(self, name: str, preferred: Sequence[str] = ()) -> ClassTemplate | None:
        """A class template by its name; from one of the preferred headers if they have it."""
        for header in (*preferred, *self._texts):
            text = self._texts.get(header)
            if text is None or name not in text:
                continue
            for one in _class_templates(text, header, name):
                return one
        return None

    def element_operation(self, name: str) -> str | None:
        """The text of an operation on elements, from its `struct`."""
        for path in sorted((self.folder / ELEMENT).glob("*.hpp")):
            text = read_file(path).decode("utf-8", "replace")
            found = re.search(rf"^struct {re.escape(name)}\s*\{{", text, re.MULTILINE)
            if found is not None:
                return text[found.start() : closing(masked(text), found.end() - 1) + 1]
        return None

    @cached_property
    def _enumerations(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in sorted((self.folder / "ck").rglob("*.hpp")):
            if "library" in path.parts:
                continue
            text = read_file(path)
            if b"enum " not in text:
                continue
            code = masked(text.decode("utf-8", "replace"))
            for one in re.finditer(r"\benum\s+(?:struct|class)?\s*(\w+)[^{;]*\{([^}]*)\}", code):
                found.setdefault(one[1], [part.split("=")[0].strip() for part in one[2].split(",") if part.strip()])
        return found

    def enumerators(self, name: str) -> list[str]:
        """The enumerators of an enumeration; none of an unknown one."""
        return self._enumerations.get(name, [])

    def names(self) -> list[str]:
        """The names of all device operations."""
        return sorted({one for text in self._texts.values() for one in re.findall(r"\bstruct\s+(Device\w+)\b", text)})

    def interface(self, operation: ClassTemplate) -> Interface | None:
        """The interface of a device operation; None where no base class has one."""
        of = operation
        given = {one.name: one.name for one in operation.parameters}
        for _ in range(_LEVELS):
            name, arguments = arguments_of(one_line(of.base))
            base = self.class_template(name.rpartition("::")[2], (operation.header,))
            if base is None:
                return None
            names = [one.name for one in base.parameters]
            given = {own: _in_terms(argument, given) for own, argument in zip(names, arguments, strict=False)} | {
                one.name: one.default or "" for one in base.parameters[len(arguments) :]
            }
            if (made := _make_argument(base.body)) is not None:
                return Interface(base.name, given, made)
            of = base
        return None


def _in_terms(text: str, given: dict[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*\b", lambda one: given.get(one[0], one[0]), text)


def _class_templates(text: str, header: str, name: str) -> Iterator[ClassTemplate]:
    """The primary class templates of this name."""
    code = masked(text)
    for parameters, found in class_templates(code, name):
        brace = code.find("{", found.end() - 1)
        base = code[found.end() : brace] if code[found.end() - 1] == ":" else ""
        base = re.sub(r"^\s*(?:public|virtual)\s+", "", base).strip()
        yield ClassTemplate(name, header, parameters, base, code[brace : closing(code, brace) + 1])


def _make_argument(body: str) -> tuple[InterfaceArgument, ...] | None:
    found = re.search(rf"\bvirtual\b[^;{{}}]*?\b{_MAKE}\s*\(", body)
    if found is None:
        return None
    end = closing(body, found.end() - 1)
    return tuple(_argument(one) for one in elements(body[found.end() : end]))


def _argument(text: str) -> InterfaceArgument:
    before, equals, default = text.partition("=")
    found = re.match(r"(?P<type>.*?[\s&*>])(?P<name>\w+)\s*$", before.strip())
    kind, name = (found["type"], found["name"]) if found is not None else (before, "")
    kind = re.sub(r"\bconst\b(?!\s*void)|&", "", kind)
    return InterfaceArgument(one_line(kind), name, default.strip() if equals else None)
