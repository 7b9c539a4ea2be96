"""Finds in C++ text what a linker or an assembler speaks of by its name: where an undefined function is called, where a
kernel is defined.

They know no lines. The text is read with a tolerant scanner that knows scopes: a name inside of a function's body is a
use, one at a namespace's or a class's level declares or defines it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from ckwatch.checks.clang_output import ClangMessage
from ckwatch.model.lazy_dataclass import dataclass

_UNDEFINED = re.compile(
    r"(?:undefined (?:reference to|(?:hidden |protected |internal )?symbol:?)|[Uu]nresolved extern function|"
    r"Undefined reference to) [`']?(?P<name>.+?)'?(?: in '[^']*')?$"
)
_DUPLICATE = re.compile(r"(?:multiple definition of|duplicate symbol:?) [`']?(?P<name>[^`']+?)(?:'.*)?$")
_ENTRY = re.compile(r"(?:[Ee]ntry(?: function)?|[Ff]unction(?: properties for)?) '?(?P<name>_Z\w+|[A-Za-z_]\w*)'?")
_CODE = re.compile(r"error in backend: .*@(?P<name>_Z\w+)")
_KERNEL_LIMIT = re.compile(r" in (?:function )?'(?P<name>[A-Za-z_][^']*)'")
_NOT_EXPORTED = re.compile(r"the source defines no exported function '(?P<name>\w+)'")
_ASSEMBLER = re.compile(
    r"(?:instruction|near|modifier|operation|operand|label|name|[Ff]eature|directive|types?|variable|register|symbol)\b.*?'(?P<word>[^']+)'"
)
INLINE_ASSEMBLY = "<inline asm>"
"""clang's name for the text of all assembly outside of functions."""
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s+(?:volatile|__volatile__|goto|inline))*\s*\(")
_DEFINED_AGAIN = re.compile(r"is already defined|redefinition")
_IN_ASSEMBLY = re.compile(r"[Pp]arsing error|[Ss]yntax error|[Aa]rguments? |[Oo]perand|[Ii]nstruction|[Mm]odifier")
_STRING = re.compile(r'R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_TYPE_DATA = re.compile(r"(?:vtable|VTT|typeinfo(?: name)?|construction vtable) for (?P<name>.+)")
_STUB = "__device_stub__"
_IN_FUNCTION = re.compile(r">>>\s*(?:referenced by )?[^(]*\((?P<function>.+)\)\s*$")
_ANONYMOUS = "(anonymous namespace)::"


class SymbolProblem(StrEnum):
    """A problem with a symbol."""

    UNDEFINED = "undefined"
    DUPLICATE = "duplicate"
    TYPE = "type"
    KERNEL = "kernel"
    NOT_EXPORTED = "not exported"


@dataclass(frozen=True, slots=True)
class NamedSymbol:
    """`spelled` as a person reads it, `name` its last part, `function` the name of what uses it ("" unknown)."""

    problem: SymbolProblem
    spelled: str
    name: str
    function: str = ""


def symbol_of(message: ClangMessage) -> NamedSymbol | None:
    """The symbol that a message of a linker or an assembler is about, None when it names none."""
    for pattern, problem in (
        (_NOT_EXPORTED, SymbolProblem.NOT_EXPORTED),
        (_UNDEFINED, SymbolProblem.UNDEFINED),
        (_DUPLICATE, SymbolProblem.DUPLICATE),
        (_ENTRY, SymbolProblem.KERNEL),
        (_KERNEL_LIMIT, SymbolProblem.KERNEL),
        (_CODE, SymbolProblem.KERNEL),
    ):
        match = pattern.search(message.text)
        if match is None:
            continue
        spelled = readable(match["name"].replace(_STUB, ""))
        of_type = _TYPE_DATA.match(spelled)
        if of_type is not None:
            return NamedSymbol(SymbolProblem.TYPE, spelled, last_name(of_type["name"]))
        return NamedSymbol(problem, spelled, last_name(spelled), last_name(_function(message)))
    return None


def _function(message: ClangMessage) -> str:
    if message.function:
        return readable(message.function)
    found = (match["function"] for line in message.tail if (match := _IN_FUNCTION.match(line)))
    return readable(next(found, ""))


def readable(symbol: str) -> str:
    """A mangled name's own part, `ns::f`; other names as they are. Arguments are left out."""
    if not symbol.startswith("_Z"):
        return symbol
    names: list[str] = []
    at = 2 + (symbol[2:3] == "Z")
    nested = symbol[at : at + 1] == "N"
    at += nested
    while symbol[at : at + 1] in ("K", "V", "L"):
        at += 1
    while (length := re.match(r"\d+", symbol[at:])) is not None:
        start = at + length.end()
        at = start + int(length[0])
        names.append(symbol[start:at])
        if not nested:
            break
    shown = [name for name in names if not name.startswith("_GLOBAL__N_")]
    return "::".join(shown).replace(_STUB, "") or symbol


def demangled(text: str) -> str:
    """`text` with the mangled names in it as `readable` has them."""
    return re.sub(r"\b_Z\w+", lambda match: readable(match[0]), text)


def last_name(symbol: str) -> str:
    """`plan` of `Planner::plan(int) const`, `later` of `int ns::later<int>(int)`, `operator+` of `operator+(A, B)`."""
    text = symbol.replace(_ANONYMOUS, "").replace("(anonymous namespace)", "")
    operator = re.search(r"\boperator\s*(?:\(\)|\[\]|[^\s\w(]+|\w+)", text)
    if operator is not None:
        return operator[0]
    depth = 0
    kept: list[str] = []
    for char in text:
        if char == "(" and depth == 0:
            break
        depth += (char == "<") - (char == ">")
        if depth == 0 and char != ">":
            kept.append(char)
    return "".join(kept).split(" ")[-1].rsplit("::", 1)[-1].strip()


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A name in a text, [`start`, `end`). `function` is the name of the function around it, "" outside of all;
    `defines` tells that a function of that name begins here, `of_type` that a class does."""

    start: int
    end: int
    function: str
    defines: bool = False
    of_type: bool = False


_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|R\"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)\"|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'|"
    r"(?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)|(?P<word>[A-Za-z_]\w*)|(?P<other>[{}();=]|::)|[^\S\n]+|.|\n",
    re.DOTALL | re.MULTILINE,
)
_ATTRIBUTES = frozenset(
    {
        "__attribute__",
        "__launch_bounds__",
        "alignas",
        "__declspec",
        "noexcept",
        "requires",
        "decltype",
        "throw",
        "defined",
    }
)
_TYPES = frozenset({"struct", "class", "union", "enum"})
_NO_FUNCTIONS = frozenset({"if", "for", "while", "switch", "catch", "return", "sizeof"})


def occurrences(text: str, name: str) -> Iterator[Occurrence]:
    """Yield the occurrences of `name` in C++ `text` outside of comments, strings and directives, in order."""
    word = re.fullmatch(r"[A-Za-z_]\w*", name)
    if not name or name not in text:
        return
    if word is None:
        for match in re.finditer(re.escape(name), text):
            yield Occurrence(match.start(), match.end(), "")
        return
    stack: list[str] = []
    statement: list[str] = []
    waiting: list[tuple[int, str, bool]] = []

    def close(*, function: str = "") -> Iterator[Occurrence]:
        for at, inside, of_type in waiting:
            yield Occurrence(at, at + len(name), inside, function == name and not inside, of_type)
        waiting.clear()

    for match in _TOKEN.finditer(text):
        piece = match["word"] or match["other"]
        if piece is None:
            continue
        inside = stack[-1] if stack else ""
        if match["word"]:
            if piece == name:
                of_type = bool(statement) and statement[-1] in _TYPES and not inside
                waiting.append((match.start(), inside, of_type))
            statement.append(piece)
        elif piece == "{":
            function = inside or _defined(statement)
            yield from close(function=function)
            stack.append(function)
            statement = []
        elif piece in ";}":
            yield from close()
            statement = []
            if piece == "}" and stack:
                stack.pop()
        else:
            statement.append(piece)
    yield from close()


def _defined(words: Sequence[str]) -> str:
    """The name of the function that begins with the tokens in front of a `{`; "" for a namespace, class or value."""
    depth = 0
    for at, piece in enumerate(words):
        if piece == "=" and depth == 0:
            return ""
        if piece == "(":
            before = words[at - 1] if at else ""
            if depth == 0 and re.match(r"[A-Za-z_]", before) and before not in _ATTRIBUTES:
                return "" if before in _NO_FUNCTIONS else before
            depth += 1
        elif piece == ")":
            depth -= 1
    return ""


def uses(text: str, symbol: NamedSymbol) -> list[Occurrence]:
    """Return the uses of `symbol` in `text`, those in the function that the linker names first; for a kernel or a type
    its definition. Without any, its declaration."""
    found = list(occurrences(text, symbol.name))
    if symbol.problem in (SymbolProblem.KERNEL, SymbolProblem.DUPLICATE):
        chosen = [one for one in found if one.defines]
    elif symbol.problem is SymbolProblem.TYPE:
        chosen = [one for one in found if one.of_type]
    else:
        chosen = [one for one in found if one.function and one.function != symbol.name]
        chosen.sort(key=lambda one: one.function != symbol.function)
    return chosen or found


def declaration(text: str, symbol: NamedSymbol) -> Occurrence | None:
    """Return the declaration of `symbol` at the level of a namespace or class, or None."""
    return next((one for one in occurrences(text, symbol.name) if not one.function), None)


_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?:\([^()\n]*\))?(?P<body>(?:[^\n\\]|\\.|\\\n)*)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class NamingMacro:
    """A C macro whose text has a symbol's name, or that of such a macro, at [`start`, `end`) of the file `path`."""

    name: str
    path: str
    start: int
    end: int


def macros_naming(texts: Sequence[tuple[str, str]], name: str) -> list[NamingMacro]:
    """Return the macros in `texts` (path and text) through which `name` is used, the one that has it itself first."""
    found: list[NamingMacro] = []
    wanted = [name]
    while wanted:
        word = re.compile(rf"\b{re.escape(wanted.pop(0))}\b")
        for path, text in texts:
            for macro in _MACRO.finditer(text) if word.search(text) else ():
                use = word.search(text, macro.start("body"), macro.end("body"))
                if use is not None and macro["name"] not in (name, *(known.name for known in found)):
                    found.append(NamingMacro(macro["name"], path, use.start(), use.end()))
                    wanted.append(macro["name"])
    return found


def assembly(text: str, message: ClangMessage) -> Occurrence | None:
    """The string of an inline assembly in `text` that an assembler's message without a place is about: the one that has
    the word it names, the last if it defines this once more, or the only one. None where it may be another, and for
    messages about a function."""
    named = _ASSEMBLER.search(message.text)
    strings = [
        string
        for statement in _ASM.finditer(text)
        for string in _STRING.finditer(text, statement.end(), text.find(";\n", statement.end()))
    ]
    if named is not None:
        word = re.compile(rf"(?<!\w){re.escape(named['word'].lstrip('.'))}(?!\w)")
        strings = [string for string in strings if word.search(string[0])]
    elif len({string.start() for string in strings}) > 1 or not _IN_ASSEMBLY.search(message.text):
        return None
    if not strings:
        return None
    string = strings[-1 if _DEFINED_AGAIN.search(message.text) else 0]
    return Occurrence(string.start(), string.end(), "")
