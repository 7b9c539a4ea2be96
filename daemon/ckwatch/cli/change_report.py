"""Changes of units as text and as Markdown: the certain ones first, each unit in a line, then sums.

A Markdown report fits a pull request's comment. Units that do not fit are counted; JSON has all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ckwatch.checks.fold import fold
from ckwatch.cli.output import Output, aligned
from ckwatch.cli.styled_text import StyledText
from ckwatch.model.amounts import change, count, digits

if TYPE_CHECKING:  # the wire types load pydantic
    from ckwatch.wire.unit_changes import ChangeSummary, SummedFigure, UnitChange

COMMENT_CHARACTERS = 65_536
"""The longest comment that GitHub takes."""

ROOM = 400
"""Characters for the sentence that says what was left out."""

MESSAGE_CHARACTERS = 400
UNITS_NAMED = 10

PREDICTED = "Predicted times are not measured."

VERDICTS = {
    "broken": ("✗", "red", "no longer compiles", "No longer compile"),
    "wrong": ("✗", "red", "wrong result", "Wrong results"),
    "spills": ("✗", "red", "new spills", "New spills"),
    "slower": ("↓", "red", "slower", "Slower, measured"),
    "worse": ("↓", "yellow", "worse", "Worse"),
    "unknown": ("?", "yellow", "not known", "Not known"),
    "changed": ("≠", "", "different", "Different"),
    "new": ("+", "", "new", "New"),
    "removed": ("−", "dim", "removed", "Removed"),
    "fixed": ("✓", "green", "fixed", "Fixed"),
    "better": ("↑", "green", "better", "Better"),
    "same": ("=", "dim", "the same", "The same"),
    "skipped": ("-", "dim", "skipped", "Skipped by an instance rule"),
}
"""Mark, style, words and heading of each verdict, the worst first."""

SUM_HEADING = ("FIGURE", "BEFORE", "AFTER", "CHANGE", "MORE", "LESS")


def print_changes(output: Output, changes: Sequence[UnitChange], summary: ChangeSummary) -> None:
    """Print each unit that is not the same, the messages of those that no longer compile, and sums."""
    broken = {one.unit: one.after.errors for one in changes if one.verdict == "broken"}
    output.diagnostics(fold(broken, max(len(changes), 1)))
    for line in (*change_lines(changes, summary), StyledText((f"{count(len(changes), 'unit')}: {tally(summary)}", ""))):
        output.styled(line)


def change_lines(changes: Sequence[UnitChange], summary: ChangeSummary) -> Iterator[StyledText]:
    """A line for each unit that is not the same, then sums of figures."""
    for text, units in _by_text((text, one.unit) for one in changes for text in one.rewrites):
        yield StyledText((f"{count(len(units), 'unit')}: {text}", "bold"))
    for one in in_order(changes):
        mark, style, words, _ = VERDICTS[one.verdict]
        if one.verdict not in ("same", "skipped") or one.was:
            text = "".join(f": {text}" for text in what_changed(one))
            yield StyledText((f"{mark} {one.unit}  {words}{text}", style))
    heading, *rows = aligned([_sum_cells(one) for one in summary.figures], frozenset(range(1, 6)), SUM_HEADING)
    if rows:
        yield StyledText((f"  {heading}", "bold"))
    for row in rows:
        yield StyledText((f"  {row}", ""))
    if text := _predicted(summary):
        yield StyledText((text, ""))


def in_order(changes: Iterable[UnitChange]) -> list[UnitChange]:
    """The changes, the worst first."""
    order = list(VERDICTS)
    return sorted(changes, key=lambda one: order.index(one.verdict))


def what_changed(one: UnitChange) -> list[str]:
    """The unit's former name, the reasons for a verdict, then the figures that read differently."""
    figures = ", ".join(map(str, one.figures))
    return [*([f"it was {one.was}"] if one.was else []), *one.reasons, *([figures] if figures else [])]


def tally(summary: ChangeSummary) -> str:
    """`no longer compile: 2, new spills: 1, the same: 9`, the worst first."""
    words = [f"{VERDICTS[verdict][3].lower()}: {number}" for verdict, number in summary.verdicts.items()]
    return ", ".join(words) or "nothing to compare"


def _sum_cells(one: SummedFigure) -> list[str]:
    ratio = change(one.after / one.before) if one.before else ""
    numbers = [f"{value:,.0f}" for value in (one.before, one.after)]
    return [one.name, *numbers, ratio if one.after != one.before else "", str(one.grew or ""), str(one.shrank or "")]


