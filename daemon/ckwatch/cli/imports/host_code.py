"""The function that launches a kernel, as text: definitions of its variables, its loops, its checks, and what it
allocates. Nothing is run.

A definition is the value that a variable has at the launch on every way to it: assignments on conditions leave none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum

from ckwatch.cli.imports.source_text import elements, line_of, one_line
from ckwatch.headers.masked_text import closing
from ckwatch.model.arithmetic import OPERATORS
from ckwatch.model.lazy_dataclass import dataclass

INTEGER = (
    r"(?:u?int(?:8|16|32|64)_t|(?:std::)?size_t|(?:unsigned|signed)(?:\s+(?:int|long|short))?|int|uint|auto"
    r"|long(?:\s+long)?(?:\s+int)?)"
)
CAST = re.compile(r"\(\s*(?:const\s+)?[\w:]+(?:\s+(?:int|long|short|char))*\s*\)\s*(?=[\w(])|\bstatic_cast\s*<[^<>]*>")
_DEPTH = 16
_SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|\d[\d']*)(?:[uU]?[lL]{0,2}|[lL]{1,2}[uU])\b")
_NUMBER_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*\b(?!\s*\()")
_ALLOCATES = re.compile(
    r"\b(?:hip|cuda)(?:Malloc(?:Managed|Async|Host|FromPoolAsync)?|HostMalloc|HostAlloc|ExtMallocWithFlags)"
    r"\s*(?:<[^;<>]*>)?\s*\("
)
_ENDS = re.compile(r"\b(?:exit|return|throw|abort)\b")
_ASSERTS = re.compile(r"\b(?:static_assert|assert|\w*(?:CHECK|ASSERT)\w*)\s*\(")
_OPENS_BLOCK = re.compile(r"(?:[);{}]|\b(?:else|do|try|noexcept))$")
_ABOUT_ARGUMENTS = re.compile(r"\bargc\b|\bargv\b")


@dataclass(frozen=True, slots=True)
class HostLoop:
    """`for (int NAME = first; condition; …)` around a launch."""

    line: int
    first: str
    condition: str


@dataclass(frozen=True, slots=True)
class Allocation:
    """The bytes that are allocated for a pointer, as the source says them."""

    line: int
    bytes: str


class MemoryContent(StrEnum):
    """Content of allocated memory at a launch."""

    UNDEFINED = "nothing"
    COPIED = "copied"
    ZEROS = "zeros"
    UNKNOWN = "unknown"


class HostCode:
    """A function from its head to a launch. `code` is the masked `text` of the whole file."""

    def __init__(self, text: str, code: str, region: str, start: int) -> None:
        self._text = text
        self._code = code
        self.region = region
        self._first = start - len(region) if code[max(start - len(region), 0) : start] == region else -1
        self.open = _without_closed_blocks(region)

    def declares_integer(self, name: str) -> bool:
        """Return True if a whole number of this name is declared there."""
        return re.search(rf"\b{INTEGER}(?:\s+const)?\s+(?:const\s+)?{re.escape(name)}\b", self.open) is not None

    def type_of(self, name: str) -> str:
        """The type with which a whole number is declared there; "" for int, and where that is not plain."""
        found = set(re.findall(rf"\b({INTEGER})(?:\s+const)?\s+(?:const\s+)?{re.escape(name)}\b", self.open))
        kind = one_line(found.pop()) if len(found) == 1 else ""
        return "" if kind in ("int", "auto") else kind

    def definition(self, name: str) -> str | None:
        """The value of a whole number at the launch; None where it has several, or none that is written out."""
        again = re.escape(name)
        found = list(
            re.finditer(
                rf"\b{INTEGER}\s+(?:const\s+)?(?:[^;(){{}}=]*(?:=[^;(){{}}]*)?,\s*)?{again}\s*(?P<how>=(?!=)|[({{;,])",
                self.open,
            )
        )
        if len(found) != 1:
            return None
        at = found[0].end()
        value = self._initial(found[0]["how"], at)
        return self._assigned(again, at, value)

    def _initial(self, how: str, at: int) -> str | None:
        if how == "=":
            return next(iter(elements(self.open[at : self.open.find(";", at)])), None)
        if how in "({":
            return one_line(self.open[at : closing(self.open, at - 1)]) or None
        return None

    def _assigned(self, name: str, start: int, value: str | None) -> str | None:
        """The value after the assignments behind `start`; None where one depends on a condition."""
        behind = self._without_others(name)[start:]
        if re.search(rf"\+\+\s*{name}\b|--\s*{name}\b|(?<![\w.]){name}\s*(?:\+\+|--)|[(,]\s*&\s*{name}\b", behind):
            return None
        for one in re.finditer(rf"(?<![\w.])(?<!->){name}\s*([-+*/%]|<<|>>)?=(?!=)", behind):
            at = start + one.start()
            if self.open[at : at + 1] != self.region[at] or not self.region[:at].rstrip().endswith((";", "{", "}")):
                return None
            given = one_line(self.region[start + one.end() : self.region.find(";", at)])
            if re.search(rf"(?<![\w.]){name}\b", given) or one[1]:
                if value is None:
                    return None
                kind = self.type_of(name)
                before = f"({kind})({value})" if kind else f"({value})"
                given = re.sub(rf"(?<![\w.]){name}\b", before, given)
                given = f"{before} {one[1]} ({given})" if one[1] else given
            value = given or None
        return value

    def _without_others(self, name: str) -> str:
        """The region without blocks in which the name is that of another variable."""
        declares = re.compile(rf"\b[A-Za-z_][\w:>]*\s+[*&]*{name}\s*[=({{;]")
        return _without_closed_blocks(self.region, declares)

    def scalar(self, name: str) -> str | None:
        """The value of a floating-point number or flag that is written out once."""
        again = re.escape(name)
        found = re.findall(
            rf"\b(?:float|double|bool|half|_Float16)\s+{again}\s*(?:=\s*([^;,]+)|[({{]([^;,]+)[)}}])[;,]", self.open
        )
        others = re.findall(rf"(?<![\w.]){again}\s*[-+*/]?=(?!=)", self.region)
        return one_line(found[0][0] or found[0][1]) if len(found) == 1 and len(others) <= 1 else None

    def loop(self, name: str) -> HostLoop | None:
        """The loop around the launch that counts with a variable."""
        head = re.compile(
            rf"\bfor\s*\(\s*(?:const\s+)?{INTEGER}\s+{re.escape(name)}\s*(?:=|[({{])\s*([^;]*?)[)}}]?\s*;([^;]*);"
        )
        for found in head.finditer(self.open):
            end = closing(self.open, self.open.index("(", found.start()))
            behind = self.open[end + 1 :].lstrip() if end > 0 else ""
            if behind.startswith("{") and closing(behind, 0) < 0:
                return HostLoop(self._line(found.start()), one_line(found[1]), one_line(found[2]))
        return None

    def allocation(self, pointer: str) -> Allocation | None:
        """The allocation for a pointer; None where there is none, or where there are several that differ."""
        again = re.compile(
            rf"(?:\(\s*void\s*\*\s*\*\s*\)|\breinterpret_cast\s*<[^<>]*>)?\s*\(?\s*&\s*\(?\s*{re.escape(pointer)}\s*\)*"
        )
        found: dict[str, Allocation] = {}
        for one in _ALLOCATES.finditer(self.region):
            words = elements(self.region[one.end() : max(closing(self.region, one.end() - 1), one.end())])
            if len(words) >= 2 and again.fullmatch(words[0]):
                found.setdefault(words[1], Allocation(self._line(one.start()), words[1]))
        return next(iter(found.values())) if len(found) == 1 else None

    def content(self, pointer: str) -> MemoryContent:
        """Content of the memory behind a pointer that this function allocates."""
        content = MemoryContent.UNDEFINED
        for one in re.finditer(rf"(?<![\w.>]){re.escape(pointer)}\b", self.region):
            statement = self.region[max(self.region.rfind(mark, 0, one.start()) for mark in ";{}") + 1 : one.start()]
            if _ALLOCATES.search(statement) or re.search(
                r"\*\s*(?:__restrict__\s*)?(?:\w+\s*(?:\{\}|=\s*\w+)?\s*,\s*\*\s*)*$", statement
            ):
                continue
            copied = re.search(r"\b(?:hip|cuda)Mem(cpy|set)\w*\s*\(\s*(?:\(\s*\w+\s*\*\s*\)\s*)?$", statement)
            if copied is None:
                return MemoryContent.UNKNOWN
            zeros = copied[1] == "set" and re.match(r"\s*,\s*0\s*,", self.region[one.end() :]) is not None
            content = MemoryContent.ZEROS if zeros else MemoryContent.COPIED
        return content

    def elements_of(self, vector: str) -> str | None:
        """The length with which a `std::vector` is made."""
        made = re.findall(rf"\bvector\s*<[^;]*?>\s+(?:const\s+)?{re.escape(vector)}\s*\(([^;]*)\)\s*;", self.open)
        words = elements(made[0]) if len(made) == 1 else []
        return words[0] if words and not re.search(r"\.\s*c?begin\b", words[0]) else None

    def multiples(self) -> Iterator[tuple[str, str, int]]:
        """Names that the function refuses unless they are multiples, of what, and the lines that say so."""
        for one in re.finditer(r"\bif\s*(?:constexpr\s*)?\(", self.open):
            end = closing(self.region, one.end() - 1)
            condition = self.region[one.end() : max(end, one.end())]
            if end < 0 or "&&" in condition or not _ENDS.search(_statement(self.region, end + 1)):
                continue
            for found in re.finditer(r"\b(\w+)\s*%\s*(\w+)\s*\)*\s*(?:(?:!=|>)\s*0\b|(?=\|\||$))", condition):
                yield found[1], found[2], self._line(one.start())
        for one in _ASSERTS.finditer(self.open):
            condition = self.region[one.end() : max(closing(self.region, one.end() - 1), one.end())]
            if "||" not in condition:
                for found in re.finditer(r"\b(\w+)\s*%\s*(\w+)\s*\)*\s*==\s*0", condition):
                    yield found[1], found[2], self._line(one.start())

    def number(self, text: str, depth: int = 0) -> int | None:
        """The value of an expression in the program as it is when it is run without arguments; None if unknown."""
        usual = _without_argument(CAST.sub("", one_line(text)).strip())
        if depth > _DEPTH or usual is None:
            return None
        plain = without_suffixes(usual)
        unknown: list[str] = []

        def value(found: re.Match[str]) -> str:
            name = found[0]
            known = self._number_of(name, depth + 1)
            if known is None:
                unknown.append(name)
            return f"({known})"

        return None if (written := _NUMBER_NAME.sub(value, plain)) and unknown else evaluated(written)

    def _number_of(self, name: str, depth: int) -> int | None:
        if (option := self._option(name)) is not None:
            return self.number(option, depth)
        defined = self.definition(name) or self._before_arguments(name)
        if defined is None and not self.declares_integer(name):
            defined = self.constant(name)
        return None if defined is None else self.number(defined, depth)

    def constant(self, name: str) -> str | None:
        """The value of a constant or macro of the file that is written out once."""
        again = re.escape(name)
        constants = rf"\b(?:constexpr|const)\s+(?:(?:static|inline|const)\s+)*{INTEGER}\s+{again}\s*[={{]\s*([^;,}}]+)"
        macros = rf"^[ \t]*#[ \t]*define[ \t]+{again}[ \t]+([^\n]+)$"
        found = {one_line(one) for how in (constants, macros) for one in re.findall(how, self._code, re.MULTILINE)}
        found.discard("")
        return found.pop() if len(found) == 1 else None

    def _before_arguments(self, name: str) -> str | None:
        """The value of a variable that only arguments of the program change."""
        again = re.escape(name)
        found = re.findall(rf"\b{INTEGER}\s+{again}\s*=\s*([^;,]+)[;,]", self.open)
        others = re.findall(rf"(?<![\w.]){again}\s*=(?!=)\s*([^;]+);", self.region)
        changed = [one for one in others if one.strip() not in map(str.strip, found)]
        if len(found) == 1 and changed and all(re.search(r"\bargv\b|\boptarg\b", one) for one in changed):
            return str(found[0])
        return None

    def _option(self, name: str) -> str | None:
        """The default of an option of the command line, where a variable is what a parser has for its name."""
        if self._first < 0:
            return None
        source = self._text[self._first : self._first + len(self.region)]
        given = re.search(
            rf"\b{re.escape(name)}\s*=[^;=]*\bget\w*\s*(?:<[^;<>]*>)?\s*\(\s*\"([\w-]+)\"\s*\)\s*;", source
        )
        if given is None:
            return None
        defaults = set()
        for one in re.finditer(rf"\(\s*\"{re.escape(given[1])}\"\s*,", self._text):
            end = closing(self._code, one.start())
            words = elements(self._code[one.start() + 1 : max(end, one.start())])
            known = next((word for word in words if re.fullmatch(r"[A-Za-z_]\w*|\d[\w']*", word)), None)
            if known is not None:
                defaults.add(self._local(known, one.start()))
        return defaults.pop() if len(defaults) == 1 else None

    def _local(self, word: str, before: int) -> str:
        """The value of a constant where it is used: the last that is written out before."""
        found = re.findall(rf"\b{INTEGER}\s+{re.escape(word)}\s*=\s*([^;]+);", self._code[:before])
        return one_line(found[-1]) if found else word

    def _line(self, at: int) -> int:
        return line_of(self._code, self._first + at) if self._first >= 0 else 0


def without_suffixes(text: str) -> str:
    """The text with whole numbers as Python writes them."""
    return _SUFFIX.sub(lambda found: found[1].replace("'", ""), text)


def _without_closed_blocks(region: str, holding: re.Pattern[str] | None = None) -> str:
    """The text with blanks for the insides of blocks of statements that end before it does; only for those that hold
    something, where that is given."""
    found = region
    for one in re.finditer(r"\{", region):
        opening = one.start()
        end = closing(region, opening) if _OPENS_BLOCK.search(region[:opening].rstrip()[-12:]) else -1
        if end > 0:
            inside = region[opening + 1 : end]
            if holding is not None and not holding.search(inside):
                continue
            found = found[: opening + 1] + re.sub(r"[^\n]", " ", inside) + found[end:]
    return found


def _statement(region: str, at: int) -> str:
    """The statement at an offset: a block, or the text to the next semicolon."""
    start = at + len(region[at:]) - len(region[at:].lstrip())
    end = closing(region, start) if region[start : start + 1] == "{" else region.find(";", start)
    return region[start : end + 1] if end > 0 else ""


def _without_argument(text: str) -> str | None:
    """`argc > 1 ? atoi(argv[1]) : 1024` → `1024`; None where an argument must be given."""
    if not _ABOUT_ARGUMENTS.search(text):
        return text
    found = re.fullmatch(r"\(*\s*argc\s*(?:>=?|==)\s*\d+\s*\)*\s*\?([^?:]*):([^?:]*?)\)*", text)
    found = found or re.fullmatch(r"\(*\s*argc\s*<=?\s*\d+\s*\)*\s*\?(?P<no>[^?:]*):(?P<yes>[^?:]*?)\)*", text)
    if found is None:
        return None
    left = [one.strip() for one in found.groups() if not _ABOUT_ARGUMENTS.search(one)]
    return left[0] if len(left) == 1 else None


def evaluated(text: str) -> int | None:
    """The value of an expression of whole numbers, with C's division; None if it is none."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        value = _value(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None
    return value if abs(value) < 1 << 63 else None


def _value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=value) if type(value) is int:
            return value
        case ast.Constant(value=float(value)) if value.is_integer():
            return int(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=ast.LShift(), right=right) if 0 <= (bits := _value(right)) < 63:
            return _value(left) << bits
        case ast.BinOp(left=left, op=ast.RShift(), right=right) if 0 <= (bits := _value(right)) < 63:
            return _value(left) >> bits
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            return OPERATORS[type(operator)](_value(left), _value(right))
    raise ValueError("no number")
