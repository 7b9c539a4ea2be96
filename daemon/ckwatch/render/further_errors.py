"""Finds all errors of a template in one run: one that goes on with nothing in the place of each.

What follows from an error that was found is none: an expression that has such a nothing, or a variable that was made
from one, fails without a word.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from jinja2 import UndefinedError
from jinja2.utils import missing

from ckwatch.model.text import Span
from ckwatch.render.environment import RenderLimitError, TemplateEnvironment, TemplateUndefined
from ckwatch.render.hooks import HookError, UndeclaredError
from ckwatch.render.template_errors import Place, places_of_frame, places_of_traceback

ERRORS_REPORTED = 20
FAILURES_SEEN = 2000
"""Failures, as each round of a loop has them, after which no more errors are looked for."""

Tolerated = list[tuple[Exception, list[Place]]]
"""Each error, with the places that were being executed, outermost first."""

_GIVE_BACK_THEMSELVES = (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
    *("pos", "neg", "call", "getitem", "pow", "rpow"),
)
_ARE_NOTHING = {
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "bool", "contains"), False),
    "str": "",
    "len": 0,
    "int": 0,
    "float": 0.0,
    "hash": 0,
}


class _Errors:
    """The errors found: each error of a tag once."""

    def __init__(self) -> None:
        self.found: Tolerated = []
        self._known: set[tuple[str, str, Span]] = set()
        self._seen = 0

    def full(self) -> bool:
        """Return True if the limit of errors is reached. Counts its calls."""
        self._seen += 1
        return len(self.found) >= ERRORS_REPORTED or self._seen > FAILURES_SEEN

    def add(self, error: Exception, places: list[Place]) -> None:
        """Add an error, if it is at a place of a template and not known."""
        known = (str(error), places[-1].source.path, places[-1].span) if places else None
        if known is not None and known not in self._known:
            self._known.add(known)
            self.found.append((error, places))


@contextmanager
def tolerating(environment: TemplateEnvironment) -> Iterator[Tolerated]:
    """Errors are noted in what is given, instead of raised, while the body runs; those that end it, too."""
    errors = _Errors()
    usual = environment.undefined
    noted: dict[int, TemplateUndefined] = {}
    tolerant = _tolerant(errors, noted)
    nothing = tolerant(name="")
    noted[id(nothing)] = nothing

    def failed(error: Exception, around: list[Place]) -> None:
        places = [*around, *places_of_traceback(error.__traceback__)]
        if places and not errors.full() and not _follows(error, places[-1], errors.found, tolerant):
            errors.add(error, places)

    def attempt(evaluate: Callable[[], Any], otherwise: Any = nothing) -> Any:
        try:
            return evaluate()
        except (RenderLimitError, RecursionError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001  # templates can raise anything
            failed(error, places_of_frame(sys._getframe(1))[:-1])
            return otherwise

    environment.undefined = tolerant
    environment.begin_attempts(attempt)
    try:
        yield errors.found
    except (RenderLimitError, RecursionError, MemoryError):
        pass
    except Exception as error:  # noqa: BLE001  # as above
        failed(error, [])
    finally:
        environment.undefined = usual
        environment.end_attempts()


def _follows(error: Exception, place: Place, earlier: Tolerated, tolerant: type[TemplateUndefined]) -> bool:
    """Return True if `error` comes from one of the `earlier` ones, or may."""
    if isinstance(error, UndefinedError):
        return False
    mentioned = {name for name, _ in place.tag.names} if place.tag is not None else set()
    if not mentioned.isdisjoint(_made_of_nothing(earlier)):
        return True
    if isinstance(error, UndeclaredError) and earlier:
        return True  # its call may be what failed
    if isinstance(error, HookError) and any(
        DECLARING_HOOK in str(one) or _mentions(places[-1], DECLARING_HOOK) for one, places in earlier
    ):
        return True
    return any(_is_nothing(value, tolerant) for value in _values_in(error.__traceback__, mentioned))


def _mentions(place: Place, name: str) -> bool:
    return place.tag is not None and any(name == one for one, _ in place.tag.names)


def _made_of_nothing(errors: Tolerated) -> set[str]:
    """Variables that were given a value by a tag that failed, or by one that uses such a variable."""
    failed = {(places[-1].source.path, places[-1].tag.start) for _, places in errors if places[-1].tag is not None}
    sources = {place.source.path: place.source for _, places in errors for place in places}
    giving = [
        (path, tag, made)
        for path, source in sources.items()
        for tag in source.tags
        if (made := _GIVES_VALUES.match(tag.body))
    ]
    found: set[str] = set()
    for _ in range(2):  # the second time for what a loop brings around
        for path, tag, made in giving:
            if (path, tag.start) in failed or any(name in found for name, _ in tag.names):
                found.update(re.findall(r"\w+", made["names"] or made["loop"]))
    return found


def _values_in(traceback: TracebackType | None, mentioned: set[str]) -> Iterator[Any]:
    """Yield the values that the failing expression of a template works with: `mentioned` variables, and arguments of
    calls."""
    frames: list[FrameType] = []
    while traceback is not None:
        frame = traceback.tb_frame
        frames = [frame] if "_tables" in frame.f_globals else [*frames, frame]
        traceback = traceback.tb_next
    for frame in frames:
        for name, value in frame.f_locals.items():
            if "_tables" not in frame.f_globals or ((variable := _VARIABLE.match(name)) and variable[1] in mentioned):
                yield value


def _is_nothing(value: Any, tolerant: type[TemplateUndefined]) -> bool:
    if type(value) in (tuple, list):
        return any(isinstance(one, tolerant) for one in value)
    if type(value) is dict:
        return any(isinstance(one, tolerant) for one in value.values())
    if type(value) is slice:
        return any(isinstance(one, tolerant) for one in (value.start, value.stop, value.step))
    return isinstance(value, tolerant) or value is missing


_GIVES_VALUES = re.compile(r"(?:set|with)\s+(?P<names>[^=]*)=|for\s+(?P<loop>.*?)\s+in\s")
_VARIABLE = re.compile(r"l_\d+_(\w+)")

DECLARING_HOOK = "def_kernel"
"""The hook on whose arguments the others depend."""


def _tolerant(errors: _Errors, noted: dict[int, TemplateUndefined]) -> type[TemplateUndefined]:
    def note(value: TemplateUndefined) -> None:
        if id(value) in noted or errors.full():
            return
        noted[id(value)] = value
        errors.add(value._undefined_exception(value._undefined_message), places_of_frame(sys._getframe()))

    def giving_itself(self: TemplateUndefined, *_: Any, **__: Any) -> Any:
        note(self)
        return self

    def giving(result: Any) -> Any:
        def method(self: TemplateUndefined, *_: Any) -> Any:
            note(self)
            return result

        return method

    def attribute(self: TemplateUndefined, name: str) -> Any:
        if name[:2] == "__":
            raise AttributeError(name)
        return giving_itself(self)

    def items(self: TemplateUndefined) -> Iterator[Any]:
        note(self)
        return iter(())

    methods: dict[str, Any] = {f"__{name}__": giving_itself for name in _GIVE_BACK_THEMSELVES}
    methods.update((f"__{name}__", giving(result)) for name, result in _ARE_NOTHING.items())
    methods.update(__getattr__=attribute, __iter__=items, _fail_with_undefined_error=giving_itself, __slots__=())
    return type("ToleratedUndefined", (TemplateUndefined,), methods)
