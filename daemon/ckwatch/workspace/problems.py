"""Collects the problems of one TOML file: codes, places, and what to write instead.

Codes are `workspace/…` in `ckwatch.toml` and `kernel-file/…` in kernel files. pydantic finds unknown keys, missing keys
and wrong types; its errors become diagnostics here, in the words of TOML.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity
from ckwatch.model.names import NAME_LENGTH_LIMIT
from ckwatch.model.text import Span
from ckwatch.workspace.toml_document import KeyPath, TomlDocument

NAMES_LISTED = 24

EXPECTED_TYPES: dict[str, str] = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_type": "a number",
    "int_type": "an integer",
    "list_type": "an array",
    "model_type": "a table",
    "string_type": "a string",
}
"""pydantic's error types in the words of TOML."""

FOLLOW_UPS = ("missing-key", "no-instance", "unknown-key")
"""Problems that a syntax error in the file brings along."""

Model = TypeVar("Model", bound=BaseModel)

_Place = tuple[int | str, ...]


class Problems:
    """The diagnostics of one file, in the order in which they were found."""

    def __init__(self, document: TomlDocument) -> None:
        self.document = document
        self.found: list[Diagnostic] = []
        self.errors_found = 0

    def add(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        severity: Severity = Severity.ERROR,
        related: Sequence[Related] = (),
        fixes: Sequence[Fix] = (),
    ) -> None:
        """Report at `span`."""
        source = self.document.source
        if code in FOLLOW_UPS and self.document.diagnostics:
            self.errors_found += 1
            return  # what could not be read is why it is missing or stands in another table
        self.errors_found += severity is Severity.ERROR
        self.found.append(
            Diagnostic(severity, source, f"{source.value}/{code}", message, span, tuple(related), fixes=tuple(fixes))
        )

    def at_value(self, path: KeyPath, code: str, message: str, **more: Any) -> None:
        """Report at the value at `path`; `more` as in `add`."""
        self.add(code, message, self.document.span_of(path), **more)

    def unknown_name(self, path: KeyPath, code: str, what: str, name: str, known: Collection[str]) -> None:
        """Report the value at `path`, which names none of `known`; `what` says so, and the nearest one is offered."""
        near = nearest(name, known)
        fixes = (Fix(self.document.span_of(path), f'"{near}"'),) if near else ()
        others = f"known: {join_names(known)}" if known else "there is none"
        self.at_value(path, code, f"{what}; {did_you_mean(name, known)}{others}", fixes=fixes)

    def at_key(self, path: KeyPath, code: str, message: str, **more: Any) -> None:
        """Report at the key at `path`; `more` as in `add`."""
        self.add(code, message, self.document.key_span_of(path), **more)

    def repeated(self, path: KeyPath, message: str, first: KeyPath) -> None:
        """Report a name that is taken by what stands at `first`."""
        related = (Related("first given here", self.document.span_of(first)),)
        self.at_value(path, f"duplicate-{path[0]}", message, related=related)

    def unknown_key(
        self,
        path: KeyPath,
        allowed: Iterable[str],
        elsewhere: Mapping[str, str] | None = None,
        lacking: str | None = None,
    ) -> None:
        """Report a key that is none of `allowed`; `elsewhere` says of keys of other tables where they belong.

        `lacking` is a key that is missing where this one is too many.
        """
        key = str(path[-1])
        allowed = list(allowed)
        where = f"unknown key `{key}`{_of_table(path[:-1])}"
        known = nearest(key, allowed)
        fixes: tuple[Fix, ...] = ()
        if known is not None and normalized(known) == normalized(key):
            hint = f"did you mean `{known}`?"
        elif elsewhere and key in elsewhere:
            known, hint = None, elsewhere[key]
        elif known is None and lacking is not None:
            known, hint = lacking, f"did you mean `{lacking}`, which is missing?"
        elif known is not None:
            hint = f"did you mean `{known}`?"
        else:
            hint = f"known: {join_names(allowed)}"
        span = self.document.key_span_of(path)
        if known is not None:
            fixes = (Fix(span, known),)
        self.add("unknown-key", f"{where}; {hint}", span, fixes=fixes)

    def validated(
        self,
        model: type[Model],
        values: Any,
        base: KeyPath,
        *,
        context: Any = None,
        elsewhere: Mapping[str, str] | None = None,
    ) -> Model | None:
        """`values` as a `model`, or None and a diagnostic for each problem in it."""
        try:
            return model.model_validate(values, strict=True, context=context)
        except ValidationError as error:
            details = error.errors(include_url=False)
            meant = _meant_keys(details)
            explained = set(meant.values())
            for detail in details:
                if detail["loc"] not in explained:
                    self._report(model, detail, base, elsewhere, meant)
            return None

    def _report(
        self,
        model: type[BaseModel],
        detail: ErrorDetails,
        base: KeyPath,
        elsewhere: Mapping[str, str] | None,
        meant: Mapping[_Place, _Place],
    ) -> None:
        # the last step of the place of a problem in a key of a table is "[key]"
        where = tuple(step for step in place_of(detail) if step != "[key]")
        path = base + where
        kind = detail["type"]
        if kind == "extra_forbidden":
            missing = meant.get(detail["loc"])
            lacking = None if missing is None else str(missing[-1])
            self.unknown_key(path, keys_at(model, where[:-1]), elsewhere, lacking)
        elif kind == "missing":
            self.at_value(path[:-1], "missing-key", f"`{path[-1]}` is missing{_of_table(path[:-1])}")
        elif kind in EXPECTED_TYPES:
            self.wrong_type(path, EXPECTED_TYPES[kind], detail["input"])
        elif kind == "literal_error":
            expected, value = detail["ctx"]["expected"], detail["input"]
            known = re.findall(r"'([^']*)'", expected)  # of texts; numbers have no quotes
            if known and isinstance(value, str):
                self.unknown_name(path, "unknown-value", f"unknown {_name(path)}, `{value}`", value, known)
            else:
                self.wrong_type(path, f"one of {join_names(known)}" if known else expected, value)
        elif kind in ("too_short", "too_long"):
            length = detail["ctx"]["actual_length"]
            limit = (
                f"at least {detail['ctx']['min_length']}"
                if kind == "too_short"
                else f"at most {detail['ctx']['max_length']}"
            )
            if length == 0:
                self.at_value(path, "empty-array", f"{_name(path)} must not be empty")
            else:
                self.at_value(path, "wrong-length", f"{_name(path)} must have {limit} values, not {length}")
        elif kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
            self.at_value(path, "out-of-range", f"{_name(path)} {detail['msg'].removeprefix('Input ')}")
        else:
            context = detail.get("ctx", {})
            replacement = context.get("replacement")
            of_key = len(where) < len(detail["loc"])
            span = self.document.key_span_of(path) if of_key else self.document.span_of(path)
            fixes = (Fix(span, f'"{replacement}"'),) if replacement else ()
            self.add(kind.replace("_", "-"), detail["msg"], span, fixes=fixes)

    def missing_key(
        self, path: KeyPath, key: str, table: Mapping[str, Any], known: Iterable[str], more: str = ""
    ) -> None:
        """Report that `key` is missing in the `table` at `path`: at the unknown key that was meant to be it, if any."""
        known = set(known)
        others = [name for name in table if name not in known]
        meant = nearest(key, others) or (others[0] if known and len(others) == 1 else None)
        if meant is None:
            self.at_value(path, "missing-key", f"`{key}` is missing{_of_table(path)}{more}")
            return
        span = self.document.key_span_of((*path, meant))
        message = f"unknown key `{meant}`{_of_table(path)}; did you mean `{key}`?"
        self.add("unknown-key", message, span, fixes=(Fix(span, key),))

    def wrong_type(self, path: KeyPath, expected: str, value: object) -> None:
        """Report a value of the wrong type."""
        self.at_value(path, "wrong-type", f"{_name(path)} must be {expected}, not {describe_value(value)}")


