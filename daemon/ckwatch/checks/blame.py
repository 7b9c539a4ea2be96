"""Which value of an instance is the mistake, where the rules that it breaks are about several.

One wrong value is more likely than two: the one is suspected with another value of which no rule is broken, neither in
this instance nor in those that take it from the same place. Of several such values the most telling one is shown
(`_Trial.weight`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from zlib import crc32

from ckwatch.checks.rules.candidates import POWERS, candidate_values, nearest_first, substituted
from ckwatch.checks.rules.checker import OPERATIONS, broken_rules
from ckwatch.checks.rules.instances import RenderedInstance
from ckwatch.checks.rules.reference import parameter_description
from ckwatch.checks.rules.rule import Violation, folded
from ckwatch.model.diagnostics import Severity
from ckwatch.model.kernels import Instance, Operation, ParameterValue, Unit, is_integers
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.source_map import SourceMap
from ckwatch.model.text import Span

VALUES_TRIED = 16
"""Values of each parameter that are tried in place of a refused one, besides those of other instances."""

OTHERS_TRIED = 6

INSTANCES_COMPARED = 6
"""Other instances that are asked whether they have the same mistake."""

OPERATION_KEYS = {
    "ADataType": "a.dtype",
    "ALayout": "a.layout",
    "BDataType": "b.dtype",
    "BLayout": "b.layout",
    "CDataType": "c.dtype",
    "CLayout": "c.layout",
    "GemmAccDataType": "accumulator",
    "DsDataType": "bias.dtype",
    "DsLayout": "bias.layout",
    "ComputeTypeA": "a.dtype",
    "ComputeTypeB": "b.dtype",
    "LDSTypeA": "a.dtype",
    "LDSTypeB": "b.dtype",
    "CShuffleDataType": "c.dtype",
    "AScaleDataType": "scale_a.dtype",
    "BScaleDataType": "scale_b.dtype",
    "ScaleBlockM": "scale_a.block",
    "ScaleBlockN": "scale_b.block",
    "ScaleBlockK": "scale_a.block",
    "ScaleBlockSize": "scale_a.block",
    "QKVDataType": "dtype",
    "ODataType": "dtype_o",
    "Head": "head",
    "HeadV": "head_v",
    "XDataType": "dtype",
    "YDataType": "quantize.dtype",
}
"""Template parameters that a kernel file gives under `[operation]`, by the key that settles them."""

OPERATION = "[operation]"
"""The name of the operation in `passed_values`; no parameter has it."""

_IF_NOT_GIVEN = {"head_v": "head"}
"""The key that settles what another one does not say."""

_OTHER_LAYOUT = {"Row": "Col", "Col": "Row", "RowMajor": "ColumnMajor", "ColumnMajor": "RowMajor"}
_DTYPES_TRIED = ("F16", "BF16", "F8", "BF8", "F32", "I8")

_MIRROR = {
    "ABlock": "BBlock",
    "AK0": "BK0",
    "AK1": "BK1",
    "_M_": "_N_",
    "MPerXDL": "NPerXDL",
    "LdsExtraM": "LdsExtraN",
    "CShuffleMXdl": "CShuffleNXdl",
}
_MIRRORED = {**_MIRROR, **{other: one for one, other in _MIRROR.items()}}
_SIDE = re.compile("|".join(_MIRRORED))


def mirror_of(argument: str) -> str:
    """The same parameter of the other operand, `BK1` for `AK1`; the name itself where there is none."""
    return _SIDE.sub(lambda found: _MIRRORED[found[0]], argument)


def parameter_behind(unit: Unit, emitted: RenderedInstance, argument: str, source_map: SourceMap | None) -> str | None:
    """The instance's parameter that a template argument was made from; None where that is none, or not one.

    It is the one that the template prints there, else the one of the same name in CK's spelling or Inductor's.
    """
    parameters = unit.instance.parameters
    if source_map is not None and argument in emitted.offsets:
        origin = source_map.origin_of_range(*emitted.offsets[argument])
        printed = [name for name in dict.fromkeys(origin.site.names) if name in parameters] if origin else []
        if len(printed) == 1:
            return printed[0]
    written = emitted.written.get(argument, argument)
    if argument in parameters or written in parameters:
        return argument if argument in parameters else written
    alike = {folded(emitted.argument_of(name)): name for name in parameters}
    return alike.get(folded(argument))


OPERATIONS_KEPT = 16


def passed_values(parameters: Mapping[str, ParameterValue], operation: int) -> Mapping[str, ParameterValue]:
    """Return the values of a unit's parameters, and the number of its operation, to compare it with later."""
    return {**parameters, OPERATION: operation}


