"""Arrays of a lane that a line accesses, and the loops by whose counters it indexes them.

A register cannot be indexed by a value that the compiler does not know: such an array lies in scratch. That of a
counter is known where its loop is unrolled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ckwatch.headers.masked_text import closing
from ckwatch.model.lazy_dataclass import dataclass

_ACCESS = re.compile(r"(?<![\w.])(?P<name>[A-Za-z_]\w*)\s*\[")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\s*\()")
_FOR = re.compile(r"\bfor\s*\(")
_COUNTER = re.compile(r"\s*(?:const\s+)?[A-Za-z_][\w:]*(?:\s+\w+)*?\s+(?P<name>\w+)\s*[={(]")
_UNROLL = re.compile(r"#\s*pragma\b[^\n]*\bunroll|#\s*pragma\s+nounroll")
UNROLL = "#pragma unroll"


@dataclass(frozen=True, slots=True)
class Loop:
    """A `for` at `start`, whose body ends at `end`, and its counter; `line_start` is where its line begins."""

    start: int
    end: int
    counter: str
    line_start: int


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """An element of an array of the function's own: [`start`, `end`) is the access, `index` its indices as text.

    [`declared_at`, `declared_end`) is the array's name in its declaration. `loops` are those around it by whose
    counters it is indexed, `others` the names in its indices that are none.
    """

    name: str
    start: int
    end: int
    index: str
    declared_at: int
    declared_end: int
    loops: tuple[Loop, ...]
    others: tuple[str, ...]


def array_accesses(code: str, line_start: int, line_end: int) -> Iterator[ArrayAccess]:
    """The accesses in the line [`line_start`, `line_end`) of a masked text to arrays that are declared before it."""
    for found in _ACCESS.finditer(code, line_start, line_end):
        declared = _declaration(code, found["name"], found.start())
        if declared is None:
            continue
        indices, end = [], found.end() - 1
        while end < len(code) and code[end] == "[":
            last = closing(code, end)
            if last < 0:
                return
            indices.append(" ".join(code[end + 1 : last].split()))
            end = last + 1
        names = dict.fromkeys(name for index in indices for name in _NAME.findall(index))
        around = [loop for loop in loops(code, declared[0], found.start()) if loop.end > found.start()]
        counted = tuple(loop for loop in around if loop.counter in names)
        others = tuple(name for name in names if name not in {loop.counter for loop in around})
        yield ArrayAccess(found["name"], found.start(), end, ", ".join(indices), *declared, counted, others)


def loops(code: str, start: int, end: int) -> Iterator[Loop]:
    """The loops that begin in [`start`, `end`)."""
    for found in _FOR.finditer(code, start, end):
        head = closing(code, found.end() - 1)
        counter = _COUNTER.match(code, found.end())
        if head > 0 and counter is not None:
            line = code.rfind("\n", 0, found.start()) + 1
            yield Loop(found.start(), _statement_end(code, head + 1), counter["name"], line)


def is_told_to_unroll(text: str, loop: Loop) -> bool:
    """Return True if a directive before the loop says whether to unroll it."""
    before = text[: loop.line_start].rstrip()
    return _UNROLL.search(before[before.rfind("\n") + 1 :]) is not None


def _statement_end(code: str, at: int) -> int:
    """The end of the statement behind a loop's head."""
    rest = re.compile(r"(?:\s|\#[^\n]*\n)*").match(code, at)
    at = rest.end() if rest else at
    nested = _FOR.match(code, at)
    if nested is not None:
        head = closing(code, nested.end() - 1)
        return _statement_end(code, head + 1) if head > 0 else len(code)
    end = closing(code, at) if code.startswith("{", at) else code.find(";", at)
    return end if end > 0 else len(code)


def _declaration(code: str, name: str, before: int) -> tuple[int, int] | None:
    """The name in the last declaration of a lane's own array before an offset; None where none is seen."""
    words = r"(?:[A-Za-z_][\w:]*(?:<[^;{}()]*>)?\s+)+"
    pattern = rf"(?:\A|(?<=[;{{}}\n]))[ \t]*{words}(?:[^;(){{}}=]*,\s*)?(?P<name>{re.escape(name)})\s*\["
    found = list(re.finditer(pattern, code[:before]))
    if not found or re.search(r"__shared__|\breturn\b|\bextern\b", found[-1][0]):
        return None
    return found[-1].span("name")
