"""Beginning and ending tasks, and which changes of files running ones may have missed."""

from __future__ import annotations

from ckwatch.effects import Cancel
from ckwatch.events import UnitKey, Work, WorkKind
from ckwatch.machine.state import Effects, State


def begin(
    state: State,
    kind: WorkKind,
    key: UnitKey,
    generation: int = 0,
    tokens: str = "",
    memory: int = 0,
    *,
    exclusive: bool = False,
) -> Work:
    """A new task, running from now on."""
    work = Work(state.next(), kind, key, generation, tokens, memory, exclusive)
    state.running[work.number] = work
    return work


def stop(state: State, out: Effects, work: Work | None) -> None:
    """End a task; does nothing when it has ended or is ending."""
    if work is not None and work.number in state.running and work.number not in state.cancelled:
        state.cancelled.add(work.number)
        out.append(Cancel(work))


def release(state: State, work: Work) -> bool:
    """Note the end of a task; whether it ran to its end without being stopped."""
    oldest = min(state.running)
    del state.running[work.number]
    state.heirs.pop(work.number, None)
    stopped = work.number in state.cancelled
    state.cancelled.discard(work.number)
    state.narrow.discard(work.number)
    if not state.running:
        state.recent.clear()
    elif state.recent and work.number == oldest:
        oldest = min(state.running)
        state.recent = {path: change for path, change in state.recent.items() if change[0] > oldest}
    return not stopped
