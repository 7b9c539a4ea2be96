"""Checks an instance's template arguments against the rules of its device operation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from ckwatch.checks.rules import (
    batched_gemm_xdl_cshuffle_v3,
    ck_tile_fmha,
    ck_tile_gemm,
    ck_tile_normalization,
    gemm_mx_xdl_cshuffle_v3,
    gemm_wmma_cshuffle_v3,
    gemm_xdl_cshuffle_v3_ab_scale,
    gemm_xdl_cshuffle_v3_b_preshuffle,
    gemm_xdl_cshuffle_v3_rules,
    grouped_conv_fwd_xdl_cshuffle_v3,
    moe_gemm_xdl_cshuffle_v3,
)
from ckwatch.checks.rules.expression import UnknownValueError, Value
from ckwatch.checks.rules.matrix_instructions import HOST
from ckwatch.checks.rules.rule import DeviceOperation, ParameterKind, Rule, TemplateParameter, Violation
from ckwatch.model.arithmetic import ZeroDivisorError
from ckwatch.model.diagnostics import Severity
from ckwatch.model.kernels import ParameterValue, is_integers

OPERATIONS: Mapping[str, DeviceOperation] = {
    operation.name: operation
    for operation in (
        gemm_xdl_cshuffle_v3_rules.OPERATION,
        batched_gemm_xdl_cshuffle_v3.OPERATION,
        gemm_xdl_cshuffle_v3_b_preshuffle.OPERATION,
        gemm_mx_xdl_cshuffle_v3.OPERATION,
        gemm_xdl_cshuffle_v3_ab_scale.OPERATION,
        grouped_conv_fwd_xdl_cshuffle_v3.OPERATION,
        moe_gemm_xdl_cshuffle_v3.OPERATION,
        *gemm_wmma_cshuffle_v3.OPERATIONS,
        ck_tile_gemm.OPERATION,
        ck_tile_fmha.OPERATION,
        *ck_tile_normalization.OPERATIONS,
    )
}

ELEMENT_TYPES = {
    "half_t": "F16", "_Float16": "F16", "half": "F16", "__half": "F16", "F16": "F16",
    "bhalf_t": "BF16", "BF16": "BF16",
    "float": "F32", "F32": "F32", "double": "F64", "F64": "F64",
    "f8_t": "F8", "f8_fnuz_t": "F8", "f8_ocp_t": "F8", "F8": "F8",
    "bf8_t": "BF8", "bf8_fnuz_t": "BF8", "bf8_ocp_t": "BF8", "BF8": "BF8",
    "int8_t": "I8", "I8": "I8", "int32_t": "I32", "int": "I32", "I32": "I32",
    "f4x2_pk_t": "F4", "F4": "F4",
}  # fmt: skip
MATRIX_LAYOUTS = {"Row": "Row", "RowMajor": "Row", "Col": "Col", "ColumnMajor": "Col", "MFMA": "MFMA"}


_INVOKED: Mapping[str, Value] = {"Invoker": 1}
"""CK's own invoker runs the instance: kernels for waves of 32 lanes and for atomic split-K are compiled too."""

_NOT_INVOKED: Mapping[str, Value] = {"Invoker": 0, "NXdlPerWave32": 0}
"""The source launches CK's gridwise GEMM itself, as `ck/gemm_universal` does: those kernels do not exist."""

_NAMED_VALUE = re.compile(r"\{(\w+)\}")
_INVOKER = re.compile(r"\b(?:Make)?Invoker\b")
_STATIC_ASSERT = re.compile(r"\bstatic_assert\s*\((.*?)\)\s*;", re.DOTALL)


def check_instance(
    device_operation: str,
    arguments: Mapping[str, ParameterValue | str],
    arch: str,
    *,
    source: str | None = None,
) -> tuple[Violation, ...]:
    """The rules that an instance breaks; none for a device operation without rules.

    `arguments` are the rendered template arguments by CK's parameter names: numbers, booleans, tuples for `S<…>`, or
    C++ text. A rule about something that cannot be read (an alias, an expression) is silent, as are rules for the
    device pass of an architecture without matrix instructions. Warnings, about instances that compile, come only
    where nothing is rejected. `arch` may carry features (`gfx942:xnack-`). `source` is the C++ around the instance:
    it tells whether CK's invoker is used, which compiles more kernels, and what is asserted beside CK's own checks.
    Without it, the invoker is, and nothing is.
    """
    operation = OPERATIONS.get(device_operation)
    if operation is None:
        return ()
    broken, asserted = _broken(operation, arguments, arch, source)
    taking_part = Counter(name for rule, found in broken.values() for name in found.behind(rule))
    return tuple(
        _violation(operation, rule, found, taking_part, _severity(rule, asserted)) for rule, found in broken.values()
    )


