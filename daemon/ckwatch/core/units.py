"""The life of a unit: from a new input through rendering, the store and the compiler to a settled state.

`difference` says what of a unit is input to its render and compile; the rest only says where its messages belong.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckwatch.core import analysis_schedule
from ckwatch.core.demand import is_wanted, priority, unsaved
from ckwatch.core.effects import Changed
from ckwatch.core.events import MAIN, AutoBuild, Cause, CompileFacts, RenderFacts, UnitKey, Work, WorkKind
from ckwatch.core.notify import (
    NO_COMPILER,
    awaiting,
    awaits_figures,
    can_compile,
    notify,
    notify_checked,
    reconsider,
    show,
)
from ckwatch.core.state import COMPILER_MEMORY_BYTES, Effects, Phase, State, UnitState, Unwanted, View, stop
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Outcome, Unit


def difference(old: Unit, new: Unit) -> str | None:
    """What makes `new` another input than `old`; None when only places in the kernel file differ."""
    file = new.kernel.path.rsplit("/", 1)[-1]
    changes = _changes(old.instance.parameters, new.instance.parameters)
    if changes:
        return f"{file}: {changes}"
    if old.kernel.template != new.kernel.template:
        return f"{file}: template {old.kernel.template} → {new.kernel.template}"
    if old.kernel.operation is not new.kernel.operation and old.kernel.operation != new.kernel.operation:
        return f"{file}: the operation changed"
    if old.kernel.flags != new.kernel.flags:
        return f"{file}: the flags changed"
    return None


def has_moved(old: Unit, new: Unit) -> bool:
    """Whether messages about the unit belong to other places in the kernel file."""
    return (
        old.instance.span != new.instance.span
        or old.instance.spans != new.instance.spans
        or old.kernel.template_span != new.kernel.template_span
        or old.kernel.operation_spans != new.kernel.operation_spans
        or old.kernel.path != new.kernel.path
    )


def _changes(old: Mapping[str, object], new: Mapping[str, object]) -> str:
    if old == new:
        return ""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {old.get(name, '(none)')} → {new.get(name, '(none)')}" for name in names)


CANCELLED = "cancelled"
LINKS_REMEMBERED = 8


def create(
    state: State, out: Effects, scope: View, unit: Unit, cause: Cause, *, edit: bool, like: UnitState | None = None
) -> None:
    """A unit that is new in `scope`; `like` is the workspace's state of it, whose results are shown until there are
    others."""
    new = UnitState(UnitKey(scope.name, unit.id), unit, cause)
    if like is not None:
        new.render, new.result, new.tokens = like.render, like.result, like.tokens
        new.timings, new.figures, new.unanalyzed = like.timings, like.figures, like.unanalyzed
        news = state.touched.get(like.key)
        header = news is not None and news.recompile
        flags = like.unit.kernel.flags != unit.kernel.flags
        new.reusable = like.reusable and not header and compiles_alike(state, scope, like.unit, unit)
        new.wanted = like.wanted or (news is not None and news.recompile and news.edit) or (edit and flags)
        state.graph.set_reads(
            new.key, like.render.reads if like.render else {}, like.render.missed if like.render else frozenset()
        )
        state.graph.set_headers(new.key, like.result.headers if like.result else None)
        if unit.id in state.waiting or state.focus:
            # Who waited for the workspace's state or looked at it may see this one now.
            state.unwanted.append(Unwanted(MAIN, unit.id, cause))
    if edit:
        new.edited = state.next()
        new.edited_now = True
        state.measured_s = 0.0
    if scope.name == MAIN:
        new.timings = state.remembered_timings.get(unit.id, new.timings)
        new.figures = state.remembered_figures.get(unit.id)
    scope.units[unit.id] = new
    enter(state, out, new)


def compiles_alike(state: State, view: View, main: Unit, unit: Unit) -> bool:
    """Whether equal tokens are compiled alike in the view and in the workspace, and equal messages shown."""
    own, theirs = view.workspace, state.main.workspace
    settings = own is None or theirs is None or own.settings == theirs.settings
    options = view.options.rules and view.options.header_warnings is None
    return settings and options and main.kernel.flags == unit.kernel.flags


def enter(state: State, out: Effects, unit: UnitState) -> None:
    """Wait for a renderer."""
    unit.phase = Phase.WAITING
    state.render_queue.add(unit.key, priority(state, unit))
    show(out, unit)


def renew(state: State, out: Effects, unit: UnitState, cause: Cause, *, recompile: bool, edit: bool) -> None:
    """The unit has a new input: whatever was done for the old one is superseded.

    A compiler goes on until it is known whether the tokens are others, unless the news is to be seen by the compiler
    only (`recompile`: headers, flags).
    """
    unit.generation += 1
    unit.cause = cause
    unit.fresh = unit.checked = False
    unit.heard = ()
    if recompile:
        unit.reusable = False
        stop(state, out, unit.compiler)
        unit.compiler = None
    if edit:
        unit.edited = state.next()
        unit.edited_now = True
        state.measured_s = 0.0
        if recompile:
            _want_edited(state, unit)
    stop(state, out, unit.working)
    unit.working = None
    state.look_queue.remove(unit.key)
    state.compile_queue.remove(unit.key)
    enter(state, out, unit)


def _want_edited(state: State, unit: UnitState) -> None:
    unit.wanted, unit.held = unsaved(state, unit) is AutoBuild.EDITED, False


def remove(state: State, out: Effects, scope: View, name: str, at: float) -> None:
    """The unit is no more, or in a view: is seen as the workspace has it."""
    unit = scope.units.pop(name)
    for work in (unit.working, unit.compiler, unit.analyzing, unit.measuring):
        stop(state, out, work)
    queues = (state.render_queue, state.look_queue, state.compile_queue, state.analyze_queue, state.measure_queue)
    for queue in queues:
        queue.remove(unit.key)
    state.touched.pop(unit.key, None)
    state.graph.remove(unit.key)
    out.append(Changed(scope.name, f"unit/{name}"))
    out.extend(Changed(scope.name, f"file/{path}") for path in unit.shown)
    if scope.name == MAIN:
        state.removed[name] = None
        state.unrecorded.pop(name, None)
    reconsider(state, out, name, at)


def settle(state: State, out: Effects, unit: UnitState, phase: Phase, cause: Cause, problem: str | None = None) -> None:
    """There is nothing more to do for this input."""
    unit.phase = phase
    unit.cause = cause
    unit.fresh = True
    unit.force = unit.checked = False
    unit.heard = ()
    analysis_schedule.consider(state, unit)
    show(out, unit)
    for request in awaiting(state, unit):
        if not awaits_figures(request, unit):
            notify(state, out, request, unit.key.unit, None if request.check_only else problem)
    if unit.key.scope == MAIN:
        state.settled.append(unit.key)
        if unit.render is not None and unit.render.ok:
            state.unrecorded[unit.key.unit] = None
            state.removed.pop(unit.key.unit, None)


def rendered(state: State, out: Effects, unit: UnitState, facts: RenderFacts, at: float) -> None:
    """A render has ended: errors, the tokens of before, or something that may have to be compiled."""
    first = unit.render is None and unit.result is None
    unit.render = facts
    if first and unit.key.scope == MAIN:
        _compare_with_history(state, unit, facts, at)
    if not facts.ok:
        stop(state, out, unit.compiler)
        unit.compiler = None
        settle(state, out, unit, Phase.DONE, Cause("the template or the instance has errors", at, unit.cause))
        return
    faulted = unit.result is not None and unit.result.outcome is Outcome.FAULTED
    if unit.edited_now and (facts.tokens != unit.tokens or faulted):
        _want_edited(state, unit)
    unit.edited_now = False
    unit.tokens = facts.tokens
    if unit.compiler is not None:
        if unit.compiler.tokens == facts.tokens:
            unit.phase = Phase.COMPILING
            unit.cause = Cause("rendered with the same tokens: the compiler goes on", at, unit.cause)
            show(out, unit)
            notify_checked(state, out, unit)
            return
        stop(state, out, unit.compiler)
        unit.compiler = None
    if not can_compile(state, unit):
        notify_checked(state, out, unit)
        settle(state, out, unit, Phase.IDLE, Cause("checked; there is no compiler", at, unit.cause), NO_COMPILER)
        return
    result = unit.result
    if unit.force:
        _queue_compile(state, out, unit)
    elif result is not None and unit.reusable and result.quiet and result.tokens == facts.tokens:
        settle(state, out, unit, Phase.DONE, Cause("rendered with the same tokens: nothing to compile", at, unit.cause))
    else:
        look(state, out, unit)


def look(state: State, out: Effects, unit: UnitState) -> None:
    """See whether the store has it."""
    unit.phase = Phase.LOOKING
    unit.checked = False
    state.look_queue.add(unit.key, priority(state, unit))
    show(out, unit)


def looked_up(state: State, out: Effects, unit: UnitState, facts: CompileFacts | None, at: float) -> None:
    """The store has it or not."""
    if facts is not None:
        take(state, out, unit, facts, Cause(f"found in the store: {facts.outcome}", at, unit.cause))
    elif is_wanted(state, unit):
        _queue_compile(state, out, unit)
    else:
        settle(state, out, unit, Phase.IDLE, Cause("not in the store, and nobody has asked for it", at, unit.cause))


def compiled(state: State, out: Effects, unit: UnitState, work: Work, facts: CompileFacts, at: float) -> None:
    """The unit's compiler has ended."""
    unit.compiler = None
    if unit.phase is not Phase.COMPILING:
        return  # a newer input is on its way; if its tokens are the same it will find this in the store
    same = _is_present(unit, work)
    if same or facts.outcome is Outcome.FAULTED:
        took = f"compiled in {facts.seconds:.1f} s: {facts.outcome}"
        take(state, out, unit, facts, Cause(took, at, unit.cause))
        return
    # Same tokens, other blanks: the messages have to be placed in the present text.
    look(state, out, unit)


