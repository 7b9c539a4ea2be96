"""Changes as the daemon tells them, for what shows them."""

from __future__ import annotations

from itertools import count
from typing import Any

from ckwatch.model.diagnostics import Diagnostic, Related, Severity, Source
from ckwatch.model.text import Position, Span
from ckwatch.model.topics import Topic
from ckwatch.wire.state import Cause, Change, File, Workspace
from fakes.fake_engine import unit_of

_numbers = count(1)


def unit(name: str, phase: str = "done", outcome: str | None = "built", **fields: Any) -> Change:
    """`gemm/m128@gfx942` came into a state. `why` and `at` are what set it off and when."""
    why, at = fields.pop("why", "t.j2 changed"), fields.pop("at", 0.0)
    fields.setdefault("fresh", phase in ("done", "idle") and outcome is not None)
    fields.setdefault("cause", (Cause(what=why, at=at),) if why else ())
    return _change(f"unit/{name}", unit_of(name, phase=phase, outcome=outcome, **fields))


def gone(topic: str) -> Change:
    """It is no more."""
    return _change(topic, None)


def error(message: str, place: str = "/w/t.j2:1:5", *, length: int = 3, notes: int = 0, **fields: Any) -> Diagnostic:
    """An error at `path:line:column`, counted from one."""
    span = _span(place, length)
    related = tuple(
        Related(message=f"see {number}", span=_span(f"/w/h:{number}:1", 1)) for number in range(1, notes + 1)
    )
    values: dict[str, Any] = {
        "severity": Severity.ERROR,
        "source": Source.CLANG,
        "code": "c/x",
        "units": ("k/a@gfx942",),
    }
    found = values | fields
    return Diagnostic(message=message, span=span, related=related, **{**found, "severity": Severity(found["severity"])})


def file(path: str, *diagnostics: Diagnostic) -> Change:
    """A file's messages are these."""
    return _change(f"file/{path}", File(path=path, diagnostics=diagnostics))


def workspace(**fields: Any) -> Change:
    """The workspace's state."""
    values: dict[str, Any] = {
        "root": "/w", "loaded": True, "busy": False, "unit_count": 0, "jobs": 2, "compiling": 0,
    }  # fmt: skip
    return _change("workspace", Workspace(**(values | fields)))


def _change(topic: str, state: Any) -> Change:
    return Change(seq=next(_numbers), topic=Topic(topic), state=state)


def _span(place: str, length: int) -> Span:
    path, line, column = place.rsplit(":", 2)
    start = Position(line=int(line) - 1, column=int(column) - 1)
    return Span(path=path, start=start, end=Position(line=start.line, column=start.column + length))
