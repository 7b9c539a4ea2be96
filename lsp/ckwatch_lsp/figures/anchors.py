"""Which units' figures belong to which line of an open document.

Figures stand at the tables of a kernel file, and at a template's kernel definition and macros.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, TypeVar

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Position, Range
from ckwatch.wire.state import Unit
from ckwatch_lsp.kernel_files.language.document import KernelFileText
from ckwatch_lsp.session.active_units import ActiveUnits
from ckwatch_lsp.session.documents import DocumentKind, TextDocument
from ckwatch_lsp.session.folders import WorkspaceFolder
from ckwatch_lsp.session.providers import SessionListener
from ckwatch_lsp.session.session import Session
from ckwatch_lsp.session.topics import Topics
from ckwatch_lsp.templates.language.index import TOP_LEVEL

_MARK = re.compile(
    r"""^[ \t]*(?:\[\[[ \t]*(instance|sweep)[ \t]*\]\][ \t]*(?:\#[^\n]*?)?(?=\r?$)
      | name[ \t]*=[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*')
      | \[([^\n\r]*))""",
    re.MULTILINE | re.VERBOSE,
)
"""A header of a table of instances, a name, or another header."""

_SHAPE = re.compile(r"^[ \t]*\[\[[ \t]*shape[ \t]*\]\]", re.MULTILINE)

_TABLES: tuple[Literal["instance", "sweep"], ...] = ("instance", "sweep")
_NO_LETTER = re.compile(r"[^a-z]")
ALIKE = 0.75
"""Of the letters of a header and those of the table's name."""

_FENCES = ('"""', "'''")
_ESCAPE = re.compile(r'\\(["\\])')

_DEFINITION = re.compile(r"\bdef_kernel\s*\(")
_MACRO = re.compile(r"\{%[-+]?\s*macro\s+(\w+)")


@dataclass(frozen=True, slots=True)
class TableHeader:
    """`[[instance]]` or `[[sweep]]` on line `line`, which ends at `column`; its name stands on `name_line`, from
    `name_start` to `name_end`."""

    kind: Literal["instance", "sweep"]
    line: int
    column: int
    name: str
    name_line: int
    name_start: int
    name_end: int


@dataclass(frozen=True, slots=True)
class MacroLine:
    """A macro's definition begins on this line."""

    name: str
    line: int


def headers(text: str) -> list[TableHeader]:
    """The named tables of a kernel file, however broken it is."""
    found: list[TableHeader] = []
    kind: Literal["instance", "sweep"] | None = None
    at = column = line = passed = 0
    text = _without_long_strings(text)
    for mark in _MARK.finditer(text):
        start = mark.start()
        line += text.count("\n", passed, start)
        passed = start
        if mark.group(1):
            kind = "instance" if mark.group(1) == "instance" else "sweep"
            at, column = line, mark.end() - start
        elif kind is not None and mark.group(2):
            first, last = mark.span(2)
            found.append(TableHeader(kind, at, column, _value(mark.group(2)), line, first - start, last - start))
            kind = None
        elif not mark.group(2):
            kind = _half_typed(mark.group(3))
            at, column = line, mark.end() - start
    return found


def _half_typed(header: str) -> Literal["instance", "sweep"] | None:
    """The table that a header was, or is to be, as which it does not count: `[inst nce]]`."""
    word = _NO_LETTER.sub("", header.partition("#")[0])
    likely = (kind for kind in _TABLES if kind.startswith(word) or SequenceMatcher(None, word, kind).ratio() >= ALIKE)
    return next(likely, None) if word else None


def is_tuned(text: str, instances: int) -> bool:
    """Return True if a kernel file with so many instances has something to choose among: a sweep with `tune = true`, or
    several instances and a shape to choose for."""
    if instances > 1 and _SHAPE.search(_without_long_strings(text)) is not None:
        return True
    if "tune" not in text:  # to read all of a long file takes longer than an answer may
        return False
    sweeps = (one.table.value("tune") for one in KernelFileText(text).sweeps)
    return any(tune is not None and tune.read() is True for tune in sweeps)


def definition_line(text: str) -> int:
    """The line of the template's first call of `def_kernel`; the first line where there is none."""
    for call in _DEFINITION.finditer(text):
        at = call.start()
        in_comment = text.rfind("{#", 0, at) > text.rfind("#}", 0, at)
        begins = max(text.rfind("{{", 0, at), text.rfind("{%", 0, at))
        in_tag = begins > max(text.rfind("}}", 0, at), text.rfind("%}", 0, at))
        if in_tag and not in_comment:
            return text.count("\n", 0, at)
    return 0


def macros(text: str) -> list[MacroLine]:
    """The macros of a template, comments left out."""
    found = []
    line = passed = 0
    for macro in _MACRO.finditer(text):
        if text.rfind("{#", 0, macro.start()) <= text.rfind("#}", 0, macro.start()):
            line += text.count("\n", passed, macro.start())
            passed = macro.start()
            found.append(MacroLine(macro.group(1), line))
    return found


def units_by_header(found: Sequence[TableHeader], units: Iterable[Unit]) -> list[tuple[TableHeader, list[Unit]]]:
    """The units of each header, by their names, so that they are found also where the text was edited since."""
    by_name: dict[str, list[Unit]] = {}
    for unit in units:
        by_name.setdefault(unit.instance, []).append(unit)
    written = {header.name for header in found if header.kind == "instance"}
    sweeps = frozenset(header.name for header in found if header.kind == "sweep")
    swept: dict[str, list[Unit]] = {}
    if sweeps:
        for name, here in by_name.items():
            if name not in written and (sweep := _sweep_of(name, sweeps)) is not None:
                swept.setdefault(sweep, []).extend(here)
    return [(header, (by_name if header.kind == "instance" else swept).get(header.name, [])) for header in found]


def _sweep_of(name: str, sweeps: frozenset[str]) -> str | None:
    """The sweep with the longest name that `name` begins with: its values follow, each after `_`."""
    end = len(name)
    while end > 0:
        if name[:end] in sweeps:
            return name[:end]
        end = name.rfind("_", 0, end)
    return None


def _without_long_strings(text: str) -> str:
    """The same lines, those within a string of several lines empty."""
    if not any(fence in text for fence in _FENCES):
        return text
    lines = text.split("\n")
    fence = ""
    for number, line in enumerate(lines):
        if fence:
            lines[number] = ""
            fence = "" if fence in line else fence
        elif not line.lstrip().startswith("#"):
            fence = next((each for each in _FENCES if line.count(each) % 2), "")
    return "\n".join(lines)


def _value(written: str) -> str:
    return _ESCAPE.sub(r"\1", written[1:-1]) if written[0] == '"' else written[1:-1]


@dataclass(frozen=True, slots=True)
class FigureAnchor:
    """A line that figures belong to, from its first column to `end`, and the ids of the units: one, or a sweep's.

    `sweep` is the sweep's name, else empty; `name` is where the instance's or sweep's name is written.
    """

    end: Position
    units: tuple[str, ...]
    sweep: str = ""
    name: Range | None = None


@dataclass(frozen=True, slots=True)
class TemplateLandmarks:
    """A template as far as figures are concerned: where its kernel is defined, and its macros."""

    definition: Position
    defines: bool
    macros: tuple[MacroLine, ...]


def landmarks(text: str) -> TemplateLandmarks:
    """Return the places of definitions in a template."""
    line = definition_line(text)
    end = len(text.split("\n", line + 1)[line].rstrip("\r"))
    return TemplateLandmarks(Position(line, end), _DEFINITION.search(text) is not None, tuple(macros(text)))


Found = TypeVar("Found")


class FigureAnchors(SessionListener):
    """Finds them, and keeps what it has found until the text or the units change."""

    def __init__(self, session: Session, active: ActiveUnits) -> None:
        self._session = session
        self._active = active
        self._edition = 0
        """Counts what may put other units at a line."""
        self._read: dict[tuple[str, object], tuple[object, Any]] = {}
        """Results in open documents, by URI and finder."""

    def _found(self, document: TextDocument, find: Callable[..., Found], *given: object, stamp: object = None) -> Found:
        """Return what `find` finds by what is given, kept until the document's text or `stamp` changes."""
        key, stamp = (document.uri, find), (document.revision, stamp)
        kept = self._read.get(key)
        if kept is None or kept[0] != stamp:
            kept = (stamp, find(*given))
            if document.uri in self._session.documents:
                self._read[key] = kept
        found: Found = kept[1]
        return found

    def of(self, document: TextDocument) -> Sequence[FigureAnchor]:
        """The anchors of a kernel file or a template, from top to bottom."""
        return self._found(document, self._anchors, document, stamp=self._edition)

    def _anchors(self, document: TextDocument) -> Sequence[FigureAnchor]:
        if document.kind is DocumentKind.KERNEL_FILE:
            return self._in_kernel_file(document)
        if document.kind is not DocumentKind.TEMPLATE or not self.shows_kernel(document):
            return ()
        unit = self._active.unit(document)
        return () if unit is None else (FigureAnchor(self.landmarks(document).definition, (unit.id,)),)

    def at(self, document: TextDocument, position: Position) -> FigureAnchor | None:
        """The anchor on whose line, or on whose name, a cursor is."""
        for anchor in self.of(document):
            if anchor.end.line == position.line or (anchor.name is not None and anchor.name.holds(position)):
                return anchor
        return None

    def units(self, document: TextDocument, anchor: FigureAnchor) -> list[Unit]:
        """The units as they are now."""
        folder = self._session.folder_for(document)
        if folder is None:
            return []
        known = folder.units
        return [known[name] for name in anchor.units if name in known]

    def tuned(self, document: TextDocument) -> bool:
        """Return True if a kernel file of a workspace may be tuned."""
        folder = self._session.folder_for(document)
        if folder is None or document.kind is not DocumentKind.KERNEL_FILE:
            return False
        instances = len({unit.instance for unit in folder.units_at(document.path or "")})
        return self._found(document, is_tuned, document.text, instances, stamp=instances)

    def landmarks(self, document: TextDocument) -> TemplateLandmarks:
        """Return the places of definitions in a template."""
        return self._found(document, landmarks, document.text)

    def shows_kernel(self, document: TextDocument) -> bool:
        """Return True if kernel files name the template, and it is not only included."""
        return (document.path or "").endswith(TOP_LEVEL) or self.landmarks(document).defines

    def closed(self, document: TextDocument) -> None:
        """Nobody asks any more."""
        for key in [key for key in self._read if key[0] == document.uri]:
            del self._read[key]

    def on_daemon_change(self, folder: WorkspaceFolder, topics: Topics) -> None:  # noqa: ARG002  # whose they are does not matter
        """There are other units, or another one is active."""
        self._edition += topics.moves_units or topics.any_of("active") or bool(topics.named("readers"))

    def configured(self) -> None:
        """Other files may be recognised."""
        self._edition += 1

    def _in_kernel_file(self, document: TextDocument) -> list[FigureAnchor]:
        folder = self._session.folder_for(document)
        units = [] if folder is None else folder.units_at(document.path or "")
        arch = self._arch(document, units)
        anchors = []
        for header, here in units_by_header(self._found(document, headers, document.text), units):
            chosen = [unit for unit in here if unit.arch == arch] or here[:1]
            if chosen:
                names = tuple(unit.id for unit in chosen)
                sweep = header.name if header.kind == "sweep" else ""
                start = Position(header.name_line, header.name_start)
                name = Range(start, Position(header.name_line, header.name_end))
                anchors.append(FigureAnchor(Position(header.line, header.column), names, sweep, name))
        return anchors

    def _arch(self, document: TextDocument, units: Sequence[Unit]) -> str:
        """That of the active instance; of several the one for which there are timings comes first."""
        active = self._active.unit(document)
        if active is None or self._active.is_chosen(document):
            return "" if active is None else active.arch
        return next((unit.arch for unit in units if unit.timings), active.arch)
