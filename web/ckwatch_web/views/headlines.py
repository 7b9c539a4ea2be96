"""The first lines of the page: what broke, what became slower or faster, which instance is best, what runs.

Each is a sentence with a number and the address of the view that says more. The rest of the page is for whoever goes on
from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlencode

from ckwatch.model.amounts import change, count, time_of
from ckwatch.model.kernels import Outcome
from ckwatch.model.verification import VerificationOutcome
from ckwatch_web.content import Headline, Headlines
from ckwatch_web.places import name_of, place_of

if TYPE_CHECKING:
    from ckwatch.model.diagnostics import Diagnostic
    from ckwatch.wire.rows import TimingRow, UnitRow

RECENT_S = 86_400.0
"""A comparison with the previous artifact is news for a day."""

MOST = 6
"""Headlines of a kind; one more says how many are left out."""


def headlines(rows: Sequence[UnitRow], diagnostics: Iterable[Diagnostic], now: float) -> Headlines:
    """All of them, the worst first; `now` in Unix seconds."""
    lines = [
        *_broken(rows, list(diagnostics)),
        *_changed(rows, now),
        *_best(rows),
        *_running(rows),
    ]
    if not any(line.kind in ("broken", "slower", "faster", "running") for line in lines):
        built = sum(row.outcome == Outcome.BUILT for row in rows)
        text = f"{built} of {count(len(rows), 'unit')} built, nothing is wrong"
        if not rows:
            text = "There are no units: `ckwatch init` writes a kernel to begin with"
        lines.insert(0, Headline(kind="calm" if rows else "unsure", text=text))
    return Headlines(key="headlines", title="Now", lines=tuple(lines))


def _address(view: str, **query: str) -> str:
    return f"/{view}?{urlencode(query)}"


def _some(lines: list[Headline], noun: str, text: str, address: str = "") -> list[Headline]:
    """The first of a kind, and how many more there are, in place of the braces in `text`."""
    if len(lines) <= MOST:
        return lines
    rest = text.format(count(len(lines) - MOST + 1, noun))
    return [*lines[: MOST - 1], Headline(kind=lines[0].kind, text=rest, address=address)]


def _broken(rows: Sequence[UnitRow], diagnostics: Sequence[Diagnostic]) -> Iterator[Headline]:
    errors: dict[str, Diagnostic] = {}
    for found in diagnostics:
        if found.severity == "error" and not found.stale:
            for unit in found.units:
                errors.setdefault(unit, found)
    failed: dict[str, list[UnitRow]] = defaultdict(list)
    of_kernel: dict[str, int] = defaultdict(int)
    for row in rows:
        of_kernel[row.kernel] += 1
        if row.errors or row.outcome in (Outcome.FAILED, Outcome.FAULTED):
            failed[row.kernel].append(row)
    lines = []
    for kernel, some in failed.items():
        first = next((errors[row.id] for row in some if row.id in errors), None)
        number = f"{len(some)} of {count(of_kernel[kernel], 'unit')}"
        detail = "" if first is None else f": {first.message.splitlines()[0]}"
        lines.append(Headline(kind="broken", text=f"{kernel}: {number} failed{detail}", address="#messages"))
    yield from _some(lines, "more kernel", "units of {} failed")
    reported = {row.id for some in failed.values() for row in some}
    lines = [
        Headline(
            kind="broken", text=f"{name_of(place_of(one.span))}: {one.message.splitlines()[0]}", address="#messages"
        )
        for one in diagnostics
        if one.severity == "error" and not one.stale and not reported.intersection(one.units)
    ]
    yield from _some(lines, "more error", "{} in files")
    wrong = [row for row in rows if row.verification_outcome == VerificationOutcome.FAILED and row.verification_fresh]
    lines = [
        Headline(kind="broken", text=f"{row.id}: {row.verification}", address=_address("verification", unit=row.id))
        for row in wrong
    ]
    lines += [
        Headline(
            kind="broken",
            text=f"{row.id} on {timing.shape}: {timing.message.splitlines()[0] if timing.message else timing.failure}",
            address=_address("history", unit=row.id),
        )
        for row in rows
        for timing in row.timings
        if timing.failure and timing.standing == "fresh"
    ]
    yield from _some(lines, "more result", "{} wrong or missing")


def _changed(rows: Sequence[UnitRow], now: float) -> Iterator[Headline]:
    """The largest changes first, slower before faster."""
    kinds: tuple[tuple[Literal["slower", "faster"], str, int], ...] = (("slower", "SLOW", -1), ("faster", "FAST", 1))
    found = [
        (verdict, ratio, against, row, timing)
        for row in rows
        for timing in row.timings
        if timing.is_time
        for verdict, ratio, against in _verdicts(timing, now)
    ]
    for kind, name, sign in kinds:
        lines = [
            Headline(
                kind=kind,
                text=f"{row.id} on {timing.shape}, {timing.cache}: {time_of(timing.median_us)}, "
                f"{change(ratio)} against {against}",
                address=_address("history", unit=row.id, shape=timing.shape),
            )
            for verdict, ratio, against, row, timing in sorted(found, key=lambda one: sign * one[1])
            if verdict == name
        ]
        yield from _some(lines, "more timing", f"{{}} {kind}", "/heat-map")


def _verdicts(timing: TimingRow, now: float) -> Iterator[tuple[str, float, str]]:
    """The sure verdicts, their ratios, and against what."""
    recent = now - timing.taken_at < RECENT_S
    if recent and timing.previous_verdict in ("SLOW", "FAST") and timing.previous_ratio is not None:
        yield timing.previous_verdict, timing.previous_ratio, "the artifact before"
    if timing.baseline_verdict in ("SLOW", "FAST") and timing.baseline_ratio is not None:
        yield timing.baseline_verdict, timing.baseline_ratio, "the baseline"


def _best(rows: Sequence[UnitRow]) -> Iterator[Headline]:
    """The fastest instance of each kernel, on the shape that most of them were timed on."""
    timed: dict[str, dict[tuple[str, str, str], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    stale = set()
    for row in rows:
        for timing in row.timings:
            if timing.is_time and timing.verified:
                timed[row.kernel][timing.device, timing.cache, timing.shape][row.instance] = timing.median_us
                if timing.standing != "fresh":
                    stale.add((row.kernel, row.instance, timing.shape))
    lines = []
    for kernel, places in timed.items():
        (_, cache, shape), times = max(places.items(), key=lambda one: (len(one[1]), max(one[1].values())))
        (name, best), *others = sorted(times.items(), key=lambda one: one[1])
        text = f"{kernel}: {name} takes {time_of(best)} on {shape}, {cache}"
        if others:
            second, other = others[0]
            text += f", the least of {len(times)}; {second} {change(other / best)}"
        if (kernel, name, shape) in stale:
            text += "; that was an earlier artifact"
        lines.append(Headline(kind="best", text=text, address=_address("heat-map", kernel=kernel)))
    yield from _some(lines, "more kernel", "{} with times", "/heat-map")


def _running(rows: Sequence[UnitRow]) -> Iterator[Headline]:
    states = (
        ("compiling", sum(row.phase == "compiling" for row in rows)),
        ("being timed", sum(bool(row.measuring) for row in rows)),
        ("being verified", sum(row.verifying for row in rows)),
    )
    words = ", ".join(f"{number} {state}" for state, number in states if number)
    if words:
        yield Headline(kind="running", text=words, address="#queues")
