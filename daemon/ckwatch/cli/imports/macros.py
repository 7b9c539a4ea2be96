"""Function-like macros of a source, and the text that their uses stand for.

Code that launches kernels is often the body of a macro. Its names mean something only where the macro is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ckwatch.cli.imports.source_text import elements, one_line
from ckwatch.headers.masked_text import closing
from ckwatch.model.lazy_dataclass import dataclass

_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^()]*)\)", re.MULTILINE)
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro with parameters. `start` and `end` are offsets of its definition."""

    name: str
    parameters: tuple[str, ...]
    body: str
    start: int
    end: int

    def expanded(self, arguments: Sequence[str]) -> str:
        """The body with arguments in place of the parameters."""
        values = dict(zip(self.parameters, arguments, strict=False))
        if self.parameters and self.parameters[-1] == "...":
            values["__VA_ARGS__"] = ", ".join(arguments[len(self.parameters) - 1 :])
        body = re.sub(r"\b[A-Za-z_]\w*", lambda found: values.get(found[0], found[0]), self.body)
        return re.sub(r"\s*##\s*", "", body)


@dataclass(frozen=True, slots=True)
class MacroUse:
    """The text of a macro where it is used. `is_called` is False where its name is given to another macro, so
    that its parameters stay as they are."""

    start: int
    text: str
    macro: Macro
    is_called: bool


def macros(text: str, code: str) -> list[Macro]:
    """The macros with parameters of a text; `code` is the masked text."""
    found = []
    for one in _DEFINE.finditer(code):
        end = _line_end(text, one.end())
        names = tuple(name.strip() for name in one[2].split(",") if name.strip())
        found.append(Macro(one[1], names, one_line(code[one.end() : end]), one.start(), end))
    return found


def _line_end(text: str, at: int) -> int:
    """The end of a directive, which goes on behind a backslash."""
    while True:
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        if not text[at:end].rstrip("\r").endswith("\\"):
            return end
        at = end + 1


def uses(code: str, known: Sequence[Macro], word: str) -> Iterator[MacroUse]:
    """The uses, outside of macros, of those whose text comes to hold a word."""
    holding = {one.name for one in known if re.search(rf"\b{re.escape(word)}\b", one.body)}
    for _ in range(_DEPTH):
        holding |= {one.name for one in known if holding & set(re.findall(r"\w+", one.body))}
    if not holding:
        return
    for found in re.finditer(rf"\b(?:{'|'.join(map(re.escape, sorted(holding)))})\b", code):
        if any(one.start <= found.start() < one.end for one in known):
            continue
        macro = _macro_at(known, found[0], found.start())
        arguments = _arguments(code, found.end())
        if arguments is None:
            head = f"\n#define {macro.name}({', '.join(macro.parameters)}) "
            yield MacroUse(found.start(), head + macro.body, macro, is_called=False)
        else:
            yield MacroUse(
                found.start(), _nested(macro.expanded(arguments), known, found.start()), macro, is_called=True
            )


def _macro_at(known: Sequence[Macro], name: str, at: int) -> Macro:
    """The definition that holds at an offset."""
    named = [one for one in known if one.name == name]
    return next((one for one in reversed(named) if one.start < at), named[0])


def _arguments(code: str, at: int) -> list[str] | None:
    opening = re.compile(r"\s*\(").match(code, at)
    end = closing(code, opening.end() - 1) if opening else -1
    return elements(code[opening.end() : end]) if opening and end > 0 else None


def _nested(text: str, known: Sequence[Macro], at: int, depth: int = 0) -> str:
    """The text with the macros that it uses expanded."""
    names = {one.name for one in known}
    found = next((one for one in re.finditer(r"\b[A-Za-z_]\w*(?=\s*\()", text) if one[0] in names), None)
    arguments = _arguments(text, found.end()) if found else None
    if found is None or arguments is None or depth > _DEPTH:
        return text
    end = closing(text, text.index("(", found.end())) + 1
    inside = _nested(_macro_at(known, found[0], at).expanded(arguments), known, at, depth + 1)
    return text[: found.start()] + inside + _nested(text[end:], known, at, depth)