def compiler_output(out: Effects, unit: UnitState, work: Work, diagnostics: tuple[Diagnostic, ...]) -> None:
    """The unit's compilers have found mistakes, and go on."""
    if unit.compiler is work and unit.phase is Phase.COMPILING and _is_present(unit, work):
        unit.heard = diagnostics
        show(out, unit)


def checked(state: State, out: Effects, unit: UnitState, work: Work, diagnostics: tuple[Diagnostic, ...]) -> None:
    """The unit's host pass has ended; the device pass comes when it is its turn."""
    unit.compiler = None
    if unit.phase is not Phase.COMPILING:
        return  # a newer input is on its way
    if not _is_present(unit, work):
        look(state, out, unit)  # the messages have to be placed in the present text
        return
    unit.checked = True
    unit.heard = diagnostics
    _queue_compile(state, out, unit)


def _is_present(unit: UnitState, work: Work) -> bool:
    return work.key == unit.key and work.generation == unit.generation


def take(state: State, out: Effects, unit: UnitState, facts: CompileFacts, cause: Cause) -> None:
    """The result of the present input."""
    unit.result = facts
    unit.reusable = facts.outcome is not Outcome.FAULTED
    unit.wanted = unit.force = False
    if facts.headers is not None:
        state.graph.set_headers(unit.key, facts.headers)
    if not unit.reusable:
        state.graph.doubt(unit.key)
    settle(state, out, unit, Phase.DONE, cause)