def broken_rules(
    device_operation: str, arguments: Mapping[str, ParameterValue | str], arch: str, *, source: str | None = None
) -> dict[str, Severity]:
    """The rules that `check_instance` finds broken, by their slugs; in a fraction of the time."""
    operation = OPERATIONS.get(device_operation)
    if operation is None:
        return {}
    broken, asserted = _broken(operation, arguments, arch, source)
    return {slug: _severity(rule, asserted) for slug, (rule, _) in broken.items()}


def refusing_rules(
    device_operation: str, arch: str, source: str
) -> list[tuple[Rule, Callable[[Mapping[str, ParameterValue | str]], bool]]]:
    """The rules that refuse instances of an operation by themselves, each with what answers whether an instance with
    these arguments breaks it, for which only parameters behind the rule's names count: that there is a kernel is taken
    as given, since without one another rule refuses the instance."""
    operation = OPERATIONS.get(device_operation)
    if operation is None:
        return []
    known, asserted = _facts_of(source)
    target = arch.partition(":")[0]
    refusing = {rule.slug for rule in operation.rules if _severity(rule, asserted) == Severity.ERROR}

    def breaks(rule: Rule, arguments: Mapping[str, ParameterValue | str]) -> bool:
        passes = [target] if rule.every_arch or target.startswith(operation.archs) else []
        for one in (*passes, HOST) if rule.host else passes:
            if _InstanceValues(operation, arguments, one, {**known, "HasKernel": 1}).breaks(rule):
                return True
        return False

    return [
        (rule, partial(breaks, rule))
        for rule in operation.rules
        if rule.slug in refusing and refusing.issuperset(rule.after)
    ]


def value_of(
    device_operation: str, name: str, arguments: Mapping[str, ParameterValue | str], arch: str = ""
) -> Value | None:
    """Return the value of a parameter or definition of a device operation for an instance, or None if it cannot be
    determined."""
    return _InstanceValues(OPERATIONS[device_operation], arguments, arch.partition(":")[0], {}).known(name)


def _broken(
    operation: DeviceOperation, arguments: Mapping[str, ParameterValue | str], arch: str, source: str | None
) -> tuple[dict[str, tuple[Rule, _InstanceValues]], str]:
    """The broken rules with the values that break them, and what the source asserts."""
    known, asserted = (_INVOKED, "") if source is None else _facts_of(source)
    values = _InstanceValues(operation, arguments, arch.partition(":")[0], known)
    host = _InstanceValues(operation, arguments, HOST, known)
    broken: dict[str, tuple[Rule, _InstanceValues]] = {}
    for rule in operation.rules:
        if any(earlier in broken for earlier in rule.after):
            continue
        if (rule.every_arch or values.target.startswith(operation.archs)) and values.breaks(rule):
            broken[rule.slug] = (rule, values)
            if rule.every_arch and rule.severity is Severity.ERROR:
                break  # no other value of a parameter mends this
        elif rule.host and host.breaks(rule):
            broken[rule.slug] = (rule, host)
    errors = {slug: found for slug, found in broken.items() if _severity(found[0], asserted) == Severity.ERROR}
    return errors or broken, asserted


@lru_cache(maxsize=8)
def _facts_of(source: str) -> tuple[Mapping[str, Value], str]:
    """Return the facts about the invoker, and the source's own static assertions; cached, because many values are
    tried."""
    known = _INVOKED if _INVOKER.search(source) else _NOT_INVOKED
    return known, "\n".join(_STATIC_ASSERT.findall(source))


def _severity(rule: Rule, asserted: str) -> Severity:
    """`asserted`: what stands in the source's own static assertions."""
    return Severity.ERROR if rule.asserted_by and rule.asserted_by in asserted else rule.severity


