"""The right state: every unit computed anew from the files as they are."""

from __future__ import annotations

from ckwatch.core.demand import is_wanted
from ckwatch.core.effects import Notify
from ckwatch.core.events import MAIN, LoadedWorkspace
from ckwatch.core.phases import Phase
from ckwatch.core.state import State, View
from ckwatch.core.unit_state import UnitState
from ckwatch.model.kernels import Outcome, Unit
from core.audience import Asked
from core.disk import Disk, over
from core.language import TOML, compile_text, kernel_units, render, same_result
from core.workers import header_with


def verify_fresh(state: State, disk: Disk, unread: set[str]) -> None:
    """All news has reached the machine: what it calls current must be so. Loads of `unread` views failed."""
    if disk.files.get(TOML) is None or MAIN in unread:
        return
    for view in state.views.values():
        if view.name in unread:
            continue
        there = disk.units(view.overlays, view.options.archs)
        for name, unit in view.units.items():
            if unit.settled:
                assert name in there, f"{unit.key} is no more"
                _verify_unit(unit, disk, view, *there[name])


def verify_rest(state: State, disk: Disk, clients: set[str], rested: dict[str, str], broken: set[str]) -> None:
    """Nothing is left to do: each client sees all units, as a fresh computation has them.

    `rested`: the tokens of the workspace's units at the last rest; what was edited since has been compiled. `broken`:
    artifacts of which an analysis failed.
    """
    if disk.files.get(TOML) is None:
        return
    for client in {*state.views, *clients}:
        view = state.views.get(client, View(client))
        there = disk.units(view.overlays, view.options.archs)
        assert state.members(client).keys() == there.keys()
        for name, (unit, workspace) in there.items():
            seen = state.seen(client, name)
            assert seen is not None
            assert seen.settled
            _verify_unit(seen, disk, view, unit, workspace)
            if seen.phase is Phase.IDLE and workspace.toolchain_problem is None:
                edited = client == MAIN and rested.get(name, seen.render.tokens) != seen.render.tokens
                assert not edited, f"{seen.key} was edited and not compiled"
                assert not is_wanted(state, seen), f"{seen.key} was wanted and not compiled"
            _verify_analyzed(seen, broken)
            if client == MAIN:
                _verify_timed(state, seen)
            _verify_verified(state, seen)
            _verify_advised(state, seen)
            _verify_toolchains(state, seen, disk)


def _verify_analyzed(unit: UnitState, broken: set[str]) -> None:
    """Check that compiled and edited units have been analyzed, unless they cannot be."""
    assert unit.figures.depth is None, f"{unit.key} waits for ever to be analyzed"
    if unit.outcome is not Outcome.BUILT or unit.phase is not Phase.DONE or unit.compile.result is None:
        return
    artifact = unit.compile.result.artifact
    if (
        unit.unit.arch.startswith("gfx")
        and "code-object" in unit.compile.result.products
        and artifact not in {unit.figures.unreadable_artifact, *broken}
        and (unit.input.last_edit or not unit.compile.result.from_store)
    ):
        assert unit.figures.latest is not None, f"{unit.key} has no figures"
        assert unit.figures.latest.artifact == artifact, f"{unit.key} has the figures of another artifact"


def _verify_timed(state: State, unit: UnitState) -> None:
    """Check that edited units are timed on all shapes, or have a reason why not."""
    assert not unit.timing.requested, f"{unit.key} waits for a device for ever"
    if unit.outcome is not Outcome.BUILT or unit.phase is not Phase.DONE or unit.compile.result is None:
        return
    if unit.input.last_edit and state.benchmarks.automatic and not unit.timing.untimed_because:
        timed = {
            shape for shape, timing in unit.timing.by_shape.items() if timing.artifact == unit.compile.result.artifact
        }
        assert timed >= {shape.name for shape in unit.unit.kernel.shapes}, f"{unit.key} was edited and not timed"


def _verify_verified(state: State, unit: UnitState) -> None:
    """Check that edited units are verified if requested, or have a reason why not; findings stand at their places."""
    now, built = unit.verification, unit.built
    assert now.request is None, f"{unit.key} waits for ever to be verified"
    if built is None or unit.key.scope != MAIN or unit.unit.arch not in state.verification.archs:
        return
    if unit.input.last_edit and now.given_up_artifact != built.artifact:
        assert now.latest is not None, f"{unit.key} was edited and not verified"
        assert now.latest.artifact == built.artifact, f"{unit.key} shows the verification of another artifact"
        assert now.latest.is_of(unit.unit.kernel)
        assert not now.latest.verification.findings or unit.has_placed_findings, f"{unit.key} shows places of the past"


