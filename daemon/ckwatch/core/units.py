"""The way of a unit from a new input through rendering, the store and the compiler to a settled phase (`phases`).

`difference` names the parts of a unit that are input to its render and compile; the rest only places its messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from sys import intern

from ckwatch.core import advice_schedule, analysis_schedule, toolchain_schedule, verification_schedule
from ckwatch.core.demand import auto_build_of, is_wanted, priority
from ckwatch.core.effects import Changed
from ckwatch.core.events import MAIN, AutoBuild, Cause, CompileFacts, RecalledUnit, RenderFacts, UnitKey, Work, WorkKind
from ckwatch.core.notify import (
    HEADERS_TOPIC,
    NO_COMPILER,
    awaiting,
    awaits_figures,
    can_compile,
    notify,
    notify_checked,
    publish,
    reconsider,
)
from ckwatch.core.phases import Phase, move
from ckwatch.core.state import Effects, State, Unwanted, View, stop
from ckwatch.core.unit_state import UnitState
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Operation, Outcome, Unit
from ckwatch.model.topics import WORKSPACE, Topic


def difference(old: Unit, new: Unit) -> str | None:
    """Describe the change from `old` to `new`; None when only places in the kernel file changed."""
    file = new.kernel.path.rsplit("/", 1)[-1]
    changes = _changes(old.instance.parameters, new.instance.parameters)
    if changes:
        return f"{file}: {changes}"
    if old.kernel.template != new.kernel.template:
        return f"{file}: template {old.kernel.template} → {new.kernel.template}"
    if computes_otherwise(old.kernel.operation, new.kernel.operation):
        return f"{file}: the operation changed"
    if old.kernel.flags != new.kernel.flags:
        return f"{file}: the flags changed"
    return None


def computes_otherwise(old: Operation, new: Operation) -> bool:
    """Return True if the operations differ in more than what results are compared with."""
    return old is not new and old != replace(new, reference=old.reference, comparisons=old.comparisons)


def has_moved(old: Unit, new: Unit) -> bool:
    """Return True if messages about the unit belong to other places in the kernel file."""
    return (
        old.instance.span != new.instance.span
        or old.instance.spans != new.instance.spans
        or old.instance.sweep != new.instance.sweep
        or old.kernel.template_span != new.kernel.template_span
        or old.kernel.operation_spans != new.kernel.operation_spans
        or old.kernel.flag_spans != new.kernel.flag_spans
        or old.kernel.path != new.kernel.path
    )


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    if old == new:
        return ""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name, '(none)')} → {new.get(name, '(none)')}" for name in names)


CANCELLED = "cancelled"
LINKS_REMEMBERED = 8

COMPILER_MEMORY_BYTES = 2_500_000_000
"""Peak of one hipcc on a CK GEMM instance, measured at 1.5 to 2.2 GB, rounded up; until a unit's own peak is known."""


def create(
    state: State, out: Effects, view: View, unit: Unit, cause: Cause, *, edit: bool, main: UnitState | None = None
) -> None:
    """Add a unit to the view. `main` is the workspace's state of it, whose results are shown until it has its own."""
    new = UnitState(UnitKey(view.name, unit.id), unit, cause)
    if main is not None:
        new.inherit(main)
        render, result = main.render.facts, main.compile.result
        pending = state.invalidated.get(main.key)
        header = pending is not None and pending.recompile
        flags = main.unit.kernel.flags != unit.kernel.flags
        new.compile.reusable = main.compile.reusable and not header and compiles_alike(state, view, main.unit, unit)
        header_edit = pending is not None and pending.recompile and pending.edit
        edited = main.demand.wanted or header_edit or (edit and flags)
        new.demand.wanted = edited and auto_build_of(state, new) is AutoBuild.EDITED
        state.graph.set_reads(new.key, render.reads if render else {}, render.missed if render else frozenset())
        state.graph.set_headers(new.key, result.headers if result else None)
        if unit.id in state.waiting or state.focus:
            # Clients that wanted the workspace's state may see this one now.
            state.unwanted.append(Unwanted(MAIN, unit.id, cause))
    if edit:
        _note_edit(state, new)
    if view.name == MAIN:
        new.timing.by_shape = state.remembered_timings.get(unit.id, new.timing.by_shape)
        new.figures.latest = state.remembered_figures.get(unit.id)
    view.units[unit.id] = new
    queue_render(state, out, new)


