"""Template parameters in kernel files: values with their places, checks between them, and conditions on them.

How a condition is parsed is in `ckwatch.workspace.sweep_conditions`, which loads Jinja2.
"""

from __future__ import annotations

import keyword
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from typing import Any

from ckwatch.model.diagnostics import Fix, Related, Severity
from ckwatch.model.kernels import ParameterValue
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.names import why_too_long
from ckwatch.model.text import Span
from ckwatch.workspace.problems import Problems, describe_value, normalized
from ckwatch.workspace.toml_document import KeyPath

INT64 = range(-(2**63), 2**63)

RESERVED = frozenset(
    (
        *("def_kernel", "get_signature", "arg_name", "ptr", "dtype", "abi_type", "layout", "size", "stride"),
        *("contiguous_stride", "check_not_null", "size_args", "runtime_args", "header", "headers", "globals"),
        *("template_argument", "has_feature", "need_feature", "unsupported", "kernel_name", "gfx9_threads_per_warp"),
        *("kernel", "operation", "parameters", "arch", "input_reorder", "KERNEL_NAME", "DEVICE_CODE_NAME"),
        *("range", "dict", "lipsum", "cycler", "joiner", "namespace", "loop", "self", "super", "caller", "varargs"),
        *("true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else", "for"),
    )
)
"""Names that mean something else in a template."""

