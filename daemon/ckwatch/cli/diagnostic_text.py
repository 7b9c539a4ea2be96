"""Prints diagnostics on a terminal the way good compilers do.

    gemm.kernel.toml:14:15: error: MXdlPerWave = 3 fails a check of gridwise_gemm.hpp [ck/m-xdl-per-wave]
       14 | MXdlPerWave = 3
          |               ^
        note: MPerBlock % (MPerXdl * MXdlPerWave) == 0: 128 % (32 * 3) = 32
    gemm.hip.j2:40:9: note: MXdlPerWave = 3, printed here

Columns are measured in terminal cells, so that carets stand under wide and combining characters; tabs are widened.
Source lines come through `read_line(path, line)` (zero-based). Colours appear when the console has them.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ckwatch.cli.styled_text import StyledText, cell_width
from ckwatch.model.amounts import count
from ckwatch.model.diagnostics import Diagnostic, Fix, Severity
from ckwatch.model.names import unseen_in
from ckwatch.model.text import Span

if TYPE_CHECKING:  # a command that prints no colours does not load rich
    from rich.text import Text

    from ckwatch.checks.places import ReadLine

TAB_CELLS = 4
"""Cells from one tab stop to the next."""

RELATED_SHOWN = 8
"""Notes that are printed for one diagnostic unless details are asked for."""

WIDEST_LINE = 200
"""Source lines longer than this, in characters, are cut around the caret."""

_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.INFORMATION: "bold blue",
    Severity.HINT: "bold blue",
}


def format_diagnostic(
    diagnostic: Diagnostic, read_line: ReadLine, root: str | None = None, *, detail: bool = False
) -> Text:
    """As `diagnostic_text`, for a console."""
    return diagnostic_text(diagnostic, read_line, root, detail=detail).for_console()


def diagnostic_text(
    diagnostic: Diagnostic, read_line: ReadLine, root: str | None = None, *, detail: bool = False
) -> StyledText:
    """One diagnostic as styled text, without a line end at its end.

    Paths below the absolute folder `root` are shown relative to it. `detail` adds all notes and the compiler's own
    words.
    """
    style = _STYLES[diagnostic.severity]
    label = "info" if diagnostic.severity is Severity.INFORMATION else diagnostic.severity.value
    first, *further = diagnostic.message.split("\n")
    lines = [_headline(diagnostic.span, label, style, first, diagnostic.code, root)]
    lines += _snippet(diagnostic.span, read_line, style)
    lines += map(_remark, further)
    if diagnostic.approximate:
        lines.append(_remark("the place is approximate: the text was rearranged after it was printed"))
    if diagnostic.units:
        from ckwatch.checks.fold import counted

        if units := counted(diagnostic):
            lines.append(_remark(units))
    shown = diagnostic.related if detail else diagnostic.related[:RELATED_SHOWN]
    for entry in shown:
        if entry.span is None:
            lines.append(_remark(entry.message))
        else:
            lines.append(_headline(entry.span, "note", "bold cyan", entry.message, "", root))
            lines += _snippet(entry.span, read_line, "cyan")
    if len(shown) < len(diagnostic.related):
        lines.append(_remark(f"not shown: {len(diagnostic.related) - len(shown)} more"))
    lines += [_remark(_fix_text(fix, diagnostic.span.path, root), "fix") for fix in diagnostic.fixes]
    if detail and diagnostic.detail:
        lines += [StyledText((f"    {line}", "dim")) for line in diagnostic.detail.split("\n")]
    return StyledText.lines(lines)


def count_summary(severities: Iterable[str]) -> str:
    """`2 errors, 1 warning`."""
    counts = Counter(severities)
    nouns = {"error": "error", "warning": "warning", "information": "note", "hint": "hint"}
    return ", ".join(count(counts[severity], noun) for severity, noun in nouns.items() if counts[severity])


def display_path(path: str, root: str | None) -> str:
    """`path`, relative to `root` when it lies below."""
    if root is None:
        return path
    base = posixpath.normpath(root)
    below = base if base.endswith("/") else f"{base}/"
    whole = posixpath.normpath(path)
    return whole[len(below) :] if whole.startswith(below) else path


def _fix_text(fix: Fix, path: str, root: str | None) -> str:
    """The change to make; `path` is the file of the diagnostic, which need not be named again."""
    span = fix.span
    place = f"{span.start}" if span.path == path else f"{display_path(span.path, root)}:{span.start}"
    if not fix.text:
        return f"remove what is at {place}"
    return f"insert `{fix.text}` at {place}" if span.start == span.end else f"replace by `{fix.text}` at {place}"


def _headline(span: Span, label: str, style: str, message: str, code: str, root: str | None) -> StyledText:
    return StyledText(
        (f"{_visible(display_path(span.path, root))}:{span.start}: ", "bold"),
        (f"{label}: ", style),
        (_visible(message), "bold" if code else ""),
        (f" [{code}]" if code else "", "dim"),
    )


def _remark(message: str, label: str = "note") -> StyledText:
    return StyledText((f"    {label}: ", "bold cyan"), (_visible(message), ""))


def _snippet(span: Span, read_line: ReadLine, style: str) -> list[StyledText]:
    """The first line of the span with carets under it; nothing when the line cannot be read."""
    line = read_line(span.path, span.start.line)
    if line is None:
        return []
    line = line.rstrip("\r\n")
    first = min(span.start.column, len(line))
    last = len(line) if span.end.line > span.start.line else min(span.end.column, len(line))
    line, first, last = _cut(line, first, max(last, first))
    before, marked, after = _widened(line, first, last)
    number = f"{span.start.line + 1:5d}"
    source = StyledText((f"{number} | ", "blue"), (f"{before}{marked}{after}", ""))
    carets = "^" * max(cell_width(marked), 1)
    return [
        source,
        StyledText((" " * len(number) + " | ", "blue"), (" " * cell_width(before), ""), (carets, style)),
    ]


def _cut(line: str, first: int, last: int) -> tuple[str, int, int]:
    """A window of a long line that holds the beginning of the marked part."""
    if len(line) <= WIDEST_LINE:
        return line, first, last
    start = max(min(first - WIDEST_LINE // 4, len(line) - WIDEST_LINE), 0)
    end = min(start + WIDEST_LINE, len(line))
    head, tail = "…" if start else "", "…" if end < len(line) else ""
    offset = len(head) - start
    return head + line[start:end] + tail, first + offset, min(last, end) + offset


def _widened(line: str, first: int, last: int) -> tuple[str, str, str]:
    """The three parts of `line` with tabs as spaces up to the next stop."""
    parts = ["", "", ""]
    column = 0
    for at, character in enumerate(line):
        part = 0 if at < first else 1 if at < last else 2
        text = " " * (TAB_CELLS - column % TAB_CELLS) if character == "\t" else _visible(character)
        column += cell_width(text)
        parts[part] += text
    return parts[0], parts[1], parts[2]


def _visible(text: str) -> str:
    """Control characters as their pictures, those that are not seen as `�`: what a source file holds must not steer the
    terminal."""
    if text.isprintable():
        return text
    return "".join(_picture(character) if unseen_in(character) is not None else character for character in text)


def _picture(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"