class _InstanceValues:
    """Values of parameters and definitions for one instance in one compiler pass."""

    def __init__(
        self,
        operation: DeviceOperation,
        arguments: Mapping[str, ParameterValue | str],
        target: str,
        known: Mapping[str, Value],
    ) -> None:
        self.operation = operation
        self.arguments = arguments
        self.target = target
        self._known: dict[str, Value] = {"target": target, **known}

    def lookup(self, name: str) -> Value:
        """The value of `name`. Raises `UnknownValueError` and `ZeroDivisorError`."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def known(self, name: str) -> Value | None:
        """The value of `name`; None for one without."""
        try:
            return self.lookup(name)
        except (UnknownValueError, ZeroDivisorError):
            return None

    def breaks(self, rule: Rule) -> bool:
        """Return True if the rule certainly applies and certainly fails."""
        try:
            if not rule.guard.holds(self.lookup):
                return False
        except (UnknownValueError, ZeroDivisorError):
            return False
        try:
            return not rule.expression.holds(self.lookup)
        except ZeroDivisorError:
            return True
        except UnknownValueError:
            return False

    def behind(self, rule: Rule, *, guarded: bool = True) -> tuple[str, ...]:
        """The parameters that a broken rule hangs on, through definitions: with other values of the rest it is broken,
        too. Without `guarded` those of its condition alone."""
        found: dict[str, None] = {}
        waiting = [*reversed(rule.guarding if guarded else ()), *reversed(rule.expression.names_behind(self.lookup))]
        while waiting:
            name = waiting.pop()
            definition, parameter = self.operation.definitions.get(name), self.operation.parameters.get(name)
            if parameter is not None and name not in self.arguments and parameter.default in self.operation.parameters:
                waiting.append(parameter.default)
            elif definition is None:
                found |= {name: None} if parameter is not None else {}
            elif definition.expression is None:
                waiting += reversed(definition.uses)
            else:
                waiting += reversed(definition.expression.names_behind(self.lookup))
        return tuple(found)

    def _find(self, name: str) -> Value:
        definition = self.operation.definitions.get(name)
        if definition is not None:
            return definition.value(self.lookup)
        parameter = self.operation.parameters.get(name)
        if parameter is None:
            raise UnknownValueError(name)
        if name in self.arguments:
            return _read_argument(parameter, self.arguments[name])
        if parameter.default in self.operation.parameters:
            return self.lookup(parameter.default)
        if parameter.default:
            return _read_argument(parameter, _literal(parameter.default))
        raise UnknownValueError(name)


def is_readable(parameter: TemplateParameter, argument: ParameterValue | str) -> bool:
    """Return True if the rules understand an argument: a literal, or one of CK's names."""
    try:
        _read_argument(parameter, argument)
    except UnknownValueError:
        return False
    return parameter.kind is not ParameterKind.ENUMERATOR or not parameter.enumeration or "::" in str(argument)


def _literal(text: str) -> ParameterValue:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdecimal() else text


def _read_argument(parameter: TemplateParameter, argument: ParameterValue | str) -> Value:
    """An argument as the parameter's kind wants it. Raises `UnknownValueError`."""
    text = str(argument).rpartition("::")[2].strip()
    match parameter.kind:
        case ParameterKind.INTEGER | ParameterKind.FLAG if isinstance(argument, int):
            return int(argument)
        case ParameterKind.SEQUENCE if is_integers(argument):
            return argument
        case ParameterKind.DTYPE if text in ELEMENT_TYPES:
            return ELEMENT_TYPES[text]
        case ParameterKind.LAYOUT if text in MATRIX_LAYOUTS:
            return MATRIX_LAYOUTS[text]
        case ParameterKind.ENUMERATOR if isinstance(argument, str) and re.fullmatch(r"\w+", text):
            return text
        case ParameterKind.OTHER if isinstance(argument, str):
            return text
        case ParameterKind.TYPES if isinstance(argument, str) and (
            found := re.fullmatch(r"(?:\w+::)*Tuple<([^<>]*)>", argument)
        ):
            return tuple(element.strip() for element in found.group(1).split(",") if element.strip())
    raise UnknownValueError(parameter.name)


def _violation(
    operation: DeviceOperation, rule: Rule, values: _InstanceValues, taking_part: Counter[str], severity: Severity
) -> Violation:
    parameters = values.behind(rule)
    candidates = [name for name in rule.blame if name in parameters] or list(parameters)
    blame = max(candidates, key=lambda name: (taking_part[name], -candidates.index(name)), default="")
    return Violation(
        rule.slug,
        operation.spelled(rule.condition),
        operation.spelled(rule.expression.outcome(values.lookup)),
        parameters,
        values.behind(rule, guarded=False),
        blame,
        _explanation(operation, rule, values),
        rule.source,
        severity,
    )


def _explanation(operation: DeviceOperation, rule: Rule, values: _InstanceValues) -> str:
    def shown(found: re.Match[str]) -> str:
        value = values.known(found[1])
        return found[1] if value is None else str(value)

    lines = [_NAMED_VALUE.sub(shown, rule.explanation)]
    for definition in operation.definitions_of(rule.expression.names):
        value = values.known(definition.name)
        if value is None:
            continue
        written = "S<" + ", ".join(map(str, value)) + ">" if isinstance(value, tuple) else value
        lines.append(f"{definition.name} = {definition.formula} = {written}: {definition.meaning}.")
    if values.target == HOST:
        lines.append("The values are those of the compiler's host pass.")
    return "\n".join(lines)
