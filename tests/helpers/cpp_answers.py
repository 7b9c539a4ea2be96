"""Rows about C++ in templates as values: what is asked where, and what the answer must be (`cpp/answers/*.toml`).

A place is marked in the text around it, never counted: `‸` is the cursor (two: a range), `⟦…⟧` what an answer must
point at. The text around a mark stands in its file exactly once, else the row is wrong. `FILE: text` is a place in the
file whose path ends in FILE. A list that ends in `…` may go on. A text between slashes (`/…/`) is a regular expression.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ckwatch.cpp.places import path_of, range_from
from ckwatch.model.text import LineIndex, Position, Range
from ckwatch.wire.cpp import CppAnswer, CppQuestion, Side

HERE = Path(__file__).parent.parent / "cpp" / "answers"
CURSOR, OPEN, CLOSE, MORE = "‸", "⟦", "⟧", "…"
RENDERED = "rendered"

HIGHLIGHTS = {1: "text", 2: "read", 3: "written"}
SYMBOLS = {
    3: "namespace",
    5: "class",
    6: "method",
    7: "property",
    8: "field",
    9: "constructor",
    10: "enum",
    12: "function",
    13: "variable",
    22: "member",
    23: "struct",
    26: "parameter",
}

Item = TypeVar("Item")


class Edit(BaseModel):
    """`old`, which stands once in `file`, becomes `new`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    old: str
    new: str


class Row(BaseModel):
    """A question and its answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    ask: CppQuestion
    file: str
    """A template, a kernel file, or `rendered`."""
    at: str = ""
    then: str = ""
    """A place in the header to which the definition of what stands at `at` leads; the question is about that."""
    unit: str | None = None
    side: Side | None = None
    trigger: str = ""
    new_name: str = ""
    others: bool = False
    unsaved: tuple[Edit, ...] = ()
    fails: str | None = None
    """Why the row is known to fail; to be removed with the failure."""

    answered_by: Side = "host"
    by_unit: str = ""
    reason: str = ""
    """Why there is no answer."""
    raises: str = ""
    """Error that the client raises."""
    nothing: bool = False
    """There is no answer, which needs no reason."""
    says: tuple[str, ...] = ()
    never_says: tuple[str, ...] = ()
    about: str | None = None
    """Subject of a hover; empty if unknown."""
    produced: str = ""
    elsewhere: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Text of a hover on other instances, or other rounds of a loop."""
    taken: Mapping[str, str] = Field(default_factory=dict)
    """Label of a completion → the text when it has been taken."""
    missing: tuple[str, ...] = ()
    """Labels that are not offered."""
    signatures: tuple[str, ...] = ()
    """With the active parameter in `⟦⟧`."""
    locations: tuple[str, ...] = ()
    highlights: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    renames: str = ""
    becomes: tuple[str, ...] = ()
    """The lines that edits make."""
    actions: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Title of an action → the lines that it makes."""
    refused: Mapping[str, str] = Field(default_factory=dict)
    """Title of an action → why it cannot be made."""
    calls: tuple[str, ...] = ()
    called_at: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _expects_something(self) -> Row:
        refusals = (self.reason, self.raises, self.nothing)
        found = (self.says, self.taken, self.missing, self.signatures, self.locations, self.highlights, self.calls)
        listed = (self.symbols, self.tokens, self.hints, self.renames, self.becomes, self.actions, self.refused)
        if not any((*refusals, *found, *listed)):
            raise ValueError(f"{self.name}: nothing is expected")
        return self

    def __str__(self) -> str:
        return self.name


class Table(BaseModel):
    """A file of rows about one workspace, whose `ckwatch.toml` is among its `files`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str = ""
    examples: tuple[str, ...] = ()
    """Kernel files that are copied from the folder of examples."""
    own: tuple[str, ...] = ()
    """Built-in templates that are copied into the workspace, where they may be changed."""
    needs: Literal["", "cuda"] = ""
    """`cuda` for what needs nvcc and CUTLASS."""
    files: Mapping[str, str]
    crlf: tuple[str, ...] = ()
    """Those of `files` whose lines end in CR LF."""
    row: tuple[Row, ...]

    def __str__(self) -> str:
        return self.title


