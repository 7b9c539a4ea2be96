"""Answers of tools: what a command printed as JSON, as far as it fits, and how to read on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from json import dumps
from typing import Any

from pydantic import BaseModel

from ckwatch.model.errors import CkwatchError

TOKEN_LIMIT = 1500
"""Tokens of one answer."""

KEPT = 32
"""Answers that can be read on, the newest of a session."""

MOST_FIELDS = 40
"""Fields of a record; what has more is a table by names."""

_TOKEN = re.compile(r"[A-Za-z]{1,6}|\d{1,3}|[^\sA-Za-z\d]{1,2}|\s+")
"""Pieces that byte-pair encodings split such text into, or larger ones: words of English and of code are one token to
six letters, numbers to three digits."""

_CAPS = ((1 << 20, 1 << 20), (50, 2000), (20, 1000), (10, 600), (5, 400), (3, 300), (1, 200), (0, 100))
"""Limits that are tried in turn: the most elements of a list inside a line, and the most characters of a text."""


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


Part = list[Any] | dict[str, Any] | str
"""Values that can be cut: a list, a table or record, a text."""


class AnswerBook:
    """The whole output of a session's commands, by the numbers of the answers that show parts of it."""

    def __init__(self) -> None:
        self._documents: dict[int, list[Any]] = {}
        self._count = 0

    def answer(self, status: int, lines: Sequence[Mapping[str, Any]]) -> Answer:
        """The first part of what a command printed."""
        self._count += 1
        kept = [compact(line) for line in sorted(lines, key=_rank) if line.get("event") not in _LEFT_OUT]
        self._documents[self._count] = kept
        self._documents.pop(self._count - KEPT, None)
        return fitted(kept, f"{self._count}:/lines", exit_status=status)

    def more(self, wanted: str) -> Answer:
        """The part that an earlier answer left out. Raises CkwatchError where there is none."""
        found = re.fullmatch(r"((\d{1,9}):/lines((?:/[^/@]*)*))@(\d{1,9})", wanted)
        try:
            if found is None or "/-" in wanted:
                raise ValueError(wanted)
            first = int(found[4])
            value: Any = self._documents[int(found[2])]
            for step in found[3].split("/")[1:]:
                value = value[int(step)] if isinstance(value, list) else value[step.replace("~1", "/")]
            rest = dict(islice(value.items(), first, None)) if isinstance(value, dict) else value[first:]
        except (LookupError, ValueError, TypeError):
            hint = "take it from the field `cut` of one of the last answers"
            raise CkwatchError(f"no answer has more under '{wanted[:80]}'", hint) from None
        return fitted(rest, found[1], first)


def token_count(text: str) -> int:
    """The number of tokens of a text, about; encodings differ."""
    return sum(1 for _ in _TOKEN.finditer(text))


def compact(value: Any) -> Any:
    """A value without the fields that are null or empty."""
    if isinstance(value, Mapping):
        found = ((name, compact(field)) for name, field in value.items())
        return {name: field for name, field in found if field not in (None, "", [], {})}
    return [compact(one) for one in value] if isinstance(value, list | tuple) else value


def fitted(value: Part, pointer: str, first: int = 0, exit_status: int | None = None) -> Answer:
    """The beginning of a list, text or table that fits an answer, with what is cut inside and behind it.

    `pointer`: to it in its document, of which it is the rest from element, character or entry `first`.
    """
    enough = min(len(value), 5) if isinstance(value, list) else 1
    for most, characters in _CAPS:
        count = len(value)
        while True:
            cuts: list[Cut] = []
            shown = _shortened(value, pointer, most, characters, cuts, first, count)
            answer = Answer(exit_status=exit_status, lines=shown if isinstance(shown, list) else [shown], cut=cuts)
            fits = token_count(answer.text()) <= TOKEN_LIMIT
            if fits or count <= 1 or not isinstance(value, list):
                break
            count = min(count - 1, count * TOKEN_LIMIT // token_count(answer.text()) + 1)
        if fits and len(answer.lines) >= enough:
            break
    return answer


def _shortened(
    value: Any, pointer: str, most: int, characters: int, cuts: list[Cut], first: int = 0, count: int | None = None
) -> Any:
    """A value with at most so many elements in each list inside, and characters in each text; `count` of its own."""

    def keep(limit: int) -> int:
        if (left_out := len(value) - limit) > 0:
            cuts.append(Cut(at=pointer.partition(":")[2], left_out=left_out, more=f"{pointer}@{first + limit}"))
        return limit

    def inside(step: int | str, field: Any) -> Any:
        return _shortened(field, f"{pointer}/{str(step).replace('/', '~1')}", most, characters, cuts)

    match value:
        case str():
            return value[: keep(characters)]
        case list():
            return [inside(first + n, one) for n, one in enumerate(value[: keep(most if count is None else count)])]
        case dict():
            kept = keep(most * 5) if len(value) > MOST_FIELDS else len(value)
            return {name: inside(name, field) for name, field in islice(value.items(), kept)}
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
