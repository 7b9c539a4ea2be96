"""A C++ program as text: its file with those that it includes, the branches that count, and what it defines.

Headers of libraries are not read: only files that lie beside the program or in a folder that is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from ckwatch.checks.cpp_expression import NotArithmeticError, evaluate, tokens_of
from ckwatch.cli.imports.source_text import elements, line_of, one_line
from ckwatch.headers.masked_text import closing, masked, split_list
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(?P<word>\w+)(?P<rest>(?:\\\r?\n|[^\n])*)\n?")
_INCLUDE = re.compile(r"\s*(?P<quote>[\"<])(?P<name>[^\">]+)[\">]")
_MACRO = re.compile(r"\s*(?P<name>\w+)(?P<arguments>\([^)]*\))?(?P<value>(?:.|\n)*)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_DEPTH = 16
_INCLUDED = 64


@dataclass(frozen=True, slots=True)
class Include:
    """A header that is not a part of the program, and the line that includes it."""

    name: str
    file: Path
    line: int
    quoted: bool


@dataclass(frozen=True, slots=True)
class CppDefinition:
    """A name that the program defines. `kind` is its first word: using, namespace, struct, template, constexpr, …

    `value` is what stands behind the `=` of an alias or a constant; `parameters` are those of an alias template.
    """

    name: str
    kind: str
    text: str
    value: str
    parameters: tuple[str, ...]
    start: int
    end: int
    local: bool = False
    """It stands in a function."""


@dataclass(slots=True)
class CppProgram:
    """The program's text: `code` has blanks for what is no code, at the same offsets."""

    path: Path
    text: str
    code: str
    includes: list[Include]
    macros: dict[str, str]
    definitions: dict[str, list[CppDefinition]]
    _pieces: list[tuple[int, Path, int]] = field(default_factory=list)

    def place(self, offset: int) -> str:
        """`FILE:LINE` of an offset."""
        start, path, line = max((one for one in self._pieces if one[0] <= offset), key=lambda one: one[0])
        return f"{path}:{line + self.text.count(chr(10), start, offset)}"

    def value_of(self, name: str) -> str | None:
        """The text behind an alias without parameters, a constant or a macro that has one meaning; else None."""
        found = {one.value for one in self.definitions.get(name, ()) if one.value and not one.parameters}
        if len(found) == 1:
            return next(iter(found))
        return None if found else self.macros.get(name) or None

    def resolved(self, text: str) -> str:
        """A type or a value by the name that is behind its other ones, with alias templates filled in."""
        for _ in range(_DEPTH):
            text = re.sub(r"\s*::\s*", "::", one_line(text))
            following = self._step(text)
            if following is None or following == text:
                return text
            text = following
        return text

    def _step(self, text: str) -> str | None:
        text = text.removeprefix("typename ").strip()
        head = re.match(r"(?:::)?(?P<name>\w+)(?P<scope>(?:::\w+)*)\s*(?P<list><)?", text)
        if head is None:
            return None
        if head["scope"]:
            value = self.value_of(head["name"])
            if value is None or any(one.kind != "namespace" for one in self.definitions.get(head["name"], ())):
                return None
            return value + text[head.end("name") :]
        if head["list"] is None:
            return self.value_of(text)
        end = closing(text, head.end() - 1)
        templates = [one for one in self.definitions.get(head["name"], ()) if one.parameters and one.value]
        if end != len(text) - 1 or len(templates) != 1:
            return None
        return _filled(templates[0], elements(text[head.end() : end]))

    def integer(self, text: str) -> int | None:
        """The value of an integer expression over the program's constants; None where it has none that is known."""
        try:
            return evaluate(self._tokens(text, 0))
        except (NotArithmeticError, IndexError, RecursionError):
            return None

    def _tokens(self, text: str, depth: int) -> tuple[str, ...]:
        found: list[str] = []
        for token in tokens_of(text):
            value = self.value_of(token) if depth < _DEPTH and _NAME.fullmatch(token) else None
            if value is None:
                found.append(token)
            else:
                found += ["(", *self._tokens(value, depth + 1), ")"]
        return tuple(found)

    def needed(self, text: str, without: Callable[[str], bool], *, local: bool = True) -> list[CppDefinition]:
        """The definitions that the names in a text need, each behind those that it needs; `local` ones, too."""
        found = {(one.start, one.name): one for one in self.definitions.get("", ())}
        seen: set[str] = set()

        def add(text: str) -> None:
            for name in dict.fromkeys(_NAME.findall(text)):
                if name in seen or without(name):
                    continue
                seen.add(name)
                for one in self.definitions.get(name, ()):
                    if local or not one.local:
                        add(masked(one.text))
                        found[one.start, one.name] = one

        add(text)
        return list(found.values())

    def number(self, name: str, least: int = 1) -> int | None:
        """The first value from `least` that is written out for a variable or a member of this name."""
        for found in re.finditer(rf"(?<![\w.>:]){name}\s*(?:=(?!=)|\{{)\s*([^;,{{}}]+)[;,}}]", self.code):
            if (value := self.integer(found[1])) is not None and value >= least and not self._in_unused(found.start()):
                return value
        return None

    def _in_unused(self, offset: int) -> bool:
        """Return True within a structure that nothing else mentions."""
        around = [
            one.name
            for ones in self.definitions.values()
            for one in ones
            if one.kind == "struct" and one.start <= offset < one.end
        ]
        return any(len(re.findall(rf"\b{re.escape(name)}\b", self.code)) == 1 for name in around)


