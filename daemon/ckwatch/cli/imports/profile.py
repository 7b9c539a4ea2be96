"""`ckwatch import profile FILE…`: what a profiler saw on a device, by lines; those of a unit's text at its template."""

from __future__ import annotations

import argparse
import posixpath
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from ckwatch.cli.output import Output, aligned
from ckwatch.cli.session import asking, one_unit
from ckwatch.codeobject.device_profiles import NoProfileError, by_line, read_profile
from ckwatch.model.device_profiles import DeviceProfile
from ckwatch.model.errors import CkwatchError
from ckwatch.system.user_files import read_file

if TYPE_CHECKING:
    from ckwatch.codeobject.device_profiles import LineWeight
    from ckwatch.wire.messages import RenderedText

INDENT = "  "
LIMIT_BYTES = 1 << 30


async def run(options: argparse.Namespace) -> int:
    """Print each profile. Raises CkwatchError for a file that is none, and a unit that has no text."""
    output = Output(options)
    profiles = [(file, await to_thread.run_sync(_read, file)) for file in options.files]
    rendered = None
    if options.unit is not None:
        async with asking(options) as client:
            unit = await one_unit(client, options.unit)
            rendered = UnitText(await client.rendered(unit, with_map=True))
    found = [(file, profile, _placed(profile, rendered)) for file, profile in profiles]
    if output.json:
        rows = [
            {"file": str(file), "method": one.method, "unit": one.unit, "total": one.total, "lines": lines,
             "notes": one.notes}
            for file, one, lines in found
        ]  # fmt: skip
        output.answer(profiles=rows)
        return 0
    for file, profile, lines in found:
        for text_line, style in _shown(file, profile, lines, options.top):
            output.text(text_line, style)
    return 0


def _read(file: Path) -> DeviceProfile:
    try:
        return read_profile(read_file(file, LIMIT_BYTES))
    except OSError as error:
        raise CkwatchError(f"cannot read {file}: {(error.strerror or str(error)).lower()}") from None
    except NoProfileError as error:
        raise CkwatchError(
            f"{file} is no profile: {error}",
            "rocprofv3's PC sampling as CSV or JSON is one, and `code.json` of a thread trace's `ui_output` folder",
        ) from None


class UnitText:
    """The text of a unit, with the lines of its template. Raises CkwatchError for a unit that has none."""

    def __init__(self, rendered: RenderedText) -> None:
        if rendered.text is None or rendered.map is None:
            raise CkwatchError(f"'{rendered.unit}' has no text: its template has errors", "`ckwatch check` shows them")
        self.name = rendered.source_name
        self._text = rendered.text
        self._segments = rendered.map
        self._lines = [0, *(at + 1 for at, character in enumerate(rendered.text) if character == "\n")]

    def place(self, line: int) -> tuple[str, int] | None:
        """The path and line behind a line of the text, all from zero; None for one that it does not have."""
        if not 0 <= line < len(self._lines):
            return None
        start = self._lines[line]
        text = self._text[start:].partition("\n")[0]
        at = start + len(text) - len(text.lstrip())
        number = bisect_right(self._segments, at, key=lambda one: one.start) - 1
        if number < 0 or self._segments[number].end < at:
            return None
        segment = self._segments[number]
        further = self._text.count("\n", segment.start, at) if segment.verbatim else 0
        return segment.span.path, segment.position.line + further


def _placed(profile: DeviceProfile, text: UnitText | None) -> list[LineWeight]:
    """The lines, those of the unit's text at the template's. That text lies in other folders while it is compiled, so
    its name tells it."""
    places = []
    for place in profile.places:
        is_own = text is not None and place.line is not None and posixpath.basename(place.path) == text.name
        found = text.place(place.line) if is_own and text is not None and place.line is not None else None
        places.append(place if found is None else replace(place, path=found[0], line=found[1]))
    return list(by_line(replace(profile, places=tuple(places))))


def _shown(file: Path, profile: DeviceProfile, lines: Iterable[LineWeight], top: int) -> Iterator[tuple[str, str]]:
    lines = list(lines)
    yield f"{file}: {profile.method}, {profile.total:,} {profile.unit}", "bold"
    for note in profile.notes:
        yield f"{INDENT}{note}", "yellow"
    rows = [
        [
            f"{100 * line.weight / profile.total:.1f} %" if profile.total else "",
            f"{line.weight:,}",
            f"{line.issued:,}" if line.issued else "",
            ", ".join(f"{count:,} {reason}" for reason, count in list(line.stalls.items())[:3]),
            "no source line" if line.line is None else f"{line.path}:{line.line + 1}",
        ]
        for line in lines
        if line.weight
    ]
    if rows:
        head, *texts = aligned(rows[:top], frozenset({0, 1, 2}), ("share", profile.unit, "issued", "otherwise", ""))
        yield INDENT + head, "dim"
        for text in texts:
            yield INDENT + text, ""
    if len(rows) > top:
        yield f"{INDENT}and {len(rows) - top} more; --top shows them", "dim"
