"""Uses that a kernel makes of the elements behind a pointer, as far as the text of its file shows.

A pointer is followed into the variables that are made from it and into the functions of the file that get it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum

from ckwatch.headers.masked_text import closing, split_list
from ckwatch.model.lazy_dataclass import dataclass

_DEPTH = 5
_LOADS = re.compile(r"\b(?:\w*(?:LDG|ldg)|__builtin_nontemporal_load|__ldcs|__ldcg)$")
_COPIES = re.compile(r"\b\w*memcpy\w*\s*(?:<[^;{}()]*>)?$")
_ATOMIC = re.compile(r"\batomic\w+$|\bunsafeAtomicAdd$|\b__hip_atomic_(?:fetch_\w+|exchange)$")
_OPERATOR = re.compile(r"\s*(=(?!=)|[-+*/|&^%]=|<<=|>>=|\+\+|--)?")
_MEMBER = re.compile(r"\s*\.\s*\w+|\s*(?=\[)")
_REFERENCE = re.compile(r"_cast\s*<[^;<>]*&\s*>\s*\($")
_KEYWORDS = frozenset(
    ("if", "while", "for", "switch", "return", "sizeof", "reinterpret_cast", "static_cast", "const_cast")
)
_CALLEE = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^;{}()]*>)?\s*$")
_TEST = re.compile(r"(?:\bif|\bwhile|&&|\|\||!|\()\s*$")


class Access(StrEnum):
    """Use that a kernel makes of the elements behind a pointer."""

    READ = "reads"
    WRITE = "writes"
    BOTH = "reads and writes"
    OWN = "writes, and then reads"
    UNKNOWN = "passes on"


class _UnknownUseError(ValueError):
    """A use that the text does not show."""


@dataclass(frozen=True, slots=True)
class _Event:
    """`hidden` is True where the element goes to a function that may write it."""

    reads: bool
    writes: bool
    hidden: bool = False


def access(name: str, body: str, code: str) -> Access:
    """The use of a pointer in the body of a function of the masked text `code`. Reads that come after writes in the
    text are taken for reads of what has been written."""
    try:
        events = list(_events(name, body, code, 0))
    except _UnknownUseError:
        return Access.UNKNOWN
    if not events:
        return Access.UNKNOWN
    if not any(one.writes for one in events):
        return Access.UNKNOWN if any(one.hidden for one in events) else Access.READ
    if not any(one.reads for one in events):
        return Access.WRITE
    return Access.BOTH if events[0].reads else Access.OWN


def _events(name: str, body: str, code: str, depth: int) -> Iterator[_Event]:
    if depth > _DEPTH:
        raise _UnknownUseError
    found: list[tuple[int, _Event]] = []
    for one in re.finditer(rf"(?<![\w.])(?<!->){re.escape(name)}\b(?!\s*::)", body):
        for event in _use(one.start(), one.end(), body, code, depth):
            assigned = event.writes and not event.reads  # what is assigned is read before
            found.append((max(body.find(";", one.end()), one.end()) if assigned else one.start(), event))
    yield from (event for _, event in sorted(found, key=lambda one: one[0]))


def _use(start: int, end: int, body: str, code: str, depth: int) -> Iterator[_Event]:
    before = body[:start].rstrip()
    behind = body[end:].lstrip()
    if re.match(r"[-+]=", behind):
        return  # the pointer itself moves
    if behind.startswith("["):
        close = closing(body, body.index("[", end))
        if not before.endswith("&") or before.endswith("&&"):
            yield from _element(before, start, close + 1, body, code, depth)
            return
        before, end = before[:-1].rstrip(), close + 1
    elif before.endswith("*") and re.search(r"(?:^|[(,=;{}\[?:!&|<>+\-*/%]|\breturn)\s*\*$", before):
        yield _assigned(before[:-1].rstrip(), body, end)
        return
    elif _is_test(before, behind):
        return
    yield from _handed_on(start, end, body, code, depth)


def _is_test(before: str, behind: str) -> bool:
    """True for a pointer that is only compared with null."""
    if re.match(r"[!=]=\s*(?:nullptr|NULL|0)\b|\?|&&|\|\|", behind):
        return _TEST.search(before) is not None
    return behind.startswith(")") and re.search(r"\b(?:if|while)\s*(?:constexpr\s*)?\($|!$", before) is not None


def _element(before: str, start: int, end: int, body: str, code: str, depth: int) -> Iterator[_Event]:
    """Events of an element, or a part of it, that ends at `end` or behind it."""
    whole, decays = end, False
    while (part := _MEMBER.match(body, end)) is not None:
        decays = body[part.end()] != "["
        end = part.end() if decays else closing(body, part.end()) + 1
        if end <= 0:
            raise _UnknownUseError
    if _REFERENCE.search(before):
        yield _assigned("", body, body.index(")", end) + 1)
        return
    begin = max(before.rfind(character) for character in ";{}") + 1
    made = re.match(r"\s*(?:const\s+)?[\w:]+(?:<[^;=]*>)?\s*(?:const\s*)?([*&])[^=;]*=(?!=)", before[begin:])
    if made is not None and made[1] == "&":
        raise _UnknownUseError
    if made is not None and decays and end > whole:
        yield from _in_alias(start, end, body, code, depth)
        return
    event = _assigned(before, body, end)
    opening = _call_around(body, start)
    head = _CALLEE.search(body[:opening]) if opening is not None else None
    hidden = head is not None and head[1] not in _KEYWORDS and not _LOADS.search(head[1])
    yield _Event(event.reads, event.writes, hidden=hidden and not event.writes)


def _assigned(before: str, body: str, end: int) -> _Event:
    after = _OPERATOR.match(body, end)
    operator = after[1] if after else None
    if before.endswith(("++", "--")):
        operator = "++"
    return _Event(reads=operator != "=", writes=operator is not None)


def _handed_on(start: int, end: int, body: str, code: str, depth: int) -> Iterator[_Event]:
    """Events behind an argument of a call, or a variable whose initial value the pointer is."""
    opening = _call_around(body, start)
    if opening is not None:
        head = body[:opening].rstrip()
        if _LOADS.search(head):
            yield _Event(reads=True, writes=False)
            return
        if _COPIES.search(head):  # of whatever library: to its first argument, from another
            is_target = (
                next(iter(split_list(body[opening + 1 : closing(body, opening)])), (0, 0))[1] > start - opening - 1
            )
            yield _Event(reads=not is_target, writes=is_target)
            return
        if _ATOMIC.search(head):
            yield _Event(reads=True, writes=True)
            return
        if not re.search(r"\breinterpret_cast\s*<[^;]*>$|\bstatic_cast\s*<[^;]*>$|[(,=]$|^$", head):
            yield from _in_function(head, opening, start, body, code, depth)
            return
    yield from _in_alias(start, end, body, code, depth)


def _call_around(body: str, start: int) -> int | None:
    """The bracket of the innermost list of arguments, or cast, around an offset; None where a statement is nearer."""
    level = 0
    for at in range(start - 1, -1, -1):
        character = body[at]
        if character in ")]":
            level += 1
        elif character in "([":
            if not level:
                return at if character == "(" else None
            level -= 1
        elif character in ";{}" and not level:
            return None
    return None


def _in_function(head: str, opening: int, start: int, body: str, code: str, depth: int) -> Iterator[_Event]:
    called = _CALLEE.search(head)
    end = closing(body, opening)
    if called is None or end < 0:
        raise _UnknownUseError
    bounds = list(split_list(body[opening + 1 : end]))
    number = next(at for at, (first, last) in enumerate(bounds) if first <= start - opening - 1 < last)
    argument = body[opening + 1 + bounds[number][0] : opening + 1 + bounds[number][1]]
    if re.search(r"\[", argument.split("&")[0]) or re.search(r"[?*]\s*\w+$", argument):
        raise _UnknownUseError
    found = 0
    for parameters, inside in _functions(called[1], code):
        declared = [parameters[first:last] for first, last in split_list(parameters)]
        if number >= len(declared) or len(declared) < len(bounds):
            continue
        name = re.search(r"(\w+)\s*(?:=[^=].*)?$", declared[number], re.DOTALL)
        if name is None or ("*" not in declared[number] and "[" not in declared[number]):
            raise _UnknownUseError
        found += 1
        if re.search(r"\bconst\b[^*]*\*", declared[number]):
            yield _Event(reads=True, writes=False)
        else:
            yield from _events(name[1], inside, code, depth + 1)
    if not found:
        raise _UnknownUseError


def _functions(name: str, code: str) -> Iterator[tuple[str, str]]:
    """Parameters and body of a function that the text defines."""
    for one in re.finditer(rf"(?<=[\s*&]){re.escape(name)}\s*\(", code):
        end = closing(code, one.end() - 1)
        opened = re.compile(r"\s*(?:const\s*)?(?:noexcept\s*)?\{").match(code, end + 1) if end > 0 else None
        if opened is None:
            continue
        last = closing(code, opened.end() - 1)
        yield code[one.end() : end], code[opened.end() : last if last > 0 else len(code)]


def _in_alias(start: int, end: int, body: str, code: str, depth: int) -> Iterator[_Event]:
    """Events of the variable that a statement such as `T* q = p + i;` makes from the pointer."""
    begin = max(body.rfind(character, 0, start) for character in ";{}") + 1
    statement = body[begin : body.find(";", end)]
    made = re.fullmatch(
        r"\s*(?:(?:constexpr|const|static)\s+)*(?:auto\s*\*?|[\w:]+(?:<[^;=]*>)?(?:\s+const)?\s*\*)"
        r"\s*(?:const\s+)?(?:[A-Z_a-z]\w*\s+)??(\w+)\s*=\s*(.*)",
        statement,
        re.DOTALL,
    )
    if made is None or "?" in made[2]:
        raise _UnknownUseError
    if re.match(r"\s*(?:const\b[^*=]*\*)", statement):
        yield _Event(reads=True, writes=False)
        return
    yield from _events(made[1], body[begin + made.end(2) :], code, depth + 1)
