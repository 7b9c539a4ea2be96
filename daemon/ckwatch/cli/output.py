"""The output of a command: diagnostics with their source lines, text, rows in columns, or JSON lines."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from ckwatch.cli.command_words import dependency
from ckwatch.cli.reports import places
from ckwatch.cli.styled_text import StyledText, cell_width
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import CkwatchError
from ckwatch.system.durable_files import replace_file
from ckwatch.system.user_files import read_file
from ckwatch.workspace.discovery import working_folder

if TYPE_CHECKING:
    from rich.console import Console

    from ckwatch.checks.places import ReadLine
    from ckwatch.cli.reports import Place
    from ckwatch.cli.reports.findings import UnitCase


Line = tuple[str, str]
"""A line of text and its style."""


class SourceCache:
    """Files as they were when they were first asked for, until they are forgotten."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[str, ...]] = {}

    def read_line(self, path: str, line: int) -> str | None:
        """Line `line` (zero-based) of the file at `path`; None if there is none."""
        lines = self._lines.get(path)
        if lines is None:
            lines = self._lines[path] = _read(path)
        return lines[line] if 0 <= line < len(lines) else None

    def forget(self) -> None:
        """Read the files anew the next time."""
        self._lines.clear()


def _read(path: str) -> tuple[str, ...]:
    try:
        text = read_file(path).decode("utf-8-sig", "replace")
    except OSError:
        return ()
    return tuple(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))