class _OperationNumbers:
    """The numbers of the last operations: units of few kernels come at a time."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Operation, int]] = {}

    def of(self, operation: Operation) -> int:
        """Return a number for an operation; others have others."""
        known = self._known.get(id(operation))
        if known is None:
            if len(self._known) >= OPERATIONS_KEPT:
                del self._known[next(iter(self._known))]
            known = self._known[id(operation)] = operation, crc32(repr(operation).encode())
        return known[1]


operation_number = _OperationNumbers().of


@dataclass(frozen=True, slots=True)
class Culprit:
    """A value that is the mistake behind `violations`, the first of which says so best.

    `argument` is the one in the headers, `own` the instance's parameter; None for a key of the operation. `value` is
    one with which no rule is broken, and `everywhere` says that this holds for all that take it from the same place.
    """

    argument: str
    own: str | None
    span: Span
    violations: tuple[Violation, ...]
    value: ParameterValue | None
    everywhere: bool


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A value that broken rules are about: `arguments` are made of it. The values in `alternatives` are tried."""

    name: str
    own: str | None
    span: Span
    arguments: tuple[str, ...]
    present: ParameterValue
    alternatives: tuple[ParameterValue, ...]
    borrowed: frozenset[ParameterValue]
    mirror: ParameterValue | None


@dataclass(frozen=True, slots=True)
class _Trial:
    """The result of trying other values of a suspect: the broken rules that end with the best of them, `value`.

    `share` is the part of the other instances that take it from the same place, `everywhere` says that `value` is right
    for these, too, `innocent` that one of them is right as it is, `warned` that with `value` it does not do what it
    says. `explained` is the part of the other instances with errors that `value` mends, too, and `rarity` the part that
    has another value.
    """

    suspect: _Suspect
    cleared: frozenset[str]
    value: ParameterValue | None
    is_new: bool
    share: float
    everywhere: bool
    innocent: bool
    warned: bool
    explained: float
    rarity: float

    def weight(self, lead: tuple[str, ...]) -> float:
        """How much speaks for it, where it clears as much as another one. `lead`: whom the rule blames, in order."""
        one, value = self.suspect, self.value
        found = 4.0 * self.share * self.everywhere - 4.0 * self.innocent + self.rarity
        if one.mirror is not None:
            found += 8.0 if value == one.mirror and value != one.present else -2.0 if one.present == one.mirror else 0.0
        found += 20.0 * self.explained + 3.0 * _is_odd(one.present) + 2.0 * (value in one.borrowed)
        found -= isinstance(one.present, str)
        found += {name: 1.5 / (1 + at) for at, name in enumerate(lead)}.get(one.name, 0.0)
        if value is not None:
            # vectors of one element, and the operation's own types, make anything valid
            found -= (
                8.0 * (_is_least(value) and value != one.mirror and value not in one.borrowed)
                + 6.0 * (one.own is None)
                + 8.0 * self.warned
                + 0.3 * min(_steps(one.present, value), 4.0)
            )
        return found