def place_of(detail: ErrorDetails) -> tuple[int | str, ...]:
    """Return the place of a problem that pydantic has found."""
    at = detail.get("ctx", {}).get("at")
    return (*detail["loc"][:-1], at) if at else detail["loc"]


def _meant_keys(details: Iterable[ErrorDetails]) -> dict[_Place, _Place]:
    """By unknown keys the missing ones that they were meant to be: those like them, or the only one in their table."""
    unknown: dict[_Place, dict[str, _Place]] = {}
    missing: dict[_Place, list[_Place]] = {}
    for one in details:
        table, place = one["loc"][:-1], one["loc"]
        if one["type"] == "extra_forbidden":
            unknown.setdefault(table, {})[str(place[-1])] = place
        elif one["type"] == "missing":
            missing.setdefault(table, []).append(place)
    found: dict[_Place, _Place] = {}
    for table, places in missing.items():
        here = unknown.get(table, {})
        for place in places:
            near = nearest(str(place[-1]), here) or (next(iter(here)) if len(here) == len(places) == 1 else None)
            if near is not None:
                found.setdefault(here[near], place)
    return found


def keys_at(model: type[BaseModel], where: Sequence[int | str]) -> list[str]:
    """The keys that a table at `where` within `model` may have."""
    annotation: Any = model
    for step in where:
        annotation = _inner(annotation, step)
    found = _model(annotation)
    return [field.alias or name for name, field in found.model_fields.items()] if found else []


