"""The smallest changes of an instance's parameters by which more of its workgroups may fit on a compute unit.

What a change does to registers and LDS is estimated from the parameters (`gemm_instance`), in proportion: the estimate
for the present instance stands for what its kernel was compiled to use. The instance rules decide what can be changed:
where they refuse a change of one parameter, others that take part in those rules are changed with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ckwatch.checks.rules.candidates import distance
from ckwatch.codeobject.occupancy import OccupancyStep
from ckwatch.model.kernels import ParameterValue, is_integers
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.prediction.instances import GemmInstance, instance_of

Parameters = Mapping[str, ParameterValue]

BrokenRules = Callable[[Parameters], Mapping[str, Sequence[str]] | None]
"""The rules that refuse parameters, each with the parameters that take part; None where that is unknown."""

CHANGED_AT_MOST = 4
"""Parameters of one proposal: `KPerBlock`, and the thread clusters that copy X and W, which follow it, are three."""

FOLLOWED = 32
"""Refused changes that are followed by another one: the nearest, a broken rule counts like a halving."""

TRIED = 12
"""Values, the nearest ones, of a parameter that is changed because another one was."""


IDLE_THREADS = 4.0
"""Halvings that a cluster of another number of threads counts as: some of the workgroup's would copy nothing."""

REPEATS = ("MXdlPerWave", "NXdlPerWave")
"""CK takes others where the waves of a workgroup would not cover its tile with these: the estimate would be wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandSizes:
    """Bytes of an element of X and of W, which are fractions where `x_packed` elements share a byte."""

    x_bytes: float
    w_bytes: float
    x_packed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OccupancyProposal:
    """Parameters with their new values, first the one by which less is used; what the kernel may use with these:
    registers of a lane, bytes of LDS."""

    changes: Parameters
    vgprs: int
    lds_bytes: int


def occupancy_proposals(
    parameters: Parameters,
    step: OccupancyStep,
    operands: OperandSizes,
    candidates: Callable[[str], Sequence[ParameterValue]],
    broken: BrokenRules,
) -> Iterator[OccupancyProposal]:
    """Changes that the rules accept and that may let `step.workgroups` fit, those of fewest parameters first, then the
    nearest. Of those that differ in what the epilogue shuffles at once only the first.

    `candidates` gives the values to consider for a parameter. The size of a workgroup stays, which the step is about.
    Nothing where the parameters do not describe a product of matrices, and where SGPRs are too many.
    """
    present = instance_of(parameters, operands.x_packed)
    if present is None or step.sgprs.excess:
        return
    estimate = _Estimate(step, operands, present)
    values = {name: _others(candidates(name), own) for name, own in parameters.items()}
    single = [{name: one} for name in parameters for one in values[name]]
    waiting = [_Change(changes, {}) for changes in single if estimate.proposal(parameters, changes) is not None]
    proposed: set[GemmInstance] = set()
    for _ in range(CHANGED_AT_MOST):
        refused: list[_Change] = []
        for changes, earlier in sorted(waiting, key=lambda change: _distance(parameters, change.changes)):
            rules = broken({**parameters, **changes})
            instance = instance_of({**parameters, **changes}, operands.x_packed)
            if rules is None or instance is None or (kind := replace(instance, shuffled=(0, 0))) in proposed:
                continue
            if not rules and not estimate.is_covered(instance):
                rules = {"waves": [name for name in REPEATS if name in parameters]}
            if rules:
                if not earlier or earlier.keys() - rules.keys():
                    refused.append(_Change(changes, rules))
            elif (proposal := estimate.proposal(parameters, changes)) is not None:
                proposed.add(kind)
                yield proposal
        following = {
            frozenset({**changes, name: one}.items()): _Change({**changes, name: one}, rules)
            for changes, rules in _most_promising(parameters, refused)
            for name in dict.fromkeys(name for taking_part in rules.values() for name in taking_part)
            if name not in changes
            for one in values[name][:TRIED]
        }
        waiting = list(following.values())


class _Change(NamedTuple):
    """Parameters with their new values, and the rules that they break or, before that is known, are to mend."""

    changes: Mapping[str, ParameterValue]
    rules: Mapping[str, Sequence[str]]


def _most_promising(parameters: Parameters, refused: Sequence[_Change]) -> Iterator[_Change]:
    """Of the refused changes those to be followed by another one: of those that began alike and change the same
    parameters only the first."""
    seen: set[object] = set()
    for change in sorted(refused, key=lambda one: len(one.rules) + _distance(parameters, one.changes)):
        kind = next(iter(change.changes.items())), frozenset(change.changes)
        if kind not in seen and len(seen) < FOLLOWED:
            seen.add(kind)
            yield change


class _Estimate:
    """Of registers and LDS, in proportion to those of the present instance."""

    def __init__(self, step: OccupancyStep, operands: OperandSizes, present: GemmInstance) -> None:
        self._step = step
        self._operands = operands
        self._present = present

    def is_covered(self, instance: GemmInstance) -> bool:
        """Return True if as many waves as in the present instance cover the tile without a remainder."""
        (m, n), (repeats_m, repeats_n) = instance.instruction, instance.repeats
        covered = instance.waves_m * m * repeats_m, instance.waves_n * n * repeats_n
        waves = instance.waves_m * instance.waves_n
        return covered == (instance.tile.m, instance.tile.n) and waves == self._present.waves_m * self._present.waves_n

    def proposal(self, parameters: Parameters, changes: Parameters) -> OccupancyProposal | None:
        """The changes, if the resources may suffice with them."""
        step, sizes = self._step, (self._operands.x_bytes, self._operands.w_bytes)
        instance = instance_of({**parameters, **changes}, self._operands.x_packed)
        if instance is None or instance.threads != self._present.threads:
            return None
        vgprs = step.vgprs.present * instance.registers(*sizes) / self._present.registers(*sizes)
        lds_bytes = step.lds_bytes.present * instance.lds_bytes(*sizes) / max(1, self._present.lds_bytes(*sizes))
        if vgprs > step.vgprs.most or lds_bytes > step.lds_bytes.most:
            return None
        first = next(iter(changes))
        others = {name: changes[name] for name in parameters if name in changes and name != first}
        return OccupancyProposal(
            changes={first: changes[first], **others}, vgprs=round(vgprs), lds_bytes=round(lds_bytes)
        )


def _distance(parameters: Parameters, changes: Parameters) -> float:
    return sum(_cost(value, parameters[name]) for name, value in changes.items())


def _others(values: Sequence[ParameterValue], own: ParameterValue) -> list[ParameterValue]:
    """The values but for the parameter's own, the nearest first."""
    return sorted((one for one in values if distance(one, own)), key=lambda value: _cost(value, own))


def _cost(value: ParameterValue, own: ParameterValue) -> float:
    is_other_number = is_integers(value) and is_integers(own) and math.prod(value) != math.prod(own)
    return distance(value, own) + (IDLE_THREADS if is_other_number else 0.0)
