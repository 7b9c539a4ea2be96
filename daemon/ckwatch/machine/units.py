"""A unit's way from a new input to a settled state."""

from __future__ import annotations

from ckwatch.events import (
    MAIN,
    Cancel,
    Cause,
    Changed,
    CompileFacts,
    Effect,
    RenderFacts,
    Tell,
    UnitKey,
    Work,
    WorkKind,
)
from ckwatch.machine.queue import Priority
from ckwatch.machine.state import COMPILER_MEMORY_BYTES, BuildRequest, Phase, Scope, State, UnitState
from ckwatch.model.diagnostic import Diagnostic, Severity, Source
from ckwatch.model.kernel import Unit
from ckwatch.model.outcome import Outcome

Effects = list[Effect]


def priority(state: State, unit: UnitState) -> Priority:
    """Where the unit stands in a queue: looked at, asked for, edited, the rest; the most recently edited first."""
    name = unit.key.unit
    if any(name in focus.units for focus in state.focus.values()):
        rank = 0
    elif name in state.waiting and awaiting(state, unit):
        rank = 1
    else:
        rank = 2 if unit.edited else 3
    return (rank, -unit.edited, state.next())


def awaiting(state: State, unit: UnitState) -> list[BuildRequest]:
    """The requests that wait for this state of the unit."""
    name = unit.key.unit
    requests = [state.requests[request] for request in sorted(state.waiting.get(name, ()))]
    return [request for request in requests if state.seen(request.scope, name) is unit]


def is_wanted(state: State, unit: UnitState) -> bool:
    """Whether to compile the unit when the store does not have it."""
    return (
        unit.wanted
        or unit.force
        or state.build_everything
        or any(focus.everything or unit.key.unit in focus.units for focus in state.focus.values())
        or any(not request.check_only for request in awaiting(state, unit))
    )


def begin(state: State, kind: WorkKind, key: UnitKey, generation: int = 0, tokens: str = "", memory: int = 0) -> Work:
    """A new task, running from now on."""
    work = Work(state.next(), kind, key, generation, tokens, memory)
    state.running[work.number] = work
    return work


def stop(state: State, out: Effects, work: Work | None) -> None:
    """End a task; does nothing when it has ended or is ending."""
    if work is not None and work.number in state.running and work.number not in state.cancelled:
        state.cancelled.add(work.number)
        out.append(Cancel(work))


def release(state: State, work: Work) -> bool:
    """Note the end of a task; whether it ran to its end without being stopped."""
    del state.running[work.number]
    stopped = work.number in state.cancelled
    state.cancelled.discard(work.number)
    if state.recent:
        oldest = min(state.running, default=None)
        if oldest is None:
            state.recent.clear()
        else:
            state.recent = {path: change for path, change in state.recent.items() if change[0] > oldest}
    return not stopped


def create(
    state: State, out: Effects, scope: Scope, unit: Unit, cause: Cause, *, like: UnitState | None = None
) -> None:
    """A unit that is new in `scope`; `like` is the workspace's state of it, whose results are shown until there are
    others."""
    new = UnitState(UnitKey(scope.name, unit.id), unit, cause)
    if like is not None:
        new.render, new.result, new.reusable = like.render, like.result, like.reusable
        state.graph.set_reads(
            new.key, like.render.reads if like.render else {}, like.render.missed if like.render else frozenset()
        )
        state.graph.set_headers(new.key, like.result.headers if like.result else None)
    scope.units[unit.id] = new
    enter(state, out, new)


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
    unit.fresh = False
    if recompile:
        unit.reusable = False
        stop(state, out, unit.compiler)
        unit.compiler = None
    if edit:
        unit.edited = state.next()
        unit.wanted = True
    stop(state, out, unit.working)
    unit.working = None
    state.look_queue.remove(unit.key)
    state.compile_queue.remove(unit.key)
    enter(state, out, unit)


