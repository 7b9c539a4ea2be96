"""Parses the `where` conditions and derived parameters of sweeps: Jinja expressions such as `MPerBlock >= NPerBlock`.

They run in a sandbox that knows numbers, comparisons and a handful of functions: no attributes, no methods, no
arithmetic that makes long texts or enormous integers. So a condition ends quickly whatever it says.

Imported only for files that have some: Jinja2 takes a tenth of a second to load.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ckwatch.model.arithmetic import INTEGER_LIMIT_BITS
from ckwatch.model.diagnostics import Fix
from ckwatch.model.kernels import ParameterValue
from ckwatch.workspace.parameters import Condition, Derivation
from ckwatch.workspace.problems import Problems, describe_value, did_you_mean, join_names, nearest
from ckwatch.workspace.toml_document import KeyPath

CONDITION_LENGTH_LIMIT = 1000

Evaluation = Callable[[Mapping[str, ParameterValue]], Any]

FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "len": len, "max": max, "min": min, "sum": sum}
FILTERS_ALLOWED = ("abs", "first", "int", "last", "length", "max", "min", "sum")


class ConditionEnvironment(ImmutableSandboxedEnvironment):
    """Expressions over numbers, strings and tuples; undefined names are errors."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, cache_size=0)
        self.globals = dict(FUNCTIONS)
        self.filters = {name: FILTERS[name] for name in FILTERS_ALLOWED}

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:  # noqa: ARG002  # none is
        """No value has attributes here."""
        return False

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic on numbers only, and on integers of a sensible length."""
        if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
            raise SecurityError(f"`{operator}` takes numbers, not {describe_value(left)} and {describe_value(right)}")
        if isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() * abs(right) if operator == "**" else left.bit_length() + right.bit_length()
            if bits > INTEGER_LIMIT_BITS:
                raise SecurityError(f"`{operator}` makes an enormous integer")
        return super().call_binop(context, operator, left, right)


_ENVIRONMENT = ConditionEnvironment()


def read_conditions(
    problems: Problems, texts: Any, base: KeyPath, known: Collection[str], missing: Collection[str] = ()
) -> list[Condition]:
    """The conditions at `base`, an array of strings or one string; `known` are the parameters they may mention. That
    those in `missing` are has been reported."""
    if not isinstance(texts, (str, list)):
        problems.wrong_type(base, "an array of strings", texts)
        return []
    places = {base: texts} if isinstance(texts, str) else {(*base, at): text for at, text in enumerate(texts)}
    conditions = []
    for path, text in places.items():
        if not isinstance(text, str):
            problems.wrong_type(path, "a string", text)
        elif (read := _read(problems, text, path, known, missing, "condition")) is not None:
            conditions.append(Condition(text, *read))
    return conditions


def read_derivations(
    problems: Problems, table: Mapping[str, Any], base: KeyPath, known: Collection[str], missing: Collection[str] = ()
) -> list[Derivation]:
    """The expressions in the `table` at `base`, by parameter, each after those that it mentions.

    `known` are the parameters with values; those of `table` may be mentioned, too. That those in `missing` are has been
    reported.
    """
    found: dict[str, Derivation] = {}
    for name, text in table.items():
        path = (*base, name)
        if not isinstance(text, str):
            expected = 'a string with an expression, such as "MPerBlock // 64"'
            problems.wrong_type(path, expected, text)
        elif (read := _read(problems, text, path, [*known, *table], missing, "expression")) is not None:
            found[name] = Derivation(text, *read, name)
    ordered: list[Derivation] = []
    done = table.keys() - found.keys()
    while left := [one for one in found.values() if one.parameter not in done]:
        ready = [one for one in left if not (one.names & table.keys()) - done]
        if not ready:
            for one in left:
                message = f"`{one.parameter}` is worked out from itself: `{one.text}`"
                problems.at_value(one.path, "invalid-expression", message)
            return []
        ordered += ready
        done |= {one.parameter for one in ready}
    return ordered


def _read(
    problems: Problems, text: str, path: KeyPath, known: Collection[str], missing: Collection[str], what: str
) -> tuple[frozenset[str], KeyPath, Evaluation] | None:
    """The names in a condition or expression, its place, and its evaluation."""
    try:
        names, evaluate = compiled_expression(text)
    except ValueError as error:
        article = "an" if what == "expression" else "a"
        problems.at_value(path, f"invalid-{what}", f"`{text[:80]}` is not {article} {what}: {error}")
        return None
    wrong = names - set(known)
    for name in sorted(wrong.difference(missing)):
        message = f"the {what} mentions `{name}`, which no parameter is called; {did_you_mean(name, known)}"
        at = re.search(rf"\b{re.escape(name)}\b", text)
        span = problems.document.span_within(path, at.start(), at.end()) if at else problems.document.span_of(path)
        near = nearest(name, known)
        fixes = (Fix(span, near),) if near and at and span != problems.document.span_of(path) else ()
        problems.add("unknown-parameter", message + f"known: {join_names(known)}", span, fixes=fixes)
    return None if wrong else (names, path, evaluate)


def compiled_expression(text: str) -> tuple[frozenset[str], Evaluation]:
    """The names in `text`, and its evaluation. Raises ValueError for what is no expression."""
    if len(text) > CONDITION_LENGTH_LIMIT:
        raise ValueError(f"more than {CONDITION_LENGTH_LIMIT} characters")
    try:
        evaluate = _ENVIRONMENT.compile_expression(text, undefined_to_none=False)
        tree = _ENVIRONMENT.parse("{{ (" + text + ") }}")
        names = meta.find_undeclared_variables(tree) - set(FUNCTIONS)
        numbers = [node.value for node in tree.find_all(nodes.Const) if isinstance(node.value, float)]
    except TemplateSyntaxError as error:
        problem = error.message or "syntax error"
        if re.search(r"(?<![<>=!])=(?!=)", text):
            problem += "; a comparison is written =="
        raise ValueError(problem) from None
    except (TemplateError, SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from None
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number is too large")
    return frozenset(names), _answer(evaluate)


def _answer(evaluate: Evaluation) -> Evaluation:
    """`evaluate`, with all that goes wrong in it as a ValueError."""

    def answer(values: Mapping[str, ParameterValue]) -> Any:
        try:
            return evaluate(values)
        # NameError: Jinja writes a number that overflows while it is folded as `inf`
        except (
            TemplateError,
            TypeError,
            NameError,
            ArithmeticError,
            LookupError,
            RecursionError,
            MemoryError,
        ) as error:
            raise ValueError(str(error) or type(error).__name__) from None

    return answer
