"""Places the lines of a device's profile that are lines of a unit's rendered text at its template.

That text lies in other folders while it is compiled, so its name tells it. A profile may be of another build: where it
has the text of its lines (ncu's reports do), a line that is elsewhere now is found by its text, if only one line has
it; where it has instructions alone, those that the present build does not have are counted.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from ckwatch.checks.places import RenderedFile
from ckwatch.model.device_profiles import DeviceProfile, ProfiledPlace
from ckwatch.model.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PlacedProfile:
    """The profile with lines of templates, whose paths are `templates`. `other_build`: what shows that it is of another
    build, and what became of its lines; empty for the present one, as far as can be seen."""

    profile: DeviceProfile
    templates: frozenset[str] = frozenset()
    other_build: str = ""


def placed(profile: DeviceProfile, rendered: RenderedFile, instructions: Collection[str] | None) -> PlacedProfile:
    """Place a profile's lines. `instructions`: those of the present build, None where they are not known."""
    lines = _Lines(rendered)
    places = tuple(map(lines.place, profile.places))
    shown = []
    if lines.moved or lines.lost:
        shown.append(
            f"of {len(lines.same | lines.moved | lines.lost)} lines of the unit's text {len(lines.same)} are the same, "
            f"{len(lines.moved)} are elsewhere now, and {len(lines.lost)} are gone"
        )
    if instructions is not None:
        known = {_plain(text) for text in instructions}
        strange = sum(profile.weight(one) for one in places if one.text and _plain(one.text) not in known)
        if strange:
            shown.append(
                f"{strange} of {profile.total} {profile.unit} are of instructions that the present build lacks"
            )
    return PlacedProfile(replace(profile, places=places), frozenset(lines.templates), "; ".join(shown))


class _Lines:
    """The lines of the rendered text, and which of a profile's are the same, moved or lost."""

    def __init__(self, rendered: RenderedFile) -> None:
        self._rendered = rendered
        self._name = posixpath.basename(rendered.path)
        self._by_text: dict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(rendered.lines):
            self._by_text[_plain(text)].append(number)
        self.same: set[int] = set()
        self.moved: set[int] = set()
        self.lost: set[int] = set()
        self.templates: set[str] = set()

    def place(self, place: ProfiledPlace) -> ProfiledPlace:
        """The same at the template; as it is where it is not of the text, or not any more."""
        if place.line is None or posixpath.basename(place.path) != self._name:
            return place
        line = self._present(place.line, _plain(place.source))
        found = None if line is None else self._rendered.place_of_line(line)
        if found is None:
            return place
        self.templates.add(found.span.path)
        return replace(place, path=found.span.path, line=found.span.start.line)

    def _present(self, line: int, source: str) -> int | None:
        if not source:
            return line
        if _plain(self._rendered.line(line) or "") == source:
            self.same.add(line)
            return line
        others = self._by_text.get(source, [])
        (self.moved if len(others) == 1 else self.lost).add(line)
        return others[0] if len(others) == 1 else None


def _plain(text: str) -> str:
    return " ".join(text.split())
