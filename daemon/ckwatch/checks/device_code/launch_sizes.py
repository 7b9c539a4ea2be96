"""The threads of the workgroups that a text launches a kernel with, where it says them in constants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field

from ckwatch.checks.cpp_expression import NotArithmeticError, evaluate, tokens_of
from ckwatch.headers.masked_text import closing, masked, split_list
from ckwatch.model.lazy_dataclass import dataclass

_DEPTH = 8
_INTEGER = (
    r"(?:u?int(?:8|16|32|64)?_t|(?:std::)?size_t|(?:unsigned|signed)(?:\s+(?:int|long|short))?|int|uint|auto|short"
    r"|long(?:\s+long)?(?:\s+int)?|(?:ck(?:_tile)?::)?index_t)"
)
_CASTS = re.compile(rf"\(\s*{_INTEGER}\s*\)|\bstatic_cast\s*<\s*{_INTEGER}\s*>")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_CALLS = re.compile(r"\b(?:hipLaunchKernelGGL|hipLaunchKernel)\s*\(")

Range = tuple[int, int]
"""The offsets of a piece of text."""


@dataclass(frozen=True, slots=True)
class LaunchSize:
    """The most threads of a workgroup that a kernel is launched with.

    `written` are the ranges of text that it follows from: the sizes of all launches, and the values of the names in
    them. `block` is the range of the size in the only launch; None where there are several.
    """

    threads: int
    written: tuple[Range, ...]
    block: Range | None


def size_of_launches(text: str, kernel: str) -> LaunchSize | None:
    """Return the most threads of a workgroup that `text` launches `kernel` with.

    None where it launches none, or where a launch's size is not a constant. A name counts as one only where the whole
    text gives it one value.
    """
    code = masked(text)
    alias = rf"\b(\w+)\s*=\s*&?\s*(?:\w+\s*::\s*)*{re.escape(kernel)}\s*(?:<[^;]*>)?\s*;"
    names = {kernel, *re.findall(alias, code)}
    blocks = [block for name in names for block in (*_chevrons(code, name), *_calls(code, name))]
    reader = _SizeReader(code)
    sizes = [reader.threads(block) for block in blocks]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return None
    return LaunchSize(max(known), tuple(reader.written), blocks[0] if len(blocks) == 1 else None)


def _chevrons(code: str, name: str) -> Iterator[Range]:
    for found in re.finditer(rf"\b{re.escape(name)}\b\s*(?=<)", code):
        at = found.end()
        if not code.startswith("<<<", at):
            end = closing(code, at)
            if end < 0:
                continue
            at = end + 1 + len(code[end + 1 :]) - len(code[end + 1 :].lstrip())
        end = code.find(">>>", at) if code.startswith("<<<", at) else -1
        if end > 0:
            given = list(split_list(code, at + 3, end))
            yield given[1] if len(given) > 1 else (at, at)


def _calls(code: str, name: str) -> Iterator[Range]:
    for found in _CALLS.finditer(code):
        last = closing(code, found.end() - 1)
        given = list(split_list(code, found.end(), last)) if last > 0 else []
        if len(given) > 2 and name in _NAME.findall(code[given[0][0] : given[0][1]]):
            yield given[2]


@dataclass(slots=True)
class _SizeReader:
    """Works out sizes in a masked text; `written` is what they follow from."""

    code: str
    written: list[Range] = field(default_factory=list)

    def threads(self, block: Range) -> int | None:
        """The product of a block's dimensions."""
        sides = self._sides(block, 0)
        found = 1 if sides else None
        for side in sides or ():
            value = self._value(side, 0)
            found = None if found is None or value is None else found * value
        return found

    def _sides(self, block: Range, depth: int) -> list[Range] | None:
        code = self.code
        text = code[block[0] : block[1]]
        if direct := re.match(r"dim3\s*[({]", text):
            end = closing(code, block[0] + direct.end() - 1)
            return list(split_list(code, block[0] + direct.end(), end)) if end == block[1] - 1 else None
        name = re.escape(text)
        declared = list(re.finditer(rf"\bdim3\s+(?:const\s+)?{name}\s*(?P<how>[({{=])", code)) if text else []
        if not re.fullmatch(r"[A-Za-z_]\w*", text) or not declared:
            return [block]
        initialized = int(declared[0]["how"] == "=")
        if len(declared) > 1 or depth > _DEPTH or self._changes(rf"{name}(?:\s*\.\s*[xyz])?", initialized):
            return None
        at = declared[0].end()
        if initialized:
            value = next(split_list(code, at, max(code.find(";", at), at)), None)
            return None if value is None else self._sides(value, depth + 1)
        end = closing(code, at - 1)
        return list(split_list(code, at, end)) if end > 0 else None

    def _changes(self, name: str, initialized: int) -> bool:
        """Return True if a variable gets other values than its first, or its address is taken."""
        changed = re.findall(
            rf"(?<![\w.]){name}\s*(?:[-+*/%&|^]|<<|>>)?=(?!=)|(?:\+\+|--|(?<!&)&)\s*{name}\b"
            rf"|(?<![\w.]){name}\s*(?:\+\+|--)",
            self.code,
        )
        return len(changed) > initialized

    def _value(self, expression: Range, depth: int) -> int | None:
        self.written.append(expression)
        text = _CASTS.sub(" ", self.code[expression[0] : expression[1]])
        names = {}
        for name in set(_NAME.findall(text)) if depth <= _DEPTH else ():
            value = self._constant(name, depth)
            if value is not None:
                names[name] = value
        try:
            value = evaluate(tokens_of(text), names)
        except NotArithmeticError:
            return None
        return value if value > 0 else None

    def _constant(self, name: str, depth: int) -> int | None:
        code, escaped = self.code, re.escape(name)
        plain = rf"\b{_INTEGER}(?:\s+const(?:expr)?)?\s+{escaped}\b"
        declared = list(
            re.finditer(rf"{plain}\s*(?:=(?!=)\s*(?P<is>[^;,]+)[;,]|[{{(](?P<of>[^;{{}}()]+)[}})]\s*;)", code)
        )
        defined = list(re.finditer(rf"^[ \t]*#[ \t]*define[ \t]+{escaped}[ \t]+(?P<is>[^\n]+)$", code, re.MULTILINE))
        listed = list(re.finditer(rf"\benum\b[^;{{]*\{{[^}}]*\b{escaped}\s*=\s*(?P<is>[^,}}]+)", code))
        values = [one.span("is" if one["is"] else "of") for one in declared]
        values += [one.span("is") for one in (*defined, *listed)]
        initialized = sum(bool(one["is"]) for one in declared) + len(listed)
        others = len(re.findall(plain, code)) - len(declared)
        if others or not values or self._changes(escaped, initialized):
            return None
        found = {self._value(value, depth + 1) for value in values}
        return found.pop() if len(found) == 1 else None