def _filled(template: CppDefinition, arguments: Sequence[str]) -> str:
    """The alias template's text with its arguments; a parameter pack takes all that are left."""
    text = template.value
    for at, parameter in enumerate(template.parameters):
        name, _, default = (part.strip() for part in parameter.partition("="))
        if name.startswith("..."):
            name = name[3:]
            given = ", ".join(arguments[at:])
            text = re.sub(rf"\b{name}\b\s*\.\.\.", _literal(given), text)
        else:
            given = arguments[at] if at < len(arguments) else default
            text = re.sub(rf"(?<!::)\b{name}\b", _literal(given), text)
    return one_line(text)


def _literal(text: str) -> str:
    return text.replace("\\", r"\\")


def read_program(
    path: Path, read: Callable[[Path], str], folders: Sequence[Path], macros: Mapping[str, str]
) -> CppProgram:
    """Read a program and the files that it includes with quotes. `read` gives a file's text. Raises CkwatchError for a
    file that cannot be read and for an `#error` that counts."""
    reading = _Reading(read, folders, dict(macros))
    reading.file(path)
    text = "".join(reading.texts)
    code = masked(text)
    definitions = _definitions(text, code)
    for one in _instantiated(code, definitions):
        definitions.setdefault(one.name, [one])
    return CppProgram(path, text, code, reading.includes, reading.macros, definitions, reading.pieces)


def _instantiated(code: str, definitions: Mapping[str, Sequence[CppDefinition]]) -> list[CppDefinition]:
    """The arguments that the program's first instantiations give for the template parameters of its functions."""
    found: dict[str, CppDefinition] = {}
    functions = [one for ones in definitions.values() for one in ones if one.kind == "function" and one.parameters]
    for function in sorted(functions, key=lambda one: one.start):
        for call in re.finditer(rf"\b{re.escape(function.name)}\s*<", code):
            end = closing(code, call.end() - 1)
            if end < 0 or function.start <= call.start() < function.end:
                continue
            for parameter, text in zip(function.parameters, elements(code[call.end() : end]), strict=False):
                name = parameter.partition("=")[0]
                if name.isidentifier() and name != text and name not in found and "::" + "Rank_" not in text:
                    written = f"using {name} = {text};"
                    found[name] = CppDefinition(
                        name, "using", written, text, (), function.start, function.start, local=True
                    )
    return list(found.values())


