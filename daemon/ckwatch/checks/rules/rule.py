"""The types of rules: a rule is data.

The tables of each device operation are built from these types, and so is its documentation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from textwrap import dedent

from ckwatch.checks.rules.expression import Expression, Lookup, Value, parse
from ckwatch.model.diagnostics import Severity
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.parameter_types import INT32_MAX, ParameterType, ValueKind


class ParameterKind(StrEnum):
    """The kind of values that a template parameter takes, and so how its text is read."""

    INTEGER = "integer"
    FLAG = "flag"
    SEQUENCE = "sequence"
    DTYPE = "dtype"
    LAYOUT = "layout"
    ENUMERATOR = "enumerator"
    TYPES = "types"
    OTHER = "other"


def folded(name: str) -> str:
    """A parameter's name without case and underscores: `m_per_block` and `MPerBlock` are one."""
    return name.replace("_", "").lower()


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """A template parameter. `default` is C++ text, or the name of the parameter that it follows; empty: none.

    `type` is what a kernel file may write, None for a name in C++. `enumeration` is the C++ enumeration of an
    enumerator. `aliases` are PyTorch Inductor's names where they differ by more than case and underscores.
    """

    name: str
    kind: ParameterKind
    default: str = ""
    type: ParameterType | None = None
    enumeration: str = ""
    aliases: tuple[str, ...] = ()


POSITIVE = ParameterType(ValueKind.INTEGER, lowest=1, highest=INT32_MAX)


def integer(name: str, default: str = "", *aliases: str, declared: ParameterType = POSITIVE) -> TemplateParameter:
    """A parameter that takes integers, in kernel files those of `declared`."""
    return TemplateParameter(name, ParameterKind.INTEGER, default, declared, aliases=aliases)


def flag(name: str, default: str = "", *aliases: str) -> TemplateParameter:
    """A parameter that is true or false."""
    return TemplateParameter(name, ParameterKind.FLAG, default, ParameterType(ValueKind.FLAG), aliases=aliases)


def word(name: str, enumeration: str, values: tuple[str, ...], default: str = "", *aliases: str) -> TemplateParameter:
    """A parameter that takes `values` of a C++ enumeration."""
    declared = ParameterType(ValueKind.CHOICE, values)
    return TemplateParameter(name, ParameterKind.ENUMERATOR, default, declared, enumeration, aliases)


