"""Demangles C++ function names into trees.

The grammar: the Itanium C++ ABI, "External Names (a.k.a. Mangling)"
(https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling), with clang's extensions, as far as kernels' names need
it.

Equal trees of one `NamePool` are one object, so that comparing them is cheap however often a name repeats itself: the
argument types of a CK kernel repeat all its template arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

from ckwatch.model.lazy_dataclass import dataclass

HOLE = "\0"

_SUFFIXES = {
    "int": "",
    "unsigned int": "u",
    "long": "l",
    "unsigned long": "ul",
    "long long": "ll",
    "unsigned long long": "ull",
}


class NameNodeKind(Enum):
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
class NameNode:
    """`size` is about the length of the whole text."""

    kind: NameNodeKind
    text: str
    children: tuple[NameNode, ...]
    size: int


class NamePool:
    """Trees of names, equal ones being one object."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[NameNodeKind, str, tuple[NameNode, ...]], NameNode] = {}

    def node(self, kind: NameNodeKind, text: str = "", *children: NameNode) -> NameNode:
        key = (kind, text, children)
        if key not in self._nodes:
            size = len(text) + sum(child.size + 2 for child in children)
            self._nodes[key] = NameNode(kind, text, children, size)
        return self._nodes[key]


def last_name(node: NameNode) -> str:
    """The name without its scope and template arguments."""
    while node.kind is NameNodeKind.TEMPLATE:
        node = node.children[0]
    return node.text


def full_name(node: NameNode) -> str:
    """The whole name, much as llvm-cxxfilt prints it, but for what a function template returns.

    It may be huge: names repeat themselves. `NameNode.size` tells before.
    """
    inner = [full_name(child) for child in node.children]
    if node.kind is NameNodeKind.NAME:
        return "::".join([*inner, node.text])
    if node.kind is NameNodeKind.TEMPLATE:
        return f"{inner[0]}<{_listed(inner[1:])}>"
    if node.kind is NameNodeKind.LITERAL:
        return literal(node, inner[0])
    if node.kind is NameNodeKind.PACK:
        return _listed(inner)
    if node.kind is NameNodeKind.FUNCTION:
        return f"{inner[0]} ({_parameters(inner[1:])})"
    if node.kind is NameNodeKind.ENCODING:
        return f"{inner[0]}({_parameters(inner[1:])})"
    return joined(node.text, inner)


def literal(node: NameNode, kind: str) -> str:
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


_DEEPEST = 200

_BUILTINS = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short",
    "t": "unsigned short", "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double",
    "e": "long double", "g": "__float128", "z": "...",
}  # fmt: skip
_D_BUILTINS = {
    "Da": "auto", "Dc": "decltype(auto)", "Dh": "half", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t",
    "Dn": "std::nullptr_t",
}  # fmt: skip
_STANDARD = {
    "Sa": "allocator",
    "Sb": "basic_string",
    "Ss": "string",
    "Si": "istream",
    "So": "ostream",
    "Sd": "iostream",
}
_WRAPPERS = {"P": "\0*", "R": "\0&", "O": "\0&&", "K": "\0 const", "V": "\0 volatile", "r": "\0 restrict"}
_OPERATORS = {
    "nw": "new", "na": "new[]", "dl": "delete", "da": "delete[]", "ps": "+", "ng": "-", "ad": "&", "de": "*", "co": "~",
    "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%", "an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=",
    "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=", "aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<", "rs": ">>",
    "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=", "nt": "!",
    "aa": "&&", "oo": "||", "pp": "++", "mm": "--", "cm": ",", "pm": "->*", "pt": "->", "cl": "()", "ix": "[]",
    "ss": "<=>",
}  # fmt: skip
_UNARY = {"ps", "ng", "ad", "de", "co", "nt"}


def demangle(symbol: str, names: NamePool) -> NameNode:
    """The function that a symbol names: an encoding. Raises ValueError where it cannot be read."""
    if not symbol.startswith("_Z"):
        raise ValueError(f"{symbol} is not mangled")
    try:
        return _Demangler(names, symbol).whole()
    except (IndexError, RecursionError) as error:
        raise ValueError(f"{symbol} cannot be read") from error


