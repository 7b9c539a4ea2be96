"""Places in texts, and the ways from the page back to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ckwatch.model.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ckwatch.model.text import Span
    from ckwatch.model.text import Span as ModelSpan


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A line and a column, both counted from zero in code points, of the file at the absolute `path`."""

    path: str
    line: int
    column: int = 0

    @property
    def text(self) -> str:
        """`PATH:LINE:COLUMN`, counted from one, as compilers print it and editors read it."""
        return f"{self.path}:{self.line + 1}:{self.column + 1}"

    @property
    def vscode_url(self) -> str:
        """Opens the place in Visual Studio Code on the browser's machine."""
        return f"vscode://file{quote(self.path)}:{self.line + 1}:{self.column + 1}"


def place_of(span: Span | ModelSpan | None) -> TextPlace | None:
    """Return the start of a span."""
    return None if span is None else TextPlace(span.path, span.start.line, span.start.column)


def name_of(place: TextPlace | None) -> str:
    """The file's name and the line, if there is a place."""
    return "" if place is None else f"{Path(place.path).name}:{place.line + 1}"


def place_in(text: object) -> TextPlace | None:
    """The place that `TextPlace.text` stands for; None for what is none."""
    if not isinstance(text, str):
        return None
    path, line, column = (*text.rsplit(":", 2), "", "")[:3]
    if not (path and line.isdecimal() and column.isdecimal() and int(line) and int(column)):
        return None
    return TextPlace(path, int(line) - 1, int(column) - 1)