@dataclass(frozen=True, slots=True)
class Definition:
    """A quantity that Composable Kernel derives from template parameters, under CK's own name where it has one.

    `formula` is in the language of `ckwatch.checks.rules.expression` when `compute` is None; else it is for people,
    and `uses` lists the names that `compute` looks up. `meaning` is one line for people.
    """

    name: str
    formula: str
    meaning: str
    compute: Callable[[Lookup], Value] | None = None
    uses: tuple[str, ...] = ()
    expression: Expression | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.compute is None:
            expression = parse(self.formula)
            object.__setattr__(self, "expression", expression)
            object.__setattr__(self, "uses", expression.names)

    def value(self, lookup: Lookup) -> Value:
        """The value, given those of the names it uses; raises what the expression language raises."""
        if self.expression is not None:
            return self.expression.value(lookup)
        assert self.compute is not None  # noqa: S101  (one of the two is there: see __post_init__)
        return self.compute(lookup)


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that every instance which compiles fulfils.

    slug: stable identifier; the diagnostic's code is `rule/<slug>`.
    condition: what must hold, in the language of `ckwatch.checks.rules.expression`.
    blame: parameters, most likely culprit first.
    explanation: what it means, for a person, in one or two sentences.
    source: header of Composable Kernel and the check in it that fails.
    when: the rule applies only where this holds.
    after: slugs of rules without which this one says nothing new; it is silent when one of them is violated.
    host: the host pass checks it too (else it fails in the device pass only, and only on the operation's `archs`).
    codegen: it fails in code generation, not with `-fsyntax-only`.
    severity: a warning is about instances that compile, and do not do what they say.
    asserted_by: words of a `static_assert` by which a template itself refuses such instances; there it is an error.
    every_arch: it is about what an arch has, and holds for those without matrix instructions too.

    In `explanation`, `{NAME}` stands for the value of a parameter, a definition or the `target`.
    """

    slug: str
    condition: str
    blame: tuple[str, ...]
    explanation: str
    source: str
    when: str = "1"
    after: tuple[str, ...] = ()
    host: bool = False
    codegen: bool = False
    severity: Severity = Severity.ERROR
    asserted_by: str = ""
    every_arch: bool = False

    @property
    def expression(self) -> Expression:
        """The condition, read when it is first asked for: a workspace has kernels of few operations."""
        return parse(self.condition)

    @property
    def guard(self) -> Expression:
        """When the rule applies."""
        return parse(self.when)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the rule is about: those in its condition, and in `when` unless that only asks for a
        kernel."""
        return tuple(dict.fromkeys((*self.expression.names, *self.guarding)))

    @property
    def guarding(self) -> tuple[str, ...]:
        """The names in `when`, unless that only asks for a kernel."""
        return tuple(name for name in self.guard.names if name not in {"HasKernel", "Invoker"})


_FIELD = re.compile(r"\s:(must|blame|when|after|is|asserted|source): ")
_PROPERTIES = {"host", "codegen", "every-arch", "warning"}


def rules(text: str) -> tuple[Rule, ...]:
    """Read rules from text, which has a block for each:

        slug: The explanation, on as many lines as it takes.
            :must: KPerBlock % AK1 == 0  :blame: AK1, KPerBlock  :when: HasKernel  :after: other-rule, another-rule
            :is: warning host codegen every-arch  :asserted: words of a static_assert
            :source: ck/header.hpp, the check in it

    Raises ValueError for anything else.
    """
    return tuple(map(_rule, blocks(text)))


def _rule(block: str) -> Rule:
    head, *parts = _FIELD.split(block)
    slug, colon, explanation = head.partition(": ")
    fields = dict(zip(parts[::2], parts[1::2], strict=True))
    properties = {*fields.get("is", "").split()}
    repeated = len(fields) < len(parts) // 2
    if not colon or repeated or not {"must", "source"} <= fields.keys() or properties - _PROPERTIES:
        raise ValueError(f"not a rule: {block}")
    blame, after = (tuple(fields[name].split(", ")) if name in fields else () for name in ("blame", "after"))
    return Rule(
        *(slug, fields["must"], blame, explanation, fields["source"], fields.get("when", "1"), after),
        host="host" in properties,
        codegen="codegen" in properties,
        severity=Severity.WARNING if "warning" in properties else Severity.ERROR,
        asserted_by=fields.get("asserted", ""),
        every_arch="every-arch" in properties,
    )


def definitions(text: str) -> tuple[Definition, ...]:
    """Read definitions from text: `name = formula  # meaning` each, further lines of one indented."""
    pieces = (re.split(r" = | # ", block, maxsplit=2) for block in blocks(text))
    return tuple(Definition(name, formula, meaning) for name, formula, meaning in pieces)


def computed(text: str, uses: str) -> Callable[[Callable[[Lookup], Value]], Definition]:
    """Make a definition of the function that computes it, by a text as for `definitions`: the formula is for people.

    `uses`: the names that the function looks up, with commas between.
    """
    name, formula, meaning = re.split(r" = | # ", " ".join(text.split()), maxsplit=2)
    return lambda compute: Definition(name, formula, meaning, compute, tuple(uses.split(", ")) if uses else ())


def blocks(text: str) -> list[str]:
    """The unindented lines of a text, each with the indented ones behind it."""
    return [" ".join(block.split()) for block in re.split(r"\n(?=\S)", dedent(text).strip())]


@dataclass(frozen=True, slots=True)
class DeviceOperation:
    """The rules of one CK device operation; `parameters` and `definitions` are keyed by their names.

    `spelling`: parameters that the headers' own conditions spell otherwise; messages follow the headers, so that a rule
    says what the compiler's message, once mapped, would say. `archs`: what the names of archs begin with for which its
    device pass is checked.
    """

    name: str
    header: str
    parameters: Mapping[str, TemplateParameter]
    definitions: Mapping[str, Definition]
    rules: tuple[Rule, ...]
    spelling: Mapping[str, str] = field(default_factory=dict)
    archs: tuple[str, ...] = ("gfx9",)
    _folded: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = {folded(alias): name for name, one in self.parameters.items() for alias in (name, *one.aliases)}
        object.__setattr__(self, "_folded", names)

    def derived(
        self,
        name: str,
        header: str,
        *,
        behind: Mapping[str, tuple[TemplateParameter, ...]] = {},
        defaults: Mapping[str, str] = {},
        definitions: Iterable[Definition] = (),
        without: Collection[str] = (),
        rules: tuple[Rule, ...] = (),
    ) -> DeviceOperation:
        """An operation that has most of this one: more parameters, each `behind` another, other `defaults`, other or
        further `definitions`, and further `rules`, `without` some of these."""
        parameters = (
            replace(one, default=defaults.get(one.name, one.default))
            for known in self.parameters.values()
            for one in (known, *behind.get(known.name, ()))
        )
        kept = {rule.slug: rule for rule in self.rules if rule.slug not in without}
        inherited = (replace(rule, after=tuple(filter(kept.__contains__, rule.after))) for rule in kept.values())
        every = (*self.definitions.values(), *definitions)
        return operation(name, header, parameters, every, (*inherited, *rules), self.spelling)

    def canonical(self, name: str) -> str | None:
        """The template parameter that `name` spells, as CK or as PyTorch Inductor writes it; None for another name."""
        return name if name in self.parameters else self._folded.get(folded(name))

    def spelled(self, text: str) -> str:
        """`text` with the headers' spelling of parameters."""
        for name, spelling in self.spelling.items():
            text = re.sub(rf"\b{name}\b", spelling, text)
        return text

    def parameters_of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The template parameters behind `names`, through definitions, in order of first use."""
        found: dict[str, None] = {}
        for name in names:
            definition = self.definitions.get(name)
            if definition is not None:
                found.update(dict.fromkeys(self.parameters_of(definition.uses)))
            elif name in self.parameters:
                found[name] = None
        return tuple(found)

    def definitions_of(self, names: tuple[str, ...]) -> tuple[Definition, ...]:
        """The definitions that `names` refer to directly or through others, those used first."""
        found: dict[str, Definition] = {}
        for name in names:
            definition = self.definitions.get(name)
            if definition is not None:
                found[name] = definition
                found.update((inner.name, inner) for inner in self.definitions_of(definition.uses))
        return tuple(found.values())


def operation(
    name: str,
    header: str,
    parameters: Iterable[TemplateParameter],
    definitions: Iterable[Definition],
    rules: tuple[Rule, ...],
    spelling: Mapping[str, str] = {},
    archs: tuple[str, ...] = ("gfx9",),
) -> DeviceOperation:
    """Make a device operation; of definitions of one name the last counts."""
    by_name = {one.name: one for one in parameters}, {one.name: one for one in definitions}
    return DeviceOperation(name, header, *by_name, rules, spelling, archs)


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that an instance breaks.

    `evaluated` shows the condition with values, `128 % (32 * 3) = 32`; `parameters` took part, `terms` are those that
    the condition itself is about, and `blame` is the one that the rule blames first, empty for a rule about the arch.
    `explanation` is the rule's sentence, and on further lines the definitions that it uses.
    """

    rule: str
    condition: str
    evaluated: str
    parameters: tuple[str, ...]
    terms: tuple[str, ...]
    blame: str
    explanation: str
    source: str
    severity: Severity = Severity.ERROR

    @property
    def message(self) -> str:
        """`Whole waves must cover the block tile.`, and on a line of its own the formula, `MPerBlock % (MPerXdl *
        MXdlPerWave) == 0: 128 % (32 * 3) = 32`."""
        return f"{self.explanation.partition(chr(10))[0]}\n{self.condition}: {self.evaluated}"