def _verify_advised(state: State, unit: UnitState) -> None:
    """Check that edited units have the advice that they need, at places of the present text."""
    now, built, figures = unit.advice, unit.built, unit.figures.latest
    assert not now.wanted, f"{unit.key} waits for advice for ever"
    if built is None or figures is None or unit.key.scope != MAIN or not state.advice:
        return
    if unit.input.last_edit and figures.need and figures.artifact == built.artifact:
        assert unit.has_placed_advice or now.given_up_artifact == built.artifact, f"{unit.key} was not looked into"


def _verify_toolchains(state: State, unit: UnitState, disk: Disk) -> None:
    """Check that edited units are checked with all other toolchains, unless they were given up."""
    now, result = unit.toolchains, unit.present_result
    for one in state.toolchains.others:
        header, known = header_with(one.name), now.results.get(one.name)
        if (
            known is not None
            and unit.holds(known)
            and not known.problem
            and not unit.demand.paused
            and unit.key.scope == MAIN
        ):
            shown = f"{header} fails" in [found.message for found in known.diagnostics]
            assert shown == (disk.files.get(header) == "fail"), f"{unit.key} missed a change of {header}"
    assert not now.requested, f"{unit.key} waits for ever to be checked with {list(now.requested)}"
    cared_for = unit.key.scope == MAIN and unit.input.last_edit and not unit.demand.paused
    if not cared_for or result is None or result.outcome is Outcome.FAULTED or now.given_up == unit.basis:
        return
    for one in state.toolchains.others:
        known = now.results.get(one.name)
        assert known is not None, f"{unit.key} was edited and not checked with {one.name}"
        assert unit.holds(known), f"{unit.key} shows errors with {one.name} of the past"
        assert known.toolchain == one
        assert known.covers(build=state.toolchains.build)


def _verify_unit(unit: UnitState, disk: Disk, view: View, expected: Unit, workspace: LoadedWorkspace) -> None:
    """`view` is who sees the unit: it may be the workspace's."""
    wrong = f"{unit.key} is not current in '{view.name}'"
    assert unit.unit.instance == expected.instance, wrong
    assert unit.unit.kernel.flags == expected.kernel.flags, wrong
    faulted = unit.compile.result is not None and unit.compile.result.outcome is Outcome.FAULTED
    if unit.render.facts is None:
        assert faulted, wrong
        return
    facts, text = render(over(disk.files.get, view.overlays), expected, view.options)
    assert unit.render.facts == facts, wrong
    if unit.phase is Phase.DONE and facts.ok and not faulted:
        assert unit.compile.result is not None
        assert text is not None
        now = compile_text(disk.files.get, text, expected, workspace.settings, view.options)
        assert same_result(unit.compile.result, now), wrong


def verify_answer(state: State, disk: Disk, line: Notify, asked: Asked) -> None:
    """A request gets results of files as they were when it was made, or later."""
    unit = None if line.unit is None else state.seen(asked.event.scope, line.unit)
    if line.problem is not None or unit is None or None in disk.between(TOML, asked.version):
        return
    view = state.views[unit.key.scope]
    overlays, kernel = view.overlays, unit.unit.kernel.path
    texts = [overlays[kernel]] if kernel in overlays else disk.between(kernel, asked.version)
    kernels = [kernel_units(kernel, text, (unit.unit.arch,)) for text in texts if text is not None]
    parameters = [one.instance.parameters for found in kernels if found for one in found.units if one.id == line.unit]
    wrong = f"{line} is older than its request"
    if view.changed_at.get(kernel, 0) <= asked.order:
        assert unit.unit.instance.parameters in parameters, wrong
    if asked.event.check_only:
        return
    assert unit.phase is Phase.DONE, f"{line}: {unit.phase}"
    if unit.compile.result is not None and unit.compile.result.outcome is Outcome.FAULTED:
        return
    assert unit.render.facts is not None
    read = unit.render.facts.reads.items() | dict.fromkeys(unit.render.facts.missed).items()
    if unit.render.facts.ok:
        assert unit.compile.result is not None
        assert unit.compile.result.headers is not None
        read |= unit.compile.result.headers.present.items() | dict.fromkeys(unit.compile.result.headers.absent).items()
    for path, digest in read:
        assert path in overlays or digest in disk.between(path, asked.version), f"{wrong}: {path}"
