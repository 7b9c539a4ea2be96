"""The time of one compiler pass by stage and template, and the traces of several passes as one.

Every moment belongs to the innermost event that is of a known stage: what clang does on the way (evaluating constants,
checking constraints, running one optimization) counts to the stage in which it is done. So stages add up to the whole,
and so do the templates' own times to the stage of instantiation, but for clang's queue of them. A template is known by
its name without the arguments.

The joined trace is for chrome://tracing and Perfetto. Format: "Trace Event Format" of the Chromium project. Each pass
is a process of its own, and all share one clock: clang writes when its own began (`beginningOfTime`, µs since 1970).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from ckwatch.model.lazy_dataclass import dataclass

# What decides: brackets in an operator's name (`operator<<int>` is `<` with an argument, `operator<<<int>`
# is `<<` with one), literals, names that are in parentheses, arrows, and all other brackets.
_TOKEN = re.compile(
    r"(?P<operator>\boperator(?:<=>|<<=|>>=|->\*?|<<(?=<|\(|$)|>>|<=|>=|<|>|\(\)|\[\]))"
    r"|(?P<literal>'(?:\\.|[^'\\])+'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<named>(?:(?<=::)|^)\((?:lambda|anonymous|unnamed)\b)"
    r"|->|[<>()\[\]{}]"
)
_PAIRS = {"<": ">", "(": ")", "[": "]", "{": "}"}
_QUALIFIERS = re.compile(r" (?:const|volatile|&&?|noexcept)(?=::|$| )")


def template_name(name: str) -> str:
    """`ck::Tuple<int, X<2>>::At<1>` → `ck::Tuple::At`, `f<1>(int)::(lambda)::operator()<2>` → `f::(lambda)`.

    Parameters of functions around go as well. In parentheses angle brackets are no brackets: an argument may be
    `(a > b)`. What was cut off in the middle loses all that follows the open bracket.
    """
    kept: list[str] = []
    closing: list[str] = []
    begin = at = 0
    while (token := _TOKEN.search(name, at)) is not None:
        text, kind = token[0], token.lastgroup
        at = token.end()
        if closing:
            if text == closing[-1]:
                closing.pop()
                begin = at
            elif kind is None and text in _PAIRS and (text != "<" or closing[-1] == ">"):
                closing.append(_PAIRS[text])
            elif kind == "named":
                closing.append(")")
        elif kind == "named":
            # `(lambda at FILE:LINE:COLUMN)` is `(lambda)` in another place.
            end = name.find(")", at)
            at = end + 1 if end >= 0 else len(name)
            kept.append(f"{name[begin : token.start()]}{name[token.start() : at].partition(' at ')[0].rstrip(')')})")
            begin = at
        elif kind is None and text in ("<", "("):
            kept.append(name[begin : token.start()])
            closing.append(_PAIRS[text])
    if not closing:
        kept.append(name[begin:])
    plain = "".join(kept)
    if ")" in name:
        plain = _QUALIFIERS.sub("", plain).replace("(lambda)::operator()", "(lambda)")
    return plain


class CompilerStage(StrEnum):
    """A stage of a compiler, in this order."""

    PARSING = "parsing"
    INSTANTIATION = "template instantiation"
    IR = "LLVM IR generation"
    OPTIMIZER = "optimizer"
    CODE_GENERATION = "code generation"
    OTHER = "other"


FRONT_END = (CompilerStage.PARSING, CompilerStage.INSTANTIATION, CompilerStage.IR)
BACK_END = (CompilerStage.OPTIMIZER, CompilerStage.CODE_GENERATION)

_STAGES: Mapping[str, CompilerStage] = {
    "ExecuteCompiler": CompilerStage.OTHER,
    "Frontend": CompilerStage.PARSING,
    "Source": CompilerStage.PARSING,
    "InstantiateClass": CompilerStage.INSTANTIATION,
    "InstantiateFunction": CompilerStage.INSTANTIATION,
    "PerformPendingInstantiations": CompilerStage.INSTANTIATION,
    "CodeGen Function": CompilerStage.IR,
    "DebugType": CompilerStage.IR,
    "DebugFunction": CompilerStage.IR,
    "DebugGlobalVariable": CompilerStage.IR,
    "DebugConstGlobalVariable": CompilerStage.IR,
    "Backend": CompilerStage.OPTIMIZER,
    "Optimizer": CompilerStage.OPTIMIZER,
    "CodeGenPasses": CompilerStage.CODE_GENERATION,
}
"""By clang's names of events (`llvm::TimeTraceScope` in clang 22); the names of all others that begin with `Parse` are
parsing as well."""

_NAMED = frozenset({"InstantiateClass", "InstantiateFunction"})
_US_PER_S = 1_000_000


class TimeTraceError(ValueError):
    """This is no time trace of clang."""


@dataclass(frozen=True, slots=True)
class TemplateCost:
    """The cost of all instances of one template.

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

    stages: Mapping[CompilerStage, float]
    templates: tuple[TemplateCost, ...]