class Output:
    """Standard output in the form that the options ask for: text for people, or one JSON object per line.

    `answer` and `event` print for programs alone, `text`, `lines` and `table` for people alone: a command says both.
    """

    def __init__(self, options: argparse.Namespace, root: Path | None = None) -> None:
        self.json = bool(getattr(options, "json", False))
        self.reports: Sequence[Place] = places(getattr(options, "reports", ()))
        self.details = bool(getattr(options, "details", False))
        self.root = str(root) if root else None
        self._color: str = options.color
        self._command: str = getattr(options, "command", "")
        self._write_line = dependency(options, "write_line", _print_line)
        self._sources = SourceCache()

    @cached_property
    def console(self) -> Console:
        """The terminal; loaded when something is printed for people."""
        from rich.console import Console

        terminal = {"always": True, "never": False}.get(self._color)
        return Console(force_terminal=terminal, no_color=self._color == "never" or None, soft_wrap=True)

    @property
    def read_line(self) -> ReadLine:
        """Reads lines of files, as they were when they were first asked for."""
        return self._sources.read_line

    @property
    def for_people(self) -> bool:
        """True if text is printed."""
        return not self.json and all(path is not None for _, path in self.reports)

    @property
    def is_plain(self) -> bool:
        """True if there are no colours, by the options and by rich's own criteria: then nothing of rich is needed."""
        if self._color == "auto":
            return not sys.stdout.isatty() and not _FORCED_BY & os.environ.keys()
        return self._color == "never"

    def event(self, event: str, *values: object, **fields: object) -> None:
        """Print one of several lines for programs: the fields of `values`, and these (`ckwatch.cli.json_output`)."""
        self._line({"event": event}, *values, fields)

    def answer(self, *values: object, event: str = "", **fields: object) -> None:
        """Print all there is for programs, or the first or last of several lines: the fields of `values`, and these."""
        self._line({"event": event} if event else {}, {"schema": SCHEMA}, *values, fields)

    def _line(self, *parts: object) -> None:
        if self.json:
            line = {name: value for part in parts for name, value in fields_of(part).items()}
            self._write_line(json.dumps(line, ensure_ascii=False, default=to_plain))

    def diagnostics(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Print diagnostics and a summary line, or an object for each; nothing when there are none."""
        if self.json:
            for diagnostic in diagnostics:
                self.event("diagnostic", diagnostic)
        elif diagnostics and self.for_people:
            from ckwatch.cli.diagnostic_text import count_summary, diagnostic_text

            for one in diagnostics:
                self.styled(diagnostic_text(one, self._sources.read_line, self.root, detail=self.details))
            self.text(count_summary(one.severity for one in diagnostics))

    def report(
        self,
        diagnostics: Sequence[Diagnostic],
        units: Sequence[UnitCase] = (),
        *,
        exit_status: int,
        summary: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Write diagnostics and units as the reports that are asked for. Raises CkwatchError."""
        if not self.reports:
            return
        from ckwatch.cli.diagnostic_text import count_summary
        from ckwatch.cli.reports import report
        from ckwatch.cli.reports.findings import Findings, repository_of

        found = Findings(
            command=f"ckwatch {self._command}",
            folder=repository_of(Path(self.root) if self.root else working_folder()),
            diagnostics=tuple(diagnostics),
            units=tuple(units),
            exit_status=exit_status,
            summary=summary or count_summary(one.severity for one in diagnostics),
            read_line=self.read_line,
            seconds=seconds,
        )
        for name, path in self.reports:
            if path is None:
                sys.stdout.write(report(found, name))
            else:
                write_file(path, report(found, name).encode())

    @contextmanager
    def working(self, text: str) -> Iterator[Callable[[str], None]]:
        """Show on a terminal what is being done; the function given says what follows."""
        if not self.for_people or not sys.stdout.isatty():
            yield lambda _: None
            return
        from rich.text import Text

        with self.console.status(text) as status:
            yield lambda text: status.update(Text(text))

    def styled(self, text: StyledText) -> None:
        """Print text for people. Wrapping is left to the terminal: in a file one message stays on one line."""
        if self.is_plain:
            sys.stdout.write(f"{text}\n")
        else:
            self.console.print(text.for_console(), soft_wrap=True, highlight=False, markup=False, emoji=False)

    def text(self, text: str, style: str = "") -> None:
        """Print a line for people; nothing in other formats."""
        if self.for_people:
            self.styled(StyledText((text, style)))

    def both(self, answer: object, lines: Iterable[Line]) -> int:
        """Print all there is, for programs or for people; the exit status of a command that succeeds."""
        self.answer(answer)
        self.lines(lines)
        return 0

    def lines(self, lines: Iterable[Line]) -> None:
        """Print lines for people."""
        for text, style in lines:
            self.text(text, style)

    def table(
        self,
        rows: Sequence[Sequence[str]],
        right: frozenset[int] = frozenset(),
        heading: Sequence[str] = (),
        *,
        indent: str = "  ",
        styles: Sequence[str] = (),
    ) -> None:
        """Print rows in columns (`aligned`) for people, each in its style, below the heading; nothing without rows."""
        if rows and self.for_people:
            found = [*(["bold"] if heading else []), *(styles or [""] * len(rows))]
            self.lines((indent + line, style) for line, style in zip(aligned(rows, right, heading), found, strict=True))


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


_FORCED_BY = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Variables by which a file is written to as if it were a terminal."""


SCHEMA = 1
"""Of what is printed; it grows when a field changes its meaning or goes away."""


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, of a model of pydantic or of a mapping, with their values as they are."""
    return {one.name: getattr(value, one.name) for one in fields(value)} if is_dataclass(value) else dict(value)


def to_plain(value: Any) -> Any:
    """A value for JSON, which `json` does not know: a path, or what has fields."""
    return str(value) if isinstance(value, PurePath) else fields_of(value)


def write_file(path: Path, content: bytes, *, folders: bool = True, flushed: bool = False) -> None:
    """Write a file, whole or not at all, and its `folders`. Raises CkwatchError."""
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content, flushed=flushed)
    except OSError as error:
        raise CkwatchError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


def tally(numbers: Mapping[str, int], *more: str) -> str:
    """`3 timed, 1 failed`: the numbers that are not 0, and what else there is to say."""
    words = [*(f"{number} {what}" for what, number in numbers.items() if number), *filter(None, more)]
    return ", ".join(words) or "nothing to do"


GAP = "  "

VERDICT_STYLES = {"FAST": "green", "SLOW": "red", "SAME": "", "UNSURE": "yellow"}


def aligned(
    rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset(), heading: Sequence[str] = ()
) -> list[str]:
    """A line for each row, its cells as wide as the widest of their column; those of the columns `right` at the right.

    Rows may have different numbers of cells; columns without a word are left out, and no line ends in blanks. A
    `heading` is the first line, without the columns that are left out.
    """
    columns = max((len(row) for row in rows), default=0)
    if heading:
        filled = [any(at < len(row) and row[at] for row in rows) for at in range(columns)]
        rows = [[word if known else "" for word, known in zip(heading, filled, strict=False)], *rows]
    widths = [max((cell_width(row[at]) for row in rows if at < len(row)), default=0) for at in range(columns)]

    def padded(at: int, cell: str) -> str:
        blanks = " " * (widths[at] - cell_width(cell))
        return blanks + cell if at in right else cell + blanks

    return [GAP.join(padded(at, cell) for at, cell in enumerate(row) if widths[at]).rstrip() for row in rows]