def remove(state: State, out: Effects, scope: Scope, name: str) -> None:
    """The unit is no more, or in a view: is seen as the workspace has it."""
    unit = scope.units.pop(name)
    for work in (unit.working, unit.compiler):
        stop(state, out, work)
    for queue in (state.render_queue, state.look_queue, state.compile_queue):
        queue.remove(unit.key)
    state.touched.pop(unit.key, None)
    state.graph.remove(unit.key)
    out.append(Changed(scope.name, f"unit/{name}"))
    out.extend(Changed(scope.name, f"file/{path}") for path in unit.shown)
    if scope.name == MAIN:
        state.removed[name] = None
        state.unrecorded.pop(name, None)
    reconsider(state, out, name)


def show(out: Effects, unit: UnitState) -> None:
    """Publish the unit's state and its diagnostics."""
    shown = frozenset(diagnostic.span.path for diagnostic in unit.diagnostics)
    out.append(Changed(unit.key.scope, f"unit/{unit.key.unit}"))
    out.extend(Changed(unit.key.scope, f"file/{path}") for path in shown | unit.shown)
    unit.shown = shown


def settle(state: State, out: Effects, unit: UnitState, phase: Phase, cause: Cause, problem: str | None = None) -> None:
    """There is nothing more to do for this input."""
    unit.phase = phase
    unit.cause = cause
    unit.fresh = True
    show(out, unit)
    for request in awaiting(state, unit):
        tell(state, out, request, unit.key.unit, None if request.check_only else problem)
    if unit.key.scope == MAIN and unit.render is not None and unit.render.ok:
        state.unrecorded[unit.key.unit] = None


def tell(state: State, out: Effects, request: BuildRequest, name: str, problem: str | None = None) -> None:
    """A unit that the request waits for is as it wanted it, or never will be."""
    requests = state.waiting[name]
    requests.discard(request.name)
    if not requests:
        del state.waiting[name]
    pending = request.pending or set()
    pending.discard(name)
    out.append(Tell(request.name, name, problem))
    if not pending:
        out.append(Tell(request.name, None))
        del state.requests[request.name]


def tell_checked(state: State, out: Effects, unit: UnitState) -> None:
    """Whoever asked for checks only need not wait for a compiler."""
    for request in awaiting(state, unit):
        if request.check_only:
            tell(state, out, request, unit.key.unit)


def reconsider(state: State, out: Effects, name: str) -> None:
    """Some scopes see another state of the unit, or none: tell those that need not wait any more."""
    for request in [state.requests[request] for request in sorted(state.waiting.get(name, ()))]:
        unit = state.seen(request.scope, name)
        if unit is None:
            tell(state, out, request, name, "removed")
        elif is_answered(state, request, unit):
            tell(state, out, request, name)


def is_answered(state: State, request: BuildRequest, unit: UnitState) -> bool:
    """Whether the unit's present state is what the request waits for."""
    if unit.key in state.touched or unit.force:
        return False
    if request.check_only and unit.phase in (Phase.QUEUED, Phase.COMPILING, Phase.IDLE):
        return True
    return unit.fresh and (unit.phase is Phase.DONE or (unit.phase is Phase.IDLE and not can_compile(state, unit)))


def can_compile(state: State, unit: UnitState) -> bool:
    """Whether there is a compiler."""
    workspace = state.scopes[unit.key.scope].workspace or state.main.workspace
    return workspace is None or workspace.toolchain_problem is None