@cache
def tables() -> tuple[Table, ...]:
    """All, in the order of their files."""
    return tuple(
        Table.model_validate({**tomllib.loads(file.read_text("utf-8")), "title": file.stem})
        for file in sorted(HERE.glob("*.toml"))
    )


class Texts(Protocol):
    """Texts of files, unsaved text included. `""` is the rendered source."""

    def __call__(self, path: str) -> str: ...


def cursors(text: str, at: str) -> tuple[Position, Position | None]:
    """Return the positions of the marks of `at` in `text`; the second one, if any, ends a range."""
    pieces = at.split(CURSOR)
    assert 2 <= len(pieces) <= 3, f"one or two cursors are needed: {at}"
    start = _only_place(text, "".join(pieces)) + len(pieces[0])
    lines = LineIndex(text)
    end = lines.position(start + len(pieces[1])) if len(pieces) == 3 else None
    return lines.position(start), end


def _only_place(text: str, part: str) -> int:
    found = text.count(part)
    assert found == 1, f"stands {found} times in its file: {part}"
    return text.index(part)


def offsets(text: str, place: Range) -> tuple[int, int]:
    """Of a range, in characters."""
    lines = LineIndex(text)
    return lines.offset(place.start), lines.offset(place.end)


def with_marks(text: str, place: Range) -> str:
    """The text with a range marked: `⟦…⟧`, or `‸` where it is empty."""
    start, end = offsets(text, place)
    marked = CURSOR if start == end else f"{OPEN}{text[start:end]}{CLOSE}"
    return text[:start] + marked + text[end:]


def line_of(text: str, place: Range) -> str:
    """The marked line, for people."""
    return next((line.strip() for line in with_marks(text, place).splitlines() if re.search("[‸⟦]", line)), "")


def says(part: str, text: str) -> bool:
    """Return True if `text` has `part`, or matches it where that is `/…/`."""
    if len(part) > 2 and part[0] == part[-1] == "/":
        return re.search(part[1:-1], text) is not None
    return part in text


