"""Answers of tools: what a command printed as JSON, as far as it fits, and how to read on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any

from pydantic import BaseModel

from ckwatch.model.errors import CkwatchError

TOKEN_LIMIT = 1500
"""Tokens of one answer."""

KEPT = 32
"""Answers that can be read on, the newest of a session."""

_TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]{1,2}|\s+")
"""Pieces that byte-pair encodings split such text into, or larger ones: words of English and of code are one token to
six letters, numbers to three digits."""

_CAPS = ((1 << 20, 1 << 20), (50, 2000), (20, 1000), (10, 600), (5, 400), (3, 300), (1, 200), (0, 100))
"""What is tried in turn: the most elements of a list inside a line, and the most characters of a text."""


class Cut(BaseModel):
    """`left_out` elements or characters of the list or text `at` (a JSON pointer), which `more` returns."""

    at: str
    left_out: int
    more: str


class Answer(BaseModel):
    """The lines that `ckwatch COMMAND --json` prints, the most important first; empty fields are left out."""

    exit_status: int | None = None
    lines: list[Any]
    cut: list[Cut] = []

    def text(self) -> str:
        """The answer as JSON without blanks."""
        return dumps(compact(self.model_dump()), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Document:
    """What a command printed, whole."""

    number: int
    status: int
    lines: Sequence[Mapping[str, Any]]


class AnswerBook:
    """The documents of a session, of which answers show parts."""

    def __init__(self) -> None:
        self._documents: dict[int, Document] = {}
        self._count = 0

    def answer(self, status: int, lines: Sequence[Mapping[str, Any]]) -> Answer:
        """The first part of what a command printed."""
        self._count += 1
        kept = [compact(line) for line in sorted(lines, key=_rank) if line.get("event") not in _LEFT_OUT]
        self._documents[self._count] = Document(self._count, status, kept)
        self._documents.pop(self._count - KEPT, None)
        return fitted(kept, f"{self._count}:/lines", 0, status)

    def more(self, wanted: str) -> Answer:
        """The part that an earlier answer left out. Raises CkwatchError where there is none."""
        found = re.fullmatch(r"((\d{1,9}):/lines((?:/[^/@]+)*))@(\d{1,9})", wanted)
        document = self._documents.get(int(found[2])) if found else None
        if found is None or document is None:
            raise CkwatchError(f"no answer has more under '{wanted[:80]}'", "call the tool again without `more`")
        value: Any = document.lines
        try:
            for step in found[3].split("/")[1:]:
                value = value[int(step)] if isinstance(value, list) else value[step.replace("~1", "/")]
        except (LookupError, ValueError, TypeError):
            raise CkwatchError(f"no answer has more under '{wanted[:80]}'", "take it from the field `cut`") from None
        start = int(found[4])
        rest = value[start:] if isinstance(value, list | str) else [value]
        return fitted(rest if isinstance(rest, list) else [rest], found[1], start, None)


def token_count(text: str) -> int:
    """The number of tokens of a text, about; encodings differ."""
    return sum(1 for _ in _TOKEN.finditer(text))


def compact(value: Any) -> Any:
    """A value without the fields that are null or empty."""
    if isinstance(value, Mapping):
        found = ((name, compact(field)) for name, field in value.items())
        return {name: field for name, field in found if field not in (None, "", [], {})}
    return [compact(one) for one in value] if isinstance(value, list | tuple) else value


def fitted(values: Sequence[Any], pointer: str, start: int, status: int | None) -> Answer:
    """The beginning of `values` that fits an answer, with what is cut inside and behind it.

    `pointer`: to the list in its document; `start`: where in it `values` begins, characters into a text.
    """
    few = min(len(values), 5)
    for most, characters in _CAPS:
        fitting = _fitting(values, pointer, start, status, most, characters)
        if len(fitting.lines) >= few:
            break
    return fitting


def _fitting(values: Sequence[Any], pointer: str, start: int, status: int | None, most: int, characters: int) -> Answer:
    """As many of `values` as fit, at least one."""
    answer = _cut(values, len(values), pointer, start, status, most, characters)
    few, many = 1, len(values)
    while not _fits(answer) and many > 1:
        many = max(few, min(many - 1, len(answer.lines) - 1))
        answer = _cut(values, many, pointer, start, status, most, characters)
    return answer


def _fits(answer: Answer) -> bool:
    return token_count(answer.text()) <= TOKEN_LIMIT


def _cut(
    values: Sequence[Any], count: int, pointer: str, start: int, status: int | None, most: int, characters: int
) -> Answer:
    cuts: list[Cut] = []
    text_start = start if len(values) == 1 and isinstance(values[0], str) else None
    lines = []
    for index, value in enumerate(values[:count]):
        at = pointer if text_start is not None else f"{pointer}/{start + index}"
        lines.append(_shortened(value, at, most, characters, cuts, text_start or 0))
    if count < len(values):
        cuts.append(_left_out(pointer, len(values) - count, start + count))
    return Answer(exit_status=status, lines=lines, cut=cuts)


def _left_out(pointer: str, count: int, first: int) -> Cut:
    return Cut(at=pointer.partition(":")[2], left_out=count, more=f"{pointer}@{first}")


def _shortened(value: Any, pointer: str, most: int, characters: int, cuts: list[Cut], start: int = 0) -> Any:
    match value:
        case str() if len(value) > characters:
            cuts.append(_left_out(pointer, len(value) - characters, start + characters))
            return value[:characters]
        case list():
            if len(value) > most:
                cuts.append(_left_out(pointer, len(value) - most, most))
            return [_shortened(one, f"{pointer}/{n}", most, characters, cuts) for n, one in enumerate(value[:most])]
        case dict():
            steps: Iterator[tuple[str, Any]] = iter(value.items())
            return {
                name: _shortened(field, f"{pointer}/{str(name).replace('/', '~1')}", most, characters, cuts)
                for name, field in steps
            }
    return value


_LEFT_OUT = ("start", "stage", "began")
"""Lines that progress notifications stand for."""


def _rank(line: Mapping[str, Any]) -> int:
    """Sums and errors come first."""
    if line.get("event") in ("edit", "summary"):
        return 0
    if line.get("severity") == "error" or line.get("outcome") in ("failed", "faulted"):
        return 1
    return 2 if "severity" in line else 3