def summarize(trace: Any) -> TraceSummary:
    """The summary of a decoded trace. Raises TimeTraceError for anything that is none."""
    reading = _Reader()
    for begin, end, stage, template in sorted(_intervals(trace), key=lambda one: (one[0], -one[1])):
        reading.take(begin, end, stage, template)
    reading.end()
    return TraceSummary({stage: reading.stages[stage] / _US_PER_S for stage in CompilerStage}, reading.templates())


_Interval = tuple[int, int, CompilerStage | None, str | None]


def events_of(trace: Any) -> list[Any]:
    """The list of events. Raises TimeTraceError."""
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list):
        raise TimeTraceError("it has no list `traceEvents`")
    return events


def is_total(event: Any) -> bool:
    """Return True if this is a sum that clang adds at the end, on a thread of its own."""
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
                stage = CompilerStage.PARSING
            yield int(begin), int(begin) + int(duration), stage, template
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TimeTraceError(f"an event is malformed: {str(event)[:80]}") from error


@dataclass(slots=True)
class _OpenInterval:
    end: int
    stage: CompilerStage
    template: str | None
    named: str | None


class _Reader:
    """Goes through intervals in the order of their beginning, outer ones first."""

    def __init__(self) -> None:
        self.stages: Counter[CompilerStage] = Counter()
        self._own: Counter[str] = Counter()
        self._inclusive: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._nested: Counter[str] = Counter()
        self._open: list[_OpenInterval] = []
        self._now = 0

    def take(self, begin: int, end: int, stage: CompilerStage | None, template: str | None) -> None:
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
            stage = CompilerStage.OTHER if around is None else around.stage
            owner = None if around is None else around.template
        else:
            owner = template
        self._open.append(_OpenInterval(end, stage, owner, template))

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

    def _count(self, innermost: _OpenInterval, until: int) -> None:
        self.stages[innermost.stage] += until - self._now
        if innermost.template is not None:
            self._own[innermost.template] += until - self._now
        self._now = until


def join_traces(passes: Sequence[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    """The events of all passes, (name, decoded trace) each, in the order of the passes. Raises TimeTraceError.

    The sums that clang adds at the end are left out: each would be a thread.
    """
    begun = [_begin_us(trace) for _, trace in passes]
    for number, ((name, trace), began) in enumerate(zip(passes, begun, strict=True), start=1):
        yield _metadata(number, "process_name", {"name": name})
        yield _metadata(number, "process_sort_index", {"sort_index": number})
        yield _metadata(number, "thread_name", {"name": "clang"})
        for event in events_of(trace):
            if is_total(event) or event["ph"] == "M":
                continue
            moved = {**event, "pid": number, "tid": 1, "ts": event["ts"] + began - min(begun)}
            if "id" in moved:
                moved["id2"] = {"local": str(moved.pop("id"))}  # an id is everybody's, and both passes count from 0
            yield moved


def _metadata(process: int, name: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": 1, "ts": 0, "name": name, "args": values}


def _begin_us(trace: Any) -> int:
    events_of(trace)
    began = trace.get("beginningOfTime", 0)
    if not isinstance(began, int):
        raise TimeTraceError("`beginningOfTime` is not a number")
    return began
