"""The instance rules for the points of a space: none of them is rendered, a few examples are.

The arguments of an example are taken, and a point's values put in where the example's own stand. That holds only for
templates that pass parameters on as they are: other examples are worked out that way too, and must come to the
arguments that were rendered. Else nothing is refused here, and each instance is checked when it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ckwatch.checks.rules.candidates import substituted
from ckwatch.checks.rules.checker import OPERATIONS, broken_rules, check_instance, refusing_rules
from ckwatch.checks.rules.instances import RenderedInstance, rendered_instances
from ckwatch.model.diagnostics import Severity
from ckwatch.model.kernels import ParameterValue
from ckwatch.workspace.parameters import Condition

Parameters = Mapping[str, ParameterValue]


class PointRules:
    """The rules applied to parameters, given an example with its rendered text, in a fraction of a millisecond."""

    def __init__(self, parameters: Parameters, text: str, arch: str) -> None:
        self._parameters = parameters
        self._text = text
        self._arch = arch
        self._emitted = rendered_instances(text)

    @classmethod
    def of(cls, examples: Sequence[tuple[Parameters, str]], arch: str) -> PointRules | None:
        """The rules by the first example; None where the others show that its template does more with parameters than
        to pass them on, or where there is nothing to check."""
        if not examples:
            return None
        rules = cls(*examples[0], arch)
        if not rules._emitted:
            return None
        for parameters, text in examples[1:]:
            worked_out = rules._with(parameters)
            rendered = rendered_instances(text)
            if worked_out is None or [one.arguments for one in rendered] != worked_out:
                return None
        return rules

    def refusal(self, parameters: Parameters) -> str:
        """The first rule that refuses an instance with these parameters, `rule/lds: …`; empty where none does."""
        for one, arguments in zip(self._emitted, self._with(parameters) or (), strict=False):
            how = (one.device_operation, arguments, self._arch)
            broken = broken_rules(*how, source=self._text)
            if any(severity is Severity.ERROR for severity in broken.values()):
                found = next(one for one in check_instance(*how, source=self._text) if one.severity is Severity.ERROR)
                return f"rule/{found.rule}: {found.condition}: {found.evaluated}"
        return ""

    def conditions(self) -> tuple[Condition, ...]:
        """The rules as conditions of a sweep, each on those of the parameters that take part in it, so that a walk
        leaves what a rule refuses as soon as these are chosen."""
        found = []
        for one in self._emitted:
            names = {one.argument_of(name): name for name in self._parameters}
            for rule, breaks in refusing_rules(one.device_operation, self._arch, self._text):
                taking_part = OPERATIONS[one.device_operation].parameters_of(rule.names)
                if own := frozenset(names[name] for name in taking_part if name in names):
                    found.append(Condition(f"rule/{rule.slug}", own, (), partial(self._holds, one, breaks)))
        return tuple(found)

    def _holds(
        self,
        one: RenderedInstance,
        breaks: Callable[[Mapping[str, ParameterValue]], bool],
        values: Mapping[str, ParameterValue],
    ) -> bool:
        arguments = self._arguments(one, values)
        return arguments is None or not breaks(arguments)

    def broken(self, parameters: Parameters) -> dict[str, tuple[str, ...]] | None:
        """The rules that refuse an instance with these parameters, each with those of the parameters that take part.

        None where a value cannot be put in, so that nothing can be said.
        """
        worked_out = self._with(parameters)
        if worked_out is None:
            return None
        found: dict[str, tuple[str, ...]] = {}
        for one, arguments in zip(self._emitted, worked_out, strict=True):
            broken = broken_rules(one.device_operation, arguments, self._arch, source=self._text)
            names = {one.argument_of(name): name for name in self._parameters} if broken else {}
            for rule in OPERATIONS[one.device_operation].rules if broken else ():
                if broken.get(rule.slug) is Severity.ERROR:
                    taking_part = OPERATIONS[one.device_operation].parameters_of(rule.names)
                    found[rule.slug] = tuple(names[name] for name in taking_part if name in names)
        return found

    def _with(self, parameters: Parameters) -> list[dict[str, ParameterValue]] | None:
        found = []
        for one in self._emitted:
            arguments = self._arguments(one, parameters)
            if arguments is None:
                return None
            found.append(arguments)
        return found

    def _arguments(self, one: RenderedInstance, parameters: Parameters) -> dict[str, ParameterValue] | None:
        """The instance's arguments with these values; None where one cannot be put in."""
        arguments = dict(one.arguments)
        for name, value in parameters.items():
            own, argument = self._parameters.get(name), one.argument_of(name)
            if argument not in arguments or (own == value and type(own) is type(value)):
                continue
            put = None if own is None else substituted(arguments[argument], own, value)
            if put is None:
                return None
            arguments[argument] = put
        return arguments