def rendered(state: State, out: Effects, unit: UnitState, facts: RenderFacts, at: float) -> None:
    """A render has ended: errors, the tokens of before, or something that may have to be compiled."""
    before = unit.render is not None
    unit.render = facts
    if not before and unit.key.scope == MAIN:
        _compare_with_history(state, unit, facts, at)
    if not facts.ok:
        stop(state, out, unit.compiler)
        unit.compiler = None
        settle(state, out, unit, Phase.DONE, Cause("the template or the instance has errors", at, unit.cause))
        return
    if unit.compiler is not None:
        if unit.compiler.tokens == facts.tokens:
            unit.phase = Phase.COMPILING
            unit.cause = Cause("rendered with the same tokens: the compiler goes on", at, unit.cause)
            show(out, unit)
            tell_checked(state, out, unit)
            return
        stop(state, out, unit.compiler)
        unit.compiler = None
    if not can_compile(state, unit):
        settle(state, out, unit, Phase.IDLE, Cause("checked; there is no compiler", at, unit.cause), "no compiler")
        return
    result = unit.result
    if unit.force:
        _queue_compile(state, out, unit)
    elif result is not None and unit.reusable and result.quiet and result.tokens == facts.tokens:
        settle(state, out, unit, Phase.DONE, Cause("rendered with the same tokens: nothing to compile", at, unit.cause))
    else:
        unit.phase = Phase.LOOKING
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
    if unit.generation == work.generation or facts.outcome is Outcome.FAULTED:
        took = f"compiled in {facts.seconds:.1f} s: {facts.outcome}"
        take(state, out, unit, facts, Cause(took, at, unit.cause))
        return
    # Same tokens, other blanks: the messages have to be placed in the present text.
    unit.phase = Phase.LOOKING
    state.look_queue.add(unit.key, priority(state, unit))
    show(out, unit)


def take(state: State, out: Effects, unit: UnitState, facts: CompileFacts, cause: Cause) -> None:
    """The result of the present input."""
    unit.result = facts
    unit.reusable = facts.outcome is not Outcome.FAULTED
    unit.wanted = unit.force = False
    if facts.headers is not None:
        state.graph.set_headers(unit.key, facts.headers)
    settle(state, out, unit, Phase.DONE, cause)


def failed(state: State, out: Effects, unit: UnitState, work: Work, fault: str, at: float) -> None:
    """A task of the unit broke down without a result: our fault or the host's."""
    message = f"{fault}; this says nothing of the kernel and is tried again with the next edit or request"
    diagnostic = Diagnostic(Severity.ERROR, Source.HOST, "host/breakdown", message, unit.unit.instance.span)
    facts = CompileFacts(Outcome.FAULTED, work.tokens, diagnostics=(diagnostic,), finished_at=at)
    unit.working = unit.compiler = None
    if unit.render is not None and not unit.render.ok:
        unit.render = None
    take(state, out, unit, facts, Cause(f"{work.kind} broke down", at, unit.cause))


def want(state: State, out: Effects, unit: UnitState, cause: Cause) -> None:
    """Somebody wants the unit compiled: an idle one goes on; a place in a queue is looked at anew."""
    if unit.phase is Phase.IDLE and can_compile(state, unit) and is_wanted(state, unit):
        unit.cause = cause
        unit.fresh = False
        _queue_compile(state, out, unit)
    for queue in (state.render_queue, state.look_queue, state.compile_queue):
        if unit.key in queue:
            queue.add(unit.key, priority(state, unit))


def give_up(state: State, out: Effects, unit: UnitState, cause: Cause, problem: str) -> None:
    """Do not compile the unit until it is edited or asked for."""
    unit.wanted = unit.force = False
    state.compile_queue.remove(unit.key)
    stop(state, out, unit.compiler)
    unit.compiler = None
    if unit.phase in (Phase.QUEUED, Phase.COMPILING):
        settle(state, out, unit, Phase.IDLE, cause, problem)


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
    tell_checked(state, out, unit)


def _compare_with_history(state: State, unit: UnitState, facts: RenderFacts, at: float) -> None:
    remembered = state.remembered.get(unit.key.unit)
    if remembered is None or not facts.ok or remembered.tokens == facts.tokens:
        return
    changed = [path for path, digest in remembered.reads.items() if facts.reads.get(path) != digest]
    what = ", ".join(sorted(path.rsplit("/", 1)[-1] for path in changed)) or "the kernel file"
    unit.cause = Cause(f"{what} changed while the daemon was not running", at, remembered.cause)
    unit.wanted = True
    unit.edited = state.next()
