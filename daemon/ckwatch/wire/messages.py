"""Answers other than state."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Generic, Literal, TypeVar

from ckwatch.compile.timetrace.summary import TemplateCost
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.text import Position, Span
from ckwatch.wire.state import Cause, Unit
from ckwatch.wire.values import Value


class UnsavedText(Value):
    """A text that an editor shows in place of that of the file at `path`."""

    path: str
    text: str


class UnitDetail(Value):
    """Everything about a unit: `ckwatch explain`. `tensors`: dtype and sizes by the tensor's name in templates."""

    unit: Unit
    parameters: dict[str, Any]
    parameter_places: dict[str, Span]
    template: str
    tensors: dict[str, str] = field(default_factory=dict)
    reads: dict[str, str]
    missed: tuple[str, ...]
    headers: int
    token_key: str | None
    standing: str
    cause: tuple[Cause, ...]
    diagnostics: tuple[Diagnostic, ...]
    command: tuple[tuple[str, ...], ...] = ()
    peak_memory_bytes: int = 0


class PlannedUnit(Value):
    """The step of a build for a unit: `compile` it, `wait` for work that goes on, `nothing` for a result that is fresh,
    or `refuse`, because of errors that are found without a compiler or because there is none. `why` is a sentence, and
    `cause` the events that led there, newest first."""

    unit: str
    step: Literal["compile", "wait", "nothing", "refuse"]
    why: str
    cause: tuple[Cause, ...]


class ChainLink(Value):
    """One link from a rendered piece back to its template."""

    kind: str
    label: str
    iteration: int | None
    span: Span


class Segment(Value):
    """The origin of a piece of the rendered text, from code point `start` to `end`: it begins at `position` of the file
    of `span`."""

    start: int
    end: int
    verbatim: bool
    exact: bool
    position: Position
    span: Span
    label: str
    chain: tuple[ChainLink, ...]


class PassTime(Value):
    """The time of one pass of the compiler, by stage.

    `seconds` is the time of its process; `stages`, in order, are the compiler's own times, a little less in total.
    `templates` are the costliest of `template_count`, which were instantiated `instantiation_count` times. `front_end`
    and `back_end` sum up stages.
    """

    side: Literal["device", "host"]
    name: str
    seconds: float
    stages: dict[str, float]
    templates: tuple[TemplateCost, ...]
    template_count: int
    instantiation_count: int
    front_end: float = 0.0
    back_end: float = 0.0


class TimeTrace(Value):
    """The compile time of a unit. Without passes the unit did not compile; `diagnostics` say why.

    What took less than `granularity_us` is counted with what it was a part of.
    """

    unit: str
    granularity_us: int
    passes: tuple[PassTime, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    path: str | None = None


class RenderedText(Value):
    """A unit's text; None when its template has errors. `map` only when it was requested.

    `command` makes an object of it where it lies in a file called `source_name`, with `environment` beside the usual;
    empty without a compiler. `clang` is the compiler behind hipcc, for tools that know no other.
    """

    unit: str
    text: str | None
    symbol: str | None = None
    token_key: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    read: dict[str, str] = field(default_factory=dict)
    missed: tuple[str, ...] = ()
    map: tuple[Segment, ...] | None = None
    source_name: str = ""
    command: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    clang: str = ""


class Artifact(Value):
    """The artifact of a unit."""

    unit: str
    key: str
    fresh: bool
    outcome: Literal["built", "failed"]
    folder: str
    symbol: str
    products: dict[str, str]
    commands: tuple[tuple[str, ...], ...]
    log: str


class Run(Value):
    """A past compile."""

    outcome: str
    key: str
    finished_at: float
    seconds: float
    from_store: bool
    cause: tuple[Cause, ...]


class Problem(Value):
    """The body of every 4xx and 5xx answer."""

    error: str
    hint: str | None = None
    details: tuple[str, ...] = ()


Result = TypeVar("Result")


class SlowAnswer(Value, Generic[Result]):
    """A line of an answer that takes as long as a compile: `done`, with the result or the problem, is the last."""

    event: Literal["heartbeat", "done"]
    result: Result | None = None
    problem: Problem | None = None