class Blame:
    """Finds the culprits of one instance in a rendered text.

    `passed` are the values with which the unit last broke no rule (`passed_values`).
    """

    def __init__(
        self,
        unit: Unit,
        emitted: RenderedInstance,
        text: str,
        source_map: SourceMap | None,
        passed: Mapping[str, ParameterValue] | None,
    ) -> None:
        self._unit = unit
        self._emitted = emitted
        self._text = text
        self._source_map = source_map
        self._passed = unit.instance.parameters if passed is None else passed
        number = operation_number(unit.kernel.operation)
        self._operation_is_new = self._passed.get(OPERATION, number) != number
        self._owns: dict[str, str | None] = {}
        operation = OPERATIONS.get(emitted.device_operation)
        self._blamed = {rule.slug: rule.blame for rule in operation.rules} if operation is not None else {}
        others = [one for one in unit.kernel.instances if one.name != unit.instance.name]
        # a sweep makes many of the parameters of one
        self._others = [one for one in others if one.sweep is None] or others
        self._compared: dict[str, dict[str, ParameterValue] | None] = {}

    def own(self, argument: str) -> str | None:
        """The instance's parameter behind an argument."""
        if argument not in self._owns:
            self._owns[argument] = parameter_behind(self._unit, self._emitted, argument, self._source_map)
        return self._owns[argument]

    def span_of(self, argument: str) -> Span | None:
        """Return the place in the kernel file that gives the value of an argument."""
        own = self.own(argument)
        span = None if own is None else self._unit.instance.spans.get(own)
        if span is None and own is None and argument in OPERATION_KEYS:
            span = self._unit.kernel.operation_spans.get(self._operation_key(argument))
        return span

    def _operation_key(self, argument: str) -> str:
        """The key of the operation that settles an argument."""
        key = OPERATION_KEYS[argument]
        return key if key in self._unit.kernel.operation_spans else _IF_NOT_GIVEN.get(key, key)

    def culprits(self, violations: Sequence[Violation]) -> Iterator[Culprit | Violation]:
        """Those behind `violations`, each of which is behind one, or comes by itself: no value is behind it."""
        broken = frozenset(one.rule for one in violations)
        trials = self._trials(violations, broken)
        remaining = list(violations)
        while remaining:
            rules = {one.rule for one in remaining}
            lead, chosen = remaining[0], None
            if trials:
                chosen = max(trials, key=lambda one: self._rank(one, remaining, rules))
                if not chosen.cleared & rules:
                    about = [one for one in trials if _is_about(one.suspect, lead)]
                    chosen = max(about, key=lambda one: self._rank(one, [lead], rules), default=None)
            if chosen is None:
                yield lead
                remaining.remove(lead)
                continue
            ended = [one for one in remaining if one.rule in chosen.cleared] or [lead]
            is_all = broken <= chosen.cleared
            remaining = [one for one in remaining if one not in ended]
            suspect = chosen.suspect
            # the message is that of a rule which is about the value, if possible by its own words
            ended.sort(
                key=lambda one: (not _is_about(suspect, one), suspect.name not in self._blamed.get(one.rule, ()))
            )
            value = chosen.value if is_all else None
            yield Culprit(suspect.name, suspect.own, suspect.span, tuple(ended), value, chosen.everywhere)

    def _rank(self, trial: _Trial, remaining: Sequence[Violation], rules: set[str]) -> tuple[bool, bool, int, float]:
        suspect = trial.suspect
        about = [one for one in remaining if _is_about(suspect, one)]
        lead = self._blamed.get(about[0].rule, ()) if about else ()
        # smaller types than the operation's make anything fit
        ended = [one for one in remaining if one.rule in trial.cleared]
        likely = suspect.own is not None or not all(one.condition.endswith("<= LdsLimit") for one in ended or about)
        return trial.is_new and bool(about), likely, len(trial.cleared & rules), trial.weight(lead)

    def _trials(self, violations: Sequence[Violation], broken: frozenset[str]) -> list[_Trial]:
        """Of the suspects that all rules are about, if one of them is behind all; else of all suspects."""
        suspects = self._suspects(violations)
        trials = []
        for suspect in suspects:
            is_behind_all = all(_is_about(suspect, one) for one in violations)
            if is_behind_all or self._is_new(suspect):
                trials.append(self._trial(suspect, broken))
        if not any(one.cleared == broken for one in trials):
            known = {one.suspect.name for one in trials}
            trials += [self._trial(one, broken) for one in suspects if one.name not in known]
        return trials

    def _is_new(self, suspect: _Suspect) -> bool:
        if suspect.own is None:
            return self._operation_is_new
        return self._passed.get(suspect.own) != suspect.present

    def _suspects(self, violations: Sequence[Violation]) -> list[_Suspect]:
        """The parameters of broken rules that have a place in the kernel file."""
        found: dict[str, _Suspect] = {}
        named = dict.fromkeys(name for one in violations for name in (one.blame, *one.parameters) if name)
        for name in named:
            own, span = self.own(name), self.span_of(name)
            if span is None:
                continue
            key = own or self._operation_key(name)
            if key not in found and (suspect := self._suspect(name, own, span)) is not None:
                found[key] = suspect
        return list(found.values())

    def _suspect(self, name: str, own: str | None, span: Span) -> _Suspect | None:
        arguments = self._emitted.arguments
        if own is None:
            return _Suspect(name, None, span, *self._of_operation(name), frozenset(), None)
        value = self._unit.instance.parameters[own]
        made = tuple(
            one for one in arguments if self.own(one) == own and _put(arguments[one], value, value) is not None
        )
        given = [one.parameters[own] for one in self._others if own in one.parameters]
        borrowed = tuple(dict.fromkeys(nearest_first([one for one in given if one != value], value)))[:OTHERS_TRIED]
        mirror = self._mirror(name, value)
        mirrored = () if mirror is None else (mirror,)
        likely = dict.fromkeys((*mirrored, *borrowed, *self._near(name, value))) if made else {}
        tried = tuple(one for one in likely if one != value)
        return _Suspect(name, own, span, made, value, tried, frozenset(borrowed), mirror)

    def _near(self, name: str, value: ParameterValue) -> list[ParameterValue]:
        """Return other values for a parameter, the nearest first."""
        description = parameter_description(self._emitted.device_operation, name)
        allowed = () if description is None else description.values
        near = candidate_values(value, allowed, ())[: VALUES_TRIED + 1]
        if is_integers(value):
            near += _exchanged_elements(value)
        elif type(value) is int and not allowed:
            near += POWERS
        return nearest_first(dict.fromkeys(near), value)

    def _of_operation(self, name: str) -> tuple[tuple[str, ...], ParameterValue, tuple[ParameterValue, ...]]:
        """The arguments that a key of the operation settles, what they are, and what they could be."""
        arguments = self._emitted.arguments
        present = arguments.get(name, "")
        scope, colons, last = str(present).rpartition("::")
        if last in _OTHER_LAYOUT:
            return (name,), present, (f"{scope}{colons}{_OTHER_LAYOUT[last]}",)
        key = self._operation_key(name)
        if type(present) is int:
            same = tuple(one for one in OPERATION_KEYS if one in arguments and self._operation_key(one) == key)
            near = candidate_values(present, (), ())[: VALUES_TRIED + 1]
            return same, present, tuple(one for one in near if one != present)
        if not key.endswith("dtype") or not present:
            return (), present, ()
        alike = tuple(one for one, key in OPERATION_KEYS.items() if key.endswith("dtype") and one in arguments)
        made = tuple(one for one in alike if arguments[one] == present and self.own(one) is None)
        return made, present, tuple(one for one in _DTYPES_TRIED if one != present)

    def _mirror(self, name: str, value: ParameterValue) -> ParameterValue | None:
        """Return the value of the same parameter of the other operand."""
        other = mirror_of(name)
        own = self.own(other) if other != name and other in self._emitted.arguments else None
        mirrored = None if own is None else self._unit.instance.parameters[own]
        return mirrored if type(mirrored) is type(value) else None

    def _trial(self, suspect: _Suspect, broken: frozenset[str]) -> _Trial:
        value: ParameterValue | None = None
        cleared: frozenset[str] = frozenset()
        warned = True
        for tried in suspect.alternatives:
            arguments = self._with(self._emitted.arguments, suspect, tried)
            found = broken_rules(self._emitted.device_operation, arguments, self._unit.arch, source=self._text)
            left = frozenset(slug for slug, severity in found.items() if severity is Severity.ERROR)
            warns = len(found) > len(left)
            # a rule is silent while one that it builds upon is broken: what is broken then was not mended
            if left < broken and (len(broken - left), not warns) > (len(cleared), not warned):
                value, cleared, warned = tried, broken - left, warns
            if cleared == broken and not warned:
                break
        own = suspect.own
        # what the operation says holds for all
        sharing = [one for one in self._others if own is None or one.spans.get(own) == suspect.span]
        have_it = self._have_it(sharing, cleared or broken)
        fixed = self._explained(suspect, value, sharing) if value is not None and cleared == broken else 0.0
        different = [one for one in self._others if own is not None and one.parameters.get(own) != suspect.present]
        return _Trial(
            suspect,
            cleared=cleared,
            value=value,
            is_new=self._is_new(suspect),
            share=len(sharing) / len(self._others) if self._others else 0.0,
            everywhere=value is not None and cleared == broken and self._is_good_for(suspect, value, sharing),
            innocent=have_it is False,
            warned=warned and value is not None,
            explained=fixed,
            rarity=len(different) / len(self._others) if self._others else 0.0,
        )

    def _have_it(self, sharing: Sequence[Instance], rules: frozenset[str]) -> bool | None:
        """Return True if the instances that take the value from the same place break one of `rules`, too; None if
        unknown."""
        answers = []
        for other in _some(sharing):
            arguments = self._arguments_of(other)
            if arguments is not None:
                answers.append(bool(self._broken(arguments) & rules))
        return all(answers) if answers else None

    def _explained(self, suspect: _Suspect, value: ParameterValue, sharing: Sequence[Instance]) -> float:
        """Of the other instances that break rules, the part that breaks none with another value of the suspect."""
        failing = mended = 0
        for other in _some(self._others):
            arguments = self._arguments_of(other)
            if arguments is not None and self._broken(arguments):
                failing += 1
                mended += other in sharing and not self._broken(self._with(arguments, suspect, value))
        return mended / failing if failing else 0.0

    def _is_good_for(self, suspect: _Suspect, value: ParameterValue, sharing: Sequence[Instance]) -> bool:
        """Return True if the instances that take the value from the same place break no other rule with it."""
        for other in _some(sharing):
            arguments = self._arguments_of(other)
            if arguments is None or self._broken(self._with(arguments, suspect, value)):
                return False
        return True

    def _arguments_of(self, other: Instance) -> dict[str, ParameterValue] | None:
        """The arguments of another instance; None where it differs in more than single arguments."""
        if other.name not in self._compared:
            self._compared[other.name] = self._exchanged(other)
        return self._compared[other.name]

    def _exchanged(self, other: Instance) -> dict[str, ParameterValue] | None:
        mine, arguments = self._unit.instance.parameters, dict(self._emitted.arguments)
        if mine.keys() != other.parameters.keys():
            return None
        differing = {name for name, value in other.parameters.items() if value != mine[name]}
        for argument, value in self._emitted.arguments.items():
            own = self.own(argument)
            if own is None or own not in differing:
                continue
            put = _put(value, mine[own], other.parameters[own])
            if put is None:
                return None
            arguments[argument] = put
        return arguments

    def _with(
        self, arguments: Mapping[str, ParameterValue], suspect: _Suspect, value: ParameterValue
    ) -> dict[str, ParameterValue]:
        changed = dict(arguments)
        for name in suspect.arguments:
            put = _put(arguments[name], suspect.present, value)
            changed[name] = arguments[name] if put is None else put
        return changed

    def _broken(self, arguments: Mapping[str, ParameterValue]) -> frozenset[str]:
        """The errors among the rules that arguments break."""
        found = broken_rules(self._emitted.device_operation, arguments, self._unit.arch, source=self._text)
        return frozenset(slug for slug, severity in found.items() if severity is Severity.ERROR)