_DIGITS = re.compile(r"\s*-?(?:0|[1-9]\d{0,17})\s*")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A value at the place where it was written."""

    value: ParameterValue
    span: Span


def _element_meant(value: object) -> str | None:
    """The integers that an element of an array was meant to be, in TOML; None where that is not certain."""
    if isinstance(value, float) and value.is_integer() and int(value) in INT64:
        return str(int(value))
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        return value.strip()
    if isinstance(value, list) and value and kind_of(value) == "array":
        return ", ".join(map(str, value))
    return None


@dataclass(slots=True)
class ParameterReader:
    """Reads the parameter tables of one kernel file.

    `taken` are names of the operation's tensors, `replacement` gives for a parameter that the template does not
    mention the one that was probably meant, and `is_typed` says whether it declares the parameter's type.
    """

    problems: Problems
    taken: frozenset[str] = frozenset()
    replacement: Callable[[str], str | None] = lambda _name: None
    is_typed: Callable[[str], bool] = lambda _name: False
    key_spans: dict[Span, Span] = field(default_factory=dict)
    """Places of the keys, by the places of their values."""
    meant: set[str] = field(default_factory=set)
    """Parameters that are missing where others are reported as slips of them."""
    _kinds: dict[str, list[tuple[str, Span]]] = field(default_factory=lambda: defaultdict(list))
    _judged: dict[str, tuple[str, str] | None] = field(default_factory=dict)
    _near: dict[str, str | None] = field(default_factory=dict)

    def table(self, values: Any, base: KeyPath, ignore: frozenset[str] = frozenset()) -> dict[str, PlacedValue] | None:
        """The parameters of the table at `base`; None where one of them is wrong."""
        if not isinstance(values, dict):
            self.problems.wrong_type(base, "a table", values)
            return None
        before = self.problems.errors_found
        found = {}
        for name, value in values.items():
            if name not in ignore and self.named(name, (*base, name), values):
                written = self.value(name, value, (*base, name))
                if written is not None:
                    found[name] = written
        return found if self.problems.errors_found == before else None

    def named(self, name: str, path: KeyPath, beside: Collection[str] = ()) -> bool:
        """Return True if `name` can be a parameter's name; otherwise report it at the key at `path`.

        `beside` are the table's keys: the name that was meant may be there, too.
        """
        if name not in self._judged:
            self._judged[name] = self._objection(name)
        objection, near = self._judged[name], self._meant(name, beside)
        if objection is None and near is not None:
            objection = "unknown-parameter", f"the template mentions no parameter `{name}`; did you mean `{near}`?"
        if objection is None:
            return True
        code, message = objection
        span = self.problems.document.key_span_of(path)
        if code == "unknown-parameter" and near is not None:
            self.meant.add(near)
        is_free = code == "unknown-parameter" and near is not None and near not in beside
        self.problems.add(code, message, span, fixes=(Fix(span, near),) if is_free and near is not None else ())
        return False

    def value(self, name: str, value: Any, path: KeyPath) -> PlacedValue | None:
        """The value at `path`; None where it is none that a template parameter can have."""
        kind = kind_of(value)
        if kind is None:
            self._wrong_kind(name, value, path)
            return None
        if kind == "integer" and value not in INT64:
            self.problems.at_value(path, "out-of-range", f"`{name}` does not fit into 64 bits")
            return None
        written = PlacedValue(as_parameter(value), self.problems.document.span_of(path))
        if value != []:
            self._kinds[name].append((kind, written.span))
        of_element = isinstance(path[-1], int)
        self.key_spans[written.span] = self.problems.document.key_span_of(path[:-1] if of_element else path)
        return written

    def _wrong_kind(self, name: str, value: Any, path: KeyPath) -> None:
        """Report a value that is none of a parameter; of an array its first wrong element."""
        if isinstance(value, list):
            at, expected = _odd_element(value)
            wrong = value[at]
            span = self.problems.document.span_of((*path, at))
            meant = _element_meant(wrong) if expected == "an integer" else None
            hint = "" if meant is None else f"; write {meant}"
            message = f"element {at + 1} of `{name}` is {describe_value(wrong)} and must be {expected}{hint}"
            self.problems.add("wrong-type", message, span, fixes=(Fix(span, meant),) if meant else ())
            return
        expected = "an integer, a number, true or false, a string, or an array of integers, of strings or of arrays"
        self.problems.at_value(path, "wrong-type", f"`{name}` must be {expected}")

    def report_mixed_types(self) -> None:
        """Warn of values whose type differs from that of the same parameter's other values, where none is declared."""
        for name, places in self._kinds.items():
            counts: dict[str, int] = defaultdict(int)
            for kind, _ in places:
                counts[kind] += 1
            if len(counts) == 1 or set(counts) == {"integer", "number"} or self.is_typed(name):
                continue
            usual = max(counts, key=lambda kind: counts[kind])
            example = next(span for kind, span in places if kind == usual)
            for kind, span in places:
                if kind != usual:
                    self.problems.add(
                        "mixed-types",
                        f"`{name}` is {ARTICLE[kind]} here and {ARTICLE[usual]} elsewhere",
                        span,
                        severity=Severity.WARNING,
                        related=(Related(f"{ARTICLE[usual]} here", example),),
                    )

    def _meant(self, name: str, beside: Collection[str]) -> str | None:
        """The template's name that `name` is a slip of; None where the table or the defaults give that one, too."""
        if name not in self._near:
            self._near[name] = self.replacement(name)
        near = self._near[name]
        if near is None or normalized(near) == normalized(name):
            return near
        defaults = self.problems.document.values.get("defaults")
        return None if near in beside or (isinstance(defaults, dict) and near in defaults) else near

    def _objection(self, name: str) -> tuple[str, str] | None:
        if not _IDENTIFIER.fullmatch(name) or keyword.iskeyword(name):
            return "invalid-name", f"`{name}` cannot be a template parameter: it is not an identifier"
        if (reason := why_too_long(name)) is not None:
            return "invalid-name", reason
        if name in RESERVED or name in self.taken:
            return "reserved-name", f"`{name}` means something else in templates; call the parameter differently"
        return None


ARTICLE = {
    "array": "an array",
    "array of strings": "an array of strings",
    "array of arrays": "an array of arrays",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
}


def kind_of(value: object) -> str | None:
    """Return the parameter kind of a TOML value; None for tables, dates, and arrays with unsupported elements.

    The elements of an array are integers, strings, or arrays of one of these, and all of one kind.
    """
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    if not isinstance(value, list):
        return None
    kinds = {_kind_of_element(element) for element in value} or {"array"}
    return kinds.pop() if len(kinds) == 1 else None