class _Demangler:
    """A position in one symbol. Its methods read what they are named by, and raise ValueError where it is not there."""

    def __init__(self, names: NamePool, symbol: str) -> None:
        self._node = names.node
        self._text = symbol
        self._at = 2
        self._depth = 0
        self._seen: list[NameNode] = []
        self._arguments: tuple[NameNode, ...] = ()

    def whole(self) -> NameNode:
        found = self._encoding()
        if self._at < len(self._text) and self._text[self._at] != ".":
            raise ValueError(f"{self._text} goes on after its name")
        return found

    # -- the text

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _pair(self) -> str:
        return self._text[self._at : self._at + 2]

    def _take(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _expect(self, expected: str) -> None:
        if not self._take(expected):
            raise ValueError(f"{self._text} cannot be read at {self._at}")

    def _until(self, end: str) -> str:
        at = self._text.index(end, self._at)
        found = self._text[self._at : at]
        self._at = at + len(end)
        return found

    def _digits(self) -> str:
        start = self._at
        while self._next().isdigit():
            self._at += 1
        return self._text[start : self._at]

    def _sequence(self) -> int:
        """`_` is 0, `0_` is 1, in base 36."""
        text = self._until("_")
        return int(text, 36) + 1 if text else 0

    def _add(self, node: NameNode) -> NameNode:
        self._seen.append(node)
        return node

    def _named(self, text: str, scope: NameNode | None = None) -> NameNode:
        return self._node(NameNodeKind.NAME, text, *([scope] if scope else []))

    # -- functions and names

    def _encoding(self) -> NameNode:
        name = self._name(of_function=True)
        if self._next() in ("", "E", "."):
            return self._node(NameNodeKind.ENCODING, "", name)
        if name.kind is NameNodeKind.TEMPLATE and _returns(name.children[0]):
            self._type()
        parameters = []
        while self._next() not in ("", "E", "."):
            parameters.append(self._type())
        return self._node(NameNodeKind.ENCODING, "", name, *parameters)

    def _name(self, of_function: bool = False) -> NameNode:
        if self._take("N"):
            return self._nested(of_function)
        if self._take("Z"):
            return self._local()
        if self._next() == "S" and self._pair() != "St":
            found = self._substitution()
        else:
            standard = self._named("std") if self._take("St") else None
            found = self._unqualified(standard)
            if self._next() == "I":
                self._add(found)
        return self._template(found, of_function) if self._next() == "I" else found

    def _nested(self, of_function: bool) -> NameNode:
        while self._next() in ("r", "V", "K", "R", "O") and self._next():
            self._at += 1
        found: NameNode | None = None
        while not self._take("E"):
            if self._take("St"):
                found = self._named("std")
                continue
            if self._next() == "S":
                found = self._substitution()
                continue
            if self._next() == "I" and found is not None:
                found = self._template(found, of_function)
            elif self._next() == "T":
                found = self._parameter()
            elif self._take("Dt") or self._take("DT"):
                found = self._decltype()
            else:
                found = self._unqualified(found)
            if self._next() != "E":
                self._add(found)
        if found is None:
            raise ValueError(f"{self._text} has a name without parts")
        return found

    def _local(self) -> NameNode:
        outer, self._arguments = self._encoding_of_its_own()
        self._expect("E")
        if self._take("s"):
            found = self._named("string literal", outer)
        else:
            if self._take("d"):
                self._until("_")
            found = self._in_scope(self._name(), outer)
        if self._take("__"):
            self._until("_")
        elif self._next() == "_":
            self._at += 1
            self._digits()
        return found

    def _encoding_of_its_own(self) -> tuple[NameNode, tuple[NameNode, ...]]:
        kept = self._arguments
        return self._encoding(), self._arguments or kept

    def _in_scope(self, node: NameNode, scope: NameNode) -> NameNode:
        """The node with a scope before its first name."""
        if node.kind is NameNodeKind.NAME and not node.children:
            return self._named(node.text, scope)
        if node.kind in (NameNodeKind.NAME, NameNodeKind.TEMPLATE):
            return self._node(node.kind, node.text, self._in_scope(node.children[0], scope), *node.children[1:])
        return self._node(NameNodeKind.JOINED, f"{HOLE}::{HOLE}", scope, node)

    def _unqualified(self, scope: NameNode | None) -> NameNode:
        self._take("L")  # of internal linkage
        if self._next().isdigit():
            size = int(self._digits())
            text = self._text[self._at : self._at + size]
            if len(text) < size:
                raise ValueError(f"{self._text} is cut short")
            self._at += size
            text = "(anonymous namespace)" if text.startswith("_GLOBAL__N") else text
        elif self._take("Ut"):
            text = f"'unnamed{self._until('_')}'"
        elif self._take("Ul"):
            parameters = []
            while not self._take("E"):
                parameters.append(self._type())
            listed = [] if parameters == [self._named("void")] else parameters
            number = self._until("_")
            inner = self._node(NameNodeKind.JOINED, f"'lambda{number}'({', '.join(HOLE * len(listed))})", *listed)
            return inner if scope is None else self._node(NameNodeKind.JOINED, f"{HOLE}::{HOLE}", scope, inner)
        elif self._next() in ("C", "D") and scope is not None and self._pair()[1:].isdigit():
            text = ("~" if self._next() == "D" else "") + last_name(scope)
            self._at += 2
        elif self._take("cv"):
            return self._node(NameNodeKind.JOINED, f"{HOLE}::operator {HOLE}", scope or self._named(""), self._type())
        elif self._pair() in _OPERATORS:
            text = f"operator{_OPERATORS[self._pair()]}"
            self._at += 2
        else:
            raise ValueError(f"{self._text} cannot be read at {self._at}")
        while self._take("B"):
            size = int(self._digits())
            text += f"[abi:{self._text[self._at : self._at + size]}]"
            self._at += size
        return self._named(text, scope)

    # -- templates

    def _template(self, base: NameNode, of_function: bool = False) -> NameNode:
        arguments = self._template_arguments()
        if of_function:
            self._arguments = arguments
        return self._node(NameNodeKind.TEMPLATE, "", base, *arguments)

    def _template_arguments(self) -> tuple[NameNode, ...]:
        self._expect("I")
        return self._arguments_until_end()

    def _arguments_until_end(self) -> tuple[NameNode, ...]:
        found = []
        while not self._take("E"):
            found.append(self._template_argument())
        return tuple(found)

    def _template_argument(self) -> NameNode:
        if self._take("J"):
            return self._node(NameNodeKind.PACK, "", *self._arguments_until_end())
        if self._take("X"):
            found = self._expression()
            self._expect("E")
            return found
        if self._take("Tn"):  # of a parameter declared auto, of this type
            self._type()
            return self._template_argument()
        if self._take("Ty"):
            return self._template_argument()
        return self._literal() if self._next() == "L" else self._type()

    def _literal(self) -> NameNode:
        self._expect("L")
        if self._take("_Z"):
            found = self._encoding()
            self._expect("E")
            return self._node(NameNodeKind.JOINED, f"&{HOLE}", found)
        kind = self._type()
        return self._node(NameNodeKind.LITERAL, self._until("E").replace("n", "-", 1), kind)

    def _parameter(self) -> NameNode:
        self._expect("T")
        number = self._sequence()
        return self._arguments[number] if number < len(self._arguments) else self._named(f"T{number}")

    def _substitution(self) -> NameNode:
        if self._pair() in _STANDARD:
            found = self._named(_STANDARD[self._pair()], self._named("std"))
            self._at += 2
            return found
        self._expect("S")
        return self._seen[self._sequence()]

    # -- types

    def _type(self) -> NameNode:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"{self._text} is nested too deeply")
        try:
            return self._any_type()
        finally:
            self._depth -= 1

    def _any_type(self) -> NameNode:
        first, pair = self._next(), self._pair()
        if first in _BUILTINS:
            self._at += 1
            return self._named(_BUILTINS[first])
        if pair in _D_BUILTINS:
            self._at += 2
            return self._named(_D_BUILTINS[pair])
        if self._take("DF16b"):
            return self._named("std::bfloat16_t")
        if self._take("DF"):
            return self._named(f"_Float{self._until('_')}")
        if first == "S" and pair != "St":
            found = self._substitution()
            return self._add(self._template(found)) if self._next() == "I" else found
        if first == "T":
            found = self._parameter()
            if self._next() != "I":
                return self._add(found)
            return self._add(self._template(self._add(found)))
        return self._add(self._compound())

    def _compound(self) -> NameNode:
        for prefix, pattern in _WRAPPERS.items():
            if self._take(prefix):
                return self._wrapped(pattern, self._type())
        for prefix, read in _COMPOUNDS.items():
            if self._take(prefix):
                return read(self)
        return self._name()

    def _array(self, pattern: str) -> NameNode:
        count = self._until("_")
        return self._node(NameNodeKind.JOINED, pattern.format(HOLE, count), self._type())

    def _in_address_space(self) -> NameNode:
        space = self._unqualified(None)
        if self._next() == "I":
            self._template_arguments()
        return self._node(NameNodeKind.JOINED, f"{HOLE} {HOLE}", self._type(), space)

    def _member_pointer(self) -> NameNode:
        owner, member = self._type(), self._type()
        if member.kind is NameNodeKind.FUNCTION:
            return self._function(f"{HOLE}::*", member, owner)
        return self._node(NameNodeKind.JOINED, f"{HOLE} {HOLE}::*", member, owner)

    def _function_type(self) -> NameNode:
        self._take("Y")
        parts = []
        while not self._take("E"):
            parts.append(self._type())
        if not parts:
            raise ValueError(f"{self._text} has a function that returns nothing")
        return self._node(NameNodeKind.FUNCTION, "", *parts)

    def _wrapped(self, pattern: str, inner: NameNode) -> NameNode:
        if inner.kind is NameNodeKind.PACK:
            return self._node(NameNodeKind.PACK, "", *(self._wrapped(pattern, child) for child in inner.children))
        if inner.kind is NameNodeKind.FUNCTION and pattern in (_WRAPPERS["P"], _WRAPPERS["R"], _WRAPPERS["O"]):
            return self._function(pattern.removeprefix(HOLE), inner)
        return self._node(NameNodeKind.JOINED, pattern, inner)

    def _function(self, mark: str, function: NameNode, *marked: NameNode) -> NameNode:
        """A pointer or reference to a function, which is written in its middle."""
        returned, *parameters = function.children
        listed = [] if parameters == [self._named("void")] else parameters
        return self._node(
            NameNodeKind.JOINED, f"{HOLE} ({mark})({', '.join(HOLE * len(listed))})", returned, *marked, *listed
        )

    # -- expressions

    def _decltype(self) -> NameNode:
        found = self._expression()
        self._expect("E")
        return self._node(NameNodeKind.JOINED, f"decltype({HOLE})", found)

    def _expression(self) -> NameNode:
        """Of the few kinds that template arguments of kernels have."""
        if self._next() == "L":
            return self._literal()
        if self._next() == "T":
            return self._parameter()
        if self._take("sZ"):
            found = self._parameter()
            count = len(found.children) if found.kind is NameNodeKind.PACK else 1
            return self._node(NameNodeKind.LITERAL, str(count), self._named("unsigned long"))
        if self._take("sr"):
            scope = self._type()
            name = self._unqualified(scope)
            return self._template(name) if self._next() == "I" else name
        operator = self._pair()
        if operator not in _OPERATORS:
            raise ValueError(f"{self._text} has an expression that is not known, at {self._at}")
        self._at += 2
        if operator in _UNARY:
            return self._node(NameNodeKind.JOINED, f"{_OPERATORS[operator]}{HOLE}", self._expression())
        return self._node(
            NameNodeKind.JOINED, f"({HOLE} {_OPERATORS[operator]} {HOLE})", self._expression(), self._expression()
        )


_COMPOUNDS: Mapping[str, Callable[[_Demangler], NameNode]] = {
    "Dp": lambda at: at._type(),
    "Dt": lambda at: at._decltype(),
    "DT": lambda at: at._decltype(),
    "Dv": lambda at: at._array("{} vector[{}]"),
    "DB": lambda at: at._named(f"_BitInt({at._until('_')})"),
    "DU": lambda at: at._named(f"unsigned _BitInt({at._until('_')})"),
    "U": lambda at: at._in_address_space(),
    "u": lambda at: at._unqualified(None),
    "A": lambda at: at._array("{} [{}]"),
    "M": lambda at: at._member_pointer(),
    "F": lambda at: at._function_type(),
}
"""Readers of what follows a prefix of a type, except for `_WRAPPERS`."""


def _returns(name: NameNode) -> bool:
    """Return True if a function template's return type is part of its name: not for constructors and conversions."""
    return name.kind is NameNodeKind.NAME and not (name.children and name.text == last_name(name.children[0]))