def _put(argument: ParameterValue, present: ParameterValue, value: ParameterValue) -> ParameterValue | None:
    """`substituted`, also for an array of one value to which the template has added others."""
    found = substituted(argument, present, value)
    if found is None and isinstance(argument, tuple) and isinstance(present, tuple) and isinstance(value, tuple):
        if len(present) != 1 or len(value) != 1 or present[0] not in argument:
            return None
        if present != (1,) or set(argument) == {1}:  # else which of them is it?
            found = tuple(value[0] if one == present[0] else one for one in argument)
    return found


def _exchanged_elements(value: tuple[int, ...]) -> list[ParameterValue]:
    """The array with two elements exchanged, or with another power of two for one of them."""
    places = range(len(value))
    swapped = [
        tuple(value[{one: other, other: one}.get(at, at)] for at in places) for one in places for other in places[:one]
    ]
    powers = [(*value[:at], power, *value[at + 1 :]) for at in places for power in POWERS[:9]]
    return [*swapped, *powers]


def _is_about(suspect: _Suspect, violation: Violation) -> bool:
    return suspect.name in violation.parameters or any(one in violation.parameters for one in suspect.arguments)


def _some(instances: Sequence[Instance]) -> Iterable[Instance]:
    """A few of many, from everywhere."""
    return instances[:: max(1, len(instances) // INSTANCES_COMPARED)][:INSTANCES_COMPARED]


def _is_odd(value: ParameterValue) -> bool:
    """Return True for a size that is not a power of two."""
    if isinstance(value, tuple):
        return any(map(_is_odd, value))
    return type(value) is int and (value <= 0 or value & (value - 1) != 0)


def _is_least(value: ParameterValue) -> bool:
    return value == 1 or (isinstance(value, tuple) and set(value) == {1})


def _steps(one: ParameterValue, other: ParameterValue) -> float:
    """How many times a number is twice the other, or how many elements differ."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return float(sum(first != second for first, second in zip(one, other, strict=False)))
    if isinstance(one, bool | str | tuple) or isinstance(other, bool | str | tuple) or one <= 0 or other <= 0:
        return 1.0
    return abs(math.log2(one / other))
