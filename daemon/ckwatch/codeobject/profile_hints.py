"""Clear losses at a line of a profile: conflicts of LDS, cache lines of which little is used, idle lanes.

A loss is counted in slots: an issue of an instruction is one, and so is each further turn of LDS and each further cache
line. It ranks lines; it is no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ckwatch.codeobject.access_patterns import pattern_at
from ckwatch.model.profiles import KernelProfile, LossKind, ProfiledLine, ProfileFigures, ProfileHint

LEAST_LOSS = 0.02
"""Of the slots of all kernels."""

LEAST_SHARE_OF_IDLE = 0.05
"""Of the issues, for a line whose lanes are idle."""

MOST_LANES_IDLE = 0.5
LEAST_WAYS = 1.5
MOST_USED_OF_LINE = 0.5


def hints_of(profiles: Sequence[KernelProfile]) -> tuple[ProfileHint, ...]:
    """The losses of a launch's kernels that matter, the largest first, at most one for each line."""
    slots = max(1, sum(_slots(profile.total) for profile in profiles))
    found: dict[tuple[str, int], ProfileHint] = {}
    for profile in profiles:
        for number, line in enumerate(profile.lines):
            for hint in _of_line(profile, line, slots):
                key = (hint.path, hint.line)
                if hint.loss >= LEAST_LOSS and (key not in found or found[key].loss < hint.loss):
                    found[key] = replace(hint, pattern=pattern_at(profile, number, hint.kind))
    return tuple(sorted(found.values(), key=lambda hint: (-hint.loss, hint.path, hint.line)))


def _slots(figures: ProfileFigures) -> int:
    counts = figures.counts
    return counts.issued + counts.turns - counts.phases + counts.cache_lines - counts.least_lines


def _of_line(profile: KernelProfile, line: ProfiledLine, slots: int) -> Iterator[ProfileHint]:
    figures, counts = line.own, line.own.counts
    ways, used = figures.conflict_ways, figures.bytes_per_line
    lanes = figures.lanes_at_work(profile.wave_lanes)

    def hint(kind: LossKind, lost: float, text: str, message: str) -> ProfileHint:
        return ProfileHint(
            kind=kind,
            path=line.path,
            line=line.line,
            in_template=line.in_template,
            text=text,
            message=message,
            loss=lost / slots,
        )

    if ways is not None and ways >= LEAST_WAYS:
        worst = f", {counts.fullest} at worst" if counts.fullest > round(ways) else ""
        yield hint(
            LossKind.LDS_CONFLICT,
            counts.turns - counts.phases,
            f"{ways:.3g}-way LDS conflict",
            f"{ways:.3g}-way LDS conflict{worst}: lanes that are served together ask one bank for different words; "
            "pad the rows of the array, or swizzle its columns",
        )
    if used is not None and counts.cache_lines > counts.least_lines and used < MOST_USED_OF_LINE * profile.line_bytes:
        per, least = figures.lines_per_request or 0.0, figures.least_lines_per_request or 0.0
        yield hint(
            LossKind.CACHE_LINES,
            counts.cache_lines - counts.least_lines,
            f"{used:.3g} of {profile.line_bytes} bytes used per cache line",
            f"{used:.3g} of {profile.line_bytes} bytes are used of each cache line: a request touches {per:.3g} lines, "
            f"where {least:.3g} would hold what it wants; let lanes side by side access places side by side",
        )
    if lanes is not None and lanes < MOST_LANES_IDLE and profile.share(figures) >= LEAST_SHARE_OF_IDLE:
        yield hint(
            LossKind.IDLE_LANES,
            figures.on_lanes * (1 - lanes),
            f"{100 * lanes:.0f} % of the lanes work",
            f"{100 * lanes:.0f} % of the lanes are active in the vector instructions of this line: the others wait for "
            "them",
        )