def _predicted(summary: ChangeSummary) -> str:
    if summary.predicted_ratio is None:
        return ""
    mean = f"{digits(summary.predicted_ratio)} × ({change(summary.predicted_ratio)})"
    return f"predicted time: {mean}, geometric mean over units and shapes. {PREDICTED}"


def markdown_report(
    title: str, facts: Sequence[str], changes: Sequence[UnitChange], summary: ChangeSummary, *, root: str = ""
) -> str:
    """The report as Markdown of at most `COMMENT_CHARACTERS`. Places below the folder `root` are shown relative."""
    lines = [f"## {_escaped(title)}", "", *(f"- {_escaped(one)}" for one in facts), "", f"**{tally(summary)}**", ""]
    if summary.figures:
        rows = [[one.name, *_sum_cells(one)[1:]] for one in summary.figures]
        lines += ["| figure | before | after | change | more | less |", "|---|--:|--:|--:|--:|--:|"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        lines.append("")
    if text := _predicted(summary):
        lines += [f"{text[0].upper()}{text[1:]}", ""]
    left = COMMENT_CHARACTERS - ROOM - sum(len(line) + 1 for line in lines)
    omitted: Counter[str] = Counter()
    for line, heading, units in _sections(changes, root):
        left -= len(line) + 1
        if left < 0:
            omitted[heading] += units
        else:
            lines.append(line)
    if omitted := +omitted:
        words = ", ".join(f"{heading.lower()}: {units}" for heading, units in omitted.items())
        lines += [
            "",
            f"Left out, as a comment has room for {COMMENT_CHARACTERS:,} characters: {words}. `--json` has all.",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _sections(changes: Sequence[UnitChange], root: str) -> Iterable[tuple[str, str, int]]:
    """Lines, the heading that each stands below, and how many units are lost where it is left out."""
    rewrites = _by_text((text, one.unit) for one in changes for text in one.rewrites)
    for text, units in rewrites:
        yield f"- {count(len(units), 'unit')}: {_escaped(text)}", "", 0
    if rewrites:
        yield "", "", 0
    for verdict, (_, _, _, heading) in VERDICTS.items():
        mine = [one for one in changes if one.verdict == verdict]
        if not mine or verdict == "skipped":
            continue
        yield f"### {heading} ({len(mine)})", heading, 0
        yield "", heading, 0
        if verdict == "same":
            yield f"{_named([one.unit for one in mine])}", heading, len(mine)
        elif verdict == "broken":
            for text, units in _by_text((_error(one, root), one.unit) for one in mine):
                yield f"- {text}: {_named(units)}", heading, len(units)
        else:
            yield "| unit | what changes |", heading, 0
            yield "|---|---|", heading, 0
            for one in mine:
                words = "; ".join(_escaped(_cut(text)) for text in what_changed(one)).replace("|", "\\|")
                yield f"| {_code(one.unit)} | {words} |", heading, 1
        yield "", heading, 0


def _by_text(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """The units of each text, in order."""
    found: dict[str, list[str]] = {}
    for text, unit in pairs:
        found.setdefault(text, []).append(unit)
    return list(found.items())


def _named(units: Sequence[str]) -> str:
    more = len(units) - UNITS_NAMED
    names = [_code(unit) for unit in (units if more <= 1 else units[:UNITS_NAMED])]
    return ", ".join([*names, f"and {more} more"] if more > 1 else names)


def _error(one: UnitChange, root: str) -> str:
    """The first message with its place, as Markdown."""
    place = ""
    if one.after.errors:
        span = one.after.errors[0].span
        path = span.path.removeprefix(f"{root}/") if root else span.path
        place = f" at {_code(f'{path}:{span.start.line + 1}')}"
    return f"{_code(_cut(one.after.problem))}{place}"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MESSAGE_CHARACTERS else f"{text[: MESSAGE_CHARACTERS - 1]}…"


def _code(text: str) -> str:
    """A code span."""
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    blank = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"


def _escaped(text: str) -> str:
    """Text whose code spans stay, and in which nothing else is Markdown, a mention or HTML."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        _code(piece[1:-1]) if at % 2 else re.sub(r"([\\*_<>\[\]#@`~])", r"\\\1", piece)
        for at, piece in enumerate(pieces)
    )