def _note_edit(state: State, unit: UnitState) -> None:
    unit.input.last_edit = state.next()
    unit.input.edited_since_render = True
    state.device_seconds_used = 0.0


def compiles_alike(state: State, view: View, main: Unit, unit: Unit) -> bool:
    """Return True if equal tokens are compiled alike in the view and in the workspace, and equal messages shown."""
    own, theirs = view.workspace, state.main.workspace
    settings = own is None or theirs is None or own.settings == theirs.settings
    options = view.options.rules and view.options.header_warnings is None
    return settings and options and main.kernel.flags == unit.kernel.flags


def queue_render(state: State, out: Effects, unit: UnitState) -> None:
    """Wait for a renderer."""
    move(unit, Phase.WAITING)
    state.render_queue.add(unit.key, priority(state, unit))
    if unit.key.scope == MAIN and state.main.started:
        state.unrecalled[unit.key.unit] = None
    publish(out, unit)


def renew(state: State, out: Effects, unit: UnitState, cause: Cause, *, recompile: bool, edit: bool) -> None:
    """The unit has a new input: whatever was done for the old one is superseded.

    A compiler goes on until the new tokens are known, unless what changed is no part of them (`recompile`: headers,
    flags).
    """
    unit.input.generation += 1
    unit.cause = cause
    unit.compile.host_pass_done = unit.compile.not_on_farm = False
    unit.compile.live_diagnostics = ()
    if recompile:
        unit.compile.reusable = False
        _stop_compiler(state, out, unit)
    if edit:
        _note_edit(state, unit)
        if recompile:
            _want_edited(state, unit)
    stop(state, out, unit.render.work)
    stop(state, out, unit.compile.look_up)
    unit.render.work = unit.compile.look_up = None
    state.look_queue.remove(unit.key)
    state.compile_queue.remove(unit.key)
    queue_render(state, out, unit)


def _stop_compiler(state: State, out: Effects, unit: UnitState) -> None:
    stop(state, out, unit.compile.compiler)
    unit.compile.compiler = None


def _want_edited(state: State, unit: UnitState) -> None:
    unit.demand.wanted, unit.demand.paused = auto_build_of(state, unit) is AutoBuild.EDITED, False


def remove(state: State, out: Effects, view: View, name: str, at: float) -> None:
    """Remove the unit from the view. A client sees the workspace's unit from now on, if there is one."""
    unit = view.units.pop(name)
    building = (unit.render.work, unit.compile.look_up, unit.compile.compiler)
    looks = (unit.figures.work, unit.timing.work, unit.verification.work, unit.advice.work, unit.toolchains.work)
    for work in (*building, *looks):
        stop(state, out, work)
    before = (state.render_queue, state.look_queue, state.compile_queue)
    after = (state.analyze_queue, state.measure_queue, state.verify_queue, state.advise_queue, state.with_queue)
    for queue in (*before, *after):
        queue.remove(unit.key)
    state.invalidated.pop(unit.key, None)
    state.graph.remove(unit.key)
    out.append(Changed(view.name, Topic.unit(name)))
    out.extend(Changed(view.name, Topic.file(path)) for path in unit.published_files)
    if view.name == MAIN:
        state.removed[name] = None
        state.unrecorded.pop(name, None)
        state.unrecalled.pop(name, None)
    reconsider(state, out, name, at)


