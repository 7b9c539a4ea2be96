"""Differences between two profiles, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.profiles import KernelProfile, LineChange, ProfiledLine, ProfileFigures

LEAST_ISSUES = 0.05
"""Of a line's issues per workgroup, by which they must differ."""

LEAST_LANES = 0.01
LEAST_SHARE = 0.005
"""Of the issues, for a line that is compared at all."""


LineKey = tuple[str, int]
"""A path and a line from zero."""


def changes_of(
    before: Sequence[KernelProfile],
    after: Sequence[KernelProfile],
    moved: Callable[[LineKey], LineKey | None] = lambda key: key,
) -> tuple[LineChange, ...]:
    """The lines that changed, those of the template first. `moved`: where a line of the earlier text is in the later
    one, None where it is there no more."""
    earlier: dict[LineKey, _Line] = {}
    gone: list[_Line] = []
    for line in _lines(before):
        key = moved((line.line.path, line.line.line))
        if key is None:
            gone.append(line)
        else:
            earlier[key] = line
    found = []
    for line in _lines(after):
        old = earlier.pop((line.line.path, line.line.line), None)
        texts, worse = _texts(old, line)
        if texts:
            found.append(_change(line.line, texts, worse=worse))
    found += [
        _change(line.line, (f"issues per workgroup {line.issues:.4g} → 0",), worse=False, gone=True)
        for line in (*earlier.values(), *gone)
        if line.share >= LEAST_SHARE
    ]
    return tuple(sorted(found, key=lambda one: (not one.in_template, not one.worse, one.path, one.line)))


def moved_lines(before: Mapping[str, str], after: Mapping[str, str]) -> Callable[[LineKey], LineKey | None]:
    """Places of lines of earlier texts (by path) in the later ones: a changed line that takes the place of another is
    the same. Lines of files without a text stay."""
    places = {path: _moved(text, after[path]) for path, text in before.items() if path in after}

    def moved(key: LineKey) -> LineKey | None:
        if key[0] not in places:
            return key
        line = places[key[0]].get(key[1])
        return None if line is None else (key[0], line)

    return moved


def _moved(before: str, after: str) -> dict[int, int]:
    found: dict[int, int] = {}
    matcher = SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    for tag, first, end, other, other_end in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and end - first == other_end - other):
            found |= zip(range(first, end), range(other, other_end), strict=True)
    return found


@dataclass(frozen=True, slots=True)
class _Line:
    line: ProfiledLine
    figures: ProfileFigures
    issues: float
    share: float
    wave_lanes: int


def _lines(kernels: Sequence[KernelProfile]) -> Iterator[_Line]:
    """Lines of templates with what they call, those of other files by themselves."""
    for kernel in kernels:
        for line in kernel.lines:
            figures = line.total if line.in_template else line.own
            if figures.counts.issued:
                issues = figures.counts.issued / max(1, kernel.workgroups)
                yield _Line(line, figures, issues, kernel.share(figures), kernel.wave_lanes)


def _change(line: ProfiledLine, texts: tuple[str, ...], *, worse: bool, gone: bool = False) -> LineChange:
    return LineChange(path=line.path, line=line.line, in_template=line.in_template, texts=texts, worse=worse, gone=gone)


def _texts(before: _Line | None, after: _Line) -> tuple[tuple[str, ...], bool]:
    """The changes of a line in words, and True if it costs more."""
    if before is None:
        new = f"issues per workgroup 0 → {after.issues:.4g}"
        return ((new,), True) if after.share >= LEAST_SHARE else ((), False)
    old, now = before.figures, after.figures
    texts, worse = [], False
    for name, one, other, unit in (
        ("LDS conflict", old.conflict_ways, now.conflict_ways, " ways"),
        ("cache lines per request", old.lines_per_request, now.lines_per_request, ""),
    ):
        if one is not None and other is not None and f"{one:.3g}" != f"{other:.3g}":
            texts.append(f"{name} {one:.3g} → {other:.3g}{unit}")
            worse = worse or other > one
    lanes = [each.figures.lanes_at_work(each.wave_lanes) for each in (before, after)]
    if lanes[0] is not None and lanes[1] is not None and abs(lanes[1] - lanes[0]) >= LEAST_LANES:
        texts.append(f"active lanes {100 * lanes[0]:.0f} → {100 * lanes[1]:.0f} %")
        worse = worse or lanes[1] < lanes[0]
    matters = max(before.share, after.share) >= LEAST_SHARE
    if matters and abs(after.issues - before.issues) > LEAST_ISSUES * max(after.issues, before.issues):
        texts.append(f"issues per workgroup {before.issues:.4g} → {after.issues:.4g}")
        worse = worse or after.issues > before.issues
    return tuple(texts), worse