def _inner(annotation: Any, step: int | str) -> Any:
    found = _model(annotation)
    if found is not None:
        by_key = {field.alias or name: field.annotation for name, field in found.model_fields.items()}
        return by_key.get(str(step))
    for option in _options(annotation):
        if get_origin(option) in (list, tuple, dict):
            return get_args(option)[-1 if get_origin(option) is dict else 0]
    return None


def _model(annotation: Any) -> type[BaseModel] | None:
    for option in _options(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return None


def _options(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def _name(path: KeyPath) -> str:
    steps = [step for step in path if isinstance(step, str)]
    if path and isinstance(path[-1], int):
        return f"element {path[-1] + 1} of `{steps[-1]}`" if steps else "the value"
    return f"`{steps[-1]}`" if steps else "the value"


def _of_table(path: KeyPath) -> str:
    """` in [operation.a]`, or nothing at the top of the file."""
    steps = [step for step in path if isinstance(step, str)]
    if not steps:
        return ""
    return f" in [[{'.'.join(steps)}]]" if isinstance(path[-1], int) else f" in [{'.'.join(steps)}]"


def normalized(name: str) -> str:
    """`name` without what people get wrong first: case, underscores, hyphens."""
    return name.replace("_", "").replace("-", "").casefold()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be."""
    if len(name) > NAME_LENGTH_LIMIT:
        return None
    by_normal = {normalized(one): one for one in reversed(list(known)) if one != name}
    if (sought := normalized(name)) in by_normal:
        return by_normal[sought]
    near = difflib.get_close_matches(sought, by_normal, n=1, cutoff=0.7)
    return by_normal[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`did you mean …? ` where a known name is near, else nothing."""
    near = nearest(name, known)
    return f"did you mean `{near}`? " if near else ""


def join_names(names: Iterable[str]) -> str:
    """`a, b, c`, cut where it gets long."""
    names = list(names)
    more = f" and {len(names) - NAMES_LISTED} more" if len(names) > NAMES_LISTED else ""
    return ", ".join(names[:NAMES_LISTED]) + more


def describe_value(value: object) -> str:
    """A value from TOML with its type, for a message: `the string "8"`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'the string "{value if len(value) <= 40 else value[:39] + "…"}"'
    if isinstance(value, int):
        return f"the integer {value}" if value.bit_length() < 200 else "an enormous integer"
    if isinstance(value, float):
        return f"the number {value}"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, dict):
        return "a table"
    return "a date or time"


def unknown_value_error(what: str, value: str, known: Iterable[str], hint: str = "") -> PydanticCustomError:
    """The error of a validator for a `value` that is no known `what` (`dtype`, `layout`)."""
    known = list(known)
    message = f"unknown {what} `{value}`; {did_you_mean(value, known)}known: {join_names(known)}{hint}"
    return validator_error(f"unknown_{what.replace(' ', '_')}", message, nearest(value, known))


def validator_error(code: str, message: str, replacement: str | None = None, *, at: str = "") -> PydanticCustomError:
    """An error of a validator; its text is taken as it is. `at`: the key beside the value's that it stands at."""
    # pydantic formats the template with the context: the text goes in as a value, so that braces in it are kept
    return PydanticCustomError(code, "{text}", {"text": message, "replacement": replacement or "", "at": at})  # type: ignore[arg-type, unused-ignore]