def _kind_of_element(element: object) -> str | None:
    """The kind of the array that has such an element."""
    if type(element) is int:
        return "array" if element in INT64 else None
    if isinstance(element, str):
        return "array of strings"
    return "array of arrays" if kind_of(element) in ("array", "array of strings") else None


def _odd_element(values: Sequence[object]) -> tuple[int, str]:
    """The index of the first element that its array cannot have, and what it must be; there is one."""
    kinds = [_kind_of_element(element) for element in values]
    expected = {"array of strings": "a string", "array of arrays": "an array"}.get(kinds[0] or "array", "an integer")
    odd = (at for at, kind in enumerate(kinds) if kind is None or kind != kinds[0])
    return next(odd), expected


def as_parameter(value: Any) -> ParameterValue:
    """A TOML value that `kind_of` knows, with tuples for arrays."""
    return tuple(map(as_parameter, value)) if isinstance(value, list) else value  # type: ignore[arg-type]


def as_toml(value: ParameterValue) -> Any:
    """A parameter as TOML and JSON have it, with lists for tuples."""
    return list(map(as_toml, value)) if isinstance(value, tuple) else value


def merge_tables(*tables: Mapping[str, PlacedValue]) -> dict[str, PlacedValue]:
    """Parameters of all tables; later ones win, each parameter keeps its first place in the order."""
    found: dict[str, PlacedValue] = {}
    for table in tables:
        found.update(table)
    return found


def identity(values: Mapping[str, ParameterValue]) -> tuple[tuple[str, str, ParameterValue], ...]:
    """A key that is equal for equal parameters; 1, 1.0 and true differ."""
    return tuple(sorted((name, type(value).__name__, value) for name, value in values.items()))


class ConditionError(Exception):
    """A condition that fails for some values; the message says how."""


@dataclass(frozen=True, slots=True)
class SweepExpression:
    """An expression of a sweep, the parameters that it mentions, and where it stands. `evaluate` raises ValueError."""

    text: str
    names: frozenset[str]
    path: KeyPath
    evaluate: Callable[[Mapping[str, ParameterValue]], Any]

    def outcome(self, values: Mapping[str, ParameterValue]) -> tuple[Any, str]:
        """Its outcome for `values`, and the values in words. Raises ConditionError."""
        mentioned = {name: values[name] for name in sorted(self.names)}
        words = ", ".join(f"{name} = {value}" for name, value in mentioned.items()) or "all values"
        try:
            return self.evaluate(mentioned), words
        except ValueError as error:
            raise ConditionError(f"`{self.text}` fails for {words}: {error}") from None


@dataclass(frozen=True, slots=True)
class Condition(SweepExpression):
    """A condition of a sweep."""

    def holds(self, values: Mapping[str, ParameterValue]) -> bool:
        """Return True if the condition holds for `values`. Raises ConditionError if it is not a yes-or-no question."""
        outcome, words = self.outcome(values)
        if not isinstance(outcome, bool):
            raise ConditionError(
                f"`{self.text}` is {describe_value(outcome)} for {words}, neither true nor false; "
                "write a comparison such as `… == 0`"
            )
        return outcome


@dataclass(frozen=True, slots=True)
class Derivation(SweepExpression):
    """A `parameter` that a sweep works out."""

    parameter: str

    def value(self, values: Mapping[str, ParameterValue]) -> ParameterValue:
        """Its value where the others have `values`. Raises ConditionError where that is none of a parameter."""
        outcome, words = self.outcome(values)
        outcome = as_toml(outcome)
        kind = kind_of(outcome)
        if kind is None or (kind == "integer" and outcome not in INT64):
            raise ConditionError(
                f"`{self.text}` is {describe_value(outcome)} for {words}; a parameter is an integer "
                "of 64 bits, a number, true or false, a string, or an array of integers, of strings or of arrays"
            )
        return as_parameter(outcome)