def settle(state: State, out: Effects, unit: UnitState, phase: Phase, cause: Cause, problem: str | None = None) -> None:
    """There is nothing more to do for this input: `phase` is DONE or IDLE."""
    move(unit, phase)
    unit.cause = cause
    unit.demand.force = unit.compile.host_pass_done = False
    unit.compile.live_diagnostics = ()
    analysis_schedule.consider(state, unit)
    verification_schedule.consider(state, out, unit)
    advice_schedule.consider(state, unit)
    toolchain_schedule.consider(state, unit)
    publish(out, unit)
    for request in awaiting(state, unit):
        if not awaits_figures(request, unit):
            notify(state, out, request, unit.key.unit, None if request.check_only else problem)
    state.newly_settled.append(unit.key)
    if unit.key.scope == MAIN and unit.render.facts is not None and unit.render.facts.ok:
        state.unrecorded[unit.key.unit] = None
        state.removed.pop(unit.key.unit, None)


def rendered(state: State, out: Effects, unit: UnitState, facts: RenderFacts, at: float) -> None:
    """A render has ended: with errors, with the same tokens as before, or with something to compile."""
    _take_render(state, unit, facts, at)
    if not facts.ok:
        _stop_compiler(state, out, unit)
        why = "an instance rule refuses it" if facts.skipped else "the template or the instance has errors"
        settle(state, out, unit, Phase.DONE, Cause(why, at, unit.cause))
        return
    result, compiler = unit.compile.result, unit.compile.compiler
    if compiler is not None:
        if compiler.tokens == facts.tokens:
            move(unit, Phase.COMPILING)
            unit.cause = Cause("rendered with the same tokens: the compiler goes on", at, unit.cause)
            publish(out, unit)
            notify_checked(state, out, unit)
            return
        _stop_compiler(state, out, unit)
    if not can_compile(state, unit):
        notify_checked(state, out, unit)
        if facts.lacks and state.warnings.get(HEADERS_TOPIC) != facts.lacks:
            state.warnings[HEADERS_TOPIC] = facts.lacks
            out.append(Changed(MAIN, WORKSPACE))
        why = "checked; the compiler lacks headers" if facts.lacks else "checked; there is no compiler"
        settle(state, out, unit, Phase.IDLE, Cause(why, at, unit.cause), NO_COMPILER)
        return
    if unit.demand.force:
        _queue_compile(state, out, unit)
    elif result is not None and unit.compile.reusable and result.without_output and result.tokens == facts.tokens:
        settle(state, out, unit, Phase.DONE, Cause("rendered with the same tokens: nothing to compile", at, unit.cause))
    else:
        queue_look_up(state, out, unit)


def _take_render(state: State, unit: UnitState, facts: RenderFacts, at: float) -> None:
    """Take over the render of the present input."""
    if unit.key.scope == MAIN and _is_new(unit):
        _compare_with_history(state, unit, facts, at)
    unit.render.facts = facts
    if not facts.ok:
        return
    result = unit.compile.result
    faulted = result is not None and result.outcome is Outcome.FAULTED
    if unit.input.edited_since_render and (facts.tokens != unit.render.tokens or faulted):
        _want_edited(state, unit)
    unit.input.edited_since_render = False
    unit.render.tokens = facts.tokens


def _is_new(unit: UnitState) -> bool:
    """Return True if nothing was known of the unit since the daemon started."""
    return unit.render.facts is None and unit.compile.result is None


def recalled(state: State, out: Effects, unit: UnitState, found: RecalledUnit, at: float) -> None:
    """Take over earlier results of a unit that are valid for its present input."""
    in_history = _is_new(unit) and unit.key.unit not in state.unrecorded
    _take_render(state, unit, found.render, at)
    _stop_compiler(state, out, unit)
    state.render_queue.remove(unit.key)
    state.unrecalled.pop(unit.key.unit, None)
    accept_result(state, out, unit, found.result, _found(found.result, at, unit))
    if in_history:
        state.unrecorded.pop(unit.key.unit, None)


def queue_look_up(state: State, out: Effects, unit: UnitState) -> None:
    """Wait for a look-up in the store."""
    move(unit, Phase.LOOKING)
    unit.compile.host_pass_done = False
    state.look_queue.add(unit.key, priority(state, unit))
    publish(out, unit)