class _Reading:
    """The preprocessor's part: conditions, macros as such, and files in their place."""

    def __init__(self, read: Callable[[Path], str], folders: Sequence[Path], macros: dict[str, str]) -> None:
        self._read = read
        self._folders = folders
        self.macros = macros
        self.texts: list[str] = []
        self.pieces: list[tuple[int, Path, int]] = []
        self.includes: list[Include] = []
        self._length = 0
        self._done: set[Path] = set()
        self._files = 0

    def file(self, path: Path) -> None:
        """Add a file's text."""
        real = path.resolve()
        self._files += 1
        if real in self._done or self._files > _INCLUDED:
            return
        text = self._read(path)
        code = _without_comments(text)
        if re.search(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", code, re.MULTILINE):
            self._done.add(real)
        at = 0
        active: list[
            list[bool]
        ] = []  # for each condition around: whether it holds, and whether one of its branches has
        self.pieces.append((self._length, path, 1))
        for found in _DIRECTIVE.finditer(code):
            if "\n" in code[found.start() : found.start("word")] or code[: found.start()].rpartition("\n")[2].strip():
                continue
            self._add(text[at : found.start()], all(one[0] for one in active))
            at = found.end()
            self._directive(found, path, text, active)
            self._add(text[found.start() : found.end()], counts=False)
        self._add(text[at:] + "\n", all(one[0] for one in active))

    def _add(self, text: str, counts: bool) -> None:
        added = text if counts else re.sub(r"[^\r\n]", " ", text)
        self.texts.append(added)
        self._length += len(added)

    def _directive(self, found: re.Match[str], path: Path, text: str, active: list[list[bool]]) -> None:
        word, rest = found["word"], found["rest"].replace("\\\n", " ").replace("\\\r\n", " ")
        outer = all(one[0] for one in active[:-1])
        if word in ("if", "ifdef", "ifndef"):
            holds = all(one[0] for one in active) and self._holds(word, rest)
            active.append([holds, holds])
        elif word in ("elif", "else") and active:
            holds = outer and not active[-1][1] and (word == "else" or self._holds("if", rest))
            active[-1] = [holds, active[-1][1] or holds]
        elif word == "endif" and active:
            active.pop()
        elif all(one[0] for one in active):
            self._effective(word, rest, path, line_of(text, found.start()), text[found.start() : found.end()])

    def _effective(self, word: str, rest: str, path: Path, line: int, original: str) -> None:
        macro = _MACRO.fullmatch(rest)
        if word == "define" and macro is not None:
            self.macros[macro["name"]] = one_line(macro["value"]) if macro["arguments"] is None else ""
        elif word == "undef":
            self.macros.pop(rest.strip(), None)
        elif word == "error":
            raise CkwatchError(f"{path}:{line}: {one_line(original)}", "-D gives the macros that it is compiled with")
        elif word == "include" and (named := _INCLUDE.match(original.partition("include")[2])) is not None:
            quoted = named["quote"] == '"'
            own = self._own(named["name"], path, quoted=quoted)
            if own is None:
                self.includes.append(Include(named["name"], path, line, quoted))
                return
            self.file(own)
            self.pieces.append((self._length, path, line))

    def _own(self, name: str, path: Path, *, quoted: bool) -> Path | None:
        for folder in (path.parent, *self._folders) if quoted else self._folders:
            if (folder / name).is_file():
                return folder / name
        return None

    def _holds(self, word: str, rest: str) -> bool:
        if word != "if":
            return (rest.strip() in self.macros) == (word == "ifdef")
        text = re.sub(
            r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))", lambda one: str(int((one[1] or one[2]) in self.macros)), rest
        )
        text = re.sub(r"\b__has_include\s*\([^)]*\)", "1", text)
        try:
            return evaluate(self._tokens(text, 0)) != 0
        except (NotArithmeticError, IndexError):
            return False

    def _tokens(self, text: str, depth: int) -> tuple[str, ...]:
        found: list[str] = []
        for token in tokens_of(text):
            if not _NAME.fullmatch(token) or token in ("true", "false"):
                found.append(token)
            elif depth < _DEPTH and self.macros.get(token):
                found += ["(", *self._tokens(self.macros[token], depth + 1), ")"]
            else:
                found.append("0")
        return tuple(found)


def _without_comments(text: str) -> str:
    """The text with blanks for what is no code, with its lines that go on as they are."""
    code = masked(text)
    for found in re.finditer(r"\\(?=\r?\n)", text):
        code = code[: found.start()] + "\\" + code[found.end() :]
    return code


_START = re.compile(
    r"\s*(?P<head>using\s+namespace\b|using\b|typedef\b|template\s*<|namespace\b|(?:struct|class|union|enum)\b|static_assert\b|[};]|extern\s*\{|\S)"
)


def _definitions(text: str, code: str) -> dict[str, list[CppDefinition]]:
    found: dict[str, list[CppDefinition]] = {}
    for one in _declarations(text, code):
        found.setdefault(one.name, []).append(one)
    return found


def _declarations(text: str, code: str) -> Iterator[CppDefinition]:
    """The declarations at file or namespace scope, and the aliases and constants inside of functions."""
    at = 0
    while (found := _START.match(code, at)) is not None:
        start = found.start("head")
        word = found["head"]
        scope = re.compile(r"namespace\b[\s\w:]*\{|extern\s*\{").match(code, start)
        if word in ("}", ";") or scope is not None:
            at = scope.end() if scope is not None else start + 1
            continue
        body = start
        parameters: tuple[str, ...] = ()
        while (template := re.compile(r"\s*template\s*<").match(code, body)) is not None:
            end = closing(code, template.end() - 1)
            if end < 0:
                break
            parameters = tuple(_parameter(one) for one in elements(code[template.end() : end]))
            body = end + 1
        end = _end(code, body)
        yield from _declared(text, code, start, body, end, parameters)
        at = max(end, start + 1)


