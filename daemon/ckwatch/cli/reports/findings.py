"""Findings of a command, as the formats of other programs take it.

A finding is known again by a fingerprint that neither its line nor the numbers in its message have a part in: its code,
its file, its message, the text of its line, and which of several such findings it is.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from ckwatch.checks.fold import but_for_values, counted
from ckwatch.checks.places import ReadLine
from ckwatch.model.diagnostics import Diagnostic, Severity
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import Span

NOTES = 20
"""Related places of a finding that a report in plain text names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCase:
    """A unit, as a test. `failed` and `faulted` (nothing is known of it) say why, as sentences; `skipped`, too. `more`
    is what else there is to say of it, in lines."""

    unit: str
    failed: str = ""
    faulted: str = ""
    skipped: str = ""
    more: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """All that `command` has found in the repository at the absolute `folder`: `diagnostics`, those of several units
    joined, and each unit. `summary` is a sentence."""

    command: str
    folder: str
    diagnostics: tuple[Diagnostic, ...]
    units: tuple[UnitCase, ...]
    exit_status: int
    summary: str
    read_line: ReadLine
    seconds: float = 0.0

    def relative(self, path: str) -> str | None:
        """The path in the repository; None for a file outside of it, such as a header of Composable Kernel."""
        below = self.folder.rstrip("/") + "/"
        normal = os.path.normpath(path)
        return normal[len(below) :] if normal.startswith(below) else None

    def shown(self, path: str) -> str:
        """The path as text, in the repository if it is there."""
        return visible(self.relative(path) or path)

    def fingerprints(self) -> Iterator[tuple[Diagnostic, str]]:
        """Each diagnostic with what it is known again by, which no other has."""
        seen: Counter[tuple[str, ...]] = Counter()
        for one in self.diagnostics:
            line = self.read_line(one.span.path, one.span.start.line) or ""
            key = (one.code, self.shown(one.span.path), but_for_values(one.message), " ".join(line.split()))
            seen[key] += 1
            text = "\0".join((*key, str(seen[key])))
            yield one, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def notes(self, one: Diagnostic) -> list[str]:
        """Lines about a diagnostic beside its message: in which units, and what is related to it."""
        lines = [f"{place}{related.message}" for related in one.related[:NOTES] for place in [self._at(related.span)]]
        more = len(one.related) - NOTES
        return [*filter(None, [counted(one)]), *lines, *([f"{more} more places"] if more > 0 else [])]

    def _at(self, span: Span | None) -> str:
        return "" if span is None else f"{self.shown(span.path)}:{span.start}: "


def repository_of(folder: Path) -> str:
    """The repository that a folder lies in, else the folder itself."""
    return str(next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder))


def uri(path: str) -> str:
    """A path in an URI: its bytes, whatever encoding they have. A relative one stays relative."""
    return quote(os.fsencode(path))


_REFUSED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """`text` in which nothing steers a terminal or is refused by XML or UTF-8: control characters but tab and line
    break as their pictures; others, non-characters and bytes of file names in another encoding as U+FFFD."""
    return _REFUSED.sub(_picture, text.replace("\r\n", "\n"))


def _picture(found: re.Match[str]) -> str:
    return chr(0x2400 + ord(found[0])) if found[0] < " " else "\ufffd"


LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "note",
    Severity.HINT: "note",
}
"""Severities in the words of most formats, the worst first."""