def _found(facts: CompileFacts, at: float, unit: UnitState) -> Cause:
    return Cause(intern(f"found in the store: {facts.outcome}"), at, unit.cause)


def looked_up(state: State, out: Effects, unit: UnitState, facts: CompileFacts | None, at: float) -> None:
    """A look-up has ended: the store has the result, or not (None)."""
    if facts is not None:
        accept_result(state, out, unit, facts, _found(facts, at, unit))
    elif is_wanted(state, unit):
        _queue_compile(state, out, unit)
    else:
        settle(state, out, unit, Phase.IDLE, Cause("not in the store, and not requested", at, unit.cause))


def compiled(state: State, out: Effects, unit: UnitState, work: Work, facts: CompileFacts, at: float) -> None:
    """The unit's compiler has ended."""
    unit.compile.compiler = None
    if unit.phase is not Phase.COMPILING:
        return  # a newer input is on its way; if its tokens are the same it will find this in the store
    same = _is_present(unit, work)
    if same or facts.outcome is Outcome.FAULTED:
        took = f"compiled in {facts.seconds:.1f} s: {facts.outcome}"
        accept_result(state, out, unit, facts, Cause(took, at, unit.cause))
        return
    # Same tokens, other white space: the messages need their places in the present text.
    queue_look_up(state, out, unit)


def compiler_output(out: Effects, unit: UnitState, work: Work, diagnostics: tuple[Diagnostic, ...]) -> None:
    """The unit's compilers have reported errors, and go on."""
    if unit.compile.compiler is work and unit.phase is Phase.COMPILING and _is_present(unit, work):
        unit.compile.live_diagnostics = diagnostics
        publish(out, unit)


def checked(state: State, out: Effects, unit: UnitState, work: Work, diagnostics: tuple[Diagnostic, ...]) -> None:
    """The unit's host pass has ended; its device pass waits for its turn."""
    unit.compile.compiler = None
    if unit.phase is not Phase.COMPILING:
        return  # a newer input is on its way
    if not _is_present(unit, work):
        queue_look_up(state, out, unit)  # the messages need their places in the present text
        return
    unit.compile.host_pass_done = True
    unit.compile.live_diagnostics = diagnostics
    _queue_compile(state, out, unit)


def farm_failed(state: State, out: Effects, unit: UnitState) -> None:
    """The farm could not compile the unit: it waits for a compiler of this machine."""
    unit.compile.compiler = None
    if unit.phase is Phase.COMPILING:
        unit.compile.not_on_farm = True
        _queue_compile(state, out, unit)


def _is_present(unit: UnitState, work: Work) -> bool:
    return work.key == unit.key and work.generation == unit.input.generation


def accept_result(state: State, out: Effects, unit: UnitState, facts: CompileFacts, cause: Cause) -> None:
    """Take over the result of the present input."""
    unit.compile.result = facts
    unit.compile.reusable = facts.outcome is not Outcome.FAULTED
    unit.demand.wanted = unit.demand.force = False
    if facts.outcome is Outcome.BUILT:
        kernel = unit.unit.kernel.name
        state.compile_seconds[kernel] = max(facts.seconds, state.compile_seconds.get(kernel, 0.0))
    if facts.headers is not None:
        state.graph.set_headers(unit.key, facts.headers)
    if not unit.compile.reusable:
        state.graph.mark_unverified(unit.key)
    settle(state, out, unit, Phase.DONE, cause)


def failed(state: State, out: Effects, unit: UnitState, work: Work, fault: str, at: float) -> None:
    """A task of the unit failed without a result: our fault or the host's."""
    if work is unit.compile.compiler:
        unit.compile.compiler = None
        if unit.phase is not Phase.COMPILING:
            return  # a newer input is on its way
    message = f"{fault}; this says nothing about the kernel; the next edit or request tries again"
    diagnostic = Diagnostic(Severity.ERROR, Source.HOST, "host/breakdown", message, unit.unit.instance.span)
    facts = CompileFacts(Outcome.FAULTED, work.tokens, diagnostics=(diagnostic,), finished_at=at)
    unit.render.work = unit.compile.look_up = None
    _stop_compiler(state, out, unit)
    if work.kind is WorkKind.RENDER:
        unit.render.facts = None
    accept_result(state, out, unit, facts, Cause(f"the {work.kind} failed", at, unit.cause))


