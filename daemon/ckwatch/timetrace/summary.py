"""Where the time of one compiler pass went.

Every moment belongs to the innermost event that is of a known stage: what clang does on the way (evaluating constants,
checking constraints, running one optimization) counts to the stage in which it is done. So stages add up to the whole,
and so do the templates' own times to the stage of instantiation, but for clang's queue of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ckwatch.timetrace.template_names import template_name


class Stage(StrEnum):
    """What a compiler does, in this order."""

    PARSING = "parsing"
    INSTANTIATION = "template instantiation"
    IR = "LLVM IR generation"
    OPTIMIZER = "optimizer"
    CODE_GENERATION = "code generation"
    OTHER = "other"


FRONT_END = (Stage.PARSING, Stage.INSTANTIATION, Stage.IR)
BACK_END = (Stage.OPTIMIZER, Stage.CODE_GENERATION)

_STAGES: Mapping[str, Stage] = {
    "ExecuteCompiler": Stage.OTHER,
    "Frontend": Stage.PARSING,
    "Source": Stage.PARSING,
    "InstantiateClass": Stage.INSTANTIATION,
    "InstantiateFunction": Stage.INSTANTIATION,
    "PerformPendingInstantiations": Stage.INSTANTIATION,
    "CodeGen Function": Stage.IR,
    "DebugType": Stage.IR,
    "DebugFunction": Stage.IR,
    "DebugGlobalVariable": Stage.IR,
    "DebugConstGlobalVariable": Stage.IR,
    "Backend": Stage.OPTIMIZER,
    "Optimizer": Stage.OPTIMIZER,
    "CodeGenPasses": Stage.CODE_GENERATION,
}
"""By clang's names of events (`llvm::TimeTraceScope` in clang 22); the names of all others that begin with `Parse` are
parsing as well."""

_NAMED = frozenset({"InstantiateClass", "InstantiateFunction"})
_US_PER_S = 1_000_000


class TimeTraceError(ValueError):
    """This is no time trace of clang."""


@dataclass(frozen=True, slots=True)
class TemplateCost:
    """What all instances of one template cost.

    `inclusive_s` counts what they needed to have instantiated for themselves, once where instances nest; `self_s` does
    not. `count` is that of the instantiations in the trace.
    """

    name: str
    count: int
    inclusive_s: float
    self_s: float


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """One pass. `stages` are in seconds, all of them; `templates` come with the greatest own time first."""

    stages: Mapping[Stage, float]
    templates: tuple[TemplateCost, ...]

    @property
    def traced_s(self) -> float:
        """All that the trace tells of."""
        return sum(self.stages.values())


def summarize(trace: Any) -> TraceSummary:
    """The summary of a decoded trace. Raises TimeTraceError for anything that is none."""
    reading = _Reading()
    for begin, end, stage, template in sorted(_intervals(trace), key=_outermost_first):
        reading.take(begin, end, stage, template)
    reading.end()
    return TraceSummary({stage: reading.stages[stage] / _US_PER_S for stage in Stage}, reading.templates())


_Interval = tuple[int, int, Stage | None, str | None]


def events_of(trace: Any) -> list[Any]:
    """The list of events. Raises TimeTraceError."""
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list):
        raise TimeTraceError("it has no list `traceEvents`")
    return events


def is_total(event: Any) -> bool:
    """Whether this is a sum that clang adds at the end, on a thread of its own."""
    return isinstance(event, dict) and str(event.get("name", "")).startswith("Total ")


def _intervals(trace: Any) -> Iterator[_Interval]:
    """Begin and end in µs, stage, and template, the last of those that have the same extent first: clang writes an
    event when it ends, inner ones before outer ones."""
    for event in reversed(events_of(trace)):
        try:
            if event["ph"] != "X" or is_total(event):
                continue
            name, begin, duration = event["name"], event["ts"], event["dur"]
            detail = event.get("args", {}).get("detail", "")
            template = template_name(detail) if name in _NAMED else None
            stage = _STAGES.get(name)
            if stage is None and name.startswith("Parse"):
                stage = Stage.PARSING
            yield int(begin), int(begin) + int(duration), stage, template
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TimeTraceError(f"an event is malformed: {str(event)[:80]}") from error


def _outermost_first(interval: _Interval) -> tuple[int, int]:
    begin, end, _, _ = interval
    return begin, -end


@dataclass(slots=True)
class _Open:
    end: int
    stage: Stage
    template: str | None
    named: str | None


class _Reading:
    """Goes through intervals in the order of their beginning, outer ones first."""

    def __init__(self) -> None:
        self.stages: Counter[Stage] = Counter()
        self._own: Counter[str] = Counter()
        self._inclusive: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._nested: Counter[str] = Counter()
        self._open: list[_Open] = []
        self._now = 0

    def take(self, begin: int, end: int, stage: Stage | None, template: str | None) -> None:
        """The next interval."""
        self._pass_to(begin)
        around = self._open[-1] if self._open else None
        if around is not None:
            end = min(end, around.end)  # both are rounded
        if template is not None:
            self._counts[template] += 1
            self._nested[template] += 1
            if self._nested[template] == 1:
                self._inclusive[template] += end - begin
        if stage is None:
            stage = Stage.OTHER if around is None else around.stage
            owner = None if around is None else around.template
        else:
            owner = template
        self._open.append(_Open(end, stage, owner, template))

    def end(self) -> None:
        """No more come."""
        while self._open:
            self._pass_to(self._open[0].end)

    def templates(self) -> tuple[TemplateCost, ...]:
        """All templates, those with the greatest own time first."""
        costs = [
            TemplateCost(name, count, self._inclusive[name] / _US_PER_S, self._own[name] / _US_PER_S)
            for name, count in self._counts.items()
        ]
        return tuple(sorted(costs, key=lambda cost: (-cost.self_s, -cost.inclusive_s, cost.name)))

    def _pass_to(self, time: int) -> None:
        while self._open and self._open[-1].end <= time:
            ended = self._open.pop()
            self._count(ended, ended.end)
            if ended.named is not None:
                self._nested[ended.named] -= 1
        if self._open:
            self._count(self._open[-1], time)
        self._now = time

    def _count(self, innermost: _Open, until: int) -> None:
        self.stages[innermost.stage] += until - self._now
        if innermost.template is not None:
            self._own[innermost.template] += until - self._now
        self._now = until
