"""The parts of a C++ name, as a tree.

Equal trees of one `Names` are one object, so that comparing them is cheap however often a name repeats itself: the
argument types of a CK kernel repeat all its template arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

HOLE = "\0"

_SUFFIXES = {
    "int": "",
    "unsigned int": "u",
    "long": "l",
    "unsigned long": "ul",
    "long long": "ll",
    "unsigned long long": "ull",
}


class Kind(Enum):
    NAME = auto()
    """`text`, in the scope that the only child is, or in none."""
    TEMPLATE = auto()
    """The first child with the others as its template arguments."""
    LITERAL = auto()
    """The value `text` of the type that the only child is."""
    PACK = auto()
    """The children one after the other."""
    JOINED = auto()
    """`text` with a child in the place of each `HOLE`."""
    FUNCTION = auto()
    """A function's type: what it returns, and its parameters."""
    ENCODING = auto()
    """A function: its name, and its parameters."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """`size` is about the length of the whole text."""

    kind: Kind
    text: str
    children: tuple[Node, ...]
    size: int


class Names:
    """Trees of names, equal ones being one object."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Kind, str, tuple[Node, ...]], Node] = {}

    def node(self, kind: Kind, text: str = "", *children: Node) -> Node:
        key = (kind, text, children)
        if key not in self._nodes:
            size = len(text) + sum(child.size + 2 for child in children)
            self._nodes[key] = Node(kind, text, children, size)
        return self._nodes[key]


def last_name(node: Node) -> str:
    """The name without its scope and template arguments."""
    while node.kind is Kind.TEMPLATE:
        node = node.children[0]
    return node.text


def in_full(node: Node) -> str:
    """The whole name, much as llvm-cxxfilt prints it, but for what a function template returns.

    It may be huge: names repeat themselves. `Node.size` tells before.
    """
    inner = [in_full(child) for child in node.children]
    if node.kind is Kind.NAME:
        return "::".join([*inner, node.text])
    if node.kind is Kind.TEMPLATE:
        return f"{inner[0]}<{_listed(inner[1:])}>"
    if node.kind is Kind.LITERAL:
        return literal(node, inner[0])
    if node.kind is Kind.PACK:
        return _listed(inner)
    if node.kind is Kind.FUNCTION:
        return f"{inner[0]} ({_parameters(inner[1:])})"
    if node.kind is Kind.ENCODING:
        return f"{inner[0]}({_parameters(inner[1:])})"
    return joined(node.text, inner)


def literal(node: Node, kind: str) -> str:
    """The text of a literal whose type's text is given, as it is written in C++."""
    if kind == "bool":
        return "true" if node.text == "1" else "false"
    if kind == "std::nullptr_t":
        return "nullptr"
    return f"{node.text}{_SUFFIXES[kind]}" if kind in _SUFFIXES else f"({kind}){node.text}"


def joined(pattern: str, texts: list[str]) -> str:
    parts = pattern.split(HOLE)
    return parts[0] + "".join(text + part for text, part in zip(texts, parts[1:], strict=True))


def _listed(texts: list[str]) -> str:
    return ", ".join(text for text in texts if text)


def _parameters(texts: list[str]) -> str:
    return "" if texts == ["void"] else _listed(texts)
