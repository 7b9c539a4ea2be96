"""Changes of an instance after which more of its waves may fit on a SIMD."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

from anyio import to_thread

from ckwatch.checks.rules.candidates import instance_errors
from ckwatch.checks.rules.instances import rendered_instances
from ckwatch.checks.rules.points import PointRules
from ckwatch.codeobject.occupancy import OccupancyStep, step_of
from ckwatch.codeobject.report import main_kernel
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.queries.analysis import AnalysisQueries
from ckwatch.engine.queries.language import LanguageQueries, considered_values, with_parameters
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Operation, Unit
from ckwatch.model.tensors import DTYPES
from ckwatch.prediction.instances import WAVE
from ckwatch.prediction.occupancy_steps import OccupancyProposal, OperandSizes, occupancy_proposals
from ckwatch.wire.analysis import OccupancyChange, OccupancySteps, ParameterChange, ResourceEstimate
from ckwatch.workspace.parameters import as_toml

PROPOSED = 3
"""Proposals of one answer."""

RENDERED = 8
"""Changes that are rendered to see whether the template makes of them what the rules accept."""


class OccupancyStepsQuery:
    """Answers from a unit's code object, its rendered text and the instance rules."""

    def __init__(self, language: LanguageQueries, analyses: AnalysisQueries, lookup: UnitLookup) -> None:
        self._language = language
        self._analyses = analyses
        self._lookup = lookup

    async def steps(self, scope: str, unit: str) -> OccupancySteps:
        """The nearest changes; none where nothing is known to help. Raises CkwatchError for a unit that has no code
        object of its present input, and UnknownUnitError."""
        state = await self._lookup.one(scope, unit)
        built, instance = state.built, state.unit
        report = await self._analyses.report(state)
        if built is None:
            raise CkwatchError(f"'{instance.id}' was not built since it changed", "build it first")
        kernel = main_kernel(report)
        step = None
        if kernel is not None and kernel.resources.wavefront_size == WAVE:  # which the estimate counts with
            step = step_of(kernel.resources, report.arch)
        proposals = [] if step is None else await self._proposals(state, instance, step, scope)
        return OccupancySteps(
            unit=instance.id,
            artifact_key=built.artifact,
            waves=None if step is None else step.waves,
            workgroups=None if step is None else step.workgroups,
            changes=tuple(_to_wire(instance, step, one) for one in proposals if step is not None),
        )

    async def _proposals(
        self, state: UnitState, unit: Unit, step: OccupancyStep, scope: str
    ) -> list[OccupancyProposal]:
        text = await self._language.text(state, unit, scope)
        operands = _operands(unit.kernel.operation)
        if text is None or operands is None:
            return []
        found = []
        known = [one.parameters for one in unit.kernel.instances]
        for proposal in await to_thread.run_sync(_searched, unit, text, step, operands):
            changed = {**unit.instance.parameters, **proposal.changes}
            rendered, _ = await self._language.rendered(with_parameters(unit, changed), scope)
            if changed in known or rendered is None:
                continue
            if not await to_thread.run_sync(_errors_in, rendered, unit.arch):
                found.append(proposal)
            if len(found) == PROPOSED:
                break
        return found


def _operands(operation: Operation) -> OperandSizes | None:
    """The sizes of X's and W's elements; None for what is no product of matrices."""
    product, tensors = operation.contraction, dict(operation.inputs)
    x, w = (None, None) if product is None else (tensors.get(product.x.tensor), tensors.get(product.w.tensor))
    if x is None or w is None:
        return None
    of_x, of_w = DTYPES[x.dtype], DTYPES[w.dtype]
    return OperandSizes(
        x_bytes=of_x.size_bytes / of_x.packed, w_bytes=of_w.size_bytes / of_w.packed, x_packed=of_x.packed
    )


def _searched(unit: Unit, text: str, step: OccupancyStep, operands: OperandSizes) -> list[OccupancyProposal]:
    parameters = unit.instance.parameters
    rules = PointRules.of([(parameters, text)], unit.arch)
    if rules is None:
        return []
    candidates = partial(considered_values, unit, emitted=rendered_instances(text))
    return list(islice(occupancy_proposals(parameters, step, operands, candidates, rules.broken), RENDERED))


def _errors_in(text: str, arch: str) -> Sequence[object]:
    return instance_errors(rendered_instances(text), text, arch)


def _to_wire(unit: Unit, step: OccupancyStep, proposal: OccupancyProposal) -> OccupancyChange:
    present = unit.instance.parameters
    estimates = (
        (step.vgpr_word, step.vgprs, proposal.vgprs),
        ("LDS", step.lds_bytes, proposal.lds_bytes),
    )
    return OccupancyChange(
        parameters=tuple(
            ParameterChange(name=name, before=as_toml(present[name]), after=as_toml(value))
            for name, value in proposal.changes.items()
        ),
        estimates=tuple(
            ResourceEstimate(resource=resource, present=use.present, estimated=estimated)
            for resource, use, estimated in estimates
            if use.excess
        ),
    )