@dataclass(frozen=True, slots=True)
class Judging:
    """Compares an answer with its row. `asked` is the path of the file that was asked about."""

    row: Row
    answer: CppAnswer
    asked: str
    texts: Texts
    complaints: list[str] = field(default_factory=list)

    def judge(self) -> list[str]:
        """Return the mistakes of an answer; empty if it is right."""
        row, answer = self.row, self.answer
        self._same("ready", True, answer.ready)
        if not says(row.reason, answer.reason) or bool(row.reason) != bool(answer.reason):
            self._complain("reason", row.reason, answer.reason)
        if not row.reason:
            self._same("side", row.answered_by, answer.side)
        if row.by_unit:
            self._same("unit", row.by_unit, answer.unit)
        self._hover(answer.result if row.ask == "hover" else None)
        self._completions(self._found("completion"))
        self._signatures(self._found("signatures"))
        own = self.asked
        places = self._found("definition", "type-definition", "implementation", "references")
        self._listed("locations", row.locations, places, lambda one: self._place(one["uri"], one["range"]))
        marked = [(HIGHLIGHTS[one["kind"]], range_from(one["range"])) for one in self._found("highlights")]
        self._listed("highlights", row.highlights, marked, lambda one: (f"{one[0]}: ", own, one[1]))
        declared = list(_flat(self._found("symbols"), ""))
        self._listed("symbols", row.symbols, declared, lambda one: (f"{one[0]}: ", own, one[1]))
        named = [(kind, _wire(line, column, length)) for line, column, length, kind, _ in self._found("tokens")]
        self._listed("tokens", row.tokens, named, lambda one: (f"{one[0]}: ", own, one[1]))
        hinted = [(one["label"], _at(one["position"])) for one in self._found("hints")]
        self._listed("hints", row.hints, hinted, lambda one: (f"{one[0]} at ", own, one[1]))
        names = self._found("prepare-rename")
        expected = (row.renames,) if row.renames else ()
        self._listed("name", expected, names, lambda one: ("", own, range_from(one["range"])))
        for one in names:
            self._same("text of the name", row.renames.partition(OPEN)[2].partition(CLOSE)[0], one["placeholder"])
        self._lines("edits", row.becomes, [line for one in self._found("rename") for line in self._changed(one)])
        self._actions(self._found("actions"))
        calls = self._found("incoming-calls", "outgoing-calls")
        side = "from" if row.ask == "incoming-calls" else "to"
        functions = [*self._found("prepare-calls"), *(one[side] for one in calls)]
        self._listed("calls", row.calls, functions, lambda one: self._place(one["uri"], one["selectionRange"]))
        asked_uri = Path(own).as_uri() if own else RENDERED
        called = [
            (one["from"]["uri"] if side == "from" else asked_uri, at) for one in calls for at in one["fromRanges"]
        ]
        self._listed("called at", row.called_at, called, lambda one: self._place(*one))
        return self.complaints

    def _found(self, *questions: str) -> list[Any]:
        """The result, or its parts, if one of these was asked."""
        result = self.answer.result if self.row.ask in questions else None
        return result if isinstance(result, list) else [result] if result else []

    def _hover(self, hover: Any) -> None:
        row = self.row
        if hover is None:
            if row.says:
                self._complain("hover", row.says, None)
            return
        markdown = hover["contents"]["value"]
        for part in row.says or ("a hover is not expected",):
            if not says(part, markdown):
                self._complain("hover", part, markdown)
        for part in row.never_says:
            if says(part, markdown):
                self._complain("hover without", part, markdown)
        if row.about is not None:
            ranges = [range_from(hover["range"])] if "range" in hover else []
            expected = (row.about,) if row.about else ()
            self._listed("range", expected, ranges, lambda one: ("", self.asked, one))
        self._same("produced", row.produced, hover["produced"])
        found = {one["text"]: one["units"] for one in hover["others"]}
        missed = [one for one in row.elsewhere if not any(says(one, text) for text in found)]
        if missed or len(found) != len(row.elsewhere):
            self._complain("others", row.elsewhere, found)
            return
        for one, units in row.elsewhere.items():
            self._same(f"units with {one}", set(units), {u for text in found if says(one, text) for u in found[text]})

    def _completions(self, lists: Sequence[Any]) -> None:
        row = self.row
        labels = {one["label"]: one["textEdit"] for listed in lists for one in listed["items"]}
        for label, text in row.taken.items():
            name = next((name for name in labels if says(label, name)), None)
            if name is None:
                self._complain("completion", label, ", ".join(list(labels)[:40]))
                continue
            before = self.texts(self.asked)
            start, end = offsets(before, range_from(labels[name]["range"]))
            if text not in (after := f"{before[:start]}{labels[name]['newText']}{before[end:]}"):
                line = LineIndex(after).position(start).line
                self._complain(f"completion {name}", text, after.splitlines()[line])
        for label in row.missing:
            if any(says(label, name) for name in labels):
                self._complain("completion without", label, [name for name in labels if says(label, name)])

    def _signatures(self, helps: Sequence[Any]) -> None:
        shown = []
        for given in helps:
            for number, one in enumerate(given["signatures"]):
                label, at = one["label"], given.get("activeParameter") or 0
                is_active = number == (given.get("activeSignature") or 0)
                active = one.get("parameters", [])[at : at + 1] if is_active else ()
                start, end = active[0]["label"] if active else (0, 0)
                shown.append(label[:start] + (f"{OPEN}{label[start:end]}{CLOSE}" if active else "") + label[end:])
        self._lines("signatures", self.row.signatures, shown)

    def _actions(self, actions: Sequence[Any]) -> None:
        offered = {one["title"]: one for one in actions}
        for title, lines in self.row.actions.items():
            found = next((one for name, one in offered.items() if says(title, name)), None)
            if found is None or "disabled" in found:
                self._complain("action", title, found["disabled"] if found else list(offered))
            else:
                self._lines(f"action {found['title']}", lines, self._changed(found["edit"]))
        for title, reason in self.row.refused.items():
            found = next((one for name, one in offered.items() if says(title, name)), None)
            if found is None or "disabled" not in found or not says(reason, found["disabled"]["reason"]):
                self._complain(f"refused action {title}", reason, found or list(offered))
        if offered and not self.row.actions and not self.row.refused:
            self._complain("actions", [], list(offered))

    def _changed(self, edit: Any) -> list[str]:
        """`FILE: line` of each line that edits make."""
        lines = []
        for uri, edits in edit["changes"].items():
            path = path_of(uri) or ""
            before = after = self.texts(path)
            spans = [(offsets(before, range_from(one["range"])), one["newText"]) for one in edits]
            for (start, end), text in sorted(spans, key=lambda each: each[0], reverse=True):
                after = after[:start] + text + after[end:]
            made = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
            lines += [f"{Path(path).name}: {line[1:].strip()}" for line in list(made)[2:] if line[0] == "+"]
        return lines

    def _place(self, uri: str, place: Mapping[str, Any]) -> tuple[str, str, Range]:
        path = path_of(uri) or ""
        return f"{path or RENDERED}: ", path, range_from(place)

    def _listed(
        self,
        what: str,
        expected: Sequence[str],
        found: Sequence[Item],
        place: Callable[[Item], tuple[str, str, Range]],
    ) -> None:
        """`place` gives what stands before the text of a place, the file, and the range."""
        left = list(found)
        wanted = [one for one in expected if one != MORE]
        wrong = []
        for one in wanted:
            at = next((each for each in left if self._is_at(one, *place(each))), None)
            if at is None:
                wrong.append(one)
            else:
                left.remove(at)
        if wrong or (left and MORE not in expected):
            shown = [f"{prefix}{line_of(self.texts(path), at)}" for prefix, path, at in map(place, found)]
            self._complain(what, expected, shown if len(shown) < 60 else [*shown[:60], MORE])

    def _is_at(self, expected: str, prefix: str, path: str, at: Range) -> bool:
        own, colon, part = expected.partition(": ")
        if " at " in prefix:
            own, colon, part = expected.partition(" at ")
        if not prefix:
            own, part = "", expected
        if prefix and not f"/{prefix}".endswith((f"/{own}{colon}", f" {own}{colon}")):
            return False
        text = self.texts(path)
        if part not in with_marks(text, at):
            return False
        _only_place(text, re.sub("[‸⟦⟧]", "", part))
        return True

    def _lines(self, what: str, expected: Sequence[str], found: Sequence[str]) -> None:
        wanted = [one for one in expected if one != MORE]
        left = list(found)
        for one in wanted:
            same = next(
                (line for line in left if line == one or (len(one) > 2 and one[0] == "/" and says(one, line))), None
            )
            if same is None:
                self._complain(what, expected, found)
                return
            left.remove(same)
        if left and MORE not in expected:
            self._complain(what, expected, found)

    def _same(self, what: str, expected: object, found: object) -> None:
        if expected != found:
            self._complain(what, expected, found)

    def _complain(self, what: str, expected: object, found: object) -> None:
        self.complaints.append(f"{what}\n  expected: {_shown(expected)}\n  came:     {_shown(found)}")


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "".join(f"\n    {one}" for one in value) or "nothing"
    return str(value) if value not in ("", None) else "nothing"


def _flat(symbols: Sequence[Any], within: str) -> Iterator[tuple[str, Range]]:
    for one in symbols:
        name = f"{within}{one['name']}"
        yield f"{SYMBOLS.get(one['kind'], one['kind'])} {name}", range_from(one["selectionRange"])
        yield from _flat(one["children"], f"{name}.")


def _wire(line: int, column: int, length: int) -> Range:
    return Range(Position(line, column), Position(line, column + length))


def _at(position: Mapping[str, int]) -> Range:
    return _wire(position["line"], position["character"], 0)