def _parameter(text: str) -> str:
    """The name of a template parameter, behind `...` if it is a pack, with its default."""
    before, equals, default = text.partition("=")
    names = _NAME.findall(before)
    name = names[-1] if len(names) > 1 else ""
    return ("..." if "..." in before else "") + name + (f"={default}" if equals else "")


def _end(code: str, start: int) -> int:
    """The end of the declaration that begins at an offset."""
    at = start
    assigned = False
    aggregate = re.compile(r"\s*(?:(?:static|constexpr|inline|const|typedef)\s+)*(?:struct|class|union|enum)\b").match(
        code, start
    )
    while at < len(code):
        character = code[at]
        if character == ";":
            return at + 1
        if character == "}":
            return at
        if character == "=" and code[at + 1 : at + 2] != "=" and code[at - 1] not in "=!<>":
            assigned = True
        if character in "([{":
            end = closing(code, at)
            if end < 0:
                return len(code)
            if character == "{" and not assigned and aggregate is None and code[:at].rstrip()[-1:] in ")tedr":
                following = re.compile(r"\s*;").match(code, end + 1)
                return end + 1 if following is None else following.end()
            at = end
        at += 1
    return len(code)


def _declared(
    text: str, code: str, start: int, body: int, end: int, parameters: tuple[str, ...]
) -> Iterator[CppDefinition]:
    statement = code[body:end].strip()

    def definition(name: str, kind: str, value: str = "") -> CppDefinition:
        return CppDefinition(name, kind, text[start:end], one_line(value).rstrip("; "), parameters, start, end)

    if (one := re.match(r"using\s+namespace\b", statement)) is not None:
        yield definition("", "using namespace")
    elif (one := re.match(r"(using|namespace)\s+(\w+)\s*=\s*", statement)) is not None:
        yield definition(one[2], one[1], statement[one.end() :])
    elif (one := re.match(r"using\s+(?:typename\s+)?((?:\w+::)+(\w+))\s*;", statement)) is not None:
        yield definition(one[2], "using", one[1])
    elif (one := re.match(r"typedef\s+([^{}]+?)\b(\w+)\s*;$", statement, re.DOTALL)) is not None:
        yield definition(one[2], "typedef", one[1])
    elif (one := re.match(r"(?:struct|class|union|enum)\s+(?:class\s+|struct\s+)?(\w+)", statement)) is not None:
        yield definition(one[1], "struct")
    elif (one := _CONSTANT.match(statement)) is not None:
        yield definition(one[1], "constexpr", one[2])
    else:
        called = re.search(r"(\w+)\s*\(", statement)
        if called is not None:
            yield definition(called[1], "function")
        yield from _inside(text, code, body, end)


_CONSTANT = re.compile(
    r"(?:(?:static|inline|const|constexpr)\s+)+[\w:<>, ]*?\b(\w+)\s*(?:=|(?=\{))\s*([^;]+);", re.DOTALL
)
_LOCAL = re.compile(
    r"\busing\s+(?P<alias>\w+)\s*=\s*(?P<type>[^;]+);|\bconstexpr\s+[\w:]+\s+(?P<constant>\w+)\s*=\s*(?P<value>[^;]+);"
)


def _inside(text: str, code: str, start: int, end: int) -> Iterator[CppDefinition]:
    for one in _LOCAL.finditer(code, start, end):
        value = one_line(one["type"] or one["value"])
        kind = "using" if one["alias"] else "constexpr"
        name = one["alias"] or one["constant"]
        yield CppDefinition(name, kind, text[one.start() : one.end()], value, (), one.start(), one.end(), local=True)


def arguments_of(text: str) -> tuple[str, list[str]]:
    """The template's name and the arguments of `NAME<…>`; none for another text."""
    found = re.match(r"(?P<name>[\w:]+)\s*<", text)
    if found is None or closing(text, found.end() - 1) != len(text) - 1:
        return text, []
    inner = text[found.end() : len(text) - 1]
    return found["name"], [one_line(inner[start:end]) for start, end in split_list(inner)]