def want(state: State, out: Effects, unit: UnitState, cause: Cause) -> None:
    """A client wants the unit compiled: an idle one goes on, a waiting one may move up."""
    if unit.phase is Phase.IDLE and can_compile(state, unit) and is_wanted(state, unit):
        unit.cause = cause
        queue_look_up(state, out, unit)
    elif unit.phase is Phase.DONE:
        analysis_schedule.consider(state, unit)
        verification_schedule.consider(state, out, unit)
        advice_schedule.consider(state, unit)
        toolchain_schedule.consider(state, unit)
    for queue in (state.render_queue, state.look_queue, state.compile_queue):
        if unit.key in queue:
            queue.add(unit.key, priority(state, unit))


def unforce(state: State, out: Effects, unit: UnitState) -> None:
    """Accept results from the store again."""
    unit.demand.force = False
    if unit.phase is Phase.QUEUED:
        state.compile_queue.remove(unit.key)
        queue_look_up(state, out, unit)


def give_up(state: State, out: Effects, unit: UnitState, cause: Cause, *, pause: bool) -> None:
    """Do not compile the unit until it is edited or asked for; with `pause` not for those either who want it now."""
    unit.demand.wanted = unit.demand.force = False
    if pause:
        unit.demand.paused = True
        unit.input.edited_since_render = False  # what is rendered now was edited before
    _stop_compiler(state, out, unit)
    if unit.phase is Phase.DONE:
        analysis_schedule.consider(state, unit)
    if unit.phase in (Phase.QUEUED, Phase.COMPILING):
        state.compile_queue.remove(unit.key)
        # A header that changed may change back to what the store has.
        state.graph.mark_unverified(unit.key)
        settle(state, out, unit, Phase.IDLE, cause, CANCELLED)
    elif pause and not unit.settled:
        for request in awaiting(state, unit):
            if not request.check_only:
                notify(state, out, request, unit.key.unit, CANCELLED)


def expected_memory_bytes(state: State, unit: UnitState) -> int:
    """The peak memory to expect of a compiler of this unit."""
    result = unit.compile.result
    if result is not None and result.peak_memory_bytes:
        return result.peak_memory_bytes
    remembered = state.remembered.get(unit.key.unit)
    return (remembered.peak_memory_bytes if remembered else 0) or COMPILER_MEMORY_BYTES


def _queue_compile(state: State, out: Effects, unit: UnitState) -> None:
    move(unit, Phase.QUEUED)
    state.compile_queue.add(unit.key, priority(state, unit))
    publish(out, unit)
    notify_checked(state, out, unit)


def _compare_with_history(state: State, unit: UnitState, facts: RenderFacts, at: float) -> None:
    remembered = state.remembered.get(unit.key.unit)
    if remembered is None or not facts.ok:
        return
    earlier = _newest(remembered.cause)
    if remembered.tokens == facts.tokens:
        unit.cause = Cause("the daemon started", at, earlier)
        return
    changed = [path for path, digest in remembered.reads.items() if facts.reads.get(path) != digest]
    what = ", ".join(sorted(path.rsplit("/", 1)[-1] for path in changed)) or "the kernel file"
    unit.cause = Cause(f"{what} changed while the daemon was not running", at, earlier)
    unit.demand.wanted = auto_build_of(state, unit) is AutoBuild.EDITED
    unit.input.last_edit = state.next()


def _newest(cause: Cause) -> Cause:
    """The newest links of a story: it would grow with every start."""
    story: Cause | None = None
    for link in reversed(cause.chain[:LINKS_REMEMBERED]):
        story = Cause(link.what, link.at, story)
    return story or cause
