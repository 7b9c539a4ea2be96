"""The planted mistakes as values: workspaces that are right (`bases/`), and what is done to them (`cases/*.toml`).

A case names a base, what is replaced in which file, and a regular expression that whoever reads the first message must
find in it (`says`, upper and lower case alike). `⟦…⟧` in the new text marks where the message may stand: each mark is a
place that somebody who made the mistake would call the right one, so there is mostly one. Keys that stand above the first
`[[case]]` hold for all cases of the file.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

HERE = Path(__file__).parent
OPEN, CLOSE = "⟦", "⟧"


class Edit(BaseModel):
    """`old` becomes `new` in `file`; without `old` the file is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: str
    old: str | None = None
    new: str


class Case(BaseModel):
    """One mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    kind: str
    base: str
    file: str
    old: str
    new: str
    says: str
    edits: tuple[Edit, ...] = ()
    command: Literal["check", "build"] = "check"
    """`build` where only a compiler or a linker can find it."""
    options: tuple[str, ...] = ()
    """Further words of the command."""
    crlf: bool = False
    fails: str | None = None
    """Why the case is known to fail; to be removed with the failure."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


@dataclass(frozen=True, slots=True)
class Mark:
    """Places at which a message may begin, in lines and characters from 0. Only there if it is empty, else anywhere but at its end."""

    file: str
    start: tuple[int, int]
    end: tuple[int, int]

    def has_line(self, line: int) -> bool:
        """Return True if the line is one of the mark's."""
        last = self.end[0] - (self.end[1] == 0 and self.end[0] > self.start[0])
        return self.start[0] <= line <= last

    def has(self, place: tuple[int, int]) -> bool:
        """Return True if a message that begins there is at the right place."""
        return place == self.start if self.start == self.end else self.start <= place < self.end

    def __str__(self) -> str:
        return f"{self.file}:{self.start[0] + 1}:{self.start[1] + 1}"


@cache
def cases() -> tuple[Case, ...]:
    """All cases, in the order of their files."""
    found = []
    for file in sorted((HERE / "cases").glob("*.toml")):
        content = tomllib.loads(file.read_text())
        rows = content.pop("case")
        found += [Case.model_validate({**content, **row}) for row in rows]
    return tuple(found)


def plant(case: Case, root: Path) -> list[Mark]:
    """Copy the case's base to `root`, which must not exist, with the mistake in it.

    Returns:
        Where the message may stand, at least one place.

    Raises:
        ValueError: a text to replace is not in its file exactly once, or nothing is marked.
    """
    shutil.copytree(HERE / "bases" / case.base, root)
    edits = (Edit(file=case.file, old=case.old, new=case.new), *case.edits)
    for edit in edits:
        path = root / edit.file
        if edit.old is None:
            path.write_text(edit.new)
            continue
        text = path.read_text()
        if text.count(edit.old) != 1:
            raise ValueError(f"{case}: {edit.file} has {text.count(edit.old)} times: {edit.old}")
        path.write_text(text.replace(edit.old, edit.new))
    marks = []
    for name in dict.fromkeys(edit.file for edit in edits):
        path = root / name
        text, found = take_marks(path.read_text(), name)
        marks += found
        path.write_bytes((text.replace("\n", "\r\n") if case.crlf else text).encode())
    if not marks:
        raise ValueError(f"{case}: nothing is marked")
    return marks


def take_marks(text: str, file: str) -> tuple[str, list[Mark]]:
    """The text without its marks, and the marks."""
    plain = ""
    starts: list[tuple[int, int]] = []
    marks = []
    for piece in re.split(f"([{OPEN}{CLOSE}])", text):
        place = (plain.count("\n"), len(plain) - plain.rfind("\n") - 1)
        if piece == OPEN:
            starts.append(place)
        elif piece == CLOSE:
            marks.append(Mark(file, starts.pop(), place))
        else:
            plain += piece
    return plain, marks