def failed(state: State, out: Effects, unit: UnitState, work: Work, fault: str, at: float) -> None:
    """A task of the unit broke down without a result: our fault or the host's."""
    if work is unit.compiler:
        unit.compiler = None
        if unit.phase is not Phase.COMPILING:
            return  # a newer input is on its way
    message = f"{fault}; this says nothing of the kernel and is tried again with the next edit or request"
    diagnostic = Diagnostic(Severity.ERROR, Source.HOST, "host/breakdown", message, unit.unit.instance.span)
    facts = CompileFacts(Outcome.FAULTED, work.tokens, diagnostics=(diagnostic,), finished_at=at)
    unit.working = None
    stop(state, out, unit.compiler)
    unit.compiler = None
    if work.kind is WorkKind.RENDER:
        unit.render = None
    take(state, out, unit, facts, Cause(f"{work.kind} broke down", at, unit.cause))


def want(state: State, out: Effects, unit: UnitState, cause: Cause) -> None:
    """Somebody wants the unit compiled: an idle one goes on; a place in a queue is looked at anew."""
    if unit.phase is Phase.IDLE and can_compile(state, unit) and is_wanted(state, unit):
        unit.cause = cause
        unit.fresh = False
        look(state, out, unit)
    elif unit.phase is Phase.DONE:
        analysis_schedule.consider(state, unit)
    for queue in (state.render_queue, state.look_queue, state.compile_queue):
        if unit.key in queue:
            queue.add(unit.key, priority(state, unit))


def unforce(state: State, out: Effects, unit: UnitState) -> None:
    """What the store has is good enough again."""
    unit.force = False
    if unit.phase is Phase.QUEUED:
        state.compile_queue.remove(unit.key)
        look(state, out, unit)


def give_up(state: State, out: Effects, unit: UnitState, cause: Cause, *, hold: bool) -> None:
    """Do not compile the unit until it is edited or asked for; with `hold` not for those either who want it now."""
    unit.wanted = unit.force = False
    if hold:
        unit.held = True
    stop(state, out, unit.compiler)
    unit.compiler = None
    if unit.phase is Phase.DONE:
        analysis_schedule.consider(state, unit)
    if unit.phase in (Phase.QUEUED, Phase.COMPILING):
        state.compile_queue.remove(unit.key)
        # A header that changed may change back to what the store has.
        state.graph.doubt(unit.key)
        settle(state, out, unit, Phase.IDLE, cause, CANCELLED)
    elif hold and not unit.settled:
        for request in awaiting(state, unit):
            if not request.check_only:
                notify(state, out, request, unit.key.unit, CANCELLED)


def expected_memory_bytes(state: State, unit: UnitState) -> int:
    """What a compiler of this unit is expected to need at its peak."""
    if unit.result is not None and unit.result.peak_memory_bytes:
        return unit.result.peak_memory_bytes
    remembered = state.remembered.get(unit.key.unit)
    return (remembered.peak_memory_bytes if remembered else 0) or COMPILER_MEMORY_BYTES


def _queue_compile(state: State, out: Effects, unit: UnitState) -> None:
    unit.phase = Phase.QUEUED
    state.compile_queue.add(unit.key, priority(state, unit))
    show(out, unit)
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
    unit.wanted = True
    unit.edited = state.next()


def _newest(cause: Cause) -> Cause:
    """The newest links of a story: it would grow with every start."""
    story: Cause | None = None
    for link in reversed(cause.chain[:LINKS_REMEMBERED]):
        story = Cause(link.what, link.at, story)
    return story or cause
